"""Artefacts: folders with a `manifest.json` that says what made them, from what, and what is in them.

The manifest of each artefact names the manifests of its inputs by digest, so that the chain
raw files -> corpus -> tokens -> run -> model -> result can be walked back (`biosmith trace`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from numbers import Real
from pathlib import Path
from typing import Any

from biosmith.errors import BadInput, UsageError
from biosmith.version import __version__

MANIFEST = "manifest.json"
_HUGGING_FACE = (
    "config.json",
    "tokenizer.json",
    "vocab.txt",
)  # a folder with one of them is a model or a tokenizer


# Errors of a write for which there is no room: on the disk, in the user's share of it, in one file.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Manifest:
    """What made an artefact, from what, and what is in it."""

    kind: str  # "corpus", "vocabulary", "tokens", "run", "model", "tuned", "results", "annotations"
    config: Mapping[str, Any] = field(default_factory=dict)  # the resolved configuration
    seed: int | None = None
    inputs: Sequence[Mapping[str, Any]] = ()  # see `describe_input`
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name -> {"bytes", "digest", ...}
    counts: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    version: str = __version__
    created: str = ""

    def save(self, folder: Path, name: str = MANIFEST) -> Manifest:
        """Write the manifest into a folder by rename and return it as written.

        An artefact that is one file has it beside it (`manifest_beside`).
        """
        full = dataclasses.replace(
            self,
            command=self.command or shlex.join(["biosmith", *sys.argv[1:]]),
            created=self.created or datetime.now(UTC).isoformat(timespec="seconds"),
        )
        write_json(folder / name, to_plain(full))
        return full


# Of the fields of a manifest, of each of its inputs and files, and of what every reader of a kind takes from its
# configuration and counts; what there is beyond is up to who reads it.
_FIELDS: dict[str, type] = {
    **dict.fromkeys(("kind", "command", "version", "created"), str),
    **dict.fromkeys(("config", "files", "counts"), dict),
    "seed": int,
    "inputs": list,
}
_ENTRY: dict[str, type] = {
    "path": str,
    "kind": str,
    "bytes": int,
    "digest": str,
    "documents": int,
    "tokens": int,
}
_HELD: dict[str, dict[str, dict[str, type]]] = {
    "tuned": {
        "config": {"kind": str, "task": str, "max_length": int, "settings": dict},
        "config.engine": {
            **dict.fromkeys(("engine", "file", "precision", "careful"), str),
            **{"max_length": int, "vnni": bool, "threshold": Real},
        },
        "counts": {"longest_mention": int},
    },
    "tokens": {
        "config": {"vocabulary": dict},
        "config.vocabulary": {"size": int, "digest": str, "cased": bool, "special_tokens": dict, "kind": str},
        "counts": {"documents": int, "tokens": int},
    },
}
_MAY_BE_NULL = ("seed", "max_length", "settings", "careful")
_CALLED: dict[type, str] = {
    bool: "true or false",
    str: "a text",
    int: "a whole number",
    Real: "a number",
    dict: "an object",
    list: "a list",
}


def load_manifest(folder: Path, kind: str | None = None) -> Manifest:
    """Read the manifest of an artefact.

    Raises:
        UsageError: the folder is missing, has no manifest, or is an artefact of another kind.
        BadInput: the manifest is not readable JSON, or one of its values is of a type that biosmith never writes there.
    """
    path = folder / MANIFEST
    if not path.is_file():
        there = "has no manifest.json" if folder.is_dir() else "is a file"
        what = there if folder.exists() else "does not exist"
        raise UsageError(f"{folder} {what}; expected a biosmith {kind or 'artefact'} folder")
    manifest = read_manifest(path)
    if kind is not None and manifest.kind != kind:
        raise UsageError(f"{folder} is a {manifest.kind} artefact, not a {kind} artefact")
    return manifest


def read_manifest(path: Path) -> Manifest:
    """Read the file of a manifest. Raises `BadInput` as `load_manifest`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadInput(path, f"is not a biosmith manifest: {error}") from error
    if not isinstance(data, dict) or "kind" not in data:
        raise BadInput(path, "is not a biosmith manifest, which is an object with a kind", value=data)
    manifest = Manifest(**_checked(path, data, _FIELDS))
    for number, entry in enumerate(manifest.inputs):
        _checked(path, entry, _ENTRY, f"inputs[{number}]")
    for name, entry in manifest.files.items():
        _checked(path, entry, _ENTRY, f"files[{name!r}]")
    for place, types in _HELD.get(manifest.kind, {}).items():
        value: Any = data
        for key in place.split("."):
            value = value.get(key, {})
        _checked(path, value, types, place)
    return manifest


def _checked(path: Path, value: Any, types: Mapping[str, type], place: str = "") -> dict[str, Any]:
    """The keys of an object that have a type to check. Raises `BadInput` for a value of another one."""
    if not isinstance(value, dict):
        raise BadInput(path, "has to be an object", record=place, value=value)
    known = {key: value[key] for key in types if key in value}
    for key, item in known.items():
        is_missing = item is None and key in _MAY_BE_NULL
        if not is_missing and (
            isinstance(item, bool) is not (types[key] is bool) or not isinstance(item, types[key])
        ):
            name = f"{place}.{key}" if place else key
            reason = f"has to be {_CALLED[types[key]]}{', not null' if item is None else ''}"
            raise BadInput(path, reason, record=name, value=item)
    return known


