"""Relations between mentions: a tagger's mentions, pair by pair, through a model tuned for relations.

A pair is two mentions of one sentence. The sentence goes in as the model was trained: with dummies for the mentions,
with markers around them, or as it is (`biosmith.tasks.relations`).
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from biosmith.annotate.normalising import normalise
from biosmith.errors import UsageError
from biosmith.text import sentences
from biosmith.text.document import Argument, Document, Mention, Relation

if TYPE_CHECKING:
    from biosmith.annotate.annotator import Counts
    from biosmith.tasks.fit_sequences import TunedSequences
    from biosmith.tasks.instances import Instance

# Labels that say "no relation", in the benchmarks' spellings without case, spaces and punctuation.
NEGATIVE = frozenset(("0", "false", "none", "no", "negative", "norelation", "not", "ddifalse", "other", "na"))
MOST_PAIRS = 300  # of one sentence: a list of fifty genes is no statement about each two of them


@dataclass(frozen=True)
class Pair:
    """Two mentions of a document, by number, and the sentence that holds them."""

    document: int
    first: int
    second: int
    start: int
    end: int


class RelationStep:
    """Adds the relations that one model finds; see `annotator.Step`.

    Args:
        name: of the model; in the relations' infons where there are several.
        folder: a model tuned for relations.
        types: types of first and second mention, as the tagger names them, or as `Chemical=DRUG` where the model knows
            that type by another name; None takes any two that its training data pairs, in order of place.
        device: for torch.
        plain: read `normalising.normalise` of the text.

    Raises:
        UsageError: the folder is no such model, or its training data pairs other types.
        BadInput: it is damaged.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        types: tuple[str, str] | None = None,
        device: str = "auto",
        *,
        plain: bool = False,
    ) -> None:
        from biosmith.tasks.fit_sequences import TunedSequences
        from biosmith.tasks.fitting import load_tuned

        tuned = load_tuned(folder, device)
        if not isinstance(tuned, TunedSequences) or tuned.kind != "relation":
            raise UsageError(f"{folder} was tuned for {tuned.kind}, not for relations")
        self.name, self.plain = name, plain
        self.types = None if types is None else (types[0].partition("=")[0], types[1].partition("=")[0])
        self.tuned: TunedSequences = tuned
        self.learnt = frozenset(tuned.pairs)  # none where the folder does not say, or the model sees no types
        self.known_as = {type: other for type, _, other in (t.partition("=") for t in types or ()) if other}
        self.spelt = {type.casefold(): type for pair in tuned.pairs for type in pair}
        if self.types is not None and not self._is_learnt(*self.types):
            shown = " and ".join(map(self._known_as, self.types))
            valid = ", ".join(" and ".join(pair) for pair in tuned.pairs)
            raise UsageError(f"pairs: {name} was tuned with no pairs of {shown}; valid: {valid}")

    def __call__(self, documents: Sequence[Document], counts: Counts) -> list[Document]:
        """The documents with relations added; mentions without an id get one."""
        pairs = [p for number, d in enumerate(documents) for p in self._pairs(number, d, counts)]
        if not pairs:
            return list(documents)
        made = self.tuned.examples([self._instance(documents[p.document], p) for p in pairs])
        counts.truncated += sum(made.truncated)
        scores = self.tuned.scores(made.examples).astype(np.float64)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        best = shares.argmax(axis=1)
        found: dict[int, list[tuple[Pair, str, float]]] = {}
        for pair, label, share in zip(pairs, best.tolist(), shares.max(axis=1).tolist(), strict=True):
            type = self.tuned.outputs[label]
            if not is_negative(type):
                found.setdefault(pair.document, []).append((pair, type, share))
        counts.relations += sum(map(len, found.values()))
        return [
            self._with(document, found[number]) if number in found else document
            for number, document in enumerate(documents)
        ]

    def _pairs(self, number: int, document: Document, counts: Counts) -> Iterator[Pair]:
        mentions = document.mentions
        if len(mentions) < 2:
            return
        spans = _sentences(document)
        starts = [start for start, _ in spans]
        inside: dict[int, list[int]] = {}
        for index, mention in enumerate(mentions):
            sentence = bisect.bisect_right(starts, mention.start) - 1
            if sentence >= 0 and mention.end <= spans[sentence][1] and len(mention.fragments) == 1:
                inside.setdefault(sentence, []).append(index)
        for sentence, members in inside.items():
            count = self._count_pairs([mentions[i] for i in members])
            if not 0 < count <= MOST_PAIRS:
                counts.unpaired += count
                continue
            for a, b in itertools.combinations(members, 2):
                if (mentions[a].start, mentions[a].end) != (mentions[b].start, mentions[b].end):
                    for first, second in self._ordered(a, b, mentions):
                        yield Pair(number, first, second, *spans[sentence])

    def _count_pairs(self, mentions: Sequence[Mention]) -> int:
        """How many pairs would be asked about; counted without making them, for there may be millions."""
        if self.types is not None:
            return _count(mentions, *self.types)
        if not self.learnt:
            return _count(mentions, None, None)
        types = itertools.combinations_with_replacement(sorted({m.type for m in mentions}), 2)
        return sum(_count(mentions, one, other) for one, other in types if self._is_learnt(one, other))

    def _ordered(self, a: int, b: int, mentions: Sequence[Mention]) -> Iterator[tuple[int, int]]:
        """The pair in the order in which the model takes its types; nothing where it does not take them."""
        types = mentions[a].type, mentions[b].type
        if types == self.types or (self.types is None and self._is_learnt(*types)):
            yield a, b
        elif types[::-1] == self.types:
            yield b, a

    def _is_learnt(self, one: str, other: str) -> bool:
        """Whether the model may be asked about mentions of two types: what it has never seen it can only make up."""
        first, second = sorted((self._known_as(one), self._known_as(other)))
        return not self.learnt or (first, second) in self.learnt

    def _instance(self, document: Document, pair: Pair) -> Instance:
        from biosmith.tasks.instances import Entity, Instance

        text = document.text[pair.start : pair.end]
        entities = [
            Entity(m.start - pair.start, m.end - pair.start, self._known_as(m.type))
            for m in (document.mentions[pair.first], document.mentions[pair.second])
        ]
        if self.plain and (normalised := normalise(text)) is not None:
            text = normalised.text
            entities = [Entity(*normalised.find(e.start, e.end), e.type) for e in entities]
        return Instance(document.id, text, "", entities=tuple(entities))

    def _known_as(self, type: str) -> str:
        """How the model's training data spells a type; in capitals (@GENE$) where its folder does not say."""
        return self.known_as.get(type) or self.spelt.get(type.casefold(), type.upper())

    def _with(self, document: Document, found: Sequence[tuple[Pair, str, float]]) -> Document:
        taken = {m.id for m in document.mentions if m.id}
        free = (name for name in (f"T{n}" for n in itertools.count(1)) if name not in taken)
        mentions = tuple(m if m.id else dataclasses.replace(m, id=next(free)) for m in document.mentions)
        names = {r.id for r in document.relations}
        numbers = (name for name in (f"R{n}" for n in itertools.count(1)) if name not in names)
        relations = tuple(
            Relation(
                type,
                (Argument("Arg1", mentions[pair.first].id), Argument("Arg2", mentions[pair.second].id)),
                share,
                next(numbers),
                {"model": self.name},
            )
            for pair, type, share in found
        )
        return dataclasses.replace(document, mentions=mentions, relations=(*document.relations, *relations))


def is_negative(label: str) -> bool:
    """Whether a label says that there is no relation: `false`, `no relation`, `DDI-false`, ..."""
    return re.sub(r"[\W_]+", "", label.casefold()) in NEGATIVE


def _count(mentions: Sequence[Mention], one: str | None, other: str | None) -> int:
    """Pairs of mentions of two types (None: of any) at different places."""
    first, second = (
        Counter((m.start, m.end) for m in mentions if type in (None, m.type)) for type in (one, other)
    )
    if one == other:
        return math.comb(first.total(), 2) - sum(math.comb(n, 2) for n in first.values())
    return first.total() * second.total() - sum(n * second[place] for place, n in first.items())


def _sentences(document: Document) -> list[tuple[int, int]]:
    """Spans of sentences in the document, as the taggers read them."""
    passages = [(p.offset, p.text) for p in document.passages] or [(0, document.text)]
    return [(offset + a, offset + b) for offset, text in passages for a, b in sentences.split(text)]
