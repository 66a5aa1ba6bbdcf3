"""What the site shows, gathered from results folders and submissions: plain values for the templates."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from biosmith.bench.leaderboard.anchors import ANCHORS
from biosmith.bench.results import ModelResults, TaskResults, group_scores, load_results
from biosmith.bench.submission import opened
from biosmith.bench.suites import SUITES, Suite, find_suite
from biosmith.errors import UsageError


@dataclass(frozen=True)
class Cell:
    """A score in percent.

    Attributes:
        value: the mean over seeds, or what was reported.
        sd, low, high: spread over seeds, and the 95 % interval over test instances; None of a reported one.
        seeds: how many.
        other: why it cannot be compared; "" if it can.
        best: whether it is the best measured one of its column.
    """

    value: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0
    other: str = ""
    best: bool = False


@dataclass(frozen=True)
class Line:
    """A row of a table: a model.

    Attributes:
        model: its name.
        measured: or reported by a paper.
        source: of a reported one.
        score: of the suite; None where datasets are missing.
        groups, cells: group -> score in percent; dataset -> cell.
        parameters, speed: in millions; test instances a second over all datasets.
        devices: that it ran on, as its runs say them.
        protocol: grid of its settings.
    """

    model: str
    measured: bool
    source: str
    score: float | None
    groups: Mapping[str, float]
    cells: Mapping[str, Cell]
    parameters: float | None = None
    speed: float | None = None
    devices: tuple[str, ...] = ()
    protocol: str = ""


@dataclass(frozen=True)
class Board:
    """One suite: its measured rows, and the reported ones."""

    suite: Suite
    measured: tuple[Line, ...]
    reported: tuple[Line, ...]

    @property
    def datasets(self) -> list[str]:
        """All datasets, in order."""
        return [name for names in self.suite.groups.values() for name in names]


@contextmanager
def gathered(results: Sequence[Path]) -> Iterator[tuple[list[ModelResults], str]]:
    """The models of results folders and submissions, each with a name of its own, and the first suite.

    Raises:
        UsageError: there are none, or one is no results folder and no submission.
    """
    with ExitStack() as stack:
        models: list[ModelResults] = []
        suite = ""
        for path in results:
            folder, differences = stack.enter_context(opened(path))
            if differences:
                raise UsageError(f"{path} is not what was packed: {differences[0]}")
            loaded = load_results(folder)
            suite = suite or loaded.suite
            for model in loaded.models:
                name = _unused(model.model.name, path, {m.model.name for m in models})
                models.append(replace(model, model=replace(model.model, name=name)))
        if not models:
            raise UsageError("no results were given")
        yield models, suite


def _unused(name: str, path: Path, taken: Collection[str]) -> str:
    """A name that no other model has."""
    numbered = (f"{name} ({path}, {number})" for number in itertools.count(2))
    names = itertools.chain((name, f"{name} ({path.stem})", f"{name} ({path})"), numbered)
    return next(other for other in names if other not in taken)


def make_boards(models: Sequence[ModelResults], first: str) -> list[Board]:
    """A board for each suite with anything measured; the suite that was run comes first."""
    names = dict.fromkeys([first, *SUITES, "mock"])
    usual = _usual_files(models)
    boards = []
    for name in names:
        if name not in SUITES and name != "mock":
            continue  # ablations are no suite of datasets
        suite = find_suite(name)
        measured = [line for model in models if (line := _measured(model, suite, usual)).cells]
        if measured:
            boards.append(
                Board(suite, tuple(_mark_best(_by_score(measured))), tuple(_by_score(_reported(suite))))
            )
    return boards


def name_devices(devices: Iterable[str]) -> str:
    """Each device once, with how many runs shared it: "H100, 6 or 10 runs at once"."""
    shared: dict[str, set[int]] = {}
    for device in devices:
        several = re.fullmatch(r"(.+), (\d+) runs at once", device)
        name, number = (several[1], int(several[2])) if several else (device, 1)
        if name:
            shared.setdefault(name, set()).add(number)
    return "; ".join(
        name if numbers == {1} else f"{name}, {_either(sorted(numbers))} at once"
        for name, numbers in sorted(shared.items())
    )


def _either(numbers: Sequence[int]) -> str:
    """`1 run`, `8 runs`, `6, 8 or 10 runs`."""
    *before, last = map(str, numbers)
    return f"{', '.join(before)}{' or ' if before else ''}{last} run{'' if numbers[-1] == 1 else 's'}"


def _usual_files(models: Sequence[ModelResults]) -> dict[str, Mapping[str, str]]:
    """The files that most models were scored on, for each dataset; those of the first where several are."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for model in models:
        for (dataset, arm), task in model.tasks.items():
            if not arm:
                found.setdefault(dataset, []).append(task.runs[0].protocol.get("files", {}))
    return {dataset: max(files, key=files.count) for dataset, files in found.items()}


