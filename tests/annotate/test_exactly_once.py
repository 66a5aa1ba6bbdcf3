"""Runs that are stopped at any moment: resumed, they give what an undisturbed run gives, each document once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import biosmith
from biosmith.annotate import files
from biosmith.annotate.annotator import Annotator, Counts
from biosmith.annotate.files import Options, annotate_files
from biosmith.annotate.journal import JOURNAL, Journal
from biosmith.annotate.work import Outcome
from biosmith.errors import UsageError

TEXTS = ["Gout is rare.", "Patients with anemia were given heparin.", "No effect of aspirin was seen."]
# 60 documents are read in chunks of 8, 16, 32 and 4, and line 30 is set aside.
DOCUMENTS, CHUNKS = 60, 4


@pytest.fixture
def source(tmp_path: Path) -> Path:
    lines = [json.dumps({"id": str(i), "text": " ".join(TEXTS[: i % 4])}) for i in range(DOCUMENTS)]
    lines.insert(30, "{broken")
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def stop_before_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_write", stop)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "bioc.json", "pubtator"])
def test_a_run_stopped_after_any_chunk_goes_on(
    tagger_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    whole, out = tmp_path / f"whole.{suffix}", tmp_path / f"out.{suffix}"
    annotate_files([source], [tagger_folder], whole)
    add, added = Journal.add, 0

    def stops(self: Journal, outcome: Outcome) -> None:
        nonlocal added
        added += 1
        if added > 1:
            raise KeyboardInterrupt
        add(self, outcome)

    monkeypatch.setattr(Journal, "add", stops)
    for _ in range(CHUNKS):  # each call gets one chunk further
        added = 0
        with pytest.raises(KeyboardInterrupt):
            annotate_files([source], [tagger_folder], out, resume=True)
    assert not out.exists()
    monkeypatch.setattr(Journal, "add", add)
    report = annotate_files([source], [tagger_folder], out, resume=True)
    assert out.read_bytes() == whole.read_bytes()
    assert (report.counts.documents, report.before.documents, report.set_aside) == (60, 60, 1)
    listed = [tmp_path / f"{name}.{suffix}.rejects.jsonl" for name in ("whole", "out")]
    assert listed[0].read_bytes() == listed[1].read_bytes()
    assert not (tmp_path / f".out.{suffix}.partial").exists()


def test_whatever_a_kill_leaves_of_the_journal_is_gone_on_from(
    tagger_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    annotate_files([source], [tagger_folder], whole)
    with monkeypatch.context() as patched:
        stop_before_writing(patched)
        with pytest.raises(KeyboardInterrupt):
            annotate_files([source], [tagger_folder], out)
    folder = tmp_path / ".out.jsonl.partial"
    journal = (folder / JOURNAL).read_bytes()
    documents = (folder / "documents.jsonl").read_bytes()
    assert documents == whole.read_bytes() and journal.count(b"\n") == CHUNKS + 1
    generator = random.Random(0)
    for _ in range(12):
        # A kill leaves a beginning of each file; payloads are on the disk before the lines that vouch for them, but
        # after a power cut even that need not hold.
        lines, payloads = generator.randrange(len(journal)), generator.randrange(len(documents) + 1)
        (folder / JOURNAL).write_bytes(journal[:lines])
        (folder / "documents.jsonl").write_bytes(documents[:payloads] + b"\0" * generator.randrange(9))
        with monkeypatch.context() as patched:
            stop_before_writing(patched)
            with pytest.raises(KeyboardInterrupt):
                annotate_files([source], [tagger_folder], out, resume=True)
        assert (folder / "documents.jsonl").read_bytes() == documents
    annotate_files([source], [tagger_folder], out, resume=True)
    assert out.read_bytes() == whole.read_bytes()


def test_a_kill_between_output_and_manifest_is_mended(
    tagger_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(files, "_save_manifest", stop)
        with pytest.raises(KeyboardInterrupt):
            annotate_files([source], [tagger_folder], out)
    assert out.exists()
    with pytest.raises(UsageError, match="exists already"):
        annotate_files([source], [tagger_folder], out)
    assert annotate_files([source], [tagger_folder], out, resume=True).counts.documents == 60
    assert (tmp_path / "out.jsonl.manifest.json").is_file()


def test_resuming_what_is_finished_does_nothing_and_reports_it(
    tagger_folder: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    first = annotate_files([source], [tagger_folder], out, resume=True)
    written = out.stat().st_mtime_ns
    again = annotate_files([source], [tagger_folder], out, resume=True)
    assert out.stat().st_mtime_ns == written
    for key in ("documents", "mentions", "failed", "set_aside", "windows"):
        assert again.as_dict()[key] == first.as_dict()[key]
    with pytest.raises(UsageError, match="exists already"):
        annotate_files([source], [tagger_folder], out, Options(on_long="truncate"), resume=True)


@pytest.mark.parametrize("manifest", ["", "{broken", "[]", "{}", '{"config": null}'])
def test_an_output_with_a_damaged_manifest_is_not_taken_for_finished(
    tagger_folder: Path, source: Path, tmp_path: Path, manifest: str
) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("{}", encoding="utf-8")
    out.with_name("out.jsonl.manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(UsageError, match="exists already"):
        annotate_files([source], [tagger_folder], out, resume=True)
    assert out.read_text(encoding="utf-8") == "{}"


def test_only_what_was_begun_alike_is_resumed(
    tagger_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    with monkeypatch.context() as patched:
        stop_before_writing(patched)
        with pytest.raises(KeyboardInterrupt):
            annotate_files([source], [tagger_folder], out)
    with pytest.raises(UsageError, match="other inputs, models or options"):
        annotate_files([source], [tagger_folder], out, Options(on_long="truncate"), resume=True)
    # The number of workers changes nothing but speed, so it may be another.
    assert (
        annotate_files([source], [tagger_folder], out, Options(workers=2), resume=True).counts.documents == 60
    )


def test_a_run_whose_output_lies_in_its_input_is_resumed_and_found_finished(
    tagger_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.jsonl"
    with monkeypatch.context() as patched:
        stop_before_writing(patched)
        with pytest.raises(KeyboardInterrupt):
            annotate_files([tmp_path], [tagger_folder], out)
    assert (tmp_path / "out.jsonl.rejects.jsonl").exists()  # no input of the same run, though it lies there
    for _ in range(2):
        report = annotate_files([tmp_path], [tagger_folder], out, resume=True)
        assert (report.counts.documents, report.set_aside) == (DOCUMENTS, 1)


def test_another_vocabulary_in_the_same_file_is_another_run(
    tagger_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, out = tmp_path / "names.tsv", tmp_path / "out.jsonl"
    names.write_text("D1\tgout\n", encoding="utf-8")
    with monkeypatch.context() as patched:
        stop_before_writing(patched)
        with pytest.raises(KeyboardInterrupt):
            annotate_files([source], [tagger_folder], out, Options(link=names))
    names.write_text("D2\tgout\n", encoding="utf-8")
    with pytest.raises(UsageError, match="other inputs, models or options"):
        annotate_files([source], [tagger_folder], out, Options(link=names), resume=True)
    annotate_files([source], [tagger_folder], out, Options(link=names))
    made = json.loads((tmp_path / "out.jsonl.manifest.json").read_text(encoding="utf-8"))
    assert str(names) in [item["path"] for item in made["inputs"]]


def test_two_runs_cannot_make_one_file(tagger_folder: Path, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    held = Journal(out, "plan", "jsonl", resume=False)
    with pytest.raises(UsageError, match="another process is making"):
        annotate_files([source], [tagger_folder], out)
    held.remove()
    assert annotate_files([source], [tagger_folder], out).counts.documents == 60


def test_a_file_that_another_run_makes_meanwhile_is_not_made_again(
    tagger_folder: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The other run is done while this one loads its model: its lock is gone, its file is there.
    out, opens = tmp_path / "out.jsonl", Options.open

    def slowly(self: Options, *arguments: Any) -> Annotator:
        with monkeypatch.context() as patched:
            patched.setattr(Options, "open", opens)
            annotate_files([source], [tagger_folder], out)
        return opens(self, *arguments)

    monkeypatch.setattr(Options, "open", slowly)
    for resume in (False, True):
        with pytest.raises(UsageError, match="exists already"):
            annotate_files([source], [tagger_folder], out, resume=resume)
        assert (tmp_path / "out.jsonl.manifest.json").is_file()
        assert not (tmp_path / ".out.jsonl.partial").exists()
        out.unlink()


def test_a_journal_of_many_chunks_takes_no_memory(tmp_path: Path) -> None:
    # All of PubMed has some 300,000 chunks; a line of the journal takes a kilobyte in memory.
    out, chunks = tmp_path / "out.jsonl", 5000
    journal = Journal(out, "plan", "jsonl", resume=False)
    tracemalloc.start()
    for number in range(chunks):
        failures = [{"file": "annotate", "record": str(number), "reason": "x"}] * (number % 1000 == 0)
        journal.add(Outcome(0, number, number == chunks - 1, 2, b"{}\n", Counts(documents=2), 1, failures))
        if number % 100 == 99:
            journal.sync()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 500_000
    journal.close()
    again = Journal(out, "plan", "jsonl", resume=True)
    for found in (journal.finished, again.finished):
        assert (found.chunks, found.read, found.relations, found.end) == (
            chunks,
            2 * chunks,
            chunks,
            3 * chunks,
        )
        assert found.counts.documents == 2 * chunks and found.units == {0: (chunks, True)}
    assert [item["record"] for item in again.listed()] == ["0", "1000", "2000", "3000", "4000"]
    again.remove()


def test_a_stopped_run_that_begins_anew_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.jsonl"
    first = Journal(out, "plan", "jsonl", resume=False)
    first.add(Outcome(0, 0, False, 2, b"{}\n", Counts(documents=2), 0, []))
    first.sync()
    first.close()
    assert "begins anew" not in capsys.readouterr().err
    again = Journal(out, "plan", "jsonl", resume=False)
    told = " ".join(capsys.readouterr().err.split())
    assert "out.jsonl begins anew" in told and "--resume would go on from there" in told
    assert again.finished.chunks == 0
    again.remove()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
def test_kill_9_of_the_command_loses_nothing(tagger_folder: Path, tmp_path: Path) -> None:
    """benchmarks/kills.py does this twenty times over 20,000 documents with two workers."""
    source = tmp_path / "in.jsonl"
    records = [{"id": str(i), "text": " ".join(TEXTS) * (1 + i % 5)} for i in range(2500)]
    source.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    out, journal = tmp_path / "out.jsonl", tmp_path / ".out.jsonl.partial" / JOURNAL
    arguments = ["annotate", source, "--model", tagger_folder, "--out", out, "--resume"]
    command = [sys.executable, "-m", "biosmith", *map(str, arguments)]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while run.poll() is None and not (journal.is_file() and journal.stat().st_size):
        time.sleep(0.01)
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL, "it was done before it could be killed"
    assert not out.exists()
    report = annotate_files([source], [tagger_folder], out, resume=True)
    assert 0 < report.before.documents < report.counts.documents == 2500
    assert [d.id for d in biosmith.read(out)] == [str(i) for i in range(2500)]
