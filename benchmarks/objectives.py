"""Masked language model, replaced-token detection, one after the other, and ALBERT, for one time on one card.

    python benchmarks/objectives.py --tokens STORE --data BENCHMARKS [--minutes 20] [--work runs/objectives]

All have the shape of Bioformer-8L (8 layers, 512 wide) and one corpus. `mlm-rtd` is a masked language model for half of
the time, whose encoder then becomes a discriminator's. How many steps fit into the time is found by a short run of
each, compilation left out; learning rates and warm-up are for short runs (`arm_recipe` says why), the rest is each recipe's own. Each
model is then tuned on a dataset for mentions, one for relations and one for similarity with several seeds; the table has
means and Student's 95 % intervals over seeds. Every stage is kept, and what is finished is not done again. Also draws the
discriminator's accuracy on replaced tokens over the run. Writes benchmarks/results/objectives.json and objectives.png.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from biosmith.models.albert import AlbertConfig
from biosmith.models.bert import BertConfig
from biosmith.models.electra import ElectraConfig
from biosmith.pretraining.config import (
    Evaluation,
    Linear,
    MaskedLanguageModel,
    Recipe,
    ReplacedTokenDetection,
    apply_overrides,
)
from biosmith.pretraining.exporting import export_run
from biosmith.pretraining.metrics import read_metrics
from biosmith.pretraining.run import Settings, pretrain
from biosmith.recipes import find_recipe
from continued_pretraining import call
from pretraining import describe_machine

RESULT = Path(__file__).parent / "results" / "objectives.json"
ARMS = ("mlm", "rtd", "mlm-rtd", "albert")


def main() -> None:
    """Run every stage that is not done, print the table, write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=Path, required=True, help="a token store of real text")
    parser.add_argument("--vocab", type=Path, help="the tokens' vocabulary, where the run did not find it")
    parser.add_argument("--data", type=Path, help="folder of the benchmarks; without it nothing is tuned")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--minutes", type=float, default=20.0, help="of training, each")
    parser.add_argument("--trial-steps", type=int, default=60, help="of the run that finds the speed")
    parser.add_argument("--batch-tokens", type=int, default=65_536, help="half of it for rtd")
    parser.add_argument("--override", nargs="*", default=[], help="of all recipes, key=value")
    parser.add_argument("--tasks", nargs="+", default=["NCBI-disease", "ChemProt", "BIOSSES"])
    parser.add_argument("--tuning", nargs="*", default=[], help="of fine-tuning, key=value")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="fine-tuning runs at once on each device")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--work", type=Path, default=Path("runs/objectives"))
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    found: dict[str, Any] = {
        "settings": {key: str(value) for key, value in vars(given).items()},
        "machine": describe_machine(torch.device(given.device)),
        "pretraining": {arm: train(arm, given) for arm in given.arms},
    }
    detecting = [given.work / "runs" / arm for arm in given.arms if arm.endswith("rtd")]
    if detecting:
        draw(detecting, given.out.with_suffix(".png"))
    if given.data is not None:
        results = given.work / "results"
        models = [str(given.work / "models" / arm) for arm in given.arms]
        call(
            "bench", "run", "--suite", "blurb", "--model", *models, "--data", str(given.data),
            "--out", str(results), "--tasks", *given.tasks, "--seeds", str(given.seeds), "--device", given.device,
            "--jobs", str(given.jobs), *(["--override", *given.tuning] if given.tuning else []), allowed=(0, 3),
        )  # fmt: skip
        subprocess.run([sys.executable, "-m", "biosmith", "bench", "show", str(results)], check=True)
        found["results"] = call("bench", "show", str(results))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {given.out}")


