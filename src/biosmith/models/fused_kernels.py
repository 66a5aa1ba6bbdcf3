# mypy: allow-untyped-defs
"""Element-wise and reduction kernels of the fused layer: Triton on a CUDA device, plain torch elsewhere.

A narrow encoder spends as much time moving activations as multiplying matrices. Each kernel here reads and writes an
activation once where separate operations would go over it several times; sums over tokens (the gradients of biases
and LayerNorm) ride along in registers instead of taking a pass of their own. The torch forms say what each computes
and are what the tests compare the kernels with.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

try:
    import triton
    import triton.language as tl
except ImportError:  # a CPU build of torch brings no Triton
    triton = None

PROGRAMS_PER_PROCESSOR = 8


def add_layer_norm(
    x_TD: Tensor, residual_TD: Tensor, gain_D: Tensor, bias_D: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """sum = x + residual; returns (sum [T, D], LayerNorm(sum) [T, D], mean [T], 1 / standard deviation [T])."""
    if x_TD.is_cuda:
        tokens, width = x_TD.shape
        block = triton.next_power_of_2(width)
        rows = max(1, 4096 // block)
        total, normed = torch.empty_like(x_TD), torch.empty_like(x_TD)
        mean, rstd = (torch.empty(tokens, device=x_TD.device, dtype=torch.float32) for _ in range(2))
        _add_layer_norm[(triton.cdiv(tokens, rows),)](
            x_TD, residual_TD, gain_D, bias_D, total, normed, mean, rstd, tokens, epsilon, width, block, rows,
            num_warps=4,
        )  # fmt: skip
        return total, normed, mean, rstd
    total = x_TD + residual_TD
    exact = total.to(_wide(total))
    mean = exact.mean(1)
    rstd = torch.rsqrt(exact.var(1, unbiased=False) + epsilon)
    normed = (exact - mean[:, None]) * rstd[:, None] * gain_D + bias_D
    return total, normed.to(x_TD.dtype), mean, rstd


def layer_norm_backward(
    grad_TD: Tensor, total_TD: Tensor, gain_D: Tensor, mean_T: Tensor, rstd_T: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients (of the sum [T, D], gain [D], bias [D], and the first one summed over tokens [D])."""
    if grad_TD.is_cuda:
        tokens, width = grad_TD.shape
        block = triton.next_power_of_2(width)
        programs = PROGRAMS_PER_PROCESSOR * _processors(grad_TD)
        grad_sum = torch.empty_like(total_TD)
        partial = torch.empty(programs, 3, width, device=grad_TD.device, dtype=torch.float32)
        _layer_norm_backward[(programs,)](
            grad_TD, total_TD, gain_D, mean_T, rstd_T, grad_sum, partial, tokens, width, block,
            max(1, 1024 // block), num_warps=2,
        )  # fmt: skip
        # Clones: an operation's results must not share memory.
        gain, bias, summed = (part.clone() for part in partial.sum(0))
        return grad_sum, gain, bias, summed
    wide = _wide(total_TD)
    grad = grad_TD.to(wide)
    normal = (total_TD.to(wide) - mean_T[:, None]) * rstd_T[:, None]
    scaled = grad * gain_D
    centred = (
        scaled - scaled.mean(1, keepdim=True) - normal * (scaled * normal).mean(1, keepdim=True)
    ) * rstd_T[:, None]
    return centred.to(total_TD.dtype), (grad * normal).sum(0), grad.sum(0), centred.sum(0)


def gelu(x_TF: Tensor, tanh: bool) -> Tensor:
    """GELU [T, F], exact (erf) or in the tanh form."""
    if x_TF.is_cuda:
        out, count, block = torch.empty_like(x_TF), x_TF.numel(), 2048
        _gelu[(triton.cdiv(count, block),)](x_TF, out, count, tanh, block)
        return out
    return F.gelu(x_TF, approximate="tanh" if tanh else "none")


def gelu_backward(grad_TF: Tensor, x_TF: Tensor, tanh: bool) -> tuple[Tensor, Tensor]:
    """Gradients (of x [T, F], and that one summed over tokens [F])."""
    if grad_TF.is_cuda:
        tokens, width = x_TF.shape
        block = next(size for size in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1) if width % size == 0)
        programs = max(1, PROGRAMS_PER_PROCESSOR * _processors(x_TF) // (width // block))
        grad = torch.empty_like(x_TF)
        partial = torch.empty(programs, width, device=x_TF.device, dtype=torch.float32)
        rows = max(1, 4096 // block)
        _gelu_backward[(width // block, programs)](
            grad_TF, x_TF, grad, partial, tokens, width, tanh, block, rows, num_warps=4
        )
        return grad, partial.sum(0)
    grad = torch.ops.aten.gelu_backward(grad_TF, x_TF, approximate="tanh" if tanh else "none")
    return grad, grad.to(_wide(grad)).sum(0)


def join_heads(query_THK: Tensor, key_THK: Tensor, value_THK: Tensor) -> tuple[Tensor, Tensor]:
    """Three gradients side by side [T, 3 * D], and their sum over tokens [3 * D]."""
    if query_THK.is_cuda:
        tokens = query_THK.shape[0]
        width = query_THK.shape[1] * query_THK.shape[2]
        programs = 2 * _processors(query_THK)
        joined = torch.empty(tokens, 3 * width, device=query_THK.device, dtype=query_THK.dtype)
        partial = torch.empty(programs, 3, width, device=query_THK.device, dtype=torch.float32)
        parts = [part.contiguous() for part in (query_THK, key_THK, value_THK)]
        _join_heads[(3, programs)](
            *parts, joined, partial, tokens, width, triton.next_power_of_2(width), 4, num_warps=4
        )
        return joined, partial.sum(0).flatten()
    joined = torch.cat([part.flatten(1) for part in (query_THK, key_THK, value_THK)], dim=1)
    return joined, joined.to(_wide(joined)).sum(0)


def cross_entropy(logits_MV: Tensor, labels_M: Tensor) -> Tensor:
    """Loss [M] of each row; the logits are overwritten by its gradient. Rows with a negative label give 0."""
    if logits_MV.is_cuda:
        count, size = logits_MV.shape
        losses = torch.empty(count, device=logits_MV.device, dtype=torch.float32)
        _cross_entropy[(count,)](logits_MV, labels_M, losses, size, 4096, num_warps=8)
        return losses
    exact = logits_MV.to(_wide(logits_MV))
    valid_M = (labels_M >= 0).to(exact.dtype)
    target_M1 = labels_M.clamp(min=0)[:, None]
    normaliser_M = exact.logsumexp(1)
    losses = (normaliser_M - exact.gather(1, target_M1)[:, 0]) * valid_M
    probabilities = torch.exp(exact - normaliser_M[:, None])
    probabilities.scatter_add_(1, target_M1, -torch.ones_like(target_M1, dtype=exact.dtype))
    logits_MV.copy_(probabilities * valid_M[:, None])
    return losses


def _wide(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _processors(x: Tensor) -> int:
    return torch.cuda.get_device_properties(x.device).multi_processor_count


if triton is not None:
    SQRT_HALF = tl.constexpr(math.sqrt(0.5))
    INVERSE_SQRT_TWO_PI = tl.constexpr(1 / math.sqrt(2 * math.pi))
    SQRT_TWO_OVER_PI = tl.constexpr(math.sqrt(2 / math.pi))
    CUBIC = tl.constexpr(0.044715)  # the tanh form of GELU (Hendrycks and Gimpel, 2016)

    @triton.jit
    def _add_layer_norm(
        x, residual, gain, bias, total, normed, mean, rstd, tokens, epsilon,
        WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        column = tl.arange(0, BLOCK)
        inside = (row[:, None] < tokens) & (column[None, :] < WIDTH)
        at = row[:, None].to(tl.int64) * WIDTH + column[None, :]
        added = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        added += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
        # The backward pass sees the rounded sum: the statistics are taken of the same numbers.
        rounded = added.to(total.dtype.element_ty)
        added = rounded.to(tl.float32)
        centre = tl.sum(added, 1) / WIDTH
        centred = tl.where(inside, added - centre[:, None], 0.0)
        inverse = tl.rsqrt(tl.sum(centred * centred, 1) / WIDTH + epsilon)
        gains = tl.load(gain + column, mask=column < WIDTH, other=0.0).to(tl.float32)
        biases = tl.load(bias + column, mask=column < WIDTH, other=0.0).to(tl.float32)
        result = centred * inverse[:, None] * gains[None, :] + biases[None, :]
        tl.store(total + at, rounded, mask=inside)
        tl.store(normed + at, result.to(normed.dtype.element_ty), mask=inside)
        tl.store(mean + row, centre, mask=row < tokens)
        tl.store(rstd + row, inverse, mask=row < tokens)

    @triton.jit
    def _layer_norm_backward(
        grad, total, gain, mean, rstd, grad_sum, partial, tokens,
        WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    ):  # fmt: skip
        program, programs = tl.program_id(0), tl.num_programs(0)
        column = tl.arange(0, BLOCK)
        gains = tl.load(gain + column, mask=column < WIDTH, other=0.0).to(tl.float32)
        # Sums over tokens stay spread over the rows of a tile until the end: adding the rows up at every step would
        # cross warps each time and was measured to cost four times the kernel.
        of_gain = tl.zeros([ROWS, BLOCK], tl.float32)
        of_bias = tl.zeros([ROWS, BLOCK], tl.float32)
        of_sum = tl.zeros([ROWS, BLOCK], tl.float32)
        for tile in range(program, tl.cdiv(tokens, ROWS), programs):
            row = tile * ROWS + tl.arange(0, ROWS)
            inside = (row[:, None] < tokens) & (column[None, :] < WIDTH)
            at = row[:, None].to(tl.int64) * WIDTH + column[None, :]
            g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
            value = tl.load(total + at, mask=inside, other=0.0).to(tl.float32)
            centre = tl.load(mean + row, mask=row < tokens, other=0.0)
            inverse = tl.load(rstd + row, mask=row < tokens, other=0.0)
            normal = tl.where(inside, (value - centre[:, None]) * inverse[:, None], 0.0)
            scaled = g * gains[None, :]
            first = tl.sum(scaled, 1) / WIDTH
            second = tl.sum(scaled * normal, 1) / WIDTH
            result = (scaled - first[:, None] - normal * second[:, None]) * inverse[:, None]
            result = tl.where(inside, result, 0.0)
            tl.store(grad_sum + at, result.to(grad_sum.dtype.element_ty), mask=inside)
            of_gain += g * normal
            of_bias += g
            of_sum += result
        base = partial + program * 3 * WIDTH
        tl.store(base + column, tl.sum(of_gain, 0), mask=column < WIDTH)
        tl.store(base + WIDTH + column, tl.sum(of_bias, 0), mask=column < WIDTH)
        tl.store(base + 2 * WIDTH + column, tl.sum(of_sum, 0), mask=column < WIDTH)

    @triton.jit
    def _gelu(x, out, count, TANH: tl.constexpr, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < count, other=0.0).to(tl.float32)
        if TANH:
            inner = SQRT_TWO_OVER_PI * (v + CUBIC * v * v * v)
            share = 1 / (1 + tl.exp(-2 * inner))  # (1 + tanh(inner)) / 2
        else:
            share = 0.5 * (1 + tl.erf(v * SQRT_HALF))
        tl.store(out + at, (v * share).to(out.dtype.element_ty), mask=at < count)

    @triton.jit
    def _gelu_backward(
        grad, x, out, partial, tokens,
        WIDTH: tl.constexpr, TANH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    ):  # fmt: skip
        program, programs = tl.program_id(1), tl.num_programs(1)
        column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        summed = tl.zeros([ROWS, BLOCK], tl.float32)
        for tile in range(program, tl.cdiv(tokens, ROWS), programs):
            row = tile * ROWS + tl.arange(0, ROWS)
            inside = row[:, None] < tokens
            at = row[:, None].to(tl.int64) * WIDTH + column[None, :]
            v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
            g = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
            if TANH:
                inner = SQRT_TWO_OVER_PI * (v + CUBIC * v * v * v)
                share = 1 / (1 + tl.exp(-2 * inner))
                slope = 2 * share * (1 - share) * SQRT_TWO_OVER_PI * (1 + 3 * CUBIC * v * v)
            else:
                share = 0.5 * (1 + tl.erf(v * SQRT_HALF))
                slope = INVERSE_SQRT_TWO_PI * tl.exp(-0.5 * v * v)
            result = g * (share + v * slope)
            tl.store(out + at, result.to(out.dtype.element_ty), mask=inside)
            summed += result
        tl.store(partial + program * WIDTH + column, tl.sum(summed, 0))

    @triton.jit
    def _join_heads(
        query, key, value, out, partial, tokens,
        WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    ):  # fmt: skip
        which, program, programs = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
        column = tl.arange(0, BLOCK)
        source = query
        if which == 1:
            source = key
        if which == 2:
            source = value
        summed = tl.zeros([ROWS, BLOCK], tl.float32)
        for tile in range(program, tl.cdiv(tokens, ROWS), programs):
            row = tile * ROWS + tl.arange(0, ROWS)
            inside = (row[:, None] < tokens) & (column[None, :] < WIDTH)
            row64 = row[:, None].to(tl.int64)
            v = tl.load(source + row64 * WIDTH + column[None, :], mask=inside, other=0.0)
            tl.store(out + row64 * 3 * WIDTH + which * WIDTH + column[None, :], v, mask=inside)
            summed += v.to(tl.float32)
        tl.store(partial + (program * 3 + which) * WIDTH + column, tl.sum(summed, 0), mask=column < WIDTH)

    @triton.jit
    def _cross_entropy(logits, labels, losses, SIZE, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        base = logits + row * SIZE
        label = tl.load(labels + row)
        top = -float("inf")
        weight = 0.0
        for start in range(0, SIZE, BLOCK):
            column = start + tl.arange(0, BLOCK)
            v = tl.load(base + column, mask=column < SIZE, other=-float("inf")).to(tl.float32)
            higher = tl.maximum(top, tl.max(v, 0))
            weight = weight * tl.exp(top - higher) + tl.sum(tl.exp(v - higher), 0)
            top = higher
        valid = (label >= 0).to(tl.float32)
        target = tl.load(base + tl.maximum(label, 0)).to(tl.float32)
        tl.store(losses + row, (top + tl.log(weight) - target) * valid)
        scale = valid / weight
        for start in range(0, SIZE, BLOCK):
            column = start + tl.arange(0, BLOCK)
            v = tl.load(base + column, mask=column < SIZE, other=-float("inf")).to(tl.float32)
            probability = tl.exp(v - top) * scale
            result = tl.where(column == label, probability - valid, probability)
            tl.store(base + column, result.to(logits.dtype.element_ty), mask=column < SIZE)


def available(device: torch.device | Any) -> bool:
    """Whether the CUDA kernels can run there."""
    return triton is not None and torch.device(device).type == "cuda"
