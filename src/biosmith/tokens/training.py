"""Pieces from word counts, with the trainers of the tokenizers and sentencepiece libraries.

Each trainer is given what makes it deterministic, and nothing depends on the number of processors:

- WordPiece: the trainer numbers single characters in the order of a hash map, and breaks ties by that number. It is
  given all of them, sorted, up front; afterwards they are plain entries.
- SentencePiece: the sums of its unigram trainer depend on the number of threads; it gets one.
- BPE works on bytes, whose order is fixed.

Both libraries count occurrences one by one, so counts are divided by one number and rounded until they fit
(`OCCURRENCES`): a word that is rounded away is far too rare to decide a piece.
"""

from __future__ import annotations

import io
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from biosmith.errors import UsageError
from biosmith.tokens.characters import choose_alphabet, stands_alone
from biosmith.tokens.counts import LONGEST_WORD, WordCounts
from biosmith.tokens.schemes import Scheme

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # ids 0 to 4
OCCURRENCES = {"wordpiece": 1 << 24, "bpe": 1 << 24, "sentencepiece": 1 << 22}
_NEVER = -1e4
LONGEST_PIECE = 32  # characters; sentencepiece's default of 16 is too short for "acetyltransferase"


@dataclass(frozen=True)
class Trained:
    """A finished tokenizer, and how many of its pieces only fill it up to the size asked for."""

    tokenizer: Tokenizer
    pieces: tuple[str, ...]
    unused: int