def arm_recipe(arm: str, given: Any) -> Recipe:
    """The recipe of an arm in Bioformer-8L's shape, without dropout."""
    shape: dict[str, Any] = {"layers": 8, "width": 512, "heads": 8, "feed_forward": 2_048}
    if arm == "mlm":
        base = find_recipe("bioformer-8l", "fast")
        recipe = replace(
            base,
            model=BertConfig(**shape).without_dropout(),
            objectives=(MaskedLanguageModel(rate=0.15, unit="word"),),
            optimizer=replace(base.optimizer, learning_rate=5e-4),
        )
    elif arm.endswith("rtd"):
        base = find_recipe("electra-base", "fast")
        recipe = replace(
            base,
            model=ElectraConfig(embedding_width=512, **shape).without_dropout(),
            # Three heads of 64: a third of 512 is no whole number of heads.
            objectives=tuple(
                replace(o, generator_width=0.375) if isinstance(o, ReplacedTokenDetection) else o
                for o in base.objectives
            ),
            optimizer=replace(base.optimizer, learning_rate=2e-4 if arm == "rtd" else 3e-4),
        )
    else:
        base = find_recipe("albert-base", "fast")
        # What LAMB takes for 15,625 steps (You et al., 2020, Table 4). The square-root rule from 1.76e-3 at 4,096
        # sequences gives 3.1e-4, meant for a million steps: 2,900 of them did not leave the unigram plateau.
        rate = 5e-3
        recipe = replace(
            base,
            model=AlbertConfig(embedding_width=128, **shape).without_dropout(),
            optimizer=replace(base.optimizer, learning_rate=rate),
        )
    recipe = replace(
        recipe,
        name=f"objectives-{arm}",
        # At 5e-4 and a tenth of warm-up the discriminator learned no more than the share of replaced tokens.
        schedule=Linear(warmup=0.25 if arm == "rtd" else 0.1, mode="triangle"),
        batch=replace(recipe.batch, tokens=given.batch_tokens // (2 if arm == "rtd" else 1)),
        evaluation=Evaluation(every=0, documents=500),
        log_every=20,
    )
    return apply_overrides(recipe, given.override)


def train(arm: str, given: Any) -> dict[str, Any]:
    """Pretrain and export an arm, if that is not done; what came of it."""
    init = None
    if arm == "mlm-rtd":
        given = copy.copy(given)
        given.minutes /= 2
        half = copy.copy(given)
        half.work = given.work / "first-half"
        train("mlm", half)
        init = half.work / "models" / "mlm"
    run, model = given.work / "runs" / arm, given.work / "models" / arm
    # Two networks of this size in batches of 32,768 tokens wait for launches; recorded graphs do not.
    graphs = "reduce-overhead" if arm.endswith("rtd") and given.device == "cuda" else None
    recipe, settings = arm_recipe(arm, given), Settings(device=given.device, compile=graphs)
    steps_file = given.work / f"{arm}-steps.json"
    if not steps_file.is_file():
        trial = given.work / "trials" / arm
        shutil.rmtree(trial, ignore_errors=True)
        short = replace(recipe, steps=given.trial_steps, checkpoint_every=given.trial_steps, log_every=4)
        speed = pretrain(short, given.tokens, trial, init=init, settings=settings).tokens_per_second or 0.0
        steps = max(given.trial_steps, int(speed * given.minutes * 60 / recipe.batch.tokens))
        steps_file.write_text(json.dumps({"steps": steps, "tokens_per_second": speed}), encoding="utf-8")
    found: dict[str, Any] = json.loads(steps_file.read_text(encoding="utf-8"))
    recipe = replace(recipe, steps=found["steps"], checkpoint_every=max(1, found["steps"] // 4))
    outcome = pretrain(recipe, given.tokens, run, init=init, resume=True, settings=settings)
    if outcome.stopped:
        raise SystemExit(f"{arm} was stopped at step {outcome.steps}; the same command goes on from there")
    if not model.is_dir():
        model.parent.mkdir(parents=True, exist_ok=True)
        export_run(run, model, vocabulary=given.vocab)
    found |= {"loss": outcome.loss, "eval_loss": outcome.eval_loss, "parameters": outcome.parameters}
    found |= {"tokens": outcome.tokens, "cores": os.cpu_count()}
    last = read_metrics(run)[-1]
    found |= {key: last[key] for key in ("replaced_accuracy", "original_accuracy", "sop_loss") if key in last}
    print(f"{arm}: {json.dumps(found)}", flush=True)
    return found


def draw(runs: list[Path], picture: Path) -> None:
    """The share of replaced tokens that each discriminator finds, against the tokens it has seen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for run in runs:
        lines = [line for line in read_metrics(run) if line.get("replaced_accuracy") is not None]
        axes.plot([x["tokens"] / 1e6 for x in lines], [x["replaced_accuracy"] for x in lines], label=run.name)
    axes.axhline(0.6, color="#555555", linestyle="--", linewidth=1)
    axes.set(xlabel="million tokens seen", ylabel="share of replaced tokens found", ylim=(0, 1))
    axes.set_title("Discriminator")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(str(picture))


if __name__ == "__main__":
    main()
