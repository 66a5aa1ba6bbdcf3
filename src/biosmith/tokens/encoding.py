"""Documents to token ids with word and sentence starts, many times faster than encoding passage by passage.

A **word** is what the tokenizer's pre-tokeniser makes: for BERT vocabularies a run between white space and punctuation
marks, each mark being a word of its own. These are the units of whole-word masking. A **sentence** starts at the token
that holds its first character. The passages of a document follow each other; each begins a sentence.

Nearly all chunks of text between spaces occur again and again, and most tokenizers cut a chunk alone as they cut it in
its sentence. So chunks are encoded once and remembered, and a passage is put together from the numbers of its chunks.
Where a tokenizer or a passage does not allow that, the passage is encoded whole; the result is the same.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from biosmith.text.sentences import split
from biosmith.tokens.schemes import BERT_WORDS
from biosmith.tokens.store import Tokens

REMEMBERED = 500_000  # chunks, some 150 MB; frequent ones come early, so no more are learned once it is full
PASSAGES_AT_ONCE = 64
_WORD_START = 1 << 30

# How white space matters to a tokenizer: "dropped": never part of a piece, so chunks are independent; "joined": a space
# belongs to the word after it; "unknown": passages are encoded whole.
Spaces = Literal["dropped", "joined", "unknown"]

Split = Callable[[str], Iterable[tuple[int, int]]]


class BulkEncoder:
    """Encodes documents with one tokenizer, remembering chunks from call to call.

    Args:
        tokenizer: of the tokenizers library, without padding and truncation.
        split: sentence splitter: text to spans in code points.
    """

    def __init__(self, tokenizer: Tokenizer, split: Split = split) -> None:
        state = json.loads(tokenizer.to_str())
        self.tokenizer, self.split = tokenizer, split
        self.spaces = how_spaces_matter(state)
        self._adds_space = bool((state["pre_tokenizer"] or {}).get("add_prefix_space"))
        self._by_words = _cuts_like_bert(state)
        self._table = PieceTable()
        self._words: dict[str, tuple[int, ...]] = {}  # tuples of numbers do not burden garbage collection

    def encode(self, documents: Sequence[Sequence[str]]) -> Tokens:
        """Tokens of documents, each given as its passages."""
        plan = _Plan()
        for passages in documents:
            for text in passages:
                self._plan_passage(text, plan)
            plan.document_ends.append(len(plan.chunks))
        table = self._table
        rows = np.fromiter(map(table.__getitem__, plan.chunks), np.int64, len(plan.chunks))
        table.fill(self._pieces_of(table.new))
        remembered = table.rows
        if plan.whole:
            rows[list(plan.whole)] = table.fill(self._encode_passages(plan))
        tokens = _assemble(plan, *table.gather(rows))
        table.cut(remembered)
        if remembered > REMEMBERED:
            table.forget_new()
        table.new.clear()
        return tokens

    def _plan_passage(self, text: str, plan: _Plan) -> None:
        """Note the chunks of a passage and in which of them each sentence begins."""
        first = len(plan.chunks)
        if self.spaces == "unknown" or (self.spaces == "joined" and not _is_plainly_spaced(text)):
            plan.chunks.append("")
            plan.whole[first] = text
            return
        position, chunk = 0, first
        for start, _ in self.split(text):
            chunk += text.count(" ", position, start)
            position = start
            plan.sentences.append((chunk, self._tokens_before(text, start) if _is_glued(text, start) else 0))
        chunks = text.split(" ")
        if self.spaces == "joined":
            chunks[1:] = [f" {chunk}" for chunk in chunks[1:]]
            if self._adds_space and chunks[0]:
                chunks[0] = f" {chunks[0]}"
        plan.chunks += chunks

    def _tokens_before(self, text: str, start: int) -> int:
        """Tokens between the begin of the chunk and a sentence that begins inside it ("shown.However")."""
        begin = text.rfind(" ", 0, start) + 1
        end = text.find(" ", start)
        chunk = text[begin : end if end >= 0 else len(text)]
        if self.spaces == "joined" and (begin or self._adds_space):
            chunk, begin = f" {chunk}", begin - 1
        return _token_at(chunk, [start - begin], self._encode_whole([chunk])[0])[0]

    def _encode_whole(self, texts: Sequence[str]) -> list[Any]:
        encodings: list[Any] = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return encodings

    def _pieces_of(self, chunks: Sequence[str]) -> list[Sequence[int]]:
        """Pieces of chunks that are new.

        Printable ASCII is cut as BERT cuts it where the tokenizer does so too: words are fewer than chunks by far.
        """
        plain = [self._by_words and chunk.isascii() and chunk.isprintable() for chunk in chunks]
        cut = [BERT_WORDS.findall(chunk) for chunk, is_plain in zip(chunks, plain, strict=True) if is_plain]
        new = list(set(chain.from_iterable(cut)).difference(self._words))
        for word, encoding in zip(new, self._encode_words(new), strict=True):
            ids = encoding.ids
            self._words[word] = (ids[0] | _WORD_START, *ids[1:]) if ids else ()
        words_of = iter(cut)
        encodings = iter(
            self._encode_whole([c for c, is_plain in zip(chunks, plain, strict=True) if not is_plain])
        )
        pieces: list[Sequence[int]] = [
            tuple(chain.from_iterable(map(self._words.__getitem__, next(words_of))))
            if is_plain
            else _marked(next(encodings))
            for is_plain in plain
        ]
        if len(self._words) > REMEMBERED:
            for word in new:
                del self._words[word]
        return pieces

    def _encode_words(self, words: list[str]) -> list[Any]:
        encodings: list[Any] = self.tokenizer.encode_batch_fast(words, add_special_tokens=False)
        return encodings

    def _encode_passages(self, plan: _Plan) -> list[Sequence[int]]:
        """Pieces of the passages that cannot be put together from chunks; notes where their sentences begin."""
        pieces: list[Sequence[int]] = []
        numbers = list(plan.whole)
        for first in range(0, len(numbers), PASSAGES_AT_ONCE):
            some = numbers[first : first + PASSAGES_AT_ONCE]
            encodings = self._encode_whole([plan.whole[number] for number in some])
            for number, encoding in zip(some, encodings, strict=True):
                text = plan.whole[number]
                pieces.append(_marked(encoding))
                starts = [start for start, _ in self.split(text)]
                plan.sentences += [(number, inside) for inside in _token_at(text, starts, encoding)]
        return pieces


@dataclass
class _Plan:
    """What a call of `encode` puts together."""

    chunks: list[str] = field(default_factory=list)
    whole: dict[int, str] = field(default_factory=dict)  # position in `chunks` -> passage to encode whole
    sentences: list[tuple[int, int]] = field(
        default_factory=list
    )  # (position in `chunks`, tokens after its begin)
    document_ends: list[int] = field(default_factory=list)


def _assemble(plan: _Plan, pieces: NDArray[np.int32], begins: NDArray[np.int64]) -> Tokens:
    sentence_starts = np.zeros(len(pieces), dtype=np.bool_)
    if plan.sentences:
        chunk, inside = np.array(plan.sentences, dtype=np.int64).T
        places = begins[chunk] + inside
        sentence_starts[places[places < len(pieces)]] = True
    ends = np.array([0, *plan.document_ends], dtype=np.int64)
    return Tokens(pieces & (_WORD_START - 1), pieces >= _WORD_START, sentence_starts, begins[ends])


class PieceTable(dict[str, int]):
    """Chunk -> row, and the pieces of each row in flat arrays. Looking up a new chunk gives it the next row."""

    def __init__(self) -> None:
        super().__init__({"": 0})  # between two spaces there is nothing
        self.new: list[str] = []
        self.rows, self._used = 1, 0
        # Arrays with room to grow: `rows` and `_used` say how much of them counts.
        self._starts, self._lengths = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._pieces = np.zeros(0, dtype=np.int32)

    def __missing__(self, chunk: str) -> int:
        row = self.rows + len(self.new)
        self.new.append(chunk)
        self[chunk] = row
        return row

    def fill(self, pieces: Sequence[Sequence[int]]) -> NDArray[np.int64]:
        """Add rows; returns their numbers."""
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        rows, used = self.rows + len(pieces), self._used + int(lengths.sum())
        self._starts, self._lengths = _with_room(self._starts, rows), _with_room(self._lengths, rows)
        self._pieces = _with_room(self._pieces, used)
        self._lengths[self.rows : rows] = lengths
        self._starts[self.rows : rows] = self._used + np.cumsum(lengths) - lengths
        flat = np.fromiter(chain.from_iterable(pieces), np.int32, used - self._used)
        self._pieces[self._used : used] = flat
        added = np.arange(self.rows, rows)
        self.rows, self._used = rows, used
        return added

    def cut(self, rows: int) -> None:
        """Keep the first rows only."""
        if rows < self.rows:
            self.rows, self._used = rows, int(self._starts[rows])

    def forget_unfilled(self) -> None:
        """Drop the chunks that were new and have got no pieces."""
        for chunk in self.new:
            del self[chunk]
        self.new.clear()

    def forget_new(self) -> None:
        """Drop the chunks that were new."""
        for chunk in self.new:
            del self[chunk]
        self.cut(self.rows - len(self.new))

    def gather(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Pieces of the rows one after another [T], and where each row begins among them [rows + 1]."""
        lengths = self._lengths[rows]
        begins = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=begins[1:])
        places = np.repeat(self._starts[rows] - begins[:-1], lengths)
        places += np.arange(len(places))
        return self._pieces[places], begins


