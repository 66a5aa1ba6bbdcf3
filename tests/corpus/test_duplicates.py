"""What stays: versions, deletions, exact and near duplicates, against hand-made and brute-force answers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from biosmith.corpus import duplicates
from biosmith.corpus.duplicates import Records, Selection, select
from biosmith.corpus.intake import DATE, DELETION, FILTERED, RECORD, save_array
from biosmith.corpus.signatures import BANDS, sign, similarity
from biosmith.corpus.units import Source, Unit


def records_of(folder: Path, *units: Sequence[dict[str, Any]]) -> Records:
    """Units as the first stage would write them; a record has "text", or is {"deletes": key} or {"filtered": True}."""
    made = []
    for number, rows in enumerate(units):
        unit = Unit(number, (Source("x", 0, 0),))
        records = np.zeros(len(rows), RECORD)
        texts: list[str] = []
        for record, row in zip(records, rows, strict=True):
            record["key"], record["rank"] = row.get("key", row.get("deletes", 0)), row.get("rank", 0)
            if "deletes" in row:
                record["row"] = DELETION
            elif row.get("filtered"):
                record["row"] = FILTERED
            else:
                record["row"] = len(texts)
                record["characters"] = row.get("characters", len(row["text"]))
                texts.append(row["text"])
        signed = sign(texts)
        records["content"][records["row"] >= 0] = signed.content
        save_array(folder / f"{unit.stem}.records.npy", records)
        save_array(folder / f"{unit.stem}.signatures.npy", signed.bands)
        made.append(unit)
    return Records(folder, made)


def staying(selection: Selection) -> list[int]:
    return np.flatnonzero(selection.staying).tolist()


def words(count: int, seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(f"w{draw.randrange(10**6)}" for _ in range(count))


def choose(records: Records, threshold: float = 0.8) -> Selection:
    return select(records, deduplicate=True, similarity_threshold=threshold)


def test_the_highest_version_then_the_latest_revision_then_the_last_read_stays(tmp_path: Path) -> None:
    rows = [
        {"key": 1, "rank": 2 * DATE + 20200101, "text": words(50, 1)},  # version 2
        {"key": 1, "rank": 1 * DATE + 20250101, "text": words(50, 2)},  # version 1, revised later
        {"key": 2, "rank": DATE + 20200101, "text": words(50, 3)},
        {"key": 2, "rank": DATE + 20210101, "text": words(50, 4)},
        {"key": 3, "rank": 0, "text": words(50, 5)},
        {"key": 3, "rank": 0, "text": words(50, 6)},
        {"text": words(50, 7)},  # no name, no versions
        {"text": words(50, 8)},
    ]
    selection = choose(records_of(tmp_path, rows[:3], rows[3:]))
    assert staying(selection) == [0, 3, 5, 6, 7]
    assert dict(selection.removed) == {"older version": 3}


def test_a_deletion_removes_what_was_read_before_it_and_not_what_comes_later(tmp_path: Path) -> None:
    rows = [
        {"key": 1, "text": words(50, 1)},
        {"key": 2, "text": words(50, 2)},
        {"deletes": 1},
        {"deletes": 2},
        {"key": 2, "text": words(50, 3)},  # published again
        {"deletes": 9},  # of something never read
    ]
    selection = choose(records_of(tmp_path, rows[:2], rows[2:]))
    assert staying(selection) == [4]
    assert dict(selection.removed) == {"deleted": 2}


def test_an_old_version_does_not_come_back_when_the_new_one_was_filtered(tmp_path: Path) -> None:
    rows = [{"key": 1, "rank": 1, "text": words(50, 1)}, {"key": 1, "rank": 2, "filtered": True}]
    selection = choose(records_of(tmp_path, rows))
    assert staying(selection) == []
    assert dict(selection.removed) == {"older version": 1}  # the filtered one keeps its own reason


def test_of_equal_texts_the_longest_then_the_latest_then_the_first_stays(tmp_path: Path) -> None:
    text = words(60, 1)
    rows = [
        {"text": text},
        {"text": text.replace(" ", ",  "), "rank": 0},  # more characters of punctuation
        {"text": words(60, 2), "rank": DATE + 20200101},
        {"text": words(60, 2), "rank": DATE + 20210101},
        {"text": words(60, 3)},
        {"text": words(60, 3)},
    ]
    selection = choose(records_of(tmp_path, rows[:1], rows[1:4], rows[4:]))
    assert staying(selection) == [1, 3, 4]
    assert dict(selection.removed) == {"exact duplicate": 3}


def test_near_duplicates_go_and_texts_below_the_threshold_stay(tmp_path: Path) -> None:
    base = words(200, 1).split()
    near = [*base[:100], "changed", *base[101:], "longer"]
    far = [
        w if i % 5 else "changed" for i, w in enumerate(base)
    ]  # a fifth of the words: similarity about 0.2
    rows = [{"text": " ".join(t)} for t in (base, near, far)] + [{"text": words(200, 2)}]
    selection = choose(records_of(tmp_path, rows))
    assert staying(selection) == [1, 2, 3]  # of the near ones the longer
    assert dict(selection.removed) == {"near duplicate": 1}


def test_candidates_are_verified(tmp_path: Path) -> None:
    # Similarity about 0.6: a shared band is likely among many pairs (1 - (1 - 0.6^8)^16 = 0.24), yet nothing goes.
    rows = []
    for seed in range(60):
        base = words(200, seed).split()
        rows += [{"text": " ".join(base)}, {"text": " ".join([*base[:150], *words(50, 1000 + seed).split()])}]
    records = records_of(tmp_path, rows)
    bands = records.signatures(np.arange(len(rows)))
    assert (bands[:, ::2] == bands[:, 1::2]).any()  # there were candidates
    assert not choose(records).removed


def brute_force(texts: list[str], threshold: float) -> set[frozenset[int]]:
    """Clusters of all pairs that share a band and are similar, by comparing every pair."""
    bands = sign(texts).bands
    cluster = list(range(len(texts)))
    for i in range(len(texts)):
        for j in range(i):
            shares = (bands[:, i] == bands[:, j]).any()
            if shares and similarity(bands[:, i : i + 1], bands[:, j : j + 1])[0] >= threshold:
                a, b = cluster[i], cluster[j]
                cluster = [a if c == b else c for c in cluster]
    return {frozenset(i for i, c in enumerate(cluster) if c == one) for one in cluster}


@pytest.mark.parametrize("part", [1 << 24, 7])
def test_clusters_equal_those_of_comparing_every_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    # Chains of ever more changed texts; with parts of 7 documents every band is cut into many buckets.
    monkeypatch.setattr(duplicates, "PART", part)
    monkeypatch.setattr(duplicates, "_MEMBERS_AT_A_TIME", 5 if part == 7 else 1000)
    monkeypatch.setattr(duplicates, "_PAIRS_AT_A_TIME", 3 if part == 7 else 1000)
    draw = random.Random(9)
    texts = []
    for seed in range(25):
        current = words(150, seed).split()
        for _ in range(draw.choice([1, 2, 5])):
            texts.append(" ".join(current))
            current = list(current)
            for place in draw.sample(range(150), draw.choice([2, 4, 6])):
                current[place] = f"n{draw.randrange(10**6)}"
    draw.shuffle(texts)
    selection = choose(records_of(tmp_path, *([{"text": t} for t in texts[i::3]] for i in range(3))))
    ordered = [t for i in range(3) for t in texts[i::3]]
    clusters = brute_force(ordered, 0.8)
    # one of each cluster stays: the longest, then the first
    expected = sorted(max(c, key=lambda i: (len(ordered[i]), -i)) for c in clusters)
    assert staying(selection) == expected
    assert selection.removed["near duplicate"] == len(texts) - len(clusters)


def test_large_buckets_of_copies_are_one_cluster(tmp_path: Path) -> None:
    # 200 texts that differ in one word at the end: far more than are compared all with all.
    base = words(300, 1)
    rows = [{"text": f"{base} end{i:03d}"} for i in range(200)]
    selection = choose(records_of(tmp_path, rows))
    assert staying(selection) == [0]
    assert selection.similar_bucket_cuts == 0


def test_a_bucket_of_too_many_unlike_texts_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "ALL_PAIRS", 2)
    monkeypatch.setattr(duplicates, "LEADERS", 3)
    records = records_of(tmp_path, [{"text": words(100, i)} for i in range(10)])
    signatures = records.signatures(np.arange(10))
    signatures[0] = 7  # one band in common, nothing else
    save_array(tmp_path / "unit-000000.signatures.npy", signatures)
    selection = choose(records)
    assert len(staying(selection)) == 10
    assert selection.similar_bucket_cuts == 1


def test_without_deduplication_equal_texts_stay_but_old_versions_go(tmp_path: Path) -> None:
    rows = [{"text": "a b c"}, {"text": "a b c"}, {"key": 1, "text": "d"}, {"key": 1, "text": "e"}]
    selection = select(records_of(tmp_path, rows), deduplicate=False, similarity_threshold=0.8)
    assert staying(selection) == [0, 1, 3]


def test_columns_and_bands_are_those_of_all_units_in_order(tmp_path: Path) -> None:
    rows = [
        {"text": words(30, 1)},
        {"deletes": 5},
        {"text": words(30, 2)},
        {"filtered": True},
        {"text": words(30, 3)},
    ]
    records = records_of(tmp_path, rows[:2], [], rows[2:])
    assert len(records) == 5
    assert records.column("row").tolist() == [0, DELETION, 0, FILTERED, 1]
    wanted = sign([row["text"] for row in rows if "text" in row]).bands
    assert np.array_equal(records.signatures(np.array([0, 2, 4])), wanted)
    assert all(np.array_equal(records.band(b)[[0, 2, 4]], wanted[b]) for b in range(BANDS))
