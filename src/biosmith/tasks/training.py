"""The fine-tuning loop that every task shares: AdamW, linear warm-up and decay, checkpoints after epochs.

The order of the batches is a pure function of (seed, epoch) and dropout is seeded anew each epoch, so a run that was
stopped goes on from its last checkpoint and ends with the same weights on the CPU. Writing checkpoints takes about a
twentieth of the time at most: an epoch that is over before that has none.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import json
import math
import pickle
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from biosmith.artefact import digest_value, write_by_rename
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.models.finite import find_not_finite
from biosmith.progress import progress, say
from biosmith.randomness import derive_key
from biosmith.tasks.batches import Batch, pack, training_order
from biosmith.tasks.graphs import GraphedSteps, is_capturable, make_capturable
from biosmith.tasks.inputs import Example
from biosmith.tasks.layers import learning_rate_scales
from biosmith.tasks.losses import Losses, NotFinite
from biosmith.tasks.settings import TrainingSettings

CHECKPOINT, PLAN = "checkpoint.pt", "plan.json"
LEAST_SHARE = 20  # seconds of training for each second of writing
WRITTEN_A_SECOND = 200e6  # bytes, until it is known how fast the disk is
CHECK_EVERY = 100  # steps: to see whether losses are finite, a device is waited for
SHORT = 0.5  # seconds: a checkpoint that takes less is not worth sparing


@dataclass
class History:
    """What a run has done so far; saved with each checkpoint."""

    epoch: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)  # metrics.jsonl
    best_epoch: int | None = None
    best_score: float | None = None


def choose_device(name: str) -> torch.device:
    """The device that a setting names; "auto" is a CUDA device if there is one.

    Raises:
        UsageError: the name is no device, one of another kind than these, or this machine has none of it.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"device {name!r} is unknown; valid: auto, cpu, cuda, cuda:1, ...") from error
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"device {name!r} is not supported; valid: auto, cpu, cuda, cuda:1, ...")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"device {name!r}: this machine has no CUDA device")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"device {name!r}: this machine has {torch.cuda.device_count()} CUDA devices")
    return device


