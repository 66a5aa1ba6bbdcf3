"""BioASQ 7b, yes/no: a question and the snippets that answer it. Each user registers and downloads it; never shipped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import About, Paper, find_file, find_folder, missing_split, no_instances
from biosmith.bench.kinds import Classes, one_of
from biosmith.bench.questions import read_json
from biosmith.errors import UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.instances import BadRow, Instance
from biosmith.text import files

LABELS = ("yes", "no")


@dataclass(frozen=True)
class BioASQ(Classes):
    """The official question files (any *.json in the folder) and BLURB's lists of ids in `indexing/`."""

    def find(self, data: Path) -> dict[str, list[Path]]:
        """See `Dataset`; a split is there when its list of ids is, and a question file."""
        lists = self._lists(data)
        folder = next(iter(lists.values())).parent.parent
        questions = [p for p in sorted(folder.iterdir()) if files.strip_compression(p.name).endswith(".json")]
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
        listing, *question_files = found[split]
        known: dict[str, tuple[Path, Any]] = {}
        for file in question_files:
            questions = read_json(file).get("questions")
            if not isinstance(questions, list):
                continue
            known |= {str(q.get("id")): (file, q) for q in questions if isinstance(q, dict)}
        if not known:
            raise UsageError(f"no question file in {listing.parent.parent}. {self.about.source}")
        collected = Rejects(strict=True) if rejects is None else rejects
        instances = []
        for id in _ids(listing):
            try:
                instances.append(_instance(id, known))
            except BadRow as error:
                collected.add(listing, f"question {id}", str(error))
        if not instances and not collected.count:
            raise no_instances(self.about, found[split])
        return instances


def _ids(listing: Path) -> list[str]:
    with files.open_decompressed(listing) as stream:
        cells = stream.read().decode("utf-8").replace("\n", ",").split(",")
    return [cell.strip() for cell in cells if cell.strip()]


def _instance(id: str, known: dict[str, tuple[Path, Any]]) -> Instance:
    if id not in known:
        raise BadRow("is in none of the question files")
    file, question = known[id]
    answer = question.get("exact_answer")
    answer = answer[0] if isinstance(answer, list) and answer else answer
    label = one_of(str(answer).strip().lower().rstrip("."), LABELS)
    snippets = [str(s.get("text") or "") for s in question.get("snippets") or () if isinstance(s, dict)]
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
