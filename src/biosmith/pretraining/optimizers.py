"""Optimizers as the papers ran them, built on torch's own kernels.

An optimizer made here takes two tensors before each `step`, which are read on the device so that the host never waits:
`grad_scale`, by which gradients are divided (clipping), and `found_inf`, which is 1 where the update has to be left out
(a gradient that is not finite). torch's fused AdamW knows both; LAMB and Muon are made to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from biosmith.pretraining.config import AdamW, Lamb, Muon, Optimizer
from biosmith.pretraining.parallel import gather

# Adam corrects its averages by 1 - beta ** t. From this t on the correction is exactly 1 in every precision, and
# t + 1 == t in float32, so that it stays there: Adam without bias correction, by the stock kernels.
FAR_STEP = float(1 << 24)

Group = dict[str, Any]


def make_optimizers(model: nn.Module, config: Optimizer) -> list[torch.optim.Optimizer]:
    """The optimizers of a recipe over the parameters of a model; the learning rate is set before each step."""
    groups = parameter_groups(model, config.weight_decay)
    if isinstance(config, AdamW):
        return [_adamw(groups, config.learning_rate, config.betas, config.epsilon, config.bias_correction)]
    if isinstance(config, Lamb):
        return [LambOptimizer(groups, config)]
    matrices = _layer_matrices(model)
    rest = [
        group | {"params": [p for p in group["params"] if id(p) not in {id(m) for m in matrices}]}
        for group in groups
    ]
    return [
        MuonOptimizer(matrices, config),
        _adamw([g for g in rest if g["params"]], config.learning_rate, config.betas, config.epsilon, True),
    ]


def parameter_groups(model: nn.Module, weight_decay: float) -> list[Group]:
    """Parameters that are decayed, and those that are not: every bias, and all of LayerNorm (Devlin et al., 2019)."""
    spared = {id(p) for part in model.modules() if isinstance(part, nn.LayerNorm) for p in part.parameters()}
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_kept = id(parameter) in spared or name.rpartition(".")[2] == "bias"
            (kept if is_kept else decayed).append(parameter)
    groups: list[Group] = [{"params": decayed, "weight_decay": weight_decay}]
    return [*groups, {"params": kept, "weight_decay": 0.0}] if kept else groups


def _layer_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices of the encoder's layers; embeddings and heads are left to AdamW."""
    return [p for name, p in model.named_parameters() if p.ndim == 2 and ".layers." in f".{name}"]


def _adamw(
    groups: Sequence[Group], learning_rate: float, betas: tuple[float, float], epsilon: float, correct: bool
) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=epsilon, fused=True)
    if not correct:
        for parameter in itertools.chain(*(group["params"] for group in optimizer.param_groups)):
            optimizer.state[parameter] = {
                "step": torch.full((), FAR_STEP, dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
    return optimizer


class LambOptimizer(torch.optim.Optimizer):
    """LAMB (You et al., 2020, Algorithm 2), for all parameters at once.

    m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; u = m / (sqrt(v) + eps) + decay w;
    w -= rate * (|w| / |u|) * u, the ratio being 1 where a norm is 0 and for groups without decay (biases, LayerNorm).
    """

    grad_scale: Tensor
    found_inf: Tensor

    def __init__(self, groups: Sequence[Group], config: Lamb) -> None:
        super().__init__(groups, {"lr": config.learning_rate, "weight_decay": 0.0})
        self.config = config
        for parameter in itertools.chain(*(group["params"] for group in self.param_groups)):
            self.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One update; nothing changes where `found_inf` is 1."""
        for group in self.param_groups:
            parameters: list[Tensor] = [p for p in group["params"] if p.grad is not None]
            if parameters:
                self._step_group(group, parameters)

    def _step_group(self, group: Group, parameters: list[Tensor]) -> None:
        beta_1, beta_2 = self.config.betas
        kept = 1.0 - self.found_inf
        means, squares, steps = (
            [self.state[p][k] for p in parameters] for k in ("exp_avg", "exp_avg_sq", "step")
        )
        gradients = [
            torch.where(kept > 0, p.grad / self.grad_scale, 0.0) for p in parameters if p.grad is not None
        ]
        torch._foreach_add_(steps, [kept] * len(steps))
        # What is added to an average is its distance to the gradient, times 0 where the update is left out.
        towards = torch._foreach_sub(gradients, means)
        torch._foreach_mul_(towards, (1 - beta_1) * kept)
        torch._foreach_add_(means, towards)
        torch._foreach_mul_(gradients, gradients)
        torch._foreach_sub_(gradients, squares)
        torch._foreach_mul_(gradients, (1 - beta_2) * kept)
        torch._foreach_add_(squares, gradients)
        roots = torch._foreach_sqrt(squares)
        updates = torch._foreach_add(means, 0.0)
        if self.config.bias_correction:
            torch._foreach_mul_(updates, [1 / (1 - beta_1**s) for s in steps])
            torch._foreach_mul_(roots, [1 / (1 - beta_2**s).sqrt() for s in steps])
        torch._foreach_add_(roots, self.config.epsilon)
        torch._foreach_div_(updates, roots)
        if group["weight_decay"]:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
            sizes, lengths = (
                torch.stack(torch._foreach_norm(values)) for values in (parameters, list(updates))
            )
            ratios = torch.where((sizes > 0) & (lengths > 0), sizes / lengths, 1.0)
            torch._foreach_mul_(updates, list(ratios.unbind()))
        torch._foreach_mul_(updates, kept)
        torch._foreach_add_(parameters, updates, alpha=-group["lr"])


class MuonOptimizer(torch.optim.Muon):
    """torch's Muon with `grad_scale` and `found_inf`. Reading the latter makes the host wait once a step."""

    grad_scale: Tensor
    found_inf: Tensor

    def __init__(self, parameters: Sequence[nn.Parameter], config: Muon) -> None:
        super().__init__(
            parameters,
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            momentum=config.momentum,
            adjust_lr_fn="match_rms_adamw",
        )

    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One update; nothing changes where `found_inf` is 1."""
        if not self.found_inf.item():
            gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
            torch._foreach_div_(gradients, self.grad_scale)
            super().step()


def update(
    optimizers: Sequence[torch.optim.Optimizer], learning_rate: float, clip_norm: float
) -> tuple[Tensor, Tensor]:
    """One update from the gradients that are there, which are cleared.

    Args:
        optimizers: of `make_optimizers`.
        learning_rate: of this update.
        clip_norm: the global gradient norm is brought down to this; 0 is off.

    Returns:
        The global gradient norm before clipping, and 1.0 where it was not finite and the update was left out, else
        0.0; float32 scalars on the device of the parameters.
    """
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
    norm = gather(torch.nn.utils.get_total_norm(gradients, foreach=True)).float()
    skipped = 1.0 - torch.isfinite(norm).float()
    scale = (norm / clip_norm).clamp(min=1.0) if clip_norm > 0 else torch.ones_like(norm)
    for group in groups:
        group["lr"] = learning_rate
    for optimizer in optimizers:
        optimizer.grad_scale, optimizer.found_inf = scale, skipped  # type: ignore[attr-defined]
        optimizer.step()
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    return norm, skipped
