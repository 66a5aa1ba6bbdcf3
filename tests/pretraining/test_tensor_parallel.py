"""Devices that share every layer give what one gives: loss, gradients, whole runs; checkpoints fit any layout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from biosmith.errors import UsageError
from biosmith.pretraining.config import Lamb
from biosmith.pretraining.metrics import read_metrics
from biosmith.pretraining.parallel import joined
from biosmith.pretraining.run import pretrain
from biosmith.pretraining.step import LossSums
from biosmith.pretraining.tensor_parallel import (
    cross_entropy_sum,
    in_shares,
    require_shareable_layers,
    without_shares,
)
from biosmith.recipes import find_recipe
from pretraining.conftest import write_random_store
from pretraining.tensor_parallel_tasks import RECIPE, SETTINGS, micro_batch, shaken

EXACT = ("step", "tokens", "epoch", "mask_rate", "masked_share", "dropped_tokens")


def launch(processes: int, tokens: Path, folder: Path) -> None:
    script = Path(__file__).parent / "tensor_parallel_tasks.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), str(script), str(tokens), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=900)
    assert done.returncode == 0, done.stderr.decode()[-4000:]


def assert_same_run(one: Path, other: Path) -> None:
    """The same inputs exactly, the same losses up to rounding."""
    lines = list(zip(read_metrics(one), read_metrics(other), strict=True))
    assert len(lines) == RECIPE.steps
    for a, b in lines:
        assert {k: a[k] for k in EXACT} == {k: b[k] for k in EXACT}
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
        assert a["sop_loss"] == pytest.approx(b["sop_loss"], rel=1e-5)
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-4)
        assert a.get("eval_loss", 0.0) == pytest.approx(b.get("eval_loss", 0.0), rel=1e-5)


@pytest.mark.slow
def test_four_devices_that_share_layers_give_the_run_of_one_and_any_layout_goes_on_from_it(
    tmp_path: Path,
) -> None:
    # Gradients in two layouts, and in bfloat16, are compared in the processes themselves.
    tokens = tmp_path / "tokens"
    write_random_store(tokens, [20 + 7 * (i % 30) for i in range(60)], seed=3)
    pretrain(RECIPE, tokens, tmp_path / "alone", settings=SETTINGS)
    launch(4, tokens, tmp_path)
    launch(2, tokens, tmp_path)
    for layout in ("tp4", "tp2-fsdp2", "fsdp4", "tp2"):
        assert_same_run(tmp_path / "alone", tmp_path / layout)
    shutil.copytree(tmp_path / "begun", tmp_path / "tp1")
    pretrain(RECIPE, tokens, tmp_path / "tp1", resume=True, settings=SETTINGS)
    assert_same_run(tmp_path / "alone", tmp_path / "tp1")
    for name in ("model", "optimizer"):
        one, four = (
            load_file(tmp_path / run / "checkpoints" / "step-4" / f"{name}.safetensors")
            for run in ("alone", "tp4")
        )
        # Whole tensors in their usual order, whatever wrote them. The gradient of a key's bias is 0 but for rounding,
        # which Adam makes a step of: that is what the tolerance is for.
        assert one.keys() == four.keys()
        assert all(torch.allclose(one[key], four[key], rtol=1e-3, atol=1e-5) for key in one)


def test_a_fused_matrix_in_shares_gives_each_device_its_own_heads() -> None:
    # Two devices, four heads of width 2: rows are numbered by (query, key or value; head; place in the head).
    fused = torch.arange(3 * 4 * 2).unsqueeze(1).expand(-1, 5).contiguous()
    shared = in_shares(fused, 2)
    first = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19]  # heads 0 and 1 of queries, keys, values
    assert shared[:12, 0].tolist() == first
    assert torch.equal(without_shares(shared, 2), fused)
    bias = torch.arange(24.0)
    assert torch.equal(without_shares(in_shares(bias, 4), 4), bias)


def test_padding_of_the_vocabulary_takes_no_part_in_the_loss() -> None:
    torch.manual_seed(0)
    logits = torch.randn(6, 16, requires_grad=True)
    labels = torch.tensor([0, 12, 3, -100, 5, 1])
    loss = cross_entropy_sum(logits, labels, 13)
    expected = torch.nn.functional.cross_entropy(logits[:, :13], labels, reduction="sum")
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert logits.grad is not None and not logits.grad[:, 13:].any() and logits.grad[:, :13].any()


@pytest.mark.parametrize("compiles", [False, True])
def test_the_fused_loss_leaves_padding_out_too_and_gives_the_same_gradients(compiles: bool) -> None:
    plain, fused = shaken(RECIPE.model), shaken(RECIPE.model)
    sums = LossSums(fused, "float32", fused=True)
    call = torch.compile(sums, dynamic=False, backend="aot_eager", fullgraph=True) if compiles else sums
    expected, found = LossSums(plain, "float32")(*micro_batch()), call(*micro_batch())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    expected.sum().backward()
    found.sum().backward()
    for (name, one), (_, other) in zip(plain.named_parameters(), fused.named_parameters(), strict=True):
        assert one.grad is not None and other.grad is not None, name
        torch.testing.assert_close(other.grad, one.grad, rtol=1e-4, atol=1e-5, msg=name)


def test_what_devices_cannot_share_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    require_shareable_layers(RECIPE, 4)
    require_shareable_layers(find_recipe("demo"), 1)
    for recipe, devices, said in (
        (find_recipe("demo"), 2, "megatron-bert"),
        (RECIPE, 3, "3 devices cannot share the model's 4 heads"),
        (replace(RECIPE, optimizer=Lamb()), 2, "adamw, not lamb"),
        (replace(RECIPE, batch=replace(RECIPE.batch, micro_batch_tokens=258)), 4, "258 tokens"),
        (replace(RECIPE, model=replace(RECIPE.model, vocabulary_multiple=1, vocabulary_size=1_001)), 4, "1,001 rows"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            require_shareable_layers(recipe, devices)
    monkeypatch.setenv("WORLD_SIZE", "4")
    for tensor, strategy, said in (
        (3, "fsdp", "does not divide the 4 processes"),
        (2, "ddp", "needs --parallel fsdp"),
    ):
        with pytest.raises(UsageError, match=said), joined(torch.device("cpu"), strategy, tensor):
            pass
