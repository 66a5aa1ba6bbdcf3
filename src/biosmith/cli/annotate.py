"""`biosmith annotate` and `biosmith view`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from biosmith.cli import Report

if TYPE_CHECKING:
    from biosmith.annotate.units import Shard
    from biosmith.annotate.work import Options

MUCH_UNKNOWN = 0.005  # of the pieces; a vocabulary of the field's own text knows nearly all
Engine = Literal["auto", "torch", "openvino", "onnx"]
Format = Literal["bioc-json", "bioc-xml", "pubtator", "brat", "conll", "jsonl", "parquet", "html"]


def annotate(
    inputs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    *,
    model: tuple[Path, ...] = (),
    out: Path,
    format: Format | None = None,
    engine: Engine = "auto",
    on_long: Literal["window", "error", "truncate"] = "window",
    workers: int = 1,
    device: str = "auto",
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
    normalise: bool = False,
    link: Path | None = None,
    pairs: tuple[str, str] | None = None,
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
        biosmith annotate pubmed26n0001.xml.gz --out annotated.bioc.json

    Example:
        biosmith annotate articles/ --model ner-disease ner-chemical --out annotated.parquet --workers 8

    Args:
        inputs: files, folders or archives of any format that biosmith reads.
        model: tuned models: each tagger adds its mentions, relation models add relations between them, classifiers
            write labels of documents. Taggers that share an encoder read a text together. Without any, the tagger of
            diseases, chemicals and genes that comes with biosmith's sources.
        out: the file to make (a folder for brat).
        format: format of the output; by the suffix of --out if not given.
        engine: what runs taggers: torch, openvino or onnx; auto takes what the model was quantised for, else torch.
        on_long: what becomes of sentences longer than the model reads.
        workers: processes on this machine; with --cluster the most actors there, 1 for one a core.
        device: auto, cpu, cuda, ...
        precision: of the arithmetic; auto is the fastest that the machine has in hardware.
        normalise: read plain characters for their variants (hyphens, primes, ligatures, sub- and superscripts, entities);
            offsets stay those of the text.
        link: a TSV (identifier, name, type of mention if for one only) or OBO file; mentions get the identifiers of
            their names, abbreviations that a text defines those of their long forms.
        pairs: types of the first and second mention that relation models are asked about, as the tagger names them, or
            as Chemical=DRUG where the relation model knows that type as DRUG; if not given, any two that its training
            data pairs.
        keep: keep the mentions and relations that the documents bring with them; else those of taggers take their place.
        shard: I/N: annotate only the I-th of N parts of the input (from 1); give every part an --out of its own.
        cluster: address of a Ray cluster that does the work, such as auto or HOST:PORT; its machines must see inputs
            and models under the same paths.
        resume: go on with a run that was stopped, at whatever moment; begins where there is none yet, and does
            nothing where it is finished.
        plan: annotate only a sample and say how many hours, how much disk and how many shards all of it would take.
    """
    from biosmith.annotate.files import Options, annotate_files
    from biosmith.annotate.released import default_tagger
    from biosmith.annotate.units import Shard
    from biosmith.errors import UsageError

    if not inputs:
        raise UsageError("annotate needs at least one input: a file, a folder or an archive")
    model = model or (default_tagger(),)
    options = Options(engine, device, on_long, keep, format, workers, precision, normalise, link, pairs)
    part = None if shard is None else Shard.parse(shard)
    if plan:
        return _plan(inputs, model, out, options, part)
    report = annotate_files(inputs, model, out, options, resume=resume, shard=part, cluster=cluster)
    data = {**report.as_dict(), "out": str(out)}
    linked = "" if link is None else f" ({data['linked']:,} linked)"
    related = f", {data['relations']:,} relations" if data["relations"] else ""
    lines = [
        f"{out}: {data['documents']:,} documents, {data['mentions']:,} mentions{linked}{related}; "
        f"{data['documents_per_second']:,.1f} documents/s, {data['tokens_per_second']:,.0f} tokens/s"
    ]
    if data["truncated"]:
        lines.append(f"{data['truncated']:,} words were not read: their sentences are too long for the model")
    if data["clipped"]:
        lines.append(
            f"{data['clipped']:,} words have more pieces than a model reads: only their beginning was read"
        )
    if data["unpaired"]:
        lines.append(
            f"{data['unpaired']:,} pairs of mentions, in sentences that are lists of them, were not asked about"
        )
    if data["unknown_rate"] > MUCH_UNKNOWN and not normalise:
        lines.append(
            f"{data['unknown_rate']:.1%} of the pieces are unknown to the vocabulary; try --normalise"
        )
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


