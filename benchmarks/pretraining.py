"""Pretraining speed in real tokens a second: ours beside the `transformers` Trainer, and the matmul ceiling of the card.

    python benchmarks/pretraining.py --tokens STORE [--recipes bert-base bioformer-8l] [--steps 30] [--repeats 3]

Every row trains the recipe's model on the same documents, whole step, data loading included:

- ours, `fast` and `faithful`: packed documents, whole-word masks, next-sentence pairs; micro-batches of 65,536 tokens;
- `transformers padded`: Trainer, DataCollatorForLanguageModeling, bf16, SDPA, torch.compile, fused AdamW, each document a
  row padded to 512; masked-language loss only;
- `transformers blocks`: the same, but documents run together and cut into full blocks (what `run_mlm.py` does; attention
  then crosses documents), so that it has no padding at all;
- the ceiling: the time of the model's matrix products alone, forward and backward, in bfloat16.

Needs no command line parts of biosmith. Writes benchmarks/results/pretraining.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
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

import step_profile
from biosmith.models.bert import PretrainingModel
from biosmith.pretraining.config import Recipe
from biosmith.pretraining.loading import Cursor, load, requests
from biosmith.pretraining.preparing import make_batch_makers, settle
from biosmith.pretraining.step import Trainer
from biosmith.recipes import find_recipe
from biosmith.tokens.store import TokenStore

RESULT = Path(__file__).parent / "results" / "pretraining.json"
WARM_UP = 8
PADDED, BLOCKS = "transformers padded", "transformers blocks"
ROWS = ("ours fast", "ours faithful", PADDED, BLOCKS, "ceiling")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=Path, required=True, help="a token store of real abstracts")
    parser.add_argument("--recipes", nargs="+", default=["bioformer-8l", "bioformer-16l", "bert-base"])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--steps", type=int, default=30, help="of each repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--micro-tokens", type=int, default=65_536)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--workers", type=int, default=min(8, (os.cpu_count() or 1)))
    parser.add_argument("--compile", default="default", help="mode of torch.compile, or off")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--profile", action="store_true", help="say where the time of our steps goes")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    store, device = TokenStore.open(arguments.tokens), torch.device(arguments.device)
    found = {"machine": describe_machine(device), "settings": {k: str(v) for k, v in vars(arguments).items()}}
    found["recipes"] = {name: measure_recipe(name, store, device, arguments) for name in arguments.recipes}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {arguments.out}")


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Card, processor and versions."""
    import transformers

    on_gpu = device.type == "cuda"
    return {
        "card": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "transformers": transformers.__version__,
    }


