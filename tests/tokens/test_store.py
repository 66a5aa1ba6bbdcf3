"""The token store gives back what went in, opens at once, and notices damage."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path

import numpy as np
import pytest

from biosmith.artefact import Manifest, load_manifest
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.tokens.store import (
    OFFSETS,
    ShardArrays,
    StoreWriter,
    Tokens,
    TokenStore,
    VocabularyMark,
    map_shard,
    token_dtype,
    write_store,
)

MARK = VocabularyMark(size=30_522, digest="3f9a1c" + "0" * 58, cased=False, special_tokens={"cls": 2})


def make_documents(count: int, size: int = 30_522) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 60, count)
    return [
        (generator.integers(0, size, n), generator.random(n) < 0.7, generator.random(n) < 0.1)
        for n in lengths
    ]


def assert_holds(store: TokenStore, documents: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
    order = np.random.default_rng(1).permutation(len(documents))
    tokens = store.gather(order)
    for place, document in enumerate(order):
        cut = slice(tokens.offsets[place], tokens.offsets[place + 1])
        for found, expected in zip(tokens[:3], documents[document], strict=True):
            np.testing.assert_array_equal(found[cut], expected)


def test_documents_come_back_in_any_order_from_any_shard(tmp_path: Path) -> None:
    # Shards of 100 tokens: documents lie in some 60 shards and begin at every bit of a byte.
    documents = make_documents(200)
    store = write_store(tmp_path / "store", MARK, documents, shard_tokens=100)
    assert len(list((tmp_path / "store").glob("shard-*.npy"))) > 10
    assert store.documents == 200
    assert store.tokens == sum(len(ids) for ids, _, _ in documents)
    assert store.lengths.dtype == np.int32
    assert store.lengths.tolist() == [len(ids) for ids, _, _ in documents]
    assert_holds(store, documents)
    assert store.gather([3, 3]).ids.tolist() == documents[3][0].tolist() * 2
    assert len(store.gather([]).ids) == 0


def test_a_part_of_a_document_is_the_cut_of_the_whole(tmp_path: Path) -> None:
    documents = [(np.arange(50), np.arange(50) % 3 == 0, np.arange(50) % 7 == 0)] * 2
    store = write_store(tmp_path / "store", MARK, documents)
    part = store.gather([1, 0], starts=[5, 11], stops=[20, 50])
    assert part.ids.tolist() == [*range(5, 20), *range(11, 50)]
    assert part.word_starts[:3].tolist() == [False, True, False]  # tokens 5, 6, 7: only 6 is a multiple of 3
    for starts, stops in ([[-1], [3]], [[4], [3]], [[0], [51]]):
        with pytest.raises(IndexError, match="outside"):
            store.gather([0], starts, stops)
    with pytest.raises(IndexError, match="0 to 1"):
        store.gather([2])


def test_ids_take_two_bytes_where_they_fit_and_four_where_not(tmp_path: Path) -> None:
    assert token_dtype(65_536) is np.uint16  # the largest id is then 65,535
    assert token_dtype(65_537) is np.uint32
    mark = VocabularyMark(size=250_002, digest="0" * 64, cased=True)
    documents = make_documents(20, 250_002)
    store = write_store(tmp_path / "store", mark, documents)
    assert map_shard(tmp_path / "store" / "shard-00000.npy").ids.dtype == np.uint32
    assert_holds(store, documents)


def test_documents_without_tokens_are_left_out(tmp_path: Path) -> None:
    empty: tuple[list[int], list[bool], list[bool]] = ([], [], [])
    store = write_store(
        tmp_path / "store", MARK, [empty, ([7], [True], [True]), empty, ([8], [True], [True])]
    )
    assert store.lengths.tolist() == [1, 1]
    assert store.gather([0, 1]).ids.tolist() == [7, 8]
    assert write_store(tmp_path / "none", MARK, [empty]).documents == 0


def test_a_store_survives_pickling_for_data_workers(tmp_path: Path) -> None:
    documents = make_documents(10)
    store = write_store(tmp_path / "store", MARK, documents)
    store.gather([1])
    assert store.warm() == sum(p.stat().st_size for p in (tmp_path / "store").glob("shard-*"))
    assert_holds(pickle.loads(pickle.dumps(store)), documents)


def test_damage_is_found_and_the_shard_named(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    write_store(folder, MARK, make_documents(100), shard_tokens=500)
    shard = folder / "shard-00001.npy"
    whole = shard.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    shard.write_bytes(flipped)
    TokenStore.open(folder)  # one flipped bit does not change the size
    with pytest.raises(BadInput, match=r"shard-00001\.npy: is damaged"):
        TokenStore.open(folder, verify="full")
    shard.write_bytes(whole[:-1])
    with pytest.raises(BadInput, match=r"shard-00001\.npy: is cut"):
        TokenStore.open(folder)
    shard.unlink()
    with pytest.raises(BadInput, match=r"shard-00001\.npy: is missing"):
        TokenStore.open(folder)
    shard.write_bytes(b"not an array" * 10)
    with pytest.raises(BadInput, match=r"shard-00001\.npy: is not a shard"):
        TokenStore.open(folder, verify="none").gather(range(100))
    (folder / OFFSETS).write_bytes(b"")
    with pytest.raises(BadInput, match=r"offsets\.npy: cannot be read"):
        TokenStore.open(folder, verify="none")


def test_shards_that_were_taken_out_of_the_manifest_are_missed(tmp_path: Path) -> None:
    write_store(tmp_path / "store", MARK, make_documents(100), shard_tokens=500)
    file = tmp_path / "store" / "manifest.json"
    written = json.loads(file.read_text(encoding="utf-8"))
    del written["files"]["shard-00001.npy"]
    file.write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(BadInput, match=r"manifest\.json: names shards whose documents and tokens"):
        TokenStore.open(tmp_path / "store")


def test_another_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no manifest"):
        TokenStore.open(tmp_path)
    Manifest("corpus").save(tmp_path)
    with pytest.raises(UsageError, match="is a corpus artefact, not a tokens artefact"):
        TokenStore.open(tmp_path)
    Manifest("tokens").save(tmp_path)
    with pytest.raises(BadInput, match="not the manifest of a token store"):
        TokenStore.open(tmp_path)


def test_tokens_of_another_vocabulary_are_refused_with_both_named() -> None:
    other = VocabularyMark(size=32_768, digest="91be07" + "0" * 58, cased=True)
    with pytest.raises(
        BiosmithError,
        match=r"3f9a1c \(30,522 pieces, uncased\); models/x has 91be07 \(32,768 pieces, cased\)",
    ):
        MARK.require(other, "tokens/pubmed", "models/x")
    MARK.require(MARK, "tokens/pubmed", "models/x")


def test_ten_billion_tokens_open_in_two_seconds(tmp_path: Path) -> None:
    # 150 shards of 2^26 tokens, the arrays left as holes of the file system; documents of 512 tokens.
    shards, tokens, length = 150, 1 << 26, 512
    folder = tmp_path / "store"
    folder.mkdir()
    documents = tokens // length
    files = {}
    for number in range(shards):
        path = folder / f"shard-{number:05d}.npy"
        with path.open("wb") as stream:
            for dtype, count in (
                ("<i4", documents),
                ("<u2", tokens),
                ("|u1", tokens // 8),
                ("|u1", tokens // 8),
            ):
                header = {"descr": dtype, "fortran_order": False, "shape": (count,)}
                np.lib.format.write_array_header_1_0(stream, header)
                stream.seek(count * np.dtype(dtype).itemsize, 1)
            stream.truncate()
        files[path.name] = {
            "bytes": path.stat().st_size,
            "digest": "",
            "documents": documents,
            "tokens": tokens,
        }
    np.save(folder / OFFSETS, np.arange(0, shards * tokens + 1, length, dtype=np.int64))
    files[OFFSETS] = {"bytes": (folder / OFFSETS).stat().st_size, "digest": ""}
    counts = {"documents": shards * documents, "tokens": shards * tokens}
    Manifest("tokens", config={"vocabulary": MARK}, files=files, counts=counts).save(folder)
    began = time.perf_counter()
    store = TokenStore.open(folder)
    found = store.gather(np.arange(0, store.documents, store.documents // 300))
    assert time.perf_counter() - began < 2.0  # the promise is about opening; reading 300 documents is a bonus
    assert store.tokens > 10_000_000_000
    assert len(found.ids) == 512 * (len(found.offsets) - 1)


def test_a_writer_goes_on_after_the_shards_of_an_earlier_run(tmp_path: Path) -> None:
    documents = [Tokens(np.arange(30), np.ones(30, bool), np.zeros(30, bool), np.array([0, 10, 30]))] * 6
    whole = StoreWriter(tmp_path / "whole", MARK, shard_tokens=50)
    closed = [whole.append(each) for each in documents]
    assert closed == [False, True] * 3
    whole.finish(Manifest("tokens"))
    first = StoreWriter(tmp_path / "resumed", MARK, shard_tokens=50)
    for each in documents[:3]:
        first.append(each)
    second = StoreWriter(tmp_path / "resumed", MARK, shard_tokens=50, done=first.shards)
    for each in documents[2:]:  # the third lay in the shard that was never closed
        second.append(each)
    second.finish(Manifest("tokens"))
    assert load_manifest(tmp_path / "whole").files == load_manifest(tmp_path / "resumed").files


def test_shard_arrays_are_documented_numpy_files(tmp_path: Path) -> None:
    write_store(tmp_path / "store", MARK, [([1, 2, 3], [True, False, True], [True, False, False])])
    with (tmp_path / "store" / "shard-00000.npy").open("rb") as stream:
        arrays = ShardArrays(*(np.load(stream) for _ in range(4)))
    assert arrays.lengths.tolist() == [3]
    assert arrays.ids.tolist() == [1, 2, 3]
    assert arrays.word_starts.tolist() == [0b101]
    assert arrays.sentence_starts.tolist() == [0b001]
