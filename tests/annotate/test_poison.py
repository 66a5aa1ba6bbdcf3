"""A document that breaks what handles it is listed with its reason, and all others are done as if it were not there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import biosmith
from annotate import poison
from biosmith.annotate import processes, work
from biosmith.annotate.files import Options, annotate_files
from biosmith.errors import BiosmithError
from biosmith.text.document import Document

BAD = "the drug was poisoned"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    lines = [json.dumps({"id": str(i), "text": BAD if i in (7, 21) else "Gout is rare."}) for i in range(40)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "in.jsonl"


def check(out: Path, report: Any, origin: str, reason: str) -> None:
    done = list(biosmith.read(out))
    assert [d.id for d in done] == [str(i) for i in range(40) if i not in (7, 21)]
    assert all([m.text for m in d.mentions] == ["Gout"] for d in done)
    listed = [json.loads(x) for x in Path(report.set_aside_file).read_text(encoding="utf-8").splitlines()]
    assert [(x["file"], x["record"]) for x in listed] == [(origin, "7"), (origin, "21")]
    assert all(reason in x["reason"] for x in listed)
    assert (report.counts.documents, report.counts.failed, report.set_aside) == (38, 2, 2)


def test_in_the_tokenizer(
    tagger_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison.break_tokenizer(monkeypatch)
    report = annotate_files([source], [tagger_folder], tmp_path / "out.jsonl")
    check(tmp_path / "out.jsonl", report, "annotate", "RuntimeError: a poisoned word")


@pytest.mark.parametrize(("suffix", "encoding"), [("jsonl", "jsonl"), ("parquet", "arrow")])
def test_in_the_writer_of_what_is_noted_down(
    tagger_folder: Path,
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    encoding: Any,
) -> None:
    encode = work.ENCODERS[encoding]

    def fragile(documents: Iterable[Document]) -> bytes:
        documents = list(documents)
        if any(poison.WORD in d.text for d in documents):
            raise ValueError("cannot be written")
        return encode(documents)

    monkeypatch.setitem(work.ENCODERS, encoding, fragile)
    report = annotate_files([source], [tagger_folder], tmp_path / f"out.{suffix}")
    check(tmp_path / f"out.{suffix}", report, "write", "ValueError: cannot be written")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
def test_in_a_way_that_ends_the_process(
    tagger_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "work", poison.work_and_die)
    monkeypatch.setattr(processes, "begin", poison.begin)
    out = tmp_path / "out.jsonl"
    report = annotate_files([source], [tagger_folder], out, Options(workers=2))
    assert [d.id for d in biosmith.read(out)] == [str(i) for i in range(40) if i not in (7, 21)]
    listed = [
        json.loads(x) for x in (tmp_path / "out.jsonl.rejects.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    killed = "the process that annotated it was killed"
    assert [(x["record"], x["reason"]) for x in listed] == [("7", killed), ("21", killed)]
    assert (report.counts.documents, report.counts.failed) == (38, 2)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
def test_processes_that_are_killed_whatever_they_do_end_the_run(
    tagger_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Out of memory, say: listing every document as failed would help nobody.
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": "1", "text": BAD}) + "\n", encoding="utf-8")
    monkeypatch.setattr(processes, "work", poison.work_and_die)
    monkeypatch.setattr(processes, "begin", poison.begin)
    monkeypatch.setattr(processes, "MOST_KILLS", 0)
    with pytest.raises(BiosmithError, match="killed again and again"):
        annotate_files([tmp_path / "in.jsonl"], [tagger_folder], tmp_path / "out.jsonl", Options(workers=2))
