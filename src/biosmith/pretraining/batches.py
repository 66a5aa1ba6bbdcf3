"""Micro-batches as a pure function of (seed, epoch, index): read, cut, pair, mask, lay end to end.

T is the token budget, N the sequence slots, M the masked-token budget; all three are constant over a run, so that a
compiled step never sees another shape. NumPy only: worker processes need no torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biosmith.errors import BiosmithError, UsageError
from biosmith.pretraining.masking import MaskingRules, Replacements, SequenceTokens, mask_sequences
from biosmith.pretraining.packing import EpochPlan, PackingRules, count_slots
from biosmith.pretraining.pairs import make_pairs
from biosmith.pretraining.segments import SegmentRules, snap_segments
from biosmith.tokens.store import Tokens, VocabularyMark

Integers = NDArray[np.int64]
IGNORE = -100  # label of a slot without content; the loss leaves it out


class TokenSource(Protocol):
    """What batches are made from: `tokens.store.TokenStore` is one."""

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each document."""

    @property
    def vocabulary(self) -> VocabularyMark:
        """Size and special tokens."""

    def gather(
        self, indices: ArrayLike, starts: ArrayLike | None = None, stops: ArrayLike | None = None
    ) -> Tokens:
        """Parts of several documents."""


@dataclass(frozen=True)
class DataRules:
    """All that decides what a micro-batch holds.

    Attributes:
        seed: of the run.
        micro_tokens: token budget of a micro-batch.
        length: tokens of a sequence at most, special tokens included.
        next_sentence: make pairs and labels for next sentence prediction.
        random_probability: how often the second part of a pair comes from another document.
        masking: see `MaskingRules`.
        short_probability: see `SegmentRules`.
        mask_copies: number of different maskings; epoch e is masked as epoch e modulo this (Bioformer: 20 fixed
            ones). None masks every epoch anew.
        highest_rate: the highest mask rate of the run, if the rate changes; sizes the masked-token budget.
    """

    seed: int
    micro_tokens: int
    length: int
    next_sentence: bool = True
    random_probability: float = 0.5
    masking: MaskingRules = field(default_factory=MaskingRules)
    short_probability: float = 0.1
    mask_copies: int | None = None
    highest_rate: float | None = None

    @property
    def specials(self) -> int:
        """Special tokens of a sequence."""
        return 3 if self.next_sentence else 2

    @property
    def segment_rules(self) -> SegmentRules:
        """How documents are cut."""
        minimum = 2 if self.next_sentence else 1
        return SegmentRules(self.length - self.specials, minimum, self.short_probability)

    @property
    def masked_slots(self) -> int:
        """Masked-token budget M: the expectation for a full micro-batch and a reserve against its spread."""
        mean = self.micro_tokens * (self.highest_rate or self.masking.rate)
        return math.ceil((mean * 1.01 + 4 * math.sqrt(mean) + 32) / 64) * 64


@dataclass(frozen=True)
class Batch:
    """A micro-batch, packed. Slots without content come last in every array.

    `cu_seqlens` covers all T tokens: after the real sequences, the unused tail is cut into sequences of its own, so
    that no token is left without anything to attend to, and empty ones follow.
    """

    input_ids_T: NDArray[np.int32]
    position_ids_T: NDArray[np.int32]
    token_type_ids_T: NDArray[np.int32]
    cu_seqlens: NDArray[np.int32]
    max_seqlen: int
    masked_positions_M: NDArray[np.int64]
    labels_M: NDArray[np.int64]
    next_sentence_labels_N: NDArray[np.int64]  # 0 is next, 1 random; IGNORE for every slot without pairs
    counts: Counts


@dataclass(frozen=True)
class Counts:
    """What a micro-batch really holds; sums of them are the run's measured rates."""

    tokens: int = 0  # special tokens included
    maskable: int = 0  # special tokens not included
    sequences: int = 0
    hidden: int = 0
    masked: int = 0  # hidden tokens that became [MASK]
    random: int = 0
    kept: int = 0
    random_pairs: int = 0
    dropped: int = 0  # tokens cut off because a sequence or the batch was full
    overflow: int = 0  # hidden tokens beyond the masked-token budget: they stay hidden but are not predicted

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


