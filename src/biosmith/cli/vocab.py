"""`biosmith vocab train` and `biosmith vocab report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from biosmith.cli import Report
from biosmith.errors import UsageError
from biosmith.tokens.schemes import Kind

if TYPE_CHECKING:
    from biosmith.tokens.fragmentation import VocabularyCut

REJECTS_SHOWN = 10  # of a report that makes no folder to list them in


def train(
    corpus: Annotated[Path, tyro.conf.Positional],
    *,
    out: Path,
    size: int,
    kind: Kind = "wordpiece",
    cased: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    uncased: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    strip_accents: bool | None = None,
    unused: int = 0,
    as_wordpiece: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    max_length: int = 512,
    most_words: int = 1_000_000,
    workers: int = 0,
) -> Report:
    """Learn a vocabulary from a corpus.

    Words are counted in bounded memory and the pieces learned from the counts: the same corpus and settings give the
    same vocabulary, whatever the number of workers. The folder loads with transformers.AutoTokenizer.

    Example:
        biosmith vocab train corpus --kind wordpiece --size 32768 --cased --out vocab

    Args:
        corpus: a folder made by `corpus build`.
        out: the folder to make.
        size: number of pieces, special tokens and unused slots included; reached exactly.
        kind: wordpiece is BERT's, sentencepiece ALBERT's (unigram), bpe GPT-2's (bytes).
        cased: keep capital letters (the default).
        uncased: drop capital letters, and accents unless told otherwise.
        strip_accents: take accents off letters; by default where capital letters are dropped.
        unused: slots named [unused0], [unused1], ... for words added later.
        as_wordpiece: with --kind sentencepiece: learn the pieces with SentencePiece BPE and write them as WordPiece,
            as SciBERT did: a piece that begins a word is written plainly, any other with ##.
        max_length: longest sequence that the tokenizer announces.
        most_words: distinct words learned from at most; rarer ones are left out.
        workers: processes that count; 0 is one a processor.
    """
    from biosmith.machine import count_workers
    from biosmith.tokens.from_corpus import VocabularySettings, train_vocabulary
    from biosmith.tokens.schemes import Scheme

    if cased and uncased:
        raise UsageError("--cased and --uncased exclude each other")
    if as_wordpiece and kind != "sentencepiece":
        raise UsageError("--as-wordpiece goes with --kind sentencepiece")
    settings = VocabularySettings(
        scheme=Scheme("wordpiece" if as_wordpiece else kind, cased=not uncased, strip_accents=strip_accents),
        size=size,
        unused=unused,
        max_length=max_length,
        by_sentencepiece=as_wordpiece,
        most_words=most_words,
    )
    made = train_vocabulary(corpus, out, settings, workers=count_workers(workers))
    data = {
        "size": made.mark.size,
        "digest": made.mark.digest,
        "kind": made.mark.kind,
        "cased": made.mark.cased,
        "documents": made.documents,
        "words": made.words,
        "distinct_words": made.distinct_words,
        "filled": made.filled,
        "out": str(out),
    }
    text = (
        f"{out}: {made.mark.size:,} pieces, {'cased' if made.mark.cased else 'uncased'}, digest {made.mark.digest[:12]}, "
        f"from {made.words:,} words ({made.distinct_words:,} distinct) of {made.documents:,} documents"
    )
    if made.filled:
        text += f"; the corpus gave out before, {made.filled:,} pieces are unused slots"
    return Report(data, text)


def report(
    vocab: Annotated[tuple[Path, ...], tyro.conf.Positional],
    *,
    terms: Path | None = None,
    data: tuple[Path, ...] = (),
    out: Path | None = None,
    limit: int = 100_000,
) -> Report:
    """Show how vocabularies cut biomedical words, side by side.

    Pieces a word (white-space separated) and the share of words of which something is unknown, over the text of --data;
    the pieces of each term (by default the 17 of PubMedBERT's Table 1); and, where the data have mentions, the share of
    mentions of which no word is broken, and pieces a word inside mentions (BioMegatron's Table 4).

    Example:
        biosmith vocab report vocab models/bert-base-uncased --data NCBI-disease/train.tsv corpus --out report

    Args:
        vocab: vocabulary folders, tokenizer or model folders of Hugging Face, tokenizer.json or vocab.txt files.
        terms: a file of terms, one a line, instead of the 17.
        data: files, folders or archives of any format that biosmith reads, or corpus folders; each is one dataset. Of a
            benchmark's folder (NCBI-disease, BC2GM, ...) the files of its splits are read, and no copies beside them;
            a document that comes twice, with its id, counts once, and so does a text that two folders of a path hold
            in different forms; how many were left out is told.
        out: a folder for report.json and report.png, and rejects.jsonl where something was set aside; without it the
            first of what was set aside are printed.
        limit: documents read of each path at most.
    """
    from biosmith.artefact import require_writable, write_json
    from biosmith.progress import say
    from biosmith.rejects import REJECTS, Rejects
    from biosmith.tokens.fragmentation import TERMS, measure, read_samples, read_terms, short_names
    from biosmith.tokens.picture import draw_report
    from biosmith.tokens.vocabulary import load_vocabulary

    if not vocab:
        raise UsageError("give at least one vocabulary")
    if out is not None:
        require_writable(out / "report.json")
    loaded = [load_vocabulary(path) for path in vocab]
    listed = TERMS if terms is None else read_terms(terms)
    listing = out / REJECTS if out else None
    if listing is not None:
        listing.unlink(missing_ok=True)  # of an earlier report
    with Rejects(listing) as rejects:
        samples = read_samples(data, limit=limit, rejects=rejects, choose=_files_of_splits)
        cuts = [measure(vocabulary, samples, listed) for vocabulary in loaded]
    labels = short_names(vocab)
    found = [cut.as_dict() for cut in cuts]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "report.json", found)
        draw_report(cuts, labels, out / "report.png")
    if listing is None:
        for item in rejects.items[:REJECTS_SHOWN]:
            say(f"{item['file']}, {item['record']}: {item['reason']}")
    listed_in = None if listing is None else str(listing)
    return Report(found, _side_by_side(cuts, labels, out), set_aside=rejects.count, set_aside_file=listed_in)


def _files_of_splits(path: Path) -> Sequence[Path]:
    """Of a benchmark's folder the files of its splits, of anything else the path itself."""
    from biosmith.bench.dataset import SPLITS
    from biosmith.bench.locating import locate

    located = locate(path, ("tagging", "words"))
    return [path] if located is None else [file for split in SPLITS for file in located.files(split)]


def _side_by_side(cuts: Sequence[VocabularyCut], labels: Sequence[str], out: Path | None) -> Any:
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    def table(title: str, rows: Sequence[tuple[str, Sequence[str]]]) -> Table:
        shown = Table(title=title, title_justify="left", title_style="bold", header_style="bold cyan")
        shown.add_column("")
        for label in labels:
            shown.add_column(escape(label), justify="right" if title != "Terms" else "left")
        for name, cells in rows:
            shown.add_row(name, *cells)
        return shown

    def rate(value: float | None, form: str) -> str:
        return "no --data" if value is None else format(value, form)

    tables = [
        table(
            f"Text, {cuts[0].words:,} words"
            + (f"; {cuts[0].repeated:,} repeated documents left out" if cuts[0].repeated else ""),
            [
                ("pieces", [f"{cut.size:,}" for cut in cuts]),
                ("kind", [f"{cut.kind}, {'cased' if cut.cased else 'uncased'}" for cut in cuts]),
                ("pieces a word", [rate(cut.fragmentation, ".3f") for cut in cuts]),
                ("unknown words", [rate(cut.unknown_rate, ".3%") for cut in cuts]),
                ("terms kept whole", [f"{cut.whole_terms} of {len(cut.terms)}" for cut in cuts]),
            ],
        ),
        table(
            "Terms",
            [(escape(term), [_shown(cut.terms[term]) for cut in cuts]) for term in cuts[0].terms],
        ),
    ]
    for name, first in cuts[0].mentions.items():
        of = [cut.mentions[name] for cut in cuts]
        rows = [
            ("kept whole", [f"{each.whole:.1%}" for each in of]),
            ("pieces a mention", [f"{each.pieces_a_mention:.2f}" for each in of]),
            ("pieces a word", [f"{each.pieces_a_word:.3f}" for each in of]),
        ]
        tables.append(table(f"{escape(name)}, {first.mentions:,} mentions", rows))
    where = [f"\nreport.json and report.png are in {escape(str(out))}"] if out else []
    return Group(*tables, *where)


def _shown(pieces: list[str]) -> str:
    from rich.markup import escape

    return f"[green]{escape(pieces[0])}[/]" if len(pieces) == 1 else escape(" ".join(pieces))
