"""`biosmith annotate` and `biosmith view`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from biosmith.cli import Report

Format = Literal["bioc-json", "bioc-xml", "pubtator", "brat", "conll", "jsonl", "parquet", "html"]


def annotate(
    inputs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    *,
    model: tuple[Path, ...],
    out: Path,
    format: Format | None = None,
    engine: str = "auto",
    on_long: Literal["window", "error", "truncate"] = "window",
    workers: int = 1,
    device: str = "auto",
    keep: bool = False,
    resume: bool = False,
) -> Report:
    """Find mentions in documents and write the documents with them.

    Offsets are code points of the document, and document.text[start:end] is always the mention's text. Sentences
    longer than a model reads are read in overlapping windows. A document that fails is listed in OUT.rejects.jsonl
    and the rest goes on (exit code 3).

    Example:
        biosmith annotate pubmed26n0001.xml.gz --model ner-disease ner-chemical --out annotated.bioc.json

    Args:
        inputs: files, folders or archives of any format that biosmith reads.
        model: tuned taggers; each adds its mentions.
        out: the file to make (a folder for brat).
        format: format of the output; by the suffix of --out if not given.
        engine: what runs the model: auto or torch.
        on_long: what becomes of sentences longer than the model reads.
        workers: processes.
        device: auto, cpu, cuda, ...
        keep: keep the mentions and relations that the documents bring with them; else they are replaced.
        resume: go on with a run that was stopped.
    """
    from biosmith.annotate.files import Options, annotate_files

    options = Options(engine, device, on_long, keep, format, workers)
    report = annotate_files(inputs, model, out, options, resume=resume)
    data = {**report.as_dict(), "out": str(out)}
    lines = [
        f"{out}: {data['documents']:,} documents, {data['mentions']:,} mentions; "
        f"{data['documents_per_second']:,.1f} documents/s, {data['tokens_per_second']:,.0f} tokens/s"
    ]
    if data["truncated"]:
        lines.append(f"{data['truncated']:,} words were not read: their sentences are too long for the model")
    if data["failed"]:
        lines.append(f"{data['failed']:,} documents failed")
    lines += [f"not held by the format: {what} ({count:,})" for what, count in report.lost.items()]
    listed = None if report.set_aside_file is None else str(report.set_aside_file)
    return Report(data, "\n".join(lines), set_aside=report.set_aside, set_aside_file=listed)


def view(
    file: Annotated[Path, tyro.conf.Positional],
    *,
    out: Path,
    gold: Path | None = None,
    title: str = "",
) -> Report:
    """Show annotated documents as one self-contained HTML page.

    Mentions are drawn in the text with their types; types, scores and words can be filtered. With --gold, documents
    of the same id are compared: right, missed, spurious, other boundaries, another type.

    Example:
        biosmith view annotated.bioc.json --gold CDR_TestSet.PubTator.txt --out page.html

    Args:
        file: documents with mentions, of any format that biosmith reads.
        out: the page to make.
        gold: the same documents with gold mentions.
        title: heading of the page.
    """
    from biosmith.errors import UsageError
    from biosmith.rejects import Rejects
    from biosmith.text import formats
    from biosmith.text.formats import html

    if out.exists():
        raise UsageError(f"{out} exists already; choose another --out, or remove it")
    listed = out.with_name(f"{out.name}.rejects.jsonl")
    listed.unlink(missing_ok=True)
    with Rejects(listed) as rejects:
        documents = formats.read(file, rejects=rejects)
        expected = None if gold is None else formats.read(gold, rejects=rejects)
        page = html.write(documents, out, expected, title)
    data = {
        "documents": page.documents,
        "mentions": page.mentions,
        "out": str(out),
        "set_aside": rejects.count,
    }
    lines = [f"{out}: {page.documents:,} documents, {page.mentions:,} mentions"]
    if gold is not None:
        data |= {str(name): page.statuses[name] for name in html.STATUSES} | {"uncompared": page.uncompared}
        lines.append(", ".join(f"{page.statuses[name]:,} {shown}" for name, shown in html.STATUSES.items()))
    if page.uncompared:
        lines.append(f"{page.uncompared:,} documents have no gold document of the same id and text")
    return Report(data, "\n".join(lines), rejects.count, str(listed) if rejects.count else None)