@contextlib.contextmanager
def seeded(seed: int, stream: str, *parts: int) -> Iterator[None]:
    """Torch draws from a seed of its own inside the block; outside nothing has changed."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(derive_key(seed, stream, *parts) >> 1)
        yield


def train(
    network: nn.Module,
    examples: Sequence[Example],
    loss_of: Callable[[Batch], Tensor],
    settings: TrainingSettings,
    *,
    score: Callable[[], Mapping[str, float]] | None = None,
    work: Path | None = None,
    identity: Any = None,
) -> History:
    """Train in place; the network ends with the weights that `settings.keep` asks for, in evaluation mode.

    Args:
        network: the module to train, on its device.
        examples: the training split, one sequence each.
        loss_of: mean loss of a batch.
        settings: see `TrainingSettings`.
        score: scores the network on the development split; its "value" decides which epoch is best. None keeps the
            last epoch.
        work: folder for checkpoints, made anew unless it holds a run of the same `identity`; None keeps none.
        identity: whatever else decides the result (digests of data and model).

    Raises:
        UsageError: there are no examples.
        BiosmithError: a loss, or a weight at the end, is not finite.
    """
    if not examples:
        raise UsageError("there is nothing to train on: no text of the training split has a piece")
    optimizer = _optimizer(network, settings)
    steps_an_epoch = -(-len(examples) // settings.batch_size)
    total = steps_an_epoch * settings.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: linear_schedule(step, total, settings.warmup)
    )
    plan = {
        "settings": settings,
        "identity": identity,
        "examples": None if work is None else _digest(examples),
    }
    saved = _Saved(work, plan)
    history = saved.resume(network, optimizer, schedule)
    best = saved.best(history)
    spoilt, begun = find_not_finite(network), history.epoch
    steps = _make_steps(network, loss_of, optimizer, settings)
    with progress("Training", total=total, unit="steps") as advance:
        advance(history.epoch * steps_an_epoch)
        for epoch in range(history.epoch, settings.epochs):
            check = functools.partial(
                _require_finite, steps.losses, settings, epoch, is_first=epoch == begun, spoilt=spoilt
            )
            line = _epoch(steps, examples, settings, epoch, schedule, advance, check)
            last = epoch + 1 == settings.epochs
            if score is not None and (settings.keep == "best" or last):
                network.eval()
                scores = dict(score())
                line |= {f"dev_{name}": value for name, value in scores.items()}
                if (
                    settings.keep == "last"
                    or history.best_score is None
                    or scores["value"] > history.best_score
                ):
                    history.best_epoch, history.best_score = epoch + 1, scores["value"]
                    best = (
                        copy.deepcopy(network.state_dict()) if settings.keep == "best" and not last else None
                    )
            history.epoch = epoch + 1
            history.lines.append(line)
            if not last and saved.is_due(network):
                saved.save(network, optimizer, schedule, history, best)
            say(_describe(line, settings.epochs))
    if settings.keep == "best" and best is not None and history.best_epoch != settings.epochs:
        network.load_state_dict(best)
    if spoilt is None and (name := find_not_finite(network)) is not None:
        raise BiosmithError(
            f"the last steps left NaN or an infinite number in {name!r}; lower learning_rate ({settings.learning_rate:g})"
        )
    network.eval()
    return history


def _digest(examples: Sequence[Example]) -> str:
    """SHA-256 of what is learnt: the same files become other examples by other names of types, or another tokenizer."""
    digest = hashlib.sha256()
    for example in examples:
        for values in (example.ids, example.picks, example.target):
            digest.update(f"{values.dtype}{values.shape}".encode() + values.tobytes())
    return digest.hexdigest()


def linear_schedule(step: int, total: int, warmup: float) -> float:
    """Share of the peak learning rate at a step counted from 0: up to 1 over the warm-up, then down to 0."""
    rising = math.ceil(total * warmup)
    if step < rising:
        return step / max(1, rising)
    return max(0.0, (total - step) / max(1, total - rising))


def _optimizer(network: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """AdamW; biases and the gains of LayerNorm are not decayed, lower layers learn more slowly (`layer_decay`)."""
    normed = {
        f"{name}.{parameter}" if name else parameter
        for name, module in network.named_modules()
        if isinstance(module, nn.LayerNorm)
        for parameter, _ in module.named_parameters(recurse=False)
    }
    trained = [(n, p) for n, p in network.named_parameters() if p.requires_grad]
    scales = learning_rate_scales([n for n, _ in network.named_parameters()], settings.layer_decay)
    groups = []
    # The fastest first: its learning rate is the one that is logged.
    for scale in sorted({scales[n] for n, _ in trained}, reverse=True):
        here = [(n, p) for n, p in trained if scales[n] == scale]
        plain = [p for n, p in here if n in normed or n.endswith("bias")]
        decayed = [p for n, p in here if not (n in normed or n.endswith("bias"))]
        for members, decay in ((decayed, settings.weight_decay), (plain, 0.0)):
            if members:
                groups.append(
                    {"params": members, "weight_decay": decay, "lr": settings.learning_rate * scale}
                )
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)


class _PlainSteps:
    """Optimizer steps one operation after the other: on a CPU, and for networks that cannot be captured."""

    def __init__(
        self,
        network: nn.Module,
        loss_of: Callable[[Batch], Tensor],
        optimizer: torch.optim.Optimizer,
        *,
        clip: float,
    ) -> None:
        self.network, self.loss_of, self.optimizer, self.clip = network, loss_of, optimizer, clip
        self.device = next(network.parameters()).device
        self.losses = Losses(self.device)

    def __call__(self, batch: Batch) -> None:
        on_cuda = self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=on_cuda):
            loss = self.loss_of(batch.to(self.device))
        loss.backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.clip, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.losses.add(loss.detach())


def _make_steps(
    network: nn.Module,
    loss_of: Callable[[Batch], Tensor],
    optimizer: torch.optim.Optimizer,
    settings: TrainingSettings,
) -> _PlainSteps | GraphedSteps:
    device = next(network.parameters()).device
    if device.type != "cuda" or not is_capturable(network):
        for group in optimizer.param_groups:  # a checkpoint of captured steps may have been loaded
            group["lr"], group["capturable"] = float(group["lr"]), False
        return _PlainSteps(network, loss_of, optimizer, clip=settings.clip)
    make_capturable(optimizer, device)
    return GraphedSteps(network, loss_of, optimizer, batch_size=settings.batch_size, clip=settings.clip)


def _epoch(
    steps: _PlainSteps | GraphedSteps,
    examples: Sequence[Example],
    settings: TrainingSettings,
    epoch: int,
    schedule: Any,
    advance: Callable[[int], None],
    check: Callable[[int], None],
) -> dict[str, Any]:
    steps.network.train()
    steps.losses.clear()
    tokens, began = 0, time.perf_counter()
    batches = training_order(len(examples), settings.batch_size, settings.seed, epoch)
    with seeded(settings.seed, "dropout", epoch):
        for number, members in enumerate(batches, 1):
            batch = pack(examples, members)
            steps(batch)
            schedule.step()
            tokens += len(batch.input_ids_T)
            advance(1)
            if number == 1 or number % CHECK_EVERY == 0 or number == len(batches):
                check(number)
    mean_loss = steps.losses.total / max(1, len(batches))
    seconds = time.perf_counter() - began
    return {
        "epoch": epoch + 1,
        "step": (epoch + 1) * len(batches),
        "loss": mean_loss,
        "learning_rate": float(schedule.get_last_lr()[0]),
        "tokens_per_second": tokens / seconds,
        "seconds": seconds,
    }


def _require_finite(
    losses: Losses, settings: TrainingSettings, epoch: int, steps: int, *, is_first: bool, spoilt: str | None
) -> None:
    """Raise `BiosmithError` unless the losses of the epoch's `steps` are finite; waits for the device."""
    found = losses.not_finite()
    if found is not None:
        first, count = found
        trouble = NotFinite(first, count, steps, is_first and first == 1, spoilt)
        raise BiosmithError(trouble.explain(epoch + 1, settings.learning_rate))


