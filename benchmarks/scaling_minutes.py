"""How test F1 grows with the minutes that a card pretrained: MiniLM-L6 gone on from, and a model of ours from nothing.

    python benchmarks/scaling_minutes.py

Reads the seeds of tuned models out of benchmarks/results (the submissions in `blurb/`, continued_pretraining.json), pretrains and
tunes nothing. Writes benchmarks/results/scaling_minutes.json and docs/assets/scaling.png: means with Student's 95 % intervals of
five seeds. Another point is a line in POINTS.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from biosmith.bench.statistics import Summary

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parents[1] / "docs" / "assets" / "scaling.png"
DATASETS = ("BC5-disease", "NCBI-disease", "ChemProt")


@dataclass(frozen=True)
class Point:
    """A pretrained model, tuned."""

    begun_from: str  # "MiniLM-L6" or "nothing"
    seconds: float
    covers: str  # what the seconds are
    card: str
    steps: int
    tokens: int  # seen in this pretraining
    source: str  # below RESULTS
    model: str = ""  # in a file that holds several


POINTS = (
    Point("MiniLM-L6", 0, "as it is", "", 0, 0, "blurb/MiniLM-L6.zip"),
    Point(
        "MiniLM-L6",
        110,
        "training",
        "H200",
        2_400,
        312_642_488,
        "continued_pretraining.json",
        "domain-continued",
    ),
    Point(
        "MiniLM-L6",
        452,
        "training, its start and the export",
        "H200",
        8_000,
        1_043_911_900,
        "blurb/biosmith-base-small.zip",
    ),
    Point("nothing", 780, "training", "H100", 17_000, 1_106_955_936, "blurb/biosmith-8x512.zip"),
)


def main() -> None:
    """Gather the points, write and draw them."""
    points = [vars(point) | {"datasets": scores(point)} for point in POINTS]
    note = "test F1 of five seeds of fine-tuning at fixed settings; one seed of pretraining a point, each a whole schedule of its own"
    result = RESULTS / "scaling_minutes.json"
    result.write_text(json.dumps({"note": note, "points": points}, indent=2) + "\n", encoding="utf-8")
    draw(points, PICTURE)
    for point in points:
        shown = ", ".join(
            f"{name} {100 * row['mean']:.2f} ± {100 * row['ci95']:.2f}"
            for name, row in point["datasets"].items()
        )
        print(f"{point['begun_from']}, {point['seconds']:g} s: {shown}")


def scores(point: Point) -> dict[str, dict[str, Any]]:
    """Mean, deviation, interval and seeds of each dataset."""
    source = RESULTS / point.source
    if source.suffix == ".json":
        models = json.loads(source.read_text(encoding="utf-8"))["results"]["models"]
        found = next(model["datasets"] for model in models if model["model"] == point.model)
        seeds = {name: found[name]["seeds"] for name in DATASETS}
    else:
        seeds = submitted(source)
    return {name: Summary.of(seeds[name]).as_dict() for name in DATASETS}


def submitted(path: Path) -> dict[str, list[float]]:
    """The scores of a submission's runs by dataset, in the order of their seeds."""
    with zipfile.ZipFile(path) as archive:
        names = [PurePosixPath(name) for name in archive.namelist()]
        runs = [n for n in names if n.match("*/*/seed-*.json") and not n.name.endswith(".units.json")]
        records = [json.loads(archive.read(str(run))) for run in runs]
    records.sort(key=lambda record: record["seed"])
    return {name: [r["value"] for r in records if r["dataset"] == name] for name in DATASETS}


def draw(points: list[dict[str, Any]], picture: Path) -> None:
    """A panel a dataset, F1 by minutes."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots(1, len(DATASETS))
    looks = {
        "MiniLM-L6": ("o-", "#1f6f8b", "MiniLM-L6, gone on from (H200)"),
        "nothing": ("s", "#b5532a", "8 x 512 from nothing (H100)"),
    }
    for axis, dataset in zip(axes, DATASETS, strict=True):
        for begun_from, (form, colour, label) in looks.items():
            mine = [point for point in points if point["begun_from"] == begun_from]
            rows = [point["datasets"][dataset] for point in mine]
            axis.errorbar(
                [point["seconds"] / 60 for point in mine],
                [100 * row["mean"] for row in rows],
                yerr=[100 * row["ci95"] for row in rows],
                fmt=form,
                color=colour,
                capsize=3,
                label=label,
            )
        axis.set(title=dataset, xlabel="minutes of one card", ylabel="test F1")
        axis.grid(alpha=0.25)
    axes[-1].legend(loc="lower right", fontsize=8)
    picture.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(str(picture))


if __name__ == "__main__":
    main()