def _with_room(array: NDArray[Any], length: int) -> NDArray[Any]:
    if length <= len(array):
        return array
    grown = np.zeros(max(length, 2 * len(array)), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def _is_plainly_spaced(text: str) -> bool:
    """Whether single spaces alone divide the text, and it begins with what no normaliser makes nothing of."""
    return text == " ".join(text.split()) and unicodedata.category(text[:1] or " ") != "Mn"


def _is_glued(text: str, start: int) -> bool:
    return start > 0 and text[start - 1] != " "


def _marked(encoding: Any) -> list[int]:
    """Ids of an encoding with `_WORD_START` added at the first token of each word."""
    pieces, before = [], -1
    for piece, word in zip(encoding.ids, encoding.word_ids, strict=True):
        pieces.append(piece if word == before else piece | _WORD_START)
        before = word
    return pieces


def _token_at(text: str, positions: Sequence[int], encoding: Any) -> list[int]:
    """For each position the token that holds it, or the next one; white space belongs to the token after it."""
    offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    begins, ends = offsets[:, 0], np.maximum.accumulate(offsets[:, 1])
    found = []
    for position in positions:
        token = int(np.searchsorted(ends, position, side="right"))
        while token > 0 and not text[begins[token - 1] : ends[token - 1]].strip():
            token -= 1
        found.append(token)
    return found


def how_spaces_matter(state: dict[str, Any]) -> Spaces:
    """What a tokenizer (as the library serialises it) does with white space."""
    if any(not token["special"] for token in state["added_tokens"]):
        return "unknown"  # added words are looked for before anything is cut
    steps = _steps(state["normalizer"], "normalizers")
    cutters = _steps(state["pre_tokenizer"], "pretokenizers")
    kinds = [step["type"] for step in steps]
    if not cutters or not set(kinds) <= _LOCAL:
        return "unknown"
    if cutters[0]["type"] in ("BertPreTokenizer", "WhitespaceSplit", "Whitespace"):
        return "dropped"
    plain = len(cutters) == 1 and cutters[0]["type"] == "ByteLevel" and cutters[0].get("use_regex", True)
    return "joined" if plain and set(kinds) <= {"NFC", "NFD", "StripAccents", "Lowercase"} else "unknown"


def needs_space_before(tokenizer: Tokenizer) -> bool:
    """Whether a word has to be given with a space before it to be cut as it is inside a sentence."""
    state = json.loads(tokenizer.to_str())
    return how_spaces_matter(state) == "joined" and not state["pre_tokenizer"].get("add_prefix_space")


# Normalisers that never look across a space.
_LOCAL = frozenset(("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"))


def _steps(part: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    return [step for inner in part[name] for step in _steps(inner, name)]


def _cuts_like_bert(state: dict[str, Any]) -> bool:
    cutters = [step["type"] for step in _steps(state["pre_tokenizer"], "pretokenizers")]
    return how_spaces_matter(state) == "dropped" and cutters == ["BertPreTokenizer"]
