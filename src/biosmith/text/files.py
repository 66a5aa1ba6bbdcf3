"""Files of text as byte streams: plain, gzip and xz by their first bytes, folders, members of tar and zip archives.

Nothing here knows a format; the formats never open a file themselves.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import logging
import lzma
import os
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, Any, cast

from biosmith.artefact import MANIFEST, is_artefact, load_manifest, write_by_rename
from biosmith.errors import UsageError, shorten
from biosmith.rejects import REJECTS, Rejects
from biosmith.surrogates import replace_surrogates

HEAD = 1 << 16  # bytes that formats get to look at
COMPRESSED = (".gz", ".xz")
# Checksums beside a data file, and what biosmith writes beside its own: never documents themselves.
SIDE_FILES = (".md5", ".sha1", ".sha256", ".sha512", f".{MANIFEST}", f".{REJECTS}")
# Kinds of artefacts whose folders hold files of text (word lists, model cards, logs), but no documents.
WITHOUT_DOCUMENTS = ("vocabulary", "tokens", "sentences", "run", "model", "tuned", "results")

# What reading raises when a compressed stream or an archive is cut or damaged.
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)

log = logging.getLogger("biosmith")
Companions = Mapping[str, tuple[str, ...]]  # suffix of a main file -> suffixes of the files that belong to it


@dataclass(frozen=True)
class Entry:
    """One file of text, open at its first byte.

    Attributes:
        name: as the user knows it; members of an archive are "archive.tar.gz/folder/member.xml".
        stream: the decompressed bytes. Seekable only for plain files on disk.
        head: the first `HEAD` bytes at most.
        companion: opens the file of the same name with another suffix beside this one (plain or compressed),
            None if there is none.
    """

    name: str
    stream: IO[bytes]
    head: bytes
    companion: Callable[[str], IO[bytes] | None]


def walk(source: str | os.PathLike[str]) -> list[Path]:
    """The files of a folder and all folders in it, sorted by path; of a file, the file itself.

    Hidden files, checksum side files, the manifest and the list of rejects of a biosmith artefact, and in the folder
    artefacts that hold no documents are passed over; so are links to folders or to nothing, with a warning.

    Raises:
        UsageError: the path does not exist, is a pipe, or is an artefact that holds no documents; it or a folder in it
            cannot be looked into.
    """
    root = Path(source)
    try:
        exists = root.exists()
    except OSError as error:  # too long for a path, say, or in a folder that is locked
        raise UsageError(f"{shorten(str(root))} cannot be read: {error.strerror}") from error
    if str(root) == "-" or (exists and not root.is_file() and not root.is_dir()):
        raise UsageError(
            f"{root} is no file; pipes are not read, save what they give in a file and name that"
        )
    if not exists:
        raise UsageError(f"{root} does not exist")
    if not root.is_dir():
        return [root]
    if is_artefact(root) and (kind := load_manifest(root).kind) in WITHOUT_DOCUMENTS:
        raise UsageError(f"{root} is a {kind} artefact, which holds no documents")
    found: list[Path] = []
    odd: list[Path] = []
    for folder, subfolders, names in os.walk(root, onerror=_refuse_folder):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        odd += [path for name in subfolders if (path := Path(folder, name)).is_symlink()]
        own: tuple[str, ...] = ()
        if MANIFEST in names and is_artefact(Path(folder)):
            if load_manifest(Path(folder)).kind in WITHOUT_DOCUMENTS:
                subfolders.clear()
                continue
            own = (MANIFEST, REJECTS)
        for name in names:
            passed_over = name.startswith(".") or name.endswith(SIDE_FILES) or name in own
            if not passed_over:
                path = Path(folder, name)
                (found if path.is_file() else odd).append(path)
    if odd:
        log.warning(
            "%s: %d links to folders or to nothing and special files were passed over, the first: %s",
            root,
            len(odd),
            min(odd),
        )
    return sorted(found)


def _refuse_folder(error: OSError) -> None:
    raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error


def entries(path: Path, companions: Companions) -> Iterator[Entry]:
    """The file, or the members of the archive that it is; a stream is valid until the next entry is asked for.

    Raises:
        OSError: the file cannot be opened.
        The errors of `BROKEN`: the archive or the compressed stream is damaged.
    """
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(path.open("rb"))
        name = str(path)
        magic = stream.read(6)
        stream.seek(0)
        if magic[:4] in (b"PK\x03\x04", b"PK\x05\x06"):  # the second has no members
            yield from _zip_members(stack.enter_context(zipfile.ZipFile(stream)), name, companions)
            return
        opened, head = _open_decompressed(stream)
        if head[257:262] == b"ustar":
            yield from _tar_members(path, name, companions)
            return
        yield Entry(name, opened, head, lambda suffix: _open_beside(path, suffix, companions, stack))


def open_decompressed(path: Path) -> IO[bytes]:
    """The bytes of one file, decompressed if its first bytes say so, whatever its name.

    Raises:
        UsageError: the path is not a file.
    """
    if not path.is_file():
        raise UsageError(f"{path} " + ("is a folder" if path.is_dir() else "does not exist"))
    return _open_decompressed(path.open("rb"))[0]


@contextlib.contextmanager
def create(path: Path) -> Iterator[IO[bytes]]:
    """A binary stream that becomes the file `path` when the block ends well, compressed if the name says so.

    The same content gives the same bytes: no time stamps are written.
    """
    with write_by_rename(path) as temporary, temporary.open("wb") as raw:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as stream:
                yield cast("IO[bytes]", stream)
        elif path.suffix.lower() == ".xz":
            with lzma.open(raw, "wb") as stream:
                yield cast("IO[bytes]", stream)
        else:
            yield raw


def text_lines(
    stream: IO[bytes], rejects: Rejects, file: str, where: str = "line"
) -> Iterator[tuple[int, str]]:
    """The lines of a stream with their numbers, from 1, without line ends and byte order mark.

    A line that is not UTF-8 goes to `rejects`, as the record "line N" (or `where` in place of "line").
    """
    for number, raw in enumerate(stream, 1):
        raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        try:
            line = raw.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            shown = raw.decode("utf-8", "replace").strip()
            rejects.add(file, f"{where} {number}", f"not UTF-8: {error.reason}", shown)
        else:
            yield number, line


def stem(file: str) -> str:
    """The name of a file without its folders, its compression and its suffix: what its documents are called after.

    Bytes of the name that are not UTF-8 become U+FFFD.

    >>> stem("notes/NCT01.txt.gz")
    'NCT01'
    """
    name = PurePath(file).name
    bare = name[: len(name) - len(name.lower()) + len(strip_compression(name))]
    return replace_surrogates(bare.rpartition(".")[0] or name)


def strip_compression(name: str) -> str:
    """The lower-cased name without ".gz" or ".xz"."""
    lowered = name.lower()
    for suffix in COMPRESSED:
        lowered = lowered.removesuffix(suffix)
    return lowered


def split_suffix(name: str, suffixes: Iterable[str]) -> tuple[str, str] | None:
    """The name as (stem, suffix), if it ends in one of the suffixes, compressed or not.

    >>> split_suffix("a/PMC1.ann.gz", [".ann", ".txt"])
    ('a/PMC1', '.ann')
    """
    bare = strip_compression(name)
    for suffix in sorted(suffixes, key=len, reverse=True):
        if bare.endswith(suffix):
            cut = len(name.lower()) - len(bare) + len(suffix)  # in lower case a name may be longer
            return name[: len(name) - cut], suffix
    return None


def drop_companions(names: Iterable[str], companions: Companions) -> set[str]:
    """The names that belong to a main file among them, such as the .txt of an .ann file."""
    names = list(names)
    belonging = {
        (main[0], suffix)
        for name in names
        if (main := split_suffix(name, companions)) is not None
        for suffix in companions[main[1]]
    }
    suffixes = sorted({suffix for values in companions.values() for suffix in values})
    return {n for n in names if (split := split_suffix(n, suffixes)) is not None and split in belonging}


class _Steady(io.RawIOBase):
    """Gives all bytes that can be had before an error is raised; the stream readers of the library drop some."""

    def __init__(self, source: Any, head: bytes = b"", beneath: Any = None) -> None:
        """`beneath` is closed too: what the library's decompressors read from stays open otherwise."""
        self._source, self._head, self._beneath = source, memoryview(head), beneath

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data: Any = self._head[: len(buffer)] if self._head else self._source.read1(len(buffer))
        if self._head:
            self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
            if self._beneath is not None:
                self._beneath.close()
        super().close()


