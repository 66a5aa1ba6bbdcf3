"""DDI-2013: every pair of drugs of a sentence, as BLURB makes it of the corpus.

A discontinuous mention is replaced from its first to its last character; overlapping mentions become one marker.
Offsets are taken as the file has them: the release that BLURB used has 23 mentions whose offsets are one too high, and
its instances inherit them.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

from lxml.etree import _Element as Element

from biosmith.artefact import folder_by_rename
from biosmith.bench.dataset import find_file
from biosmith.bench.prepare.marking import Span, mark, write_rows
from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.xml import elements

LISTS = {split: f"{split}_files.tsv" for split in ("train", "dev", "test")}


def prepare(
    raw: Path, out: Path, splits: Path | None = None, faults: Rejects | None = None
) -> dict[str, int]:
    """See `biosmith.bench.prepare.prepare`; the lists name the files of each split, in the order of the instances."""
    lists = _find_lists(raw, splits)
    wanted = {split: _read_list(path) for split, path in lists.items()}
    corpus = _read_corpus(raw, {name for names in wanted.values() for name in names})
    collected = Rejects() if faults is None else faults
    with folder_by_rename(out) as temporary:
        counts = {}
        for split, names in wanted.items():
            rows = [row for n in names for row in _pairs(_file(corpus, n, lists[split]), n, collected)]
            (temporary / f"{split}.tsv").write_bytes(write_rows(rows))
            counts[split] = len(rows)
    return counts


def _find_lists(raw: Path, splits: Path | None) -> dict[str, Path]:
    beside = raw if raw.is_dir() else raw.parent
    folders = [splits] if splits is not None else [beside / "indexing", beside / "blurb" / "indexing", beside]
    for folder in folders:
        found = {split: find_file(folder, name) for split, name in LISTS.items()}
        if all(found.values()):
            return {split: path for split, path in found.items() if path is not None}
    raise UsageError(
        f"no lists of the files of each split in {' or '.join(map(str, folders))}; expected "
        f"{', '.join(LISTS.values())} (BLURB's preprocessing has them as indexing/DDI), give their folder as --splits"
    )


def _read_list(path: Path) -> list[str]:
    with files.open_decompressed(path) as stream:
        names = stream.read().decode("utf-8").splitlines()
    return [name.strip() for name in names if name.strip()]


def _read_corpus(raw: Path, names: set[str]) -> dict[str, bytes]:
    """The files that the lists name, wherever they lie in the folder or archive."""
    if not raw.exists():
        raise UsageError(f"{raw} does not exist")
    found: dict[str, bytes] = {}
    for path, content in _members(raw):
        key = next((k for k in _endings(path) if k in names), None)
        if key is not None:
            found[key] = content
    return found


def _members(raw: Path) -> Iterator[tuple[str, bytes]]:
    if raw.is_dir():
        for path in sorted(raw.rglob("*.xml")):
            yield path.as_posix(), path.read_bytes()
    elif zipfile.is_zipfile(raw):
        with zipfile.ZipFile(raw) as archive:
            for name in archive.namelist():
                if name.endswith(".xml"):
                    yield name, archive.read(name)
    elif tarfile.is_tarfile(raw):
        with tarfile.open(raw) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isfile() else None
                if stream is not None:
                    yield member.name, stream.read()
    else:
        raise BadInput(raw, "is neither a folder nor a zip or tar archive")


def _endings(path: str) -> Iterator[str]:
    """The path without none, one, two, ... of its first folders."""
    parts = path.split("/")
    for i in range(len(parts)):
        yield "/".join(parts[i:])


def _file(corpus: Mapping[str, bytes], name: str, listed_in: Path) -> bytes:
    if name not in corpus:
        raise BadInput(listed_in, "names a file that is not in the corpus", value=name)
    return corpus[name]


def _pairs(content: bytes, name: str, faults: Rejects) -> Iterator[tuple[str, str, str]]:
    for document in elements(BytesIO(content), ("document",), name):
        for sentence in document.iterchildren("sentence"):
            text = sentence.get("text", "").replace("\r", " ").replace("\n", " ")
            spans = {}
            for entity in sentence.iterchildren("entity"):
                spans[entity.get("id")] = _hull(entity, name)
                _compare(entity, text, name, faults)
            for pair in sentence.iterchildren("pair"):
                ends = [spans.get(pair.get(side)) for side in ("e1", "e2")]
                if ends[0] is None or ends[1] is None:
                    raise BadInput(name, "a pair names an entity that is not there", record=pair.get("id"))
                marked = mark(text, ends[0], ends[1], ("@DRUG$", "@DRUG$"), "@DRUG-DRUG$")
                yield pair.get("id", ""), marked, _label(pair, name)


def _hull(entity: Element, name: str) -> Span:
    """From the first to the past-the-last character; the file's ends are inclusive."""
    offsets = entity.get("charOffset", "").replace(";", "-").split("-")
    if len(offsets) < 2 or not all(o.isdecimal() for o in offsets):
        raise BadInput(name, "charOffset is not start-end", record=entity.get("id"), value=offsets)
    return int(offsets[0]), int(offsets[-1]) + 1


def _compare(entity: Element, text: str, name: str, faults: Rejects) -> None:
    """Note where the text at the offsets is not the entity's own; BLURB takes the offsets all the same."""
    stated = entity.get("text", "")
    start, end = _hull(entity, name)
    if ";" not in entity.get("charOffset", "") and text[start:end].split() != stated.split():
        there = f"{stated!r} at {start}-{end - 1}, where the text is {text[start:end]!r}"
        faults.add(name, entity.get("id"), "charOffset does not fit the text; taken as it is", there)


def _label(pair: Element, name: str) -> str:
    if pair.get("ddi") != "true":
        return "DDI-false"
    if not pair.get("type"):
        raise BadInput(name, 'has ddi="true" and no type', record=pair.get("id"))
    return f"DDI-{pair.get('type')}"
