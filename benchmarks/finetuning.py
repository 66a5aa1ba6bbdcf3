"""Time to fine-tune by width (Alrowili and Vijay-Shanker, 2021, Table 3): ours beside the stock `transformers` Trainer.

    python benchmarks/finetuning.py --data CHEMPROT --tokenizer VOCABULARY

ChemProt, 3 epochs, batches of 32, 128 pieces at most, as in the table; on one card in 16 bits. The models have the sizes of
BioM-ELECTRA-base (768 wide), BioM-ELECTRA-large (1,024) and BioM-ALBERT-xxlarge (4,096) and random weights, which take as
long as trained ones. Both sides train in this one process, in turns; time is training only. The Trainer pads each batch
to its longest text and runs in bf16. Prints minutes beside the paper's (on an RTX 3090, float16) and the ratios; writes
benchmarks/results/finetuning.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoTokenizer

from biosmith.bench.locating import locate
from biosmith.models.encoder import Encoder
from biosmith.models.saving import save_model
from biosmith.recipes import find_recipe
from biosmith.rejects import Rejects
from biosmith.tasks.settings import RelationSettings
from finetune_relation import ours, theirs
from pretraining import describe_machine

RESULTS = Path(__file__).parent / "results" / "finetuning.json"
# Model of the table -> minutes there, and the ratio to ELECTRA-large.
TABLE_3 = {
    "biom-electra-base": (3 + 1 / 60, 0.35),
    "biom-electra-large": (8 + 27 / 60, 1.00),
    "biom-albert-xxlarge": (31 + 15 / 60, 3.67),
}
MIDDLE = "biom-electra-large"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder of ChemProt")
    parser.add_argument("--tokenizer", type=Path, required=True, help="a vocabulary or model folder")
    parser.add_argument("--recipes", nargs="+", default=list(TABLE_3), choices=list(TABLE_3))
    parser.add_argument("--layers", type=int, default=None, help="other than the model's, for a quick look")
    parser.add_argument("--width", type=int, default=None, help="likewise")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--limit", type=int, default=None, help="instances of each split, for a quick look")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    source = locate(given.data, ["relation"])
    if source is None:
        parser.error(f"{given.data} is not the folder of a relation dataset")
    splits = {s: source.load(s, Rejects(strict=True))[: given.limit] for s in ("train", "test")}
    splits["test"] = splits["test"][:64]  # time is training only
    settings = RelationSettings(
        learning_rate=1e-5,
        batch_size=given.batch_size,
        epochs=given.epochs,
        max_length=given.max_length,
        keep="last",
        device=given.device,
    )
    rows: dict[str, dict[str, Any]] = {}
    for name in given.recipes:
        with tempfile.TemporaryDirectory() as folder:
            model = random_model(name, Path(folder) / name, given)
            seconds: dict[str, list[float]] = {"biosmith": [], "transformers": []}
            sides = [("biosmith", ours), ("transformers", theirs)]
            for repeat in range(given.repeats):
                for side, run in sides if repeat % 2 == 0 else sides[::-1]:
                    seconds[side].append(run(model, source, settings, splits)["seconds"])
                    if given.device == "cuda":
                        torch.cuda.empty_cache()
        rows[name] = {side: statistics.median(times) / 60 for side, times in seconds.items()}
        rows[name] |= {"paper": TABLE_3[name][0], "runs_seconds": seconds}
        rows[name]["speed_ratio"] = rows[name]["transformers"] / rows[name]["biosmith"]
        print(
            f"{name:22} biosmith {rows[name]['biosmith']:7.2f} min, transformers {rows[name]['transformers']:7.2f} min, "
            f"ratio {rows[name]['speed_ratio']:.2f}; Table 3: {TABLE_3[name][0]:.2f} min",
            flush=True,
        )
    for name, row in rows.items():
        if MIDDLE in rows:
            for side in ("biosmith", "transformers"):
                row[f"{side} by {MIDDLE}"] = row[side] / rows[MIDDLE][side]
            print(
                f"{name:22} by width: {row[f'biosmith by {MIDDLE}']:.2f}x ours, "
                f"{row[f'transformers by {MIDDLE}']:.2f}x theirs; Table 3: {TABLE_3[name][1]:.2f}x"
            )
    record = {
        "rows": rows,
        "instances": len(splits["train"]),
        "settings": {key: str(value) for key, value in vars(given).items()},
        "machine": describe_machine(torch.device(given.device)),
    }
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"written to {given.out}")


def random_model(name: str, folder: Path, given: Any) -> Path:
    """A folder with the recipe's encoder, fresh, and a tokenizer."""
    import dataclasses

    config: Any = find_recipe(name).model
    size = len(AutoTokenizer.from_pretrained(given.tokenizer))
    changes: dict[str, Any] = {"vocabulary_size": size}
    changes |= {} if given.layers is None else {"layers": given.layers}
    if given.width is not None:
        changes |= {"width": given.width, "feed_forward": 4 * given.width, "heads": max(1, given.width // 64)}
    torch.manual_seed(0)
    encoder: Encoder = dataclasses.replace(config, **changes).make_encoder(pooler=config.has_pooler)
    return save_model(folder, encoder, tokenizer_from=given.tokenizer)


if __name__ == "__main__":
    main()
