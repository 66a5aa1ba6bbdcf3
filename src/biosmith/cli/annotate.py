"""`biosmith annotate` and `biosmith view`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from biosmith.cli import Report

if TYPE_CHECKING:
    from biosmith.annotate.units import Shard
    from biosmith.annotate.work import Options

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
    shard: str | None = None,
    cluster: str | None = None,
    resume: bool = False,
    plan: bool = False,
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
        workers: processes on this machine; with --cluster the most actors there, 1 for one a core.
        device: auto, cpu, cuda, ...
        keep: keep the mentions and relations that the documents bring with them; else they are replaced.
        shard: I/N: annotate only the I-th of N parts of the input (from 1); give every part an --out of its own.
        cluster: address of a Ray cluster that does the work, such as auto or HOST:PORT; its machines must see inputs
            and models under the same paths.
        resume: go on with a run that was stopped, at whatever moment; begins where there is none yet, and does
            nothing where it is finished.
        plan: annotate only a sample and say how many hours, how much disk and how many shards all of it would take.
    """
    from biosmith.annotate.files import Options, annotate_files
    from biosmith.annotate.units import Shard

    options = Options(engine, device, on_long, keep, format, workers)
    part = None if shard is None else Shard.parse(shard)
    if plan:
        return _plan(inputs, model, out, options, part)
    report = annotate_files(inputs, model, out, options, resume=resume, shard=part, cluster=cluster)
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


def _plan(
    inputs: tuple[Path, ...], model: tuple[Path, ...], out: Path, options: Options, part: Shard | None
) -> Report:
    from biosmith.annotate.planning import plan_annotation

    planned = plan_annotation(inputs, model, out, options, part)
    about = "" if planned.counted else "about "
    lines = [
        f"{planned.files:,} files, {planned.bytes / 2**30:,.2f} GiB, {about}{planned.documents:,} documents, "
        f"{planned.tokens:,} tokens",
        f"measured on {planned.sampled:,} documents with {planned.workers} workers: "
        f"{planned.documents_per_second:,.1f} documents/s, {planned.tokens_per_second:,.0f} tokens/s",
        f"{planned.hours:,.2f} hours; {planned.output_bytes / 2**30:,.2f} GiB of output and as long as it runs "
        f"{planned.working_bytes / 2**30:,.2f} GiB beside it",
        f"shards of at most four hours: {planned.shards:,}",
    ]
    if planned.failed:
        lines.append(f"{planned.failed:,} documents of the sample failed")
    return Report(planned.as_dict(), "\n".join(lines))


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