def manifest_beside(path: Path) -> Path:
    """Where the manifest of an artefact lies that is no folder of biosmith's own: annotations in a file, or as brat's."""
    return path.parent / f"{path.name}.{MANIFEST}"


def is_artefact(folder: Path) -> bool:
    """Whether a folder has a manifest that biosmith wrote; other programs have files of that name too."""
    try:
        return bool(load_manifest(folder).created)
    except (BadInput, UsageError, OSError):
        return False


def describe_input(path: Path) -> dict[str, Any]:
    """How a manifest names one of its inputs.

    An artefact by its manifest's digest, a file by its own, and a folder of Hugging Face's, which has no manifest, by
    those of its files. Other folders have none: they may hold all of PubMed.
    """
    if (path / MANIFEST).is_file():
        manifest = load_manifest(path)
        return {"path": str(path), "kind": manifest.kind, "digest": digest_file(path / MANIFEST)}
    if path.is_file():
        return {"path": str(path), "kind": "file", "bytes": path.stat().st_size, "digest": digest_file(path)}
    about = {"path": str(path), "kind": "folder" if path.is_dir() else "missing"}
    if any((path / name).is_file() for name in _HUGGING_FACE):
        found = [p for p in path.rglob("*") if p.is_file()]
        names = sorted(str(p.relative_to(path)) for p in found)
        files = describe_files(path, [name for name in names if not re.search(r"(^|[/\\])\.", name)])
        digest = digest_value([[name, file["digest"]] for name, file in files.items()])
        about |= {"bytes": sum(file["bytes"] for file in files.values()), "digest": digest}
    return about


def describe_files(folder: Path, names: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Size and digest of the files of a folder (all but the manifest), sorted by name."""
    if names is None:
        names = sorted(
            str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST
        )
    return {
        name: {"bytes": (folder / name).stat().st_size, "digest": digest_file(folder / name)}
        for name in names
    }


def digest_file(path: Path) -> str:
    """SHA-256 of a file's bytes, as 64 hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_value(value: Any) -> str:
    """SHA-256 of a JSON-able value in canonical form, as 64 hex digits."""
    text = json.dumps(to_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def to_plain(value: Any) -> Any:
    """Dataclasses, paths, tuples and mappings as plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and callable(value.item) and getattr(value, "ndim", 1) == 0:
        return value.item()
    return value


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, by rename."""
    with write_by_rename(path) as temporary:
        text = json.dumps(to_plain(value), indent=2, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")


@contextlib.contextmanager
def write_by_rename(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is synced and renamed, on failure removed.

    Errors of the system name `path`, which the user knows.
    """
    if path.is_dir():  # the renaming would say so, but only when all is written
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with _naming(path):
            yield temporary
            with temporary.open("rb") as stream:
                os.fsync(stream.fileno())
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def folder_by_rename(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, renamed to it on success and removed on failure.

    An empty folder that no other can take the place of (`_stays`) has the temporary one in it, and is filled from that.

    Raises:
        UsageError: `path` exists and is not an empty folder, or cannot be made.
    """
    require_new_folder(path)
    place = path.resolve()  # neither "." nor a link can be replaced
    stays = _stays(place)
    home = place if stays else place.parent
    home.mkdir(parents=True, exist_ok=True)
    with _naming(path, place.name):
        temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".tmp", dir=home))
    try:
        with _naming(path, place.name):
            yield temporary
            if stays:
                for made in sorted(
                    temporary.iterdir(), key=lambda one: one.name == MANIFEST
                ):  # it comes last
                    made.replace(place / made.name)
            else:
                temporary.chmod(0o755)
                if place.is_dir():
                    place.rmdir()
                temporary.replace(place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _stays(folder: Path) -> bool:
    """Whether a folder is there and has to stay: a mount point, or the working directory, which would be a folder that
    is gone for the shell that the command was called from."""
    return folder.is_dir() and (os.path.ismount(folder) or folder.samefile(os.curdir))


@contextlib.contextmanager
def _naming(path: Path, name: str | None = None) -> Iterator[None]:
    """Errors of the system that name a temporary file or folder of `path`, or what lies in one, name `path` instead.

    Those of a full disk may name no file, or of a file that was copied the one that was read.
    """
    start = f".{path.name if name is None else name}."
    try:
        yield
    except OSError as error:
        names = [n for n in (error.filename2, error.filename) if isinstance(n, str | os.PathLike)]
        for named in map(Path, names):
            for place in (named, *named.parents):
                if place.name.startswith(start) and place.name.endswith(".tmp"):
                    known = path / named.relative_to(place)
                    raise OSError(error.errno, error.strerror, str(known)) from error
        if not names and error.errno in _FULL:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def require_new_folder(path: Path) -> None:
    """Raise `UsageError` if the output folder holds something already, or could not be made."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path} exists already; choose another --out, or remove it")
    _require_place(path)


def require_writable(path: Path) -> None:
    """Raise `UsageError` if a file could not be written there, so that it is known before the work and not after it."""
    if path.is_dir():
        raise UsageError(f"{path} cannot be written: it is a folder, a file is expected")
    _require_place(path)


def _require_place(path: Path) -> None:
    """Raise `UsageError` if the folder of an output neither is there to be written to nor could be made."""
    places = [path, *path.absolute().parents] if _stays(path) else path.absolute().parents
    folder = next(place for place in places if place.exists())
    if not folder.is_dir():
        raise UsageError(f"{path} cannot be written: {folder} is no folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path} cannot be written: no permission to write to {folder}")
