"""Sentence boundaries: ours beside pysbd, against the boundaries that benchmark files imply; quality and speed.

    python benchmarks/sentences.py [--data DATA] [--part test] [--rounds 5] [--errors 0]

The token files of BC5CDR, NCBI-disease and AnatEM have a block a sentence, the original corpora the text as it was
written; Hallmarks of Cancer has a line a sentence and its abstracts as PubMed has them. Aligning the two without white
space gives the places where sentences begin. Counted are the boundaries inside passages, not their ends, which no
splitter can miss. These gold boundaries were made by other programs and in part corrected by people: "Fig. | 1" and
"2. | We found" are in them, and sentences that begin with "p53" are missing from HoC. The rules of our splitter were
tuned on the train and devel parts; the test part is what is reported. Writes benchmarks/results/sentences.json.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from biosmith.rejects import Rejects
from biosmith.text.formats import read
from biosmith.text.sentences import Span, splitter

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / "benchmarks" / "results" / "sentences.json"
PARTS = ("train", "devel", "test")
METHODS = ("fast", "pysbd")


@dataclass(frozen=True)
class Gold:
    """A passage and where sentences begin in it, after the first."""

    text: str
    starts: frozenset[int]


def crichton(data: Path, part: str, folder: str, original: Path, texts: Iterable[str]) -> list[Gold]:
    """Passages of an original corpus with the sentences of its token file."""
    sentences = [
        d.text for d in read(existing(data / folder / f"{part}.tsv"), format="conll", rejects=Rejects())
    ]
    found = list(align(texts, sentences))
    print(f"{original.name}: {len(found)} passages", file=sys.stderr)
    return found


def passages(path: Path) -> Iterator[str]:
    """Texts of the passages of a file."""
    for document in read(existing(path), rejects=Rejects()):
        yield from (passage.text for passage in document.passages)


def anatem(data: Path, part: str) -> Iterator[str]:
    """Paragraphs of a part of AnatEM's archive."""
    archive = data / "AnatEM" / "standoff.tar.gz"
    names = {line for name, text in members(archive, f"{part}.list") for line in text.split()}
    wanted = names or {Path(n).stem for n, _ in members(archive, f"/{part}/", ".txt")}
    for document in read(archive, format="brat", rejects=Rejects()):
        if document.id in wanted:
            yield from (passage.text for passage in document.passages)


def members(archive: Path, *pieces: str) -> Iterator[tuple[str, str]]:
    """Name and text of the members of an archive whose names hold all the pieces."""
    import tarfile

    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and all(piece in member.name for piece in pieces):
                stream = tar.extractfile(member)
                assert stream is not None
                yield member.name, stream.read().decode("utf-8")


def hallmarks(data: Path, part: str) -> list[Gold]:
    """Abstracts of Hallmarks of Cancer as PubMed has them, with the lines of the tokenised corpus."""
    index = (data / "benchmarks/hoc/indexing" / f"{'dev' if part == 'devel' else part}_pmid.tsv").read_text(
        "utf-8"
    )
    wanted = set(re.findall(r"\d+", index))
    archive = data / "benchmarks" / "hoc" / "Hallmarks-of-Cancer.tar.gz"
    lines = {Path(name).stem: text.splitlines() for name, text in members(archive, "/text/", ".txt")}
    gold: list[Gold] = []
    for document in read(data / "corpus" / "abs-hoc-000.jsonl.xz", rejects=Rejects()):
        pmid = document.id.removeprefix("PMID")
        if pmid in wanted:
            gold += align([document.text], [re.sub("``|''", '"', line) for line in lines[pmid]])
    return gold


def existing(path: Path) -> Path:
    """The file, plain or gzipped."""
    return path if path.exists() else path.with_name(path.name + ".gz")


def align(texts: Iterable[str], sentences: list[str]) -> Iterator[Gold]:
    """The texts that some run of consecutive sentences spells out, white space aside."""
    squeezed = ["".join(sentence.split()) for sentence in sentences]
    places: dict[str, list[int]] = {}
    for i, sentence in enumerate(squeezed):
        places.setdefault(sentence[:24], []).append(i)
    for text in texts:
        positions = [i for i, c in enumerate(text) if not c.isspace()]
        letters = "".join(text[i] for i in positions)
        heads = {letters[:size] for size in range(1, 25)}
        for first in sorted(i for head in heads for i in places.get(head, ())):
            starts, at, i = [], 0, first
            while at < len(letters) and i < len(squeezed) and letters.startswith(squeezed[i], at):
                starts.append(positions[at])
                at, i = at + len(squeezed[i]), i + 1
            if at == len(letters):
                yield Gold(text, frozenset(starts[1:]))
                break


