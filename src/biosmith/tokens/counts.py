"""Word counts of a corpus in bounded memory, equal for any number of workers.

Workers count white-space separated chunks of some parts of the corpus, cut the distinct chunks into words with the
tokenizer's own normaliser and pre-tokeniser, and write the counts sorted into partitions by a hash of the word. Each
partition is then added up on its own: the counts are exact, and no more than one partition is in memory. What is cut
off at the end (`most_words`) depends on the exact totals alone.
"""

from __future__ import annotations

import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from biosmith.errors import BadInput
from biosmith.processes import map_in_order
from biosmith.progress import progress
from biosmith.tokens.parts import TASKS_OF_A_WORKER, Part, list_parts, read_part
from biosmith.tokens.schemes import Scheme

PARTITIONS = 128  # at most; 300,000 words each for all of PubMed
CHUNKS_IN_MEMORY = 2_000_000  # distinct chunks a worker holds, some 250 MB
PARTS_AT_ONCE = 8  # parts counted before the counts are written down
LONGEST_WORD = 100  # BERT makes longer words [UNK]; they are sequences and addresses
MOST_WORDS = 1_000_000

_SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64())])


@dataclass(frozen=True)
class WordCounts:
    """Words of a corpus and how often each occurs, most frequent first, ties by code point.

    Attributes:
        words, counts: the words kept.
        total: occurrences of all words of the corpus, kept or not.
        distinct: distinct words of the corpus, kept or not.
        least: the lowest count that was kept.
        documents: documents read.
    """

    words: list[str]
    counts: list[int]
    total: int
    distinct: int
    least: int
    documents: int

    def characters(self) -> Counter[str]:
        """How often each character occurs in the words kept."""
        found: Counter[str] = Counter()
        for word, count in zip(self.words, self.counts, strict=True):
            for character in word:
                found[character] += count
        return found


def count_words(
    corpus: Path,
    scheme: Scheme,
    *,
    workers: int = 1,
    most_words: int = MOST_WORDS,
    scratch: Path | None = None,
) -> WordCounts:
    """Count the words of a corpus.

    Args:
        corpus: a corpus folder.
        scheme: how text is normalised and cut into words.
        workers: processes; the counts do not depend on it.
        most_words: words kept at most; all that occur less often than the last one are left out together.
        scratch: folder for the counts on their way (3 GB for all of PubMed); the system's if None.

    Raises:
        BadInput: the corpus has no words, or cannot be read.
    """
    parts = list_parts(corpus)
    size = max(1, min(PARTS_AT_ONCE, len(parts) // 16))
    groups = [parts[first : first + size] for first in range(0, len(parts), size)]
    documents = sum(part.documents for part in parts)
    partitions = min(PARTITIONS, 1 + documents // 1000)
    with tempfile.TemporaryDirectory(prefix=".counts-", dir=scratch) as folder:
        spills: list[Path] = []
        with progress("Counting words", documents) as advance:
            tasks = [(number, group) for number, group in enumerate(groups)]
            results = map_in_order(
                _count_group,
                tasks,
                workers,
                initializer=_prepare,
                arguments=(scheme, Path(folder), partitions),
                tasks_of_a_worker=TASKS_OF_A_WORKER,
            )
            for group, paths in zip(groups, results, strict=True):
                spills += paths
                advance(sum(part.documents for part in group))
        counts = _merge(spills, Path(folder), partitions, most_words, documents)
    if not counts.words:
        raise BadInput(corpus, "has no words")
    return counts


@dataclass(frozen=True)
class _Worker:
    words_of: Callable[[str], list[str]]
    folder: Path
    partitions: int


_worker: _Worker | None = None


def _prepare(scheme: Scheme, folder: Path, partitions: int) -> None:
    global _worker
    _worker = _Worker(scheme.word_cutter(), folder, partitions)


def _count_group(task: tuple[int, list[Part]]) -> list[Path]:
    assert _worker is not None, "_prepare was not called"
    worker, (number, parts) = _worker, task
    written: list[Path] = []
    chunks: Counter[str] = Counter()

    def spill() -> None:
        path = worker.folder / f"{number:07d}-{len(written)}.parquet"
        _write_counts(path, _count_words_of(chunks, worker.words_of), worker.partitions)
        written.append(path)
        chunks.clear()

    for part in parts:
        for documents in read_part(part):
            for passages in documents:
                for text in passages:
                    chunks.update(text.split(" "))
            if len(chunks) > CHUNKS_IN_MEMORY:
                spill()
    if chunks:
        spill()
    return written


def _count_words_of(chunks: Counter[str], words_of: Callable[[str], list[str]]) -> Counter[str]:
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word in words_of(chunk):
            words[word] += count
    return words


def _write_counts(path: Path, counts: Counter[str], partitions: int) -> None:
    """One row group a partition, so that a partition is read without the others."""
    words = [word for word in counts if len(word) <= LONGEST_WORD]
    hashes = np.fromiter((zlib.crc32(word.encode()) for word in words), np.uint32, len(words)) % partitions
    order = np.argsort(hashes, kind="stable")
    table = pa.table([words, [counts[word] for word in words]], schema=_SCHEMA).take(pa.array(order))
    bounds = np.searchsorted(hashes[order], np.arange(partitions + 1))
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd", use_dictionary=False) as writer:
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            writer.write_table(table.slice(first, last - first))


def _merge(spills: list[Path], folder: Path, partitions: int, most_words: int, documents: int) -> WordCounts:
    how_many: Counter[int] = Counter()  # count -> words that occur so often
    merged = folder / "merged.parquet"
    with (
        progress("Adding up", partitions, unit="partitions") as advance,
        pq.ParquetWriter(merged, _SCHEMA) as writer,
    ):
        for partition in range(partitions):
            table = _add_up(spills, partition)
            values, times = np.unique(table.column("count").to_numpy(), return_counts=True)
            how_many.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
            writer.write_table(table)
            advance(1)
    least = _least_count(how_many, most_words)
    kept: list[tuple[int, str]] = []
    for table in _row_groups(merged):
        for word, count in zip(
            table.column("word").to_pylist(), table.column("count").to_pylist(), strict=True
        ):
            if count >= least:
                kept.append((-count, word))
    kept.sort()
    return WordCounts(
        words=[word for _, word in kept],
        counts=[-count for count, _ in kept],
        total=sum(count * words for count, words in how_many.items()),
        distinct=sum(how_many.values()),
        least=least,
        documents=documents,
    )


def _add_up(spills: list[Path], partition: int) -> pa.Table:
    pieces = [pq.ParquetFile(path).read_row_group(partition) for path in spills]
    table = pa.concat_tables(pieces) if pieces else _SCHEMA.empty_table()
    return (
        table.group_by("word").aggregate([("count", "sum")]).rename_columns(["word", "count"]).cast(_SCHEMA)
    )


def _row_groups(path: Path) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        yield from map(file.read_row_group, range(file.num_row_groups))


def _least_count(how_many: Counter[int], most_words: int) -> int:
    """The smallest count such that no more than `most_words` words occur so often (all if they fit)."""
    kept, least = 0, max(how_many, default=1)
    for count in sorted(how_many, reverse=True):
        kept += how_many[count]
        if kept > most_words:
            break
        least = count
    return least
