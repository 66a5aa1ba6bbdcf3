"""Tables in windows of any width."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from biosmith.bench.mock import MOCK
from biosmith.cli import main
from biosmith.recipes import RECIPES, find_recipe, parameters


@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_the_list_of_recipes_cuts_no_number(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["recipes"]) == 0
    shown = capsys.readouterr().out
    numbers = re.findall(r"[\d,]+", shown)
    assert "…" not in shown
    for name in RECIPES:
        recipe = find_recipe(name)
        assert name in shown
        assert {f"{parameters(recipe):,}", f"{recipe.steps:,}", f"{recipe.batch.tokens:,}"} <= set(numbers)


@pytest.mark.parametrize("width", [120, 60, 30])
def test_the_list_of_datasets_cuts_no_number(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["data", "ls", "--suite", "blurb", "--data", str(Path(__file__).parent)]) == 0
    shown = capsys.readouterr().out
    # BC5-chem's mentions as BLURB's Table 2 counts them.
    assert "…" not in shown and {"5,203", "5,347", "5,385"} <= set(re.findall(r"[\d,]+", shown))
    assert main(["data", "ls", "--suite", "mock"]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown and all(name in shown for name in MOCK)
