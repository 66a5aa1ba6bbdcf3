"""Training speed of a latent-variable model in sentences a second: ours beside the obvious `transformers` composition.

    python benchmarks/vae_training.py --sentences STORE [--latent 32] [--steps 20] [--repeats 3]

Both train BERT-base and GPT-2 small (or `--tiny`) on the same sentences in the same order, whole step: batches, forward,
backward, clipping, AdamW.

- ours: packed sentences, fixed shapes, compiled, fused encoder layers and loss, bfloat16; profile `fast`;
- `transformers`: BertModel + GPT2LMHeadModel whose past key values are the memory, and whose input embeddings get the latent
  embedding; sentences padded to the longest of their batch, with masks; autocast to bfloat16, SDPA, fused AdamW;
- `transformers compiled`: the same through torch.compile with dynamic shapes.

The peer's row says which batch it was best with, of those given by `--peer-batches`. Writes benchmarks/results/vae_training.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import inspect
import itertools
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from biosmith.models.bert import BertConfig
from biosmith.models.gpt2 import Gpt2Config
from biosmith.models.vae import VariationalAutoencoder
from biosmith.pretraining.elbo import ElboTrainer
from biosmith.pretraining.elbo_config import VaeRecipe, apply_vae_overrides
from biosmith.pretraining.elbo_run import settle
from biosmith.pretraining.loading import Cursor, load, requests
from biosmith.pretraining.sentence_batches import SentenceBatchMaker
from biosmith.pretraining.sentences import READING, WRITING, SentenceStore
from biosmith.recipes.biovae import find_vae_recipe

RESULT = Path(__file__).parent / "results" / "vae_training.json"
ROWS = ("ours", "transformers", "transformers compiled")
WARM_UP = 5


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=Path, required=True, help="a sentence store")
    parser.add_argument("--latent", type=int, default=32)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--steps", type=int, default=20, help="of each repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--micro-tokens", type=int, default=32_768, help="decoder tokens of our micro-batch")
    parser.add_argument("--peer-batches", type=int, nargs="+", default=[128, 256, 512], help="sentences")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--compile", default="default", help="mode of torch.compile, or off")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--tiny", action="store_true", help="two narrow layers on either side, to try the script"
    )
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    store, device = SentenceStore.open(arguments.sentences), torch.device(arguments.device)
    recipe = make_recipe(store, device, arguments)
    rows: dict[str, Any] = {}
    for name in arguments.rows:
        rows[name] = measure(name, recipe, store, device, arguments)
        print(f"{name:22} {rows[name]['sentences_per_second']:10,.0f} sentences/s  {rows[name]}", flush=True)
        if name != "ours" and "ours" in rows:
            ratio = rows["ours"]["sentences_per_second"] / rows[name]["sentences_per_second"]
            rows[name]["ours_is_times_faster"] = ratio
            print(f"ours / {name}: {ratio:.2f}", flush=True)
        # After each row, so that a call cut short leaves what it measured.
        found = {
            "machine": describe_machine(device),
            "settings": {key: str(value) for key, value in vars(arguments).items()},
            "mean_tokens": float(store.lengths(WRITING).mean()) + 1,
            "rows": rows,
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {arguments.out}")


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Card, processor and versions."""
    import transformers

    return {
        "card": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def make_recipe(store: SentenceStore, device: torch.device, arguments: Any) -> VaeRecipe:
    """The recipe at the size asked for; dropout off on both sides."""
    recipe = apply_vae_overrides(
        find_vae_recipe("biovae-32-beta05", "fast"),
        [
            f"latent_size={arguments.latent}",
            f"length={arguments.length}",
            f"micro_batch_tokens={max(arguments.length, arguments.micro_tokens)}",
        ],
    )
    if arguments.tiny:
        encoder = BertConfig(layers=2, width=64, heads=2, feed_forward=128, dropout=0, attention_dropout=0)
        decoder = Gpt2Config(layers=2, width=64, heads=2, dropout=0, attention_dropout=0)
        model = dataclasses.replace(recipe.model, encoder=encoder, decoder=decoder)
        recipe = dataclasses.replace(recipe, model=model)
    return settle(recipe, store, None, None, device)


def measure(
    name: str, recipe: VaeRecipe, store: SentenceStore, device: torch.device, arguments: Any
) -> dict[str, Any]:
    """Sentences a second of one row, the middle of its repeats; the peer at its best batch."""
    best: dict[str, Any] = {"sentences_per_second": 0.0}
    for batch in [0] if name == "ours" else arguments.peer_batches:
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        try:
            if name == "ours":
                rates = ours(recipe, store, device, arguments)
            else:
                rates = peer(recipe, store, device, arguments, batch, compiled=name.endswith("compiled"))
        except torch.cuda.OutOfMemoryError:
            print(f"{name} with {batch} sentences: out of memory", flush=True)
            continue
        finally:
            gc.collect()
            torch._dynamo.reset()
            if device.type == "cuda":
                torch.cuda.empty_cache()
        middle = statistics.median(rates)
        row = {"sentences_per_second": middle, "lowest": min(rates), "highest": max(rates), "batch": batch}
        if device.type == "cuda":
            row["memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
        print(f"  {name}, batch {batch or 'packed'}: {middle:,.0f} sentences/s", flush=True)
        best = max(best, row, key=lambda item: item["sentences_per_second"])
    return best


def timed(step: Callable[[], int], device: torch.device, arguments: Any) -> list[float]:
    """Sentences a second of each repeat; `step` returns how many it took."""
    for _ in range(WARM_UP):
        step()
    rates = []
    for _ in range(arguments.repeats):
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        sentences = sum(step() for _ in range(arguments.steps))
        if device.type == "cuda":
            torch.cuda.synchronize()
        rates.append(sentences / (time.perf_counter() - began))
    return rates


def ours(recipe: VaeRecipe, store: SentenceStore, device: torch.device, arguments: Any) -> list[float]:
    """One micro-batch a step, with the loader of the training loop."""
    torch.manual_seed(0)
    model = VariationalAutoencoder(recipe.model).to(device)
    on_gpu = device.type == "cuda"
    trainer = ElboTrainer(model, recipe, recipe.precision, compile=arguments.compile if on_gpu else "off")
    maker = SentenceBatchMaker(
        store,
        np.arange(len(store)),
        recipe.batch.micro_batch_tokens or 0,
        recipe.batch.length,
        seed=0,
        trim=not on_gpu,
    )
    makers: Any = [maker]
    wanted = requests(makers, Cursor(), itertools.repeat(0), itertools.repeat(None), 1)
    loader = load(wanted, makers, arguments.workers if on_gpu else 0, pin=on_gpu)
    number = itertools.count(recipe.steps // 2)  # where beta is above 0

    def step() -> int:
        loaded = next(loader)
        trainer.step(next(number) % recipe.steps, [loaded])
        return loaded.counts.sentences

    return timed(step, device, arguments)


class Composition(nn.Module):
    """BertModel, a linear layer, GPT2LMHeadModel: what one writes with `transformers` alone."""

    def __init__(self, recipe: VaeRecipe) -> None:
        from transformers import BertConfig as TheirBert
        from transformers import BertModel, GPT2Config, GPT2LMHeadModel

        super().__init__()
        bert, gpt2, latent = recipe.model.encoder, recipe.model.decoder, recipe.model.latent_size
        self.encoder = BertModel(
            TheirBert(
                vocab_size=bert.vocabulary_size,
                hidden_size=bert.width,
                num_hidden_layers=bert.layers,
                num_attention_heads=bert.heads,
                intermediate_size=bert.feed_forward,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
            )
        )
        self.decoder = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=gpt2.vocabulary_size,
                n_embd=gpt2.width,
                n_layer=gpt2.layers,
                n_head=gpt2.heads,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
            )
        )
        self.to_latent = nn.Linear(bert.width, 2 * latent, bias=False)
        self.to_memory = nn.Linear(latent, gpt2.layers * gpt2.width, bias=False)
        self.to_embedding = nn.Linear(latent, gpt2.width, bias=False)
        accepted = inspect.signature(self.decoder.transformer.forward).parameters
        self.past = "cache" if "cache" in accepted else "past_key_values"
        self.heads, self.layers = gpt2.heads, gpt2.layers

    def forward(
        self, read: Tensor, read_mask: Tensor, written: Tensor, written_mask: Tensor, labels: Tensor
    ) -> Tensor:
        """The objective, the mean over sentences."""
        from transformers import DynamicCache

        pooled = self.encoder(read, attention_mask=read_mask).pooler_output
        mean, log_variance = self.to_latent(pooled).float().chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)
        cache = DynamicCache()
        for layer, memory in enumerate(self.to_memory(z).chunk(self.layers, -1)):
            rows = memory.unflatten(-1, (self.heads, -1))[:, :, None]
            cache.update(rows, rows, layer)
        embedded = self.decoder.transformer.wte(written) + self.to_embedding(z)[:, None]
        first = torch.ones_like(written_mask[:, :1])
        positions = torch.arange(1, written.shape[1] + 1, device=written.device)[None]
        logits = self.decoder(
            inputs_embeds=embedded,
            position_ids=positions,
            attention_mask=torch.cat([first, written_mask], dim=1),
            use_cache=True,
            **{self.past: cache},
        ).logits
        loss = nn.functional.cross_entropy(
            logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum"
        )
        return (loss + 0.5 * (kl * (kl > 1.0)).sum()) / len(read)


