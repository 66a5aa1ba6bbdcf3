"""Documents with mentions as sentences with tags, and a report of the mentions that tags cannot say."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import find_file, find_folder, missing_split, no_instances
from biosmith.bench.kinds import Tagging
from biosmith.bench.spans import reported
from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.labels import (
    OUTSIDE,
    Span,
    guess_prediction_scheme,
    guess_scheme,
    read_spans,
    read_spans_strictly,
)
from biosmith.tasks.listed import find_listed, read_documents
from biosmith.tasks.metrics.entities import score_spans
from biosmith.tasks.tagged import TaggedSentence, sentence_words, tag_documents
from biosmith.text.document import Document, Mention
from biosmith.text.formats import mentions, offsets

# Faults of places: of these the documents themselves are whole.
OFFSETS = (mentions.DIFFERS, mentions.OUTSIDE, offsets.MISPLACED, offsets.MOVED, offsets.UNCOUNTED)

DISCONTINUOUS = "is discontinuous"
NO_WORD = "holds no word"
INSIDE_WORD = "begins or ends inside a word"
SENTENCES = "runs over the end of a sentence"
OVERLAPS = "overlaps another mention that is longer or comes first"


@dataclass(frozen=True)
class Untaggable:
    """A mention that tags on words cannot say exactly, and why."""

    document: str
    start: int
    end: int
    text: str
    type: str
    reason: str


@dataclass(frozen=True, slots=True)
class DocumentSentence(TaggedSentence):
    """A sentence of a document.

    Attributes:
        gold: the mentions that begin in it, in characters of the document: nested, overlapping and discontinuous ones
            too (those last as their hull under a type that no prediction has), whatever the tags say.
    """

    gold: tuple[Span, ...] = ()


class TaggedDocuments(list[DocumentSentence]):
    """The sentences of documents.

    Attributes:
        documents: ids, in order.
        untaggable: mentions that the tags do not say exactly; predictions by word can never find them.
        relations: how many relations the documents have.
    """

    def __init__(
        self,
        sentences: Iterable[DocumentSentence],
        documents: Sequence[str],
        untaggable: Sequence[Untaggable],
        relations: int = 0,
    ) -> None:
        super().__init__(sentences)
        self.documents, self.untaggable, self.relations = list(documents), list(untaggable), relations

    @property
    def mentions(self) -> int:
        """All mentions of the documents."""
        return sum(len(sentence.gold) for sentence in self)

    @property
    def reasons(self) -> Counter[str]:
        """Reason -> how many mentions are not tagged for it."""
        return Counter(mention.reason for mention in self.untaggable)


def tag(documents: Iterable[Document], paths: Sequence[Path]) -> TaggedDocuments:
    """Cut documents into sentences and words, tag the words, and say of every mention that is not tagged why.

    Sentences are found without a look at the mentions: in new text there are none to look at.
    """
    read = list(documents)
    tagged = tag_documents(read, list(paths))
    by_document: dict[int, list[TaggedSentence]] = {}
    for sentence in tagged.sentences:
        by_document.setdefault(sentence.document, []).append(sentence)
    sentences: list[DocumentSentence] = []
    untaggable: list[Untaggable] = []
    for number, document in enumerate(read):
        of_document = by_document.get(number, [])
        said = {span for s in of_document for span in _spans(s, read_spans(s.tags))}
        untaggable += _untaggable(document, said)
        sentences += _with_gold(of_document, (tagged.gold or [])[number])
    relations = sum(len(document.relations) for document in read)
    return TaggedDocuments(sentences, [document.id for document in read], untaggable, relations)


def _spans(sentence: TaggedSentence, spans: Iterable[Span]) -> list[Span]:
    """Spans of words as spans of characters."""
    if sentence.offsets is None:
        raise ValueError(f"the words of {sentence.file}, {sentence.line} have no places in the document")
    return [Span(sentence.offsets[a][0], sentence.offsets[b - 1][1], type) for a, b, type in spans]


def _with_gold(sentences: Sequence[TaggedSentence], gold: Sequence[Span]) -> list[DocumentSentence]:
    """Give each mention to the last sentence that begins before it does, or to the first."""
    starts = [s.offsets[0][0] for s in sentences if s.offsets]
    given: list[list[Span]] = [[] for _ in sentences]
    for span in gold:
        if sentences:
            given[max(bisect.bisect_right(starts, span.start) - 1, 0)].append(span)
    return [
        DocumentSentence(s.words, s.tags, s.file, s.line, s.offsets, s.document, tuple(spans))
        for s, spans in zip(sentences, given, strict=True)
    ]


def _untaggable(document: Document, said: set[Span]) -> list[Untaggable]:
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    for number, words in enumerate(sentence_words(document)):
        starts |= {a: number for a, _ in words}
        ends |= {b: number for _, b in words}
    left = set(said)
    found = []
    for mention in document.mentions:
        reason = _reason(mention, starts, ends, left)
        if reason:
            found.append(
                Untaggable(document.id, mention.start, mention.end, mention.text, mention.type, reason)
            )
    return found


def _reason(mention: Mention, starts: dict[int, int], ends: dict[int, int], left: set[Span]) -> str:
    span = Span(mention.start, mention.end, mention.type)
    if len(mention.fragments) > 1:
        return DISCONTINUOUS
    if span in left:
        left.remove(span)  # a second mention of the same place and type cannot be said again
        return ""
    if not mention.text.strip():
        return NO_WORD
    if mention.start not in starts or mention.end not in ends:
        return INSIDE_WORD
    return SENTENCES if starts[mention.start] != ends[mention.end] else OVERLAPS


@dataclass(frozen=True)
class DocumentTagging(Tagging):
    """Documents with mentions (PubTator, BioC, brat), tagged by word and scored by their mentions in characters.

    Every gold mention counts: one that tags cannot say is missed. Where no file is named after a split, lists of ids may
    say which documents are in it (see `tasks.listed`).

    Attributes:
        names_of: split -> names its file may have, best first.
    """

    names_of: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())

    def find(self, data: Path) -> dict[str, list[Path]]:
        """See `Dataset`."""
        try:
            folder = find_folder(self.about, data, [n for _, names in self.names_of for n in names])
        except UsageError:
            folders = (data, *(data / name for name in self.about.folders))
            listed = (find_listed(folder) for folder in folders if folder.is_dir())
            if by_list := next(filter(None, listed), None):
                return by_list
            raise
        found = {s: next((f for n in ns if (f := find_file(folder, n))), None) for s, ns in self.names_of}
        return {split: [path] for split, path in found.items() if path is not None}

    def load(self, data: Path, split: str, rejects: Rejects | None = None) -> TaggedDocuments:
        """See `Dataset`; the text of a document wins over what a mention says of it, and that is only reported.

        Whatever else is wrong with the files (one that ends in the middle, a document that cannot be read) raises.
        """
        found = self.find(data)
        if split not in found:
            raise missing_split(self.about, split, found)
        with reported(self.about.name, rejects) as faults:
            tagged = tag(read_documents(found[split], faults), found[split])
            lost = next((item for item in faults.items if item["reason"] not in OFFSETS), None)
            if rejects is None and lost is not None:
                raise BadInput(lost["file"], lost["reason"], record=lost["record"], value=lost.get("value"))
        if not tagged and (rejects is None or not faults.count):
            raise no_instances(self.about, found[split])
        return tagged

    def count(self, instances: Sequence[TaggedSentence]) -> dict[str, int]:
        """Sentences, documents, words with a tag, all mentions, those that the tags say exactly, and relations."""
        counts = {
            "instances": len(instances),
            "words": sum(tag != OUTSIDE for s in instances for tag in s.tags),
            "documents": len({s.line for s in instances}),
            "mentions": sum(len(_gold(s)) for s in instances),
        }
        if isinstance(instances, TaggedDocuments):
            counts["tagged"] = counts["mentions"] - len(instances.untaggable)
            counts["relations"] = instances.relations
        return counts

    def score(self, instances: Sequence[TaggedSentence], predictions: Sequence[Any]) -> dict[str, Any]:
        """See `Dataset`; a prediction is a list of tags, one a word of the sentence."""
        by_tags = super().score(instances, predictions)
        gold = [_gold(s) for s in instances]
        scheme = guess_prediction_scheme(
            {tag for tags in predictions for tag in tags},
            guess_scheme({tag for s in instances for tag in s.tags}),
        )
        pairs = list(zip(instances, predictions, strict=True))
        report = score_spans(gold, (_spans(s, read_spans(tags)) for s, tags in pairs))
        strict = score_spans(gold, (_spans(s, read_spans_strictly(tags, scheme)) for s, tags in pairs))
        return {
            "value": report.overall.f1,
            **report.as_dict(),
            "strict": strict.overall.as_dict(),
            "tags": {key: by_tags[key] for key in ("precision", "recall", "f1")},
        }


def _gold(sentence: TaggedSentence) -> Sequence[Span]:
    if isinstance(sentence, DocumentSentence):
        return sentence.gold
    return _spans(sentence, read_spans(sentence.tags))
