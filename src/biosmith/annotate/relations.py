"""Relations between mentions: a tagger's mentions, pair by pair, through a model tuned for relations.

A pair is two mentions of one sentence. The sentence goes in as the model was trained: with dummies for the mentions,
with markers around them, or as it is (`biosmith.tasks.relations`).
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from biosmith.errors import UsageError
from biosmith.text import sentences
from biosmith.text.document import Argument, Document, Mention, Relation

if TYPE_CHECKING:
    from biosmith.annotate.annotator import Counts
    from biosmith.tasks.fit_sequences import TunedSequences
    from biosmith.tasks.instances import Instance

# Labels that say "no relation", in the benchmarks' spellings.
NEGATIVE = frozenset(
    ("0", "false", "none", "no", "negative", "no_relation", "norelation", "not", "ddi-false", "other", "na")
)
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
            that type by another name; None takes any two, in order of place.
        device: for torch.

    Raises:
        UsageError, BadInput: the folder is no such model.
    """

    def __init__(
        self, name: str, folder: Path, types: tuple[str, str] | None = None, device: str = "auto"
    ) -> None:
        from biosmith.tasks.fit_sequences import TunedSequences
        from biosmith.tasks.fitting import load_tuned

        tuned = load_tuned(folder, device)
        if not isinstance(tuned, TunedSequences) or tuned.kind != "relation":
            raise UsageError(f"{folder} was tuned for {tuned.kind}, not for relations")
        self.name = name
        self.types = None if types is None else (types[0].partition("=")[0], types[1].partition("=")[0])
        # Training data names types in capitals (@GENE$, @CHEMICAL$).
        self.known_as = {
            type: other or type.upper() for type, _, other in (t.partition("=") for t in types or ())
        }
        self.tuned: TunedSequences = tuned

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
            if type.casefold() not in NEGATIVE:
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
        types = self.types or (None, None)
        first, second = (
            Counter((m.start, m.end) for m in mentions if type in (None, m.type)) for type in types
        )
        if types[0] == types[1]:
            return math.comb(first.total(), 2) - sum(math.comb(n, 2) for n in first.values())
        return first.total() * second.total() - sum(n * second[place] for place, n in first.items())

    def _ordered(self, a: int, b: int, mentions: Sequence[Mention]) -> Iterator[tuple[int, int]]:
        """The pair in the order in which the model takes its types."""
        if self.types is None or (mentions[a].type, mentions[b].type) == self.types:
            yield a, b
        elif (mentions[b].type, mentions[a].type) == self.types:
            yield b, a

    def _instance(self, document: Document, pair: Pair) -> Instance:
        from biosmith.tasks.instances import Entity, Instance

        entities = tuple(
            Entity(m.start - pair.start, m.end - pair.start, self.known_as.get(m.type, m.type.upper()))
            for m in (document.mentions[pair.first], document.mentions[pair.second])
        )
        return Instance(document.id, document.text[pair.start : pair.end], "", entities=entities)

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


def _sentences(document: Document) -> list[tuple[int, int]]:
    """Spans of sentences in the document, as the taggers read them."""
    passages = [(p.offset, p.text) for p in document.passages] or [(0, document.text)]
    return [(offset + a, offset + b) for offset, text in passages for a, b in sentences.split(text)]
