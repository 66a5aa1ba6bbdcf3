"""The leaderboard: results as a static site that loads nothing from elsewhere.

What was measured here and what papers report stand in parts of their own; figures of another protocol are grey and say
why. The pages work from a folder, without a server and without scripts.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from biosmith.artefact import require_writable, write_by_rename
from biosmith.bench.leaderboard.anchors import SOURCES
from biosmith.bench.leaderboard.boards import Board, Line, gathered, make_boards, name_devices
from biosmith.bench.leaderboard.details import Detail, make_detail
from biosmith.bench.leaderboard.pictures import Point, scatter, strip
from biosmith.bench.mock import find_task
from biosmith.bench.results import ModelResults, TaskResults
from biosmith.errors import UsageError
from biosmith.text.formats import html
from biosmith.version import __version__

MARK = ".biosmith-leaderboard"  # what says that a folder is a site and may be made anew
LONGEST_NAME = 100  # letters of a model's name in the names of its pages
HEADINGS = {
    "blurb": "BLURB: biomedical language understanding",
    "bioformer15": "The fifteen datasets of Bioformer",
    "biom": "The six datasets of BioM-Transformers",
    "extras": "More datasets",
    "mock": "The mock suite: shows that everything works, says nothing about models",
}


def build_site(results: Sequence[Path], out: Path, data: Path | None = None) -> dict[str, Any]:
    """Build the site.

    Args:
        results: results folders, folders of models, or submissions.
        out: the folder; an earlier site there is replaced, anything else is not touched.
        data: the folder of the datasets; with it pages show errors, and gold against predicted. Texts that may not be
            redistributed are never shown.

    Returns:
        `models`, `datasets`, `pages`, `suites`.

    Raises:
        UsageError: no results, `out` holds something else, or `data` is no folder.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).is_file())):
        raise UsageError(f"{out} exists and is no leaderboard; choose another --out, or remove it")
    require_writable(out / MARK)
    if data is not None and not data.is_dir():
        raise UsageError(f"{data} is no folder; --data names the folder that holds the datasets' folders")
    out = out.resolve()  # neither "." nor a link can be removed to make place for the new folder
    with gathered(results) as (models, first):
        boards = make_boards(models, first)
        if not boards:
            raise UsageError("the results have no run of a dataset of any suite")
        out.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{out.name}.", suffix=".tmp", dir=out.parent))
        try:
            (new / MARK).write_text("", encoding="utf-8")
            built = _Site(new, boards, models, data).build()
            new.chmod(0o755)
            if out.is_dir():
                shutil.rmtree(out)
            new.replace(out)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        return built


