"""Inputs as units and shards: every document in exactly one place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from biosmith.annotate import units as module
from biosmith.annotate.units import Shard, list_units, read_chunks
from biosmith.errors import UsageError

OUT = Path("elsewhere") / "out.jsonl"


def write_files(folder: Path, sizes: list[int]) -> list[str]:
    """JSONL files of so many documents each; gives their ids in order."""
    folder.mkdir()
    ids = []
    for number, size in enumerate(sizes):
        names = [f"{number}-{i}" for i in range(size)]
        lines = [json.dumps({"id": name, "text": "Gout is rare."}) + "\n" for name in names]
        (folder / f"file{number:02d}.jsonl").write_text("".join(lines), encoding="utf-8")
        ids += names
    return ids


def ids_of(folder: Path, shard: Shard | None = None) -> list[str]:
    return [d.id for unit in list_units([folder], OUT, shard) for c in read_chunks(unit) for d in c.documents]


@pytest.mark.parametrize("total", [1, 2, 3, 5, 12, 40])
@pytest.mark.parametrize("sizes", [[5] * 12, [100, 1, 1, 1], [7], [3, 0, 9, 1, 30, 2]])
def test_shards_share_out_every_document_exactly_once(tmp_path: Path, sizes: list[int], total: int) -> None:
    ids = write_files(tmp_path / "in", sizes)
    shards = [ids_of(tmp_path / "in", Shard(i, total)) for i in range(1, total + 1)]
    assert sorted(id for shard in shards for id in shard) == sorted(ids)
    assert max(map(len, shards)) - min(map(len, shards)) <= max(sizes)


def test_shards_of_many_files_are_runs_of_files_in_order(tmp_path: Path) -> None:
    # Then no shard reads what is another's, and the shards' outputs one after the other are the whole in order.
    ids = write_files(tmp_path / "in", [5] * 12)
    shards = [ids_of(tmp_path / "in", Shard(i, 4)) for i in range(1, 5)]
    assert [len(shard) for shard in shards] == [15] * 4
    assert [id for shard in shards for id in shard] == ids


def test_one_large_file_is_shared_out_by_documents(tmp_path: Path) -> None:
    ids = write_files(tmp_path / "in", [100])
    assert ids_of(tmp_path / "in", Shard(2, 4)) == ids[1::4]


@pytest.mark.parametrize("text", ["0/4", "5/4", "4", "a/b", "-1/4", "1/0", "", "1/4/2"])
def test_a_wrong_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not I/N with I from 1 to N"):
        Shard.parse(text)


def test_shards_are_written_as_people_write_them() -> None:
    assert Shard.parse("3/100") == Shard(3, 100) and str(Shard.parse(" 07 / 10 ")) == "7/10"


def test_small_files_are_read_together_and_large_ones_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "in", [2, 2, 50, 2, 2])
    size = (tmp_path / "in" / "file00.jsonl").stat().st_size
    monkeypatch.setattr(module, "UNIT_BYTES", 3 * size)
    groups = [[p.name[4:6] for p in unit.paths] for unit in list_units([tmp_path / "in"], OUT)]
    assert groups == [["00", "01"], ["02"], ["03", "04"]]


def test_chunks_that_are_skipped_change_nothing_in_those_that_follow(tmp_path: Path) -> None:
    # Scores may depend in their last digits on who shares a batch: a resumed run must cut as the first one did.
    write_files(tmp_path / "in", [100])
    (unit,) = list_units([tmp_path / "in"], OUT)
    chunks = list(read_chunks(unit))
    assert [len(c.documents) for c in chunks] == [8, 16, 32, 44, 0] and chunks[-1].last
    for skip in range(len(chunks)):
        assert list(read_chunks(unit, skip)) == chunks[skip:]


def test_what_cannot_be_read_stands_in_the_chunk_where_it_was_met(tmp_path: Path) -> None:
    lines = [json.dumps({"id": str(i), "text": "Gout."}) for i in range(30)]
    lines.insert(10, "{broken")
    (tmp_path / "in.jsonl").write_text("\n".join([*lines, "[]"]), encoding="utf-8")
    (unit,) = list_units([tmp_path / "in.jsonl"], OUT)
    met = [[item["record"] for item in c.rejects] for c in read_chunks(unit)]
    assert met == [[], ["line 11"], ["line 32"], []]
    assert [[item["record"] for item in c.rejects] for c in read_chunks(unit, 2)] == met[2:]


def test_a_reader_that_breaks_costs_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = write_files(tmp_path / "in", [3, 3])
    read_file = module.formats.read_file

    def fragile(path: Path, **options: object) -> object:
        for document in read_file(path, **options):  # type: ignore[arg-type]
            if document.id == "0-2":
                raise RuntimeError("boom")
            yield document

    monkeypatch.setattr(module.formats, "read_file", fragile)
    (unit,) = list_units([tmp_path / "in"], OUT)
    first, closing = read_chunks(unit)
    assert [d.id for d in first.documents] == [id for id in ids if id != "0-2"]
    (item,) = [*first.rejects, *closing.rejects]
    assert (item["record"], item["reason"]) == ("after 0-1", "RuntimeError: boom")


def test_a_run_does_not_read_what_it_writes_itself(tmp_path: Path) -> None:
    ids = write_files(tmp_path / "in", [2, 2])
    before = list_units([tmp_path / "in"], OUT)
    for name in ("out.brat/1.txt", "out.brat.rejects.jsonl", "out.brat.manifest.json"):
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("{}", encoding="utf-8")
    assert list_units([tmp_path / "in"], tmp_path / "in" / "out.brat") == before
    assert [d.id for c in read_chunks(before[0]) for d in c.documents] == ids


def test_shards_that_would_read_each_others_output_are_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "in", [2, 2])
    with pytest.raises(UsageError, match="where other shards would read it"):
        list_units([tmp_path / "in"], tmp_path / "in" / "deeper" / "1.jsonl", Shard(1, 2))
