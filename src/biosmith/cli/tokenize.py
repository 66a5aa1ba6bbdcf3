"""`biosmith tokenize`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from biosmith.cli import Report


def tokenize(
    corpus: Annotated[Path, tyro.conf.Positional],
    *,
    vocab: Path,
    out: Path,
    workers: int = 0,
    resume: bool = True,
    shard_tokens: int = 1 << 26,
) -> Report:
    """Turn a corpus into a token store: ids, word starts and sentence starts on disk, ready for pretraining.

    The store is the same for any number of workers. A run that was stopped goes on from its last finished shard when
    the same command is given again. A word is what the tokenizer's pre-tokeniser makes (for BERT vocabularies, a run
    between white space and punctuation, each mark being a word): the unit of whole-word masking.

    Example:
        biosmith tokenize corpus --vocab vocab --out tokens --workers 8

    Args:
        corpus: a folder made by `corpus build`.
        vocab: a folder made by `vocab train`, any tokenizer or model folder of Hugging Face, a tokenizer.json, or the
            vocab.txt of a BERT model.
        out: the folder to make.
        workers: processes; 0 is one a processor.
        resume: go on with an unfinished store in `out`; --no-resume starts it again.
        shard_tokens: tokens of a shard, about.
    """
    from biosmith.machine import count_workers
    from biosmith.tokens.tokenizing import tokenize_corpus

    store = tokenize_corpus(
        corpus, vocab, out, workers=count_workers(workers), resume=resume, shard_tokens=shard_tokens
    )
    counts = store.manifest.counts
    data = {
        "documents": store.documents,
        "tokens": store.tokens,
        "words": counts["words"],
        "sentences": counts["sentences"],
        "empty": counts["empty"],
        "vocabulary": {"size": store.vocabulary.size, "digest": store.vocabulary.digest},
        "out": str(out),
    }
    text = (
        f"{out}: {store.documents:,} documents, {counts['sentences']:,} sentences, {counts['words']:,} words, "
        f"{store.tokens:,} tokens ({store.tokens / max(1, counts['words']):.3f} a word), vocabulary {store.vocabulary}"
    )
    if counts["empty"]:
        text += f"; {counts['empty']:,} documents without text left out"
    return Report(data, text)
