"""A vocabulary from a corpus: count, learn, write."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from biosmith.artefact import Manifest, describe_files, describe_input, folder_by_rename, require_new_folder
from biosmith.errors import UsageError
from biosmith.progress import say
from biosmith.tokens.counts import MOST_WORDS, count_words
from biosmith.tokens.schemes import Scheme
from biosmith.tokens.store import VocabularyMark
from biosmith.tokens.training import train_pieces
from biosmith.tokens.vocabulary import save_vocabulary

MOST_PIECES = 4_000_000  # the libraries end the process where memory for the pieces cannot be had


@dataclass(frozen=True)
class VocabularySettings:
    """All that decides a vocabulary.

    Attributes:
        scheme: kind, case, accents.
        size: pieces, special tokens and unused slots included.
        unused: slots [unused0], ... left free for words added later.
        max_length: `model_max_length` of the tokenizer.
        by_sentencepiece: WordPiece whose pieces SentencePiece BPE learned, as SciBERT's.
        most_words: distinct words learned from at most.
    """

    scheme: Scheme
    size: int
    unused: int = 0
    max_length: int = 512
    by_sentencepiece: bool = False
    most_words: int = MOST_WORDS


@dataclass(frozen=True)
class TrainedVocabulary:
    """What `train_vocabulary` made."""

    mark: VocabularyMark
    documents: int
    words: int  # occurrences counted
    distinct_words: int
    filled: int  # pieces that only fill the vocabulary up, where the corpus is too small for the size


def train_vocabulary(
    corpus: Path, out: Path, settings: VocabularySettings, *, workers: int = 1
) -> TrainedVocabulary:
    """Learn a vocabulary from a corpus folder and write it to a new folder.

    The result depends on the corpus and the settings alone: not on the number of workers, nor on chance.

    Raises:
        UsageError: `out` exists, the corpus is none, or the settings exclude each other.
        BadInput: the corpus has no words or cannot be read.
    """
    require_new_folder(out)
    if settings.by_sentencepiece and settings.scheme.kind != "wordpiece":
        raise UsageError("pieces of SentencePiece can be converted to WordPiece only; use --kind wordpiece")
    for name, least in (("size", 1), ("unused", 0), ("max_length", 1), ("most_words", 1)):
        if (value := getattr(settings, name)) < least:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be {least} or more")
    if settings.size > MOST_PIECES:
        raise UsageError(f"--size is {settings.size:,}; it must be {MOST_PIECES:,} or less")
    out.parent.mkdir(parents=True, exist_ok=True)
    counts = count_words(
        corpus, settings.scheme, workers=workers, most_words=settings.most_words, scratch=out.parent
    )
    say(f"Learning {settings.size:,} pieces from {len(counts.words):,} distinct words")
    trained = train_pieces(
        counts,
        settings.scheme,
        settings.size,
        unused=settings.unused,
        by_sentencepiece=settings.by_sentencepiece,
    )
    with folder_by_rename(out) as folder:
        mark = save_vocabulary(folder, trained.tokenizer, settings.scheme, max_length=settings.max_length)
        numbers = {
            "documents": counts.documents,
            "words": counts.total,
            "distinct_words": counts.distinct,
            "filled": trained.unused,
        }
        Manifest(
            kind="vocabulary",
            config={**dataclasses.asdict(settings), "vocabulary": mark},
            inputs=[describe_input(corpus)],
            files=describe_files(folder),
            counts={"size": mark.size, "digest": mark.digest, **numbers},
        ).save(folder)
    return TrainedVocabulary(mark, counts.documents, counts.total, counts.distinct, trained.unused)
