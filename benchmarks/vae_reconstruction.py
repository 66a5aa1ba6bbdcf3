"""What latent-variable models hold of unseen sentences: the field's scores, the paper's Table 1, interpolations.

    python benchmarks/vae_reconstruction.py --runs RUN... --sentences STORE [--samples 100] [--sentences-scored 1000]

Every run was begun with the same sentences, seed and number of held-out documents, so all are scored on the same sentences,
which none has seen. The first `--shown` of them, unselected, make a table in the form of BioVAE's Table 1 (input, what came
back, perplexity) and pages of interpolations between neighbours. A run of `biovae-language-model` (conditioned on nothing) is
the line that reconstructions have to beat. Writes results/vae_reconstruction.json, .md and a page a run beside it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from biosmith.generate.decoding import Decoding
from biosmith.generate.page import Pair, Way, write_page
from biosmith.generate.sentences import interpolate, readable, reconstruct, summarise_reconstructions
from biosmith.models.vae_folder import LoadedVae, load_tokenizer, load_vae
from biosmith.models.vae_scoring import score_sentences
from biosmith.pretraining.checkpoints import list_checkpoints
from biosmith.pretraining.elbo_run import export_vae_run, load_checkpoint_model, read_vae_run
from biosmith.pretraining.sentence_batches import split_documents
from biosmith.pretraining.sentences import READING, WRITING, SentenceStore
from biosmith.rejects import Rejects

RESULT = Path(__file__).parent / "results" / "vae_reconstruction.json"


def main() -> None:
    """Score, write, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--sentences", type=Path, required=True, help="the store they were trained on")
    parser.add_argument("--samples", type=int, default=100, help="of the importance-weighted bound")
    parser.add_argument("--sentences-scored", type=int, default=1_000)
    parser.add_argument("--shown", type=int, default=20)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    store = SentenceStore.open(arguments.sentences)
    found = {run.name: measure(run, store, arguments) for run in arguments.runs}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    text = as_markdown(found)
    arguments.out.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    print(f"written to {arguments.out}")


def measure(run: Path, store: SentenceStore, arguments: Any) -> dict[str, Any]:
    """Scores of one run, its reconstructions and its page."""
    recipe = read_vae_run(run)
    _, held_out = split_documents(store, recipe.evaluation.documents, recipe.seed)
    chosen = held_out[: arguments.sentences_scored].tolist()
    reader = store.special(READING)
    model = load_checkpoint_model(list_checkpoints(run)[-1], recipe).to(arguments.device)
    scores = score_sentences(
        model,
        [[reader.begin, *store.pieces_of(READING, n), reader.end] for n in chosen],
        [store.pieces_of(WRITING, n) for n in chosen],
        samples=arguments.samples,
    )
    found: dict[str, Any] = {
        "recipe": recipe.name,
        "latent_size": recipe.model.latent_size,
        "beta": recipe.objective.beta,
        **scores.as_dict(),
    }
    print(run.name, found, flush=True)
    if not recipe.model.is_conditioned:
        return found
    vae = open_run(run, arguments.device)
    writer = load_tokenizer(store.folder / WRITING)
    texts = [writer.decode(store.pieces_of(WRITING, n)).strip() for n in chosen[: arguments.shown]]
    texts = readable(vae, texts, Rejects())
    back = reconstruct(vae, texts)
    found["greedy"] = summarise_reconstructions(vae, back)
    found["table"] = [vars(item) for item in back]
    how = Decoding("beam")
    pairs = [
        Pair(
            one,
            other,
            [Way(way, interpolate(vae, one, other, 7, way, how)) for way in ("linear", "spherical")],
        )
        for one, other in zip(texts[:10:2], texts[1:10:2], strict=True)
    ]
    page = arguments.out.with_name(f"{arguments.out.stem}-{run.name}.html")
    write_page(page, pairs, f"Interpolations by {run.name}", "Held-out sentences, unselected; beam search.")
    found["paths"] = [
        {"from": p.one, "to": p.other, w.name: [step.written for step in w.steps]}
        for p in pairs
        for w in p.paths
    ]
    return found


def open_run(run: Path, device: str) -> LoadedVae:
    """The run's model, exported beside it once."""
    folder = run.with_name(f"{run.name}-model")
    if not folder.exists():
        export_vae_run(run, folder)
    vae = load_vae(folder)
    vae.model.to(device)
    return vae


def as_markdown(found: dict[str, Any]) -> str:
    """Scores of all runs, then the table of each."""
    keys = (
        "latent_size", "beta", "negative_elbo", "reconstruction", "kl", "negative_log_likelihood", "perplexity",
        "reconstruction_perplexity", "active_units", "mutual_information",
    )  # fmt: skip
    lines = [
        "| run | " + " | ".join(key.replace("_", " ") for key in keys) + " |",
        "|---" * (len(keys) + 1) + "|",
    ]
    for name, row in found.items():
        cells = [f"{row[k]:.3f}" if isinstance(row[k], float) else str(row[k]) for k in keys]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    for name, row in found.items():
        if "table" in row:
            lines += ["", f"## {name}", "", "| No. | | text | perplexity |", "|---:|---|---|---:|"]
            for number, item in enumerate(row["table"], start=1):
                lines.append(f"| {number} | input | {item['text']} | 1.000 |".replace("\n", " "))
                lines.append(
                    f"| | {name} | {item['written']} | {item['perplexity']:.3f} |".replace("\n", " ")
                )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
