"""What a dataset is: where its files lie, what is in them, how they are scored, and what the paper counted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from biosmith.artefact import digest_value
from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.text import files

SPLITS = ("train", "dev", "test")
PROTOCOL = 1  # version of the scorers; part of every fingerprint


@dataclass(frozen=True)
class Paper:
    """What the paper says of a split.

    Attributes:
        count: the number it gives, of what the dataset's `counted` names.
        difference: why the public files differ from it, if they are known to.
    """

    count: int | None
    difference: str = ""


@dataclass(frozen=True)
class About:
    """What everyone should know of a dataset.

    Attributes:
        name: what it is called here.
        task: ner, pico, relations, similarity, documents (any number of labels), classes (one label), answers (yes or
            no) or spans (answers that stand in a text).
        metric: what decides its score; the name of a value that `score` returns.
        counted: what the paper counts; the name of a value that `count` returns.
        folders: where it may lie below the data folder, best first; names are compared without case.
        citation, licence, source: the paper, the terms, and where to get the files.
        paper: split -> what the paper says.
        seeds: runs that the paper averages: five, ten for the smallest sets.
        evaluated: the split whose score is published: "dev" where no test split ever was.
        whole: what the paper says of all splits together, where it counts no more than that.
        folds: how many folds of cross-validation the files hold; 1 for splits.
        protocol: what else of the protocol is its own; part of every fingerprint and of what a run is found by.
    """

    name: str
    task: str
    metric: str
    counted: str
    folders: tuple[str, ...]
    citation: str
    licence: str
    source: str
    paper: Mapping[str, Paper] = field(default_factory=dict)
    seeds: int = 5
    evaluated: str = "test"
    whole: Paper | None = None
    folds: int = 1
    protocol: Mapping[str, str] = field(default_factory=dict)


class Dataset(Protocol):
    """One dataset; each lies in a file of its own in `bench/datasets`."""

    @property
    def about(self) -> About:
        """What everyone should know of it."""

    def find(self, data: Path) -> dict[str, list[Path]]:
        """The files of each split that is there; the folder of the dataset itself may be given too."""

    def load(self, data: Path, split: str, rejects: Rejects | None = None) -> Sequence[Any]:
        """The instances of a split, in file order; bad records raise, or go to `rejects` if given.

        Offsets that do not fit their text (mentions, answers) leave nothing out; they go to `rejects`, or to the log.

        Raises:
            UsageError: the dataset or the split is not there; says where to get it.
            BadInput: the first bad record.
        """

    def count(self, instances: Sequence[Any]) -> dict[str, int]:
        """`instances`, and what else is counted of them: mentions, words or positives."""

    def names(self, instances: Sequence[Any]) -> list[str]:
        """The id of each line that predictions have: an instance, or (BioASQ factoid) a question with its contexts."""

    def score(self, instances: Sequence[Any], predictions: Sequence[Any]) -> dict[str, Any]:
        """`value` (that of `metric`) and what belongs to it, of one prediction for each of `names`.

        Raises:
            Mistake: a prediction is not of the right kind.
        """


class Mistake(ValueError):
    """A prediction that cannot be scored; `index` is which one."""

    def __init__(self, index: int, reason: str, value: Any) -> None:
        super().__init__(reason)
        self.index, self.reason, self.value = index, reason, value


def find_folder(about: About, data: Path, has: Sequence[str]) -> Path:
    """The folder of a dataset below `data`, or `data` itself if it holds one of the files `has` names (stems).

    Raises:
        UsageError: it is not there; says what is needed and where to get it.
    """
    data = Path(data)
    if not data.is_dir():
        raise UsageError(f"{data} does not exist" if not data.exists() else f"{data} is not a folder")
    for name in about.folders:
        folder = _descend(data, Path(name).parts)
        if folder is not None and _holds(folder, has):
            return folder
    if _holds(data, has):
        return data
    usual = [name for name in has if Path(name).suffix == Path(has[0]).suffix]
    raise UsageError(
        f"{about.name} is not in {data}; expected {' or '.join(about.folders)} with {', '.join(usual)}. {about.source}"
    )


def _descend(folder: Path, parts: Sequence[str]) -> Path | None:
    for part in parts:
        alike = [p for p in sorted(folder.iterdir()) if p.is_dir() and p.name.lower() == part.lower()]
        if not alike:
            return None
        folder = alike[0]
    return folder


def _holds(folder: Path, names: Sequence[str]) -> bool:
    return any(find_file(folder, name) is not None for name in names)


def find_file(folder: Path, name: str) -> Path | None:
    """A file by its name without regard to compression and, where none has just that name, to case; None if it is not there."""
    wanted = [name, *(name + c for c in files.COMPRESSED)]
    for path in (folder / name for name in wanted):
        if path.is_file():
            return path
    home = (folder / name).parent
    alike = {Path(name).name.lower() for name in wanted}
    there = sorted(home.iterdir()) if home.is_dir() else []
    return next((path for path in there if path.name.lower() in alike and path.is_file()), None)


def missing_split(about: About, split: str, found: Mapping[str, Any]) -> UsageError:
    """The error for a split that is not there."""
    there = ", ".join(found) or "none"
    return UsageError(f"{about.name} has no {split} split here (found: {there}). {about.source}")


def no_instances(about: About, paths: Sequence[Path]) -> BadInput:
    """The error for a split without an instance."""
    return BadInput(", ".join(map(str, paths)), f"holds no instance of {about.name}")


def data_digests(dataset: Dataset, data: Path, split: str) -> dict[str, str]:
    """Digest of the content of each file of a split, whether it is compressed or not; empty where the split is not there.

    Raises:
        BadInput: a compressed file is damaged.
    """
    paths = dataset.find(data).get(split, [])
    return {
        files.strip_compression(path.name): _digest(path, path.stat().st_size, path.stat().st_mtime_ns)
        for path in paths
    }


@lru_cache(maxsize=4096)
def _digest(path: Path, size: int, changed: int) -> str:
    with files.open_decompressed(path) as stream:
        try:
            return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
        except files.BROKEN as error:
            raise BadInput(path, f"is damaged: {error}") from error


def fingerprint(dataset: Dataset, data: Path, split: str, **protocol: Any) -> dict[str, Any]:
    """What a score rests on: files by the digest of what is in them, metric and version, and whatever else was chosen.

    `fingerprint` is a digest over all of it; two scores with the same one were made under the same protocol.
    """
    about = {
        "dataset": dataset.about.name,
        "split": split,
        "metric": dataset.about.metric,
        "scorer": PROTOCOL,
        "files": data_digests(dataset, data, split),
        **dataset.about.protocol,
        **protocol,
    }
    return {**about, "fingerprint": digest_value(about)[:16]}
