"""Labels of whole documents: classifiers over the text, long ones window by window."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from biosmith.annotate.normalising import normalise
from biosmith.annotate.reading import OnLong, TooLong
from biosmith.errors import UsageError
from biosmith.text import sentences
from biosmith.text.document import Document

if TYPE_CHECKING:
    from biosmith.annotate.annotator import Counts
    from biosmith.tasks.fit_sequences import TunedSequences

KINDS = ("classification", "documents")


class ClassStep:
    """Writes the labels of one classifier into `document.infons[name]`; see `annotator.Step`.

    Several labels are joined by "|"; `name (score)` holds the probabilities in the same order. A text that does not fit
    is read in windows of whole sentences, and of parts of those that alone do not fit: a label of a multi-label model
    holds if it holds in a window, and the class of any other model is the one with the highest mean log-probability.
    `plain` reads `normalising.normalise` of the text.

    Raises:
        UsageError, BadInput: the folder is no classifier.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        on_long: OnLong = "window",
        device: str = "auto",
        *,
        plain: bool = False,
    ) -> None:
        from biosmith.tasks.fit_sequences import TunedSequences
        from biosmith.tasks.fitting import load_tuned

        tuned = load_tuned(folder, device)
        if not isinstance(tuned, TunedSequences) or tuned.kind not in KINDS:
            raise UsageError(f"{folder} was tuned for {tuned.kind}, not for classes of texts")
        self.name, self.on_long, self.plain = name, on_long, plain
        self.tuned: TunedSequences = tuned

    def __call__(self, documents: Sequence[Document], counts: Counts) -> list[Document]:
        """The documents with their labels."""
        from biosmith.tasks.instances import Instance

        windows: list[str] = []
        owners: list[int] = []
        for number, document in enumerate(documents):
            for window in self._windows(document):
                windows.append(window)
                owners.append(number)
        made = self.tuned.examples([Instance("", text, "") for text in windows])
        counts.truncated += sum(made.truncated)
        counts.windows += len(windows)
        scores = self.tuned.scores(made.examples).astype(np.float64)
        owner = np.array(owners, np.int64)
        return [self._with(d, scores[owner == number]) for number, d in enumerate(documents)]

    def _windows(self, document: Document) -> list[str]:
        text = document.text
        if self.plain and (normalised := normalise(text)) is not None:
            text = normalised.text
        if self.on_long == "truncate":
            return [text]
        room = self.tuned.max_length - self.tuned.transform.frame
        spans = sentences.split(text)
        sizes = self._sizes(text, spans)
        if sum(sizes) <= room:
            return [text]
        if self.on_long == "error":
            raise TooLong(
                f"document {document.id} has {sum(sizes):,} pieces, of which the model {self.name} reads {room:,}; "
                "read it in windows with --on-long window"
            )
        while max(sizes) > room:
            halves = [
                part
                for span, size in zip(spans, sizes, strict=True)
                for part in (_halves(text, *span) if size > room else [span])
            ]
            if len(halves) == len(spans):
                break
            spans, sizes = halves, self._sizes(text, halves)
        windows, start, filled = [], 0, 0
        for number, size in enumerate(sizes):
            if filled and filled + size > room:
                windows.append(text[spans[start][0] : spans[number - 1][1]])
                start, filled = number, 0
            filled += size
        return [*windows, text[spans[start][0] : spans[-1][1]]]

    def _sizes(self, text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
        """Pieces of each span."""
        return [len(p.ids) for p in self.tuned.transform.cut_texts([text[a:b] for a, b in spans])]

    def _with(self, document: Document, scores_WK: np.ndarray) -> Document:
        labels = self.tuned.outputs
        if self.tuned.kind == "documents":
            from biosmith.tasks.settings import SequenceSettings

            assert isinstance(self.tuned.settings, SequenceSettings)
            shares = (1 / (1 + np.exp(-scores_WK))).max(axis=0)
            chosen = np.flatnonzero(shares > self.tuned.settings.threshold)
        else:
            shifted = scores_WK - scores_WK.max(axis=1, keepdims=True)
            mean = (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).mean(axis=0)
            shares = np.exp(mean) / np.exp(mean).sum()
            chosen = shares.argmax(keepdims=True)
        infons = {
            **document.infons,
            self.name: "|".join(labels[i] for i in chosen),
            f"{self.name} (score)": "|".join(f"{shares[i]:.4f}" for i in chosen),
        }
        return dataclasses.replace(document, infons=infons)


def _halves(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """A span cut at the white space nearest to its middle; in the middle where there is none."""
    if end - start < 2:
        return [(start, end)]
    middle = (start + end) // 2
    blanks = [blank.start() for blank in re.finditer(r"\s+", text[start:end])]
    inside = [start + blank for blank in blanks if blank]
    cut = min(inside, key=lambda place: abs(place - middle), default=middle)
    return [(start, cut), (cut, end)]
