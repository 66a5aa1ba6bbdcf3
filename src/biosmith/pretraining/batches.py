"""Micro-batches as a pure function of (seed, epoch, index): read, cut, pair, mask, lay end to end.

T is the token budget, N the sequence slots, M the masked-token budget; all three are constant over a run, so that a
compiled step never sees another shape. NumPy only: worker processes need no torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biosmith.errors import BiosmithError, UsageError
from biosmith.pretraining.assembling import Pieces
from biosmith.pretraining.masking import MaskingRules, Replacements, SequenceTokens, mask_sequences
from biosmith.pretraining.mixing import MixedStores
from biosmith.pretraining.packing import EpochPlan, PackingRules, count_slots
from biosmith.pretraining.pairs import Pairs, make_pairs
from biosmith.pretraining.segments import SegmentRules, snap_segments
from biosmith.pretraining.sentence_order import OrderRules, make_ordered_pairs
from biosmith.pretraining.streams import StreamPlan
from biosmith.randomness import derive_key, random_bits
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
        order: cut each segment in two, for sentence-order prediction and for plain second segments; not beside
            `next_sentence`.
        masking: see `MaskingRules`.
        short_probability: see `SegmentRules`.
        mask_copies: number of different maskings; epoch e is masked as epoch e modulo this (Bioformer: 20 fixed
            ones). None masks every epoch anew.
        pack: "documents" keeps every sequence within one document; for the other two see `StreamPlan`.
        highest_rate: the highest mask rate of the run, if the rate changes; sizes the masked-token budget.
    """

    seed: int
    micro_tokens: int
    length: int
    next_sentence: bool = True
    random_probability: float = 0.5
    order: OrderRules | None = None
    masking: MaskingRules = field(default_factory=MaskingRules)
    short_probability: float = 0.1
    mask_copies: int | None = None
    pack: Literal["documents", "sentences", "stream"] = "documents"
    highest_rate: float | None = None

    def __post_init__(self) -> None:
        if self.pack not in ("documents", "sentences", "stream"):
            raise UsageError(f"batch.pack {self.pack!r} is unknown; valid: documents, sentences, stream")
        if self.pack != "documents" and self.has_pairs:
            raise UsageError(
                f"batch.pack={self.pack} runs documents together, so it has no pairs for next sentence prediction or "
                "sentence order; use batch.pack=documents, or a recipe without that objective"
            )
        if self.next_sentence and self.order is not None:
            raise UsageError(
                "pairs are made for next sentence prediction or for sentence order, not for both"
            )

    @property
    def has_pairs(self) -> bool:
        """Whether a sequence has two segments."""
        return self.next_sentence or self.order is not None

    @property
    def has_labels(self) -> bool:
        """Whether there is something to be learnt about pairs."""
        return self.next_sentence or (self.order is not None and self.order.has_labels)

    @property
    def specials(self) -> int:
        """Special tokens of a sequence."""
        return 3 if self.has_pairs else 2

    @property
    def segment_rules(self) -> SegmentRules:
        """How documents are cut."""
        minimum = 2 if self.has_labels else 1
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
    # 0 is next (in order), 1 random (exchanged); IGNORE for every slot without pairs
    next_sentence_labels_N: NDArray[np.int64]
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
    random_pairs: int = 0  # or exchanged ones
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
        if sequence_slots is None and rules.pack == "documents":
            sequence_slots = count_slots(
                self.lengths, rules.segment_rules, rules.micro_tokens, rules.specials, group
            )
        self.sequence_slots = sequence_slots or rules.micro_tokens // rules.length
        self.packing = PackingRules(
            rules.micro_tokens, self.sequence_slots, rules.length, rules.specials, group
        )
        special = dict(source.vocabulary.special_tokens)
        missing = [name for name in ("cls", "sep", "mask", "pad") if name not in special]
        if missing:
            raise UsageError(f"the vocabulary has no {', '.join(missing)} token; pretraining needs them")
        self.cls_id, self.sep_id, self.pad_id = special["cls"], special["sep"], special["pad"]
        self.replacements = Replacements.of(source.vocabulary.size, sorted(special.values()), special["mask"])
        self._plan: EpochPlan | StreamPlan | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_plan": None}

    def plan(self, epoch: int) -> EpochPlan | StreamPlan:
        """The plan of an epoch; the last one asked for is kept."""
        if self._plan is None or self._plan.epoch != epoch:
            rules = self.rules
            lengths = self.lengths
            if isinstance(self.source, MixedStores):
                lengths = np.where(self.source.taking_part(rules.seed, epoch), lengths, 0).astype(np.int32)
            if rules.pack == "documents":
                self._plan = EpochPlan(lengths, rules.segment_rules, self.packing, rules.seed, epoch)
            else:
                at_sentences = rules.pack == "sentences"
                self._plan = StreamPlan(
                    lengths, rules.micro_tokens, rules.length, at_sentences, rules.seed, epoch
                )
        return self._plan

    def make(self, epoch: int, index: int, rate: float | None = None) -> Batch:
        """Micro-batch `index` of `epoch`, at the mask rate of the rules or at another one."""
        masking = self.rules.masking
        if rate is not None and rate != masking.rate:
            from dataclasses import replace

            masking = replace(masking, rate=rate)
        tokens, segments, pieces = self._sequences(epoch, index)
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
        if self.rules.has_labels:
            pair_labels[: len(pieces.labels)] = pieces.labels
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
                random_pairs=int(pieces.labels.sum()),
                dropped=pieces.dropped,
                overflow=hidden - count,
            ),
        )

    def _sequences(self, epoch: int, index: int) -> tuple[SequenceTokens, NDArray[np.int32], Pieces]:
        """Sequences before masking, the segment of each token, and what they were made of."""
        plan = self.plan(epoch)
        read, pieces = (
            self._stream(plan, index) if isinstance(plan, StreamPlan) else self._documents(plan, index)
        )
        pieces = pieces.fitted(self.rules.micro_tokens)
        tokens, segments = pieces.lay_out(read, self.cls_id, self.sep_id)
        return tokens, segments, pieces

    def _stream(self, plan: StreamPlan, index: int) -> tuple[Tokens, Pieces]:
        bounds, sequence, places = plan.locate(index)
        read = self.source.gather(bounds.documents, *bounds.with_margin())
        return read, plan.pieces(bounds, sequence, places, read)

    def _documents(self, plan: EpochPlan, index: int) -> tuple[Tokens, Pieces]:
        rules = self.rules
        places = plan.sequences_of(index)
        bounds = plan.locate(places)
        read = self.source.gather(bounds.documents, *bounds.with_margin())
        starts, stops = snap_segments(bounds, read.offsets, read.word_starts, read.sentence_starts)
        limit = rules.segment_rules.limit
        if rules.order is not None:
            pairs = make_ordered_pairs(
                starts,
                stops,
                places,
                read.word_starts,
                read.sentence_starts,
                limit,
                rules.order,
                rules.seed,
                plan.epoch,
            )
            return read, _as_pieces(pairs, places)
        if not rules.next_sentence:
            fitted = np.minimum(stops, starts + limit)
            none = np.zeros(len(starts), dtype=np.int64)
            number = np.arange(len(starts))
            lost = int((stops - fitted).sum())
            return read, Pieces.of(starts, fitted - starts, number, none, places, none, lost)
        documents = bounds.documents
        if isinstance(self.source, MixedStores):  # copies of one document are one document
            documents = self.source.originals(documents)
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
            epoch=plan.epoch,
        )
        return read, _as_pieces(pairs, places)

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


def _as_pieces(pairs: Pairs, places: Integers) -> Pieces:
    begin = np.stack([pairs.first_start, pairs.second_start], axis=1).ravel()
    end = np.stack([pairs.first_stop, pairs.second_stop], axis=1).ravel()
    segments = np.tile(np.array([0, 1]), len(places))
    number = np.repeat(np.arange(len(places)), 2)
    return Pieces.of(begin, end - begin, number, segments, places, pairs.labels, pairs.dropped)


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


def hold_out(source: TokenSource, wanted: int) -> NDArray[np.bool_]:
    """Which documents are kept for evaluation, [documents]: the same ones for every run over a store.

    At most `wanted`, at most one in ten (rounded up), and none of fewer than five. All copies of a document are kept.
    """
    documents = source.documents if isinstance(source, MixedStores) else len(source.lengths)
    chosen = np.zeros(documents, dtype=np.bool_)
    count = min(wanted, -(-documents // 10)) if documents >= 5 else 0
    if count:
        order = random_bits(derive_key(0, "held-out"), np.arange(documents, dtype=np.int64))
        chosen[np.argpartition(order, count - 1)[:count]] = True
    if isinstance(source, MixedStores):
        return chosen[source.originals(np.arange(len(source.lengths)))]
    return chosen
