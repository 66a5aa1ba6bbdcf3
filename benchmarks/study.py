"""The papers' questions at our scale: arms of one size, equal tokens, one kind of card, each beside its control.

    python benchmarks/study.py --tokens STORE --general-tokens STORE --general MODEL --data BENCHMARKS [--million-tokens 200]

| arm | control | what differs |
|---|---|---|
| reference | | 8 layers, 512 wide, post-LN BERT, positions begun as sines; in-domain vocabulary; whole words, 15 % |
| general-vocabulary | reference | the vocabulary of the general model |
| subword | reference | masks of single pieces (Gu et al., 2021, Table 8) |
| falling-rate | reference | 30 % falling to 15 % |
| deep | reference | 16 layers, 384 wide (Fang et al., 2023, Figure 2) |
| random-positions | reference | position embeddings start at random, as published models' did |
| modern | reference | pre-norm, rotary positions, gated feed-forward, of as many parameters |
| replaced-tokens | reference | ELECTRA's objective |
| small-scratch | | the general model's shape and vocabulary |
| small-continued | small-scratch | the same, begun from the general model |

Learning rate, batch and schedule are the same in all but `modern` and `replaced-tokens`, which have their recipes' optimizers. Each
model is tuned on the datasets with several seeds at fixed settings. Every stage is kept: the same command goes on after a
stop, `--arms` and `--stages` do a part, on another card too. Prints means with Student's intervals, and each arm's difference
from its control with its interval and both tests (`bench compare`); writes benchmarks/results/study.json, study.png and
study-losses.png.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from biosmith.models.bert import BertConfig
from biosmith.models.checkpoint import read_config
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

RESULT = Path(__file__).parent / "results" / "study.json"
CONTROLS = {
    "reference": None,
    "general-vocabulary": "reference",
    "subword": "reference",
    "falling-rate": "reference",
    "deep": "reference",
    "random-positions": "reference",
    "modern": "reference",
    "replaced-tokens": "reference",
    "small-scratch": None,
    "small-continued": "small-scratch",
}
GENERAL = ("general-vocabulary", "small-scratch", "small-continued")
STAGES = ("train", "bench")


def main() -> None:
    """Do every stage asked for that is not done; print and write what is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=Path, required=True, help="a token store, in-domain vocabulary")
    parser.add_argument("--general-tokens", type=Path, help="the same documents in the general vocabulary")
    parser.add_argument("--general", type=Path, help="Hugging Face folder of the general model")
    parser.add_argument("--vocab", type=Path, help="the tokens' vocabulary, where the run did not find it")
    parser.add_argument("--data", type=Path, help="folder of the benchmarks, for the stage `bench`")
    parser.add_argument("--arms", nargs="+", default=list(CONTROLS), choices=list(CONTROLS))
    parser.add_argument("--stages", nargs="+", default=list(STAGES), choices=STAGES)
    parser.add_argument("--million-tokens", type=float, default=200.0, help="seen by each arm")
    parser.add_argument("--batch-tokens", type=int, default=65_536)
    parser.add_argument("--override", nargs="*", default=[], help="of all recipes, key=value")
    parser.add_argument(
        "--tasks",
        nargs="+",
        default=["NCBI-disease", "BC5-chem", "BC5-disease", "BC2GM", "ChemProt", "GAD", "HoC"],
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="fine-tuning runs at once on each device")
    parser.add_argument("--tuning", nargs="*", default=[], help="of fine-tuning, key=value")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--work", type=Path, default=Path("runs/study"))
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    if "train" in given.stages:
        for arm in given.arms:
            train(arm, given)
    done = [arm for arm in given.arms if (given.work / "models" / arm).is_dir()]
    found: dict[str, Any] = {
        "settings": {key: str(value) for key, value in vars(given).items()},
        "machine": describe_machine(torch.device(given.device)),
        "pretraining": {arm: followed(given.work / "runs" / arm) for arm in done},
    }
    draw_losses(found["pretraining"], given.out.with_name(f"{given.out.stem}-losses.png"))
    if "bench" in given.stages:
        found |= bench(done, given)
        draw(found["results"], done, given.out.with_suffix(".png"))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {given.out}")


