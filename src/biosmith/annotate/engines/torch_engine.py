"""The torch engine: any tuned tagger; packed in 16 bits on a GPU, in bfloat16 on processors that have it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from biosmith.annotate.engines import Choice, Reader, Settings, has_fast_bfloat16, stacked_heads
from biosmith.annotate.pieces import PieceCutter
from biosmith.annotate.sequences import Places, Scores, Sequences, ragged
from biosmith.annotate.tuned import TunedTagger
from biosmith.tasks.batches import Batch, length_order
from biosmith.tasks.inputs import InputTransform
from biosmith.tasks.network import AnyTagger, EncoderTagger, hidden_states, load_tagger
from biosmith.tasks.tagging import BUDGET, chain_of
from biosmith.tasks.training import choose_device

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

log = logging.getLogger("biosmith")


class SharedTagger(nn.Module):
    """Several heads over one encoder."""

    def __init__(self, taggers: Sequence[AnyTagger]) -> None:
        super().__init__()
        self.first = taggers[0]
        others = [tagger.scorer for tagger in taggers[1:] if isinstance(tagger, EncoderTagger)]
        self.others = nn.ModuleList(others)

    def logits(self, batch: Batch) -> Tensor:
        """Scores [P, K] of all heads, side by side."""
        if not len(self.others):
            return self.first.logits(batch)
        assert isinstance(self.first, EncoderTagger)
        picked_PD = hidden_states(self.first.encoder, batch).index_select(0, batch.picks_K)
        return torch.cat([head(picked_PD) for head in (self.first.scorer, *self.others)], dim=1)


class TorchEngine:
    """See `Engine`. In float16 a model whose values are too large for it goes on in bfloat16."""

    name = "torch"

    def __init__(
        self, network: SharedTagger, outputs: int, device: torch.device, dtype: torch.dtype, reason: str
    ) -> None:
        self.device, self.dtype, self.outputs, self.reason = device, dtype, outputs, reason
        self.network = network.eval().to(device)
        if device.type == "cuda":
            self.network = self.network.to(dtype)

    @torch.inference_mode()
    def __call__(self, sequences: Sequences) -> Scores:
        """See `Engine`."""
        scores = np.empty((len(sequences.picks), self.outputs), np.float32)
        waiting: list[tuple[Places, Tensor]] = []
        first_pick = np.searchsorted(sequences.picks, sequences.begins)
        for members in length_order(sequences.lengths, BUDGET[self.device.type]) if len(sequences) else []:
            batch, rows = _packed(sequences, members, first_pick)
            waiting.append((rows, self._logits(batch.to(self.device))))
        # The GPU computes while the next batch is laid out; only here is it waited for.
        for rows, logits in waiting:
            scores[rows] = logits.cpu().numpy()
        if self.dtype == torch.float16 and not np.isfinite(scores).all():
            log.warning("the model's values do not fit float16: going on in bfloat16")
            self.dtype = torch.bfloat16
            self.network = self.network.to(self.dtype)
            return self(sequences)
        return scores

    def _logits(self, batch: Batch) -> Tensor:
        mixed = self.device.type == "cpu" and self.dtype != torch.float32
        with torch.autocast(self.device.type, self.dtype, enabled=mixed):
            return self.network.logits(batch).float()


def _packed(sequences: Sequences, members: Places, first_pick: Places) -> tuple[Batch, Places]:
    """Sequences laid end to end, shortest first, and which picks are theirs."""
    lengths = sequences.lengths[members]
    order = np.argsort(lengths, kind="stable")
    members, lengths = members[order], lengths[order]
    ends = np.cumsum(lengths)
    starts = ends - lengths
    picked = first_pick[members + 1] - first_pick[members]
    rows = ragged(first_pick[members], picked)
    places = sequences.picks[rows] + np.repeat(starts - sequences.begins[members], picked)
    positions = ragged(np.zeros(len(lengths), np.int64), lengths)
    batch = Batch(
        input_ids_T=torch.from_numpy(
            sequences.ids[ragged(sequences.begins[members], lengths)].astype(np.int64)
        ),
        position_ids_T=torch.from_numpy(positions),
        token_type_ids_T=torch.zeros(len(positions), dtype=torch.int64),
        cu_seqlens=torch.from_numpy(np.append(starts, ends[-1]).astype(np.int32)),
        longest=int(lengths[-1]),
        picks_K=torch.from_numpy(places),
        target=torch.zeros(0, dtype=torch.int64),
        members=members,
    )
    return batch, rows


def open_torch(group: dict[str, TunedTagger], choice: Choice, settings: Settings) -> Reader:
    """A reader whose engine is torch."""
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    device = choose_device(settings.device)
    taggers = [load_tagger(tagger.folder) for tagger in group.values()]
    heads = stacked_heads(group, [chain_of(tagger) for tagger in taggers])
    first = next(iter(group.values()))
    length = min(taggers[0].positions, first.max_length or taggers[0].positions)
    precision = _precision(device, settings)
    reason = f"{choice.reason}; {precision} on {device}"
    engine = TorchEngine(SharedTagger(taggers), heads[-1].columns.stop, device, DTYPES[precision], reason)
    cutter = PieceCutter(InputTransform(first.folder).tokenizer.backend_tokenizer, str(first.folder))
    return Reader(cutter, engine, heads, length, max(tagger.stride for tagger in group.values()))


def _precision(device: torch.device, settings: Settings) -> str:
    if settings.precision != "auto":
        return settings.precision
    if device.type == "cuda":
        return "float16"
    return "bfloat16" if device.type == "cpu" and has_fast_bfloat16() else "float32"
