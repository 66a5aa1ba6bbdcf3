"""The plan of a build: which source files, in which order, cut into units of work that can each be done again."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biosmith.artefact import digest_value, to_plain, write_json
from biosmith.corpus.options import BuildOptions
from biosmith.errors import BadInput, UsageError
from biosmith.surrogates import replace_surrogates
from biosmith.text.formats import find_files

UNIT_BYTES = 32 * 2**20  # a unit takes further files until it has so many bytes
UNIT_FILES = 1000
LAYOUT = 3  # of the unfinished build; a build begun with another layout cannot be resumed

_NLM_FILE = re.compile(r"(?:pubmed|medline)(\d\d)n(\d{4,})\.xml(?:\.gz)?", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """A source file as it was when the build began."""

    path: str
    bytes: int
    modified: int  # nanoseconds


@dataclass(frozen=True)
class Unit:
    """Consecutive source files that one worker reads in one go."""

    number: int
    sources: tuple[Source, ...]

    @property
    def stem(self) -> str:
        """Beginning of the names of the unit's intermediate files."""
        return f"unit-{self.number:06d}"


@dataclass(frozen=True)
class Plan:
    """All that decides the output: options, source files in order, and the digest of what is kept out."""

    options: BuildOptions
    sources: tuple[Source, ...]
    exclusion: str | None = None

    @property
    def digest(self) -> str:
        """Names the plan; equal for equal options and unchanged files."""
        return digest_value({"layout": LAYOUT, "plan": to_plain(self)})

    def units(self) -> list[Unit]:
        """The source files in order, cut into units."""
        units: list[Unit] = []
        current: list[Source] = []
        size = 0
        for source in self.sources:
            if current and (size + source.bytes > UNIT_BYTES or len(current) >= UNIT_FILES):
                units.append(Unit(len(units), tuple(current)))
                current, size = [], 0
            current.append(source)
            size += source.bytes
        if current:
            units.append(Unit(len(units), tuple(current)))
        return units

    def save(self, path: Path) -> None:
        """Write the plan by rename."""
        write_json(path, {"digest": self.digest, "plan": to_plain(self)})


def make_plan(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    options: BuildOptions,
    exclusion: str | None = None,
    *,
    out: Path | None = None,
) -> Plan:
    """Find the files of the sources, but for those in `out`, and put them in order.

    The order is the user's, folders sorted; baseline and update files of NLM ("pubmed26n0001.xml.gz") are put in the
    order of their numbers among themselves, for a later one replaces and deletes citations of an earlier one.

    Raises:
        UsageError: a source does not exist, or has a name that is not UTF-8.
        BadInput: there is no file in the sources.
    """
    made = None if out is None else out.resolve()
    paths = [path for path in find_files(sources) if made is None or made not in path.resolve().parents]
    if not paths:
        raise BadInput(
            sources if isinstance(sources, str | os.PathLike) else ", ".join(map(str, sources)),
            "holds no file",
        )
    described = []
    for path in in_nlm_order(paths):
        if replace_surrogates(str(path)) != str(path):
            raise UsageError(f"the name of {path!r} is not UTF-8, and no manifest can hold it; rename it")
        status = path.stat()
        described.append(Source(str(path), status.st_size, status.st_mtime_ns))
    return Plan(options, tuple(described), exclusion)


def in_nlm_order(paths: Sequence[Path]) -> list[Path]:
    """The paths, NLM's numbered files sorted by number within the places that they take."""
    matches = {path: match for path in paths if (match := _NLM_FILE.fullmatch(path.name)) is not None}
    numbered = iter(sorted(matches, key=lambda path: (int(matches[path][1]), int(matches[path][2]))))
    return [next(numbered) if path in matches else path for path in paths]


def require_same_plan(path: Path, plan: Plan) -> None:
    """Check that an unfinished build was begun with this plan.

    Raises:
        UsageError: it was begun with other options or other files, or a file has changed since.
    """
    try:
        saved: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(path, f"is not the plan of a build: {error}") from error
    if saved.get("digest") == plan.digest:
        return
    raise UsageError(
        f"{path.parent.parent} was begun with {_difference(saved.get('plan', {}), plan)}; "
        "repeat the first call to resume it, or choose another --out"
    )


def _difference(saved: Mapping[str, Any], plan: Plan) -> str:
    now = to_plain(plan)
    for name, value in now["options"].items():
        if saved.get("options", {}).get(name) != value:
            return f"{name} = {saved.get('options', {}).get(name)!r}, not {value!r}"
    if saved.get("exclusion") != now["exclusion"]:
        return "other files to exclude"
    before = {source["path"]: source for source in saved.get("sources", ())}
    for source in now["sources"]:
        if source["path"] not in before:
            return f"sources that did not hold {source['path']}"
        if before[source["path"]] != source:
            return f"another version of {source['path']}"
    missing = [path for path in before if path not in {source["path"] for source in now["sources"]}]
    return (
        f"the source {missing[0]} too"
        if missing
        else "another order of the sources or another version of biosmith"
    )