def load(data: Path, part: str) -> dict[str, list[Gold]]:
    """Gold passages by corpus."""
    benchmarks = data / "benchmarks"
    named = {"train": ("Training", "train"), "devel": ("Development", "develop"), "test": ("Test", "test")}[
        part
    ]
    cdr = benchmarks / "BC5CDR" / f"CDR_{named[0]}Set.PubTator.txt"
    ncbi = benchmarks / "NCBI-disease" / "original-data" / f"NCBI{named[1]}set_corpus.txt"
    return {
        "BC5CDR": crichton(benchmarks, part, "BC5CDR-chem", cdr, passages(cdr)),
        "NCBI-disease": crichton(benchmarks, part, "NCBI-disease", ncbi, passages(ncbi)),
        "AnatEM": crichton(benchmarks, part, "AnatEM", Path("AnatEM"), anatem(benchmarks, part)),
        "HoC": hallmarks(data, part),
    }


def score(gold: list[Gold], split: Callable[[str], list[Span]], errors: int) -> dict[str, float]:
    """Precision, recall and F1 of boundaries."""
    right = predicted = wanted = 0
    for passage in gold:
        starts = {start for start, _ in split(passage.text)[1:]}
        right += len(starts & passage.starts)
        predicted += len(starts)
        wanted += len(passage.starts)
        for place in sorted(starts ^ passage.starts)[: max(errors, 0)]:
            kind = "+" if place in starts else "-"
            print(
                f"  {kind} {passage.text[max(0, place - 50) : place]!r} | {passage.text[place : place + 30]!r}"
            )
    return {
        "boundaries": wanted,
        "right": right,
        "predicted": predicted,
        "precision": right / max(predicted, 1),
        "recall": right / max(wanted, 1),
        "f1": 2 * right / max(predicted + wanted, 1),
    }


def megabytes_per_second(texts: list[str], split: Callable[[str], list[Span]]) -> float:
    """UTF-8 bytes a second, passage by passage, on one core."""
    size = sum(len(text.encode()) for text in texts)
    began = time.perf_counter()
    for text in texts:
        split(text)
    return size / (time.perf_counter() - began) / 1e6


def measure_speed(texts: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Both splitters in turns; pysbd on a twentieth of the text, for it takes minutes otherwise."""
    few = texts[::20]
    speeds: dict[str, list[float]] = {method: [] for method in METHODS}
    for _ in range(rounds):
        for method in METHODS:
            speeds[method].append(megabytes_per_second(texts if method == "fast" else few, splitter(method)))
    return {
        method: {"median": statistics.median(found), "lowest": min(found), "highest": max(found)}
        for method, found in speeds.items()
    }


def main() -> None:
    """Measure, print, write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared" / "data")
    parser.add_argument("--part", choices=PARTS, default="test")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--errors", type=int, default=0, help="errors of ours to show, a passage")
    arguments = parser.parse_args()
    corpora = load(arguments.data, arguments.part)
    corpora["all"] = [passage for gold in corpora.values() for passage in gold]
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name, gold in corpora.items():
        shown = arguments.errors if name != "all" else 0
        results[name] = {m: score(gold, splitter(m), shown if m == "fast" else 0) for m in METHODS}
        row = "   ".join(
            f"{m} P {r['precision']:.4f} R {r['recall']:.4f} F1 {r['f1']:.4f}"
            for m, r in results[name].items()
        )
        print(f"{name:13}{len(gold):6} passages {results[name]['fast']['boundaries']:6} boundaries   {row}")
    speed = measure_speed([passage.text for passage in corpora["all"]], arguments.rounds)
    ratio = speed["fast"]["median"] / speed["pysbd"]["median"]
    print(
        f"speed: fast {speed['fast']['median']:.1f} MB/s, pysbd {speed['pysbd']['median']:.3f} MB/s: {ratio:.0f} times"
    )
    if arguments.part == "test":
        report = {
            "part": arguments.part,
            "scores": results,
            "megabytes_per_second": speed,
            "speed_ratio": ratio,
            "pysbd": importlib.metadata.version("pysbd"),
            "python": platform.python_version(),
            "machine": platform.machine(),
        }
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