@dataclass
class _Site:
    out: Path
    boards: list[Board]
    models: list[ModelResults]
    data: Path | None
    pages: int = 0
    names: dict[tuple[str, str], str] = field(default_factory=dict)

    def build(self) -> dict[str, Any]:
        from jinja2 import Environment, PackageLoader, StrictUndefined

        loader = PackageLoader("biosmith.bench.leaderboard")
        self.jinja = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        for name in ("site.css", "site.js"):
            text = (resources.files("biosmith.bench.leaderboard") / name).read_text(encoding="utf-8")
            (self.out / name).write_text(text, encoding="utf-8")
        datasets: dict[str, list[tuple[ModelResults, TaskResults]]] = {}
        for model in self.models:
            for (dataset, arm), task in model.tasks.items():
                if not arm:
                    datasets.setdefault(dataset, []).append((model, task))
        for board in self.boards:
            self._suite(board, datasets)
        for dataset, entries in datasets.items():
            self._dataset(dataset, entries)
        for model in self.models:
            self._model(model)
        return {
            "models": len(self.models),
            "datasets": len(datasets),
            "pages": self.pages,
            "suites": [board.suite.name for board in self.boards],
        }

    def _write(self, file: str, template: str, here: str = "", **values: Any) -> None:
        """Write a page. `root` leads back to the site's folder."""
        suites = [{"name": b.suite.name, "file": self._suite_file(b)} for b in self.boards]
        page = self.jinja.get_template(template).render(
            root="../" * file.count("/"), suites=suites, here=here, version=__version__, **values
        )
        with write_by_rename(self.out / file) as temporary:
            temporary.write_text(page, encoding="utf-8")
        self.pages += 1

    def _suite_file(self, board: Board) -> str:
        return "index.html" if board is self.boards[0] else f"suite-{self._name(board.suite.name)}.html"

    def _name(self, name: str, kind: str = "") -> str:
        """A file name for a name, not given to another one of its kind."""
        if (kind, name) not in self.names:
            plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:LONGEST_NAME] or "x"
            taken = {other.lower() for (of, _), other in self.names.items() if of == kind}
            number, chosen = 2, plain
            while chosen.lower() in taken:
                number, chosen = number + 1, f"{plain}-{number}"
            self.names[kind, name] = chosen
        return self.names[kind, name]

    def _dataset_file(self, name: str) -> str:
        return f"dataset/{self._name(name, 'dataset')}.html"

    def _model_file(self, name: str) -> str:
        return f"model/{self._name(name, 'model')}.html"

    def _anchor(self, model: str) -> str:
        return self._name(model, "model")

    def _suite(self, board: Board, datasets: Mapping[str, Any]) -> None:
        suite = board.suite
        averaged = (
            "its groups, each the mean over its datasets" if suite.average == "groups" else "its datasets"
        )
        missing = sorted({n for line in board.measured for n in board.datasets if n not in line.cells})
        links = {
            "model": {m.model.name: self._model_file(m.model.name) for m in self.models},
            "dataset": {n: self._dataset_file(n) if n in datasets else "" for n in board.datasets},
            "anchor": {m.model.name: self._anchor(m.model.name) for m in self.models},
        }
        metrics = {n: _metric(suite.values.get(n, find_task(n).about.metric)) for n in board.datasets}
        self._write(
            self._suite_file(board),
            "suite.html",
            here=suite.name,
            board=board,
            heading=HEADINGS.get(suite.name, suite.name),
            average=f"The score of a suite is the mean over {averaged}.",
            missing=", ".join(missing),
            links=links,
            metrics=metrics,
            footnotes={group: _footnotes(board, names) for group, names in suite.groups.items()},
            pictures=_pictures(board),
            sources={s: text for s, text in SOURCES.items() if any(x.source == s for x in board.reported)},
        )

    def _dataset(self, dataset: str, entries: Sequence[tuple[ModelResults, TaskResults]]) -> None:
        shown, rows = [], []
        for model, task in entries:
            name = model.model.name
            detail = make_detail(task, self.data)
            low, high = task.interval()
            rows.append((name, [100 * run.value for run in task.runs], 100 * low, 100 * high))
            shown.append(self._entry(name, task, detail))
        means = "; ".join(f"{name}: {sum(v) / len(v):.2f}" for name, v, _, _ in rows)
        self._write(
            self._dataset_file(dataset),
            "dataset.html",
            about=find_task(dataset).about,
            metric=_metric(find_task(dataset).about.metric),
            entries=shown,
            picture=strip(rows, f"Scores of single seeds on {dataset}. Means: {means}"),
        )

    def _entry(self, name: str, task: TaskResults, detail: Detail) -> dict[str, Any]:
        summary, run = task.summary(), task.runs[0]
        settings = [(k.replace("_", " "), str(v)) for k, v in run.settings.items()]
        return {
            "model": name,
            "anchor": self._anchor(name),
            "link": self._model_file(name),
            "runs": task.runs,
            "mean": summary.mean,
            "sd": summary.sd,
            "ci95": summary.ci95,
            "precise": all(
                isinstance(run.scores.get(key), int | float)
                for run in task.runs
                for key in ("precision", "recall")
            ),
            "settings": settings,
            "fingerprint": run.protocol.get("fingerprint", ""),
            "source": f"Settings: {task.chosen.get('source', task.chosen.get('grid', ''))}.",
            "detail": detail,
            "viewer": self._viewer(name, detail) if detail.documents else "",
        }

    def _viewer(self, model: str, detail: Detail) -> str:
        """The page of gold against predicted mentions."""
        file = f"view/{self._anchor(model)}--{self._name(detail.run.dataset, 'dataset')}.html"
        title = f"{detail.run.dataset}: {model}, seed {detail.run.seed}"
        if len(detail.documents) < detail.sentences:  # or its scores would be taken for those of the split
            title += f" · {len(detail.documents):,} of {detail.sentences:,} sentences, chosen for errors"
        (self.out / "view").mkdir(exist_ok=True)
        html.write(detail.documents, self.out / file, gold=detail.gold, title=title)
        self.pages += 1
        return file

    def _model(self, model: ModelResults) -> None:
        mark = model.model
        rows = []
        for (dataset, arm), task in model.tasks.items():
            summary = task.summary()
            low, high = task.interval()
            rows.append(
                {
                    "name": f"{dataset} ({arm})" if arm else dataset,
                    "link": "" if arm else f"{self._dataset_file(dataset)}#{self._anchor(mark.name)}",
                    "metric": _metric(task.runs[0].metric),
                    **{"mean": summary.mean, "sd": summary.sd, "low": low, "high": high},
                    "seeds": len(task.runs),
                    "fingerprint": str(task.runs[0].protocol.get("fingerprint", "")),
                }
            )
        facts = {
            "parameters": None if mark.parameters is None else f"{mark.parameters:,}",
            "layers": mark.layers,
            "width": mark.width,
            "family": mark.family or None,
            "digest": mark.digest[:16],
            "devices": name_devices(r.device for t in model.tasks.values() for r in t.runs) or None,
        }
        lineage = [_tree(mark.lineage)] if mark.lineage else []
        shown = [(k, v) for k, v in facts.items() if v is not None]
        self._write(
            self._model_file(mark.name), "model.html", mark=mark, rows=rows, facts=shown, lineage=lineage
        )


