"""Documents -> sentences -> sequences -> engine -> mentions -> documents, in order, a bounded number at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from biosmith.annotate.engines import Reader
from biosmith.annotate.reading import OnLong, Reading, TooLong, Words, lay_out, read_words
from biosmith.annotate.sequences import Scores
from biosmith.errors import BiosmithError, UsageError
from biosmith.rejects import Rejects
from biosmith.text.document import Document, Mention

__all__ = ["Annotator", "Counts", "OnLong", "Prepared", "Step", "TooLong", "chunked"]

# The look-ahead buffer, in which sequences are sorted by length: small at first, so that the first document comes soon.
FIRST_DOCUMENTS, MOST_DOCUMENTS = 8, 256
MOST_CHARACTERS = 500_000

log = logging.getLogger("biosmith")


@dataclass
class Counts:
    """What was done.

    Attributes:
        documents: annotated.
        mentions: found.
        failed: documents that could not be annotated.
        windows: sequences read, over all encoders; a sentence that fits is one.
        truncated: words that were not read because a sentence is too long (never, unless on_long is "truncate").
        clipped: words of more pieces than a model reads, of which only the beginning was read.
        tokens: pieces read, over all encoders, special tokens not counted.
        unknown: pieces that no vocabulary entry stands for.
        relations: found.
        unpaired: pairs of mentions that were not asked about, in sentences with more pairs than a list of names makes.
        linked: mentions that got an identifier.
        seconds: spent.
    """

    documents: int = 0
    mentions: int = 0
    failed: int = 0
    windows: int = 0
    truncated: int = 0
    clipped: int = 0
    tokens: int = 0
    unknown: int = 0
    relations: int = 0
    unpaired: int = 0
    linked: int = 0
    seconds: float = 0.0

    def add(self, other: Counts) -> None:
        """Add the counts of another part of the work."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


# What is done with documents when their mentions are known: links, relations, labels.
Step = Callable[[Sequence[Document], Counts], list[Document]]


@dataclass
class Prepared:
    """A chunk of documents, laid out for the engines."""

    documents: Sequence[Document]
    words: Words
    readings: list[Reading]


@dataclass
class Annotated:
    """What became of a chunk."""

    documents: list[Document]
    counts: Counts
    failures: list[dict[str, str]] = field(default_factory=list)


