"""Rows of a packed batch as sentences and back, in shapes that do not depend on what is in the batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from biosmith.tasks.batches import Batch

IGNORED = -100  # the target of a row that stands for nothing


@dataclass(frozen=True, eq=False)
class Layout:
    """Which rows (picks or tokens) belong to which sequence: row w of sequence n is `index_NW[n, w]` where `mask_NW` is.

    Attributes:
        index_NW: row of each place.
        mask_NW: where a place has a row.
        place_P: place n * W + w of each row.
    """

    index_NW: Tensor
    mask_NW: Tensor
    place_P: Tensor

    @classmethod
    def of(cls, segment_P: Tensor, sequences: int, longest: int) -> Layout:
        """From the sequence of each row, ascending; rows of sequence number `sequences` belong to none.

        Args:
            segment_P: sequence of each row.
            sequences: N.
            longest: W, an upper bound of the rows of a sequence.
        """
        counts = torch.zeros(sequences + 1, dtype=torch.long, device=segment_P.device)
        counts = counts.scatter_add(0, segment_P, torch.ones_like(segment_P))
        starts = counts.cumsum(0) - counts
        place_W = torch.arange(longest, device=segment_P.device)
        mask_NW = place_W < counts[:-1, None]
        index_NW = (starts[:-1, None] + place_W).clamp(max=max(0, len(segment_P) - 1))
        row_P = torch.arange(len(segment_P), device=segment_P.device) - starts[segment_P]
        place_P = segment_P.clamp(max=sequences - 1) * longest + row_P.clamp(max=longest - 1)
        return cls(index_NW, mask_NW, place_P)

    @classmethod
    def of_picks(cls, batch: Batch) -> Layout:
        """The picks of each sequence; in training those whose target is -100 belong to none."""
        sequences = len(batch.cu_seqlens) - 1
        segment_K = segments(batch.picks_K, batch)
        if len(batch.target) == len(batch.picks_K) and batch.target.dim() == 1:
            segment_K = torch.where(batch.target == IGNORED, sequences, segment_K)
        return cls.of(segment_K, sequences, batch.longest)

    @classmethod
    def of_tokens(cls, batch: Batch) -> Layout:
        """The tokens of each sequence."""
        tokens_T = torch.arange(len(batch.input_ids_T), device=batch.input_ids_T.device)
        return cls.of(segments(tokens_T, batch), len(batch.cu_seqlens) - 1, batch.longest)

    def spread(self, rows: Tensor) -> Tensor:
        """[P, ...] -> [N, W, ...]; what stands outside the mask means nothing."""
        return rows[self.index_NW]

    def gather(self, places: Tensor) -> Tensor:
        """[N, W, ...] -> [P, ...]."""
        return places.flatten(0, 1)[self.place_P]


def segments(places_P: Tensor, batch: Batch) -> Tensor:
    """The sequence that each place of a packed batch lies in."""
    found = torch.searchsorted(batch.cu_seqlens[1:].long(), places_P.long(), right=True)
    return found.clamp(max=len(batch.cu_seqlens) - 2)


class BiLSTM(nn.Module):
    """A bidirectional LSTM over the rows of each sequence: [P, D] -> [P, D], half of it from each direction.

    The backward direction reads each sequence turned round, so that no length has to be known on the host.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"width {width} cannot be shared by two directions")
        self.forwards = nn.LSTM(width, width // 2, batch_first=True)
        self.backwards = nn.LSTM(width, width // 2, batch_first=True)

    def forward(self, rows_PD: Tensor, layout: Layout) -> Tensor:
        """States of both directions, side by side."""
        lengths_N = layout.mask_NW.sum(1)
        place_W = torch.arange(layout.mask_NW.shape[1], device=rows_PD.device)
        turned_NW = torch.where(layout.mask_NW, (lengths_N[:, None] - 1 - place_W).clamp(min=0), place_W)
        x_NWD = layout.spread(rows_PD)
        there_NWD = turned_NW[..., None].expand_as(x_NWD)
        ahead_NWH = self.forwards(x_NWD)[0]
        back_NWH = self.backwards(x_NWD.gather(1, there_NWD))[0]
        back_NWH = back_NWH.gather(1, turned_NW[..., None].expand_as(back_NWH))
        return layout.gather(torch.cat([ahead_NWH, back_NWH], dim=-1))
