"""Cost and memory from 10,000 to 1,000,000 citations: corpus build, vocab train and tokenize; all of PubMed from that.

    python benchmarks/corpus_scale.py [--sizes 10000 100000 1000000] [--workers 1 2] [--data CORPUS]

Citations are made from the real abstracts of the data folder (`abs-*`): each is repeated with three words in ten
replaced by words of other abstracts, so that copies are no near duplicates; three in a hundred are exact and two in a
hundred near copies of the one before. They are written as MEDLINE XML, gzipped, 30,000 to a file as NLM does. Each
command is run as users run it, in processes of its own; measured are seconds, processor seconds of all processes, and
the largest sum of their memory (resident, and without file pages, which the system takes back when it needs them).

Extrapolation to 36 million citations: seconds a citation at the largest size, those that spread over cores divided by
their number (`corpus build` reports its stages; for the others Amdahl's law on the times with 1 and 2 workers), with
no claim that disks keep up with 64 cores. Run it on a machine that does nothing else. Writes benchmarks/results/corpus_scale.json.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import math
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from biosmith.rejects import Rejects
from biosmith.text.formats import read

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results" / "corpus_scale.json"
CITATIONS_IN_A_FILE = 30_000
ALL_OF_PUBMED = 36_000_000
CORES = (2, 16, 64)
REPLACED, EXACT, NEAR = 0.3, 0.03, 0.02
COMMANDS = {
    "corpus build": ("biosmith.cli.corpus", ["{source}", "--out", "{corpus}"]),
    "vocab train": (
        "biosmith.cli.vocab",
        ["{corpus}", "--kind", "wordpiece", "--size", "30522", "--uncased", "--out", "{vocabulary}"],
    ),
    "tokenize": ("biosmith.cli.tokenize", ["{corpus}", "--vocab", "{vocabulary}", "--out", "{tokens}"]),
}


def real_abstracts(data: Path) -> list[tuple[str, str]]:
    """Title and abstract of the real citations."""
    found = []
    for path in sorted(data.glob("abs-*.jsonl*")):
        for document in read(path, rejects=Rejects()):
            texts = {passage.kind: passage.text for passage in document.passages}
            if "abstract" in texts:
                found.append((texts.get("title", ""), texts["abstract"]))
    random.Random(1).shuffle(found)
    return found


def citations(real: list[tuple[str, str]], count: int) -> Iterator[tuple[str, str]]:
    """As many citations as wanted, made as the module says."""
    draw = random.Random(2)
    pool = [word for title, abstract in real[::7] for word in abstract.split()]
    previous = real[0]
    for number in range(count):
        kind = draw.random()
        if number and kind < EXACT:
            yield previous
            continue
        if number and kind < EXACT + NEAR:
            words = previous[1].split()
            words[draw.randrange(len(words))] = draw.choice(pool)
            yield previous[0], " ".join(words)
            continue
        previous = real[number % len(real)]
        if number >= len(real):
            replaced = [
                draw.choice(pool) if draw.random() < REPLACED else word for word in previous[1].split()
            ]
            previous = (previous[0], " ".join(replaced))
        yield previous


def write_medline(real: list[tuple[str, str]], count: int, folder: Path) -> None:
    """Citations as gzipped MEDLINE XML files."""
    folder.mkdir()
    stream = None
    for number, (title, abstract) in enumerate(citations(real, count)):
        if number % CITATIONS_IN_A_FILE == 0:
            if stream is not None:
                stream.write("</PubmedArticleSet>\n")
                stream.close()
            name = f"pubmed26n{number // CITATIONS_IN_A_FILE + 1:04d}.xml.gz"
            stream = gzip.open(folder / name, "wt", encoding="utf-8", compresslevel=3)  # noqa: SIM115
            stream.write('<?xml version="1.0" encoding="utf-8"?>\n<PubmedArticleSet>\n')
        assert stream is not None
        stream.write(
            f'<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">{number + 1}</PMID>'
            "<DateRevised><Year>2025</Year><Month>01</Month><Day>02</Day></DateRevised><Article>"
            "<Journal><JournalIssue><PubDate><Year>2024</Year></PubDate></JournalIssue><Title>Journal</Title></Journal>"
            f"<ArticleTitle>{escape(title)}</ArticleTitle><Abstract><AbstractText>{escape(abstract)}</AbstractText>"
            "</Abstract><Language>eng</Language></Article></MedlineCitation></PubmedArticle>\n"
        )
    if stream is not None:
        stream.write("</PubmedArticleSet>\n")
        stream.close()


class Memory(threading.Thread):
    """Looks at the memory of a process and its descendants until told to stop."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.resident, self.anonymous = pid, 0, 0
        self.finished = threading.Event()

    def run(self) -> None:
        while not self.finished.wait(0.1):
            sums = [sum(pair) for pair in zip(*(memory_of(pid) for pid in family(self.pid)), strict=True)]
            if sums:
                self.resident, self.anonymous = max(self.resident, sums[0]), max(self.anonymous, sums[1])


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    members = [pid]
    for member in members:
        try:
            for task in Path(f"/proc/{member}/task").iterdir():
                members += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return members


