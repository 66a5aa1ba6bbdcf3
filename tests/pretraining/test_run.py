"""Runs: exact resume after kill -9, clean stops, folders, and errors that name what is wrong."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from biosmith.artefact import load_manifest
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.models.bert import BertConfig
from biosmith.models.encoder import sinusoidal_positions
from biosmith.models.modern import ModernConfig
from biosmith.pretraining.checkpoints import MODEL, RunState, list_checkpoints
from biosmith.pretraining.config import (
    AdamW,
    Batch,
    Evaluation,
    LengthPhase,
    Linear,
    MaskedLanguageModel,
    Recipe,
)
from biosmith.pretraining.loading import Cursor
from biosmith.pretraining.metrics import FILE, PlateauWatch, read_metrics, unigram_entropy
from biosmith.pretraining.parallel import Vote
from biosmith.pretraining.reporting import Reporter, explain_not_finite
from biosmith.pretraining.run import CONFIG, Settings, Verification, pretrain
from biosmith.pretraining.step import COUNTS, WINDOW_SIZE, Window
from biosmith.processes import hold_output
from biosmith.tokens.store import VocabularyMark, write_store
from pretraining.conftest import write_random_store

TINY = Recipe(
    name="tiny",
    paper="none",
    model=BertConfig(vocabulary_size=1000, layers=1, width=16, heads=2, feed_forward=32),
    optimizer=AdamW(learning_rate=1e-3),
    schedule=Linear(warmup=0.1),
    batch=Batch(tokens=1024, length=128, micro_batch_tokens=512, phases=(LengthPhase(0.3, 64, "sequences"),)),
    steps=24,
    evaluation=Evaluation(every=10, documents=10),
    checkpoint_every=4,
    log_every=3,
)
INLINE = Settings(device="cpu", workers=0)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "tokens"
    write_random_store(folder, [20 + 7 * (i % 30) for i in range(120)], seed=3)
    return folder


def losses(run: Path) -> list[tuple[Any, ...]]:
    """What must be equal to the last bit: all of a line but its speed."""
    lines = read_metrics(run)
    assert lines
    return [tuple(v for k, v in line.items() if k != "tokens_per_second") for line in lines]


def test_a_run_folder_holds_what_it_promises(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    outcome = pretrain(TINY, tokens, out, settings=INLINE)
    assert outcome.steps == 24 and not outcome.stopped
    lines = read_metrics(out)
    # Every third step, and steps 10, 20 and 24 for their evaluation.
    assert [line["step"] for line in lines] == [3, 6, 9, 10, 12, 15, 18, 20, 21, 24]
    assert outcome.loss == lines[-1]["loss"] and outcome.eval_loss == lines[-1]["eval_loss"]
    for line in lines:
        assert line["loss"] == pytest.approx(line["mlm_loss"] + line["nsp_loss"])
        assert 3.6 < line["mlm_loss"] < math.log(1000) + 0.5  # between the unigram entropy and a guess
        assert line["mask_rate"] == pytest.approx(0.15, abs=0.02)
        assert line["masked_share"] + line["random_share"] + line["kept_share"] == pytest.approx(1)
    assert [p.name for p in sorted((out / "checkpoints").iterdir())] == ["step-20", "step-24"]
    assert (out / "loss.png").read_bytes()[:4] == b"\x89PNG"
    # safetensors writes for the owner alone, and a colleague could not export the model.
    checkpoint = out / "checkpoints" / "step-24"
    assert {path.stat().st_mode for path in checkpoint.iterdir()} == {(out / "config.json").stat().st_mode}
    manifest = load_manifest(out, "run")
    assert manifest.inputs[0]["path"] == str(tokens) and manifest.inputs[0]["kind"] == "tokens"
    assert manifest.counts["steps"] == 24
    assert json.loads((out / "config.json").read_text())["batch"]["micro_batch_tokens"] == 512


SCRIPT = """
import sys, pathlib
sys.path.insert(0, {tests!r})
from pretraining.test_run import TINY, Settings, pretrain, replace
pretrain(replace(TINY, log_every=1, checkpoint_every={every}), pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]),
         resume=True, settings=Settings(device="cpu", workers=int(sys.argv[3])))
