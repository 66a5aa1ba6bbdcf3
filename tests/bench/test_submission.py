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
from biosmith.bench.results import Run, TaskResults, load_results, write_predictions
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
    (folder / "good" / "mock-ner").rename(folder / "good" / "private")
    records = [p for p in (folder / "good" / "private").glob("seed-*.json") if "." not in p.stem]
    for path in records:
        record = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**record, "dataset": "private"}), encoding="utf-8")
    assert any("'private' is unknown" in reason for reason in verify(folder, FOLDER).unchecked.values())
    for name, value in (
        ("value", "0.9"),
        ("value", float("nan")),
        ("device", 0),
        ("dev_value", {}),
        ("arm", None),
    ):
        path.write_text(json.dumps({**record, "dataset": "private", name: value}), encoding="utf-8")
        with pytest.raises(BadInput, match=f"its {name} is of another kind"):
            verify(folder, FOLDER)
    scores = {**record["scores"], "precision": float("inf")}
    path.write_text(json.dumps({**record, "dataset": "private", "scores": scores}), encoding="utf-8")
    with pytest.raises(BadInput, match="its precision is no number"):
        verify(folder, FOLDER)


def results_of_good(mock_results: Path, tmp_path: Path) -> tuple[Path, list[Path]]:
    """A copy of the results, and the records of one dataset by seed."""
    folder = tmp_path / "results"
    shutil.copytree(mock_results / "of-good", folder)
    task = folder / "good" / "mock-ner"
    return folder, sorted(p for p in task.glob("seed-*.json") if "." not in p.stem)


def test_a_copy_of_a_run_is_not_counted_once_more(mock_results: Path, tmp_path: Path) -> None:
    # A file manager that found the name taken, or somebody who likes this seed best.
    folder, (first, *_) = results_of_good(mock_results, tmp_path)
    shutil.copy(first, first.with_name(f"{first.stem} (1).json"))
    with pytest.raises(BadInput, match=f"is the record of {first.stem}, under another name"):
        load_results(folder)


def test_two_runs_of_a_seed_and_runs_of_other_datasets_do_not_count_together(
    mock_results: Path, tmp_path: Path
) -> None:
    folder, (first, second, _) = results_of_good(mock_results, tmp_path)
    record = json.loads(second.read_text("utf-8"))
    twice = {**record, "seed": 0}
    first.with_name(f"seed-0-{record['key'][:12]}.json").write_text(json.dumps(twice), encoding="utf-8")
    with pytest.raises(BadInput, match="two runs of one seed that both count"):
        load_results(folder)
    first.with_name(f"seed-0-{record['key'][:12]}.json").unlink()
    second.write_text(json.dumps({**record, "dataset": "mock-pico"}), encoding="utf-8")
    with pytest.raises(BadInput, match="lies in the folder of another dataset"):
        load_results(folder)


def test_runs_that_are_missing_are_told_and_not_packed_without(mock_results: Path, tmp_path: Path) -> None:
    # Who leaves the worst seed out has a better mean.
    folder, (first, *_) = results_of_good(mock_results, tmp_path)
    first.unlink()
    lines = [str(d) for d in verify(folder, FOLDER).differences]
    assert lines == ["good/mock-ner: the number of its runs is said to be 3, found 2"]
    with pytest.raises(BadInput, match="has 2 of the 3 runs that count"):
        pack(folder, tmp_path / "x.zip")
    shutil.rmtree(first.parent)
    assert verify(folder, FOLDER).differences == ()  # a dataset less claims nothing


def test_runs_with_other_settings_than_those_that_count_are_told(mock_results: Path, tmp_path: Path) -> None:
    folder, (first, *_) = results_of_good(mock_results, tmp_path)
    record = json.loads(first.read_text("utf-8"))
    record["settings"]["epochs"] = 99
    first.write_text(json.dumps(record), encoding="utf-8")
    assert [d.what for d in verify(folder, FOLDER).differences] == ["its settings"]


@pytest.mark.parametrize(
    ("units", "reason"),
    [
        ({"measure": ["micro_f1"], "rows": [[1, 1, 1]]}, "is not a file of scored units"),
        ({"measure": "micro_f1", "rows": [[1, 1]]}, "has 2 columns, not the 3 of micro_f1"),
        ({"measure": "macro_f1", "rows": [[1, 1, 1, 1]]}, "has 4 columns, not the 3 of macro_f1"),
        ({"measure": "mean", "rows": []}, "no table of numbers"),
        ({"measure": "mean", "rows": [[float("nan"), 1]]}, "no table of numbers"),
    ],
)
def test_odd_units_are_told(mock_results: Path, tmp_path: Path, units: object, reason: str) -> None:
    folder, (first, *_) = results_of_good(mock_results, tmp_path)
    first.with_name(f"{first.stem}.units.json").write_text(json.dumps(units), encoding="utf-8")
    assert any(reason in str(d) for d in verify(folder, FOLDER).differences)


