"""Manifests: what biosmith writes comes back, what somebody else put in is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from biosmith.artefact import (
    MANIFEST,
    Manifest,
    folder_by_rename,
    is_artefact,
    load_manifest,
    require_new_folder,
    require_writable,
    write_by_rename,
)
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError

ENTRY = {"path": "raw.xml", "kind": "file", "bytes": 6, "digest": "0" * 64}
SOUND: dict[str, Any] = {
    "kind": "tuned",
    "config": {"kind": "tagging", "task": "ner", "max_length": 64, "settings": {}},
    "seed": 1,
    "inputs": [ENTRY],
    "files": {"data.txt": {"bytes": 5, "digest": "0" * 64, "documents": 3}},
    "counts": {"longest_mention": 8},
    "command": "biosmith finetune",
    "version": "1.0",
    "created": "2026-01-01T00:00:00+00:00",
}


def write(folder: Path, value: object) -> Path:
    (folder / MANIFEST).write_text(json.dumps(value), encoding="utf-8")
    return folder


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    saved = Manifest("corpus", {"workers": 2}, None, [ENTRY], {"part": {"bytes": 1}}, {"words": 3}).save(
        tmp_path
    )
    assert load_manifest(tmp_path, "corpus") == saved
    assert load_manifest(write(tmp_path, {**SOUND, "of a later version": 1})).counts == {"longest_mention": 8}


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("kind",), 3, r"kind: has to be a text \(found 3\)"),
        (("config",), [], r"config: has to be an object \(found \[\]\)"),
        (("seed",), "one", r"seed: has to be a whole number \(found 'one'\)"),
        (("seed",), True, r"seed: has to be a whole number \(found True\)"),
        (("inputs",), {"path": "raw.xml"}, r"inputs: has to be a list"),
        (("inputs", 0), "raw.xml", r"inputs\[0\]: has to be an object \(found 'raw.xml'\)"),
        (("inputs", 0, "path"), 3, r"inputs\[0\]\.path: has to be a text \(found 3\)"),
        (("inputs", 0, "digest"), [], r"inputs\[0\]\.digest: has to be a text"),
        (("files",), ["data.txt"], r"files: has to be an object"),
        (("files", "data.txt"), "x", r"files\['data.txt'\]: has to be an object"),
        (("files", "data.txt", "bytes"), "5", r"files\['data.txt'\]\.bytes: has to be a whole number"),
        (("counts",), None, r"counts: has to be an object, not null"),
        (("command",), ["biosmith"], r"command: has to be a text"),
        (("config", "kind"), [], r"config\.kind: has to be a text"),
        (("config", "max_length"), "64", r"config\.max_length: has to be a whole number"),
        (("counts", "longest_mention"), None, r"counts\.longest_mention: has to be a whole number"),
    ],
)
def test_a_value_of_another_type_is_refused_with_file_key_and_value(
    place: tuple[str | int, ...],
    value: object,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written = json.loads(json.dumps(SOUND))
    holder = written
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    with pytest.raises(BadInput, match=rf"manifest\.json, {words}"):
        load_manifest(write(tmp_path, written))
    assert not is_artefact(tmp_path)
    assert main(["trace", str(tmp_path)]) == 1
    assert "has to be" in capsys.readouterr().err


def test_the_mark_of_a_vocabulary_is_checked_too(tmp_path: Path) -> None:
    mark = {"size": 100, "digest": "0" * 64, "cased": False, "special_tokens": {}}
    config = {"vocabulary": mark}
    assert load_manifest(write(tmp_path, {"kind": "tokens", "config": config})).config == config
    wrong: dict[str, object]
    for wrong in ({"size": "100"}, {"digest": None}, {"cased": 1}, {"special_tokens": [1]}):
        (key,) = wrong
        with pytest.raises(BadInput, match=rf"manifest\.json, config\.vocabulary\.{key}: has to be"):
            load_manifest(write(tmp_path, {"kind": "tokens", "config": {"vocabulary": {**mark, **wrong}}}))


@pytest.mark.parametrize(
    "content", ["[]", "3", "{}", "{", '{"name": "a web page"}', '{"seed": ' + "9" * 5000 + "}"]
)
def test_what_is_no_manifest_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match="is not a biosmith manifest"):
        load_manifest(tmp_path)


def test_a_file_in_the_place_of_an_artefact_is_called_one(tmp_path: Path) -> None:
    # "does not exist" of a file that is there sends people looking for it.
    (tmp_path / "part").touch()
    with pytest.raises(UsageError, match=r"part is a file; expected a biosmith tokens folder"):
        load_manifest(tmp_path / "part", "tokens")
    with pytest.raises(UsageError, match=r"nowhere does not exist; expected"):
        load_manifest(tmp_path / "nowhere", "tokens")


def test_errors_of_the_system_name_what_the_user_gave(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as caught, write_by_rename(tmp_path / "folder"):
        raise AssertionError("nothing is written for a name that is taken")
    assert caught.value.filename == str(tmp_path / "folder")
    with pytest.raises(FileNotFoundError) as missing, write_by_rename(tmp_path / "file"):
        pass  # nothing was written
    assert missing.value.filename == str(tmp_path / "file")
    with pytest.raises(FileNotFoundError) as inside, folder_by_rename(tmp_path / "new") as temporary:
        (temporary / "part" / "a.txt").write_text("")
    assert inside.value.filename == str(tmp_path / "new" / "part" / "a.txt")
    with pytest.raises(FileNotFoundError) as other, write_by_rename(tmp_path / "file"):
        (tmp_path / "absent").read_text(encoding="utf-8")
    assert other.value.filename == str(tmp_path / "absent")  # not of what is written: left as it is


def test_outputs_that_cannot_be_made_are_known_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "out", tmp_path / "file" / "below" / "out"):
        for require in (require_writable, require_new_folder):
            with pytest.raises(UsageError, match=rf"out cannot be written: {tmp_path / 'file'} is no folder"):
                require(path)
    with pytest.raises(UsageError, match="it is a folder, a file is expected"):
        require_writable(tmp_path)
    for require in (require_writable, require_new_folder):
        require(tmp_path / "a" / "b" / "out")


def test_an_empty_folder_that_cannot_be_replaced_is_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another folder under its name would leave the user's shell in one that is gone.
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for out in (Path(), Path("../here"), here):
        with folder_by_rename(out) as temporary:
            Manifest("model").save(temporary)
            (temporary / "part").mkdir()
        assert sorted(path.name for path in Path().iterdir()) == [MANIFEST, "part"]
        (here / MANIFEST).unlink()
        (here / "part").rmdir()
        with pytest.raises(ZeroDivisionError), folder_by_rename(out) as temporary:
            (temporary / "half").touch()
            raise ZeroDivisionError
        assert list(here.iterdir()) == []


def test_a_folder_behind_a_link_is_made_there(tmp_path: Path) -> None:
    for name in ("there", "to-come"):
        (tmp_path / f"link-{name}").symlink_to(name)
    (tmp_path / "there").mkdir()
    for name in ("there", "to-come"):
        with folder_by_rename(tmp_path / f"link-{name}") as temporary:
            (temporary / "a").touch()
        assert (tmp_path / name / "a").is_file() and (tmp_path / f"link-{name}").is_symlink()
        assert len(list(tmp_path.glob(".*"))) == 0
