"""`biosmith bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from biosmith.cli import Report
from biosmith.errors import DONE, FAILED, SET_ASIDE, UsageError
from biosmith.progress import say


def score(
    dataset: Annotated[str, tyro.conf.Positional],
    *,
    data: Path,
    predictions: Path,
    split: str | None = None,
) -> Report:
    """Score anybody's predictions under the exact protocol of a dataset.

    Example:
        biosmith bench score chemprot --data benchmarks --predictions predictions.jsonl

    Args:
        dataset: a name of `biosmith data ls`.
        data: the folder that holds the dataset's folder, or that folder itself.
        predictions: one line an instance, in the order of the file: an object with id and prediction, where prediction
            is a list of tags (NER, PICO), a label, a number (similarity), a list of labels (HoC: one line a
            sentence), a string (SQuAD) or a list of answers, best first (BioASQ factoid: one line a question).
        split: which split was predicted; the one whose score is published if not given.
    """
    from biosmith.bench.datasets import find_dataset
    from biosmith.bench.scoring import score_predictions

    values = score_predictions(find_dataset(dataset), data, predictions, split)
    shown = "".join(f", {key} {100 * values[key]:.2f}" for key in ("precision", "recall") if key in values)
    text = (
        f"{values['dataset']} {values['split']}: {values['metric']} {100 * values['value']:.2f}{shown} over "
        f"{values['instances']:,} instances (protocol {values['protocol']['fingerprint']})"
    )
    return Report(values, text)


def run(
    *,
    suite: str,
    model: tuple[str, ...] = (),
    out: Path,
    data: Path | None = None,
    tasks: tuple[str, ...] = (),
    seeds: int | None = None,
    grid: str = "fixed",
    resume: bool = False,
    device: str = "auto",
    jobs: int = 1,
    override: tuple[str, ...] = (),
) -> Report:
    """Fine-tune models on the datasets of a suite with several seeds, and score them under the exact protocols.

    What is finished is kept: when the same command is given again it goes on where it was stopped, and a run with more
    seeds, tasks or models adds to what is there. A dataset that is absent or broken is told, and the rest goes on (exit
    code 3). Each CUDA device gets a worker.

    Example:
        biosmith bench run --suite blurb --model models/bioformer-8l models/mine --data benchmarks --out results

    Args:
        suite: mock (offline, seconds), blurb, bioformer15, biom, or ablations.
        model: Hugging Face folders or hub ids; for ablations NAME=FOLDER, where NAME is a role of
            `biosmith bench ablations`.
        out: the results folder.
        data: the folder that holds the datasets' folders; mock needs none.
        tasks: only these datasets (for ablations: only these ablations, or these datasets of them).
        seeds: runs a dataset; by default as many as its paper averages, 5 or 10.
        grid: fixed; rates, three learning rates from which the development split chooses; paper, the grid of the
            suite's paper, likewise; or pubmedbert, bioformer, biom.
        resume: the results folder must be there already.
        device: auto, cpu, cuda, or several such as cuda:0,cuda:1.
        jobs: runs at once on each device. Small models leave most of a card idle; 4 to 8 fill an H100.
        override: settings as key=value that win over all others, such as epochs=3.
    """
    from biosmith.bench.evaluating import run_models
    from biosmith.bench.tables import problem_lines

    if resume and not out.is_dir():
        raise UsageError(f"{out} does not exist; there is nothing to resume")
    if not model and suite != "ablations":
        raise UsageError("--model names at least one model")
    report, shown, table = run_models(
        model,
        suite=suite,
        data=data,
        out=out,
        tasks=tasks,
        seeds=seeds,
        grid=grid,
        device=device,
        jobs=jobs,
        override=override,
    )
    values = {
        **shown,
        "out": str(out),
        "runs": report.runs,
        "kept": report.kept,
        "seconds": report.seconds,
        "problems": report.problems,
    }
    for line in problem_lines(report.problems):
        say(f"not run: {line}")
    return Report(values, table, exit_code=SET_ASIDE if report.problems else DONE)


def show(results: Annotated[Path, tyro.conf.Positional], *, suite: str | None = None) -> Report:
    """Show what is in a results folder: a row a dataset, a column a model, groups and the suite's score.

    Example:
        biosmith bench show results

    Args:
        results: what `bench run --out` made, the folder of one model in it, or a submission.
        suite: whose groups; the one that was run if not given.
    """
    from biosmith.bench.evaluating import show_results

    data, table = show_results(results, suite)
    return Report(data, table)


def compare(
    a: Annotated[Path, tyro.conf.Positional],
    b: Annotated[Path, tyro.conf.Positional],
    *,
    resamples: int = 2000,
) -> Report:
    """Compare two models dataset by dataset on the same test instances: A minus B.

    Paired bootstrap and approximate randomisation over instances, with p-values adjusted for the number of datasets.

    Example:
        biosmith bench compare results/mine results/bioformer-8l

    Args:
        a: a results folder with one model, a model's folder in one, or a submission.
        b: the other one.
        resamples: how many.
    """
    from biosmith.bench.comparing import compare_results
    from biosmith.bench.tables import comparison_table, plain_rows
    from biosmith.cli.narrow import Uncut

    compared = compare_results(a, b, resamples=resamples)
    for name, reason in compared.left_out.items():
        say(f"{name} is left out: {reason}")
    data = {
        "a": compared.a,
        "b": compared.b,
        "datasets": plain_rows(compared.rows),
        "comparisons": len(compared.rows),
        "adjusted": "Holm",
        "left_out": compared.left_out,
    }
    return Report(data, Uncut(comparison_table(compared.rows, (compared.a, compared.b))))


def submit(results: Annotated[Path, tyro.conf.Positional], *, out: Path) -> Report:
    """Pack a run into one .zip: records, predictions and the models' lineage, without any text of a dataset.

    Example:
        biosmith bench submit results --out mine.zip

    Args:
        results: a results folder, or the folder of one model in it.
        out: the .zip to make.
    """
    from biosmith.bench.submission import pack

    packed = pack(results, out)
    text = (
        f"{out}: {packed['runs']:,} runs of {packed['models']:,} models, {packed['bytes']:,} bytes, "
        f"digest {packed['digest'][:12]}"
    )
    return Report(packed, text)


def verify(submission: Annotated[Path, tyro.conf.Positional], *, data: Path | None = None) -> Report:
    """Check a submission: digests of all files, and scores computed anew from the predictions.

    The exit code is 1 if anything differs, 3 if runs could not be scored anew because their data is not at hand.

    Example:
        biosmith bench verify mine.zip --data benchmarks

    Args:
        submission: what `bench submit` made, or a results folder.
        data: the folder that holds the datasets' folders.
    """
    from biosmith.bench.submission import verified_dict, verified_lines, verify

    result = verify(submission, data)
    code = FAILED if result.differences else SET_ASIDE if result.unchecked else DONE
    return Report(verified_dict(result), "\n".join(verified_lines(result)), exit_code=code)


def ablations(names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()) -> Report:
    """List the papers' ablations, or some of them in full: arms, roles of models, datasets, what the paper reports.

    Example:
        biosmith bench ablations pubmedbert-table-11

    Args:
        names: of ablations.
    """
    from biosmith.bench.ablations import describe_ablations

    data, table = describe_ablations(names)
    return Report(data, table)


def steps(
    run: Annotated[Path, tyro.conf.Positional],
    *,
    out: Path,
    data: Path,
    steps: tuple[int, ...] = (),
    tasks: tuple[str, ...] = (),
    models: Path | None = None,
    seeds: int | None = None,
    grid: str = "fixed",
    device: str = "auto",
    jobs: int = 1,
    override: tuple[str, ...] = (),
) -> Report:
    """Tune and score the checkpoints of a pretraining run: F1 by the number of steps (BioMegatron, Table 6).

    The run must have kept its checkpoints (`pretrain --override keep_checkpoints=0 checkpoint_every=1000`). What is
    finished is kept, as in `bench run`.

    Example:
        biosmith bench steps runs/continued --data benchmarks --out results-by-steps --steps 1000 10000 100000

    Args:
        run: folder that `pretrain` wrote.
        out: the results folder.
        data: the folder that holds the datasets' folders.
        steps: which checkpoints; all by default.
        tasks: datasets; BC5-chem, BC5-disease and ChemProt by default.
        models: folder for the exported models; exports in the run by default.
        seeds: runs a dataset; by default as many as its paper averages.
        grid: as in `bench run`.
        device: as in `bench run`.
        jobs: as in `bench run`.
        override: settings of the fine-tuning as key=value.
    """
    from biosmith.bench.evaluating import read_override
    from biosmith.bench.steps import run_steps, show_steps
    from biosmith.bench.tables import problem_lines

    report = run_steps(
        run,
        data,
        out,
        steps=steps,
        datasets=tasks,
        models=models,
        seeds=seeds,
        grid=grid,
        device=device,
        jobs=jobs,
        override=read_override(override),
    )
    shown, table = show_steps(report.results)
    for line in problem_lines(report.problems):
        say(f"not run: {line}")
    values = {**shown, "out": str(out), "runs": report.runs, "kept": report.kept, "problems": report.problems}
    return Report(values, table, exit_code=SET_ASIDE if report.problems else DONE)


def leaderboard(
    results: Annotated[tuple[Path, ...], tyro.conf.Positional], *, out: Path, data: Path | None = None
) -> Report:
    """Build a static site of results: measured scores with intervals beside what papers report, errors, speed, size.

    Nothing on it is loaded from elsewhere; open index.html in a browser or put the folder on any web server.

    Example:
        biosmith bench leaderboard results submissions/mine.zip --out site --data benchmarks

    Args:
        results: results folders, folders of models, or submissions.
        out: the folder to make; it is made anew.
        data: the folder that holds the datasets' folders; with it the site shows errors and gold beside predicted.
    """
    from biosmith.bench.leaderboard import build_site

    built = build_site(results, out, data)
    text = f"{out}/index.html: {built['models']:,} models, {built['datasets']:,} datasets, {built['pages']:,} pages"
    return Report({"out": str(out), **built}, text)
