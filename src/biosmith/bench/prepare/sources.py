"""Raw corpora as they are released: a folder or an archive of files, and lists of what belongs to each split."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from biosmith.bench.dataset import find_file
from biosmith.bench.records import read_text
from biosmith.errors import BadInput, UsageError
from biosmith.text import files


def members(raw: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file with the suffix in a folder, a zip or a tar archive.

    Raises:
        UsageError: there is nothing of that name.
        BadInput: it is neither a folder nor an archive, or the archive is damaged.
    """
    if not raw.exists():
        raise UsageError(f"{raw} does not exist")
    try:
        yield from _members(raw, suffix)
    except files.BROKEN as error:
        raise BadInput(raw, f"is a damaged archive: {error}") from error
    except (RuntimeError, NotImplementedError) as error:  # a password, or a compression that is not supported
        raise BadInput(raw, f"cannot be unpacked: {error}") from error


def _members(raw: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    if raw.is_dir():
        for path in sorted(raw.rglob(f"*{suffix}")):
            yield path.as_posix(), path.read_bytes()
    elif zipfile.is_zipfile(raw):
        with zipfile.ZipFile(raw) as archive:
            for name in archive.namelist():
                if name.endswith(suffix):
                    yield name, archive.read(name)
    elif tarfile.is_tarfile(raw):
        with tarfile.open(raw) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isfile() and member.name.endswith(suffix) else None
                if stream is not None:
                    yield member.name, stream.read()
    else:
        raise BadInput(raw, "is neither a folder nor a zip or tar archive")


def wanted_members(raw: Path, suffix: str, names: set[str]) -> dict[str, bytes]:
    """The files that `names` names by the end of their paths, wherever they lie in the folder or archive."""
    found: dict[str, bytes] = {}
    for path, content in members(raw, suffix):
        key = next((k for k in _endings(path) if k in names), None)
        if key is not None:
            found[key] = content
    return found


def _endings(path: str) -> Iterator[str]:
    """The path without none, one, two, ... of its first folders."""
    parts = path.split("/")
    for i in range(len(parts)):
        yield "/".join(parts[i:])


def find_lists(
    raw: Path, splits: Path | None, names: Mapping[str, str], beside: Sequence[str], where: str
) -> dict[str, Path]:
    """The list of each split.

    Args:
        raw: the corpus.
        splits: the folder with the lists; None looks in the folders `beside` the corpus.
        names: split -> name of its list.
        beside: folders, seen from the one that holds the corpus.
        where: where to get them, for the message.

    Raises:
        UsageError: they are not there.
    """
    home = raw if raw.is_dir() else raw.parent
    folders = [splits] if splits is not None else [home / name for name in beside]
    for folder in folders:
        found = {split: find_file(folder, name) for split, name in names.items()}
        if all(found.values()):
            return {split: path for split, path in found.items() if path is not None}
    raise UsageError(
        f"no lists of the files of each split in {' or '.join(map(str, folders))}; expected "
        f"{', '.join(names.values())} ({where}), give their folder as --splits"
    )


def read_list(path: Path) -> list[str]:
    """The entries of a list, one a line, or separated by commas where there is only one line. Raises as `read_text`."""
    lines = read_text(path).splitlines()
    entries = lines if len(lines) > 1 else [entry for line in lines for entry in line.split(",")]
    return [entry.strip() for entry in entries if entry.strip()]


def named_member(corpus: Mapping[str, bytes], name: str, listed_in: Path) -> bytes:
    """The file that a list names.

    Raises:
        BadInput: the corpus does not have it.
    """
    if name not in corpus:
        raise BadInput(listed_in, "names a file that is not in the corpus", value=name)
    return corpus[name]