class Annotator:
    """One or several taggers over documents; made by `biosmith.load`.

    Attributes:
        readers: encoders with their engines; each of their heads adds its own mentions.
        on_long: what becomes of sentences longer than a model reads: overlapping "window"s, an "error" that fails the
            document, or "truncate", counted.
        keep: keep the mentions and relations that documents bring with them; else those of taggers take their place.
        normalise: read plain characters for their variants; see `normalising`.
        steps: what is done with documents when their mentions are known.
        counts: what `annotate` has done so far.
    """

    def __init__(
        self,
        readers: Sequence[Reader],
        *,
        on_long: OnLong = "window",
        keep: bool = False,
        normalise: bool = False,
        steps: Sequence[Step] = (),
    ) -> None:
        self.readers, self.on_long, self.keep, self.steps = list(readers), on_long, keep, list(steps)
        self.normalise = normalise
        self.counts = Counts()

    @property
    def taggers(self) -> list[str]:
        """Names of the taggers."""
        return [head.name for reader in self.readers for head in reader.heads]

    @property
    def engines(self) -> dict[str, str]:
        """Tagger -> its engine and why."""
        return {
            head.name: f"{reader.engine.name} ({reader.engine.reason})"
            for reader in self.readers
            for head in reader.heads
        }

    def annotate(
        self,
        documents: Document | str | Iterable[Document | str],
        *,
        rejects: Rejects | None = None,
    ) -> Iterator[Document]:
        """The documents with the mentions found in them, in the order given, as they are done.

        Args:
            documents: read as needed, a bounded number ahead. A text is a document whose id is its number, from 1; one
                document or text stands for a list of it.
            rejects: collects documents that could not be annotated, with the reason; None logs them.

        Raises:
            UsageError: one of them is neither a document nor a text.
        """
        collected = rejects if rejects is not None else Rejects()
        for done in self.annotate_chunks(chunked(_as_documents(documents))):
            self.counts.add(done.counts)
            for failed in done.failures:
                collected.add(failed["file"], failed["record"], failed["reason"])
            yield from done.documents
        if rejects is None and collected.count:
            first = collected.items[0]
            log.warning(
                "%d documents could not be annotated; the first is %s: %s",
                collected.count,
                first["record"],
                first["reason"],
            )

    def annotate_chunks(self, chunks: Iterable[Sequence[Document]]) -> Iterator[Annotated]:
        """What becomes of each chunk, in order; while an engine computes, the next chunk is read and laid out.

        The first chunk is given out before the second is read.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="engine") as pool:
            waiting: tuple[Sequence[Document], Prepared | None, Future[list[Scores]] | None] | None = None
            for number, chunk in enumerate(chunks):
                prepared = self._prepared(chunk)
                scores = None if prepared is None else pool.submit(self.score, prepared)
                if waiting is not None:
                    yield self._finished(*waiting)
                waiting = chunk, prepared, scores
                if number == 0:
                    yield self._finished(*waiting)
                    waiting = None
            if waiting is not None:
                yield self._finished(*waiting)

    def _prepared(self, chunk: Sequence[Document]) -> Prepared | None:
        """A chunk laid out; None if that fails, so that it is found out which document is to blame."""
        if not chunk:
            return None
        try:
            return self.prepare(chunk)
        except Exception:
            return None

    def _finished(
        self,
        chunk: Sequence[Document],
        prepared: Prepared | None,
        scores: Future[list[Scores]] | None,
    ) -> Annotated:
        began = time.perf_counter()
        before, self.counts = self.counts, Counts()
        rejects = Rejects(keep=len(chunk))
        try:
            done = None
            if prepared is not None and scores is not None:
                try:
                    done = self.finish(prepared, scores.result())
                except Exception:
                    self.counts = Counts()
            if done is None:
                done = self.annotate_chunk(chunk, rejects)
            self.counts.seconds = time.perf_counter() - began
            return Annotated(done, self.counts, rejects.items)
        finally:
            self.counts = before

    def annotate_chunk(self, documents: Sequence[Document], rejects: Rejects) -> list[Document]:
        """Annotate a few documents together; if that fails, one by one, so that only the guilty fail."""
        if not documents:
            return []
        began = time.perf_counter()
        before = Counts(**vars(self.counts))
        done: list[Document] = []
        try:
            prepared = self.prepare(documents)
            done = self.finish(prepared, self.score(prepared))
        except Exception as error:
            self.counts = before
            if len(documents) > 1:
                return [d for document in documents for d in self.annotate_chunk([document], rejects)]
            self.counts.failed += 1
            reason = str(error) if isinstance(error, BiosmithError) else f"{type(error).__name__}: {error}"
            rejects.add("annotate", documents[0].id, reason)
        self.counts.seconds += time.perf_counter() - began
        return done

    def prepare(self, documents: Sequence[Document]) -> Prepared:
        """Cut documents into words and lay them out for each engine.

        Raises:
            TooLong: a sentence does not fit, and `on_long` is "error".
        """
        words = read_words(documents, plain=self.normalise)
        readings = [
            lay_out(words, reader.cutter, reader.max_length, reader.stride, self.on_long)
            for reader in self.readers
        ]
        return Prepared(documents, words, readings)

    def score(self, prepared: Prepared) -> list[Scores]:
        """Each engine's scores."""
        return [
            reader.engine(reading.sequences)
            for reader, reading in zip(self.readers, prepared.readings, strict=True)
        ]

    def finish(self, prepared: Prepared, scores: Sequence[Scores]) -> list[Document]:
        """The documents with the mentions that scores mean, and what the steps add."""
        documents, words = prepared.documents, prepared.words
        found: list[list[Mention]] = [[] for _ in documents]
        several = len(self.taggers) > 1
        for reader, reading, given in zip(self.readers, prepared.readings, scores, strict=True):
            for head in reader.heads:
                source = head.name if several else ""
                for owner, mention in head.mentions(given, reading, words, documents, source):
                    found[owner].append(mention)
        done = [self._with(d, mentions) for d, mentions in zip(documents, found, strict=True)]
        for step in self.steps:
            done = step(done, self.counts)
        self._count(prepared, found)
        return done

    def _with(self, document: Document, mentions: list[Mention]) -> Document:
        keep = self.keep or not self.readers  # where nothing looks for mentions, nothing takes their place
        if keep or len(self.taggers) > 1:
            mentions = sorted(
                (*(document.mentions if keep else ()), *mentions), key=lambda m: (m.start, m.end, m.type)
            )
        relations = document.relations if keep else ()
        return Document(
            document.id, document.text, document.passages, tuple(mentions), relations, document.infons
        )

    def _count(self, prepared: Prepared, found: Sequence[Sequence[Mention]]) -> None:
        counts = self.counts
        counts.documents += len(found)
        counts.mentions += sum(map(len, found))
        for reading in prepared.readings:
            counts.windows += reading.windows
            counts.truncated += reading.truncated
            counts.clipped += reading.clipped
            counts.tokens += reading.tokens
            counts.unknown += reading.unknown


def chunked(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Runs of documents to annotate together, growing from a few to many, bounded in text."""
    chunk: list[Document] = []
    characters, size = 0, FIRST_DOCUMENTS
    for document in documents:
        chunk.append(document)
        characters += len(document.text)
        if len(chunk) >= size or characters >= MOST_CHARACTERS:
            yield chunk
            chunk, characters, size = [], 0, min(2 * size, MOST_DOCUMENTS)
    if chunk:
        yield chunk


def _as_documents(given: Document | str | Iterable[Document | str]) -> Iterator[Document]:
    for number, one in enumerate([given] if isinstance(given, Document | str) else given, 1):
        if isinstance(one, str):
            yield Document(str(number), one)
        elif isinstance(one, Document):
            yield one
        else:
            raise UsageError(
                f"item {number} is of type {type(one).__name__}; annotate takes texts, and documents as biosmith.read "
                "gives them"
            )
