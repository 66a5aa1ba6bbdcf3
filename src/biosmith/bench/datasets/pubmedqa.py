"""PubMedQA: yes, no or maybe, from a question and the abstract without its conclusion (the reasoning-required setting)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import About, Paper, find_file, find_folder, missing_split, no_instances
from biosmith.bench.kinds import Classes
from biosmith.bench.questions import read_json
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.tasks.instances import BadRow, Instance

LABELS = ("yes", "no", "maybe")
ALL, SPLITS, TRUTH = "ori_pqal.json", "pqal_splits.json", "test_ground_truth.json"
SEPARATE = {"train": "pqal_fold0/train_set.json", "dev": "pqal_fold0/dev_set.json", "test": "test_set.json"}


@dataclass(frozen=True)
class PubMedQA(Classes):
    """The labelled thousand in one file with the splits beside it, or in the files that upstream's script writes."""

    def find(self, data: Path) -> dict[str, list[Path]]:
        """See `Dataset`."""
        folder = find_folder(self.about, data, [ALL, *SEPARATE.values()])
        whole, splits = find_file(folder, ALL), find_file(folder, SPLITS)
        if whole is not None and splits is not None:
            return {split: [whole, splits] for split in SEPARATE}
        separate = {split: find_file(folder, name) for split, name in SEPARATE.items()}
        found = {split: [path] for split, path in separate.items() if path is not None}
        truth = find_file(folder, TRUTH)
        if whole is not None and truth is not None and "test" not in found:
            found["test"] = [whole, truth]
        return found

    def load(self, data: Path, split: str, rejects: Rejects | None = None) -> list[Instance]:
        """See `Dataset`."""
        found = self.find(data)
        if split not in found:
            raise missing_split(self.about, split, found)
        file, *listing = found[split]
        records = read_json(file)
        ids: Sequence[str] = list(records)
        if listing:
            ids = _ids(read_json(listing[0]), split, listing[0])
        collected = Rejects(strict=True) if rejects is None else rejects
        instances = []
        for id in ids:
            try:
                instances.append(_instance(id, records.get(id), file))
            except BadRow as error:
                collected.add(file, f"PMID {id}", str(error))
        if not instances and not collected.count:
            raise no_instances(self.about, found[split])
        return instances


def _ids(listing: dict[str, Any], split: str, file: Path) -> list[str]:
    """The PMIDs of a split; BLURB uses the first of the ten folds."""
    if "folds" not in listing:
        return [str(id) for id in listing]
    folds = listing["folds"]
    first = folds[0] if isinstance(folds, list) and folds and isinstance(folds[0], dict) else {}
    ids = (listing if split == "test" else first).get(split)
    if not isinstance(ids, list):
        raise BadInput(file, f"has no list of the {split} split")
    return [str(id) for id in ids]


def _instance(id: str, record: Any, file: Path) -> Instance:
    if not isinstance(record, dict):
        raise BadRow("is not in the file")
    question, contexts, label = record.get("QUESTION"), record.get("CONTEXTS"), record.get("final_decision")
    if not isinstance(question, str) or not isinstance(contexts, list):
        raise BadRow("has no QUESTION or no CONTEXTS")
    if label not in LABELS:
        raise BadRow(f"final_decision {label!r} is unknown; valid: {', '.join(LABELS)}")
    return Instance(id, question, str(label), " ".join(map(str, contexts)), file=str(file), line=f"PMID {id}")


DATASET = PubMedQA(
    About(
        name="PubMedQA",
        task="answers",
        metric="accuracy",
        counted="instances",
        folders=("pubmedqa", "PubMedQA"),
        citation="Jin et al. (2019), PubMedQA",
        licence="MIT",
        source="Get data/ori_pqal.json from pubmedqa/pubmedqa on GitHub and run its preprocess/split_dataset.py pqal.",
        paper={"train": Paper(450), "dev": Paper(50), "test": Paper(500)},
        seeds=10,
    ),
    columns=(),
    header=False,
    make=lambda cells: Instance("", "", ""),
    labels=LABELS,
)
