"""What a run would take, from a sample."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from biosmith.annotate import planning
from biosmith.annotate.planning import plan_annotation
from biosmith.annotate.units import Shard
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError


def write(path: Path, count: int) -> Path:
    path.write_text(
        "".join(json.dumps({"id": str(i), "text": "Gout is rare."}) + "\n" for i in range(count)),
        encoding="utf-8",
    )
    return path


def test_a_plan_counts_measures_and_writes_nothing(tagger_folder: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", 300)
    before = sorted(tmp_path.iterdir())
    plan = plan_annotation([source], [tagger_folder], tmp_path / "out.jsonl")
    assert sorted(tmp_path.iterdir()) == before
    assert (plan.files, plan.documents, plan.counted, plan.failed) == (1, 300, True, 0)
    # Four pieces in every document: three words and a full stop.
    assert plan.tokens == 300 * 4
    assert plan.hours == pytest.approx(300 / plan.documents_per_second / 3600)
    assert plan.shards == 1 and plan.bytes == source.stat().st_size


def test_the_size_of_the_output_is_foretold(tagger_folder: Path, tmp_path: Path) -> None:
    from biosmith.annotate.files import annotate_files

    source = write(tmp_path / "in.jsonl", 300)
    plan = plan_annotation([source], [tagger_folder], tmp_path / "out.jsonl")
    annotate_files([source], [tagger_folder], tmp_path / "out.jsonl")
    assert plan.output_bytes == pytest.approx((tmp_path / "out.jsonl").stat().st_size, rel=0.02)


def test_what_is_not_counted_in_time_is_estimated_by_bytes(
    tagger_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for i in range(6):
        write(tmp_path / "in" / f"{i}.jsonl", 50)
    monkeypatch.setattr(planning, "COUNT_SECONDS", 0.0)
    plan = plan_annotation([tmp_path / "in"], [tagger_folder], tmp_path / "out.jsonl")
    assert not plan.counted and plan.documents == pytest.approx(300, rel=0.02)


def test_a_shard_is_planned_as_its_part(tagger_folder: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", 300)
    plan = plan_annotation([source], [tagger_folder], tmp_path / "out.jsonl", shard=Shard(2, 3))
    assert plan.documents == 100


def test_a_plan_of_nothing_says_what_holds_nothing(tagger_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="empty: holds no document"):
        plan_annotation([tmp_path / "empty"], [tagger_folder], tmp_path / "out.jsonl")
    with pytest.raises(UsageError, match="shard 2/3 of these inputs has no file"):
        plan_annotation([tmp_path / "empty"], [tagger_folder], tmp_path / "out.jsonl", shard=Shard(2, 3))
    # The file has a document, which is the first shard's.
    one = write(tmp_path / "one.jsonl", 1)
    with pytest.raises(UsageError, match="shard 2/3 of these inputs has no document"):
        plan_annotation([one], [tagger_folder], tmp_path / "out.jsonl", shard=Shard(2, 3))


def test_the_command_says_hours_disk_and_shards(
    tagger_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "in.jsonl", 50)
    call = [
        "annotate",
        str(source),
        "--model",
        str(tagger_folder),
        "--out",
        str(tmp_path / "out.parquet"),
        "--plan",
    ]
    assert main([*call, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {"hours", "documents", "output_bytes", "shards", "documents_per_second"} <= plan.keys()
    assert main(call) == 0
    assert "hours" in capsys.readouterr().out and not (tmp_path / "out.parquet").exists()


def test_shards_of_the_command_share_the_input(
    tagger_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "in.jsonl", 30)
    done = []
    for i in (1, 2, 3):
        call = ["annotate", str(source), "--model", str(tagger_folder), "--out", str(tmp_path / f"{i}.jsonl")]
        assert main([*call, "--shard", f"{i}/3", "--json"]) == 0
        done.append(json.loads(capsys.readouterr().out)["documents"])
        manifest = json.loads((tmp_path / f"{i}.jsonl.manifest.json").read_text(encoding="utf-8"))
        assert manifest["config"]["shard"] == f"{i}/3"
    assert sum(done) == 30
    assert main([*call[:-1], str(tmp_path / "4.jsonl"), "--shard", "4/3"]) == 2
    assert "I from 1 to N" in capsys.readouterr().err