def test_a_file_that_is_there_twice_is_told(packed: Path, tmp_path: Path) -> None:
    # The first or the second is read, depending on the tool.
    shutil.copy(packed, tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip", "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for name in ("good/model.json", INDEX):
            archive.writestr(name, archive.read(name))
    lines = [str(d) for d in verify(tmp_path / "x.zip", FOLDER).differences]
    assert lines == [
        f"{name}: the file is said to be in the archive once, found 2 times"
        for name in (INDEX, "good/model.json")
    ]


def test_a_submission_that_was_unpacked_and_packed_again_is_sound(packed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "unpacked")
    shutil.make_archive(str(tmp_path / "again"), "zip", tmp_path / "unpacked")  # with entries for folders
    assert verify(tmp_path / "again.zip", FOLDER).differences == ()


def test_entries_that_cannot_be_unpacked_are_told(packed: Path, tmp_path: Path) -> None:
    def odd_names(*names: str) -> Callable[[dict[str, bytes]], None]:
        def change(members: dict[str, bytes]) -> None:
            index = json.loads(members[INDEX])
            for name in names:
                members[name] = b"{}"
                index["files"][name] = hashlib.sha256(b"{}").hexdigest()
            members[INDEX] = json.dumps(index).encode()

        return change

    for names in (("good/./model.json",), ("/etc/x",), ("a", "a/b"), ("n" * 300,)):
        with pytest.raises(BadInput, match=r"outside its folder|cannot be unpacked"):
            verify(rewrite(packed, tmp_path / "x.zip", odd_names(*names)), FOLDER)
    content = bytearray(packed.read_bytes())
    at = content.find(b"good/mock-ner/settings.json")
    content[at + 40 : at + 60] = bytes(20)  # in what is compressed
    (tmp_path / "y.zip").write_bytes(content)
    lines = [str(d) for d in verify(tmp_path / "y.zip", FOLDER).differences]
    assert (
        "good/mock-ner/settings.json: the file is said to be in the archive, found absent or damaged" in lines
    )


@pytest.mark.parametrize("index", [b"[]", b"{}", b'{"files": 7}', b'{"files": []}', b"\xff", b"[" * 100_000])
def test_an_index_that_is_none_is_refused(packed: Path, tmp_path: Path, index: bytes) -> None:
    with pytest.raises(BadInput, match=r"no readable SUBMISSION\.json"):
        verify(rewrite(packed, tmp_path / "x.zip", lambda members: members.update({INDEX: index})))


def test_exit_codes_say_how_a_check_ended(packed: Path, tmp_path: Path) -> None:
    assert main(["bench", "verify", str(packed), "--data", str(FOLDER)]) == 0
    assert main(["bench", "verify", str(packed)]) == 3

    def change(members: dict[str, bytes]) -> None:
        members["good/model.json"] += b" "

    assert main(["bench", "verify", str(rewrite(packed, tmp_path / "x.zip", change))]) == 1


def test_a_damaged_archive_is_refused(packed: Path, tmp_path: Path) -> None:
    content = packed.read_bytes()
    directory = content.rfind(b"PK\x01\x02")  # an entry of the table at the end
    for at, byte in ((directory, b"X"), (directory + 6, b"\xff")):  # no table; a version that nobody reads
        (tmp_path / "x.zip").write_bytes(content[:at] + byte + content[at + 1 :])
        with pytest.raises(BadInput, match="is a damaged archive"):
            verify(tmp_path / "x.zip", FOLDER)


def test_answers_with_separators_of_lines_in_them_are_read_back(tmp_path: Path) -> None:
    # JSON takes these as they are, and Python's splitlines cuts at each of them.
    predictions = ["a\u2028b", "c\u2029", "\x85", "d\x0b\x0c\x1ce", ""]
    names = [str(i) for i in range(len(predictions))]
    write_predictions(tmp_path / "seed-0-key.predictions.jsonl", names, predictions)
    run = Run("key", "m", "", "mock-squad", "squad", "f1", 0.0, 0, {}, {}, 0, len(names), {}, {})
    task = TaskResults(tmp_path, {}, (run,))
    assert task.predictions(run) == list(zip(names, predictions, strict=True))
