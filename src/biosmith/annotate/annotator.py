"""Documents -> sentences -> windows -> engine -> mentions -> documents, in order, a bounded number at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from biosmith.errors import BiosmithError
from biosmith.rejects import Rejects
from biosmith.tasks.inputs import Pieces
from biosmith.tasks.labels import read_spans
from biosmith.tasks.tagged import sentence_words
from biosmith.tasks.tagging import Tagged, Tagger
from biosmith.text.document import Document, Mention

OnLong = Literal["window", "error", "truncate"]

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
        windows: sequences read, over all models; a sentence that fits is one.
        truncated: words that were not read because a sentence is too long (never, unless on_long is "truncate").
        tokens: pieces read, over all models, special tokens not counted.
        seconds: spent.
    """

    documents: int = 0
    mentions: int = 0
    failed: int = 0
    windows: int = 0
    truncated: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def add(self, other: Counts) -> None:
        """Add the counts of another part of the work."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class TooLong(BiosmithError):
    """A sentence does not fit a model, and on_long is "error"."""


class Annotator:
    """One or several taggers over documents; made by `biosmith.load`.

    Attributes:
        taggers: name -> tagger; each adds its own mentions.
        on_long: what becomes of sentences longer than a model reads: overlapping "window"s, an "error" that fails the
            document, or "truncate", counted.
        keep: keep the mentions and relations that documents bring with them; else they are replaced.
        counts: what `annotate` has done so far.
    """

    def __init__(self, taggers: dict[str, Tagger], *, on_long: OnLong = "window", keep: bool = False) -> None:
        self.taggers, self.on_long, self.keep = taggers, on_long, keep
        self.counts = Counts()

    def annotate(
        self, documents: Iterable[Document], *, rejects: Rejects | None = None
    ) -> Iterator[Document]:
        """The documents with the mentions found in them, in the order given, as they are done.

        Args:
            documents: read as needed, a bounded number ahead.
            rejects: collects documents that could not be annotated, with the reason; None logs them.
        """
        collected = rejects if rejects is not None else Rejects()
        for chunk in chunked(documents):
            yield from self.annotate_chunk(chunk, collected)
        if rejects is None and collected.count:
            first = collected.items[0]
            log.warning(
                "%d documents could not be annotated; the first is %s: %s",
                collected.count,
                first["record"],
                first["reason"],
            )

    def annotate_chunk(self, documents: Sequence[Document], rejects: Rejects) -> list[Document]:
        """Annotate a few documents together; if that fails, one by one, so that only the guilty fail."""
        began = time.perf_counter()
        before = Counts(**vars(self.counts))
        done: list[Document] = []
        try:
            done = self._annotate(documents)
        except Exception as error:
            self.counts = before
            if len(documents) > 1:
                return [d for document in documents for d in self.annotate_chunk([document], rejects)]
            self.counts.failed += 1
            reason = str(error) if isinstance(error, BiosmithError) else f"{type(error).__name__}: {error}"
            rejects.add("annotate", documents[0].id, reason)
        self.counts.seconds += time.perf_counter() - began
        return done

    def _annotate(self, documents: Sequence[Document]) -> list[Document]:
        words = [list(sentence_words(document)) for document in documents]
        sentences = [s for of_document in words for s in of_document]
        texts = [
            [_readable(document.text[a:b]) for a, b in sentence]
            for document, of_document in zip(documents, words, strict=True)
            for sentence in of_document
        ]
        found: list[list[Mention]] = [[] for _ in documents]
        owner = np.repeat(np.arange(len(documents)), [len(w) for w in words])
        cut_by: dict[str, list[Pieces]] = {}
        for name, tagger in self.taggers.items():
            # Taggers with one vocabulary share the work of cutting words.
            vocabulary = tagger.transform.digest
            if vocabulary not in cut_by:
                cut_by[vocabulary] = tagger.transform.cut_words(texts)
            pieces = cut_by[vocabulary]
            if self.on_long == "error":
                self._refuse_long(tagger, pieces, owner, documents)
            tagged = tagger.tag_pieces(pieces, "truncate" if self.on_long == "truncate" else "window")
            for i, (sentence, cut, result) in enumerate(zip(sentences, pieces, tagged, strict=True)):
                self._count(cut, result)
                source = name if len(self.taggers) > 1 else ""
                found[owner[i]] += _mentions(documents[owner[i]].text, sentence, tagger, result, source)
        return [self._finish(d, mentions) for d, mentions in zip(documents, found, strict=True)]

    def _refuse_long(
        self, tagger: Tagger, pieces: Sequence[Pieces], owner: Any, documents: Sequence[Document]
    ) -> None:
        room = tagger.max_length - tagger.transform.frame
        for cut, document in zip(pieces, owner, strict=True):
            if len(cut.ids) > room:
                raise TooLong(
                    f"a sentence of {len(cut.ids):,} pieces in document {documents[document].id} does not fit the "
                    f"{room:,} that the model reads; read it in windows with --on-long window"
                )

    def _count(self, cut: Pieces, result: Tagged) -> None:
        self.counts.windows += result.windows
        self.counts.truncated += result.truncated
        self.counts.tokens += len(cut.ids)

    def _finish(self, document: Document, mentions: list[Mention]) -> Document:
        self.counts.documents += 1
        self.counts.mentions += len(mentions)
        kept = document.mentions if self.keep else ()
        together = sorted((*kept, *mentions), key=lambda m: (m.start, m.end, m.type))
        return replace(
            document,
            mentions=tuple(together),
            relations=document.relations if self.keep else (),
        )


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


def _readable(word: str) -> str:
    """Lone surrogates, which no tokenizer takes, as U+FFFD; offsets are those of the text itself in any case."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in word)
    return word


def _mentions(
    text: str, words: Sequence[tuple[int, int]], tagger: Tagger, result: Tagged, source: str
) -> Iterator[Mention]:
    """The mentions of one sentence; their score is the mean probability of their words' labels."""
    if not result.labels.any() and tagger.outside == 0:
        return
    for first, end, type in read_spans(tagger.tags(result)):
        a, b = words[first][0], words[end - 1][1]
        score = float(result.probabilities[first:end].mean())
        yield Mention(a, b, text[a:b], type, score, infons={"model": source} if source else {})
