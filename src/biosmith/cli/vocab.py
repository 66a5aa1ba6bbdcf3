"""`biosmith vocab train` and `biosmith vocab report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from biosmith.cli import Report
from biosmith.errors import UsageError
from biosmith.tokens.schemes import Kind


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
    from biosmith.tokens.from_corpus import VocabularySettings, train_vocabulary
    from biosmith.tokens.parts import default_workers
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
    made = train_vocabulary(corpus, out, settings, workers=workers or default_workers())
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
