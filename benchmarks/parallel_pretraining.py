"""BioMegatron's three sizes on one and several cards: real tokens a second, memory, and what `biosmith plan` foretold.

    python benchmarks/parallel_pretraining.py --cards 4 [--sizes 345m 800m 1.2b] [--layouts one tp2 fsdp2] [--check]

Every row is a whole step of the recipe (profile fast, bfloat16, sequences of 512, n-gram masks, sentence order), data
loading included, in processes that torchrun starts. Beside it:

- the ceiling: the time of the model's matrix products alone, forward and backward, in bfloat16, on one card;
- `transformers`: MegatronBertForPreTraining with torch.compile, SDPA, bf16 autocast and fused AdamW on one card, full
  rows of 512 without any padding, a loss over all positions of the decoder as its class computes it;
- the prediction of `biosmith plan` for memory and speed.

`--check` compares loss and gradients of every layout with those of one device first (float32 without TF32, and bfloat16).
`--tiny` does all of it at tiny sizes on a CPU. Writes benchmarks/results/parallel_pretraining.json.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import step_profile
from biosmith.models.bert import PretrainingModel
from biosmith.pretraining.config import Recipe, apply_overrides
from biosmith.pretraining.layouts import Layout
from biosmith.pretraining.loading import Cursor, load, requests
from biosmith.pretraining.parallel import Devices, gather, joined, shard
from biosmith.pretraining.planning import plan
from biosmith.pretraining.preparing import make_batch_makers, micro_batches, settle
from biosmith.pretraining.step import LossSums, Trainer, read_window
from biosmith.pretraining.tensor_parallel import TENSOR, settle_gradients, share_layers
from biosmith.recipes import find_recipe
from biosmith.tokens.store import TokenStore, VocabularyMark, write_store

RESULT = Path(__file__).parent / "results" / "parallel_pretraining.json"
WARM_UP = 6
LAYOUTS = {
    "one": Layout(1),
    "tp2": Layout(2, tensor_parallel=2),
    "fsdp2": Layout(2, "fsdp"),
    "ddp2": Layout(2, "ddp"),
    "tp4": Layout(4, tensor_parallel=4),
    "fsdp4": Layout(4, "fsdp"),
    "ddp4": Layout(4, "ddp"),
    "tp2-fsdp2": Layout(4, "fsdp", 2),
}
TINY = ["model.layers=2", "model.width=64", "model.heads=4", "model.feed_forward=128", "batch.length=128"]


def main() -> None:
    """Measure, print, write."""
    arguments = read_arguments()
    if arguments.worker:
        work(arguments)
        return
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.tokens is None:
            arguments.tokens = write_abstracts(Path(temporary) / "tokens", 400 if arguments.tiny else 60_000)
        names = [n for n in arguments.layouts if LAYOUTS[n].gpus <= arguments.cards]
        found: dict[str, Any] = {"machine": describe_machine(arguments), "sizes": {}}
        found["settings"] = {key: str(value) for key, value in vars(arguments).items()}
        if arguments.check:
            found["check"] = {
                name: launch(arguments, name, arguments.sizes[0], "check", Path(temporary))
                for name in names
                if LAYOUTS[name].gpus > 1
            }
            print(json.dumps(found["check"]), flush=True)
        for size in arguments.sizes:
            alone = launch(arguments, "one", size, "alone", Path(temporary))
            found["sizes"][size] = {"alone": alone, "layouts": {}}
            for name in names:
                row = launch(arguments, name, size, "speed", Path(temporary))
                show(size, name, row, alone)
                found["sizes"][size]["layouts"][name] = row
                write(found, arguments.out)  # a run that is cut off keeps what it has
    write(found, arguments.out)
    print(f"written to {arguments.out}")


def write(found: dict[str, Any], out: Path) -> None:
    """What is known so far."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def read_arguments() -> Any:
    """The command line; `--worker` is for the processes that this command starts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cards", type=int, default=max(1, torch.cuda.device_count()))
    parser.add_argument(
        "--sizes", nargs="+", default=["345m", "800m", "1.2b"], choices=["345m", "800m", "1.2b"]
    )
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=list(LAYOUTS))
    parser.add_argument("--tokens", type=Path, help="a token store; made up of abstracts' lengths without it")
    parser.add_argument("--micro-tokens", type=int, default=16_384, help="of a micro-batch of a replica")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of a replica in a step")
    parser.add_argument("--recompute", action="store_true", help="activation checkpointing")
    parser.add_argument("--steps", type=int, default=15, help="of each repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--compile", default="default", help="mode of torch.compile, or off")
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-peer", action="store_true", help="leave out the row of transformers")
    parser.add_argument("--profile", action="store_true", help="say where the time of a step goes on a card")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--worker", choices=["speed", "check", "alone"])
    parser.add_argument("--size")
    parser.add_argument("--layout")
    parser.add_argument("--result", type=Path)
    return parser.parse_args()


def describe_machine(arguments: Any) -> dict[str, Any]:
    """Cards and versions."""
    cards = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"cards": cards or ["cpu"], "torch": torch.__version__, "cuda": torch.version.cuda}


def write_abstracts(folder: Path, documents: int) -> Path:
    """A store of made-up abstracts: lengths as PubMed's (a lognormal of 250 tokens), words of 1 to 3 pieces."""
    rng = np.random.default_rng(0)
    special = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    lengths = np.clip(rng.lognormal(5.5, 0.5, documents), 20, 4_000).astype(int)

    def one(length: int) -> tuple[Any, Any, Any]:
        ids = 5 + np.minimum(rng.zipf(1.3, length), 30_000)
        words = rng.random(length) < 0.7
        words[0] = True
        sentences = np.zeros(length, bool)
        sentences[np.flatnonzero(words)[::20]] = True
        return ids, words, sentences

    write_store(folder, VocabularyMark(30_522, "0" * 64, False, special), (one(n) for n in lengths))
    return folder