class JsonStream:
    """A stream of JSON that streaming parsers can take.

    Without its byte order mark, which is common in files made on Windows; and with U+FFFD for lone surrogates (half of
    an escaped pair), which are no text: the parser stops at some, and takes others for a character with their neighbour.
    Bytes that are not UTF-8, at which the parser stops, become U+FFFD, too; that is told to `rejects`, once.
    """

    def __init__(self, stream: IO[bytes], rejects: Rejects, file: str) -> None:
        self._stream, self._begun = stream, False
        self._rejects, self._file, self._told = rejects, file, False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._last = b""
        self._left = b""  # the end of what was read, which may be the beginning of an escape

    def read(self, size: int = -1) -> bytes:
        while True:
            read = self._stream.read(size)
            data = self._left + self._as_utf8(read)
            if not self._begun and data:
                self._begun = True
                data = data.removeprefix(b"\xef\xbb\xbf")
            cut = _ESCAPE_AT_END.search(data) if read and size >= 0 else None
            self._left = b"" if cut is None else data[cut.start() :]
            data = data if cut is None else data[: cut.start()]
            if data or not read:
                return _ESCAPE.sub(_without_surrogate, data) if _ESCAPED_SURROGATE.search(data) else data

    def _as_utf8(self, data: bytes) -> bytes:
        text = self._decoder.decode(data, final=not data)
        seen = self._last + data
        self._last = seen[-2:]  # U+FFFD itself is three bytes, and may be cut
        if "\ufffd" in text and not self._told and text.count("\ufffd") > seen.count(b"\xef\xbf\xbd"):
            self._told = True
            self._rejects.add(self._file, "file", "bytes that are not UTF-8 are read as U+FFFD")
        return text.encode()


