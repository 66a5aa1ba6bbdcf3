"""Batches padded to few shapes, and steps captured as CUDA graphs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from biosmith.models.attention import PackedAttention
from biosmith.models.bert import BertConfig
from biosmith.models.modern import ModernConfig
from biosmith.tasks import graphs
from biosmith.tasks.batches import Batch, pack
from biosmith.tasks.graphs import GraphedSteps, is_capturable, make_capturable, padded, shape_of
from biosmith.tasks.inputs import Example
from biosmith.tasks.training import _PlainSteps as PlainSteps

FAMILIES = ("bert", "modern")
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Scorer(nn.Module):
    def __init__(self, dropout: float = 0.0, *, family: str = "bert") -> None:
        super().__init__()
        shape: dict[str, Any] = {
            "vocabulary_size": 64,
            "layers": 2,
            "width": 64,
            "heads": 2,
            "feed_forward": 64,
        }
        shape |= {"positions": 512, "dropout": dropout, "attention_dropout": dropout}
        config = BertConfig(**shape) if family == "bert" else ModernConfig(**shape, local_attention=16)
        self.encoder = config.make_encoder(pooler=False)
        self.head = nn.Linear(64, 3)

    def loss(self, batch: Batch) -> torch.Tensor:
        hidden_TD = self.encoder.forward_packed(
            batch.input_ids_T, batch.position_ids_T, batch.token_type_ids_T, batch.cu_seqlens, batch.longest
        )
        return F.cross_entropy(self.head(hidden_TD[batch.picks_K]).float(), batch.target)


def examples(count: int, seed: int, longest: int = 70) -> list[Example]:
    draw = np.random.default_rng(seed)
    made = []
    for i in range(count):
        ids = draw.integers(5, 60, draw.integers(4, longest)).astype(np.int32)
        picks = np.arange(1, len(ids) - 1, dtype=np.int32)
        # The answer can be read off the token, so that training has something to find.
        made.append(Example(ids, picks, (ids[picks] % 3).astype(np.int64), i, picks))
    return made


@pytest.mark.parametrize("family", FAMILIES)
def test_a_padded_batch_has_the_loss_and_gradients_of_the_batch(family: str) -> None:
    torch.manual_seed(0)
    scorer = Scorer(family=family)
    batch = pack(examples(5, 1), np.arange(5))
    shape = shape_of(batch, batch_size=8)
    wide = padded(batch, shape)
    assert len(wide.input_ids_T) == shape.tokens > len(batch.input_ids_T)
    assert len(wide.cu_seqlens) == 10  # eight sequences, the rest, and the end
    loss, other = scorer.loss(batch), scorer.loss(wide)
    assert torch.allclose(loss, other, atol=1e-6)
    gradients = torch.autograd.grad(loss, list(scorer.parameters()))
    others = torch.autograd.grad(other, list(scorer.parameters()))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(gradients, others, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_no_sequence_of_a_padded_batch_is_longer_than_its_bound(seed: int) -> None:
    # The kernel leaves out what lies beyond the bound, and NaN there would spread through the weights' gradients.
    batch = pack(examples(1 + seed, seed, longest=20 + 20 * seed), np.arange(1 + seed))
    wide = padded(batch, shape_of(batch, 16))
    assert int(wide.cu_seqlens.diff().max()) <= wide.longest
    assert int(wide.cu_seqlens[-1]) == len(wide.input_ids_T)


def test_one_answer_a_sequence_is_never_padded() -> None:
    made = [Example(e.ids, e.picks[:1], np.array([1]), i, e.words[:1]) for i, e in enumerate(examples(4, 2))]
    assert len(padded(pack(made, np.arange(4)), shape_of(pack(made, np.arange(4)), 4)).picks_K) == 4


def test_batches_of_like_sizes_share_few_shapes() -> None:
    # 32 sentences of about 37 tokens: each shape costs a capture.
    shapes = {shape_of(pack(examples(32, seed), np.arange(32)), 32) for seed in range(100)}
    assert len(shapes) <= 16


def test_recurrent_networks_are_not_captured() -> None:
    scorer = Scorer()
    assert is_capturable(scorer)
    scorer.lstm = nn.LSTM(64, 32)
    assert not is_capturable(scorer)


class Refusing:
    """A stand-in for the recorder on a CPU: it captures the first `allowed` shapes, and none after."""

    def __init__(self, allowed: int) -> None:
        self.allowed, self.asked = allowed, 0

    def aside(self) -> contextlib.nullcontext[None]:
        return contextlib.nullcontext()

    def capture(self, step: Callable[[], None]) -> Any:
        self.asked += 1
        if self.asked > self.allowed:
            raise RuntimeError("operation not permitted when stream is capturing\nand much more")
        return SimpleNamespace(replay=step)


@pytest.mark.parametrize("allowed", [0, 2])
def test_steps_that_cannot_be_captured_run_one_by_one_and_train_the_same(
    allowed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, ends, recorder = examples(64, 3), [], Refusing(allowed)
    monkeypatch.setattr(graphs, "Recorder", lambda device: recorder)
    for kind in (GraphedSteps, PlainSteps):
        torch.manual_seed(0)
        scorer = Scorer().train()
        optimizer = torch.optim.AdamW(scorer.parameters(), lr=1e-3, fused=True)
        more = {"batch_size": 8} if kind is GraphedSteps else {}
        steps = kind(scorer, scorer.loss, optimizer, clip=1.0, **more)
        for step in range(30):
            steps(pack(made, np.random.default_rng(step).permutation(64)[:8]))
        ends.append([*scorer.state_dict().values(), torch.tensor(steps.losses.total)])
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*ends, strict=True))
    assert recorder.asked == allowed + 1
    warning = capsys.readouterr().err
    assert warning.count("Warning") == 1
    assert "stream is capturing" in warning and "much more" not in warning


@CUDA
def test_after_a_failed_capture_dropout_and_memory_are_as_before() -> None:
    scorer = Scorer(dropout=0.5).cuda().train()
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=0.0, fused=True)
    make_capturable(optimizer, torch.device("cuda"))

    def loss_of(batch: Batch) -> torch.Tensor:
        loss = scorer.loss(batch)
        assert float(loss.detach()) > 0  # waits for the device
        return loss

    steps = GraphedSteps(scorer, loss_of, optimizer, batch_size=8, clip=1.0)
    losses, reserved = [], []
    for _ in range(20):
        steps.losses.clear()
        steps(pack(examples(8, 4), np.arange(8)))
        losses.append(steps.losses.total)
        reserved.append(torch.cuda.memory_reserved())
    assert len(set(losses)) == 20
    assert reserved[-1] == reserved[2]


@CUDA
@pytest.mark.parametrize("family", FAMILIES)
def test_captured_steps_train_as_plain_ones_do(family: str) -> None:
    made = examples(64, 3)
    ends = []
    for captured in (False, True):
        torch.manual_seed(0)
        scorer = Scorer(family=family).cuda().train()
        optimizer = torch.optim.AdamW(scorer.parameters(), lr=1e-3, fused=True)
        if captured:
            make_capturable(optimizer, torch.device("cuda"))
            steps = GraphedSteps(scorer, scorer.loss, optimizer, batch_size=8, clip=1.0)
        losses = []
        for step in range(60):
            batch = pack(made, np.random.default_rng(step).permutation(64)[:8])
            if captured:
                steps.losses.clear()
                steps(batch)
                losses.append(steps.losses.total)
                continue
            with torch.autocast("cuda", torch.bfloat16):
                loss = scorer.loss(batch.to(torch.device("cuda")))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(scorer.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss))
        ends.append(losses)
    assert ends[1][-1] < 0.5 * ends[1][0]
    assert np.allclose(ends[0], ends[1], atol=0.03)


@CUDA
def test_replayed_dropout_is_drawn_anew_each_step() -> None:
    scorer = Scorer(dropout=0.5).cuda().train()
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=0.0, fused=True)
    make_capturable(optimizer, torch.device("cuda"))
    steps = GraphedSteps(scorer, scorer.loss, optimizer, batch_size=8, clip=1.0)
    batch = pack(examples(8, 4), np.arange(8))
    losses = []
    for _ in range(6):
        steps.losses.clear()
        steps(batch)
        losses.append(steps.losses.total)
    assert len(set(losses)) == 6


@CUDA
def test_dropout_in_packed_attention_is_right_on_average() -> None:
    # Probabilities are dropped and the rest scaled up, so that the mean over many draws is attention without dropout.
    torch.manual_seed(0)
    cu = torch.tensor([0, 40, 100], dtype=torch.int32, device="cuda")
    query, key, value = torch.randn(3, 100, 2, 32, device="cuda", dtype=torch.bfloat16).unbind(0)
    attend = PackedAttention(cu, 64)
    draws = torch.stack([attend(query, key, value, 0.1).float() for _ in range(400)])
    plain = attend(query, key, value, 0.0).float()
    assert draws.std(0).mean() > 0.01
    assert (draws.mean(0) - plain).abs().max() < 0.1
    leaf = value.clone().requires_grad_()
    attend(query, key, leaf, 0.1).float().sum().backward()
    assert leaf.grad is not None and bool(leaf.grad.isfinite().all())
