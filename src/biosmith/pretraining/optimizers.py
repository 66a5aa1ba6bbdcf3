"""Optimizers as the papers ran them, built on torch's own kernels.

An optimizer made here takes two tensors before each `step`, which torch's fused kernels read on the device so that the
host never waits: `grad_scale`, by which gradients are divided (clipping), and `found_inf`, which is 1 where the update
has to be left out (a gradient that is not finite).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from biosmith.pretraining.config import AdamW, Optimizer

# Adam corrects its averages by 1 - beta ** t. From this t on the correction is exactly 1 in every precision, and
# t + 1 == t in float32, so that it stays there: Adam without bias correction, by the stock kernels.
FAR_STEP = float(1 << 24)


def make_optimizer(model: nn.Module, config: Optimizer) -> torch.optim.Optimizer:
    """The optimizer of a recipe over the parameters of a model; the learning rate is set before each step."""
    return _adamw(parameter_groups(model, config.weight_decay), config)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Parameters that are decayed, and those that are not: every bias, and all of LayerNorm (Devlin et al., 2019)."""
    spared = {id(p) for part in model.modules() if isinstance(part, nn.LayerNorm) for p in part.parameters()}
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_kept = id(parameter) in spared or name.rpartition(".")[2] == "bias"
            (kept if is_kept else decayed).append(parameter)
    groups: list[dict[str, object]] = [{"params": decayed, "weight_decay": weight_decay}]
    return [*groups, {"params": kept, "weight_decay": 0.0}] if kept else groups


def _adamw(groups: list[dict[str, object]], config: AdamW) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(
        groups, lr=config.learning_rate, betas=config.betas, eps=config.epsilon, fused=True
    )
    if not config.bias_correction:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                optimizer.state[parameter] = {
                    "step": torch.full((), FAR_STEP, dtype=torch.float32, device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
    return optimizer


def update(optimizer: torch.optim.Optimizer, learning_rate: float, clip_norm: float) -> tuple[Tensor, Tensor]:
    """One update from the gradients that are there, which are cleared.

    Args:
        optimizer: of `make_optimizer`.
        learning_rate: of this update.
        clip_norm: the global gradient norm is brought down to this; 0 is off.

    Returns:
        The global gradient norm before clipping, and 1.0 where it was not finite and the update was left out, else
        0.0; float32 scalars on the device of the parameters.
    """
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients, foreach=True).float()
    skipped = 1.0 - torch.isfinite(norm).float()
    scale = (norm / clip_norm).clamp(min=1.0) if clip_norm > 0 else torch.ones_like(norm)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.grad_scale, optimizer.found_inf = scale, skipped  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm, skipped
