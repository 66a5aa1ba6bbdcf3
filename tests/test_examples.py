"""The examples run, and what they say is right."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import biosmith

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def ask_annotations() -> ModuleType:
    pytest.importorskip("duckdb")
    spec = importlib.util.spec_from_file_location("ask_annotations", EXAMPLES / "ask_annotations.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_question_in_sql_is_answered_as_by_counting(ask_annotations: ModuleType, tmp_path: Path) -> None:
    documents = list(biosmith.read(ask_annotations.SAMPLE))
    half = len(documents) // 2  # many files are asked like one
    biosmith.write(documents[:half], tmp_path / "1.parquet")
    biosmith.write(documents[half:], tmp_path / "2.parquet")
    answer = ask_annotations.ask([str(tmp_path / "1.parquet"), str(tmp_path / "2.parquet")])
    seen: Counter[tuple[str, str]] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for document in documents:
        present = {(m.type, m.text.lower()) for m in document.mentions}
        seen.update(present)
        pairs.update((c, d) for t, c in present if t == "Chemical" for u, d in present if u == "Disease")
    expected = {
        pair: (n, math.log2(n * len(documents) / (seen["Chemical", pair[0]] * seen["Disease", pair[1]])))
        for pair, n in pairs.items()
        if n >= ask_annotations.LEAST
    }
    assert answer
    for chemical, disease, together, information in answer:
        assert together == expected[chemical, disease][0]
        assert information == pytest.approx(expected[chemical, disease][1])
    assert answer[0][3] == pytest.approx(max(bits for _, bits in expected.values()))


def test_the_example_answers_about_the_sample_by_itself(
    ask_annotations: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    ask_annotations.main([])
    assert "allopurinol" in capsys.readouterr().out
