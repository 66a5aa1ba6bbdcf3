"""Submissions: packed, checked, tampered with."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from biosmith.bench.mock import FOLDER
from biosmith.bench.submission import INDEX, pack, verify
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError


def rewrite(path: Path, out: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """A copy of an archive with its members changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out


@pytest.fixture
def packed(mock_results: Path, tmp_path: Path) -> Path:
    """The results of "good" as a submission."""
    pack(mock_results / "of-good", tmp_path / "good.zip")
    return tmp_path / "good.zip"


def test_what_is_packed_is_sound_and_every_run_is_scored_anew(packed: Path) -> None:
    result = verify(packed, FOLDER)
    assert result.differences == () and result.unchecked == {}
    assert result.runs == result.recomputed == 9 * 3


def test_a_submission_holds_predictions_and_lineage_and_no_text_of_the_data(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        index = json.loads(archive.read(INDEX))
        text = b"".join(archive.read(name) for name in archive.namelist()).decode()
    assert set(index["models"]) == {"good"} and index["runs"] == 27
    assert len(index["models"]["good"]["digest"]) == 64
    # A sentence of the NER test split, and a context of the questions.
    assert '"/' not in text  # nor of the machine that it was made on
    assert "was halved after" not in text and "had a mutation of" not in text


def test_the_same_results_make_the_same_bytes(mock_results: Path, packed: Path, tmp_path: Path) -> None:
    again = pack(mock_results / "of-good", tmp_path / "again.zip")
    assert again["digest"] == hashlib.sha256(packed.read_bytes()).hexdigest()


def find(members: dict[str, bytes], dataset: str, end: str) -> str:
    return next(n for n in sorted(members) if f"/{dataset}/seed-0" in n and n.endswith(end))


def test_a_changed_prediction_is_found_by_its_digest(packed: Path, tmp_path: Path) -> None:
    def change(members: dict[str, bytes]) -> None:
        name = find(members, "mock-answers", ".predictions.jsonl")
        members[name] = members[name].replace(b'"no"', b'"yes"', 1)

    found = [str(d) for d in verify(rewrite(packed, tmp_path / "x.zip", change), FOLDER).differences]
    assert any("mock-answers" in line and "digest" in line for line in found)


def test_a_forged_score_is_found_though_every_digest_was_forged_with_it(packed: Path, tmp_path: Path) -> None:
    # The forger raises the score in the record and puts the new digest into the index: only scoring anew tells.
    def change(members: dict[str, bytes]) -> None:
        name = find(members, "mock-answers", ".json")
        name = (
            name
            if ".units" not in name
            else find({n: b for n, b in members.items() if ".units" not in n}, "mock-answers", ".json")
        )
        record = json.loads(members[name])
        record["value"] = record["scores"]["value"] = record["scores"]["accuracy"] = 1.0
        members[name] = json.dumps(record).encode()
        index = json.loads(members[INDEX])
        index["files"][name] = hashlib.sha256(members[name]).hexdigest()
        members[INDEX] = json.dumps(index).encode()

    forged = rewrite(packed, tmp_path / "x.zip", change)
    lines = [str(d) for d in verify(forged, FOLDER).differences]
    assert any("value is said to be 1.0, found 0.9" in line for line in lines)
    # Without the data the units beside the predictions still give the true score.
    assert any(
        "value of its units is said to be 1.0, found 0.9" in str(d) for d in verify(forged).differences
    )


def test_files_that_were_added_or_left_out_are_named(packed: Path, tmp_path: Path) -> None:
    def add(members: dict[str, bytes]) -> None:
        members["good/extra.json"] = b"{}"

    def remove(members: dict[str, bytes]) -> None:
        del members[find(members, "mock-ner", ".predictions.jsonl")]

    added = [str(d) for d in verify(rewrite(packed, tmp_path / "a.zip", add), FOLDER).differences]
    assert added == ["good/extra.json: the file is said to be absent, found in the archive"]
    removed = [str(d) for d in verify(rewrite(packed, tmp_path / "r.zip", remove), FOLDER).differences]
    assert any("mock-ner" in line and "absent" in line for line in removed)


def test_an_archive_that_would_write_outside_its_folder_is_refused(packed: Path, tmp_path: Path) -> None:
    def change(members: dict[str, bytes]) -> None:
        index = json.loads(members[INDEX])
        index["files"]["../evil.json"] = hashlib.sha256(b"{}").hexdigest()
        members["../evil.json"], members[INDEX] = b"{}", json.dumps(index).encode()

    with pytest.raises(BadInput, match="outside its folder"):
        verify(rewrite(packed, tmp_path / "x.zip", change), FOLDER)
    with pytest.raises(UsageError, match=r"is no \.zip"):
        verify(Path(__file__))


def test_other_data_is_named_and_not_scored(packed: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(FOLDER, data)
    path = data / "answers" / "test.tsv"
    path.write_text(path.read_text("utf-8").replace("\tno\n", "\tyes\n", 1), encoding="utf-8")
    result = verify(packed, data)
    assert {d.what for d in result.differences} == {"the data it was scored on"}
    assert len(result.differences) == 3
    shutil.rmtree(data / "ner")
    assert sum("mock-ner is not in" in reason for reason in verify(packed, data).unchecked.values()) == 3


def test_compressed_data_is_the_same_data(packed: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(FOLDER, data)
    for name in ("ner", "answers"):
        path = data / name / "test.tsv"
        path.with_name("test.tsv.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    result = verify(packed, data)
    assert (result.differences, result.recomputed) == ((), 27)


@pytest.mark.parametrize("end", [".units.json", ".predictions.jsonl"])
def test_a_results_folder_that_lacks_a_file_is_told_and_not_packed(
    mock_results: Path, tmp_path: Path, end: str
) -> None:
    folder = tmp_path / "results"
    shutil.copytree(mock_results / "of-good", folder)
    next((folder / "good" / "mock-ner").glob(f"*{end}")).unlink()
    result = verify(folder, FOLDER)
    assert result.recomputed == 27
    assert {d.where.split("/")[1] for d in result.differences} == {"mock-ner"}
    with pytest.raises(BadInput, match="is missing"):
        pack(folder, tmp_path / "x.zip")


def test_records_of_unknown_datasets_and_other_kinds_are_named(mock_results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(mock_results / "of-good", folder)
    path = next(p for p in (folder / "good" / "mock-ner").glob("seed-0*.json") if "." not in p.stem)
    record = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**record, "dataset": "private"}), encoding="utf-8")
    assert any("'private' is unknown" in reason for reason in verify(folder, FOLDER).unchecked.values())
    path.write_text(json.dumps({**record, "value": "0.9"}), encoding="utf-8")
    with pytest.raises(BadInput, match="its value is of another kind"):
        verify(folder, FOLDER)


def test_exit_codes_say_how_a_check_ended(packed: Path, tmp_path: Path) -> None:
    assert main(["bench", "verify", str(packed), "--data", str(FOLDER)]) == 0
    assert main(["bench", "verify", str(packed)]) == 3

    def change(members: dict[str, bytes]) -> None:
        members["good/model.json"] += b" "

    assert main(["bench", "verify", str(rewrite(packed, tmp_path / "x.zip", change))]) == 1