def memory_of(pid: int) -> tuple[int, int]:
    """Resident bytes, and those of them that are not pages of files."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0, 0
    found = {name: int(size) * 1024 for name, size in re.findall(r"(VmRSS|RssAnon):\s+(\d+) kB", status)}
    return found.get("VmRSS", 0), found.get("RssAnon", 0)


def measure(command: list[str]) -> dict[str, Any]:
    """Run a command of biosmith; seconds, memory, and what it reported."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "biosmith", *command, "--json"], stdout=out, stderr=errors, text=True
        )
        memory = Memory(process.pid)
        memory.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        memory.finished.set()
        memory.join()
        out.seek(0)
        errors.seek(0)
        said = errors.read()
        if status:
            raise SystemExit(f"biosmith {' '.join(command)} failed:\n{said}")
        report = json.loads(out.read())
    stages = re.findall(r"(reading|choosing|writing) ([\d.]+) s", said)
    return {
        "seconds": round(seconds, 2),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_resident_mb": round(memory.resident / 1e6),
        "peak_anonymous_mb": round(memory.anonymous / 1e6),
        **({"stages": {stage: float(took) for stage, took in stages}} if stages else {}),
        "report": {key: value for key, value in report.items() if isinstance(value, int | dict)},
    }


def run_size(
    real: list[tuple[str, str]], size: int, workers: list[int], scratch: Path
) -> list[dict[str, Any]]:
    """All commands at one size; the last number of workers leaves its output to the next command."""
    source = scratch / f"source-{size}"
    print(f"making {size:,} citations", file=sys.stderr)
    write_medline(real, size, source)
    rows = []
    places = {
        "source": source,
        **{name: scratch / f"{name}-{size}" for name in ("corpus", "vocabulary", "tokens")},
    }
    for name, (module, arguments) in COMMANDS.items():
        if importlib.util.find_spec(module) is None:
            print(f"{name}: the command is not there", file=sys.stderr)
            continue
        for count in workers:
            out = places[{"corpus build": "corpus", "vocab train": "vocabulary", "tokenize": "tokens"}[name]]
            shutil.rmtree(out, ignore_errors=True)
            command = [*name.split(), *(a.format(**places) for a in arguments), "--workers", str(count)]
            row = {"command": name, "citations": size, "workers": count, **measure(command)}
            rows.append(row)
            print(
                f"{name:13} {size:>9,} citations {count} workers {row['seconds']:8.1f} s "
                f"{size / row['seconds']:8,.0f}/s {row['peak_resident_mb']:6,} MB ({row['peak_anonymous_mb']:,} anonymous)"
            )
    for place in places.values():
        shutil.rmtree(place, ignore_errors=True)
    return rows


def extrapolate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """For each command: the exponent of time over size, and hours for all of PubMed by cores."""
    summary: dict[str, Any] = {}
    for name in dict.fromkeys(row["command"] for row in rows):
        mine = [row for row in rows if row["command"] == name]
        fewest = min(row["workers"] for row in mine)
        by_size = {row["citations"]: row for row in mine if row["workers"] == fewest}
        largest = by_size[max(by_size)]
        spread, alone = seconds_a_citation(mine, largest)
        exponent = None
        if len(by_size) > 1:
            before = by_size[sorted(by_size)[-2]]
            ratio = largest["processor_seconds"] / before["processor_seconds"]
            exponent = round(math.log(ratio) / math.log(largest["citations"] / before["citations"]), 3)
        hours = {str(c): round(ALL_OF_PUBMED * (spread / c + alone) / 3600, 2) for c in CORES}
        summary[name] = {
            "exponent_of_processor_time": exponent,
            "microseconds_a_citation": {"spread_over_cores": spread * 1e6, "on_one_core": alone * 1e6},
            "peak_resident_mb": {
                f"{row['citations']} x {row['workers']}": row["peak_resident_mb"] for row in mine
            },
            "hours_for_36_million": hours,
        }
        print(
            f"{name:13} exponent {exponent}; a citation {spread * 1e6:.0f} us spread over cores, {alone * 1e6:.0f} us on "
            f"one; hours for 36 million by cores: {hours}"
        )
    return summary


def seconds_a_citation(rows: list[dict[str, Any]], largest: dict[str, Any]) -> tuple[float, float]:
    """Seconds a citation that spread over cores, and that do not.

    From the stages at the largest size, if the command reports them. Else from what each further citation costs (the
    difference of the two largest sizes, so that start-up does not count) with 1 and with 2 workers (Amdahl's law).
    """
    size, workers = largest["citations"], largest["workers"]
    if "stages" in largest:
        stages = largest["stages"]
        return (stages["reading"] + stages["writing"]) * workers / size, stages["choosing"] / size
    cost = {count: seconds_a_further_citation(rows, count) for count in {row["workers"] for row in rows}}
    one = cost.get(1, cost[workers])
    alone = min(1.0, max(0.0, 2 * cost[2] / one - 1)) if 2 in cost and one else 1.0
    return one * (1 - alone), one * alone


def seconds_a_further_citation(rows: list[dict[str, Any]], workers: int) -> float:
    """Slope of time between the two largest sizes; over the whole size if there is one only."""
    sizes = sorted((row["citations"], row["seconds"]) for row in rows if row["workers"] == workers)
    (before, fewer), (largest, more) = [(0, 0.0), *sizes][-2:]
    return max(0.0, (more - fewer) / (largest - before))


def main() -> None:
    """Measure, print, write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared" / "data" / "corpus")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--scratch", type=Path, help="folder for the files made on the way; about 8 kB a citation"
    )
    arguments = parser.parse_args()
    real = real_abstracts(arguments.data)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="corpus-scale-") as scratch:
        for size in arguments.sizes:
            rows += run_size(real, size, arguments.workers, Path(scratch))
    report = {
        "rows": rows,
        "summary": extrapolate(rows),
        "cores_here": os.cpu_count(),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
