"""`biosmith data`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from biosmith.cli import Report
from biosmith.rejects import Rejects


def ls(*, suite: str = "blurb", data: Path | None = None) -> Report:
    """List the datasets of a suite: what is in each split here, beside what the paper counts.

    Example:
        biosmith data ls --suite blurb --data benchmarks

    Args:
        suite: blurb, bioformer15, biom, extras or mock.
        data: the folder that holds the datasets' folders; the mock suite brings its own.
    """
    from biosmith.bench.listing import list_splits
    from biosmith.bench.mock import FOLDER
    from biosmith.bench.suites import find_suite
    from biosmith.errors import UsageError

    found = find_suite(suite)
    if data is None and suite != "mock":
        raise UsageError("--data is needed: the folder that holds the datasets' folders")
    rows = list_splits(found.datasets, data or FOLDER)
    return Report(rows, _table(rows))


def prepare(
    dataset: Annotated[str, tyro.conf.Positional],
    *,
    raw: Path,
    out: Path,
    splits: Path | None = None,
) -> Report:
    """Make a dataset's instances from its raw corpus, exactly as BLURB makes them.

    Example:
        biosmith data prepare chemprot --raw ChemProt_Corpus --out chemprot

    Args:
        dataset: chemprot, ddi, hoc or ebm-pico.
        raw: the corpus as its authors release it: a folder, or (all but ChemProt) the archive. BLURB's
            instances of DDI are of the release with folders train_dataset and test_dataset (DDIextraction_2013.tar.gz);
            those of the authors' own (DDICorpus-2013.zip) differ in ten documents.
        out: the folder to make, with train.tsv, dev.tsv and test.tsv.
        splits: DDI, HoC, EBM PICO: the folder with the lists of each split (train_files.tsv, ... or train_pmid.tsv,
            ...); looked for beside the corpus.
    """
    from biosmith.bench.prepare import prepare as make

    faults = Rejects()
    counts = make(dataset, raw, out, splits, faults)
    text = f"{out}: " + ", ".join(f"{split} {count:,}" for split, count in counts.items())
    if faults.count:
        text += f"\n{faults.count} faults of the corpus:\n"
        text += "\n".join(map(_place, faults.items))
    values = {"dataset": dataset, "out": str(out), "instances": counts}
    return Report({**values, "faults": faults.count, "fault_items": faults.items}, text)


def check(dataset: Annotated[str, tyro.conf.Positional], *, data: Path) -> Report:
    """Say what is wrong with a dataset's files, by file and line, and what is odd in them.

    Example:
        biosmith data check chemprot --data benchmarks

    Args:
        dataset: a name of `biosmith data ls`.
        data: the folder that holds the dataset's folder, or that folder itself.
    """
    from biosmith.bench.checking import check_dataset
    from biosmith.bench.datasets import find_dataset

    found = check_dataset(find_dataset(dataset), data)
    values = {"dataset": dataset, **found.as_dict()}
    lines = []
    for listed, mark in ((found.problems, ""), (found.oddities, " (odd)")):
        lines += [_place(item) + mark for item in listed.items]
        if listed.count > len(listed.items):
            lines.append(f"and {listed.count - len(listed.items):,} more{mark}")
    if found.problems.count == 0:
        lines.append(f"{dataset}: nothing is wrong" + ("; the lines above are odd" if lines else ""))
    return Report(values, "\n".join(lines), set_aside=found.problems.count)


def convert(
    source: Annotated[Path, tyro.conf.Positional],
    *,
    out: Path,
    to: str | None = None,
    keep_unanswered: bool = False,
) -> Report:
    """Convert documents to tagging files or another format, and BioASQ's factoid questions to the form of SQuAD.

    What the new format cannot hold, what tags on words cannot say and what could not be read is counted, and listed in
    OUT.report.jsonl.

    Example:
        biosmith data convert BioRED --to conll --out biored

    Args:
        source: documents in any format (PubTator, BioC, brat, ...), BioASQ's question files, or a folder of one of them;
            LINNAEUS and S800 as they are released (a folder, or the archive).
        out: the file to make; for tags, the folder with train.tsv, dev.tsv and test.tsv if the source is a folder whose
            files are named after splits.
        to: conll (a word and its tag a line), squad, or any other format that is written (bioc-json, pubtator, brat,
            ...); found by the suffix of the output if not given.
        keep_unanswered: BioASQ: keep the texts in which no answer was found, as a test set needs them.
    """
    from biosmith.bench.prepare.conversion import convert as make

    made = make(source, out, to, keep_unanswered=keep_unanswered)
    counted = ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in made.counts.items())
    lines = [f"{', '.join(map(str, made.files))}: {counted}"]
    lines += [f"not held by {made.format}: {what} ({count:,})" for what, count in made.lost.items()]
    listed = None if made.report is None else str(made.report)
    return Report(made.as_dict(), "\n".join(lines), set_aside=made.set_aside, set_aside_file=listed)


def _place(item: dict[str, str]) -> str:
    value = f" (found {item['value']!r})" if "value" in item else ""
    return f"{item['file']}, {item['record']}: {item['reason']}{value}"


def _table(rows: list[dict[str, Any]]) -> Any:
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    from biosmith.cli.narrow import Uncut

    table = Table(box=None, padding=(0, 1))
    for column in ("dataset", "split", "instances", "counted", "here", "paper", ""):
        right = column in ("instances", "here", "paper")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    notes: dict[str, int] = {}
    for row in rows:
        here = row.get(row["counted"])
        shown = ["–" if value is None else f"{value:,}" for value in (row["instances"], here, row["paper"])]
        mark = "matches" if row["matches"] else "missing" if row["instances"] is None else "differs"
        if row["note"]:
            mark += f" [{notes.setdefault(row['note'], len(notes) + 1)}]"
        counted = [row["counted"], shown[1], shown[2], mark.replace("[", r"\[")]
        table.add_row(row["dataset"], row["split"], shown[0], *counted)
    return Group(Uncut(table), *(f"[dim]\\[{number}][/] {escape(note)}" for note, number in notes.items()))
