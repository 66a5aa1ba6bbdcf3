"""`biosmith view`: the page, what it counts, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from biosmith.cli import main
from biosmith.errors import DONE, FAILED, SET_ASIDE, WRONG_CALL

GOLD = "1|t|Aspirin and pain.\n1|a|\n1\t0\t7\tAspirin\tChemical\tD1\n1\t12\t16\tpain\tDisease\tD2\n\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gold.pubtator").write_text(GOLD, encoding="utf-8")
    predicted = GOLD.replace("1\t12\t16\tpain\tDisease", "1\t8\t16\tand pain\tDisease")
    (tmp_path / "predicted.pubtator").write_text(predicted, encoding="utf-8")
    (tmp_path / "wrong.pubtator").write_text(
        GOLD.replace("Aspirin\tChemical", "Aspirine\tChemical"), encoding="utf-8"
    )
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, object]]:
    code = main(["view", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_page_is_made_and_counted_against_gold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Aspirin is right, "and pain" overlaps "pain" of the same type: a boundary error, and nothing is missed then.
    code, data = call(
        capsys, folder / "predicted.pubtator", "--gold", folder / "gold.pubtator", "--out", folder / "x.html"
    )
    assert code == DONE
    counts = {
        key: data[key] for key in ("documents", "mentions", "right", "boundary", "type", "spurious", "missed")
    }
    assert counts == {
        "documents": 1,
        "mentions": 2,
        "right": 1,
        "boundary": 1,
        "type": 0,
        "spurious": 0,
        "missed": 0,
    }
    assert "<!DOCTYPE html>" in (folder / "x.html").read_text(encoding="utf-8")


def test_what_the_file_has_wrong_is_listed_beside_the_page(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, data = call(capsys, folder / "wrong.pubtator", "--out", folder / "x.html")
    assert code == SET_ASIDE
    assert data["set_aside"] == 1
    (line,) = (folder / "x.html.rejects.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["record"] == "line 3, 1"


def test_a_page_that_exists_is_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x.html").touch()
    code, data = call(capsys, folder / "gold.pubtator", "--out", folder / "x.html")
    assert code == WRONG_CALL
    assert "exists already" in str(data["error"])


def test_a_file_without_documents_makes_no_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # `annotate` of such a file fails, too; an empty page would say that all went well.
    (folder / "none.jsonl").write_text('{"text": 5}\n', encoding="utf-8")
    code, data = call(capsys, folder / "none.jsonl", "--out", folder / "x.html")
    assert code == FAILED and "none.jsonl" in str(data["error"])
    assert not (folder / "x.html").exists()


def test_a_page_that_cannot_be_written_is_a_wrong_call(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder / "gold.pubtator" / "x.html"
    code, data = call(capsys, folder / "gold.pubtator", "--out", out)
    assert code == WRONG_CALL and f"{out} cannot be written" in str(data["error"])