def launch(arguments: Any, name: str, size: str, work_of: str, temporary: Path) -> dict[str, Any]:
    """What the processes of a layout find; {"error": ...} where they fail (out of memory, most often)."""
    result = temporary / f"{size}-{name}-{work_of}.json"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(LAYOUTS[name].gpus), __file__, "--worker", work_of]
    command += ["--size", size, "--layout", name, "--result", str(result), "--tokens", str(arguments.tokens)]
    for key in ("micro_tokens", "accumulate", "steps", "repeats", "compile", "workers"):
        command += [f"--{key.replace('_', '-')}", str(getattr(arguments, key))]
    command += [
        f"--{key.replace('_', '-')}"
        for key in ("recompute", "tiny", "no_peer", "profile")
        if getattr(arguments, key)
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "Error" in line]
        return {"error": lines[0] if lines else done.stderr[-500:]}
    return dict(json.loads(result.read_text(encoding="utf-8")))


def work(arguments: Any) -> None:
    """One process of a layout."""
    layout = LAYOUTS[arguments.layout]
    on_gpu = torch.cuda.is_available() and not arguments.tiny
    with joined(
        torch.device("cuda" if on_gpu else "cpu"), layout.parallel, layout.tensor_parallel
    ) as devices:
        if on_gpu:
            torch.set_float32_matmul_precision("high")
        else:
            torch.set_num_threads(1)
        store = TokenStore.open(arguments.tokens)
        recipe = make_recipe(arguments, layout, store, devices)
        does = {"speed": speed, "check": check, "alone": alone}[arguments.worker]
        found = does(recipe, store, layout, devices, arguments)
        if devices.first:
            arguments.result.write_text(json.dumps(found), encoding="utf-8")


def make_recipe(arguments: Any, layout: Layout, store: TokenStore, devices: Devices) -> Recipe:
    """The recipe with so many micro-batches a step for each replica."""
    recipe = find_recipe(f"biomegatron-{arguments.size}", "fast")
    if arguments.tiny:
        recipe = apply_overrides(recipe, TINY)
    micro = 512 if arguments.tiny else arguments.micro_tokens
    batch = dataclasses.replace(
        recipe.batch, tokens=micro * arguments.accumulate * layout.replicas, micro_batch_tokens=micro
    )
    recipe = dataclasses.replace(recipe, batch=batch)
    return settle(recipe, store, devices.device, layout.replicas, layout.tensor_parallel)


