"""How text becomes words, for each kind of vocabulary: the normaliser, the pre-tokeniser, and the words they give.

| kind | words | pieces |
|---|---|---|
| wordpiece | BERT's: white space and every punctuation mark separate | `##` marks a piece inside a word |
| sentencepiece | white space separates | `▁` marks the first piece of a word |
| bpe | GPT-2's: letters, digits and signs separate, a space belongs to the word after it | bytes |

All kinds clean text and treat case and accents by the same flags; the tokenizer file carries them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tokenizers import normalizers, pre_tokenizers

Kind = Literal["wordpiece", "sentencepiece", "bpe"]

BERT_WORDS = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]")
_BYTE_WORDS = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+")


@dataclass(frozen=True)
class Scheme:
    """Everything before the pieces.

    Attributes:
        kind: "wordpiece", "sentencepiece" or "bpe".
        cased: keep capital letters.
        strip_accents: take accents off letters; None does so where the case is dropped, as BERT does.
        chinese: set Chinese characters apart, each a word (wordpiece and sentencepiece).
    """

    kind: Kind = "wordpiece"
    cased: bool = True
    strip_accents: bool | None = None
    chinese: bool = True

    def normalizer(self) -> Any:
        """The normaliser of the tokenizers library."""
        strip = not self.cased if self.strip_accents is None else self.strip_accents
        if self.kind != "bpe":
            return normalizers.BertNormalizer(
                clean_text=True,
                handle_chinese_chars=self.chinese,
                strip_accents=self.strip_accents,
                lowercase=not self.cased,
            )
        steps = [normalizers.NFD(), normalizers.StripAccents()] if strip else [normalizers.NFC()]
        return normalizers.Sequence(steps if self.cased else [*steps, normalizers.Lowercase()])

    def pre_tokenizer(self) -> Any:
        """The pre-tokeniser of the tokenizers library."""
        if self.kind == "wordpiece":
            return pre_tokenizers.BertPreTokenizer()
        if self.kind == "sentencepiece":
            marks = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=True)
            return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks])
        return pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)

    def word_cutter(self) -> Callable[[str], list[str]]:
        """A function from a chunk without spaces to the words that the normaliser and pre-tokeniser make of it.

        Words of "sentencepiece" come without the mark, those of "bpe" with their bytes as characters.
        """
        normalizer, pre_tokenizer, cased = self.normalizer(), self.pre_tokenizer(), self.cased
        by_hand = {"wordpiece": BERT_WORDS, "bpe": _BYTE_WORDS}.get(self.kind)

        def cut(chunk: str) -> list[str]:
            # Nearly all chunks are printable ASCII, for which one regular expression gives what the library gives.
            if chunk.isascii() and chunk.isprintable():
                if not chunk:
                    return []
                plain = chunk if cased else chunk.lower()
                if by_hand is None:
                    return [plain]
                if self.kind == "bpe":
                    return [word.replace(" ", "Ġ") for word in by_hand.findall(f" {plain}")]
                return by_hand.findall(plain)
            text = normalizer.normalize_str(chunk)
            if self.kind == "sentencepiece":
                return text.split()
            return [word for word, _ in pre_tokenizer.pre_tokenize_str(text)]

        return cut
