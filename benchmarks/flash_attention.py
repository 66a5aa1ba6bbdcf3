"""The attention of sequences laid end to end: torch's flash kernels (version 2) beside FlashAttention-4.

    python benchmarks/flash_attention.py

Needs a Hopper card and `pip install 'biosmith[flash]'`. Prints the microseconds of both, forward and backward, and the
largest differences of what they compute; writes benchmarks/results/flash_attention.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from biosmith.models import flash_attention
from pretraining import describe_machine

RESULT = Path(__file__).parent / "results" / "flash_attention.json"
SHAPES = (  # heads, width of a head, tokens, lengths
    (12, 64, 131_072, "abstracts"),
    (12, 64, 131_072, "512"),
    (8, 64, 131_072, "abstracts"),
    (16, 64, 65_536, "abstracts"),
    (12, 32, 131_072, "abstracts"),
)
EMPTY = 40  # slots of sequences that a batch keeps free
LONGEST = 512
CALLS, WARM_UP = 20, 3


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    if flash_attention.installed_version() is None:
        raise SystemExit(f"{flash_attention.PACKAGE} is not installed: pip install 'biosmith[flash]'")
    machine = describe_machine(torch.device("cuda")) | {
        flash_attention.PACKAGE: flash_attention.installed_version()
    }
    rows = [measure(*shape) for shape in SHAPES]
    given.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n", encoding="utf-8")
    print(f"written to {given.out}")


def measure(heads: int, width: int, tokens: int, lengths: str) -> dict[str, Any]:
    """One shape, in bfloat16."""
    cu = boundaries(tokens, lengths)
    torch.manual_seed(0)
    query, key, value, grad = (
        torch.randn(tokens, heads, width, device="cuda", dtype=torch.bfloat16) for _ in range(4)
    )
    kernels = importlib.import_module("flash_attn.cute.interface")

    def forward_2() -> Any:
        return torch.ops.aten._flash_attention_forward(
            query, key, value, cu, cu, LONGEST, LONGEST, 0.0, False, return_debug_mask=False
        )

    def forward_4() -> Any:
        return kernels._flash_attn_fwd(
            query, key, value, cu_seqlens_q=cu, cu_seqlens_k=cu, max_seqlen_q=LONGEST, max_seqlen_k=LONGEST,
            return_lse=True,
        )  # fmt: skip

    mixed, logsumexp, state, unused, _ = forward_2()

    def backward_2() -> Any:
        return torch.ops.aten._flash_attention_backward(
            grad, query, key, value, mixed, logsumexp, cu, cu, LONGEST, LONGEST, 0.0, False, state, unused
        )

    def backward_4() -> Any:
        return flash_attention.backward(grad, (query, key, value), mixed, logsumexp, cu, LONGEST)

    ours, theirs = (*forward_4()[:2], *backward_4()), (mixed, logsumexp, *backward_2())
    row: dict[str, Any] = {
        "heads": heads,
        "width of a head": width,
        "tokens": tokens,
        "lengths": lengths,
        "sequences": len(cu) - 1,
        "largest difference of output, log sums, gradients of query, key, value": [
            float((one.float() - other.float()).abs().max()) for one, other in zip(ours, theirs, strict=True)
        ],
        "largest values": [float(part.float().abs().max()) for part in theirs],
        "flash2 forward, microseconds": microseconds(forward_2),
        "flash4 forward, microseconds": microseconds(forward_4),
        "flash2 backward, microseconds": microseconds(backward_2),
        "flash4 backward, microseconds": microseconds(backward_4),
    }
    print(json.dumps(row), flush=True)
    return row


def boundaries(tokens: int, lengths: str) -> torch.Tensor:
    """Where sequences begin, int32 on the card: all of the longest, or like those of abstracts, 270 in the middle."""
    number = np.random.default_rng(0)
    drawn = (
        np.full(tokens, LONGEST)
        if lengths == "512"
        else number.lognormal(5.6, 0.35, tokens).clip(60, LONGEST)
    )
    ends = np.minimum(np.cumsum(drawn.astype(int)), tokens)
    ends = ends[: int(np.searchsorted(ends, tokens)) + 1]
    return torch.tensor([0, *ends, *[tokens] * EMPTY], dtype=torch.int32, device="cuda")


def microseconds(call: Callable[[], Any]) -> float:
    """Mean time of a call."""
    for _ in range(WARM_UP):
        call()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    torch.cuda.synchronize()
    return round((time.perf_counter() - began) / CALLS * 1e6, 1)


if __name__ == "__main__":
    main()
