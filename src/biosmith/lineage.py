"""Where an artefact came from: its manifest, the manifests of its inputs, and so on down to the raw files.

A manifest names each input by the path of the day and by digest. Folders get moved, so an input that is not at its
path is looked for beside the artefact; the digest says whether it is the same one.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from biosmith.artefact import (
    MANIFEST,
    Manifest,
    describe_input,
    digest_file,
    load_manifest,
    manifest_beside,
    read_manifest,
    to_plain,
    write_json,
)
from biosmith.errors import BadInput, UsageError, shorten

SOUND, MOVED, CHANGED, MISSING, UNCHECKED = "sound", "moved", "changed", "missing", "unchecked"
RECORDED, NAMED = "recorded", "named"
LINEAGE = "lineage.json"  # of models: the origin of what they were made from, as it was found then
BROKEN = (CHANGED, MISSING)
ABSOLUTE = re.compile(r"(?<![\w.:/<])(?:/|[A-Za-z]:\\|~/)[^\s'\",;:]+")  # paths in running text


@dataclass(frozen=True)
class Origin:
    """One artefact or file, and what it was made from.

    Attributes:
        path: where it lies now, or where it lay if it is missing.
        kind: "corpus", "tokens", ..., or "file", "folder", "missing" for what is no artefact.
        state: "sound" (every digest agrees), "moved" (sound, but not where the manifest says), "changed", "missing",
            "unchecked" (a folder without a manifest has no digest to check), "recorded" (not at hand, but described
            in the lineage of a model above it), or "named" (that lineage knows its digest alone, for it was
            missing when the folder was released).
        problems: what is wrong with it, one line each.
        command, version, created, seed, counts: as its manifest says.
        inputs: what it was made from.
    """

    path: str
    kind: str
    state: str
    digest: str = ""
    problems: tuple[str, ...] = ()
    command: str = ""
    version: str = ""
    created: str = ""
    seed: int | None = None
    counts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inputs: tuple[Origin, ...] = ()

    def walk(self) -> Iterator[Origin]:
        """This origin and all below it, top down."""
        yield self
        for origin in self.inputs:
            yield from origin.walk()


def find_artefact(path: Path) -> Path:
    """The artefact that a path means: itself, or the nearest folder above a file that lies in one.

    Raises:
        UsageError: the path does not exist, or nothing above it is an artefact.
    """
    if not path.exists():
        raise UsageError(
            f"{path} does not exist; expected a biosmith artefact: a folder with a manifest.json"
        )
    if manifest_beside(path).is_file():
        return path
    for folder in (path, *path.absolute().parents):
        if (folder / MANIFEST).is_file():
            return folder
    raise UsageError(
        f"{path} has no manifest.json, nor has any folder above it; it is not a biosmith artefact"
    )


def trace_origin(
    folder: Path, *, verify: bool = True, advance: Callable[[int], None] = lambda _: None
) -> Origin:
    """Walk the manifests back from an artefact to the raw files.

    Args:
        folder: an artefact; see `find_artefact`. Annotations are a file, with their manifest beside it.
        verify: compare the digest of every file; otherwise only its size.
        advance: told the number of bytes that were read.

    Raises:
        UsageError, BadInput: the artefact's own manifest is missing or unreadable.
    """
    _load(folder)
    return _Walk(verify, advance).artefact(folder, folder, None)


def keep_lineage(folder: Path, manifest: Manifest) -> None:
    """Write into a folder that is being made what its inputs were made from, so that it is traced where they are not at hand.

    Args:
        folder: where it is being made, not yet under its name.
        manifest: what it is going to have; one that names files alone says all there is to say.
    """
    walk = _Walk(verify=False, advance=lambda _: None)
    inputs = tuple(walk.input(folder, entry) for entry in manifest.inputs)
    if any(origin.created for origin in inputs):  # from a manifest
        origin = Origin(folder.name, manifest.kind, SOUND, inputs=inputs)
        write_json(folder / LINEAGE, without_paths(to_plain(origin)))


def _load(artefact: Path) -> tuple[Path, Manifest]:
    """The manifest of an artefact and the file it is in. Raises as `load_manifest`."""
    beside = manifest_beside(artefact)
    if not (artefact / MANIFEST).is_file() and beside.is_file():
        return beside, read_manifest(beside)
    return artefact / MANIFEST, load_manifest(artefact)


@dataclass
class _Walk:
    verify: bool
    advance: Callable[[int], None]
    seen: dict[str, Origin] = dataclasses.field(default_factory=dict)  # each folder is verified once
    digests: dict[str, str] = dataclasses.field(default_factory=dict)  # and each file is read once
    recorded: dict[str, Origin] = dataclasses.field(
        default_factory=dict
    )  # digest -> what a lineage says of it
    walking: set[str] = dataclasses.field(default_factory=set)  # folders whose inputs are being looked for

    def artefact(self, folder: Path, recorded: Path, digest: str | None) -> Origin:
        key = str(folder.resolve())
        if key in self.seen:
            known = self.seen[key]
            moved = known.state == SOUND and folder != recorded
            return dataclasses.replace(known, state=MOVED if moved else known.state)
        try:
            file, manifest = _load(folder)
        except (BadInput, UsageError) as error:
            return Origin(str(folder), "folder", CHANGED, problems=(str(error),))
        if (folder / LINEAGE).is_file():
            released = _read_lineage(folder / LINEAGE)
            self.recorded |= {origin.digest: origin for origin in released.walk() if origin.state != NAMED}
        found = digest_file(file)
        problems = [*self._problems(file.parent, manifest)]
        if digest is not None and digest != found:
            problems.insert(
                0, f"made anew since: its manifest is {found[:12]}, the one used was {digest[:12]}"
            )
        self.walking.add(key)
        inputs = tuple(self.input(folder, entry) for entry in manifest.inputs)
        self.walking.remove(key)
        origin = Origin(
            path=str(folder),
            kind=manifest.kind,
            state=CHANGED if problems else MOVED if folder != recorded else SOUND,
            digest=found,
            problems=tuple(problems),
            command=manifest.command,
            version=manifest.version,
            created=manifest.created,
            seed=manifest.seed,
            counts=manifest.counts,
            inputs=inputs,
        )
        self.seen[key] = origin
        return origin

    def input(self, folder: Path, entry: Mapping[str, Any]) -> Origin:
        """What an entry of a manifest's inputs means, and what that was made from."""
        recorded, kind = Path(str(entry.get("path", ""))), str(entry.get("kind", "file"))
        digest = entry.get("digest")
        place = self._find(recorded, folder, entry)
        if digest in self.recorded and (place is None or not self._is_same(place, entry)):
            return self.recorded[digest]  # its path is a mere name, and another thing may have it here
        if place is None:
            lost = f"not at {recorded}, nor beside {folder}"
            return Origin(str(recorded), kind, MISSING, digest or "", (lost,))
        if (place / MANIFEST).is_file():
            return self.artefact(place, recorded, digest)
        if place.is_dir():
            return self._folder(place, recorded, entry)
        wrong = [p for p in [self._problem(place, entry)] if p]
        state = CHANGED if wrong else MOVED if place != recorded else SOUND
        return Origin(str(place), "file", state, digest or "", tuple(wrong))

    def _folder(self, place: Path, recorded: Path, entry: Mapping[str, Any]) -> Origin:
        """A folder without a manifest, which has a digest if `describe_input` gives it one."""
        known = {key: entry[key] for key in ("bytes", "digest") if key in entry}
        found = describe_input(place) if self.verify and known else {}
        if not found.keys() & known.keys():
            return Origin(str(place), "folder", UNCHECKED if place == recorded else MOVED)
        problems = [
            f"has {key} {found.get(key)}, the manifest says {value}"
            for key, value in known.items()
            if found.get(key) != value
        ]
        state = CHANGED if problems else MOVED if place != recorded else SOUND
        return Origin(str(place), "folder", state, known.get("digest", ""), tuple(problems[:1]))

    def _problems(self, folder: Path, manifest: Manifest) -> Iterator[str]:
        for name, entry in manifest.files.items():
            problem = self._problem(folder / name, entry)
            if problem:
                yield f"{name}: {problem}"

    def _problem(self, path: Path, entry: Mapping[str, Any]) -> str | None:
        if not path.is_file():
            return "is missing"
        size, expected = path.stat().st_size, entry.get("bytes")
        if expected is not None and size != expected:
            return f"has {size:,} bytes, the manifest says {expected:,}"
        if self.verify and entry.get("digest"):
            found = self._digest(path)
            if found != entry["digest"]:
                return f"has digest {found[:12]}, the manifest says {entry['digest'][:12]}"
        return None

    def _find(self, recorded: Path, folder: Path, entry: Mapping[str, Any]) -> Path | None:
        """Where an input lies now: at its path, under a folder above the artefact, or beside the artefact."""
        above = [folder.absolute(), *folder.absolute().parents]
        candidates = [recorded]
        if not recorded.is_absolute():
            candidates += [parent / recorded for parent in above]
        candidates += [parent / recorded.name for parent in above[:3] if recorded.name]
        # Nothing is made from itself: a released folder is often called like the one it was made from.
        there = [path for path in candidates if path.exists() and str(path.resolve()) not in self.walking]
        for path in there:
            if self._is_same(path, entry):
                return path
        return there[0] if there and there[0] == recorded else None

    def _is_same(self, path: Path, entry: Mapping[str, Any]) -> bool:
        if (path / MANIFEST).is_file():
            return digest_file(path / MANIFEST) == entry.get("digest")
        if path.is_file():
            return entry.get("kind", "file") == "file" and self._problem(path, entry) is None
        return entry.get("digest") == describe_input(path).get("digest")

    def _digest(self, path: Path) -> str:
        key = str(path.resolve())
        if key not in self.digests:
            self.digests[key] = digest_file(path)
            self.advance(path.stat().st_size)
        return self.digests[key]


