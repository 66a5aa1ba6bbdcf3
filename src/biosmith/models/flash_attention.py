"""The backward pass of FlashAttention-4, where its package is installed and the card has kernels for it.

torch's flash kernels are of version 2. On one H200 the backward pass of version 4 takes 0.65 to 0.71 times as long on
sequences of up to 512, its forward pass 1.06 to 1.14 times as long (benchmarks/results/flash_attention.json), so only the former is
used; both versions keep the same sums. `pip install 'biosmith[flash]'` brings it. BIOSMITH_FLASH_ATTENTION=2 leaves it
out.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
from typing import Any

import torch
from torch import Tensor

PACKAGE = "flash-attn-4"
HOPPER = 9  # compute capability; what was measured
HEAD_WIDTH = 64  # at 32 version 2 was faster


def suits(query_THK: Tensor) -> bool:
    """Whether version 4 computes gradients of such queries here."""
    if not query_THK.is_cuda or query_THK.dtype not in (torch.float16, torch.bfloat16):
        return False
    return (
        query_THK.shape[-1] == HEAD_WIDTH and installed_version() is not None and _is_hopper(query_THK.device)
    )


@functools.cache
def installed_version() -> str | None:
    """Of the package; None where it is missing or BIOSMITH_FLASH_ATTENTION is 2."""
    if os.environ.get("BIOSMITH_FLASH_ATTENTION") == "2":
        return None
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def _is_hopper(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device)[0] == HOPPER


@functools.cache
def _kernels() -> Any:
    """The package's module. It compiles a kernel when that is first called: 13 s for a width of heads."""
    return importlib.import_module("flash_attn.cute.interface")


def backward(
    grad_THK: Tensor,
    parts: tuple[Tensor, Tensor, Tensor],
    mixed_THK: Tensor,
    logsumexp: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value [T, H, K].

    Args:
        grad_THK: of the mixed values.
        parts: query, key, value [T, H, K].
        mixed_THK, logsumexp: of the forward pass; the latter float32 [H, T].
        cu_seqlens: int32 [N + 1], as in `attention.PackedAttention`.
        max_seqlen: an upper bound of the sequences' lengths.
    """
    query, key, value, *_ = _kernels()._flash_attn_bwd(
        *parts,
        mixed_THK,
        grad_THK,
        logsumexp,
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_k=cu_seqlens,
        max_seqlen_q=max_seqlen,
        max_seqlen_k=max_seqlen,
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )
    return query, key, value
