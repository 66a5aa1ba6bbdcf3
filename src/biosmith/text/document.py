"""The one document model. Offsets are Unicode code points, absolute in the document, end exclusive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

# Characters between passages, where they are more than those in them; an offset of a billion in a small file must not
# fill the memory.
MOST_GAPS = 2**20

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a document's text: a title, a section of an abstract, a paragraph.

    Attributes:
        kind: "title", "abstract", "paragraph", or the kind the source names ("fig_caption", "table", ...).
        text: the text itself.
        offset: where `text` begins in the document.
        label: the section's label or heading ("METHODS"), empty if there is none; not part of `text`.
        infons: whatever else the source says of the passage.
    """

    kind: str
    text: str
    offset: int = 0
    label: str = ""
    infons: Mapping[str, str] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Where the passage ends in the document, exclusive."""
        return self.offset + len(self.text)


@dataclass(frozen=True, slots=True)
class Mention:
    """A named thing at a place in the text.

    Attributes:
        start, end: first and past-the-last code point, absolute in the document; the hull of `fragments`.
        text: the document's text of the fragments, joined by one space if there are several.
        type: "Chemical", "Disease", ...; empty if the source has no types.
        score: probability, None if it is gold.
        ids: concept identifiers; more than one for composite mentions and ambiguous links.
        fragments: the parts of a discontinuous mention; one (start, end) pair otherwise.
        id: name of the mention within its document, for relations; empty if it has none.
        infons: whatever else the source says of the mention.
    """

    start: int
    end: int
    text: str
    type: str = ""
    score: float | None = None
    ids: tuple[str, ...] = ()
    fragments: tuple[tuple[int, int], ...] = ()
    id: str = ""
    infons: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.fragments:
            object.__setattr__(self, "fragments", ((self.start, self.end),))


@dataclass(frozen=True, slots=True)
class Argument:
    """One side of a relation: the role, and the id of a mention or of a concept."""

    role: str
    target: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A typed link between mentions (by `Mention.id`) or between concepts (by identifier)."""

    type: str
    arguments: tuple[Argument, ...]
    score: float | None = None
    id: str = ""
    infons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """One citation, article or sentence: passages in order of offset, mentions and relations over them.

    `text` holds the passages at their offsets; the gaps between them are spaces, in every format.
    Make one with `Document.build` where offsets still have to be laid out.
    """

    id: str
    text: str
    passages: tuple[Passage, ...] = ()
    mentions: tuple[Mention, ...] = ()
    relations: tuple[Relation, ...] = ()
    infons: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def build(
        id: str,
        passages: Iterable[Passage],
        mentions: Iterable[Mention] = (),
        relations: Iterable[Relation] = (),
        infons: Mapping[str, str] | None = None,
    ) -> Document:
        """Lay passages out one after another, one space apart, ignoring the offsets they carry.

        The title and abstract of a citation end up joined by one character, as PubTator and BioC count.
        """
        laid, parts, position = [], [], 0
        for passage in passages:
            if passage.offset != position:  # written out, for `replace` costs three times as much
                passage = Passage(passage.kind, passage.text, position, passage.label, passage.infons)
            laid.append(passage)
            parts.append(passage.text)
            position += len(passage.text) + 1
        return Document(id, " ".join(parts), tuple(laid), tuple(mentions), tuple(relations), infons or {})

    @staticmethod
    def at_offsets(
        id: str,
        passages: Iterable[Passage],
        mentions: Iterable[Mention] = (),
        relations: Iterable[Relation] = (),
        infons: Mapping[str, str] | None = None,
    ) -> Document:
        """Keep the offsets that the passages carry; gaps are filled with spaces.

        Raises:
            ValueError: passages overlap or are out of order, or lie absurdly far apart.
        """
        laid, parts, position, gap, size = tuple(passages), [], 0, 0, 0
        for passage in laid:
            if passage.offset < position:
                raise ValueError(
                    f"passage at {passage.offset} begins before the end of the one before it ({position})"
                )
            gap += passage.offset - position
            size += len(passage.text)
            if gap > max(MOST_GAPS, size):
                raise ValueError(
                    f"passages leave gaps of more than {MOST_GAPS:,} characters (offset {passage.offset})"
                )
            parts.append(" " * (passage.offset - position))
            parts.append(passage.text)
            position = passage.end
        return Document(id, "".join(parts), laid, tuple(mentions), tuple(relations), infons or {})

    def passage_at(self, start: int, end: int | None = None) -> Passage | None:
        """The passage that holds the position (or the whole span), None if no single passage does."""
        for passage in self.passages:
            if passage.offset <= start and (start if end is None else end) <= passage.end:
                return passage
        return None

    def mismatches(self) -> Iterator[Mention]:
        """Mentions whose text is not the document's text at their fragments."""
        for mention in self.mentions:
            if mention.text != fragment_text(self.text, mention.fragments):
                yield mention


def fragment_text(text: str, fragments: Sequence[tuple[int, int]]) -> str:
    """The text under the fragments, joined by one space."""
    return " ".join(text[start:end] for start, end in fragments)