def _metric(name: str) -> str:
    """`micro_f1` as "micro F1"."""
    return re.sub(r"\bf1\b", "F1", name.replace("_", " "))


def _footnotes(board: Board, names: Sequence[str]) -> dict[str, int]:
    """Reasons why figures of a group cannot be compared, numbered as they come."""
    lines = (*board.measured, *board.reported)
    cells = (line.cells[name] for line in lines for name in names if name in line.cells)
    return {reason: i for i, reason in enumerate(dict.fromkeys(c.other for c in cells if c.other), start=1)}


def _pictures(board: Board) -> list[dict[str, str]]:
    """Quality against speed and against size, over the datasets that all measured models have."""
    shared = [
        n
        for n in board.datasets
        if all(n in line.cells and not line.cells[n].other for line in board.measured)
    ]
    if not shared:
        return []
    whole = all(line.score is not None for line in board.measured)
    of = f"{board.suite.name} score" if whole else f"mean of {len(shared)} shared datasets"

    def quality(line: Line) -> float:
        if whole and line.score is not None:
            return line.score
        return sum(line.cells[name].value for name in shared) / len(shared)

    made = []
    devices = name_devices(device for line in board.measured for device in line.devices)
    for key, title, label, caption in (
        (
            "speed",
            "Quality against speed",
            "test instances a second",
            f"Prediction on {devices}." if devices else "",
        ),
        (
            "parameters",
            "Quality against size",
            "million parameters",
            "Parameters as the model's files hold them.",
        ),
    ):
        places = [(line, getattr(line, key)) for line in board.measured if getattr(line, key)]
        if not places:
            continue
        points = [Point(line.model, float(x), quality(line)) for line, x in places]
        told = "; ".join(f"{p.name}: {p.y:.2f} at {p.x:,.4g} {label}" for p in points)
        svg = scatter(points, label, of, f"{title}. {told}")
        made.append({"title": title, "svg": svg, "caption": f"{caption} Measured models only.".strip()})
    return made


def _tree(origin: Mapping[str, Any]) -> dict[str, Any]:
    """A lineage as the template wants it; many raw files become one line. What is no lineage is left out: anybody's
    submission must not stop the site."""
    given = origin.get("inputs")
    inputs = [i for i in given if isinstance(i, Mapping)] if isinstance(given, list) else []
    raw = [i for i in inputs if not i.get("inputs") and i.get("kind") == "file"]
    shown = [i for i in inputs if i not in raw] + raw[:3]
    return {
        "kind": origin.get("kind", ""),
        "name": Path(str(origin.get("path", ""))).name,
        "digest": str(origin.get("digest", ""))[:12],
        "command": origin.get("command", ""),
        "more": f"and {len(raw) - 3:,} more files" if len(raw) > 3 else "",
        "inputs": [_tree(i) for i in shown],
    }