def peer(
    recipe: VaeRecipe,
    store: SentenceStore,
    device: torch.device,
    arguments: Any,
    batch: int,
    *,
    compiled: bool,
) -> list[float]:
    """The composition, padded to the longest sentence of its batch."""
    torch.manual_seed(0)
    model = Composition(recipe).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, eps=1e-8, weight_decay=0.0, fused=True)
    forward = torch.compile(model, dynamic=True) if compiled else model
    batches = peer_batches(store, batch, device)

    def step() -> int:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            loss = forward(*next(batches))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return batch

    return timed(step, device, arguments)


def peer_batches(store: SentenceStore, batch: int, device: torch.device) -> Iterator[tuple[Tensor, ...]]:
    """Shuffled sentences as padded tensors."""
    rng = np.random.default_rng(0)
    reader, writer = store.special(READING), store.special(WRITING)
    while True:
        order = rng.permutation(len(store))
        for start in range(0, len(order) - batch + 1, batch):
            chosen = order[start : start + batch]
            read = [[reader.begin, *store.pieces_of(READING, n), reader.end] for n in chosen]
            pieces = [store.pieces_of(WRITING, n) for n in chosen]
            written = [[writer.begin, *ids] for ids in pieces]
            yield (
                *(t.to(device, non_blocking=True) for t in pad(read, reader.pad)),
                *(t.to(device, non_blocking=True) for t in pad(written, writer.pad)),
                pad([[*ids, writer.end] for ids in pieces], -100)[0].to(device, non_blocking=True),
            )


def pad(rows: list[list[int]], fill: int) -> tuple[Tensor, Tensor]:
    """Rows padded on the right, and their mask."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])
    return ids, torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])


if __name__ == "__main__":
    main()