def quantize(
    tuned: Annotated[Path, tyro.conf.Positional],
    *,
    out: Path,
    data: tuple[Path, ...] = (),
    text: tuple[Path, ...] = (),
    rename: tuple[str, ...] = (),
    gate: float = 0.3,
    equal: float = 0.0,
    cascade: bool = True,
    engine: Literal["auto", "openvino", "onnx"] = "auto",
    embeddings: Literal["int8", "int4"] = "int8",
    portable: bool = False,
) -> Report:
    """Make an int8 form of a tagger for a CPU engine.

    The new folder is a tuned model for `annotate`. It is calibrated on --text, or on the development set, and refused
    (exit code 1, nothing written) where F1 on the development set falls by more than --gate points.

    Example:
        biosmith quantize ner-disease --out ner-disease-int8 --data NCBI-disease

    Args:
        tuned: a tagger made by `finetune`, or any token classification folder of Hugging Face.
        out: the folder to make.
        data: datasets' folders, whose dev splits are the development set, or files; by default those that the
            tagger's manifest names, if they are still there. F1 is the mean of theirs.
        text: documents like those to annotate, to calibrate on.
        rename: other names for the data's types of mentions as OLD=NEW.
        gate: points of F1 that may be lost.
        equal: percent of the development set's mentions that must come out as in 32 bits; until they do, sentences
            with close decisions are read again by a second network, or layers keep their precision, in the end all
            but the embedding (OpenVINO alone).
        cascade: whether a second network may read close decisions again; it takes as much memory as the first.
        engine: openvino (static int8) or onnx (int8 weights, activations scaled as they come); auto is the first of
            them that is installed.
        embeddings: int4 makes a file smaller by a fifth or more (OpenVINO alone; never with a second network).
        portable: for processors without int8 dot products, too, at a slight loss of precision.
    """
    from biosmith.annotate.engines.quantization import quantize as make
    from biosmith.tasks.joining import parse_names

    report = make(
        tuned,
        out,
        data=data,
        text=text,
        gate=gate,
        equal=equal,
        cascade=cascade,
        engine=engine,
        names=parse_names(rename),
        embeddings=embeddings,
        portable=portable,
    )
    shown = f"{out}: int8 for {report.engine} ({report.scheme}), {report.bytes / 1e6:,.1f} MB"
    if report.before is not None and report.after is not None and report.equal_mentions is not None:
        shown += (
            f"; entity F1 on dev {100 * report.after:.2f}, {100 * report.before:.2f} in 32 bits; "
            f"{100 * report.equal_mentions:.2f} % of {report.mentions:,} mentions are the same"
        )
    if report.again is not None:
        shown += f"; {100 * report.again:.1f} % of tokens are read again"
    return Report({**vars(report), "out": str(out)}, shown)


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
        gold: the same documents with gold mentions; those that are missing on either side are counted.
        title: heading of the page.
    """
    from biosmith.artefact import require_writable
    from biosmith.errors import BadInput, UsageError
    from biosmith.rejects import Rejects
    from biosmith.text import formats
    from biosmith.text.formats import html

    if out.exists():
        raise UsageError(f"{out} exists already; choose another --out, or remove it")
    require_writable(out)
    listed = out.with_name(f"{out.name}.rejects.jsonl")
    listed.unlink(missing_ok=True)
    with Rejects(listed) as rejects:
        documents = formats.read(file, rejects=rejects)
        first = next(documents, None)
        if first is None:  # as `annotate`: an empty page would look like one of texts without mentions
            bad = rejects.items[0] if rejects.items else {"file": str(file), "reason": "holds no document"}
            raise BadInput(bad["file"], bad["reason"])
        expected = None if gold is None else formats.read(gold, rejects=rejects)
        page = html.write(itertools.chain([first], documents), out, expected, title)
    data = {
        "documents": page.documents,
        "mentions": page.mentions,
        "out": str(out),
        "set_aside": rejects.count,
    }
    found = (page.documents, "document"), (page.mentions, "mention")
    lines = [f"{out}: {', '.join(html.count(number, name) for number, name in found)}"]
    if gold is not None:
        data |= {str(name): page.statuses[name] for name in html.STATUSES}
        data |= {"uncompared": page.uncompared, "absent": page.absent}
        lines.append(", ".join(f"{page.statuses[name]:,} {shown}" for name, shown in html.STATUSES.items()))
        lines += page.gaps
    return Report(data, "\n".join(lines), rejects.count, str(listed) if rejects.count else None)
