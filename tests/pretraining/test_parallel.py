"""Two processes give what one gives, whatever shares the parameters; checkpoints load at any number of processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from biosmith.errors import UsageError
from biosmith.pretraining.config import Batch
from biosmith.pretraining.metrics import read_metrics
from biosmith.pretraining.run import pretrain
from pretraining.conftest import write_random_store
from pretraining.test_run import INLINE, TINY, wait_for_step

pytestmark = pytest.mark.slow

RECIPE = replace(
    TINY,
    steps=9,
    log_every=1,
    checkpoint_every=3,
    keep_checkpoints=0,
    batch=Batch(tokens=2048, length=128, micro_batch_tokens=512),
)
SCRIPT = """
import sys, pathlib
sys.path.insert(0, {tests!r})
from pretraining.test_parallel import RECIPE
from biosmith.pretraining.run import Settings, pretrain
from dataclasses import replace
tokens, out, strategy, steps = sys.argv[1:]
pretrain(replace(RECIPE, steps=int(steps)), pathlib.Path(tokens), pathlib.Path(out), resume=True,
         settings=Settings(device="cpu", workers=0, parallel=strategy))
"""

# The second process dies once, in its fifth step, as on a node that fails.
DYING = """
import os, pathlib, signal, sys
from torch.optim.optimizer import register_optimizer_step_post_hook
died = pathlib.Path(sys.argv[2]).parent / "died"
made = []
def die(*_):
    made.append(1)
    if len(made) == 5:
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
if os.environ["RANK"] == "1" and not died.exists():
    register_optimizer_step_post_hook(die)
"""


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parallel") / "tokens"
    write_random_store(folder, [20 + 7 * (i % 30) for i in range(120)], seed=3)
    return folder


@pytest.fixture(scope="module")
def alone(tokens: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that one process makes."""
    out = tmp_path_factory.mktemp("alone") / "run"
    pretrain(RECIPE, tokens, out, settings=INLINE)
    return out


def start_two(
    tokens: Path, out: Path, strategy: str, folder: Path, steps: int = 9, before: str = "", restarts: int = 0
) -> subprocess.Popen[bytes]:
    script = folder / "train.py"
    script.write_text((before + SCRIPT).format(tests=str(Path(__file__).parents[1])))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    launch += ["--max-restarts", str(restarts)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    # Without it torchrun keeps the addresses of dead processes, and the restarted ones may try to reach them.
    environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    return subprocess.Popen(
        [*launch, str(script), str(tokens), str(out), strategy, str(steps)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def assert_same_run(one: Path, other: Path) -> None:
    """The same inputs exactly, the same losses up to rounding."""
    exact = ("step", "tokens", "epoch", "mask_rate", "masked_share", "random_pairs", "dropped_tokens")
    lines = list(zip(read_metrics(one), read_metrics(other), strict=True))
    assert len(lines) == 9
    for a, b in lines:
        assert {k: a[k] for k in exact} == {k: b[k] for k in exact}
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
        assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-4)
        assert ("eval_loss" in a) == ("eval_loss" in b)
        assert a.get("eval_loss", 0.0) == pytest.approx(b.get("eval_loss", 0.0), rel=1e-5)


def run_two(tokens: Path, out: Path, strategy: str, folder: Path) -> None:
    process = start_two(tokens, out, strategy, folder)
    _, said = process.communicate(timeout=180)
    assert process.returncode == 0, said.decode()[-2000:]


def test_two_processes_give_the_run_of_one_which_resumes_it(
    tokens: Path, alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "two"
    run_two(tokens, out, "ddp", tmp_path)
    assert_same_run(alone, out)
    shutil.rmtree(out / "checkpoints" / "step-9")
    pretrain(RECIPE, tokens, out, resume=True, settings=INLINE)
    assert_same_run(alone, out)


def test_parameters_spread_over_two_processes_go_on_from_the_checkpoint_of_one(
    tokens: Path, alone: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(alone, out)
    shutil.rmtree(out / "checkpoints" / "step-9")
    run_two(tokens, out, "fsdp", tmp_path)
    assert_same_run(alone, out)
    # And one process can take over again from what they wrote: whole tensors, all of the optimizer's state.
    one, two = (load_file(f / "checkpoints" / "step-9" / "optimizer.safetensors") for f in (alone, out))
    assert one.keys() == two.keys()
    assert all(torch.allclose(one[k], two[k], rtol=1e-3, atol=1e-6) for k in one)


def test_sigterm_stops_all_processes_after_the_same_step(tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start_two(tokens, out, "ddp", tmp_path, steps=3000)
    wait_for_step(out, 4, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    newest = max(int(p.name.removeprefix("step-")) for p in (out / "checkpoints").iterdir())
    # The checkpoint was made by the request: it belongs to the last step of the log.
    assert newest == read_metrics(out)[-1]["step"] < 3000


def test_torchrun_restarts_a_run_that_lost_a_process(tokens: Path, alone: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start_two(tokens, out, "ddp", tmp_path, before=DYING, restarts=1)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said.decode()[-2000:]
    assert (tmp_path / "died").exists()
    assert_same_run(alone, out)


def test_a_step_that_cannot_be_shared_evenly_is_refused() -> None:
    from biosmith.pretraining.preparing import require_shareable

    with pytest.raises(UsageError, match="4 micro-batches of 512, which 3 devices cannot share evenly"):
        require_shareable(RECIPE, 3)
