"""Tagging words: which pieces are read, which labels they get, and which tags come out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from biosmith.errors import BadInput
from biosmith.tasks.batches import Batch, length_order, pack
from biosmith.tasks.decoding import Chain, decode, log_softmax
from biosmith.tasks.folders import read_labels
from biosmith.tasks.inputs import Example, InputTransform, Pieces
from biosmith.tasks.joining import unmarked_sets
from biosmith.tasks.labels import OUTSIDE, LabelSet, read_spans, split_tag, write_tags
from biosmith.tasks.network import AnyTagger, load_tagger
from biosmith.tasks.tagged import TaggedSentence
from biosmith.tasks.training import choose_device
from biosmith.tasks.windows import adjoining, farthest_from_an_edge, fitting, overlapping

# Tokens scored in one go. On a CPU small batches stay in the cache, on a GPU large ones fill it.
BUDGET = {"cpu": 2048, "cuda": 65_536}

Scores = NDArray[np.float32]
Engine = Callable[[Sequence[Example]], list[Scores]]


@dataclass(frozen=True, slots=True)
class Tagged:
    """What a tagger says of one sentence.

    Attributes:
        labels: the label of each word, as an index into the label set.
        probabilities: of each word's label.
        windows: in how many sequences it was read.
        truncated: words that were not read because the sentence is too long; they are `O`.
    """

    labels: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    windows: int
    truncated: int


def check_tags(sentences: Sequence[TaggedSentence], known: LabelSet) -> None:
    """Raise `BadInput` at the first tag whose type the label set does not have, with file, line and both sets.

    So it is at a sentence that has not as many tags as words.
    """
    types = set(known.types)
    for sentence in sentences:
        if len(sentence.tags) != len(sentence.words):
            reason = f"a sentence has {len(sentence.words)} words and {len(sentence.tags)} tags"
            raise BadInput(sentence.file, reason, record=sentence.place(0))
        for word, tag in enumerate(sentence.tags):
            if tag != OUTSIDE and split_tag(tag)[1] not in types:
                found = sorted({tag for s in sentences if s.file == sentence.file for tag in s.tags})
                raise BadInput(
                    sentence.file,
                    f"the tag is not one that the model knows (this file has {', '.join(found)})",
                    record=sentence.place(word),
                    value=tag,
                    valid=[*known.labels[1:], OUTSIDE],
                )


def training_examples(
    sentences: Sequence[TaggedSentence],
    transform: InputTransform,
    label_set: LabelSet,
    max_length: int,
    labelled: str = "first",
) -> list[Example]:
    """Sequences to train on; long sentences are cut between mentions, nothing is lost.

    Args:
        sentences: with their tags, in any scheme.
        transform, label_set: how words go in, and what is learnt.
        max_length: pieces of a sequence, special tokens included.
        labelled: the "first" piece of a word carries its label, or "all" do; behind a first `B` they are `I`.

    Targets are places in the label set, and beyond it an O that says nothing of some types (`joining.right_answers`).
    """
    index = label_set.index()
    unmarked = unmarked_sets(sentences)
    outside = {types: len(index) + i for i, types in enumerate(unmarked)} | {(): index[OUTSIDE]}
    examples: list[Example] = []
    pieces = transform.cut_words([s.words for s in sentences])
    for source, (sentence, cut) in enumerate(zip(sentences, pieces, strict=True)):
        spans = read_spans(sentence.tags)
        tags = write_tags(spans, len(sentence.words), label_set.scheme)
        here = {**index, OUTSIDE: outside[sentence.unmarked]}
        labels = np.array([here[tag] for tag in tags], dtype=np.int64)
        may_begin = np.ones(len(tags), dtype=bool)
        for span in spans:
            may_begin[span.start + 1 : span.end] = False
        sizes = (cut.end - cut.first).astype(np.int64)
        for start, end in adjoining(sizes, max_length - transform.frame, may_begin.tolist()):
            example = _example(cut, start, end, transform, max_length, source)
            if len(example.words):
                made = Example(example.ids, example.picks, labels[example.words], source, example.words)
                examples.append(made if labelled == "first" else _all_pieces(made, cut, label_set, transform))
    return examples


def _all_pieces(example: Example, cut: Pieces, label_set: LabelSet, transform: InputTransform) -> Example:
    """The same sequence with every piece labelled."""
    index = label_set.index()
    later = {i: index.get(f"I{x[1:]}", i) for i, x in enumerate(label_set.labels) if x[0] == "B"}
    # The last word of a sequence may have been cut off.
    room = len(example.ids) - len(transform.after)
    ends = np.minimum(example.picks + cut.end[example.words] - cut.first[example.words], room)
    counts = ends - example.picks
    words = np.repeat(example.words, counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    behind = np.arange(len(words)) - first
    target = np.repeat(example.target, counts)
    return Example(
        example.ids,
        (np.repeat(example.picks, counts) + behind).astype(np.int32),
        np.array(
            [later.get(t, t) if n else t for t, n in zip(target.tolist(), behind, strict=True)], np.int64
        ),
        example.source,
        words,
    )


def _example(
    cut: Pieces, start: int, end: int, transform: InputTransform, max_length: int, source: int
) -> Example:
    """The words [start, end) of a sentence as a sequence; picks are the first pieces of words that have any."""
    room = max_length - transform.frame
    ids = cut.ids[cut.first[start] : cut.end[end - 1]][:room] if end > start else cut.ids[:0]
    words = np.arange(start, end, dtype=np.int32)
    words = words[cut.end[start:end] > cut.first[start:end]]
    picks = cut.first[words] - (cut.first[start] if end > start else 0) + len(transform.before)
    return Example(transform.enclose(ids), picks.astype(np.int32), np.zeros(0, np.int64), source, words)


def chain_of(network: AnyTagger) -> Chain | None:
    """The scores of a network's CRF; None without one."""
    if network.chain is None:
        return None
    return Chain(*(x.detach().float().cpu().numpy() for x in network.chain.parameters()))