def make_model(recipe: Recipe, device: torch.device) -> PretrainingModel:
    """The same model in every process, made where it runs."""
    torch.manual_seed(0)
    with torch.device(device):
        return PretrainingModel(recipe.model, next_sentence=True)


def speed(
    recipe: Recipe, store: TokenStore, layout: Layout, devices: Devices, arguments: Any
) -> dict[str, Any]:
    """Real tokens a second of all cards, memory of one, and what was planned."""
    on_gpu = devices.device.type == "cuda"
    compile = arguments.compile if on_gpu else "off"
    trainer = Trainer(
        make_model(recipe, devices.device), recipe, recipe.precision, devices, compile, arguments.recompute
    )
    makers = make_batch_makers(recipe, store)
    per_step = micro_batches(recipe)
    wanted = requests(makers, Cursor(), itertools.repeat(0), itertools.repeat(None), per_step, devices.share)
    loader = load(wanted, makers, arguments.workers if on_gpu else 0, pin=on_gpu)

    def steps() -> Iterator[int]:
        for number in itertools.count():
            loaded = list(itertools.islice(loader, per_step // devices.replicas))
            trainer.step(number, loaded)
            yield sum(item.counts.tokens for item in loaded)

    doing = steps()
    rates = timed(doing, devices, arguments)
    profiled = step_profile.profile_steps(doing) if arguments.profile and on_gpu else None
    planned = plan(recipe, gpus=layout.gpus, layout=with_recompute(layout, arguments))
    found: dict[str, Any] = {"tokens_per_second": statistics.median(rates), "rates": rates}
    window, _ = read_window(trainer.window.tolist())
    found |= {"mlm_loss": window.masked_language_loss / max(1.0, window.predicted)}
    found |= {
        "planned_tokens_per_second": planned.tokens_per_second,
        "planned_memory_gib": planned.memory_gib,
    }
    if on_gpu:
        found |= {} if profiled is None else {"microseconds a step": profiled}
        found["memory_gib"] = torch.cuda.max_memory_reserved() / 2**30
        found["allocated_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return found


def with_recompute(layout: Layout, arguments: Any) -> Layout:
    """The layout as it is run."""
    return dataclasses.replace(layout, activation_checkpointing=arguments.recompute)


def timed(steps: Iterator[int], devices: Devices, arguments: Any) -> list[float]:
    """Tokens a second of all replicas, each repeat, after a warm-up."""
    on_gpu = devices.device.type == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for _ in itertools.islice(steps, WARM_UP if on_gpu else 1):
        pass
    rates = []
    for _ in range(arguments.repeats):
        wait()
        devices.wait()
        began = time.perf_counter()
        tokens = torch.tensor(float(sum(itertools.islice(steps, arguments.steps))), device=devices.device)
        wait()
        seconds = time.perf_counter() - began
        devices.reduce(tokens)
        rates.append(float(tokens) / seconds)
    return rates


def alone(
    recipe: Recipe, store: TokenStore, layout: Layout, devices: Devices, arguments: Any
) -> dict[str, Any]:
    """The ceiling and the peer, on one card."""
    from pretraining import ceiling

    device = devices.device
    shape = argparse.Namespace(micro_tokens=recipe.batch.micro_batch_tokens)
    found = {"ceiling": ceiling(recipe, device, shape)[0]}
    if arguments.no_peer:
        return found
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        found["transformers"] = statistics.median(transformers_rates(recipe, devices, arguments))
    gc.collect()
    return found


def transformers_rates(recipe: Recipe, devices: Devices, arguments: Any) -> list[float]:
    """Tokens a second of transformers' model in a plain loop over full rows."""
    from transformers import MegatronBertConfig, MegatronBertForPreTraining

    model, device, length = recipe.model, devices.device, recipe.batch.length
    config = MegatronBertConfig(
        vocab_size=model.rows,
        hidden_size=model.width,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        intermediate_size=model.feed_forward,
        max_position_embeddings=model.positions,
        hidden_act="gelu_new",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with torch.device(device):
        peer = MegatronBertForPreTraining(config)
    on_gpu = device.type == "cuda"
    step = torch.compile(peer) if on_gpu and arguments.compile != "off" else peer
    optimizer = torch.optim.AdamW(peer.parameters(), lr=1e-4, fused=on_gpu)
    rows = max(1, (recipe.batch.micro_batch_tokens or length) // length)
    ids = torch.randint(5, model.vocabulary_size, (rows, length), device=device)
    labels = torch.where(torch.rand(ids.shape, device=device) < 0.15, ids, -100)
    order = torch.zeros(rows, dtype=torch.long, device=device)

    def steps() -> Iterator[int]:
        while True:
            with torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
                loss = step(input_ids=ids, labels=labels, next_sentence_label=order).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            yield ids.numel()

    return timed(steps(), devices, arguments)


def check(
    recipe: Recipe, store: TokenStore, layout: Layout, devices: Devices, arguments: Any
) -> dict[str, Any]:
    """The largest relative difference of loss and gradients from those of a whole model in the same process."""
    torch.set_float32_matmul_precision("highest")
    small = dataclasses.replace(recipe.model, layers=4)
    recipe = dataclasses.replace(recipe, model=small)
    maker = make_batch_makers(recipe, store)[0]
    from biosmith.pretraining.loading import as_tensors

    batch = as_tensors(maker.make(0, 0))
    found = {}
    for compute in ("float32", "bfloat16"):
        whole, shared = make_model(recipe, devices.device), make_model(recipe, devices.device)
        fused = False if devices.tensor > 1 else None  # as `Trainer` does
        one, many = LossSums(whole, compute, fused), LossSums(shared, compute, fused)
        if devices.mesh is not None:
            share_layers(shared, devices.mesh[TENSOR])
        if devices.replicas > 1:
            shard(list(shared.encoder.layers), many.packed, compute == "bfloat16", devices)
            many.compute = "float32"
        tensors = {name: tensor.to(devices.device) for name, tensor in batch.tensors.items()}
        names = ("input_ids_T", "position_ids_T", "token_type_ids_T", "cu_seqlens")
        rest = ("masked_positions_M", "labels_M", "next_sentence_labels_N")
        call = (*(tensors[n] for n in names), batch.max_seqlen, *(tensors[n] for n in rest))
        expected, got = one(*call), many(*call)
        expected.sum().backward()
        got.sum().backward()
        if devices.tensor > 1:
            settle_gradients(shared)
        # A key's bias has no gradient but rounding: what is small beside all others is measured by these.
        total = torch.stack([p.grad.norm() for p in whole.parameters() if p.grad is not None]).norm()
        worst = 0.0
        for (name, a), (_, b) in zip(whole.named_parameters(), shared.named_parameters(), strict=True):
            assert a.grad is not None and b.grad is not None, name
            error = (gather(b.grad, name).float() - a.grad).norm() / a.grad.norm().clamp(min=1e-3 * total)
            worst = max(worst, float(error))
        off = ((got - expected).abs() / expected.abs().clamp(min=1e-6)).max()
        found[compute] = {"loss": float(off), "gradient": worst}
    return found


def show(size: str, name: str, row: dict[str, Any], alone: dict[str, Any]) -> None:
    """A line of the table."""
    if "error" in row:
        print(f"{size:5} {name:10} {row['error']}", flush=True)
        return
    cards, rate = LAYOUTS[name].gpus, row["tokens_per_second"]
    row["share_of_ceiling"] = rate / cards / alone["ceiling"]
    row["planned / measured speed"] = row["planned_tokens_per_second"] / rate
    parts = [
        f"{size:5} {name:10} {rate:12,.0f} tokens/s",
        f"{100 * row['share_of_ceiling']:5.1f} % of ceiling",
    ]
    if "transformers" in alone:
        row["ratio to transformers"] = rate / cards / alone["transformers"]
        parts.append(f"{row['ratio to transformers']:.2f} x transformers a card")
    if "memory_gib" in row:
        row["planned / measured memory"] = row["planned_memory_gib"] / row["memory_gib"]
        parts.append(f"{row['memory_gib']:.1f} GiB (planned {row['planned_memory_gib']:.1f})")
    print(", ".join(parts), flush=True)
    if "microseconds a step" in row:
        step_profile.show(row["microseconds a step"])


if __name__ == "__main__":
    main()