class BatchMaker:
    """Makes micro-batch `index` of `epoch`; what was made before, by whom, changes nothing.

    Args:
        source: the tokens.
        rules: see `DataRules`.
        documents: which documents take part, [documents]; all if None.
        sequence_slots: of a micro-batch; None finds a number that fits the documents.

    Raises:
        UsageError: the budgets cannot hold a sequence, or the vocabulary lacks a special token that is needed.
        BiosmithError: fewer than two documents for next sentence prediction, or nothing long enough to learn from.
    """

    def __init__(
        self,
        source: TokenSource,
        rules: DataRules,
        documents: NDArray[np.bool_] | None = None,
        sequence_slots: int | None = None,
    ) -> None:
        self.source, self.rules = source, rules
        lengths = source.lengths
        self.lengths = lengths if documents is None else np.where(documents, lengths, 0).astype(np.int32)
        _check_documents(self.lengths, rules)
        group = 2 if rules.next_sentence else 1
        self.sequence_slots = sequence_slots or count_slots(
            self.lengths, rules.segment_rules, rules.micro_tokens, rules.specials, group
        )
        self.packing = PackingRules(
            rules.micro_tokens, self.sequence_slots, rules.length, rules.specials, group
        )
        special = dict(source.vocabulary.special_tokens)
        missing = [name for name in ("cls", "sep", "mask", "pad") if name not in special]
        if missing:
            raise UsageError(f"the vocabulary has no {', '.join(missing)} token; pretraining needs them")
        self.cls_id, self.sep_id, self.pad_id = special["cls"], special["sep"], special["pad"]
        self.replacements = Replacements.of(source.vocabulary.size, sorted(special.values()), special["mask"])
        self._plan: EpochPlan | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_plan": None}

    def plan(self, epoch: int) -> EpochPlan:
        """The plan of an epoch; the last one asked for is kept."""
        if self._plan is None or self._plan.epoch != epoch:
            rules = self.rules
            self._plan = EpochPlan(self.lengths, rules.segment_rules, self.packing, rules.seed, epoch)
        return self._plan

    def make(self, epoch: int, index: int, rate: float | None = None) -> Batch:
        """Micro-batch `index` of `epoch`, at the mask rate of the rules or at another one."""
        masking = self.rules.masking
        if rate is not None and rate != masking.rate:
            from dataclasses import replace

            masking = replace(masking, rate=rate)
        tokens, segments, labels, dropped = self._sequences(epoch, index)
        mask_epoch = epoch if self.rules.mask_copies is None else epoch % self.rules.mask_copies
        masked = mask_sequences(tokens, masking, self.replacements, self.rules.seed, mask_epoch)
        slots = self.rules.masked_slots
        hidden = len(masked.positions)
        count = min(hidden, slots)
        # Slots that are not needed point at different tokens: gradients added to one row would queue up on a GPU.
        positions = np.arange(slots, dtype=np.int64) % self.rules.micro_tokens
        positions[:count] = masked.positions[:count]
        targets = np.full(slots, IGNORE, dtype=np.int64)
        targets[:count] = tokens.ids[masked.positions[:count]]
        pair_labels = np.full(len(self._slot_template()) - 1, IGNORE, dtype=np.int64)
        if self.rules.next_sentence:
            pair_labels[: len(labels)] = labels
        total = self.rules.micro_tokens
        lengths = tokens.lengths
        within = np.arange(len(tokens.ids)) - np.repeat(tokens.starts, lengths)
        return Batch(
            _padded(masked.ids, total, self.pad_id),
            self._positions(within, total),
            _padded(segments, total, 0),
            self._cumulative(lengths),
            self.rules.length,
            positions,
            targets,
            pair_labels,
            Counts(
                tokens=len(tokens.ids),
                maskable=int(len(tokens.ids) - tokens.special.sum()),
                sequences=len(lengths),
                hidden=hidden,
                masked=masked.masked,
                random=masked.random,
                kept=masked.kept,
                random_pairs=int(labels.sum()),
                dropped=dropped,
                overflow=hidden - count,
            ),
        )

    def _sequences(self, epoch: int, index: int) -> tuple[SequenceTokens, NDArray[np.int32], Integers, int]:
        """Sequences before masking, the segment of each token, pair labels, and the tokens that had to be cut off."""
        plan, rules = self.plan(epoch), self.rules
        places = plan.sequences_of(index)
        bounds = plan.locate(places)
        read = self.source.gather(bounds.documents, *bounds.with_margin())
        starts, stops = snap_segments(bounds, read.offsets, read.word_starts, read.sentence_starts)
        limit = rules.segment_rules.limit
        if rules.next_sentence:
            documents = bounds.documents
            if len(places) % 2:  # the last segment of an epoch may be without a partner: pair it with nothing
                starts, stops = np.append(starts, 0), np.append(stops, 0)
                documents, places = np.append(documents, -1), np.append(places, places[-1] + 1)
            pairs = make_pairs(
                starts,
                stops,
                documents,
                places,
                read.word_starts,
                read.sentence_starts,
                limit,
                rules.random_probability,
                rules.seed,
                epoch,
            )
            first, second = (pairs.first_start, pairs.first_stop), (pairs.second_start, pairs.second_stop)
            labels, dropped = pairs.labels, pairs.dropped
        else:
            fitted = np.minimum(stops, starts + limit)
            first, second = (starts, fitted), (fitted, fitted)
            labels, dropped = np.zeros(len(starts), dtype=np.int64), int((stops - fitted).sum())
        lengths_one, lengths_two = first[1] - first[0], second[1] - second[0]
        keep = lengths_one + lengths_two > 0
        parts = Parts(first[0][keep], lengths_one[keep], second[0][keep], lengths_two[keep])
        parts, overfull = self._fit_budget(parts)
        kept = len(parts.first_lengths)
        tokens, segments = self._lay_out(read, parts, places[keep][:kept])
        return tokens, segments, labels[keep][:kept], dropped + overfull

    def _fit_budget(self, parts: Parts) -> tuple[Parts, int]:
        """Shorten the last sequences in the rare case that moved cuts made the batch longer than its budget."""
        specials = self.rules.specials
        ends = np.cumsum(parts.first_lengths + parts.second_lengths + specials)
        excess = int(ends[-1]) - self.rules.micro_tokens if len(ends) else 0
        if excess <= 0:
            return parts, 0
        before = int((parts.first_lengths + parts.second_lengths).sum())
        first, second = parts.first_lengths.copy(), parts.second_lengths.copy()
        floor = 1 if self.rules.next_sentence else 0
        count = len(ends)
        while excess > 0:  # a step a sequence, and nearly always only one
            count_last = count - 1
            spare = max(int(second[count_last]) - floor, 0)
            cut = min(excess, spare)
            second[count_last] -= cut
            excess -= cut
            cut = min(excess, max(int(first[count_last]) - 1, 0))
            first[count_last] -= cut
            excess -= cut
            if excess > 0:  # the whole sequence has to go
                excess -= int(first[count_last] + second[count_last]) + specials
                count -= 1
        after = int(first[:count].sum() + second[:count].sum())
        fitted = Parts(parts.first[:count], first[:count], parts.second[:count], second[:count])
        return fitted, before - after

    def _lay_out(
        self, read: Tokens, parts: Parts, places: Integers
    ) -> tuple[SequenceTokens, NDArray[np.int32]]:
        """[CLS] A [SEP] (B [SEP]) of each sequence, end to end, by one index over the tokens read."""
        total_read = len(read.ids)
        ids = np.append(read.ids, np.array([self.cls_id, self.sep_id], dtype=np.int32))
        words = np.append(read.word_starts, [True, True])
        count = len(places)
        pieces = 5 if self.rules.next_sentence else 3
        begin = np.full((count, pieces), total_read + 1, dtype=np.int64)
        size = np.ones((count, pieces), dtype=np.int64)
        begin[:, 0] = total_read
        begin[:, 1], size[:, 1] = parts.first, parts.first_lengths
        if pieces == 5:
            begin[:, 3], size[:, 3] = parts.second, parts.second_lengths
        flat_begin, flat_size = begin.ravel(), size.ravel()
        ends = np.cumsum(flat_size)
        index = np.repeat(flat_begin - (ends - flat_size), flat_size) + np.arange(ends[-1] if count else 0)
        segment = np.tile(np.array([0, 0, 0, 1, 1][:pieces], dtype=np.int32), count)
        lengths = size.sum(axis=1)
        starts = np.cumsum(lengths) - lengths
        laid = SequenceTokens(ids[index], words[index], index >= total_read, starts, lengths, places)
        return laid, np.repeat(segment, flat_size)

    def _slot_template(self) -> range:
        """Entries of `cu_seqlens`: one a sequence slot, and those that the longest unused tail needs."""
        tail = -(-self.rules.micro_tokens // self.rules.length)
        return range(self.sequence_slots + tail + 1)

    def _cumulative(self, lengths: Integers) -> NDArray[np.int32]:
        total, step = self.rules.micro_tokens, self.rules.length
        entries = np.full(len(self._slot_template()), total, dtype=np.int32)
        used = int(lengths.sum())
        real = len(lengths)
        entries[0] = 0
        entries[1 : real + 1] = np.cumsum(lengths)
        tail = np.arange(used + step, total, step, dtype=np.int32)
        entries[real + 1 : real + 1 + len(tail)] = tail
        return entries

    def _positions(self, within: Integers, total: int) -> NDArray[np.int32]:
        positions = np.arange(-len(within), total - len(within), dtype=np.int64) % self.rules.length
        positions[: len(within)] = within
        return positions.astype(np.int32)


@dataclass(frozen=True)
class Parts:
    """First and second part of each sequence: where they begin among the tokens read, and their lengths; all [N]."""

    first: Integers
    first_lengths: Integers
    second: Integers
    second_lengths: Integers


def _padded(values: NDArray[np.int32], total: int, fill: int) -> NDArray[np.int32]:
    padded = np.full(total, fill, dtype=np.int32)
    padded[: len(values)] = values
    return padded


def _check_documents(lengths: NDArray[np.int32], rules: DataRules) -> None:
    usable = int((lengths >= rules.segment_rules.minimum).sum())
    if not usable:
        raise BiosmithError("there is no document long enough to learn from")
    if rules.next_sentence and usable < 2:
        raise BiosmithError(
            "next sentence prediction needs at least two documents, as the random second part must come from another "
            "one; add documents or turn it off"
        )


def hold_out(documents: int, wanted: int) -> NDArray[np.bool_]:
    """Which documents are kept for evaluation, [documents]: the same ones for every run over a store.

    At most `wanted`, at most one in ten (rounded up), and none of fewer than five.
    """
    from biosmith.randomness import derive_key, random_bits

    chosen = np.zeros(documents, dtype=np.bool_)
    count = min(wanted, -(-documents // 10)) if documents >= 5 else 0
    if count:
        order = random_bits(derive_key(0, "held-out"), np.arange(documents, dtype=np.int64))
        chosen[np.argpartition(order, count - 1)[:count]] = True
    return chosen
