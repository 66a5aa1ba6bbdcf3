"""BioASQ 7b, yes/no: a question and the snippets that answer it. Each user registers and downloads it; never shipped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import About, Paper, find_file, find_folder, missing_split, no_instances
from biosmith.bench.kinds import Classes, one_of
from biosmith.bench.questions import read_json
from biosmith.bench.records import read_text
from biosmith.errors import UsageError, shorten
from biosmith.rejects import Rejects
from biosmith.tasks.instances import BadRow, Instance
from biosmith.text import files

LABELS = ("yes", "no")


@dataclass(frozen=True)
class BioASQ(Classes):
    """The official question files (any *.json in the folder or below) and BLURB's lists of ids in `indexing/`.

    Without such lists any edition's own: all yes/no questions of `training12b_new.json` (train) and `12B1_golden.json`, ...
    (test).
    """

    def find(self, data: Path) -> dict[str, list[Path]]:
        """See `Dataset`; a split is there when its list of ids is, and a question file."""
        try:
            lists = self._lists(data)
        except UsageError:
            folders = (folder for name in self.about.folders if (folder := data / name).is_dir())
            there = (
                *map(_json_files, folders),
                sorted(filter(_is_json, data.iterdir())) if data.is_dir() else [],
            )
            if editions := next(filter(None, map(_by_name, there)), None):
                return editions
            raise
        questions = _json_files(next(iter(lists.values())).parent.parent)
        return {split: [path, *questions] for split, path in lists.items() if questions}

    def _lists(self, data: Path) -> dict[str, Path]:
        names = {split: f"indexing/{split}_id.tsv" for split in ("train", "dev", "test")}
        folder = find_folder(self.about, data, list(names.values()))
        lists = {split: find_file(folder, name) for split, name in names.items()}
        return {split: path for split, path in lists.items() if path is not None}

    def listed(self, data: Path, split: str) -> int | None:
        """How many questions the list of a split names; None without a list."""
        path = self._lists(data).get(split)
        return None if path is None else len(_ids(path))

    def load(self, data: Path, split: str, rejects: Rejects | None = None) -> list[Instance]:
        """See `Dataset`."""
        found = self.find(data)
        if split not in found:
            raise missing_split(self.about, split, found)
        listing = None if _is_json(found[split][0]) else found[split][0]
        known: dict[str, tuple[Path, Any]] = {}
        for file in filter(_is_json, found[split]):
            questions = read_json(file).get("questions")
            for question in questions if isinstance(questions, list) else ():
                # The questions of a test are given out without answers, and with them once it is over.
                if isinstance(question, dict) and (
                    "exact_answer" in question or str(question.get("id")) not in known
                ):
                    known[str(question.get("id"))] = (file, question)
        if not known:
            raise UsageError(f"no question in {', '.join(map(str, found[split]))}. {self.about.source}")
        asked = [id for id, (_, question) in known.items() if question.get("type") == "yesno"]
        collected = Rejects(strict=True) if rejects is None else rejects
        instances = []
        for id in asked if listing is None else _ids(listing):
            try:
                instances.append(_instance(id, known))
            except BadRow as error:
                collected.add(listing or known[id][0], f"question {id}", str(error))
        if not instances and not collected.count:
            raise no_instances(self.about, found[split])
        return instances


def _is_json(path: Path) -> bool:
    return files.strip_compression(path.name).lower().endswith(".json")


def _json_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.json*")) if _is_json(path) and path.is_file()]


def _by_name(there: Sequence[Path]) -> dict[str, list[Path]]:
    """BioASQ's own files of a split, under the names that its editions give them."""
    patterns = {"train": r"train\w*?\d+b", "test": r"\d+b\d?_golden"}
    found = {split: [p for p in there if re.search(name, p.name.lower())] for split, name in patterns.items()}
    return {split: paths for split, paths in found.items() if paths}


def _ids(listing: Path) -> list[str]:
    cells = read_text(listing).replace("\n", ",").split(",")
    return [cell.strip() for cell in cells if cell.strip()]


def _instance(id: str, known: dict[str, tuple[Path, Any]]) -> Instance:
    if id not in known:
        raise BadRow("is in none of the question files")
    file, question = known[id]
    answer = question.get("exact_answer")
    answer = answer[0] if isinstance(answer, list) and answer else answer
    label = one_of(str(answer).strip().lower().rstrip("."), LABELS)
    given = question.get("snippets") or []
    if not isinstance(given, list):
        raise BadRow(f"its snippets are no list: {shorten(given)}")
    snippets = [str(s.get("text") or "") for s in given if isinstance(s, dict)]
    return Instance(
        id, str(question.get("body") or ""), label, " ".join(snippets), file=str(file), line=f"question {id}"
    )


DATASET = BioASQ(
    About(
        name="BioASQ",
        task="answers",
        metric="accuracy",
        counted="instances",
        folders=("bioasq", "BioASQ"),
        citation="Nentidis et al. (2019), BioASQ 7b",
        licence="terms of BioASQ and NLM; registration required, not redistributable",
        source="Register at bioasq.org, download the training 7b and the golden 7b files (*.json) and put them into the folder.",
        paper={"train": Paper(670), "dev": Paper(75), "test": Paper(140)},
        seeds=10,
    ),
    columns=(),
    header=False,
    make=lambda cells: Instance("", "", ""),
    labels=LABELS,
)
