"""Inputs as units, and units as chunks: what is read together, annotated together and noted down together.

Units and chunks depend on the files alone, never on workers, nodes or where a run was stopped; a shard is a run of
units, or every N-th document where there are too few files to share out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from biosmith.annotate.annotator import chunked
from biosmith.errors import UsageError
from biosmith.rejects import Rejects
from biosmith.text import formats
from biosmith.text.document import Document

UNIT_BYTES = 8 * 2**20  # small files are read together up to this size
FAIR = 1.5  # shards are runs of files unless that makes the largest this many times the mean


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several runs that share the input: the `number`-th of `total`, from 1."""

    number: int = 1
    total: int = 1

    @staticmethod
    def parse(text: str) -> Shard:
        """ "3/100" as a shard.

        Raises:
            UsageError: it is not I/N with 1 <= I <= N.
        """
        match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"shard {text!r} is not I/N with I from 1 to N, as in 3/100")
        return Shard(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


@dataclass(frozen=True, slots=True)
class Unit:
    """Files that are read one after the other, and which of their documents: those at `start`, `start + step`, ..."""

    number: int
    paths: tuple[Path, ...]
    start: int = 0
    step: int = 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """Documents to annotate together.

    Attributes:
        unit, number: which chunk of which unit it is.
        documents: annotated together; none in the chunk that closes a unit.
        rejects: what the reader set aside since the chunk before, as `Rejects` lists it.
        last: whether it closes its unit.
    """

    unit: int
    number: int
    documents: list[Document]
    rejects: list[dict[str, str]]
    last: bool = False


def find_inputs(inputs: Sequence[Path], out: Path) -> list[Path]:
    """The files of inputs, without those that a run that makes `out` writes beside it or in it.

    Raises:
        UsageError: an input does not exist.
    """
    made = [
        out.with_name(f"{out.name}{ending}").absolute() for ending in ("", ".rejects.jsonl", ".manifest.json")
    ]
    return [
        p for p in formats.find_files(list(inputs)) if not {p.absolute(), *p.absolute().parents} & {*made}
    ]


def list_units(inputs: Sequence[Path], out: Path, shard: Shard | None = None) -> list[Unit]:
    """The units of the files that `find_inputs` gives, or those of one shard of them.

    Raises:
        UsageError: an input does not exist, or `out` lies where other shards find their input.
    """
    shard = shard or Shard()
    if shard.total > 1 and (within := [i for i in inputs if i.absolute() in out.absolute().parents]):
        raise UsageError(
            f"{out} lies in {within[0]}, where other shards would read it; choose another folder"
        )
    sized = [(path, path.stat().st_size) for path in find_inputs(inputs, out)]
    start, step = 0, 1
    mine = _shares(sized, shard.total)[shard.number - 1]
    if shard.total > 1 and not _is_fair(sized, shard.total):
        mine, start, step = sized, shard.number - 1, shard.total
    return [Unit(number, paths, start, step) for number, paths in enumerate(_grouped(mine))]


def _shares(sized: Sequence[tuple[Path, int]], total: int) -> list[list[tuple[Path, int]]]:
    """Runs of files of about equal size: a file belongs to the share in which its middle byte lies."""
    shares: list[list[tuple[Path, int]]] = [[] for _ in range(total)]
    # Every file costs something, however small it is.
    weights = [size + 1 for _, size in sized]
    everything, before = sum(weights), 0
    for item, weight in zip(sized, weights, strict=True):
        shares[min(total - 1, (2 * before + weight) * total // (2 * everything))].append(item)
        before += weight
    return shares


def _is_fair(sized: Sequence[tuple[Path, int]], total: int) -> bool:
    sizes = [sum(size for _, size in share) for share in _shares(sized, total)]
    return len(sized) >= total and max(sizes) <= FAIR * max(1, sum(sizes)) / total


def _grouped(sized: Iterable[tuple[Path, int]]) -> Iterator[tuple[Path, ...]]:
    group: list[Path] = []
    together = 0
    for path, size in sized:
        if group and together + size > UNIT_BYTES:
            yield tuple(group)
            group, together = [], 0
        group.append(path)
        together += size
    if group:
        yield tuple(group)


def read_chunks(unit: Unit, skip: int = 0) -> Iterator[Chunk]:
    """The chunks of a unit in order, without the first `skip` ones; the last one closes the unit.

    Whatever is wrong with a file is in the chunks' `rejects`, and reading goes on.
    """
    rejects = Rejects(keep=2**62)
    number = 0
    for documents in chunked(_documents(unit, rejects)):
        if number >= skip:
            yield Chunk(unit.number, number, documents, rejects.items)
        rejects.items = []
        number += 1
    yield Chunk(unit.number, number, [], rejects.items, last=True)


def _documents(unit: Unit, rejects: Rejects) -> Iterator[Document]:
    index = 0
    for path in unit.paths:
        last = "start of file"
        try:
            for document in formats.read_file(path, rejects=rejects):
                last = f"after {document.id}"
                if index % unit.step == unit.start:
                    yield document
                index += 1
        except MemoryError:
            raise
        except Exception as error:  # a fault of a reader costs the rest of one file, not the run
            rejects.add(path, last, f"{type(error).__name__}: {error}")