def measure_recipe(name: str, store: TokenStore, device: torch.device, arguments: Any) -> dict[str, Any]:
    """All rows of a recipe."""
    profiles: dict[str, dict[str, float]] = {}
    measures: dict[str, Callable[[], list[float]]] = {
        "ours fast": lambda: ours(name, "fast", store, device, arguments, profiles),
        "ours faithful": lambda: ours(name, "faithful", store, device, arguments, profiles),
        PADDED: lambda: transformers_trainer(name, store, device, arguments, padded=True),
        BLOCKS: lambda: transformers_trainer(name, store, device, arguments, padded=False),
        "ceiling": lambda: ceiling(make_recipe(name, "fast", store, device, arguments), device, arguments),
    }
    rows: dict[str, Any] = {}
    for row in arguments.rows:
        try:
            rates = measures[row]()
        except torch.cuda.OutOfMemoryError:
            rows[row] = {"error": "out of memory"}
            print(f"{name:14} {row:20} out of memory", flush=True)
            continue
        finally:
            gc.collect()
            torch._dynamo.reset()
            if device.type == "cuda":
                torch.cuda.empty_cache()
        middle = statistics.median(rates)
        rows[row] = {"tokens_per_second": middle, "lowest": min(rates), "highest": max(rates)}
        if device.type == "cuda":
            rows[row]["memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
            torch.cuda.reset_peak_memory_stats()
        print(f"{name:14} {row:20} {middle:12,.0f} tokens/s", flush=True)
        if (profiled := profiles.get(row)) is not None:
            rows[row]["microseconds a step"] = profiled
            step_profile.show(profiled)
    rates = {row: v["tokens_per_second"] for row, v in rows.items() if "tokens_per_second" in v}
    for row, other in itertools.product(("ours fast", "ours faithful"), (PADDED, BLOCKS, "ceiling")):
        if row in rates and other in rates:
            rows[row][f"ratio to {other}"] = rates[row] / rates[other]
            print(f"{name:14} {row} / {other} = {rates[row] / rates[other]:.2f}", flush=True)
    return rows


def make_recipe(name: str, profile: Any, store: TokenStore, device: torch.device, arguments: Any) -> Recipe:
    """The recipe with one micro-batch a step, of one length."""
    recipe = find_recipe(name, profile)
    batch = dataclasses.replace(
        recipe.batch,
        tokens=arguments.micro_tokens,
        micro_batch_tokens=arguments.micro_tokens,
        length=arguments.length,
        phases=(),
    )
    return settle(dataclasses.replace(recipe, batch=batch), store, device)


def ours(
    name: str,
    profile: str,
    store: TokenStore,
    device: torch.device,
    arguments: Any,
    profiles: dict[str, dict[str, float]],
) -> list[float]:
    """Real tokens a second of our step, each repeat; where the time of one goes, into `profiles` if asked for."""
    recipe = make_recipe(name, profile, store, device, arguments)
    torch.manual_seed(0)
    model = PretrainingModel(
        recipe.model, next_sentence=recipe.objective("next_sentence_prediction") is not None
    )
    compile = arguments.compile if device.type == "cuda" else "off"
    trainer = Trainer(model.to(device), recipe, recipe.precision, compile=compile)
    makers = make_batch_makers(recipe, store)
    wanted = requests(makers, Cursor(), itertools.repeat(0), itertools.repeat(None), 1)
    loader = load(wanted, makers, arguments.workers, pin=device.type == "cuda")

    def steps() -> Iterator[int]:
        for number, loaded in enumerate(loader):
            trainer.step(number, [loaded])
            yield loaded.counts.tokens

    doing = steps()
    rates = timed(doing, device, arguments)
    if arguments.profile and device.type == "cuda":
        profiles[f"ours {profile}"] = step_profile.profile_steps(doing)
    return rates


def timed(steps: Iterator[int], device: torch.device, arguments: Any) -> list[float]:
    """Tokens a second of each repeat of `arguments.steps` steps, after a warm-up."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for _ in itertools.islice(steps, WARM_UP):
        pass
    rates = []
    for _ in range(arguments.repeats):
        wait()
        began = time.perf_counter()
        tokens = sum(itertools.islice(steps, arguments.steps))
        wait()
        rates.append(tokens / (time.perf_counter() - began))
    return rates


def transformers_trainer(
    name: str, store: TokenStore, device: torch.device, arguments: Any, padded: bool
) -> list[float]:
    """Real tokens a second of the Trainer, each repeat."""
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        DataCollatorForLanguageModeling,
        Trainer,
        TrainingArguments,
    )

    from data_path import peer_tokenizer

    model = make_recipe(name, "faithful", store, device, arguments).model
    config = BertConfig(
        vocab_size=model.vocabulary_size,
        hidden_size=model.width,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        intermediate_size=model.feed_forward,
        max_position_embeddings=model.positions,
    )
    rows = padded_rows(store, arguments.length) if padded else block_rows(store, arguments.length)
    real = float(np.mean([len(row["input_ids"]) for row in rows]))
    size = arguments.micro_tokens // arguments.length
    collator = DataCollatorForLanguageModeling(
        peer_tokenizer(store), mlm_probability=0.15, pad_to_multiple_of=arguments.length
    )
    settings = TrainingArguments(
        output_dir=str(arguments.out.parent / "transformers"),
        per_device_train_batch_size=size,
        max_steps=WARM_UP + arguments.steps * arguments.repeats,
        bf16=device.type == "cuda",
        use_cpu=device.type == "cpu",
        torch_compile=device.type == "cuda",
        optim="adamw_torch_fused",
        dataloader_num_workers=arguments.workers,
        dataloader_pin_memory=device.type == "cuda",
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    clock = make_clock(device, arguments, real * size)
    Trainer(
        BertForMaskedLM(config), settings, data_collator=collator, train_dataset=rows, callbacks=[clock]
    ).train()
    return clock.rates


def make_clock(device: torch.device, arguments: Any, tokens: float) -> Any:
    """A callback that times each repeat as `timed` does."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rates: list[float] = []
            self.began = 0.0

        def on_step_end(self, args: Any, state: Any, control: Any, **unused: Any) -> None:
            done = state.global_step - WARM_UP
            if done >= 0 and done % arguments.steps == 0:
                if device.type == "cuda":
                    torch.cuda.synchronize()
                now = time.perf_counter()
                if done:
                    self.rates.append(tokens * arguments.steps / (now - self.began))
                self.began = now

    return Clock()


def padded_rows(store: TokenStore, length: int, most: int = 50_000) -> list[dict[str, list[int]]]:
    """Each document a row, cut at the length."""
    cls, sep = (store.vocabulary.special_tokens[k] for k in ("cls", "sep"))
    chosen = np.arange(min(most, store.documents))
    read = store.gather(chosen, stops=np.minimum(store.lengths[chosen], length - 2))
    spans = itertools.pairwise(read.offsets.tolist())
    return [{"input_ids": [cls, *read.ids[a:b].tolist(), sep]} for a, b in spans]


def block_rows(store: TokenStore, length: int, most: int = 50_000) -> list[dict[str, list[int]]]:
    """Documents run together and cut into full rows."""
    cls, sep = (store.vocabulary.special_tokens[k] for k in ("cls", "sep"))
    ids = store.gather(np.arange(min(most, store.documents))).ids
    blocks = ids[: len(ids) // (length - 2) * (length - 2)].reshape(-1, length - 2)
    return [{"input_ids": [cls, *block.tolist(), sep]} for block in blocks]


def ceiling(recipe: Recipe, device: torch.device, arguments: Any) -> list[float]:
    """Tokens a second if a step were its matrix products and nothing else (attention's left out)."""
    model, tokens = recipe.model, arguments.micro_tokens
    hidden = int(tokens * recipe.objective("masked_language_model").rate)
    vocabulary = -(-model.vocabulary_size // 128) * 128
    width, wide = model.width, model.feed_forward
    layer = [(tokens, width, 3 * width), (tokens, width, width), (tokens, width, wide), (tokens, wide, width)]
    seconds = model.layers * sum(product_seconds(*shape, device) for shape in layer)
    seconds += sum(product_seconds(*s, device) for s in ((hidden, width, width), (hidden, width, vocabulary)))
    return [tokens / seconds]


def product_seconds(rows: int, inner: int, columns: int, device: torch.device) -> float:
    """Time of a dense layer's product, forward and both of backward."""
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    x, w = (torch.randn(shape, device=device, dtype=kind) for shape in ((rows, inner), (columns, inner)))
    gradient = torch.randn(rows, columns, device=device, dtype=kind)
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    repeats, best = (20, float("inf")) if device.type == "cuda" else (1, float("inf"))
    for _ in range(3):
        wait()
        began = time.perf_counter()
        for _ in range(repeats):
            x @ w.t()
            gradient @ w
            gradient.t() @ x
        wait()
        best = min(best, (time.perf_counter() - began) / repeats)
    return best


if __name__ == "__main__":
    main()
