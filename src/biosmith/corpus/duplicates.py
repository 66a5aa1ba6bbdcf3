"""The second stage: which documents stay. One process, memory bounded by buckets on disk.

1. Versions. Of all documents of one name (`intake.identity`) the one of the highest version stays, then of the latest
   revision, then the one read last. A deletion removes what was read of its name before it.
2. Exact duplicates: equal sequences of words (case and punctuation make no difference).
3. Near duplicates: pairs that share a band of the signature (`signatures`) are candidates; a candidate is a duplicate
   if the similarity estimated from the whole signatures reaches the threshold. Duplicates of duplicates are one
   cluster.

Of exact and near duplicates the longest text stays (code points), then the latest revision, then the one read first.
Nothing here depends on chance, on the number of workers or on how the build was stopped and resumed.

Memory. The signatures stay on disk, 128 bytes a document: a band of them is a row of each unit's file, read when its
turn comes, and cut by the key into parts of at most `PART` documents that are sorted one after another. In memory are,
for each record, one band's key (8 bytes), the root of its cluster (4), its place among those that stay (8), and for
short times one or two columns more: measured 39 bytes a record, and up to 0.4 GB for the part that is being sorted. For
40 million documents that is 1.6 + 0.4 = 2.0 GB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biosmith.corpus.intake import DATE, DELETION, RECORD
from biosmith.corpus.signatures import BANDS, similarity
from biosmith.corpus.units import Unit
from biosmith.progress import progress

PART = 1 << 22  # documents sorted at a time
ALL_PAIRS = 32  # in a bucket of so many documents every pair is compared
LEADERS = 256  # in a larger one, at most so many documents are compared with all others
_PAIRS_AT_A_TIME = 1 << 17
_MEMBERS_AT_A_TIME = 1 << 19

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Records:
    """The records and signatures of all units, column by column, from disk. n is the number of records."""

    def __init__(self, folder: Path, units: Sequence[Unit]) -> None:
        self.folder, self.units = folder, units
        sizes = [len(self._records(unit)) for unit in units]
        self.bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def column(self, name: str) -> NDArray[Any]:
        """A field of all records; [n]."""
        return np.concatenate(
            [np.empty(0, RECORD)[name], *(self._records(unit)[name] for unit in self.units)]
        )

    def band(self, number: int) -> NDArray[np.uint64]:
        """A band of the signatures of all records, 0 for records without one; [n]."""
        keys = np.zeros(len(self), np.uint64)
        for unit, (start, end) in zip(self.units, pairwise(self.bounds.tolist()), strict=True):
            row = self._records(unit)["row"]
            signatures = self._signatures(unit)
            if signatures.shape[1]:
                keys[start:end][row >= 0] = signatures[number]
        return keys

    def signatures(self, ids: Ids) -> NDArray[np.uint64]:
        """Signatures of records that have one, by ascending id; [BANDS, len(ids)]."""
        found = np.empty((BANDS, len(ids)), np.uint64)
        cuts = np.searchsorted(ids, self.bounds)
        for i in np.flatnonzero(np.diff(cuts)).tolist():
            start, end = cuts[i], cuts[i + 1]
            rows = self._records(self.units[i])["row"][ids[start:end] - self.bounds[i]]
            found[:, start:end] = self._signatures(self.units[i])[:, rows]
        return found

    def _records(self, unit: Unit) -> NDArray[Any]:
        records: NDArray[Any] = np.load(self.folder / f"{unit.stem}.records.npy", mmap_mode="r")
        return records

    def _signatures(self, unit: Unit) -> NDArray[Any]:
        signatures: NDArray[Any] = np.load(self.folder / f"{unit.stem}.signatures.npy", mmap_mode="r")
        return signatures


@dataclass
class Selection:
    """Which records stay, and why the others do not.

    Attributes:
        staying: bool [n], one for every record.
        removed: counts of those that passed the filters but do not stay: "older version", "deleted",
            "exact duplicate", "near duplicate".
        similar_bucket_cuts: buckets so large that not every document was compared (see `LEADERS`).
    """

    staying: Mask
    removed: Counter[str]
    similar_bucket_cuts: int = 0


def select(records: Records, *, deduplicate: bool, similarity_threshold: float) -> Selection:
    """Decide which records stay, by the three steps of the module."""
    selection = Selection(records.column("row") >= 0, Counter())
    _keep_newest_versions(records, selection)
    if deduplicate:
        _keep_one_of_equal(records, selection)
        _keep_one_of_similar(records, selection, similarity_threshold)
    return selection


def _keep_newest_versions(records: Records, selection: Selection) -> None:
    keys = records.column("key")
    named = np.flatnonzero(keys)
    deletion = records.column("row") == DELETION
    rank = records.column("rank")
    for ids, starts in _groups(keys, named, rank=rank):
        group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ids)))
        is_deletion = deletion[ids]
        last_deletion = np.maximum.reduceat(np.where(is_deletion, ids, -1), starts)
        deleted = ~is_deletion & (ids < last_deletion[group])
        place = np.where(is_deletion | deleted, -1, np.arange(len(ids)))
        newest = np.maximum.reduceat(place, starts)
        older = (place >= 0) & (place != newest[group])
        _remove(selection, ids[deleted], "deleted")
        _remove(selection, ids[older], "older version")


def _keep_one_of_equal(records: Records, selection: Selection) -> None:
    content = records.column("content")
    best = _preference(records)
    for ids, starts in _groups(content, np.flatnonzero(selection.staying & (content != 0))):
        _remove_all_but_best(selection, ids, starts, best, "exact duplicate")


def _keep_one_of_similar(records: Records, selection: Selection, threshold: float) -> None:
    staying = np.flatnonzero(selection.staying)
    root = np.arange(len(records), dtype=np.int64 if len(records) >= 2**31 else np.int32)
    with progress("Finding near duplicates", total=BANDS, unit="bands") as advance:
        for number in range(BANDS):
            for ids, starts in _groups(records.band(number), staying):
                ids, starts = _with_several_roots(ids, starts, root)
                for members, cuts in _pieces(ids, starts):
                    first, second, cut = _similar_pairs(records, members, cuts, root, threshold)
                    selection.similar_bucket_cuts += cut
                    _join(root, first, second)
            advance(1)
    _flatten(root)
    best = _preference(records)
    for ids, starts in _groups(root, staying):
        _remove_all_but_best(selection, ids, starts, best, "near duplicate")


def _groups(
    values: NDArray[Any], among: Ids, *, rank: NDArray[np.int64] | None = None
) -> Iterator[tuple[Ids, Ids]]:
    """Ids of equal values, part by part: ids sorted by (value, rank, id), and where each group begins.

    Groups of one are left out.
    """
    parts = max(1, -(-len(among) // PART))
    for part in range(parts):
        ids = among if parts == 1 else _of_part(values, among, part, parts)
        mine = values[ids]
        if rank is None:
            order = np.argsort(mine, kind="stable")
        else:
            order = np.lexsort((rank[ids], mine))
        ids, mine = ids[order], mine[order]
        fresh = np.ones(len(ids), bool)
        fresh[1:] = mine[1:] != mine[:-1]
        starts = np.flatnonzero(fresh)
        sizes = np.diff(starts, append=len(ids))
        ids = ids[np.repeat(sizes > 1, sizes)]
        sizes = sizes[sizes > 1]
        if len(sizes):
            yield ids, np.concatenate([[0], np.cumsum(sizes)[:-1]])


def _of_part(values: NDArray[Any], among: Ids, part: int, parts: int) -> Ids:
    """The ids whose values, divided by the number of parts, leave the remainder `part`; a slice at a time."""
    divisor = np.asarray(parts, values.dtype)
    slices = (among[start : start + PART] for start in range(0, len(among), PART))
    return np.concatenate([ids[values[ids] % divisor == part] for ids in slices])


def _preference(records: Records) -> NDArray[np.uint64]:
    """A number that is larger the rather a record stays: by length, then by date of revision."""
    length = np.minimum(records.column("characters"), (1 << 32) - 1).astype(np.uint64)
    date = (records.column("rank") % DATE).astype(np.uint64)  # below 2^27
    return (length << np.uint64(27)) | date


def _remove_all_but_best(
    selection: Selection, ids: Ids, starts: Ids, best: NDArray[np.uint64], reason: str
) -> None:
    """Ids ascend within a group, so that of equally good ones the first read stays."""
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ids)))
    top = np.maximum.reduceat(best[ids], starts)
    winner = np.minimum.reduceat(np.where(best[ids] == top[group], ids, np.iinfo(np.int64).max), starts)
    _remove(selection, ids[ids != winner[group]], reason)


def _remove(selection: Selection, ids: Ids, reason: str) -> None:
    counted = ids[selection.staying[ids]]  # what a filter removed already keeps its first reason
    selection.staying[counted] = False
    if len(counted):
        selection.removed[reason] += len(counted)


def _with_several_roots(ids: Ids, starts: Ids, root: NDArray[Any]) -> tuple[Ids, Ids]:
    """The groups whose members are not known to be one cluster yet."""
    if not len(starts):
        return ids, starts
    roots = _roots(root, ids)
    several = np.minimum.reduceat(roots, starts) != np.maximum.reduceat(roots, starts)
    sizes = np.diff(starts, append=len(ids))
    kept = sizes[several]
    return ids[np.repeat(several, sizes)], np.concatenate([[0], np.cumsum(kept)])[:-1] if len(
        kept
    ) else starts[:0]


def _pieces(ids: Ids, starts: Ids) -> Iterator[tuple[Ids, Ids]]:
    """Whole groups, about `_MEMBERS_AT_A_TIME` documents at a time."""
    ends = np.append(starts[1:], len(ids)) if len(starts) else starts
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(ends, starts[first] + _MEMBERS_AT_A_TIME, side="left"))
        last = min(max(last, first), len(starts) - 1)
        yield ids[starts[first] : ends[last]], starts[first : last + 1] - starts[first]
        first = last + 1


def _similar_pairs(
    records: Records, ids: Ids, starts: Ids, root: NDArray[Any], threshold: float
) -> tuple[Ids, Ids, int]:
    """Pairs of ids that share a bucket and are similar; also the number of buckets that were too large."""
    order = np.argsort(ids)
    signatures = np.empty((BANDS, len(ids)), np.uint64)
    signatures[:, order] = records.signatures(ids[order])
    sizes = np.diff(starts, append=len(ids))
    found: list[tuple[Ids, Ids]] = []
    small = np.repeat(sizes <= ALL_PAIRS, sizes)
    group = np.repeat(np.arange(len(sizes)), sizes)
    roots = _roots(root, ids)
    for distance in range(1, min(ALL_PAIRS, int(sizes.max(initial=1)))):
        first = np.flatnonzero(small[:-distance] & (group[:-distance] == group[distance:]))
        first = first[roots[first] != roots[first + distance]]
        for some in np.array_split(first, -(-len(first) // _PAIRS_AT_A_TIME) or 1):
            alike = similarity(signatures[:, some], signatures[:, some + distance]) >= threshold
            found.append((ids[some[alike]], ids[some[alike] + distance]))
    cut = 0
    for i in np.flatnonzero(sizes > ALL_PAIRS):
        start, end = starts[i], starts[i] + sizes[i]
        pairs, complete = _pairs_with_leaders(ids[start:end], signatures[:, start:end], threshold)
        found += pairs
        cut += not complete
    if not found:
        return ids[:0], ids[:0], cut
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found]), cut


def _pairs_with_leaders(
    ids: Ids, signatures: NDArray[np.uint64], threshold: float
) -> tuple[list[tuple[Ids, Ids]], bool]:
    """In a large bucket: the first document is compared with all others, those like it leave, and so on."""
    left = np.arange(len(ids))
    pairs: list[tuple[Ids, Ids]] = []
    for _ in range(LEADERS):
        if len(left) < 2:
            return pairs, True
        leader, others = left[0], left[1:]
        alike = np.concatenate(
            [
                similarity(signatures[:, leader : leader + 1], signatures[:, some]) >= threshold
                for some in np.array_split(others, -(-len(others) // _PAIRS_AT_A_TIME))
            ]
        )
        pairs.append((np.full(int(alike.sum()), ids[leader]), ids[others[alike]]))
        left = others[~alike]
    return pairs, len(left) < 2


def _join(root: NDArray[Any], first: Ids, second: Ids) -> None:
    """Make one cluster of each pair's clusters; the root of a cluster is its smallest id."""
    while len(first):
        one, other = _roots(root, first), _roots(root, second)
        apart = one != other
        first, second = first[apart], second[apart]
        low, high = np.minimum(one, other)[apart], np.maximum(one, other)[apart]
        np.minimum.at(root, high, low.astype(root.dtype))


def _roots(root: NDArray[Any], ids: Ids) -> Ids:
    found = root[ids]
    while True:
        above = root[found]
        if np.array_equal(above, found):
            return found.astype(np.int64)
        found = above


def _flatten(root: NDArray[Any]) -> None:
    while True:
        above = root[root]
        if np.array_equal(above, root):
            return
        root[:] = above
