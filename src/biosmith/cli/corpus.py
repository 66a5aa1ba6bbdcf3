"""`biosmith corpus`: build, fetch, stats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from biosmith.cli import Report
from biosmith.errors import UsageError

KEYS = ("documents", "passages", "words", "duplicates", "set_aside", "filtered")


def build(
    sources: Annotated[tuple[Path, ...], tyro.conf.Positional],
    /,
    out: Path,
    min_words: int = 0,
    language: str | None = None,
    dedup: bool = True,
    similarity: float = 0.8,
    exclude: tuple[Path, ...] = (),
    workers: int = 0,
    resume: bool = False,
    strict: bool = False,
) -> Report:
    """Build a corpus: clean, de-duplicated Parquet shards with a manifest, from any mix of files of text.

    Example: biosmith corpus build pubmed/ articles.tar.gz --out corpus --min-words 128 --language eng

    Reads PubMed and JATS XML, BioC, PubTator, brat, JSONL and the other formats, plain or compressed, files, folders
    and archives. The newest version of a citation stays, deleted ones go, and of texts that say the same one stays.
    What cannot be read is set aside, counted and listed in rejects.jsonl.

    Args:
        sources: Files, folders and archives.
        out: Folder to make.
        min_words: Drop documents with fewer words outside the title. PubMedBERT takes 128.
        language: Keep documents of this language only, such as "eng".
        dedup: Remove exact and near duplicates.
        similarity: Estimated Jaccard similarity of word trigrams from which two texts are duplicates.
        exclude: Files and folders, of benchmarks for example: documents with the PMID or PMC id of one of theirs, and
            documents that repeat 13 of their words in a row, are kept out and counted.
        workers: Number of processes; 0 is one a processor.
        resume: Go on with a build that was stopped.
        strict: Stop at the first record that cannot be read.
    """
    from biosmith.corpus.build import REJECTS, build_corpus
    from biosmith.corpus.options import BuildOptions
    from biosmith.machine import count_workers

    options = BuildOptions(
        min_words=min_words,
        language=language,
        deduplicate=dedup,
        similarity=similarity,
        exclude=tuple(map(str, exclude)),
        strict=strict,
    )
    if not sources:
        raise UsageError("corpus build needs at least one source: a file, a folder or an archive")
    counts = build_corpus(sources, out, options, workers=count_workers(workers), resume=resume).counts
    return _report(out, counts, out / REJECTS)


def fetch(
    collection: Annotated[Literal["pubmed", "pmc"], tyro.conf.Positional],
    /,
    files: str,
    out: Path,
    base_url: str | None = None,
    at_once: int = 2,
    megabytes_per_second: float | None = None,
) -> Report:
    """Download the official bulk files: PubMed's baseline and updates, or PubMed Central's open-access packages.

    Example: biosmith corpus fetch pubmed --files 1-10 --out downloads

    Files are checked against their checksums; those that are there and right are not fetched again, so that the same
    call goes on after a stop.

    Args:
        collection: Which files.
        files: Their numbers: 1-10, 7, or 1-3,8.
        out: Folder for the files.
        base_url: Address of a mirror, instead of NLM's server.
        at_once: Downloads at the same time, 1 to 4.
        megabytes_per_second: Limit of speed over all downloads.
    """
    from biosmith.corpus.download import Patience
    from biosmith.corpus.fetch import fetch as fetch_files
    from biosmith.corpus.fetch import parse_numbers

    limit = None if megabytes_per_second is None else megabytes_per_second * 1e6
    done = fetch_files(
        collection,
        parse_numbers(files),
        out,
        base_url=base_url,
        at_once=at_once,
        patience=Patience(bytes_a_second=limit),
    )
    return Report(
        {
            "files": len(done.files),
            "fetched": done.fetched,
            "bytes": done.bytes,
            "names": done.files,
            "path": str(out),
        }
    )


def stats(folder: Annotated[Path, tyro.conf.Positional], /) -> Report:
    """Say what is in a corpus.

    Example: biosmith corpus stats corpus --json

    Args:
        folder: Folder that `corpus build` made.
    """
    from biosmith.corpus.build import load_counts

    return _report(folder, load_counts(folder), None)


def _report(folder: Path, counts: Mapping[str, Any], listed: Path | None) -> Report:
    data = {key: counts[key] for key in KEYS}
    more = (
        "read",
        "characters",
        "exact_duplicates",
        "near_duplicates",
        "set_aside_reasons",
        "boilerplate",
        "digest",
    )
    data |= {key: counts[key] for key in more} | {"path": str(folder)}
    if listed is None:
        return Report(data)
    return Report(data, set_aside=counts["set_aside"], set_aside_file=str(listed))
