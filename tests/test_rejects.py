"""Records set aside are written down whatever is in them."""

from __future__ import annotations

import json
from pathlib import Path

from biosmith.rejects import Rejects


def test_names_and_values_that_are_no_utf8_are_written_down(tmp_path: Path) -> None:
    with Rejects(tmp_path / "rejects.jsonl") as rejects:
        rejects.add("caf\udce9.txt", "line 1", "is damaged", "half \ud83d")
    (line,) = (tmp_path / "rejects.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["file"] == "caf\ufffd.txt"
    assert json.loads(line)["value"] == "half \ufffd"