def _read_lineage(path: Path) -> Origin:
    """What a model says of its origin: what was at hand then is "recorded", the rest "named"."""
    try:
        return _origin(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise BadInput(path, f"is not the lineage of a model: {reason}") from error


def _origin(data: Mapping[str, Any]) -> Origin:
    state = NAMED if data["state"] in (MISSING, NAMED) else RECORDED
    origin = Origin(**{**data, "state": state, "inputs": tuple(map(_origin, data["inputs"]))})
    for name in ("path", "kind", "digest", "command", "version", "created"):
        if not isinstance(value := getattr(origin, name), str):
            raise TypeError(f"{name} is no text: {shorten(value)}")
    if not isinstance(origin.counts, Mapping):
        raise TypeError(f"counts are no object: {shorten(origin.counts)}")
    return origin


def without_paths(value: Any) -> Any:
    """The same value for others to read: of every path in it the last part, and no problems of the day."""
    if isinstance(value, Mapping):
        return {
            key: PurePath(item).name
            if key == "path"
            else command_without_paths(item)
            if key == "command"
            else without_paths(item)
            for key, item in value.items()
            if key != "problems"  # of the day, and full of paths
        }
    if isinstance(value, list | tuple):
        return [without_paths(item) for item in value]
    if isinstance(value, str):
        return ABSOLUTE.sub(lambda found: PurePath(found[0]).name, value)
    return value


def command_without_paths(line: str) -> str:
    """A command line whose paths are their last parts."""
    words = [PurePath(word).name if "/" in word or "\\" in word else word for word in shlex.split(line)]
    return shlex.join(words)
