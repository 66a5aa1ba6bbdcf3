"""The tagger that nobody has to name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import biosmith
from biosmith.annotate.released import DEFAULT, default_tagger
from biosmith.cli import main
from biosmith.errors import UsageError
from biosmith.text.document import Document, Passage


def test_without_a_model_the_default_tagger_annotates(
    tagger_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tagger_folder, tmp_path / "models" / DEFAULT)
    monkeypatch.setenv("BIOSMITH_MODELS", str(tmp_path / "models"))
    text = "Patients with anemia were given heparin."
    (document,) = biosmith.load().annotate([Document.build("1", [Passage("abstract", text)])])
    assert "anemia" in [m.text for m in document.mentions]
    (tmp_path / "in.txt").write_text(text, encoding="utf-8")
    assert main(["annotate", str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.jsonl")]) == 0
    assert "anemia" in (tmp_path / "out.jsonl").read_text(encoding="utf-8")


def test_where_it_is_not_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIOSMITH_MODELS", str(tmp_path))
    with pytest.raises(UsageError, match=rf"{DEFAULT} is not in .*set BIOSMITH_MODELS"):
        default_tagger()