# An escape that is not whole yet, or the first half of a pair.
_ESCAPE_AT_END = re.compile(
    rb"(?<!\\)\\+(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?))?\Z"
)
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)",
    re.DOTALL,
)


def _without_surrogate(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if len(escape[0]) == 6 else escape[0]


class _Counted:
    """A stream that knows how many bytes were read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.count = stream, 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data


def _open_decompressed(stream: Any) -> tuple[IO[bytes], bytes]:
    """The decompressed stream and its head. `stream` is at its start and has `read1`."""
    seekable = isinstance(stream, io.BufferedReader) and isinstance(stream.raw, io.FileIO)
    start = _read_head(stream, 6 if seekable else HEAD)
    if start[:2] == b"\x1f\x8b" or start[:6] == b"\xfd7zXZ\x00":
        inner = _rewound(stream, start, seekable)
        opener: Any = gzip.GzipFile(fileobj=inner) if start[:1] == b"\x1f" else lzma.open(inner)  # noqa: SIM115
        head = _read_head(opener, HEAD)
        return cast("IO[bytes]", io.BufferedReader(_Steady(opener, head, inner), HEAD)), head
    head = start + _read_head(stream, HEAD - len(start)) if seekable else start
    return _rewound(stream, head, seekable), head


def _rewound(stream: Any, head: bytes, seekable: bool) -> Any:
    if seekable:
        stream.seek(0)
        return stream
    return io.BufferedReader(_Steady(stream, head), HEAD)


def _read_head(stream: Any, size: int) -> bytes:
    """The first bytes; a damaged stream gives what there is, its error comes to whoever reads on."""
    parts: list[bytes] = []
    left = size
    with contextlib.suppress(*BROKEN):
        while left > 0 and (part := stream.read1(left)):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


def _open_beside(
    path: Path, suffix: str, companions: Companions, stack: contextlib.ExitStack
) -> IO[bytes] | None:
    split = split_suffix(path.name, companions)
    for ending in ("", *COMPRESSED):
        if split is not None and (beside := path.with_name(split[0] + suffix + ending)).is_file():
            return stack.enter_context(open_decompressed(beside))
    return None


def _is_document(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return not any(part.startswith((".", "__MACOSX")) for part in parts) and not name.endswith(SIDE_FILES)


def _zip_members(archive: zipfile.ZipFile, name: str, companions: Companions) -> Iterator[Entry]:
    # Two members may have one name, by which the library finds the last of them only.
    members = [info for info in archive.infolist() if not info.is_dir() and _is_document(info.filename)]
    known = {info.filename for info in members}
    skipped = drop_companions(known, companions)
    failed: list[zipfile.BadZipFile] = []
    for info in members:
        member = info.filename
        if member in skipped:
            continue
        with contextlib.ExitStack() as stack:

            def beside(
                suffix: str, member: str = member, stack: contextlib.ExitStack = stack
            ) -> IO[bytes] | None:
                split = split_suffix(member, companions)
                for ending in ("", *COMPRESSED):
                    if split is not None and split[0] + suffix + ending in known:
                        return stack.enter_context(
                            _open_decompressed(_open_member(archive, split[0] + suffix + ending))[0]
                        )
                return None

            try:
                opened = stack.enter_context(_open_member(archive, info))
            except zipfile.BadZipFile as error:
                failed.append(error)
                continue
            stream, head = _open_decompressed(opened)
            yield Entry(f"{name}/{member}", stream, head, beside)
    if failed:
        raise zipfile.BadZipFile(
            f"{len(failed)} of {len(members)} members cannot be opened, the first: {failed[0]}"
        )


def _open_member(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo) -> IO[bytes]:
    try:
        return archive.open(member)
    except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:  # a password, say, or damage
        name = member if isinstance(member, str) else member.filename
        raise zipfile.BadZipFile(f"{name}: {error}") from error


def _tar_members(path: Path, name: str, companions: Companions) -> Iterator[Entry]:
    """Members in one pass over the archive, for random access to a compressed tar costs a pass a member.

    Files with companions are put in a temporary folder on the way and come after the others.
    """
    suffixes = {*companions, *(suffix for values in companions.values() for suffix in values)}
    groups: set[str] | None = None  # stems of main files: a look through the archive, when first needed
    with tempfile.TemporaryDirectory(prefix="biosmith-") as folder:
        kept: dict[str, Path] = {}
        for archive, member in _file_members(path):
            stream = cast("IO[bytes]", archive.extractfile(member))
            split = split_suffix(member.name, suffixes)
            if split is not None:
                if groups is None:
                    groups = _stems(path, companions)
                if split[0] in groups:
                    kept[member.name] = Path(folder, str(len(kept)))
                    kept[member.name].write_bytes(stream.read())
                    continue
            opened, head = _open_decompressed(stream)
            yield Entry(f"{name}/{member.name}", opened, head, lambda suffix: None)
        skipped = drop_companions(kept, companions)
        for main in sorted(set(kept) - skipped):
            with contextlib.ExitStack() as stack:

                def beside(
                    suffix: str, main: str = main, stack: contextlib.ExitStack = stack
                ) -> IO[bytes] | None:
                    split = split_suffix(main, companions)
                    for ending in ("", *COMPRESSED):
                        if split is not None and (place := kept.get(split[0] + suffix + ending)) is not None:
                            return stack.enter_context(open_decompressed(place))
                    return None

                opened, head = _open_decompressed(stack.enter_context(kept[main].open("rb")))
                yield Entry(f"{name}/{main}", opened, head, beside)


def _file_members(path: Path) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The open archive and each document in it, in one pass."""
    with path.open("rb") as raw:
        counted = _Counted(_open_decompressed(raw)[0])
        with tarfile.open(fileobj=cast("IO[bytes]", counted), mode="r|") as archive:
            while (member := archive.next()) is not None:
                if member.isfile() and _is_document(member.name):
                    yield archive, member
                archive.members = []  # type: ignore[attr-defined]  # the library remembers all it has passed
            # The library takes the end of the file for the end of the archive; a block of zeros should be there.
            if counted.count < archive.offset + tarfile.BLOCKSIZE:
                raise tarfile.ReadError("the archive ends before its end mark")


def _stems(path: Path, companions: Companions) -> set[str]:
    splits = (split_suffix(member.name, companions) for _, member in _file_members(path))
    return {split[0] for split in splits if split is not None}
