"""Read -> write -> read over all files of folders, in every format that promises it.

    python benchmarks/round_trip.py [FOLDER ...] [--formats parquet jsonl ...] [--most N] [--out FILE]

For each file: documents, mentions, relations; what the file itself has wrong (listed by reason); whether each
mention's text is the document's text at its place; and for each format whether the documents come back equal: as they
were from Parquet, JSON lines and BioC, as `project` says that the format holds them from PubTator and brat, with what
that leaves out. Writes benchmarks/results/round_trip.json. The exit code is 1 if anything crashed or came back other.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from biosmith.errors import BiosmithError
from biosmith.rejects import Rejects
from biosmith.text.document import Document
from biosmith.text.files import HEAD, open_decompressed
from biosmith.text.formats import brat, find_files, pubtator, read, read_file, recognise, write
from biosmith.version import __version__

REPOSITORY = Path(__file__).resolve().parents[1]
DATA = REPOSITORY.parent / "shared" / "data"
RESULTS = REPOSITORY / "benchmarks" / "results" / "round_trip.json"
SUFFIXES = {
    "parquet": ".parquet",
    "jsonl": ".jsonl",
    "bioc-xml": ".bioc.xml",
    "bioc-json": ".bioc.json",
    "pubtator": ".pubtator",
    "brat": ".brat",
}
PROJECTIONS: dict[str, Callable[[Document], Document]] = {"pubtator": pubtator.project, "brat": brat.project}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, default=[DATA / "fixtures", DATA / "benchmarks"])
    parser.add_argument("--formats", nargs="+", choices=list(SUFFIXES), default=list(SUFFIXES))
    parser.add_argument("--most", type=int, default=None, help="documents of each file that make the trip")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows = []
    print(
        f"{'file':58} {'format':10} {'docs':>6} {'mentions':>8} {'own errors':>10}  "
        + " ".join(arguments.formats)
    )
    for path in find_files(arguments.folders):
        row = check_file(path, arguments.formats, arguments.most)
        row["file"] = shown_name(path, arguments.folders)
        rows.append(row)
        print(line(row, arguments.formats), flush=True)
    totals = summarise(rows)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    result = {"version": __version__, "totals": totals, "files": rows}
    arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(totals, indent=1))
    return 1 if totals["crashes"] or totals["mismatches"] or totals["unequal"] else 0


def check_file(path: Path, formats: Sequence[str], most: int | None) -> dict[str, Any]:
    """Read one file and send its documents through each format."""
    rejects = Rejects()
    row: dict[str, Any] = {"format": format_of(path), "documents": 0, "mentions": 0, "relations": 0}
    began = time.perf_counter()
    try:
        documents = list(itertools.islice(read_file(path, rejects=rejects), most))
    except BiosmithError as error:
        return row | {"refused": str(error)}
    except Exception as error:  # a crash is what this program looks for
        return row | {"crash": f"{type(error).__name__}: {error}"}
    row |= {
        "documents": len(documents),
        "mentions": sum(len(d.mentions) for d in documents),
        "relations": sum(len(d.relations) for d in documents),
        "seconds": round(time.perf_counter() - began, 2),
        "own_errors": dict(rejects.reasons),
        "mismatches": sum(1 for d in documents for _ in d.mismatches()),
    }
    if documents:
        row["formats"] = {format: check_format(documents, format) for format in formats}
    return row


def check_format(documents: Sequence[Document], format: str) -> dict[str, Any]:
    """Write the documents, read them, and compare with what the format promises."""
    project = PROJECTIONS.get(format, lambda document: document)
    with tempfile.TemporaryDirectory(prefix="biosmith-") as folder:
        path = Path(folder, f"x{SUFFIXES[format]}")
        try:
            report = write(documents, path, format=format)
            back = read(path, format=format if path.is_file() else None, rejects=Rejects(strict=True))
            unequal = differences(back, (project(document) for document in documents), ordered=path.is_file())
        except Exception as error:  # a crash is what this program looks for
            return {"equal": False, "crash": f"{type(error).__name__}: {error}"}
    return {"equal": unequal == 0, "unequal": unequal, "lost": dict(report.lost)}


def differences(back: Iterable[Document], expected: Iterable[Document], ordered: bool) -> int:
    """Number of documents that came back other, too few or too many; a folder gives them in order of file names."""
    if ordered:
        return sum(a != b for a, b in itertools.zip_longest(back, expected))
    waiting: dict[str, list[Document]] = defaultdict(list)
    for document in expected:
        waiting[document.id].append(document)
    wrong = 0
    for document in back:
        if document in waiting[document.id]:
            waiting[document.id].remove(document)
        else:
            wrong += 1
    return max(wrong, sum(len(left) for left in waiting.values()))


def format_of(path: Path) -> str:
    """What the file is read as; archives hold files of their own formats."""
    if path.suffix in (".zip", ".tar") or ".tar." in path.name:
        return "archive"
    with open_decompressed(path) as stream:
        return recognise(path.name, stream.read(HEAD)) or "-"


def shown_name(path: Path, folders: Sequence[Path]) -> str:
    for folder in folders:
        if path.is_relative_to(folder):
            return str(Path(folder.name, path.relative_to(folder)))
    return str(path)


def line(row: dict[str, Any], formats: Sequence[str]) -> str:
    name = row["file"] if len(row["file"]) <= 58 else "…" + row["file"][-57:]
    start = f"{name:58} {row['format']:10} {row['documents']:6} {row['mentions']:8} "
    if "crash" in row or "refused" in row:
        return start + (f"CRASH {row['crash']}" if "crash" in row else f"refused: {row['refused'][-60:]}")
    found = row.get("formats", {})
    marks = [mark(found[format]).ljust(len(format)) for format in formats if format in found]
    wrong = f" {row['mismatches']} MISMATCHES" if row["mismatches"] else ""
    return start + f"{sum(row['own_errors'].values()):10}  " + " ".join(marks) + wrong


def mark(result: dict[str, Any]) -> str:
    if not result["equal"]:
        return "FAILED"
    return "loss" if result["lost"] else "equal"


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    trips = [(format, trip) for row in rows for format, trip in row.get("formats", {}).items()]
    equal, lost = Counter(format for format, trip in trips if trip["equal"]), Counter[str]()
    for format, trip in trips:
        lost[format] += bool(trip.get("lost"))
    return {
        "files": len(rows),
        "files_with_text": sum(row["documents"] > 0 for row in rows),
        "refused": sum("refused" in row for row in rows),
        "crashes": sum("crash" in row for row in rows) + sum("crash" in trip for _, trip in trips),
        "documents": sum(row["documents"] for row in rows),
        "mentions": sum(row["mentions"] for row in rows),
        "own_errors": sum(sum(row.get("own_errors", {}).values()) for row in rows),
        "mismatches": sum(row.get("mismatches", 0) for row in rows),
        "trips": len(trips),
        "equal": dict(equal),
        "with_loss": dict(+lost),
        "unequal": sum(not trip["equal"] for _, trip in trips),
    }


if __name__ == "__main__":
    sys.exit(main())