class Scorer(Protocol):
    """A module that scores the picks of a batch."""

    training: bool

    def logits(self, batch: Batch) -> torch.Tensor:
        """Scores [K, ...] of the batch's picks."""

    def to(self, device: torch.device) -> Any:
        """Move to a device."""

    def train(self, mode: bool = True) -> Any:
        """Training or evaluation mode."""

    def eval(self) -> Any:
        """Evaluation mode."""


class TorchEngine:
    """Scores sequences with torch, on the CPU or a GPU; the results do not depend on who shares a batch."""

    name = "torch"

    def __init__(self, network: Scorer, device: torch.device) -> None:
        network.to(device)
        self.network = network
        self.device = device

    @torch.inference_mode()
    def __call__(self, examples: Sequence[Example]) -> list[Scores]:
        """Scores [picks, labels] of each example, in the order given."""
        was_training = self.network.training
        self.network.eval()
        lengths = np.array([len(e.ids) for e in examples], dtype=np.int64)
        scores: list[Scores] = [np.zeros((0, 0), np.float32)] * len(examples)
        for members in length_order(lengths, BUDGET[self.device.type]):
            batch = pack(examples, members).to(self.device)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                logits = self.network.logits(batch).float().cpu().numpy()
            ends = np.cumsum([len(examples[m].picks) for m in batch.members])
            for member, part in zip(batch.members, np.split(logits, ends[:-1]), strict=True):
                scores[member] = part
        self.network.train(was_training)
        return scores


