"""Latent-variable models of two latent sizes and two betas on real sentences, beside a plain language model.

    python benchmarks/vae_study.py --sentences STORE --encoder MODEL --data BENCHMARKS [--runs 32-beta05 language-model]

Five runs: latent size 32 and 768, beta 0 and 0.5 (Trieu et al., 2022, Table 2), whose encoder starts from `--encoder` and
whose decoder has the encoder's depth and width and starts afresh; and a language model of GPT-2's size that is conditioned
on nothing. All see the same sentences for the same number of epochs. Then: scores of held-out sentences, the table of
reconstructions and the interpolations (vae_reconstruction.py), and the encoders' bench beside their own base with several
seeds. Every stage is kept, and what is finished is not done again; `--runs` does a part, for several cards, and
`--stages` too. Writes benchmarks/results/vae_study.json and what vae_reconstruction.py writes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from biosmith.pretraining.metrics import read_metrics
from biosmith.pretraining.sentences import SentenceStore
from continued_pretraining import call

HERE = Path(__file__).parent
RESULT = HERE / "results" / "vae_study.json"
LANGUAGE_MODEL = "language-model"
RUNS = {
    "32-beta00": "biovae-32-beta00",
    "32-beta05": "biovae-32-beta05",
    "768-beta00": "biovae-768-beta00",
    "768-beta05": "biovae-768-beta05",
    LANGUAGE_MODEL: "biovae-language-model",
}
STAGES = ("train", "score", "bench")


def main() -> None:
    """Do every stage asked for that is not done; print and write what is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=Path, required=True, help="a sentence store")
    parser.add_argument("--encoder", type=Path, required=True, help="BERT folder the encoders start from")
    parser.add_argument("--data", type=Path, help="folder of the benchmarks, for the stage `bench`")
    parser.add_argument("--runs", nargs="+", default=list(RUNS), choices=list(RUNS))
    parser.add_argument("--stages", nargs="+", default=list(STAGES), choices=STAGES)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--batch-sentences", type=int, default=1_024)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--override", nargs="*", default=[], help="of all recipes, key=value")
    parser.add_argument("--tasks", nargs="+", default=["NCBI-disease", "ChemProt"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="fine-tuning runs at once on each device")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--work", type=Path, default=Path("runs/vae-study"))
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    found: dict[str, Any] = {"settings": {key: str(value) for key, value in vars(given).items()}}
    if "train" in given.stages:
        for name in given.runs:
            train(name, given)
    done = [name for name in given.runs if (given.work / "runs" / name / "checkpoints").is_dir()]
    found["training"] = {name: last_lines(given.work / "runs" / name) for name in done}
    if "score" in given.stages:
        scored = given.out.with_name("vae_reconstruction.json")
        command = [sys.executable, str(HERE / "vae_reconstruction.py"), "--device", given.device]
        command += ["--sentences", str(given.sentences), "--out", str(scored)]
        subprocess.run([*command, "--runs", *(str(given.work / "runs" / name) for name in done)], check=True)
    if "bench" in given.stages:
        found["bench"] = bench([name for name in done if name != LANGUAGE_MODEL], given)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {given.out}")


def train(name: str, given: Any) -> None:
    """One run and its model, unless they are there."""
    run, model = given.work / "runs" / name, given.work / "models" / name
    if model.exists():
        return
    raw = json.loads((given.encoder / "config.json").read_text(encoding="utf-8"))
    steps = max(1, int(len(SentenceStore.open(given.sentences)) * given.epochs / given.batch_sentences))
    settings: dict[str, Any] = {
        "steps": steps,
        "batch_sentences": given.batch_sentences,
        "learning_rate": given.learning_rate,
        "schedule.warmup": 0.05,
        "checkpoint_every": max(1, steps // 4),
        "log_every": max(1, steps // 50),
        "evaluation.every": max(1, steps // 4),
    }
    if name != LANGUAGE_MODEL:  # which has GPT-2's own size
        settings |= {
            "model.decoder.layers": raw["num_hidden_layers"],
            "model.decoder.width": raw["hidden_size"],
        }
        settings |= {"model.decoder.heads": raw["num_attention_heads"]}
    call(
        "pretrain", RUNS[name], "--profile", "fast", "--tokens", str(given.sentences), "--out", str(run),
        "--resume", "--device", given.device,
        *(["--init", str(given.encoder)] if name != LANGUAGE_MODEL else []),
        "--override", *(f"{key}={value}" for key, value in settings.items()), *given.override,
    )  # fmt: skip
    if name != LANGUAGE_MODEL:
        call("export", str(run), "--out", str(model))


def last_lines(run: Path) -> dict[str, Any]:
    """The last value of everything that the log has, and the curve of the loss."""
    lines = read_metrics(run)
    last = {key: value for line in lines for key, value in line.items()}
    last["curve"] = [[line["step"], line["loss"]] for line in lines if "loss" in line]
    return last


def bench(names: list[str], given: Any) -> dict[str, Any]:
    """Mentions and relations by the base encoder and by the encoders trained from it."""
    if given.data is None:
        raise SystemExit("--data says where the benchmarks are")
    results = given.work / "results"
    encoders = given.work / "encoders"
    encoders.mkdir(parents=True, exist_ok=True)
    for name in names:  # results are kept by the name of the folder, or of the link to it
        link = encoders / f"vae-{name}"
        if not link.is_symlink():
            link.symlink_to((given.work / "models" / name / "encoder").resolve())
    models = [str(given.encoder), *(str(encoders / f"vae-{name}") for name in names)]
    call(
        "bench", "run", "--suite", "blurb", "--model", *models, "--data", str(given.data), "--out", str(results),
        "--tasks", *given.tasks, "--seeds", str(given.seeds), "--device", given.device, "--jobs", str(given.jobs),
        allowed=(0, 3),
    )  # fmt: skip
    subprocess.run([sys.executable, "-m", "biosmith", "bench", "show", str(results)], check=True)
    return call("bench", "show", str(results))


if __name__ == "__main__":
    main()
