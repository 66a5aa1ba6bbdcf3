"""Reading MEDLINE XML: documents a second and peak memory, ours beside pubmed_parser, on one core.

    python benchmarks/reading.py [--citations 30000] [--rounds 5] [--pubmed PUBMED]

A file of the wanted size is made by repeating the citations of real baseline and update files under new PMIDs. Each
measurement is a process of its own; the order alternates from round to round. Ours reads every citation into a
`Document` (title, sections, labels, infons); pubmed_parser's `parse_medline_xml` (its defaults) into a dictionary.
Prints the medians and the ratio; writes benchmarks/results/reading.json. Needs `pip install pubmed_parser`.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results" / "reading.json"
FILES = ("pubmed20n1015", "pubmed21n1001", "pubmed21n1003", "pubmed26n1335", "pubmedsample18n0001")
HEAD = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" "pubmed_250101.dtd">
<PubmedArticleSet>
"""
READERS = ("biosmith", "pubmed_parser")


def make_file(pubmed: Path, path: Path, citations: int) -> None:
    """Real citations again and again, each time with another PMID."""
    real: list[str] = []
    for name in FILES:
        with gzip.open(pubmed / f"{name}.xml.gz", "rt", encoding="utf-8") as stream:
            real += re.findall(r"<PubmedArticle>.*?</PubmedArticle>", stream.read(), re.DOTALL)
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=4) as stream:
        stream.write(HEAD)
        for number in range(citations):
            pmid = rf"\g<1>{50_000_000 + number}<"
            stream.write(re.sub(r"(<PMID [^>]*>)\d+<", pmid, real[number % len(real)], count=1) + "\n")
        stream.write("</PubmedArticleSet>\n")


def read(reader: str, path: Path) -> Iterator[object]:
    """The documents of a file by one of the readers."""
    if reader == "biosmith":
        import biosmith

        return biosmith.read(path)
    import pubmed_parser

    return iter(pubmed_parser.parse_medline_xml(str(path)))


def measure(reader: str, path: Path) -> None:
    """Read the file once and print what it took, as JSON (in the child process)."""
    next(read(reader, path))  # imports and first use are not measured
    wall, processor, documents = time.perf_counter(), time.process_time(), 0
    for _ in read(reader, path):
        documents += 1
    seconds = time.perf_counter() - wall
    figures = {
        "documents": documents,
        "documents_per_second": documents / seconds,
        "documents_per_cpu_second": documents / (time.process_time() - processor),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(figures))


def run(reader: str, path: Path) -> dict[str, float]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--measure", reader, "--file", str(path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(
        f"  {reader}: {figures['documents_per_second']:,.0f} documents/s, {figures['peak_mb']:,.0f} MB",
        file=sys.stderr,
    )
    return figures


def name_processor() -> str:
    """The processor's name as the system gives it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"model name\s*:\s*(.*)", text)
    return found[1] if found else platform.processor()


def compare(pubmed: Path, citations: int, rounds: int) -> dict[str, object]:
    """Measure both readers in alternating order."""
    figures: dict[str, list[dict[str, float]]] = {reader: [] for reader in READERS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pubmed.xml.gz"
        make_file(pubmed, path, citations)
        size = path.stat().st_size
        for number in range(rounds):
            for reader in READERS if number % 2 == 0 else reversed(READERS):
                figures[reader].append(run(reader, path))
    medians = {
        reader: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for reader, runs in figures.items()
    }
    ours, theirs = (medians[reader] for reader in READERS)
    return {
        "citations": citations,
        "file_bytes": size,
        "median": medians,
        "ratio": ours["documents_per_second"] / theirs["documents_per_second"],
        "ratio_by_cpu_time": ours["documents_per_cpu_second"] / theirs["documents_per_cpu_second"],
        "runs": figures,
        "cpu": name_processor(),
        "load": os.getloadavg()[0],
        "versions": {name: importlib.metadata.version(name) for name in ("biosmith", "pubmed_parser", "lxml")}
        | {"python": platform.python_version()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--citations", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pubmed", type=Path, default=REPOSITORY.parent / "shared/data/fixtures/pubmed")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--measure", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.file)
        return
    found = compare(arguments.pubmed, arguments.citations, arguments.rounds)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    shown = {key: value for key, value in found.items() if key != "runs"}
    print(json.dumps(shown, indent=2))


if __name__ == "__main__":
    main()
