"""How fast pretraining batches are made: read, cut, paired, whole-word masked and packed, on 1 and 2 worker processes.

    python benchmarks/data_path.py [--tokens STORE] [--seconds 20]

The peer is the data path of `transformers` scripts on the same documents: tokens cut into blocks of the full length, and
`DataCollatorForLanguageModeling` (single tokens; it has no next-sentence pairs) in a DataLoader with as many workers.
`--steps 100000` also draws that many micro-batches of 4,096 tokens with two workers and notes the anonymous memory of all
three processes every tenth of the way: it has to stay flat. Writes benchmarks/results/data_path.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from biosmith.pretraining.batches import BatchMaker, DataRules
from biosmith.pretraining.loading import Cursor, load, requests
from biosmith.tokens.store import TokenStore, VocabularyMark, write_store

RESULT = Path(__file__).parent / "results" / "data_path.json"
SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=Path, help="a token store; made up if not given")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each measurement")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--steps", type=int, default=0, help="steps over which memory is watched")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store = (
            TokenStore.open(arguments.tokens) if arguments.tokens else make_up_store(Path(folder) / "tokens")
        )
        # First of all: the lists of the peer would count in.
        memory = watch_memory(store, arguments.steps) if arguments.steps else None
        rows = [measure(store, workers, arguments.seconds) for workers in arguments.workers]
    found = {
        "machine": {
            "cpu": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
        },
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
        },
        "documents": store.documents,
        "tokens": store.tokens,
        "rows": rows,
        "memory": memory,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for row in rows:
        print(
            f"{row['workers']} workers: ours {row['ours']:,.0f} tokens/s, transformers' collator {row['peer']:,.0f}, "
            f"ratio {row['ratio']:.1f}"
        )
    if memory:
        print(f"{arguments.steps:,} steps: {', '.join(f'{mb:.0f}' for mb in memory['anonymous_mb'])} MB")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; written to {RESULT}")


def make_up_store(folder: Path, documents: int = 20_000) -> TokenStore:
    """Documents with the lengths of PubMed abstracts, one in fifty as long as a full text."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(5.6, 0.5, documents), 5, 5000).astype(int)
    lengths[::50] = rng.integers(2000, 8000, len(lengths[::50]))

    def document(length: int) -> tuple[Any, Any, Any]:
        words = rng.random(length) < 0.72
        words[0] = True
        sentences = np.zeros(length, dtype=bool)
        sentences[np.flatnonzero(words)[::22]] = True
        return len(SPECIAL) + np.minimum(rng.zipf(1.2, length), 30_000), words, sentences

    mark = VocabularyMark(30_522, "made-up", True, SPECIAL)
    return write_store(folder, mark, (document(int(n)) for n in lengths))


def measure(store: TokenStore, workers: int, seconds: float) -> dict[str, Any]:
    """Tokens a second, ours and the peer's, with the same number of workers."""
    ours = rate(our_batches(store, workers), seconds)
    peer = rate(peer_batches(store, workers), seconds)
    return {"workers": workers, "ours": ours, "peer": peer, "ratio": ours / peer}


def rate(batches: Iterator[int], seconds: float) -> float:
    """Tokens a second of an iterator of token counts, after what the workers had ready when it began."""
    for _ in range(8):
        next(batches)
    began, tokens = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        tokens += next(batches)
    return tokens / (time.perf_counter() - began)


def our_batches(store: TokenStore, workers: int) -> Iterator[int]:
    """Real tokens of each micro-batch of 65,536, 512 long, with whole-word masks and next-sentence pairs."""
    makers = [BatchMaker(store, DataRules(seed=1, micro_tokens=65_536, length=512))]
    endless = iter(int, 1)
    wanted = requests(makers, Cursor(), endless, (None for _ in iter(int, 1)), 1)
    for loaded in load(wanted, makers, workers, pin=False):
        yield loaded.counts.tokens


def watch_memory(store: TokenStore, steps: int) -> dict[str, Any]:
    """Anonymous memory of this process and its two workers over many steps; mapped pages of the store are not its own."""
    makers = [BatchMaker(store, DataRules(seed=1, micro_tokens=4096, length=512))]
    endless = iter(int, 1)
    wanted = requests(makers, Cursor(), endless, (None for _ in iter(int, 1)), 1)
    seen, tokens = [], 0
    for step, loaded in enumerate(load(wanted, makers, 2, pin=False)):
        tokens += loaded.counts.tokens
        if step % (steps // 10) == 0:
            seen.append(anonymous_memory())
        if step == steps:
            break
    return {"steps": steps, "tokens": tokens, "anonymous_mb": seen}


def anonymous_memory() -> float:
    """Megabytes of this process and its children."""
    own = os.getpid()
    children = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="utf-8").split()
    total = 0
    for process in [str(own), *children]:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        total += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
    return total / 1024


def peer_batches(store: TokenStore, workers: int) -> Iterator[int]:
    """Tokens of each batch of 128 blocks of 512."""
    from transformers import DataCollatorForLanguageModeling

    ids = store.gather(np.arange(store.documents)).ids
    blocks = ids[: len(ids) // 510 * 510].reshape(-1, 510)
    rows = [{"input_ids": [2, *block.tolist(), 3]} for block in blocks]
    collate: Callable[..., Any] = DataCollatorForLanguageModeling(peer_tokenizer(store), mlm_probability=0.15)
    while True:
        for batch in DataLoader(rows, 128, shuffle=True, num_workers=workers, collate_fn=collate):  # type: ignore[arg-type]
            yield batch["input_ids"].numel()


def peer_tokenizer(store: TokenStore) -> Any:
    """A tokenizer with the ids of the store's vocabulary, as the collator asks it for special ids."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    names = {v: f"[{k.upper()}]" for k, v in store.vocabulary.special_tokens.items()}
    words = {names.get(i, f"w{i}"): i for i in range(store.vocabulary.size)}
    special = {f"{k}_token": f"[{k.upper()}]" for k in store.vocabulary.special_tokens}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(words, unk_token="[UNK]")), **special)


if __name__ == "__main__":
    main()