def arm_recipe(arm: str, given: Any) -> Recipe:
    """The recipe of an arm."""
    base = find_recipe("biosmith-base-small", "fast")
    words = MaskedLanguageModel(rate=0.15, unit="word")
    # Where positions start at random, short runs end near the plateau of word frequencies, and arms there tell nothing.
    recipe = replace(base, objectives=(words,), initial_positions="sinusoidal")
    if arm == "subword":
        recipe = replace(recipe, objectives=(replace(words, unit="token"),))
    elif arm == "falling-rate":
        recipe = replace(recipe, objectives=base.objectives)
    elif arm == "deep":
        deep = find_recipe("bioformer-16l", "fast")
        recipe = replace(recipe, model=replace(deep.model, vocabulary_size=base.model.vocabulary_size))
    elif arm == "random-positions":
        recipe = replace(recipe, initial_positions="random")
    elif arm == "modern":
        modern = find_recipe("modern-small", "fast")
        recipe = replace(recipe, model=modern.model, optimizer=modern.optimizer, initial_positions="random")
    elif arm == "replaced-tokens":
        electra = find_recipe("electra-base", "fast")
        shape = {name: getattr(base.model, name) for name in ("layers", "width", "heads", "feed_forward")}
        recipe = replace(
            recipe,
            model=ElectraConfig(embedding_width=base.model.width, **shape).without_dropout(),
            # Three heads of 64: a third of 512 is no whole number of heads.
            objectives=tuple(
                replace(o, generator_width=0.375) if isinstance(o, ReplacedTokenDetection) else o
                for o in electra.objectives
            ),
            optimizer=electra.optimizer,
        )
    elif arm.startswith("small-"):
        config, _ = read_config(given.general)
        assert isinstance(config, BertConfig)
        recipe = replace(recipe, model=config.without_dropout())
    recipe = replace(
        recipe,
        name=f"study-{arm}",
        steps=max(1, round(given.million_tokens * 1e6 / given.batch_tokens)),
        # At 5e-4 and a tenth of warm-up it called everything original throughout 2,280 steps.
        schedule=Linear(warmup=0.25 if arm == "replaced-tokens" else 0.1, mode="triangle"),
        batch=replace(base.batch, tokens=given.batch_tokens),
        evaluation=Evaluation(every=0, documents=500),
        log_every=50,
    )
    return apply_overrides(replace(recipe, checkpoint_every=max(1, recipe.steps // 4)), given.override)


def train(arm: str, given: Any) -> None:
    """Pretrain and export an arm, if that is not done."""
    run, model = given.work / "runs" / arm, given.work / "models" / arm
    if model.is_dir():
        return
    general = arm in GENERAL
    if general and (given.general is None or given.general_tokens is None):
        raise SystemExit(f"{arm} needs --general and --general-tokens")
    outcome = pretrain(
        arm_recipe(arm, given),
        given.general_tokens if general else given.tokens,
        run,
        init=given.general if arm == "small-continued" else None,
        resume=True,
        settings=Settings(device=given.device),
    )
    if outcome.stopped:
        raise SystemExit(f"{arm} was stopped at step {outcome.steps}; the same command goes on from there")
    model.parent.mkdir(parents=True, exist_ok=True)
    export_run(run, model, vocabulary=given.general if general else given.vocab)
    print(f"{arm}: {json.dumps(last_values(run))}", flush=True)


def followed(run: Path) -> dict[str, Any]:
    """The last values of a run's log, and its loss by steps."""
    lines = read_metrics(run)
    curve = [[line["step"], round(line["loss"], 4)] for line in lines if "loss" in line]
    return last_values(run) | {"curve": curve}


def last_values(run: Path) -> dict[str, Any]:
    """The last value of everything that a run's log has."""
    return {key: value for line in read_metrics(run) for key, value in line.items()}


def bench(done: list[str], given: Any) -> dict[str, Any]:
    """Tune every arm, and lay each beside its control."""
    if given.data is None:
        raise SystemExit("--data says where the benchmarks are")
    results = given.work / "results"
    call(
        "bench", "run", "--suite", "blurb", "--model", *(str(given.work / "models" / arm) for arm in done),
        "--data", str(given.data), "--out", str(results), "--tasks", *given.tasks, "--seeds", str(given.seeds),
        "--device", given.device, "--jobs", str(given.jobs),
        *(["--override", *given.tuning] if given.tuning else []), allowed=(0, 3),
    )  # fmt: skip
    subprocess.run([sys.executable, "-m", "biosmith", "bench", "show", str(results)], check=True)
    pairs = {arm: CONTROLS[arm] for arm in done if CONTROLS[arm] in done}
    return {
        "results": call("bench", "show", str(results)),
        "against control": {
            arm: call("bench", "compare", str(results / arm), str(results / str(control)))
            for arm, control in pairs.items()
        },
    }


def draw_losses(arms: dict[str, dict[str, Any]], picture: Path) -> None:
    """Every arm's loss in training by steps. Where masks differ, so do the losses of equal models."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    for arm, found in arms.items():
        few = len(found["curve"]) < 10  # a line between them would tell of steps that nobody saw
        axis.plot(*zip(*found["curve"], strict=True), "o" if few else "-", label=arm, linewidth=1.5)
    axis.set(xlabel="step", ylabel="loss in training, nats")
    axis.grid(alpha=0.25)
    axis.legend()
    picture.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(str(picture))


def draw(results: dict[str, Any], arms: list[str], picture: Path) -> None:
    """A panel a dataset: the arms' means with Student's 95 % intervals over seeds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    models = {model["model"]: model["datasets"] for model in results.get("models", [results])}
    tasks = sorted({task for arm in arms for task in models.get(arm, {})})
    figure = Figure(figsize=(9, (1 + 0.25 * len(arms)) * ((len(tasks) + 1) // 2)), layout="constrained")
    axes = figure.subplots((len(tasks) + 1) // 2, 2, squeeze=False, sharey=True).flatten()
    for axis, task in zip(axes, tasks, strict=False):
        for place, arm in enumerate(reversed(arms)):
            if (row := models.get(arm, {}).get(task)) is not None:
                axis.errorbar(
                    100 * row["mean"], place, xerr=100 * row["ci95"], fmt="o", color="#1f6f8b", capsize=3
                )
        axis.set(title=task, yticks=range(len(arms)), yticklabels=list(reversed(arms)))
        axis.grid(axis="x", alpha=0.25)
    for axis in axes[len(tasks) :]:
        axis.set_visible(False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(str(picture))


if __name__ == "__main__":
    main()