class Tagger:
    """A tuned tagger: words in, tags out.

    Attributes:
        transform, label_set: how words go in and what comes out.
        engine: scores sequences; anything that takes examples and gives their scores.
        max_length: pieces of the longest sequence that the model reads, special tokens included.
        stride: pieces that overlapping windows share.
        chain: scores of a CRF, None without one.
    """

    def __init__(
        self,
        transform: InputTransform,
        label_set: LabelSet,
        engine: Engine,
        max_length: int,
        stride: int = 128,
        chain: Chain | None = None,
    ) -> None:
        self.transform, self.label_set, self.engine = transform, label_set, engine
        self.max_length, self.stride, self.chain = max_length, stride, chain
        self.outside = label_set.index()[OUTSIDE]

    @staticmethod
    def load(folder: Path, *, device: str = "auto", max_length: int | None = None) -> Tagger:
        """A tagger from its folder, ours or any token classification folder of Hugging Face.

        Raises:
            UsageError, BadInput: the folder is not a tuned tagger, or is damaged.
        """
        label_set = LabelSet.of_folder(folder, read_labels(folder))
        network = load_tagger(folder)
        limit = network.positions if max_length is None else min(max_length, network.positions)
        engine = TorchEngine(network, choose_device(device))
        return Tagger(InputTransform(folder), label_set, engine, limit, chain=chain_of(network))

    def tag(self, sentences: Sequence[Sequence[str]], on_long: str = "truncate") -> list[Tagged]:
        """The best legal labels of sentences given as words.

        Args:
            sentences: words of each.
            on_long: what becomes of sentences that the model cannot read at once: "window" reads them in overlapping
                windows and takes each word's scores from the window in which it lies farthest from an edge;
                "truncate" reads their beginning, and the rest is `O` and counted.
        """
        return self.tag_pieces(self.transform.cut_words(sentences), on_long)

    def tag_pieces(self, pieces: Sequence[Pieces], on_long: str) -> list[Tagged]:
        """As `tag`, of sentences that are cut into pieces already."""
        room = self.max_length - self.transform.frame
        examples: list[Example] = []
        windows: list[list[tuple[int, int]]] = []
        for source, cut in enumerate(pieces):
            sizes = (cut.end - cut.first).astype(np.int64)
            if len(cut.ids) <= room:
                found = [(0, len(sizes))]
            elif on_long == "window":
                found = overlapping(sizes, room, min(self.stride, room // 2))
            else:
                found = [(0, fitting(sizes, room))]
            windows.append(found)
            examples += [_example(cut, a, b, self.transform, self.max_length, source) for a, b in found]
        scores = self.engine([e for e in examples if len(e.words)])
        return self._decoded(pieces, windows, examples, scores)

    def _decoded(
        self,
        pieces: Sequence[Pieces],
        windows: Sequence[Sequence[tuple[int, int]]],
        examples: Sequence[Example],
        scores: Sequence[Scores],
    ) -> list[Tagged]:
        """Each word's scores from one window, then the best legal path through each sentence."""
        given = iter(scores)
        at = 0
        chosen_words: list[NDArray[np.int64]] = []
        rows: list[Scores] = []
        for cut, found in zip(pieces, windows, strict=True):
            from_window = farthest_from_an_edge(found, len(cut.first))
            kept_words, kept_rows = [], []
            for number in range(len(found)):
                example = examples[at]
                at += 1
                if len(example.words):
                    mine = from_window[example.words] == number
                    kept_words.append(example.words[mine].astype(np.int64))
                    kept_rows.append(next(given)[mine])
            chosen_words.append(np.concatenate(kept_words) if kept_words else np.zeros(0, np.int64))
            if kept_rows:
                rows.append(np.concatenate(kept_rows))
        lengths = np.array([len(w) for w in chosen_words], dtype=np.int64)
        if not rows:
            return [
                self._spread(
                    cut, found, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32)
                )
                for cut, found in zip(pieces, windows, strict=True)
            ]
        log_probabilities = log_softmax(np.concatenate(rows))
        labels = decode(log_probabilities, lengths, self.label_set.transitions(), self.chain)
        probabilities = np.exp(log_probabilities[np.arange(len(labels)), labels])
        tagged = []
        ends = np.cumsum(lengths)
        for cut, found, words, n, end in zip(pieces, windows, chosen_words, lengths, ends, strict=True):
            part = slice(end - n, end)
            tagged.append(self._spread(cut, found, words, labels[part], probabilities[part]))
        return tagged

    def _spread(
        self,
        cut: Pieces,
        windows: Sequence[tuple[int, int]],
        words: NDArray[np.int64],
        labels: NDArray[np.int64],
        probabilities: NDArray[np.float32],
    ) -> Tagged:
        """Labels for all words: those without pieces go on with the mention around them, those not read are O."""
        count = len(cut.first)
        all_labels = np.full(count, self.outside, dtype=np.int64)
        all_probabilities = np.ones(count, dtype=np.float32)
        all_labels[words] = labels
        all_probabilities[words] = probabilities
        if len(words) < count:
            self._bridge(all_labels, words)
        return Tagged(all_labels, all_probabilities, len(windows), count - max(b for _, b in windows))

    def _bridge(self, labels: NDArray[np.int64], words: NDArray[np.int64]) -> None:
        """Words without pieces inside a mention belong to it."""
        parsed = [split_tag(label) for label in self.label_set.labels]
        inside = {type: i for i, (prefix, type) in enumerate(parsed) if prefix == "I"}
        for a, b in itertools.pairwise(words.tolist()):
            prefix, type = parsed[labels[b]]
            if b - a > 1 and prefix in ("I", "E") and parsed[labels[a]] != (OUTSIDE, ""):
                labels[a + 1 : b] = inside[type]

    def tags(self, tagged: Tagged) -> list[str]:
        """The tags of a sentence."""
        return [self.label_set.labels[i] for i in tagged.labels]
