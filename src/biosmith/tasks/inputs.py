"""TransformInput: words and sentences to the token ids that an encoder reads (PubMedBERT, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biosmith.artefact import digest_value
from biosmith.errors import UsageError

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


class InputTransform:
    """A tokenizer and the frame of special tokens that its model expects around a sequence.

    Attributes:
        before, after: the special tokens of a single sequence.
        digest: equal for tokenizers that cut words alike.

    Raises:
        UsageError: the folder has no tokenizer, or one that does not know where words begin.
    """

    def __init__(self, folder: Path | str) -> None:
        from transformers import AutoTokenizer

        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), use_fast=True)
        except (OSError, ValueError, KeyError) as error:
            raise UsageError(f"{folder} has no tokenizer that can be loaded: {error}") from error
        if not getattr(self.tokenizer, "is_fast", False):
            raise UsageError(f"{folder}: its tokenizer has no fast form, which word boundaries need")
        self.folder = Path(folder)
        self.before, self.after = self._frame()
        self.digest = digest_value(self.tokenizer.backend_tokenizer.to_str())

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

    def cut_words(self, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
        """The pieces of sentences given as words."""
        cut: list[Pieces] = []
        for at in range(0, len(sentences), AT_ONCE):
            chunk = [list(words) for words in sentences[at : at + AT_ONCE]]
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

    def enclose(self, ids: Ids) -> Ids:
        """The ids between the special tokens of a single sequence."""
        return np.concatenate([self.before, ids, self.after])


def _pieces(ids: list[int], word_ids: list[int], words: int) -> Pieces:
    word_of_piece = np.array(word_ids, dtype=np.int64)
    edges = np.searchsorted(word_of_piece, np.arange(words + 1))
    return Pieces(np.array(ids, dtype=np.int32), edges[:-1].astype(np.int32), edges[1:].astype(np.int32))
