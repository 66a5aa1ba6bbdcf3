"""Micro-batches in the order of training, prepared ahead by any number of worker processes.

The loader is torch's; what it loads is named by (phase, epoch, index), so workers change nothing but speed, and where a
run stands is the place of the next micro-batch to be used - not of those already fetched.
"""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from biosmith.errors import BiosmithError
from biosmith.pretraining.batches import Batch, BatchMaker, Counts

# A mixture of small weights may leave epochs without a document. So many in a row are an error.
MOST_EMPTY_EPOCHS = 1_000


@dataclass(frozen=True)
class Cursor:
    """The next micro-batch to be used: phase (of sequence lengths), epoch, place in the epoch."""

    phase: int = 0
    epoch: int = 0
    index: int = 0


class Request(NamedTuple):
    """A micro-batch to be made, and the cursor after it."""

    phase: int
    epoch: int
    place: int
    rate: float | None
    after: Cursor


class Loaded(NamedTuple):
    """A micro-batch as tensors by the names of `Batch`, and the cursor after it."""

    tensors: dict[str, Tensor]
    max_seqlen: int
    counts: Counts
    after: Cursor


class MicroBatches(Dataset[Loaded]):
    """Makes the micro-batch that a request names."""

    def __init__(self, makers: Sequence[BatchMaker]) -> None:
        self.makers = list(makers)

    def __getitem__(self, request: Request) -> Loaded:
        made = self.makers[request.phase].make(request.epoch, request.place, request.rate)
        return as_tensors(made, request.after)


def as_tensors(batch: Batch, after: Cursor | None = None) -> Loaded:
    """The arrays of a batch as tensors over the same memory."""
    tensors = {k: torch.from_numpy(v) for k, v in vars(batch).items() if isinstance(v, np.ndarray)}
    return Loaded(tensors, batch.max_seqlen, batch.counts, after or Cursor())


def requests(
    makers: Sequence[BatchMaker],
    cursor: Cursor,
    phases: Iterable[int],
    rates: Iterable[float | None],
    micro_batches: int,
    take: slice = slice(None),
) -> Iterator[Request]:
    """What to load, step after step.

    Args:
        makers: one a phase.
        cursor: where to begin; at the beginning of a step.
        phases, rates: phase and mask rate of each step that is still to come.
        micro_batches: of a step, on all devices together.
        take: which micro-batches of a step this process uses.

    Raises:
        BiosmithError: the weights of a mixture leave nothing to learn from.
    """
    for phase, rate in zip(phases, rates, strict=False):
        if phase != cursor.phase:
            cursor = Cursor(phase)
        step = []
        for _ in range(micro_batches):
            epoch, index = _next_with_content(makers[phase], cursor.epoch), cursor.index
            last = index + 1 >= len(makers[phase].plan(epoch))
            cursor = Cursor(phase, epoch + 1, 0) if last else Cursor(phase, epoch, index + 1)
            step.append(Request(phase, epoch, index, rate, cursor))
        # Whichever micro-batches a process takes, after its last one the step is used up.
        taken = step[take]
        yield from taken[:-1]
        yield taken[-1]._replace(after=cursor)


def _next_with_content(maker: BatchMaker, epoch: int) -> int:
    """The first epoch from this one on that has a micro-batch."""
    for candidate in range(epoch, epoch + MOST_EMPTY_EPOCHS):
        if len(maker.plan(candidate)):
            return candidate
    raise BiosmithError(
        f"no document takes part in any of {MOST_EMPTY_EPOCHS:,} epochs; raise the weights of the token stores"
    )


def load(
    wanted: Iterator[Request], makers: Sequence[BatchMaker], workers: int, pin: bool
) -> Generator[Loaded]:
    """Micro-batches in the order of the requests. Its processes end when it is closed.

    Args:
        wanted: see `requests`.
        makers: one a phase.
        workers: processes that prepare ahead; 0 prepares in this one when asked.
        pin: put tensors in page-locked memory, for asynchronous copies to a CUDA device.
    """
    options: dict[str, Any] = {"prefetch_factor": 4} if workers else {}
    loader: DataLoader[Loaded] = DataLoader(
        MicroBatches(makers),
        batch_size=None,
        sampler=_Once(wanted),
        num_workers=workers,
        pin_memory=pin,
        collate_fn=_unchanged,
        worker_init_fn=_leave_signals_to_the_main_process,
        **options,
    )
    yield from loader


class _Once:
    """An iterator where the loader wants an iterable; it is gone through once."""

    def __init__(self, wanted: Iterator[Request]) -> None:
        self.wanted = wanted

    def __iter__(self) -> Iterator[Request]:
        return self.wanted


def _leave_signals_to_the_main_process(worker: int) -> None:
    """Ctrl-C, and SIGTERM from `timeout` or a cluster, reach the whole group of processes; only the main one stops.

    Workers end when it asks them to, and when it is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _unchanged(loaded: Any) -> Any:
    return loaded
