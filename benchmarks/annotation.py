"""Annotation on processors: each engine of ours beside the `transformers` pipeline, on the same real abstracts.

    python benchmarks/annotation.py --tuned NER --int8 NER-OPENVINO NER-ONNX --data ABSTRACTS --documents 300

Abstracts come from files of any format that biosmith reads; they are written once as BioC XML. Each contestant then runs
in a fresh process of its own, one after the other, `--rounds` times over: ours take the whole road (XML in, BioC JSON
out) with `annotate_files`, the pipeline gets the texts of the same documents (read by our reader, which it lacks), in 32
bits, with its defaults and batches of 8, and writes nothing. So the comparison leans towards the pipeline.

Real tokens are pieces without special tokens and padding, the same for all. `cold_start` is from the start of the
process to the first annotated document in hand; `peak` is the largest resident set. Processor seconds stand beside wall
seconds, for machines that are not idle. Equal mentions are those of `torch float32`, the reference, by document, place
and type: the share of the larger of the two sets that both have. Prints a table, writes benchmarks/results/annotation.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

BEGAN = time.perf_counter()
RESULTS = Path(__file__).parent / "results" / "annotation.json"
FIRST = 8  # documents of the file that the cold start is measured on
Mentions = set[tuple[str, int, int, str]]


def write_abstracts(data: list[Path], count: int, out: Path) -> int:
    """Real abstracts of at least 80 words as BioC XML; returns how many."""
    from biosmith.text import formats

    enough = (d for d in formats.read(data) if len(d.text.split()) >= 80)
    return formats.write(islice(enough, count), out, format="bioc-xml").documents


def processor_seconds() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ours(
    model: Path, engine: str, precision: str, source: Path, out: Path, threads: int | None
) -> dict[str, Any]:
    """The whole road with one of our engines."""
    import biosmith
    from biosmith.annotate.files import Options, annotate_files

    nlp = biosmith.load(model, engine=engine, precision=precision, threads=threads)  # type: ignore[arg-type]
    next(iter(nlp.annotate(islice(biosmith.read(source), FIRST))))
    cold, reason = time.perf_counter() - BEGAN, next(iter(nlp.engines.values()))
    del nlp  # `annotate_files` loads its own, and the peak is to be of one
    gc.collect()
    used, began = processor_seconds(), time.perf_counter()
    options = Options(engine=engine, precision=precision)  # type: ignore[arg-type]
    report = annotate_files([source], [model], out / "annotated.bioc.json", options)
    seconds = time.perf_counter() - began
    counts = report.counts
    return {
        "documents": counts.documents,
        "tokens": counts.tokens,
        "seconds": report.seconds,
        "seconds_with_loading": seconds,
        "processor_seconds": processor_seconds() - used,
        "cold_start": cold,
        "engine": reason,
    }


def theirs(model: Path, source: Path, out: Path) -> dict[str, Any]:
    """The pipeline of `transformers` over the texts."""
    import torch
    from transformers import pipeline

    import biosmith

    tagger = pipeline("token-classification", model=str(model), device="cpu", dtype=torch.float32)
    texts = [d.text for d in biosmith.read(source)]
    tagger(texts[:1])
    cold = time.perf_counter() - BEGAN
    used, began = processor_seconds(), time.perf_counter()
    found = tagger(texts, batch_size=8)
    return {
        "documents": len(found),
        "seconds": time.perf_counter() - began,
        "processor_seconds": processor_seconds() - used,
        "cold_start": cold,
    }


def child(arguments: argparse.Namespace) -> None:
    """One contestant, in this process; its figures on stdout."""
    model, source, out = arguments.tuned, arguments.source, arguments.out
    if arguments.child == "pipeline":
        figures = theirs(model, source, out)
    else:
        figures = ours(model, *arguments.child.split(":"), source, out, arguments.threads)
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(figures))


def run(
    name: str, model: Path, kind: str, source: Path, threads: int | None
) -> tuple[dict[str, Any], Mentions]:
    """A contestant in a process of its own, and the mentions that it wrote."""
    import biosmith

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--child", kind, "--tuned", str(model), "--source", str(source)]
        command += ["--out", folder, *([] if threads is None else ["--threads", str(threads)])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        written = Path(folder) / "annotated.bioc.json"
        mentions: Mentions = set()
        if written.exists():
            mentions = {(d.id, m.start, m.end, m.type) for d in biosmith.read(written) for m in d.mentions}
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}: {figures['documents'] / figures['seconds']:.2f} documents/s", file=sys.stderr)
    return figures, mentions


def contestants(arguments: argparse.Namespace) -> dict[str, tuple[Path, str]]:
    """Name -> (model, what its process does)."""
    chosen = {"transformers pipeline": (arguments.tuned, "pipeline")}
    chosen["torch float32"] = (arguments.tuned, "torch:float32")
    if arguments.all:
        chosen |= {f"{e} float32": (arguments.tuned, f"{e}:float32") for e in ("openvino", "onnx")}
        # In bfloat16 where the processor has it.
        chosen |= {f"{e} auto": (arguments.tuned, f"{e}:auto") for e in ("torch", "openvino")}
    for folder in arguments.int8 or []:
        config = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["config"]
        name = f"{config['engine']['engine']} int8 (auto)"
        chosen[f"{name}, {folder.name}" if name in chosen else name] = (folder, "auto:auto")
    return chosen


def main() -> None:
    """Run every contestant and print what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tuned", type=Path, required=True, help="a tuned tagger")
    parser.add_argument("--int8", type=Path, nargs="*", help="folders that biosmith quantize made of it")
    parser.add_argument("--data", type=Path, nargs="+", help="files or folders with abstracts")
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, help="cores; all by default")
    parser.add_argument("--all", action="store_true", help="the engines in other precisions, too")
    parser.add_argument("--results", type=Path, default=RESULTS)
    for name in ("--child", "--source", "--out"):
        parser.add_argument(name, type=str if name == "--child" else Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "abstracts.bioc.xml"
        count = write_abstracts(arguments.data, arguments.documents, source)
        best: dict[str, dict[str, Any]] = {}
        mentions: dict[str, Mentions] = {}
        for _ in range(arguments.rounds):
            for name, (model, kind) in contestants(arguments).items():
                figures, mentions[name] = run(name, model, kind, source, arguments.threads)
                if name not in best or figures["seconds"] < best[name]["seconds"]:
                    best[name] = figures
    report(best, mentions, count, arguments)


def report(
    best: dict[str, dict[str, Any]], mentions: dict[str, Mentions], count: int, arguments: argparse.Namespace
) -> None:
    """Ratios, a table, and the JSON."""
    from biosmith.machine import processor

    peer = best["transformers pipeline"]
    tokens = best["torch float32"]["tokens"]
    expected = mentions["torch float32"]
    rows = {}
    for name, figures in best.items():
        share = None
        if name != "transformers pipeline":
            share = len(expected & mentions[name]) / max(1, len(expected), len(mentions[name]))
        rows[name] = {
            **figures,
            "documents_per_second": figures["documents"] / figures["seconds"],
            "tokens_per_second": tokens / figures["seconds"],
            "tokens_per_processor_second": tokens / figures["processor_seconds"],
            "times_the_pipeline": peer["seconds"] / figures["seconds"],
            "times_the_pipeline_by_processor_time": peer["processor_seconds"] / figures["processor_seconds"],
            "equal_mentions": share,
        }
    cpu = processor()
    result = {
        "processor": {"model": cpu.model, "cores": cpu.cores, "features": cpu.features},
        "platform": platform.platform(),
        "documents": count,
        "mentions": len(expected),
        "rounds": arguments.rounds,
        "contestants": rows,
    }
    arguments.results.parent.mkdir(exist_ok=True)
    arguments.results.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{count} abstracts, {tokens:,} tokens, {len(expected):,} mentions; {cpu.model}, {cpu.cores} cores")
    print(f"{'':24} docs/s   tok/s  ratio (by CPU time)  cold s  peak MB  equal")
    for name, row in rows.items():
        equal = "" if row["equal_mentions"] is None else f"{100 * row['equal_mentions']:6.2f}%"
        print(
            f"{name:24} {row['documents_per_second']:6.1f} {row['tokens_per_second']:7,.0f} "
            f"{row['times_the_pipeline']:6.2f} ({row['times_the_pipeline_by_processor_time']:.2f}) "
            f"{row['cold_start']:13.1f} {row['peak_mb']:8,.0f}  {equal}"
        )


if __name__ == "__main__":
    main()
