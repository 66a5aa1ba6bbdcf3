"""Every file format of biomedical text: `read` and `write`, and the table that finds the format of a file.

A format is one module of this package and one line of `FORMATS`. The module has

- `NAME`: what users call it ("medline"); the key of the table.
- `SUFFIXES`: endings of file names, lower case, without ".gz" or ".xz". Formats may share one; longer ones win.
- `read(stream, rejects, file, **options) -> Iterator[Document]` (all but HTML): `stream` gives decompressed bytes and may not be
  seekable; `file` is the name for messages; a record that cannot be used goes to `rejects` and reading goes on.
  Keyword-only parameters are the options of the format.
- `looks_like(head: bytes) -> bool` (optional): whether the first 64 KiB are of this format. A format without it
  takes every file with one of its suffixes that no other format recognises.
- `NEEDS_SUFFIX = True` (optional): `looks_like` is too weak a sign for files with another suffix.
- `write(documents, path) -> WriteReport` (optional): use `files.create(path)` for rename and compression.
- `COMPANIONS` (optional): suffixes of files that belong to a main file of the same name, as the .txt of brat's .ann.
  The main file may be empty.
  Companions are not read by themselves where the main file is read too, and `read` gets a keyword argument
  `companion(suffix) -> IO[bytes] | None` that opens one, in folders and in archives alike.

Damaged compression, undecodable bytes and a `BadInput` raised by a format are set aside here, with the name of the
last good record, so that no format has to.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from biosmith.errors import BadInput, UsageError, shorten
from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Document
from biosmith.text.formats.report import WriteReport

# In this order the formats look at a file; the first that recognises it reads it.
FORMATS: dict[str, str] = {
    "medline": "biosmith.text.formats.medline",
    "jats": "biosmith.text.formats.jats",
    "medline-text": "biosmith.text.formats.medline_text",
    "cord19": "biosmith.text.formats.cord19",
    "parquet": "biosmith.text.formats.parquet",
    "bioc-xml": "biosmith.text.formats.bioc_xml",
    "bioc-json": "biosmith.text.formats.bioc_json",
    "pubtator": "biosmith.text.formats.pubtator",
    "brat": "biosmith.text.formats.brat",
    "ddi": "biosmith.text.formats.ddi",
    "chemprot": "biosmith.text.formats.chemprot",
    "chemdner": "biosmith.text.formats.chemdner",
    "bc2gm": "biosmith.text.formats.bc2gm",
    "squad": "biosmith.text.formats.squad",
    "pubmedqa": "biosmith.text.formats.pubmedqa",
    "conll": "biosmith.text.formats.conll",
    "table": "biosmith.text.formats.tables",
    "csv": "biosmith.text.formats.comma_separated",
    "jsonl": "biosmith.text.formats.jsonl",
    "html": "biosmith.text.formats.html",
    "plain": "biosmith.text.formats.plain",
}

# First bytes of what users have beside gzip, xz, tar and zip.
_NOT_READ = {
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!": "RAR",
    b"\x1f\x9d": "compress (.Z)",
    b"PK\x03\x04": "a zip archive inside of another archive",
    b"%PDF": "PDF",
}

Source = str | os.PathLike[str]
log = logging.getLogger("biosmith")


def read(
    source: Source | Sequence[Source],
    *,
    format: str | None = None,
    rejects: Rejects | None = None,
    **options: Any,
) -> Iterator[Document]:
    """Stream the documents of files, folders and archives.

    Plain, gzip and xz files are told apart by their first bytes; the format by the name and a look at the content.
    Of a folder every recognised file is read, in sorted order; other files are set aside with the reason.

    Args:
        source: a file, a folder, a .tar, .tar.gz or .zip archive, or several of them.
        format: name of the format (a key of `FORMATS`); None finds it for each file.
        rejects: collects what is set aside. None logs a count at the end.
        options: options of the formats, for those that have them, such as `deletions=True` of "medline".

    Raises:
        UsageError: a path does not exist, or the format or an option is unknown.
        BadInput: there is no readable file at all; also the first bad record where `rejects` is strict.

    >>> for document in read("pubmed26n0001.xml.gz"):  # doctest: +SKIP
    ...     print(document.id, document.text)
    """
    paths = find_files(source, format)
    _check_options(format, options)
    collected = Rejects() if rejects is None else rejects
    return _read_paths(_name(source, paths), paths, format, collected, options, rejects is None)


def find_files(source: Source | Sequence[Source], format: str | None = None) -> list[Path]:
    """The files that `read` would read, in its order: folders walked, companions of other files left out.

    With a `format`, companions are those of this format alone: brat's texts are files of their own as "plain".

    Raises:
        UsageError: a path does not exist, or it is none: an open file, say.
    """
    if hasattr(source, "read"):
        raise UsageError("documents are read from paths, not from open files")
    sources: list[Any] = [source]
    if isinstance(source, Iterable) and not isinstance(source, str | os.PathLike):
        sources = list(source)
    for each in sources:
        if not isinstance(each, str | os.PathLike):
            raise UsageError(f"documents are read from a path or several, not from {shorten(each)}")
    paths = list(dict.fromkeys(path for each in sources for path in files.walk(each)))
    skipped = files.drop_companions([str(path) for path in paths], _companions(format))
    return [path for path in paths if str(path) not in skipped]


def read_file(
    path: Source, *, format: str | None = None, rejects: Rejects, **options: Any
) -> Iterator[Document]:
    """As `read` for one file or archive of `find_files`; whatever is wrong with it goes to `rejects`."""
    for entry, module in _recognised(Path(path), format, rejects):
        yield from _read_entry(entry, module, rejects, options)


def write(documents: Iterable[Document], path: Source, *, format: str | None = None) -> WriteReport:
    """Write documents to a file, by rename; compressed if the name ends in .gz or .xz (Parquet compresses itself).

    Args:
        documents: written as they come, so that memory stays flat where the format allows it.
        path: the file to make (a folder for formats that use one).
        format: name of the format; None finds it by the suffix of the path.

    Raises:
        UsageError: no format has the suffix, or the format cannot be written, or something else than documents is given.
    """
    if isinstance(documents, Document | str):
        raise UsageError("write takes documents, not a single one or a text: write([document], path)")
    if not isinstance(documents, Iterable):
        raise UsageError(f"write takes documents, not {shorten(documents)}")
    report: WriteReport = load_format(find_writer(path, format)).write(_only(documents), Path(path))
    return report


def _only(documents: Iterable[Document]) -> Iterator[Document]:
    for document in documents:
        if not isinstance(document, Document):
            raise UsageError(f"write takes documents, not {shorten(document)}")
        yield document


def find_writer(path: Source, format: str | None = None) -> str:
    """Name of the format that `write` would use, so that a long run can ask before it begins. Raises as `write`."""
    writable = [name for name in FORMATS if hasattr(load_format(name), "write")]
    if format is None:
        named = _by_suffix(str(path), writable)
        if not named:
            raise UsageError(f"{path}: no format is written to this suffix; name one: {', '.join(writable)}")
        return named[0]
    if format not in writable:
        raise UsageError(f"format {format!r} cannot be written; valid: {', '.join(writable)}")
    return format


@functools.cache
def load_format(name: str) -> ModuleType:
    """The module of a format.

    Raises:
        UsageError: there is no such format.
    """
    if name not in FORMATS:
        raise UsageError(f"{name!r} is not a format; valid: {', '.join(FORMATS)}")
    return importlib.import_module(FORMATS[name])


def recognise(name: str, head: bytes) -> str | None:
    """Name of the format of a file, from its name and first decompressed bytes; None if there is none."""
    readable = _readable()
    by_suffix = _by_suffix(name, readable)
    if not head:
        return next((c for c in by_suffix if hasattr(load_format(c), "COMPANIONS")), None)
    others = [
        o for o in readable if o not in by_suffix and not getattr(load_format(o), "NEEDS_SUFFIX", False)
    ]
    for candidate in [*by_suffix, *others]:
        looks_like = getattr(load_format(candidate), "looks_like", None)
        if looks_like is not None and looks_like(head):
            return candidate
    blank = not head.strip()
    for candidate in by_suffix:
        module = load_format(candidate)
        if not hasattr(module, "looks_like") or (blank and hasattr(module, "COMPANIONS")):
            return candidate
    return None


def _readable() -> list[str]:
    return [name for name in FORMATS if hasattr(load_format(name), "read")]


def _by_suffix(name: str, formats: Iterable[str]) -> list[str]:
    """Formats that have the suffix of the name: those with the longest one first, then in the order of the table."""
    bare = files.strip_compression(name)
    matches = []
    for candidate in formats:
        lengths = [len(s) for s in load_format(candidate).SUFFIXES if bare.endswith(s)]
        if lengths:
            matches.append((-max(lengths), candidate))
    return [candidate for _, candidate in sorted(matches, key=lambda match: match[0])]


@functools.cache
def _companions(format: str | None) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name in FORMATS if format is None else (format,):
        module = load_format(name)
        if hasattr(module, "COMPANIONS"):
            found |= dict.fromkeys(module.SUFFIXES, tuple(module.COMPANIONS))
    return found


def _name(source: Source | Sequence[Source], paths: Sequence[Path]) -> str:
    """A source as messages call it."""
    if isinstance(source, str | os.PathLike):
        return str(source)
    # An iterator is used up by now.
    names = [str(each) for each in (source if isinstance(source, Sequence) else paths)]
    return ", ".join(names[:1] + [f"and {len(names) - 1} more"] * (len(names) > 1)) or "no file"


def _read_paths(
    source: str,
    paths: Sequence[Path],
    format: str | None,
    rejects: Rejects,
    options: dict[str, Any],
    tell: bool,
) -> Iterator[Document]:
    readable, before = 0, rejects.count
    for path in paths:
        for entry, module in _recognised(path, format, rejects):
            readable += 1
            yield from _read_entry(entry, module, rejects, options)
    if not readable:
        reason = (
            rejects.items[-1]["reason"] if len(paths) == 1 and rejects.items else "holds no readable file"
        )
        raise BadInput(source, reason)
    if tell and rejects.count > before:
        reasons = "; ".join(f"{reason} ({count})" for reason, count in rejects.reasons.most_common(3))
        log.warning("%s: %d records were set aside: %s", source, rejects.count, reasons)


def _recognised(path: Path, format: str | None, rejects: Rejects) -> Iterator[tuple[files.Entry, ModuleType]]:
    """The entries of a file or archive with the format of each; the others go to `rejects`."""
    try:
        for entry in files.entries(path, _companions(format)):
            name = format or recognise(entry.name, entry.head)
            if damage := _damage(entry) if name is None or not entry.head else "":
                rejects.add(entry.name, "file", damage)
            elif not entry.head and (name is None or not hasattr(load_format(name), "COMPANIONS")):
                rejects.add(entry.name, "file", "empty file")
            elif name is None:
                rejects.add(entry.name, "file", _why_unknown(entry.head))
            else:
                yield entry, load_format(name)
    except files.BROKEN as error:
        rejects.add(path, "file", f"damaged archive: {error}")
    except OSError as error:
        rejects.add(path, "file", f"cannot be read: {error.strerror or error}")


def _read_entry(
    entry: files.Entry, module: ModuleType, rejects: Rejects, options: dict[str, Any]
) -> Iterator[Document]:
    known = _options(module)
    arguments: dict[str, Any] = {key: value for key, value in options.items() if key in known}
    if hasattr(module, "COMPANIONS"):
        arguments["companion"] = entry.companion
    last = None
    try:
        for document in module.read(entry.stream, rejects, entry.name, **arguments):
            last = document.id
            yield document
        return
    except files.BROKEN as error:
        reason = f"damaged compression: {str(error).rstrip('.')}"
    except UnicodeError as error:
        reason = f"undecodable text: {error}"
    except BadInput as error:
        if rejects.strict:
            raise
        rejects.add(error.file, error.record or "file", error.reason, error.value)
        return
    rejects.add(entry.name, "start of file" if last is None else f"after {last}", reason)


def _damage(entry: files.Entry) -> str:
    """Why a file that is no longer than its head cannot be decompressed to its end; empty if it can."""
    if len(entry.head) < files.HEAD:
        try:
            entry.stream.read()
        except files.BROKEN as error:
            return f"damaged compression: {str(error).rstrip('.')}"
    return ""


def _why_unknown(head: bytes) -> str:
    for begins, kind in _NOT_READ.items():
        if head.startswith(begins):
            return f"{kind} is not read; unpack or convert it first"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16, in which only XML and plain text are read; save it as UTF-8"
    kind = "binary data" if b"\0" in head else "text"
    return f"{kind} of no known format; known: {', '.join(_readable())}"


def _options(module: ModuleType) -> set[str]:
    if not hasattr(module, "read"):
        return set()
    parameters = inspect.signature(module.read).parameters.values()
    return {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - {"companion"}


def _check_options(format: str | None, options: dict[str, Any]) -> None:
    if format is not None and not hasattr(load_format(format), "read"):
        raise UsageError(f"format {format!r} can only be written")
    formats = [format] if format is not None else list(FORMATS)
    known = {option for name in formats for option in _options(load_format(name))}
    for option in options:
        if option not in known:
            raise UsageError(
                f"{option!r} is not an option of {format or 'any format'}; valid: {', '.join(sorted(known))}"
            )
        valid = _values(option, formats)
        if valid and options[option] not in valid:
            raise UsageError(f"{option}={options[option]!r} is unknown; valid: {', '.join(valid)}")


def _values(option: str, formats: Iterable[str]) -> list[str]:
    """The words that an option can be, in any of the formats that have it; none if it is no choice of words."""
    readers = [load_format(name).read for name in formats if option in _options(load_format(name))]
    types = [get_type_hints(reader)[option] for reader in readers]
    words = [word for type in types if get_origin(type) is Literal for word in get_args(type)]
    return list(dict.fromkeys(words))
