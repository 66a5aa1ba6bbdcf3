"""The fine-tuning loop, on a model so small that its sums can be followed."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.tasks import training
from biosmith.tasks.batches import Batch
from biosmith.tasks.inputs import Example
from biosmith.tasks.settings import TaggingSettings, TrainingSettings
from biosmith.tasks.training import History, choose_device, linear_schedule, train


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(10, 4)
        self.norm = nn.LayerNorm(4)
        self.dropout = nn.Dropout(0.2)
        self.out = nn.Linear(4, 2)

    def loss(self, batch: Batch) -> Tensor:
        logits = self.out(self.dropout(self.norm(self.embed(batch.input_ids_T)[batch.picks_K])))
        return nn.functional.cross_entropy(logits, batch.target)


def examples() -> list[Example]:
    made = []
    for i in range(23):
        ids = np.array([i % 10, (3 * i) % 10], np.int32)
        words = np.arange(2, dtype=np.int32)
        made.append(Example(ids, words, (ids >= 5).astype(np.int64), i, words))
    return made


SETTINGS = TrainingSettings(learning_rate=0.05, batch_size=4, epochs=6, keep="last")


class Stopped(Exception):
    pass


def run(
    settings: TrainingSettings,
    work: Path | None = None,
    stop_in: int | None = None,
    learnt: list[Example] | None = None,
) -> tuple[History, Tiny]:
    network = Tiny()
    batches = 0

    def loss_of(batch: Batch) -> Tensor:
        nonlocal batches
        batches += 1
        if stop_in is not None and batches > stop_in:
            raise Stopped
        return network.loss(batch)

    return train(network, learnt or examples(), loss_of, settings, work=work), network


def weights(network: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_two_runs_of_one_seed_are_equal_and_of_two_seeds_are_not() -> None:
    first, again, other = (run(TrainingSettings(**{**vars(SETTINGS), "seed": s}))[1] for s in (1, 1, 2))
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(other))


def test_training_leaves_torchs_global_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    network = Tiny()
    torch.manual_seed(7)
    train(network, examples(), network.loss, SETTINGS)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("stop_in", [3, 15, 26])
def test_a_run_stopped_twice_ends_with_the_weights_of_one_that_was_not(tmp_path: Path, stop_in: int) -> None:
    # 6 batches an epoch: the stops fall into epoch 1 (nothing saved yet), 3 and 5.
    _, whole = run(SETTINGS)
    for _ in range(2):
        with pytest.raises(Stopped):
            run(
                SETTINGS,
                tmp_path / "work",
                stop_in=min(stop_in, 8) if (tmp_path / "work").exists() else stop_in,
            )
    history, resumed = run(SETTINGS, tmp_path / "work")
    assert [line["epoch"] for line in history.lines] == [1, 2, 3, 4, 5, 6]
    assert torch.equal(weights(resumed), weights(whole))


def test_a_run_of_captured_steps_goes_on_where_nothing_is_captured(tmp_path: Path) -> None:
    # On a CUDA device the optimizer keeps its learning rates in tensors; a CPU that resumes must not stumble on them.
    whole = run(SETTINGS)
    with pytest.raises(Stopped):
        run(SETTINGS, tmp_path / "work", stop_in=14)
    file = tmp_path / "work" / "checkpoint.pt"
    state = torch.load(file, weights_only=True)
    for group in state["optimizer"]["param_groups"]:
        group["lr"], group["capturable"] = torch.tensor(group["lr"]), True
    torch.save(state, file)
    history, network = run(SETTINGS, tmp_path / "work")
    assert history.epoch == whole[0].epoch
    assert all(
        torch.allclose(a, b, atol=1e-6)
        for a, b in zip(network.parameters(), whole[1].parameters(), strict=True)
    )


def test_checkpoints_that_take_long_are_written_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By this disk's speed a checkpoint takes hours, so none is written before the end of six short epochs ...
    monkeypatch.setattr(training, "WRITTEN_A_SECOND", 0.1)
    _, whole = run(SETTINGS, tmp_path / "rarely")
    assert not (tmp_path / "rarely" / "checkpoint.pt").exists()
    # ... and a run that was stopped begins again, with the same end.
    with pytest.raises(Stopped):
        run(SETTINGS, tmp_path / "work", stop_in=20)
    history, again = run(SETTINGS, tmp_path / "work")
    assert [line["epoch"] for line in history.lines] == [1, 2, 3, 4, 5, 6]
    assert torch.equal(weights(again), weights(whole))


def test_checkpoints_of_other_settings_are_not_taken_up(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        run(SETTINGS, tmp_path / "work", stop_in=15)
    other = TrainingSettings(**{**vars(SETTINGS), "learning_rate": 0.01})
    _, resumed = run(other, tmp_path / "work")
    assert torch.equal(weights(resumed), weights(run(other)[1]))


def test_the_best_epoch_is_kept_and_survives_a_stop(tmp_path: Path) -> None:
    # The development score says epoch 2 is best; the weights are those of a run... of the same schedule, so they are
    # caught when they are scored.
    seen: list[Tensor] = []
    scores = [0.1, 0.9, 0.3, 0.9, 0.2, 0.0]
    settings = TrainingSettings(**{**vars(SETTINGS), "keep": "best"})

    def attempt(stop_in: int | None) -> tuple[History, Tiny]:
        network = Tiny()
        batches = 0

        def loss_of(batch: Batch) -> Tensor:
            nonlocal batches
            batches += 1
            if batches == stop_in:
                raise Stopped
            return network.loss(batch)

        def score() -> dict[str, float]:
            seen.append(weights(network))
            return {"value": scores[len(seen) - 1]}

        return train(network, examples(), loss_of, settings, score=score, work=tmp_path / "work"), network

    with pytest.raises(Stopped):
        attempt(stop_in=20)  # in epoch 4, after three are saved
    history, network = attempt(stop_in=None)
    # The first of two equal scores wins: it took less training.
    assert (history.best_epoch, history.best_score) == (2, 0.9)
    assert torch.equal(weights(network), seen[1])
    assert [line["dev_value"] for line in history.lines] == scores


def test_the_learning_rate_rises_from_zero_and_falls_to_zero() -> None:
    # 100 steps, the first 10 of them warming up, as transformers' linear schedule has it.
    assert [linear_schedule(s, 100, 0.1) for s in (0, 5, 10, 55, 100)] == [0.0, 0.5, 1.0, 0.5, 0.0]
    assert linear_schedule(0, 100, 0.0) == 1.0


def test_the_schedule_is_that_of_transformers() -> None:
    from transformers import get_linear_schedule_with_warmup

    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = get_linear_schedule_with_warmup(optimizer, 4, 37)
    for step in range(37):
        assert theirs.get_last_lr()[0] == pytest.approx(linear_schedule(step, 37, 0.1))
        optimizer.step()
        theirs.step()


def test_biases_and_layer_norms_are_not_decayed() -> None:
    # With a learning rate and decay but no gradient that matters, only what decays would move; here: count groups.
    from biosmith.tasks.training import _optimizer

    network = Tiny()
    decayed, plain = _optimizer(network, SETTINGS).param_groups
    assert decayed["weight_decay"] == 0.01 and plain["weight_decay"] == 0.0
    assert {id(p) for p in plain["params"]} == {
        id(network.norm.weight),
        id(network.norm.bias),
        id(network.out.bias),
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_first_loss_that_is_not_finite_is_not_put_down_to_the_learning_rate(value: float) -> None:
    network = Tiny()
    known = r"not finite at step 1 of epoch 1 \(1 of 1 steps so far\): it was the first step, so that learning_rate is not"
    with pytest.raises(BiosmithError, match=known):
        train(network, examples(), lambda batch: network.loss(batch) * value, SETTINGS)


def test_weights_that_are_not_finite_are_named_where_the_loss_is_not() -> None:
    network = Tiny()
    with torch.no_grad():
        network.norm.bias[1] = float("inf")
    with pytest.raises(
        BiosmithError, match=r"that training began with hold NaN .* in 'norm.bias'; take another"
    ):
        train(network, examples(), network.loss, SETTINGS)


def test_a_loss_that_ceases_to_be_finite_is_told_with_its_step_and_the_learning_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training, "CHECK_EVERY", 10)
    network, calls = Tiny(), itertools.count(1)
    steps = -(-len(examples()) // SETTINGS.batch_size)
    assert steps > 3  # the third step of the second epoch

    def loss_of(batch: Batch) -> torch.Tensor:
        return network.loss(batch) * (float("nan") if next(calls) == steps + 3 else 1.0)

    bad = min(steps, 10) - 2  # all after it, for the weights are spoilt
    known = rf"not finite at step 3 of epoch 2 \({bad} of {bad + 2} steps so far\): lower learning_rate \(0.0"
    with pytest.raises(BiosmithError, match=known):
        train(network, examples(), loss_of, SETTINGS)


def test_weights_that_the_last_step_spoilt_are_not_kept() -> None:
    # The loss of the last step is finite, its gradient is not.
    network, calls = Tiny(), itertools.count(1)
    total = SETTINGS.epochs * -(-len(examples()) // SETTINGS.batch_size)

    def loss_of(batch: Batch) -> torch.Tensor:
        loss: torch.Tensor = network.loss(batch)
        if next(calls) == total:
            loss.register_hook(lambda gradient: gradient * float("nan"))
        return loss

    with pytest.raises(BiosmithError, match="the last steps left NaN or an infinite number in "):
        train(network, examples(), loss_of, SETTINGS)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 0}, "epochs must be above 0"),
        ({"learning_rate": -1.0}, "learning_rate must be above 0"),
        ({"max_length": 4}, "max_length must be at least 8"),
        ({"warmup": 10}, "warmup is a share"),
        ({"dropout": 1.0}, "dropout must lie"),
        ({"weight_decay": -0.1}, "weight_decay must not be negative"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number"),
        ({"clip": float("inf")}, "clip must be a finite number"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TaggingSettings(**values)  # type: ignore[arg-type]


def test_unknown_devices_are_refused() -> None:
    assert choose_device("cpu").type == "cpu"
    with pytest.raises(UsageError, match="device 'tpu9' is unknown"):
        choose_device("tpu9")


def test_checkpoints_of_other_labels_are_not_taken_up(tmp_path: Path) -> None:
    # The same files with other names of types (--rename): as many sequences, whose labels come in another order.
    renamed = [dataclasses.replace(example, target=1 - example.target) for example in examples()]
    with pytest.raises(Stopped):
        run(SETTINGS, tmp_path / "work", stop_in=15)
    _, resumed = run(SETTINGS, tmp_path / "work", learnt=renamed)
    assert torch.equal(weights(resumed), weights(run(SETTINGS, learnt=renamed)[1]))


@pytest.mark.parametrize("name", ["mps", "meta", "xpu"])
def test_devices_that_nothing_here_runs_on_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"device '{name}' is not supported; valid: auto, cpu, cuda"):
        choose_device(name)


def test_a_cuda_device_behind_the_last_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(UsageError, match="device 'cuda:2': this machine has 2 CUDA devices"):
        choose_device("cuda:2")


@pytest.mark.parametrize("left", [0, 100, -100])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, left: int) -> None:
    with pytest.raises(Stopped):
        run(SETTINGS, tmp_path / "work", stop_in=15)
    file = tmp_path / "work" / "checkpoint.pt"
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(BadInput, match=r"checkpoint\.pt: cannot be read; remove .*work to begin anew"):
        run(SETTINGS, tmp_path / "work")
