"""Words to token ids with the tokenizers library alone: each word is cut once and remembered.

Taggers read sentences that are cut into words beforehand, and the library cuts each of these words for itself. So a
word has the same pieces wherever it stands, and those of a whole chunk of documents are one gather from a table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from biosmith.artefact import digest_value
from biosmith.errors import UsageError
from biosmith.surrogates import replace_surrogates
from biosmith.tasks.words import word_prefix
from biosmith.tokens.encoding import REMEMBERED, PieceTable

Ids = NDArray[np.int32]
Places = NDArray[np.int64]

TOKENIZER = "tokenizer.json"


class CutsWords(Protocol):
    """What the pipeline needs of a tokenizer; `PieceCutter` is one.

    Attributes:
        before, after: the special tokens of a single sequence.
        unknown: id of the unknown token; -1 if there is none.
        digest: equal for tokenizers that cut words alike.
    """

    before: Ids
    after: Ids
    unknown: int
    digest: str

    def cut(self, words: Sequence[str]) -> tuple[Ids, Places]:
        """Pieces of all words one after another [T], and where each word's begin [W + 1]."""


class PieceCutter:
    """A tokenizer that remembers the pieces of words; see `CutsWords`.

    Raises:
        UsageError: the tokenizer changes words when it adds special tokens.
    """

    def __init__(self, tokenizer: Tokenizer, name: str = "the tokenizer") -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer, self.name = tokenizer, name
        self.before, self.after = self._frame()
        self.unknown = self._unknown()
        described = tokenizer.to_str()
        self.digest, self._prefix = digest_value(described), word_prefix(described)
        self._table = PieceTable()

    @classmethod
    def load(cls, folder: Path) -> PieceCutter:
        """The tokenizer of a folder that has a `tokenizer.json`."""
        try:
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:  # the library raises nothing more special
            raise UsageError(f"{folder} has no {TOKENIZER} that can be loaded: {error}") from error
        return cls(tokenizer, str(folder))

    def _frame(self) -> tuple[Ids, Ids]:
        bare = self.tokenizer.encode(["a"], is_pretokenized=True, add_special_tokens=False).ids
        full = self.tokenizer.encode(["a"], is_pretokenized=True).ids
        for at in range(len(full) - len(bare) + 1):
            if full[at : at + len(bare)] == bare:
                return np.array(full[:at], np.int32), np.array(full[at + len(bare) :], np.int32)
        raise UsageError(f"{self.name}: the tokenizer changes words when it adds special tokens")

    def _unknown(self) -> int:
        model: dict[str, Any] = json.loads(self.tokenizer.to_str())["model"]
        token = model.get("unk_token")
        found = model.get("unk_id") if token is None else self.tokenizer.token_to_id(token)
        return -1 if found is None else int(found)

    def cut(self, words: Sequence[str]) -> tuple[Ids, Places]:
        """See `CutsWords`."""
        table = self._table
        try:
            rows = np.fromiter(map(table.__getitem__, words), np.int64, len(words))
            remembered = table.rows
            table.fill([encoding.ids for encoding in self._encode(table.new)])
        except BaseException:
            # A word that the tokenizer fails on must not stay in the table without its pieces.
            table.forget_unfilled()
            raise
        cut = table.gather(rows)
        if remembered > REMEMBERED:
            table.forget_new()
        table.new.clear()
        return cut

    def _encode(self, words: Sequence[str]) -> list[Any]:
        readable = [[self._prefix + replace_surrogates(word)] for word in words]
        encoded: list[Any] = self.tokenizer.encode_batch_fast(
            readable, is_pretokenized=True, add_special_tokens=False
        )
        return encoded
