"""Training steps on a CUDA device as CUDA graphs: small batches of small models wait for launches, not for arithmetic.

A graph replays kernels of fixed shapes at fixed addresses. So batches are padded to a few shapes: tokens to a multiple,
the rest one more sequence that nothing reads; picks to as many as there are tokens, with the target -100, which losses
ignore. The first step of each shape runs as usual and is then captured; later ones are copied into place and replayed.
Where a step cannot be captured, this and all later ones run as usual.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from biosmith.models.encoder import Encoder
from biosmith.progress import say
from biosmith.tasks.batches import Batch
from biosmith.tasks.crf import LinearChain
from biosmith.tasks.losses import Losses

IGNORED = -100  # target of a pick that no loss counts, as in torch's cross entropy
SHORTEST = 32  # least bound of sequence lengths
MOST_GRAPHS = 64  # batches of further shapes run as usual
_STEPS_OF_SIZE = 8  # shapes between a power of two tokens and the next


@dataclass(frozen=True)
class Shape:
    """What the addresses and sizes of a captured step depend on."""

    tokens: int
    sequences: int
    longest: int
    picks: int


def is_capturable(network: nn.Module) -> bool:
    """Whether a network's step may become a graph: the fast encoder under heads without recurrence.

    What `transformers` and cuDNN's LSTM do depends on the lengths in the batch.
    """
    if not isinstance(getattr(network, "encoder", None), Encoder):
        return False
    return not any(isinstance(part, nn.RNNBase | LinearChain) for part in network.modules())


def shape_of(batch: Batch, batch_size: int) -> Shape:
    """The shape that a batch is padded to.

    The rest is shorter than the bound of lengths, for the attention kernel leaves out what lies beyond it.
    """
    longest = max(SHORTEST, _power_of_two(batch.longest))
    tokens = len(batch.input_ids_T)
    multiple = min(longest, max(SHORTEST, _power_of_two(tokens) // _STEPS_OF_SIZE))
    tokens = -(-tokens // multiple) * multiple
    sequences = len(batch.cu_seqlens) - 1
    picks = tokens if _is_by_pick(batch) else len(batch.picks_K)
    return Shape(tokens, max(batch_size, sequences) + 1, longest, picks)


def _is_by_pick(batch: Batch) -> bool:
    """Whether the targets are classes of picks, so that there may be picks more that are ignored."""
    is_class = not batch.target.is_floating_point() and batch.target.dim() == 1
    return is_class and len(batch.target) == len(batch.picks_K) != len(batch.cu_seqlens) - 1


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


def padded(batch: Batch, shape: Shape) -> Batch:
    """The batch in that shape; `members` are as before."""
    rest = shape.tokens - len(batch.input_ids_T)
    values = dict(batch.tensors())
    for name in ("input_ids_T", "position_ids_T", "token_type_ids_T"):
        values[name] = F.pad(values[name], (0, rest))
    slots = shape.sequences + 1 - len(batch.cu_seqlens)
    values["cu_seqlens"] = F.pad(batch.cu_seqlens, (0, slots), value=shape.tokens)
    more = shape.picks - len(batch.picks_K)
    if more:
        values["picks_K"] = F.pad(batch.picks_K, (0, more))
        values["target"] = F.pad(batch.target, (0, more), value=IGNORED)
    return Batch(**values, longest=shape.longest, members=batch.members)


class _Placed:
    """A batch at fixed addresses: one buffer on the device, which one copy fills."""

    def __init__(self, batch: Batch, device: torch.device) -> None:
        self._places: dict[str, tuple[int, int]] = {}
        size = 0
        for name, value in batch.tensors().items():
            self._places[name] = (size, size + value.nbytes)
            size += -(-value.nbytes // 16) * 16
        self._buffer = torch.empty(size, dtype=torch.uint8, device=device)
        views = {
            name: self._buffer[a:b].view(value.dtype).view(value.shape)
            for (name, value), (a, b) in zip(batch.tensors().items(), self._places.values(), strict=True)
        }
        self.batch = Batch(**views, longest=batch.longest, members=np.empty(0, np.int64))
        self.fill(batch)

    def fill(self, batch: Batch) -> None:
        """Copy a batch of the same shape, without waiting for it."""
        staged = torch.empty(len(self._buffer), dtype=torch.uint8, pin_memory=self._buffer.is_cuda)
        for name, value in batch.tensors().items():
            a, b = self._places[name]
            staged[a:b] = value.contiguous().view(-1).view(torch.uint8)
        self._buffer.copy_(staged, non_blocking=True)


class Recorder:
    """Captures what runs on a stream of its own; all graphs share one pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Run on that stream, after what runs now and before what comes next."""
        self._stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            torch.cuda.current_stream().wait_stream(self._stream)

    def capture(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """The graph of a step, of which nothing is computed yet.

        Raises:
            RuntimeError: something in it cannot be captured, or memory is short; eager steps may follow.
        """
        graph, device = torch.cuda.CUDAGraph(), self._stream.device.index
        generator = torch.cuda.default_generators[device]
        before = generator.clone_state()
        try:
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            step()
            graph.capture_end()
        except RuntimeError:
            # An end that fails, too, leaves the allocator and the generator believing that the capture goes on: the one
            # would give no cached memory back, the other refuse every draw.
            with contextlib.suppress(RuntimeError):
                graph.capture_end()
            with contextlib.suppress(RuntimeError):
                torch._C._cuda_endAllocateToPool(device, self._pool)
            generator.graphsafe_set_state(before)
            raise
        return graph


class GraphedSteps:
    """Optimizer steps: forward, backward, clipping and update, captured once for each shape of batch.

    The first that cannot be captured ends the capturing: the run goes on with eager steps, and says so.

    Args:
        network: on a CUDA device, in training mode.
        loss_of: mean loss of a batch that ignores targets of -100; tensor arithmetic only, without waiting for the
            device.
        optimizer: one made by `make_capturable`.
        batch_size: sequences of a full batch.
        clip: largest norm of the gradient; 0 for no limit.

    Attributes:
        losses: of the steps since they were last cleared.
    """

    def __init__(
        self,
        network: nn.Module,
        loss_of: Callable[[Batch], Tensor],
        optimizer: torch.optim.Optimizer,
        *,
        batch_size: int,
        clip: float,
    ) -> None:
        self.network, self.loss_of, self.optimizer = network, loss_of, optimizer
        self.batch_size, self.clip = batch_size, clip
        self.device = next(network.parameters()).device
        self.losses = Losses(self.device)
        self._graphs: dict[Any, tuple[_Placed, torch.cuda.CUDAGraph]] = {}
        self._recorder: Recorder | None = Recorder(self.device)

    def __call__(self, batch: Batch) -> None:
        """Make one step with a batch that lies in the host's memory."""
        if self._recorder is None:
            self._step(batch.to(self.device))
            self.optimizer.zero_grad(set_to_none=True)
            return
        shape = shape_of(batch, self.batch_size)
        batch = padded(batch, shape)
        key = (shape, tuple((name, value.shape, value.dtype) for name, value in batch.tensors().items()))
        if key in self._graphs:
            placed, graph = self._graphs[key]
            placed.fill(batch)
            graph.replay()
            return
        placed = _Placed(batch, self.device)
        with self._recorder.aside():
            self._step(placed.batch)
            if len(self._graphs) < MOST_GRAPHS:
                try:
                    self._graphs[key] = (placed, self._recorder.capture(lambda: self._step(placed.batch)))
                except RuntimeError as error:
                    self._give_up(error)
            # The gradients may lie in the graph's memory; the next capture takes its own.
            self.optimizer.zero_grad(set_to_none=True)

    def _give_up(self, error: RuntimeError) -> None:
        self._recorder = None
        self._graphs.clear()  # they draw from the generator that the failed capture spoilt
        why = next(iter(str(error).splitlines()), type(error).__name__)
        say(
            f"Warning: training steps could not be captured as CUDA graphs and run one by one, more slowly: {why}"
        )

    def _step(self, batch: Batch) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        # The cache of cast weights would outlive a step, and a graph must cast the weights that it finds.
        on_cuda = self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=on_cuda, cache_enabled=False):
            loss = self.loss_of(batch)
        loss.backward()
        if self.clip:
            trained = [p for p in self.network.parameters() if p.grad is not None]
            torch.nn.utils.clip_grad_norm_(trained, self.clip, foreach=True)
        self.optimizer.step()
        self.losses.add(loss.detach())


def make_capturable(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Let an AdamW keep its learning rates and step counts on the device, where graphs read them.

    A scheduler made before, from plain numbers, goes on setting the rates, without waiting for the device.
    """
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(float(group["lr"]), device=device)
        group["capturable"] = True