def _measured(model: ModelResults, suite: Suite, usual: Mapping[str, Mapping[str, str]]) -> Line:
    tasks = model.of_suite(suite)
    cells = {name: _cell(task, suite, usual[name]) for name, task in tasks.items()}
    means = {name: cell.value / 100 for name, cell in cells.items() if not cell.other}
    groups, score, _ = group_scores(suite, means)
    runs = [run for task in tasks.values() for run in task.runs]
    seconds = sum(run.predict_seconds for run in runs)
    mark = model.model
    return Line(
        model=mark.name,
        measured=True,
        source="",
        score=None if score is None else 100 * score,
        groups={group: 100 * value for group, value in groups.items()},
        cells=cells,
        parameters=None if mark.parameters is None else mark.parameters / 1e6,
        speed=sum(run.instances for run in runs) / seconds if seconds else None,
        devices=tuple(sorted({run.device for run in runs})),
        protocol=", ".join(sorted({str(task.chosen.get("grid", "")) for task in tasks.values()})),
    )


def _cell(task: TaskResults, suite: Suite, usual: Mapping[str, str]) -> Cell:
    summary = task.summary(suite)
    low, high = (None, None) if task.runs[0].dataset in suite.values else task.interval()
    same = task.runs[0].protocol.get("files", {}) == usual
    return Cell(
        100 * summary.mean,
        None if summary.sd is None else 100 * summary.sd,
        None if low is None else 100 * low,
        None if high is None else 100 * high,
        len(task.runs),
        "" if same else "scored on other files than most models here",
    )


def _reported(suite: Suite) -> list[Line]:
    names = [name for members in suite.groups.values() for name in members]
    lines = []
    for anchor in ANCHORS:
        cells = {
            name: Cell(anchor.scores[name], other=anchor.others.get(name, ""))
            for name in names
            if name in anchor.scores
        }
        if not cells:
            continue
        fair = {name: cell.value / 100 for name, cell in cells.items() if not cell.other}
        groups, score, _ = group_scores(suite, fair)
        if suite.name == "blurb" and anchor.blurb is not None:
            score = anchor.blurb / 100
        lines.append(
            Line(
                anchor.model,
                False,
                anchor.source,
                None if score is None else 100 * score,
                {group: 100 * value for group, value in groups.items()},
                cells,
            )
        )
    return lines


def _by_score(lines: Sequence[Line]) -> list[Line]:
    """Best first; those without the suite's score after them, by how many datasets they have and their mean."""

    def key(line: Line) -> tuple[bool, int, float]:
        values = [cell.value for cell in line.cells.values()]
        if line.score is not None:
            return False, 0, -line.score
        return True, -len(values), -sum(values) / len(values)

    return sorted(lines, key=key)


def _mark_best(lines: Sequence[Line]) -> list[Line]:
    best: dict[str, float] = {}
    for line in lines:
        for name, cell in line.cells.items():
            if not cell.other:
                best[name] = max(cell.value, best.get(name, cell.value))

    def marked(name: str, cell: Cell) -> Cell:
        return replace(cell, best=len(lines) > 1 and not cell.other and cell.value == best[name])

    return [replace(line, cells={n: marked(n, c) for n, c in line.cells.items()}) for line in lines]