"""


def start(
    tokens: Path, out: Path, workers: int, every: int = 4, group: bool = False
) -> subprocess.Popen[bytes]:
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]), every=every)
    command = [sys.executable, "-c", script, str(tokens), str(out), str(workers)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment, start_new_session=group)


def wait_for_step(out: Path, step: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (out / FILE).is_file() and any(line["step"] >= step for line in read_metrics(out)):
            return
        time.sleep(0.002)
    assert process.poll() == 0, "the run ended before it could be killed"


@pytest.mark.slow
def test_killed_twice_and_resumed_with_other_workers_a_run_gives_the_same_losses_to_the_last_bit(
    tokens: Path, tmp_path: Path
) -> None:
    recipe = replace(TINY, log_every=1)
    pretrain(recipe, tokens, tmp_path / "whole", settings=INLINE)
    out = tmp_path / "killed"
    # Steps 6 and 15 lie between checkpoints (every 4), and in different phases of sequence length.
    for step, workers in ((6, 0), (15, 2)):
        process = start(tokens, out, workers)
        wait_for_step(out, step, process)
        process.kill()
        process.wait()
    assert read_metrics(out)[-1]["step"] < 24
    pretrain(recipe, tokens, out, resume=True, settings=Settings(device="cpu", workers=1))
    assert losses(out) == losses(tmp_path / "whole")
    one, other = (
        (folder / "checkpoints/step-24/model.safetensors").read_bytes()
        for folder in (out, tmp_path / "whole")
    )
    assert one == other


@pytest.mark.slow
def test_sigterm_ends_the_step_and_saves_a_checkpoint(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(tokens, out, 0, every=1000)
    wait_for_step(out, 3, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    saved = [int(p.name.removeprefix("step-")) for p in (out / "checkpoints").iterdir()]
    assert saved == [read_metrics(out)[-1]["step"]]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_of_processes_stops_as_gracefully(
    tokens: Path, tmp_path: Path, number: signal.Signals
) -> None:
    # Ctrl-C, `timeout` and Slurm signal the workers of the loader too; were they to die, so would the run.
    out = tmp_path / "run"
    process = start(tokens, out, 2, every=1000, group=True)
    wait_for_step(out, 3, process)
    os.killpg(process.pid, number)
    assert process.wait(60) == 0
    saved = [int(p.name.removeprefix("step-")) for p in (out / "checkpoints").iterdir()]
    assert saved == [read_metrics(out)[-1]["step"]]


def test_a_finished_run_resumed_does_nothing(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    recipe = replace(TINY, steps=3, log_every=1)
    first = pretrain(recipe, tokens, out, settings=INLINE)
    before = (out / FILE).read_text()
    again = pretrain(recipe, tokens, out, resume=True, settings=INLINE)
    assert (out / FILE).read_text() == before
    assert (again.loss, again.steps, again.eval_loss) == (first.loss, first.steps, first.eval_loss)


def test_a_log_line_that_a_kill_cut_off_is_forgotten(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    recipe = replace(TINY, steps=3, log_every=1, checkpoint_every=2)
    pretrain(recipe, tokens, out, settings=INLINE)
    whole = losses(out)
    for name in ("step-3",):
        for path in sorted((out / "checkpoints" / name).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (out / "checkpoints" / name).rmdir()
    with (out / FILE).open("a") as stream:
        stream.write('{"step": 4, "lo')
    pretrain(recipe, tokens, out, resume=True, settings=INLINE)
    assert losses(out) == whole


@pytest.mark.parametrize("line", [b"\xff\xfe", b"\0\0", b"[1]", b'{"loss": 1.0}'])
def test_a_log_line_that_is_none_is_named(line: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'{"step": 1, "loss": 2.0}\n' + line + b"\n")
    with pytest.raises(BadInput, match=r"metrics\.jsonl, line 2: is no line of a log"):
        read_metrics(tmp_path)


def test_an_existing_run_is_not_overwritten(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    pretrain(replace(TINY, steps=1), tokens, out, settings=INLINE)
    with pytest.raises(UsageError, match="exists already"):
        pretrain(replace(TINY, steps=1), tokens, out, settings=INLINE)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="no run to resume"):
        pretrain(TINY, tokens, tmp_path / "mine", resume=True, settings=INLINE)


def test_a_run_that_another_process_trains_is_left_to_it(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with hold_output(out), pytest.raises(UsageError, match="another process is making"):
        pretrain(TINY, tokens, out)
    assert list(tmp_path.iterdir()) == []
    pretrain(replace(TINY, steps=1), tokens, out)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_another_recipe_cannot_resume_and_the_differing_keys_are_named(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    pretrain(replace(TINY, steps=1), tokens, out, settings=INLINE)
    other = replace(TINY, steps=2, objectives=(MaskedLanguageModel(rate=0.3), TINY.objectives[1]))
    with pytest.raises(UsageError) as caught:
        pretrain(other, tokens, out, resume=True, settings=INLINE)
    text = str(caught.value)
    assert "steps (the run has 1, the call 2)" in text
    assert "objectives.masked_language_model.rate (the run has 0.15, the call 0.3)" in text
    assert "learning_rate" not in text


def test_a_run_older_than_a_field_of_recipes_is_resumed_as_one_with_its_default(
    tokens: Path, tmp_path: Path
) -> None:
    pretrain(replace(TINY, steps=4), tokens, tmp_path / "run", settings=INLINE)
    file = tmp_path / "run" / CONFIG
    config = json.loads(file.read_text())
    del config["initial_positions"]
    file.write_text(json.dumps(config))
    pretrain(replace(TINY, steps=4), tokens, tmp_path / "run", resume=True, settings=INLINE)
    other = replace(TINY, steps=4, initial_positions="sinusoidal")
    with pytest.raises(UsageError, match=r"initial_positions \(the run has random, the call sinusoidal"):
        pretrain(other, tokens, tmp_path / "run", resume=True, settings=INLINE)


def test_positions_start_as_the_recipe_says(tokens: Path, tmp_path: Path) -> None:
    still = replace(TINY, steps=1, checkpoint_every=1, optimizer=AdamW(learning_rate=1e-12))
    weights = {}
    for start in ("random", "sinusoidal"):
        pretrain(replace(still, initial_positions=start), tokens, tmp_path / start, settings=INLINE)
        weights[start] = load_file(list_checkpoints(tmp_path / start)[-1] / MODEL)
    random, curved = weights["random"], weights["sinusoidal"]
    differing = [name for name in random if not torch.allclose(random[name], curved[name])]
    assert differing == ["encoder.embeddings.positions.weight"]
    found = curved[differing[0]]
    assert torch.allclose(found, sinusoidal_positions(*found.shape, float(random[differing[0]].std())))
    with pytest.raises(UsageError, match="modernbert model has no position embeddings"):
        replace(still, model=ModernConfig(), initial_positions="sinusoidal")


def test_the_processes_that_prepare_batches_end_with_the_run(
    tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, close = [], Vote.close

    def keep_the_frame(vote: Vote) -> None:
        kept.append(sys._getframe(1))
        close(vote)

    monkeypatch.setattr(Vote, "close", keep_the_frame)
    pretrain(replace(TINY, steps=2), tokens, tmp_path / "run", settings=replace(INLINE, workers=1))
    assert kept
    assert multiprocessing.active_children() == []


def test_other_tokens_cannot_resume(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    pretrain(replace(TINY, steps=1), tokens, out, settings=INLINE)
    write_random_store(tmp_path / "others", [50] * 30, seed=9)
    with pytest.raises(UsageError, match="begun with the tokens of"):
        pretrain(replace(TINY, steps=1), tmp_path / "others", out, resume=True, settings=INLINE)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_random_store(tmp_path / "tokens", [50] * 30)
    (tmp_path / "tokens" / "shard-00000.npy").unlink()
    with pytest.raises(BadInput, match=r"shard-00000\.npy: is missing"):
        pretrain(TINY, tmp_path / "tokens", tmp_path / "run", settings=INLINE)


def test_a_flipped_bit_in_a_shard_ends_a_run_and_is_named(tmp_path: Path) -> None:
    """Whether a step of the run reads it or not: the whole store is compared with its digests."""
    write_random_store(tmp_path / "tokens", [50] * 30)
    shard = tmp_path / "tokens" / "shard-00000.npy"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(BadInput, match=r"shard-00000\.npy: is damaged"):
        pretrain(replace(TINY, steps=1), tmp_path / "tokens", tmp_path / "run", settings=INLINE)


def test_damage_found_while_training_ends_it_at_the_next_step(
    tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(self: Verification) -> None:
        raise BadInput(tokens / "shard-00000.npy", "is damaged")

    monkeypatch.setattr(Verification, "check", damaged)
    with pytest.raises(BadInput, match="is damaged"):
        pretrain(TINY, tokens, tmp_path / "run", settings=INLINE)
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors"])
def test_a_damaged_checkpoint_is_named(tokens: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "run"
    pretrain(replace(TINY, steps=2), tokens, out, settings=INLINE)
    path = out / "checkpoints" / "step-2" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadInput, match="is damaged"):
        pretrain(replace(TINY, steps=2), tokens, out, resume=True, settings=INLINE)


def test_a_checkpoint_that_does_not_fit_on_the_disk_is_named(
    tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(
        *arguments: object, **options: object
    ) -> None:  # what the library raises there is no error of the system
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    pretrain(replace(TINY, steps=4), tokens, tmp_path / "whole", settings=INLINE)
    monkeypatch.setattr("biosmith.models.saving.save_file", full)
    with pytest.raises(
        OSError, match=r"No space left on device: .*run/checkpoints/step-4/model\.safetensors"
    ):
        pretrain(replace(TINY, steps=4), tokens, tmp_path / "run", settings=INLINE)
    monkeypatch.undo()
    outcome = pretrain(replace(TINY, steps=4), tokens, tmp_path / "run", resume=True, settings=INLINE)
    assert outcome.steps == 4 and losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_a_store_of_one_document_is_refused(tmp_path: Path) -> None:
    write_random_store(tmp_path / "tokens", [500])
    with pytest.raises(BiosmithError, match="at least two documents"):
        pretrain(TINY, tmp_path / "tokens", tmp_path / "run", settings=INLINE)


def test_a_loss_that_stays_not_finite_ends_the_run(
    tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from biosmith.pretraining.step import LossSums

    monkeypatch.setattr("biosmith.pretraining.reporting.MOST_SKIPPED", 4)
    whole = LossSums.forward
    monkeypatch.setattr(LossSums, "forward", lambda self, *a: whole(self, *a) * math.nan)
    known = r"step 6: loss or gradient have not been finite for 6 steps \(6 of 6 in all\), the first step among them"
    with pytest.raises(BiosmithError, match=known):
        pretrain(TINY, tokens, tmp_path / "run", settings=INLINE)
    # JSON has no NaN.
    assert read_metrics(tmp_path / "run")[0]["loss"] is None


@pytest.mark.parametrize(
    ("weight", "skipped", "known"),
    [
        (0.0, 25, r"30: .* 25 steps \(25 of 30 in all\); lower optimizer.learning_rate \(0.001\)"),
        (0.0, 30, r"25 steps \(30 of 30 in all\), the first step .*learning_rate is not the cause"),
        (math.inf, 25, r"the weights that training began with hold NaN .* in 'weight'; begin again"),
    ],
)
def test_a_loss_that_is_not_finite_is_put_down_to_what_is_known(
    weight: float, skipped: int, known: str
) -> None:
    model = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(model.weight, weight)
    window = Window(*[0.0] * len(Window._fields))._replace(skipped=skipped, skipped_in_a_row=25)
    assert re.search(known, explain_not_finite(30, window, 1e-3, model))


def test_the_budget_is_named_when_it_cannot_hold_a_sequence(tokens: Path, tmp_path: Path) -> None:
    recipe = replace(TINY, batch=Batch(tokens=200, length=128))
    with pytest.raises(UsageError, match=r"raise batch.tokens .* to at least 256"):
        pretrain(recipe, tokens, tmp_path / "run", settings=INLINE)


def test_the_model_gets_the_vocabulary_size_of_the_tokens(tmp_path: Path) -> None:
    write_random_store(tmp_path / "tokens", [60] * 30, vocabulary=77)
    pretrain(replace(TINY, steps=1), tmp_path / "tokens", tmp_path / "run", settings=INLINE)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["model"]["vocabulary_size"] == 77


def test_unigram_entropy_of_known_counts(tmp_path: Path) -> None:
    # Two pieces, one three times as frequent: -(3/4 ln 3/4 + 1/4 ln 1/4) = 0.5623 nats.
    mark = VocabularyMark(10, "d", True, {"pad": 0})
    document = ([5, 5, 5, 6], [True] * 4, [True] + [False] * 3)
    store = write_store(tmp_path / "tokens", mark, [document, document])
    assert unigram_entropy(store) == pytest.approx(0.5623, abs=1e-4)


def test_the_warning_comes_when_the_loss_sits_at_the_unigram_plateau_and_only_once() -> None:
    watch = PlateauWatch(7.0, warmup=100, steps=1000)
    said = [watch.see(step, 6.95 + 0.01 * (step % 3), 10) for step in range(10, 1001, 10)]
    warned = [text for text in said if text]
    assert len(warned) == 1 and "unigram plateau (7.00)" in warned[0]
    # Nothing is said during the warm-up, nor before two windows of 100 steps have passed after it.
    assert all(text is None for text in said[:29])


@pytest.mark.parametrize(
    "loss",
    [
        lambda step: 9.0 * math.exp(-step / 300) + 2.0,  # learns through the plateau
        lambda step: 5.5,  # stands still, but well below it
    ],
)
def test_no_warning_for_a_model_that_learns_or_has_learned(loss: Any) -> None:
    watch = PlateauWatch(7.0, warmup=100, steps=1000)
    assert not any(watch.see(step, loss(step), 10) for step in range(10, 1001, 10))


def test_the_state_of_the_warning_survives_a_resume() -> None:
    one, other = PlateauWatch(7.0, 0, 1000), PlateauWatch(7.0, 0, 1000)
    said = [one.see(step, 7.0, 10) for step in range(10, 501, 10)]
    halves = [other.see(step, 7.0, 10) for step in range(10, 151, 10)]
    resumed = PlateauWatch(7.0, 0, 1000)
    resumed.state = json.loads(json.dumps(other.state))
    halves += [resumed.see(step, 7.0, 10) for step in range(160, 501, 10)]
    assert said == halves


def test_rates_in_the_log_are_measured_over_real_tokens(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    batch = replace(TINY.batch, phases=())
    pretrain(replace(TINY, steps=6, log_every=6, batch=batch), tokens, out, settings=INLINE)
    line = read_metrics(out)[-1]
    # 6 steps of 2 micro-batches of 512 tokens, a bit less as the last of each cannot be filled to the brim.
    assert 0.6 * 6 * 1024 < line["tokens"] <= 6 * 1024


def test_a_call_that_cannot_work_leaves_no_run_behind(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for length in (3, 4):  # of which [CLS], [SEP] and [SEP] leave nothing, and nothing to cut in two
        with pytest.raises(UsageError, match="leaves no room"):
            pretrain(replace(TINY, batch=Batch(tokens=1024, length=length)), tokens, out, settings=INLINE)
    with pytest.raises(UsageError, match="tracker 'paper' is unknown"):
        pretrain(TINY, tokens, out, settings=replace(INLINE, track=("paper",)))
    with pytest.raises(UsageError, match="modernbert model has no pooler"):
        pretrain(replace(TINY, model=ModernConfig(layers=1, width=16, heads=2)), tokens, out, settings=INLINE)
    with pytest.raises(UsageError, match="workers must be at least 0, not -2"):
        pretrain(TINY, tokens, out, settings=replace(INLINE, workers=-2))
    assert not out.exists()


def test_a_micro_batch_of_nothing_but_a_separator_is_no_step(tmp_path: Path) -> None:
    # 29 + 29 + 30 tokens and three separators are three sequences of 30 tokens, and one that has a separator only.
    write_random_store(tmp_path / "tokens", [29, 29, 30])
    batch = Batch(tokens=32, length=32, pack="stream", micro_batch_tokens=32)
    recipe = replace(TINY, objectives=(MaskedLanguageModel(),), batch=batch, steps=8)
    outcome = pretrain(recipe, tmp_path / "tokens", tmp_path / "run", settings=INLINE)
    assert outcome.steps == 8 and outcome.skipped_steps == 0


def test_the_speed_of_a_resumed_run_leaves_out_what_was_seen_before(tmp_path: Path) -> None:
    window = torch.zeros(WINDOW_SIZE, dtype=torch.float64)
    window[-len(COUNTS) + COUNTS.index("tokens")] = 10_000
    state = RunState(4, Cursor(), tuple(window.tolist()), 0, PlateauWatch(7.0, 0, 24).state)
    reporter = Reporter(TINY, tmp_path, 7.0, state)
    window[-len(COUNTS) + COUNTS.index("tokens")] = 12_000
    for step in (6, 9):
        reporter.take(step, window, 0.5, 2.0, {})
    reporter.write()
    reporter.close()
    assert [line["tokens_per_second"] for line in read_metrics(tmp_path)] == [1_000, 6_000]
    assert reporter.speed.mean == 6_000


def test_a_run_that_only_skipped_has_no_loss_to_tell(
    tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from biosmith.pretraining.step import LossSums

    whole = LossSums.forward
    monkeypatch.setattr(LossSums, "forward", lambda self, *a: whole(self, *a) * math.nan)
    outcome = pretrain(replace(TINY, steps=2), tokens, tmp_path / "run", settings=INLINE)
    assert outcome.loss is None and outcome.skipped_steps == 2


def test_a_token_store_that_is_named_twice_is_a_wrong_call(tokens: Path, tmp_path: Path) -> None:
    # Documents held out of one of them would be trained on in the other.
    link, copy = tmp_path / "link", tmp_path / "copy"
    link.symlink_to(tokens)
    shutil.copytree(tokens, copy)
    for again in (tokens, link, copy):
        with pytest.raises(UsageError, match=r"is the same token store as .*batch\.weights"):
            pretrain(TINY, [tokens, again], tmp_path / "run", settings=INLINE)
    assert not (tmp_path / "run").exists()


def test_a_run_needs_a_token_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one token store"):
        pretrain(TINY, [], tmp_path / "run", settings=INLINE)


def test_a_checkpoint_without_its_state_is_named_before_the_work_and_not_after_it(
    tokens: Path, tmp_path: Path
) -> None:
    # As of a run that was copied in part: the run would begin anew, and end where that checkpoint is to be written.
    out, recipe = tmp_path / "run", replace(TINY, steps=2)
    pretrain(recipe, tokens, out, settings=INLINE)
    whole = losses(out)
    (out / "checkpoints" / "step-2" / "state.json").unlink()
    with pytest.raises(BadInput, match=r"step-2/state\.json: is missing; remove this checkpoint"):
        pretrain(recipe, tokens, out, resume=True, settings=INLINE)
    shutil.rmtree(out / "checkpoints" / "step-2")
    pretrain(recipe, tokens, out, resume=True, settings=INLINE)
    assert losses(out) == whole
