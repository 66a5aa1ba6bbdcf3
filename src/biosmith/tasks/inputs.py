"""TransformInput: words and sentences to the token ids that an encoder reads (PubMedBERT, section 5)."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biosmith.artefact import digest_value
from biosmith.errors import UsageError
from biosmith.tasks.words import word_prefix

AT_ONCE = 4096  # sentences given to the tokenizer in one call

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence, with what the head reads of it and what it should say.

    Attributes:
        ids: token ids, special tokens included.
        picks: positions whose hidden states the featurizer reads, ascending.
        target: the right answer for each pick, or for the sequence; empty where it is not known.
        source: which instance it was made from.
        words: for taggers, which word of the instance each pick stands for.
        types: segment of each token; None is segment 0 throughout.
    """

    ids: Ids
    picks: Ids
    target: NDArray[Any]
    source: int
    words: Ids
    types: Ids | None = None


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a sentence's words: ids [P], and for each word its first piece and where its pieces end [W].

    A word of which the tokenizer leaves nothing (control characters) has no pieces: its first is its end.
    """

    ids: Ids
    first: Ids
    end: Ids


@dataclass(frozen=True, slots=True)
class TextPieces:
    """The pieces of a text: ids [P], and where each begins and ends in it, in code points [P]."""

    ids: Ids
    starts: Ids
    ends: Ids


@dataclass(frozen=True, slots=True)
class PairFrame:
    """The special tokens around two texts, and the segment of each token where the model tells segments apart."""

    before: Ids
    between: Ids
    after: Ids
    types: tuple[int, int, int, int, int] | None  # of before, first text, between, second text, after

    @property
    def size(self) -> int:
        """How many special tokens there are."""
        return len(self.before) + len(self.between) + len(self.after)

    def join(self, first: Ids, second: Ids) -> tuple[Ids, Ids | None]:
        """Ids and segments of a pair."""
        parts = (self.before, first, self.between, second, self.after)
        ids = np.concatenate(parts)
        if self.types is None:
            return ids, None
        return ids, np.repeat(np.array(self.types, np.int32), [len(p) for p in parts])


def _vocabulary_size(folder: Path) -> int | None:
    """Rows of the model's word embedding, if its folder says how many."""
    try:
        size = json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return size if isinstance(size, int) else None


class InputTransform:
    """A tokenizer and the frame of special tokens that its model expects around a sequence.

    Attributes:
        before, after: the special tokens of a single sequence.
        digest: equal for tokenizers that cut words alike.

    Raises:
        UsageError: the folder has no tokenizer, or one that is not the model's or does not know where words begin.
    """

    def __init__(self, folder: Path | str) -> None:
        from transformers import AutoTokenizer

        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), use_fast=True)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{folder} has no tokenizer that can be loaded: {error}") from error
        if not getattr(self.tokenizer, "is_fast", False):
            raise UsageError(f"{folder}: its tokenizer has no fast form, which word boundaries need")
        self.folder = Path(folder)
        self.before, self.after = self._frame()
        self._check_pieces()
        described = self.tokenizer.backend_tokenizer.to_str()
        self.digest, self._prefix = digest_value(described), word_prefix(described)

    @property
    def frame(self) -> int:
        """How many special tokens a single sequence gets."""
        return len(self.before) + len(self.after)

    def _frame(self) -> tuple[Ids, Ids]:
        probe = ["a"]
        bare = self.tokenizer(probe, is_split_into_words=True, add_special_tokens=False)["input_ids"]
        full = self.tokenizer(probe, is_split_into_words=True)["input_ids"]
        for at in range(len(full) - len(bare) + 1):
            if full[at : at + len(bare)] == bare:
                return np.array(full[:at], np.int32), np.array(full[at + len(bare) :], np.int32)
        raise UsageError(f"{self.folder}: the tokenizer changes words when it adds special tokens")

    def _check_pieces(self) -> None:
        pieces = self.tokenizer.get_vocab()
        if set(pieces) <= set(self.tokenizer.all_special_tokens):
            # transformers makes such a one where the files are missing, and every word would be unknown.
            raise UsageError(
                f"{self.folder} has no tokenizer: tokenizer.json, or the vocabulary that it is made of, is missing"
            )
        # Added tokens that the model has no row for are common in hub folders, and do no harm unless a text has them.
        added = self.tokenizer.get_added_vocab()
        most = max(*(n for piece, n in pieces.items() if piece not in added), *self.before, *self.after)
        rows = _vocabulary_size(self.folder)
        if rows is not None and most >= rows:
            raise UsageError(
                f"{self.folder}: the tokenizer has {most + 1:,} pieces, the model was made for {rows:,}; they belong to "
                "different models"
            )

    def cut_words(self, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
        """The pieces of sentences given as words."""
        cut: list[Pieces] = []
        for at in range(0, len(sentences), AT_ONCE):
            chunk = [[self._prefix + word for word in words] for words in sentences[at : at + AT_ONCE]]
            encoded = self.tokenizer(
                chunk,
                is_split_into_words=True,
                add_special_tokens=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
            for words, encoding in zip(chunk, encoded.encodings, strict=True):
                cut.append(_pieces(encoding.ids, encoding.word_ids, len(words)))
        return cut

    def cut_texts(self, texts: Sequence[str]) -> list[TextPieces]:
        """The pieces of whole texts, with their places in them."""
        cut: list[TextPieces] = []
        for at in range(0, len(texts), AT_ONCE):
            encoded = self.tokenizer(
                list(texts[at : at + AT_ONCE]),
                add_special_tokens=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
            for encoding in encoded.encodings:
                places = np.array(encoding.offsets, np.int32).reshape(-1, 2)
                cut.append(TextPieces(np.array(encoding.ids, np.int32), places[:, 0], places[:, 1]))
        return cut

    @functools.cached_property
    def pair_frame(self) -> PairFrame:
        """The special tokens around a pair of texts.

        Raises:
            UsageError: the tokenizer makes no pairs that its texts can be found in.
        """
        bare = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        encoded = self.tokenizer("a", "a", return_token_type_ids=True)
        full, types = encoded["input_ids"], encoded["token_type_ids"]
        size = len(bare)
        places = [at for at in range(len(full) - size + 1) if full[at : at + size] == bare]
        if len(places) != 2 or places[1] < places[0] + size:
            raise UsageError(f"{self.folder}: the tokenizer does not join two texts as they are")
        (a, b), c = places, places[1] + size
        before, between, after = full[:a], full[a + size : b], full[c:]
        segments = (types[0], types[a], types[a + size], types[b], types[-1])
        telling = "token_type_ids" in self.tokenizer.model_input_names and any(segments)
        a_ids, b_ids, c_ids = (np.array(x, np.int32) for x in (before, between, after))
        return PairFrame(a_ids, b_ids, c_ids, segments if telling else None)

    def enclose(self, ids: Ids) -> Ids:
        """The ids between the special tokens of a single sequence."""
        return np.concatenate([self.before, ids, self.after])


def _pieces(ids: list[int], word_ids: list[int], words: int) -> Pieces:
    word_of_piece = np.array(word_ids, dtype=np.int64)
    edges = np.searchsorted(word_of_piece, np.arange(words + 1))
    return Pieces(np.array(ids, dtype=np.int32), edges[:-1].astype(np.int32), edges[1:].astype(np.int32))
