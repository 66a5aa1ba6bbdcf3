"""The third stage: the documents that stay, in order, as Parquet shards of about equal size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from biosmith.artefact import write_by_rename
from biosmith.corpus.duplicates import Records, Selection
from biosmith.corpus.intake import save_array
from biosmith.text.formats.parquet import CHARACTERS_IN_A_GROUP, DOCUMENTS_IN_A_GROUP, SCHEMA


@dataclass(frozen=True)
class Slice:
    """Rows of a unit's Parquet file, as a mask saved beside it: those of `rows` that stay."""

    file: str
    mask: str
    rows: tuple[int, int]


@dataclass(frozen=True)
class Shard:
    """A shard that is to be written: its file and where its documents come from."""

    name: str
    documents: int
    slices: tuple[Slice, ...]


def plan_shards(records: Records, selection: Selection, folder: Path, shard_characters: int) -> list[Shard]:
    """Cut the staying documents, in order, into shards, and save each unit's mask of staying rows.

    A shard takes documents until it has `shard_characters` code points.
    """
    characters = np.where(selection.staying, records.column("characters"), 0).cumsum(dtype=np.int64)
    number = (
        np.maximum(characters - 1, 0) // shard_characters
    )  # of the shard that holds each record's last character
    rows = records.column("row")
    slices: dict[int, list[Slice]] = {}
    sizes: dict[int, int] = {}
    for unit, start, end in zip(
        records.units, records.bounds[:-1].tolist(), records.bounds[1:].tolist(), strict=True
    ):
        written = rows[start:end] >= 0
        staying = selection.staying[start:end][written]
        shard_of_row = number[start:end][written]
        mask = f"{unit.stem}.staying.npy"
        save_array(folder / mask, staying)
        for shard in np.unique(shard_of_row[staying]).tolist():
            its = np.flatnonzero(staying & (shard_of_row == shard))
            place = (int(its[0]), int(its[-1]) + 1)
            slices.setdefault(shard, []).append(Slice(f"{unit.stem}.parquet", mask, place))
            sizes[shard] = sizes.get(shard, 0) + len(its)
    return [
        Shard(f"part-{i:05d}.parquet", sizes[shard], tuple(slices[shard]))
        for i, shard in enumerate(sorted(slices))
    ]


def write_shard(shard: Shard, folder: Path, out: Path, advance: Callable[[int], None]) -> None:
    """Write one shard by rename, row groups bounded as `formats.parquet` bounds them."""
    with (
        write_by_rename(out / shard.name) as temporary,
        pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer,
    ):
        for table in _row_groups(_tables(shard, folder)):
            writer.write_table(table, row_group_size=len(table))
            advance(len(table))


def _tables(shard: Shard, folder: Path) -> Iterator[pa.Table]:
    for piece in shard.slices:
        start, end = piece.rows
        staying = np.load(folder / piece.mask)
        staying[:start] = staying[end:] = False
        with pq.ParquetFile(folder / piece.file) as file:
            row = 0
            for group in range(file.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                mask = staying[row : row + size]
                row += size
                if mask.any():
                    yield file.read_row_group(group).filter(pa.array(mask)).cast(SCHEMA)


def _row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        waiting.append(table)
        rows, size = rows + len(table), size + table.nbytes
        if rows >= DOCUMENTS_IN_A_GROUP or size >= CHARACTERS_IN_A_GROUP:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def count_staying(records: Records, selection: Selection) -> dict[str, int]:
    """Documents, passages, words and characters that stay."""
    staying = selection.staying
    counts = {
        name: int(records.column(name)[staying].sum(dtype=np.int64))
        for name in ("passages", "words", "characters")
    }
    return {"documents": int(staying.sum()), **counts}


def missing(shards: Sequence[Shard], out: Path) -> list[Shard]:
    """The shards that are not written yet; a file has its name only once it is whole."""
    return [shard for shard in shards if not (out / shard.name).is_file()]
