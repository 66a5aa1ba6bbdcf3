"""Files, folders and archives as byte streams."""

from __future__ import annotations

import errno
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from pathlib import Path
from typing import IO, cast

import pytest

from biosmith.artefact import Manifest
from biosmith.errors import UsageError
from biosmith.rejects import Rejects
from biosmith.text import files

BRAT = {".ann": (".txt",)}


def read_all(path: Path) -> list[tuple[str, bytes]]:
    return [(entry.name, entry.stream.read()) for entry in files.entries(path, BRAT)]


@pytest.mark.parametrize("name", ["plain.txt", "wrong.gz", "no-suffix"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_compression_is_found_by_the_first_bytes_whatever_the_name(tmp_path: Path, name: str, pack) -> None:
    (tmp_path / name).write_bytes(pack(b"some text"))
    assert read_all(tmp_path / name) == [(str(tmp_path / name), b"some text")]


def test_several_gzip_members_in_one_file_are_read_one_after_another(tmp_path: Path) -> None:
    # `cat a.gz b.gz > c.gz` is a valid gzip file.
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"one ") + gzip.compress(b"two"))
    assert read_all(tmp_path / "c.gz")[0][1] == b"one two"


def test_a_truncated_gzip_file_gives_all_bytes_before_the_cut(tmp_path: Path) -> None:
    content = b"".join(b"line %d of the file\n" % n for n in range(50_000))
    packed = gzip.compress(content)
    (tmp_path / "cut.gz").write_bytes(packed[: len(packed) // 2])
    entry = next(entries := files.entries(tmp_path / "cut.gz", {}))
    got = b""
    with pytest.raises(EOFError):
        while piece := entry.stream.read1(1 << 16):  # type: ignore[attr-defined]
            got += piece
    assert content.startswith(got)
    assert len(got) > 0.4 * len(content)
    entries.close()


def test_a_pipe_is_refused_at_once_for_files_are_opened_several_times(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer that never comes
    for name in (tmp_path / "pipe", "-"):
        with pytest.raises(UsageError, match="pipes are not read, save what they give in a file"):
            files.walk(name)


@pytest.mark.parametrize("kind", ["vocabulary", "tokens", "run", "model", "tuned"])
def test_an_artefact_without_documents_is_refused_though_it_has_files_of_text(
    tmp_path: Path, kind: str
) -> None:
    # A list of pieces or a model card is plain text to every reader.
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n", encoding="utf-8")
    Manifest(kind).save(tmp_path)
    with pytest.raises(UsageError, match=f"is a {kind} artefact, which holds no documents"):
        files.walk(tmp_path)
    Manifest("corpus").save(tmp_path)
    assert files.walk(tmp_path) == [tmp_path / "vocab.txt"]


def test_folders_are_walked_in_sorted_order_without_hidden_and_checksum_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/.hidden", ".git/config", "b.txt.md5", "c.gz"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x", encoding="utf-8")
    assert [str(p.relative_to(tmp_path)) for p in files.walk(tmp_path)] == ["a/z.txt", "b.txt", "c.gz"]


def test_a_missing_path_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        files.walk(tmp_path / "nothing")


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_members_of_a_tar_archive_are_named_after_it_and_decompressed(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "articles.bin"  # the name says nothing
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        add(archive, "x/one.xml", b"<a/>")
        add(archive, "x/two.xml.gz", gzip.compress(b"<b/>"))
        add(archive, "x/._one.xml", b"resource fork")
    assert read_all(path) == [(f"{path}/x/one.xml", b"<a/>"), (f"{path}/x/two.xml.gz", b"<b/>")]


def test_members_of_a_zip_archive_are_read(tmp_path: Path) -> None:
    path = tmp_path / "articles.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/one.xml", "<a/>")
        archive.writestr("__MACOSX/x/one.xml", "junk")
        archive.writestr("x/two.xml.gz", gzip.compress(b"<b/>"))
    assert read_all(path) == [(f"{path}/x/one.xml", b"<a/>"), (f"{path}/x/two.xml.gz", b"<b/>")]


@pytest.mark.parametrize("kind", ["folder", "tar", "zip"])
def test_a_companion_is_opened_beside_its_main_file_in_folders_and_archives(
    tmp_path: Path, kind: str
) -> None:
    # The text of "b" comes before its annotations, that of "a" long after, "alone" has none.
    content = {
        "b.txt": b"text b",
        "a.ann": b"T1",
        "b.ann": b"T2",
        "alone.ann": b"",
        "note.txt": b"n",
        "a.txt": b"text a",
    }
    if kind == "folder":
        for name, data in content.items():
            (tmp_path / name).write_bytes(data)
        paths = files.walk(tmp_path)
        skipped = files.drop_companions(map(str, paths), BRAT)
        assert {Path(name).name for name in skipped} == {"a.txt", "b.txt"}
        entries = (entry for path in paths if str(path) not in skipped for entry in files.entries(path, BRAT))
    elif kind == "tar":
        with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
            for name, data in content.items():
                add(archive, f"d/{name}", data)
        entries = files.entries(tmp_path / "x.tar.gz", BRAT)
    else:
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
            for name, data in content.items():
                packed.writestr(f"d/{name}", data)
        entries = files.entries(tmp_path / "x.zip", BRAT)
    found = {}
    for entry in entries:
        companion = entry.companion(".txt")
        found[Path(entry.name).name] = (entry.stream.read(), companion.read() if companion else None)
    found.pop("note.txt")
    assert found == {"a.ann": (b"T1", b"text a"), "b.ann": (b"T2", b"text b"), "alone.ann": (b"", None)}


def test_a_member_name_that_points_outside_the_archive_writes_nothing_there(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    with tarfile.open(inside / "evil.tar", "w") as archive:
        add(archive, "../../evil.txt", b"text")
        add(archive, "../../evil.ann", b"T1")
    entries = [entry.name for entry in files.entries(inside / "evil.tar", BRAT)]
    assert len(entries) <= 1
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["evil.tar", "in"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_created_files_are_compressed_by_their_name_and_the_same_twice(tmp_path: Path, suffix: str) -> None:
    for name in ("one", "two"):
        with files.create(tmp_path / (name + suffix)) as stream:
            stream.write(b"content")
    assert read_all(tmp_path / f"one{suffix}")[0][1] == b"content"
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), files.create(tmp_path / "out.gz") as stream:
        stream.write(b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


class Dribble:
    """Gives at most `size` bytes at a time, as sockets and decompressors may."""

    def __init__(self, data: bytes, size: int) -> None:
        self.stream, self.size = io.BytesIO(data), size

    def read(self, size: int) -> bytes:
        return self.stream.read(min(size, self.size))


@pytest.mark.parametrize("size", [1, 2, 5, 7, 64])
def test_lone_surrogates_in_json_are_replaced_wherever_the_stream_is_cut(size: int) -> None:
    # RFC 8259, section 8.2: the grammar allows half of a pair; it stands for no character.
    texts = {
        r"x\ud835 y": "x\ufffd y",
        r"\udc00\ud835": "\ufffd\ufffd",
        r"\uD835\u0041": "\ufffdA",
        r"\ud835\udd04": "\U0001d504",
        r"\\ud835": r"\ud835",
        r"\\\ud835\\": "\\\ufffd\\",
        r"\u00e9\n": "é\n",
    }
    value = b"[" + b",".join(b'"%s"' % text.encode() for text in texts) + b"]"
    rejects = Rejects()
    stream = files.JsonStream(cast("IO[bytes]", Dribble(b"\xef\xbb\xbf" + value, size)), rejects, "x")
    read = b"".join(iter(lambda: stream.read(4096), b""))
    assert json.loads(read) == list(texts.values())
    assert not rejects.count


@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_bytes_that_are_not_utf8_are_replaced_in_json_and_told_once(size: int) -> None:
    # A character that is U+FFFD already is no such byte.
    for text, told in (
        (b'["a\xffb", "\xe9t\xe9"]', True),
        (b'["\xc3\xa9", "\xef\xbf\xbd"]', False),
        (b'["\xef\xbf\xbd", "\xe2\x80"]', True),
    ):
        rejects = Rejects()
        stream = files.JsonStream(cast("IO[bytes]", Dribble(text, size)), rejects, "x")
        read = b"".join(iter(lambda stream=stream: stream.read(4096), b""))
        assert json.loads(read) == json.loads(text.decode("utf-8", "replace"))
        assert rejects.count == told


def test_a_folder_that_cannot_be_looked_into_is_no_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "locked").mkdir()
    (tmp_path / "a.txt").write_text("Some text.", encoding="utf-8")
    look = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == "locked":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UsageError, match="locked cannot be read: Permission denied"):
        files.walk(tmp_path)


def test_compression_is_known_by_suffixes_in_capitals(tmp_path: Path) -> None:
    with files.create(tmp_path / "X.JSONL.GZ") as stream:
        stream.write(b"text")
    assert gzip.decompress((tmp_path / "X.JSONL.GZ").read_bytes()) == b"text"


def test_artefacts_without_documents_are_passed_over_in_a_folder_of_files(tmp_path: Path) -> None:
    for folder in ("raw", "vocab", "vocab/checkpoints"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("[PAD]", encoding="utf-8")
    Manifest("vocabulary").save(tmp_path / "vocab")
    assert files.walk(tmp_path) == [tmp_path / "raw" / "a.txt"]


def test_links_that_lead_to_no_file_are_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.txt").write_text("Some text.", encoding="utf-8")
    (tmp_path / "b.txt").symlink_to("not-fetched.txt")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "c").symlink_to(tmp_path / "elsewhere")
    with caplog.at_level("WARNING", "biosmith"):
        assert files.walk(tmp_path) == [tmp_path / "a.txt"]
    assert "2 links" in caplog.text and "b.txt" in caplog.text