def train_pieces(
    counts: WordCounts, scheme: Scheme, size: int, *, unused: int = 0, by_sentencepiece: bool = False
) -> Trained:
    """Learn a vocabulary of exactly `size` pieces.

    Args:
        counts: words of the scheme and how often they occur.
        scheme: what the words were made by.
        size: pieces, special tokens and unused slots included.
        unused: slots named [unused0], ... for words that users add later.
        by_sentencepiece: wordpiece only: learn the pieces with SentencePiece BPE and convert them (`as_wordpiece`).

    Raises:
        UsageError: `size` is too small to spell words with.
    """
    first = [*SPECIAL_TOKENS, *(f"[unused{number}]" for number in range(unused))]
    room = size - len(first)
    if scheme.kind == "bpe":
        if room < 256:
            raise UsageError(
                f"--size {size} is too small: the 256 bytes and {len(first)} special tokens come first"
            )
        order, merges = _train_bpe(counts, first, size)
        return _finish(order, scheme, size, merges=merges)
    forms = (
        2 if scheme.kind == "wordpiece" else 1
    )  # a character has a form inside a word and one at its start
    alphabet = choose_alphabet(counts.characters(), scheme, slots=room // 2 // forms)
    spelled = _spelled_with(counts, alphabet)
    if scheme.kind == "sentencepiece":
        scored = _train_sentencepiece(spelled, alphabet, first, size, "unigram")
        return _finish([piece for piece, _ in scored], scheme, size, scores=dict(scored))
    inside = [f"##{c}" for c in alphabet if not stands_alone(c, scheme)]
    if by_sentencepiece:
        scored = _train_sentencepiece(spelled, alphabet, first, size, "bpe")
        pieces = as_wordpiece([piece for piece, _ in scored[len(first) :]])
        order = [*first, *dict.fromkeys([*alphabet, *inside, *pieces])]
        return _finish(order[:size], scheme, size)
    return _finish(_train_wordpiece(spelled, [*first, *alphabet, *inside], size), scheme, size)


def as_wordpiece(pieces: list[str]) -> list[str]:
    """SentencePiece pieces in WordPiece form, as SciBERT's: a piece that begins a word loses its `▁`, others get `##`."""
    return [piece[1:] if piece.startswith("▁") else f"##{piece}" for piece in pieces if piece != "▁"]


def _spelled_with(counts: WordCounts, alphabet: tuple[str, ...]) -> dict[str, int]:
    known = frozenset(alphabet)
    pairs = zip(counts.words, counts.counts, strict=True)
    return {word: count for word, count in pairs if known.issuperset(word)}


def _fitting(words: Mapping[str, int], most: int) -> dict[str, int]:
    """Counts divided by the smallest whole number that brings their sum to `most`, rounded to the nearest."""
    divisor = max(1, -(-sum(words.values()) // most))
    scaled = ((word, (count + divisor // 2) // divisor) for word, count in words.items())
    return {word: count for word, count in scaled if count}


def _train_wordpiece(words: Mapping[str, int], first: list[str], size: int) -> list[str]:
    learner = Tokenizer(models.WordPiece(unk_token=UNK))
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=first,
        min_frequency=0,
        show_progress=False,
        continuing_subword_prefix="##",
    )
    several = {word: count for word, count in words.items() if len(word) > 1}
    _feed(learner, trainer, _fitting(several, OCCURRENCES["wordpiece"]))
    vocabulary = learner.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _train_bpe(counts: WordCounts, first: list[str], size: int) -> tuple[list[str], list[tuple[str, str]]]:
    learner = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=first,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        min_frequency=0,
        show_progress=False,
    )
    words = dict(zip(counts.words, counts.counts, strict=True))
    _feed(learner, trainer, _fitting(words, OCCURRENCES["bpe"]))
    model = json.loads(learner.to_str())["model"]
    order = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return order, [(left, right) for left, right in model["merges"]]


def _finish(
    order: list[str],
    scheme: Scheme,
    size: int,
    *,
    scores: Mapping[str, float] | None = None,
    merges: list[tuple[str, str]] | None = None,
) -> Trained:
    """The whole tokenizer. A corpus too small for the size asked for leaves slots, named on from the last unused one."""
    taken = frozenset(order)
    names = (name for number in itertools.count() if (name := f"[unused{number}]") not in taken)
    filled = [*order, *itertools.islice(names, max(0, size - len(order)))]
    ids = {piece: number for number, piece in enumerate(filled)}
    model: Any
    if scheme.kind == "wordpiece":
        model = models.WordPiece(ids, unk_token=UNK, max_input_chars_per_word=LONGEST_WORD)
    elif scheme.kind == "bpe":
        model = models.BPE(ids, merges)
    else:
        # Text that looks like a special token or a slot must be spelled, not matched: those get the lowest score.
        special = {piece for piece in filled if piece in SPECIAL_TOKENS or piece.startswith("[unused")}
        known = scores or {}
        model = models.Unigram([(p, _NEVER if p in special else known[p]) for p in filled], unk_id=ids[UNK])
    tokenizer = Tokenizer(model)
    dress(tokenizer, scheme)
    return Trained(tokenizer, tuple(filled), len(filled) - len(order))


def dress(tokenizer: Tokenizer, scheme: Scheme) -> None:
    """Give a tokenizer everything around its model: normaliser, pre-tokeniser, decoder, special tokens, [CLS] A [SEP]."""
    tokenizer.normalizer, tokenizer.pre_tokenizer = scheme.normalizer(), scheme.pre_tokenizer()
    tokenizer.decoder = {
        "wordpiece": lambda: decoders.WordPiece(prefix="##"),
        "sentencepiece": lambda: decoders.Metaspace(replacement="▁", prepend_scheme="always"),
        "bpe": decoders.ByteLevel,
    }[scheme.kind]()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS}:0 $A:0 {SEP}:0",
        pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (CLS, SEP)],
    )


def _feed(learner: Tokenizer, trainer: Any, words: Mapping[str, int]) -> None:
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    with _parallelism():
        learner.train_from_iterator(_repeat(words), trainer)


def _repeat(words: Mapping[str, int], at_once: int = 1000) -> Iterator[str]:
    for word, count in words.items():
        for _ in range(count // at_once):
            yield " ".join([word] * at_once)
        if count % at_once:
            yield " ".join([word] * (count % at_once))


@contextmanager
def _parallelism() -> Iterator[None]:
    """The trainers may use all processors; the result does not depend on them."""
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TOKENIZERS_PARALLELISM"]
        else:
            os.environ["TOKENIZERS_PARALLELISM"] = before


def _train_sentencepiece(
    words: Mapping[str, int], alphabet: tuple[str, ...], first: list[str], size: int, algorithm: str
) -> list[tuple[str, float]]:
    import sentencepiece

    fitting = _fitting(words, OCCURRENCES["sentencepiece"])
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in fitting.items()),
        input_format="tsv",
        model_writer=written,
        model_type=algorithm,
        vocab_size=size,
        num_threads=1,
        character_coverage=1.0,
        required_chars="".join(alphabet),
        normalization_rule_name="identity",
        max_sentencepiece_length=LONGEST_PIECE,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        pad_piece=PAD,
        unk_piece=UNK,
        control_symbols=first[2:],
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return [(model.id_to_piece(i), round(model.get_score(i), 6)) for i in range(model.get_piece_size())]
