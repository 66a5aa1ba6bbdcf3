"""Annotation on a graphics card, the whole road: Parquet in, Parquet out, several processes that share the card.

    python benchmarks/annotation_card.py --tuned NER --data CORPUS --documents 60000 240000 --processes 4 8 12

Documents of the corpus are written once, as one Parquet file a process and again with other ids where there are too few.
Each process is what `biosmith annotate --shard I/N` runs. The speed is of all real tokens over the time from the first
process that has loaded its model to the last that is done; `wall` counts starting and loading, too. With two numbers of
documents there is a steady speed besides: of what the longer run did more, in the time that it took more. Prints what the
speed makes of all of PubMed and PMC; writes benchmarks/results/annotation_card.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

import biosmith
from biosmith.annotate.files import Options, annotate_files
from biosmith.annotate.units import Shard
from biosmith.text import formats
from biosmith.text.document import Document

RESULT = Path(__file__).parent / "results" / "annotation_card.json"
EVERYTHING = 49e9  # tokens of PubMed's abstracts and PMC's full texts


def main() -> None:
    """Run every number of processes, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tuned", type=Path, required=True, help="a tuned tagger")
    parser.add_argument("--data", type=Path, nargs="+", help="files or folders with documents")
    parser.add_argument("--documents", type=int, nargs="+", default=[60_000, 240_000])
    parser.add_argument("--processes", type=int, nargs="+", default=[12])
    parser.add_argument("--engine", default="torch")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--work", type=Path, help="where files lie meanwhile")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--child", type=Shard.parse, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given)
        return
    card = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    found: dict[str, Any] = {"machine": {"card": card, "cores": os.cpu_count(), "torch": torch.__version__}}
    found["settings"] = {key: str(value) for key, value in vars(given).items()}
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        for count in given.processes:
            rows = [measure(given, count, documents, Path(folder)) for documents in sorted(given.documents)]
            found.setdefault("processes", {})[count] = rows
            if len(rows) > 1:
                first, last = rows[0], rows[-1]
                steady = (last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"])
                last["steady_tokens_per_second"] = steady
                print(f"{count} processes: {steady:,.0f} tokens/s once all are under way", flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {given.out}")


def measure(given: Any, count: int, wanted: int, folder: Path) -> dict[str, Any]:
    """So many processes at once, over so many documents."""
    source = folder / f"in-{count}-{wanted}"
    source.mkdir()
    supply = documents(given.data)
    for number in range(count):
        share = islice(supply, wanted // count)
        formats.write(share, source / f"part-{number:03}.parquet", format="parquet")
    began = time.time()
    command = [sys.executable, __file__, "--tuned", str(given.tuned), "--data", str(source)]
    command += ["--engine", given.engine, "--device", given.device]
    children = [
        subprocess.Popen(
            [*command, "--out", str(folder / f"out-{count}-{wanted}-{i}.parquet"), "--child", f"{i}/{count}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for i in range(1, count + 1)
    ]
    reports = [json.loads(process.communicate()[0].splitlines()[-1]) for process in children]
    wall = time.time() - began
    tokens = sum(report["tokens"] for report in reports)
    seconds = max(r["ended"] for r in reports) - min(r["ended"] - r["seconds"] for r in reports)
    row = {
        "documents": sum(report["documents"] for report in reports),
        "tokens": tokens,
        "mentions": sum(report["mentions"] for report in reports),
        "seconds": seconds,
        "wall": wall,
        "tokens_per_second": tokens / seconds,
        "hours_for_everything": EVERYTHING / (tokens / seconds) / 3600,
    }
    print(
        f"{count} processes: {row['tokens_per_second']:,.0f} tokens/s, {row['documents'] / seconds:,.0f} documents/s, "
        f"{wall:.1f} s with loading; PubMed and PMC in {row['hours_for_everything']:.1f} hours",
        flush=True,
    )
    return row


def documents(data: list[Path]) -> Iterator[Document]:
    """The documents, over and over, each time with other ids."""
    turn = 0
    while True:
        for document in biosmith.read(data):
            yield replace(document, id=f"{document.id}-{turn}")
        turn += 1


def child(given: Any) -> None:
    """One shard; its figures on stdout."""
    options = Options(engine=given.engine, device=given.device)
    report = annotate_files(given.data, [given.tuned], given.out, options, shard=given.child)
    figures = {"documents": report.counts.documents, "tokens": report.counts.tokens}
    print(
        json.dumps(
            {**figures, "mentions": report.counts.mentions, "seconds": report.seconds, "ended": time.time()}
        )
    )


if __name__ == "__main__":
    main()
