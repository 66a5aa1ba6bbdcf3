"""Speed of a step of ELECTRA and of ALBERT in real tokens a second: ours beside `transformers` classes.

    python benchmarks/biom_pretraining.py --tokens STORE [--recipes electra-base albert-base] [--steps 30] [--repeats 3]

Every row trains the recipe's model on the same documents, whole step, data loading included:

- ours, `fast` and `faithful`: packed documents, micro-batches of 65,536 tokens;
- `transformers padded`: the same objective written over `ElectraForMaskedLM` and `ElectraForPreTraining` with one set of
  embeddings (Gumbel samples, weights 1 and 50), or over `AlbertForPreTraining`: bf16 autocast, SDPA, torch.compile, the
  same optimizer, each document a row padded to 512;
- `transformers blocks`: the same, documents run together and cut into full rows, so that it has no padding at all.

The peer's masks and pairs are drawn on the device in the step, which costs it next to nothing. Writes
benchmarks/results/biom_pretraining.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import itertools
import json
import os
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from biosmith.models.bert import PretrainingModel
from biosmith.models.electra import ElectraModel
from biosmith.pretraining.config import Recipe
from biosmith.pretraining.loading import Cursor, load, requests
from biosmith.pretraining.optimizers import make_optimizers, update
from biosmith.pretraining.preparing import make_batch_makers, settle
from biosmith.pretraining.step import Trainer
from biosmith.recipes import find_recipe
from biosmith.tokens.store import TokenStore
from pretraining import block_rows, describe_machine, padded_rows, timed

RESULT = Path(__file__).parent / "results" / "biom_pretraining.json"
PADDED, BLOCKS = "transformers padded", "transformers blocks"
ROWS = ("ours fast", "ours faithful", PADDED, BLOCKS)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=Path, required=True, help="a token store of real abstracts")
    parser.add_argument("--recipes", nargs="+", default=["electra-base", "albert-base"])
    parser.add_argument("--override", nargs="+", default=[], help="key=value, for a quick look at tiny size")
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--steps", type=int, default=30, help="of each repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--micro-tokens", type=int, default=65_536)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--workers", type=int, default=min(8, (os.cpu_count() or 1)))
    parser.add_argument("--compile", default="default", help="mode of torch.compile, or off")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    store, device = TokenStore.open(arguments.tokens), torch.device(arguments.device)
    found = {"machine": describe_machine(device), "settings": {k: str(v) for k, v in vars(arguments).items()}}
    found["recipes"] = {}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for name in arguments.recipes:
        found["recipes"][name] = measure_recipe(name, store, device, arguments)
        arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {arguments.out}")


def measure_recipe(name: str, store: TokenStore, device: torch.device, arguments: Any) -> dict[str, Any]:
    """All rows of a recipe, and the ratios of ours to the peer's."""
    fast, faithful = (make_recipe(name, p, store, device, arguments) for p in ("fast", "faithful"))
    measures: dict[str, Callable[[], list[float]]] = {
        "ours fast": lambda: ours(fast, store, device, arguments),
        "ours faithful": lambda: ours(faithful, store, device, arguments),
        PADDED: lambda: theirs(faithful, store, device, arguments, padded=True),
        BLOCKS: lambda: theirs(faithful, store, device, arguments, padded=False),
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
    rates = {row: v["tokens_per_second"] for row, v in rows.items() if "tokens_per_second" in v}
    for row, other in itertools.product(("ours fast", "ours faithful"), (PADDED, BLOCKS)):
        if row in rates and other in rates:
            rows[row][f"ratio to {other}"] = rates[row] / rates[other]
            print(f"{name:14} {row} / {other} = {rates[row] / rates[other]:.2f}", flush=True)
    return rows


def make_recipe(name: str, profile: Any, store: TokenStore, device: torch.device, arguments: Any) -> Recipe:
    """The recipe with one micro-batch a step, of one length."""
    from biosmith.pretraining.config import apply_overrides

    recipe = apply_overrides(find_recipe(name, profile), arguments.override)
    size = arguments.micro_tokens
    batch = dataclasses.replace(
        recipe.batch, tokens=size, micro_batch_tokens=size, length=arguments.length, phases=()
    )
    return settle(dataclasses.replace(recipe, batch=batch), store, device)


def ours(recipe: Recipe, store: TokenStore, device: torch.device, arguments: Any) -> list[float]:
    """Real tokens a second of our step, each repeat."""
    torch.manual_seed(0)
    model: Any = (
        PretrainingModel(recipe.model, next_sentence=recipe.pair_objective is not None)
        if recipe.generator is None
        else ElectraModel(recipe.model, recipe.generator)  # type: ignore[arg-type]
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

    return timed(steps(), device, arguments)


def theirs(
    recipe: Recipe, store: TokenStore, device: torch.device, arguments: Any, padded: bool
) -> list[float]:
    """Real tokens a second of the peer's step, each repeat."""
    torch.manual_seed(0)
    special = dict(store.vocabulary.special_tokens)
    model: Any = (AlbertPeer if recipe.generator is None else ElectraPeer)(recipe, special).to(device).train()
    run = torch.compile(model, dynamic=False) if device.type == "cuda" else model
    optimizers = make_optimizers(model, recipe.optimizer)
    rows = (padded_rows if padded else block_rows)(store, arguments.length)
    size = arguments.micro_tokens // arguments.length
    loader = torch.utils.data.DataLoader(
        rows,  # type: ignore[arg-type]
        batch_size=size,
        shuffle=True,
        drop_last=True,
        num_workers=arguments.workers,
        pin_memory=device.type == "cuda",
        collate_fn=lambda chosen: collate(chosen, arguments.length, special["pad"]),
    )

    def steps() -> Iterator[int]:
        while True:
            for ids_BL, tokens in loader:
                with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
                    loss = run(ids_BL.to(device, non_blocking=True))
                loss.backward()
                update(optimizers, recipe.optimizer.learning_rate, recipe.optimizer.clip_norm)
                yield tokens

    return timed(steps(), device, arguments)


def collate(chosen: list[dict[str, list[int]]], length: int, pad: int) -> tuple[Tensor, int]:
    """Rows padded to the full length, and their real tokens."""
    ids_BL = torch.full((len(chosen), length), pad)
    for number, row in enumerate(chosen):
        ids = row["input_ids"][:length]
        ids_BL[number, : len(ids)] = torch.tensor(ids)
    return ids_BL, int((ids_BL != pad).sum())


class ElectraPeer(nn.Module):
    """Replaced-token detection over the two classes of `transformers`, their embeddings tied."""

    def __init__(self, recipe: Recipe, special: dict[str, int]) -> None:
        super().__init__()
        from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

        self.recipe, self.special = recipe, special
        self.discriminator = ElectraForPreTraining(ElectraConfig(**hugging_face(recipe.model)))
        self.generator = ElectraForMaskedLM(ElectraConfig(**hugging_face(recipe.generator)))
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.generator_lm_head.weight = self.generator.electra.embeddings.word_embeddings.weight

    def forward(self, ids_BL: Tensor) -> Tensor:
        """Loss of a batch."""
        mask_BL = ids_BL != self.special["pad"]
        labels_BL, inputs_BL = hide(ids_BL, self.special, 0.15, (0.85, 0.0))
        generated = self.generator(input_ids=inputs_BL, attention_mask=mask_BL, labels=labels_BL)
        with torch.no_grad():
            noise = torch.rand_like(generated.logits, dtype=torch.float32).clamp(min=1e-30)
            sampled_BL = (generated.logits.float() - torch.log(-torch.log(noise))).argmax(-1)
            hidden_BL = labels_BL != -100
            corrupted_BL = torch.where(hidden_BL, sampled_BL, ids_BL)
            replaced_BL = (corrupted_BL != ids_BL).float()
        logits_BL = self.discriminator(input_ids=corrupted_BL, attention_mask=mask_BL).logits.float()
        each_BL = F.binary_cross_entropy_with_logits(logits_BL, replaced_BL, reduction="none")
        loss: Tensor = generated.loss + 50 * (each_BL * mask_BL).sum() / mask_BL.sum()
        return loss


class AlbertPeer(nn.Module):
    """Masked language model and sentence order over the class of `transformers`."""

    def __init__(self, recipe: Recipe, special: dict[str, int]) -> None:
        super().__init__()
        from transformers import AlbertConfig, AlbertForPreTraining

        self.special = special
        self.model = AlbertForPreTraining(AlbertConfig(**hugging_face(recipe.model)))

    def forward(self, ids_BL: Tensor) -> Tensor:
        """Loss of a batch."""
        mask_BL = ids_BL != self.special["pad"]
        labels_BL, inputs_BL = hide(ids_BL, self.special, 0.15, (0.8, 0.1))
        half = torch.arange(ids_BL.shape[1], device=ids_BL.device) >= ids_BL.shape[1] // 2
        order_B = (torch.rand(ids_BL.shape[0], device=ids_BL.device) < 0.5).long()
        loss: Tensor = self.model(
            input_ids=inputs_BL,
            attention_mask=mask_BL,
            token_type_ids=half.long().expand_as(ids_BL),
            labels=labels_BL,
            sentence_order_label=order_B,
        ).loss
        return loss


def hide(
    ids_BL: Tensor, special: dict[str, int], rate: float, shares: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """Labels, -100 where nothing is hidden, and the model's input: single tokens, drawn one by one."""
    ordinary_BL = torch.ones_like(ids_BL, dtype=torch.bool)
    for name in ("pad", "cls", "sep"):
        ordinary_BL &= ids_BL != special[name]
    hidden_BL = (torch.rand(ids_BL.shape, device=ids_BL.device) < rate) & ordinary_BL
    drawn_BL = torch.rand(ids_BL.shape, device=ids_BL.device)
    inputs_BL = torch.where(hidden_BL & (drawn_BL < shares[0]), special["mask"], ids_BL)
    other_BL = torch.randint_like(ids_BL, 5, 1_000)
    is_other_BL = hidden_BL & (drawn_BL >= shares[0]) & (drawn_BL < sum(shares))
    return torch.where(hidden_BL, ids_BL, -100), torch.where(is_other_BL, other_BL, inputs_BL)


def hugging_face(config: Any) -> dict[str, Any]:
    """A configuration of ours as the keywords of the peer's."""
    from biosmith.models.families import FAMILIES

    raw = FAMILIES[config.kind].config_to_hugging_face(config, None)
    return {key: value for key, value in raw.items() if key not in ("model_type", "architectures")}


if __name__ == "__main__":
    main()
