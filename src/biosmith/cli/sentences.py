"""`biosmith sentences`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from biosmith.cli import Report


def sentences(
    corpus: Annotated[Path, tyro.conf.Positional],
    *,
    vocab: Path,
    out: Path,
    decoder_vocab: Path | None = None,
    most_words: int = 64,
    most_pieces: int = 126,
    least_words: int = 4,
    most: int | None = None,
    workers: int | None = None,
) -> Report:
    """Cut a corpus into sentences in two vocabularies, for the training of a latent-variable model.

    Example: biosmith sentences corpora/pubmed --vocab models/scibert --decoder-vocab models/gpt2 --out sentences/pubmed

    Sentences that are empty, too short or too long are left out and counted.

    Args:
        corpus: what `biosmith corpus build` made.
        vocab: folder of the encoder, or of its vocabulary.
        out: new folder.
        decoder_vocab: folder of the decoder, or of its vocabulary; the encoder's vocabulary without it.
        most_words: longer sentences are left out.
        most_pieces: sentences of more pieces in either vocabulary are left out.
        least_words: shorter ones are left out.
        most: the first so many sentences; all without it.
        workers: processes; as many as there are cores without it.
    """
    from biosmith.machine import usable_cores
    from biosmith.pretraining.sentences import SentenceRules, build_sentences

    rules = SentenceRules(most_words, most_pieces, least_words)
    built = build_sentences(
        corpus, vocab, decoder_vocab or vocab, out, rules=rules, most=most, workers=workers or usable_cores()
    )
    return Report({**vars(built), "out": str(out)})