def _describe(line: Mapping[str, Any], epochs: int) -> str:
    dev = f", dev {100 * line['dev_value']:.2f}" if "dev_value" in line else ""
    return (
        f"Epoch {line['epoch']} of {epochs}: loss {line['loss']:.4f}{dev}, "
        f"{line['tokens_per_second']:,.0f} tokens/s"
    )


class _Saved:
    """The checkpoints of a run in its work folder."""

    def __init__(self, folder: Path | None, plan: Mapping[str, Any]) -> None:
        self.folder, self.plan = folder, digest_value(plan)
        self._saved_at, self._cost = time.monotonic(), 0.0

    def resume(self, network: nn.Module, optimizer: torch.optim.Optimizer, schedule: Any) -> History:
        if self.folder is None:
            return History()
        if self._is_ours() and (self.folder / CHECKPOINT).is_file():
            state = _load(self.folder / CHECKPOINT)
            network.load_state_dict(state["network"])
            optimizer.load_state_dict(state["optimizer"])
            schedule.load_state_dict(state["schedule"])
            history = History(**state["history"])
            say(f"Going on after epoch {history.epoch}, as found in {self.folder}")
            return history
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in (self.folder / CHECKPOINT, *self.folder.glob("best-*.pt")):
            file.unlink(missing_ok=True)
        with write_by_rename(self.folder / PLAN) as temporary:
            temporary.write_text(json.dumps({"digest": self.plan}), encoding="utf-8")
        return History()

    def _is_ours(self) -> bool:
        assert self.folder is not None
        try:
            plan = json.loads((self.folder / PLAN).read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return False
        return isinstance(plan, dict) and plan.get("digest") == self.plan

    def best(self, history: History) -> dict[str, Tensor] | None:
        if self.folder is None or history.best_epoch is None:
            return None
        state: dict[str, Tensor] = _load(self._best_file(history))
        return state

    def _best_file(self, history: History) -> Path:
        assert self.folder is not None
        return self.folder / f"best-{history.best_epoch}.pt"

    def is_due(self, network: nn.Module) -> bool:
        """Whether enough was trained since the last checkpoint to be worth writing another."""
        trained = sum(p.nbytes for p in network.parameters() if p.requires_grad)
        others = sum(p.nbytes for p in network.parameters()) - trained
        cost = max(
            self._cost, (3 * trained + others) / WRITTEN_A_SECOND
        )  # AdamW keeps two values a parameter
        return cost < SHORT or time.monotonic() - self._saved_at >= LEAST_SHARE * cost

    def save(
        self,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: Any,
        history: History,
        best: dict[str, Tensor] | None,
    ) -> None:
        if self.folder is None:
            return
        began = time.monotonic()
        if best is not None and not self._best_file(history).is_file():
            _save(best, self._best_file(history))
        state = {
            "network": network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "history": vars(history),
        }
        _save(state, self.folder / CHECKPOINT)
        for file in self.folder.glob("best-*.pt"):
            if file != self._best_file(history):
                file.unlink()
        self._saved_at = time.monotonic()
        self._cost = self._saved_at - began


def _load(path: Path) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError) as error:
        # Such as after a power cut, which writing by rename does not outlast.
        why = next(iter(str(error).splitlines()), "it is empty")
        reason = f"cannot be read; remove {path.parent} to begin anew: {why}"
        raise BadInput(path, reason) from error


def _save(value: Any, path: Path) -> None:
    with write_by_rename(path) as temporary:
        try:
            torch.save(value, temporary)
        except RuntimeError as error:
            # torch reports a full disk as an error of its own archive writer.
            free = shutil.disk_usage(path.parent).free
            raise BiosmithError(
                f"{path} could not be written, {free:,} bytes are free on the disk: {str(error).splitlines()[0]}"
            ) from error
