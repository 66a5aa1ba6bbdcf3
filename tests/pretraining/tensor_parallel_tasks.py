"""What the processes of test_tensor_parallel.py do: everything in one process group, as starting one takes seconds."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from biosmith.models.bert import PretrainingModel
from biosmith.models.megatron import MegatronConfig
from biosmith.pretraining.config import (
    AdamW,
    Batch,
    Evaluation,
    Linear,
    MaskedLanguageModel,
    Recipe,
    SentenceOrderPrediction,
)
from biosmith.pretraining.loop import train
from biosmith.pretraining.parallel import Devices, gather, joined, shard
from biosmith.pretraining.run import Settings, _make_model, _prepare, read_run
from biosmith.pretraining.step import LossSums
from biosmith.pretraining.tensor_parallel import REPLICAS, TENSOR, settle_gradients, share_layers
from biosmith.tokens.store import TokenStore

# 1,000 pieces in 1,024 rows: the last of four devices has the padding, and some pieces.
MODEL = MegatronConfig(
    vocabulary_size=1_000,
    layers=2,
    width=32,
    heads=4,
    feed_forward=64,
    positions=128,
    dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.2,
)
RECIPE = Recipe(
    name="tiny-megatron",
    paper="none",
    model=MODEL,
    objectives=(MaskedLanguageModel(unit="ngram"), SentenceOrderPrediction()),
    optimizer=AdamW(learning_rate=1e-3, bias_correction=True),
    schedule=Linear(warmup=0.1),
    batch=Batch(tokens=1_024, length=128, micro_batch_tokens=256),
    steps=6,
    evaluation=Evaluation(every=3, documents=10),
    checkpoint_every=2,
    keep_checkpoints=0,
    log_every=1,
)
SETTINGS = Settings(device="cpu", workers=0)


def shaken(config: MegatronConfig) -> PretrainingModel:
    """A random model without zero biases and unit gains."""
    torch.manual_seed(0)
    model = PretrainingModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def micro_batch() -> tuple[Tensor | int, ...]:
    """Five sequences of 64 tokens together, some hidden, one slot without a label, pieces of every device."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([20, 1, 17, 24, 2])
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    positions = torch.cat([torch.arange(int(n)) for n in lengths])
    hidden = torch.arange(0, 64, 3)
    labels = torch.randint(0, 1_000, (len(hidden),), generator=generator)
    labels[:4] = torch.tensor([-100, 999, 0, 256])
    return (
        torch.randint(0, 1_000, (64,), generator=generator),
        positions,
        (positions > 6).long(),
        ends.int(),
        24,
        hidden,
        labels,
        torch.tensor([0, 1, 1, -100, 0]),
    )


def assert_same_gradients(
    devices: Devices, compute: str, *, recomputes: bool = False, compiles: bool = False
) -> None:
    """Loss and gradients of a model shared by the devices are those of the whole model on one of them."""
    whole, shared = shaken(MODEL), shaken(MODEL)
    alone, together = LossSums(whole, compute), LossSums(shared, compute)
    shared.encoder.activation_checkpointing = recomputes
    assert devices.mesh is not None
    share_layers(shared, devices.mesh[TENSOR])
    if devices.replicas > 1:
        shard(list(shared.encoder.layers), together.packed, compute == "bfloat16", devices)
        together.compute = "float32"
    expected = alone(*micro_batch())
    expected.sum().backward()
    call = torch.compile(together, dynamic=False, backend="aot_eager") if compiles else together
    found = call(*micro_batch())
    found.sum().backward()
    settle_gradients(shared)
    low = compute == "bfloat16"
    torch.testing.assert_close(found, expected, rtol=2e-2 if low else 1e-5, atol=1e-4)
    for (name, one), (_, other) in zip(whole.named_parameters(), shared.named_parameters(), strict=True):
        assert one.grad is not None and other.grad is not None, name
        assert torch.equal(gather(other.detach(), name), one.detach()), name
        got = gather(other.grad, name)
        error = (got.float() - one.grad).norm() / one.grad.norm().clamp(min=1e-6)
        assert error < (0.1 if low else 1e-5), (name, float(error))
    # Rows that stand for no piece learn nothing.
    assert not gather(shared.masked_language_head.bias.grad)[1_000:].any()


def go_on(devices: Devices, tokens: Path, run: Path, source: Path | None) -> None:
    """Train to the end, from the last checkpoint of another run if there is one."""
    if devices.first:
        if source is not None:
            shutil.copytree(source, run)
        else:
            _prepare(RECIPE, [tokens], run, None, None, True, devices)
    devices.wait()
    recipe = read_run(run)
    train(recipe, TokenStore.open(tokens), run, _make_model(recipe, None), SETTINGS, devices)


def main() -> None:
    """With four processes: gradients in two layouts, a run of TP 4, and others that go on from where it was killed,
    after four of its six steps. With two: TP 2 goes on from there."""
    tokens, folder = Path(sys.argv[1]), Path(sys.argv[2])
    begun = folder / "begun"
    torch.set_num_threads(1)
    size = int(os.environ["WORLD_SIZE"])
    with joined(torch.device("cpu"), "fsdp", size) as four:
        if size == 2:
            go_on(four, tokens, folder / "tp2", begun)
            return
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=(REPLICAS, TENSOR))
        two_by_two = replace(four, tensor=2, mesh=mesh)
        assert_same_gradients(four, "float32")
        assert_same_gradients(four, "float32", compiles=True)
        assert_same_gradients(four, "bfloat16")
        assert_same_gradients(two_by_two, "float32", recomputes=True)
        go_on(four, tokens, folder / "tp4", None)
        if four.first:
            shutil.copytree(folder / "tp4", begun)
            shutil.rmtree(begun / "checkpoints" / "step-6")
        go_on(two_by_two, tokens, folder / "tp2-fsdp2", begun)
        go_on(replace(four, tensor=1, mesh=None), tokens, folder / "fsdp4", begun)


if __name__ == "__main__":
    main()
