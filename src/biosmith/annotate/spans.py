"""Scores of words to mentions: the best legal labels, and the spans that they mean, for a chunk of documents at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from biosmith.annotate.reading import Reading, Words
from biosmith.annotate.sequences import Places, Scores, ragged
from biosmith.tasks.decoding import Chain, decode, log_softmax
from biosmith.tasks.labels import OUTSIDE, LabelSet, split_tag
from biosmith.text.document import Document, Mention


@dataclass(frozen=True)
class Head:
    """What one tagger makes of the scores of an encoder.

    Attributes:
        name: of the tagger.
        label_set: its labels, in the order of its outputs.
        columns: which of the engine's outputs are its own.
        chain: scores of a CRF, None without one.
    """

    name: str
    label_set: LabelSet
    columns: slice
    chain: Chain | None = None

    @cached_property
    def _parsed(self) -> list[tuple[str, str]]:
        return [split_tag(label) for label in self.label_set.labels]

    @cached_property
    def outside(self) -> int:
        """The label of words outside mentions."""
        return self.label_set.index()[OUTSIDE]

    @cached_property
    def types(self) -> list[str]:
        """Types of mentions."""
        return self.label_set.types

    @cached_property
    def _type_of(self) -> NDArray[np.int64]:
        return np.array([self.types.index(t) if p != OUTSIDE else -1 for p, t in self._parsed])

    @cached_property
    def _goes_on(self) -> NDArray[np.bool_]:
        """Labels that continue the mention before them."""
        return np.array([p in ("I", "E") for p, _ in self._parsed])

    @cached_property
    def _open(self) -> NDArray[np.bool_]:
        """Labels behind which a mention may continue."""
        return np.array([p in ("B", "I") for p, _ in self._parsed])

    @cached_property
    def _inside(self) -> dict[int, int]:
        """Type -> its label inside a mention."""
        return {int(self._type_of[i]): i for i, (p, _) in enumerate(self._parsed) if p == "I"}

    def label(self, scores: Scores, reading: Reading, words: Words) -> tuple[Places, NDArray[np.float32]]:
        """The label of each word [W] and its probability; words that were not read are outside."""
        count = len(words.texts)
        labels = np.full(count, self.outside, np.int64)
        probabilities = np.ones(count, np.float32)
        if len(reading.words):
            log_probabilities = log_softmax(scores[reading.rows, self.columns])
            lengths = np.diff(np.searchsorted(reading.words, words.begins))
            found = self._best(log_probabilities, lengths)
            labels[reading.words] = found
            probabilities[reading.words] = np.exp(log_probabilities[np.arange(len(found)), found])
            if len(reading.words) < count:
                self._bridge(labels, reading.words, words)
        return labels, probabilities

    def _best(self, log_probabilities: Scores, lengths: Places) -> Places:
        """The best legal path; without a CRF only sentences whose likeliest labels are not legal need a search."""
        transitions = self.label_set.transitions()
        if self.chain is not None:
            return decode(log_probabilities, lengths, transitions, self.chain)
        labels = log_probabilities.argmax(axis=1)
        lengths = lengths[lengths > 0]
        ends = np.cumsum(lengths)
        firsts = ends - lengths
        legal = transitions.begins[labels[firsts]] & transitions.ends[labels[ends - 1]]
        step = transitions.follows[labels[:-1], labels[1:]]
        step[ends[:-1] - 1] = True  # from one sentence to the next
        legal &= np.logical_and.reduceat(np.append(step, True), firsts)
        wrong = np.flatnonzero(~legal)
        if len(wrong):
            rows = ragged(firsts[wrong], lengths[wrong])
            labels[rows] = decode(log_probabilities[rows], lengths[wrong], transitions)
        return labels

    def _bridge(self, labels: Places, read: Places, words: Words) -> None:
        """Words without pieces inside a mention belong to it."""
        a, b = read[:-1], read[1:]
        gaps = (b - a > 1) & self._goes_on[labels[b]] & (labels[a] != self.outside)
        if not gaps.any():
            return
        sentence = np.searchsorted(words.begins, read, side="right")
        for i in np.flatnonzero(gaps & (sentence[:-1] == sentence[1:])).tolist():
            labels[a[i] + 1 : b[i]] = self._inside[int(self._type_of[labels[b[i]]])]

    def spans(self, labels: Places, words: Words) -> tuple[Places, Places, Places]:
        """First word, past-the-last word and type of each mention, as `labels.read_spans` reads them."""
        mention = np.flatnonzero(labels != self.outside)
        if not len(mention):
            return mention, mention, mention
        found = labels[mention]
        previous = np.append(-1, found[:-1])
        sentence = np.searchsorted(words.begins, mention, side="right")
        joined = np.append(False, (np.diff(mention) == 1) & (np.diff(sentence) == 0))
        goes_on = joined & self._goes_on[found] & self._open[previous]
        goes_on &= self._type_of[found] == self._type_of[previous]
        first = np.flatnonzero(~goes_on)
        last = np.append(first[1:], len(mention)) - 1
        return mention[first], mention[last] + 1, self._type_of[found[first]]

    def mentions(
        self, scores: Scores, reading: Reading, words: Words, documents: Sequence[Document], source: str
    ) -> Iterator[tuple[int, Mention]]:
        """Mentions with the number of their document; the score is the mean probability of their words' labels."""
        labels, probabilities = self.label(scores, reading, words)
        first, end, type = self.spans(labels, words)
        if not len(first):
            return
        total = np.append(0.0, np.cumsum(probabilities, dtype=np.float64))
        score = np.minimum((total[end] - total[first]) / (end - first), 1.0)
        owner = words.owner[np.searchsorted(words.begins, first, side="right") - 1]
        infons = {"model": source} if source else {}
        rows = zip(
            owner.tolist(),
            words.starts[first].tolist(),
            words.ends[end - 1].tolist(),
            type.tolist(),
            score.tolist(),
            strict=True,
        )
        for number, a, b, kind, probability in rows:
            yield (
                number,
                Mention(a, b, documents[number].text[a:b], self.types[kind], probability, infons=infons),
            )
