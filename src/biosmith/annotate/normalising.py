"""Text as vocabularies know it, with the place of every character kept.

Hyphens, primes, quotes and spaces of all kinds become the plain ones, sub- and superscripts plain digits and signs,
ligatures their letters, HTML entities the characters they name. Everything else stays, case and accents too.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from html.entities import html5

import numpy as np
from numpy.typing import NDArray

_KINDS = {
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d",
    "'": "\u2018\u2019\u201a\u201b\u2032\u2035\u02b9\u02bc\uff07",
    '"': "\u201c\u201d\u201e\u201f\u2033\u2036\u02ba\uff02",
    " ": "\u00a0\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B))),
}
# Blocks of which whatever is a variant of plain characters is written as these: superscripts, subscripts, ligatures.
_BLOCKS = (*range(0x2070, 0x20A0), 0xB2, 0xB3, 0xB9, *range(0xFB00, 0xFB07))


def _replacements() -> dict[str, str]:
    table = {variant: plain for plain, variants in _KINDS.items() for variant in variants}
    for character in map(chr, _BLOCKS):
        plain = unicodedata.normalize("NFKC", character)
        if plain != character:
            table[character] = plain.replace("\u2212", "-")
    return table


REPLACEMENTS = _replacements()
_FIND = re.compile(
    f"[{re.escape(''.join(REPLACEMENTS))}]|&(?:#\\d{{1,7}}|#[xX][0-9a-fA-F]{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}});"
)


@dataclass(frozen=True, slots=True)
class Normalised:
    """A text with where each of its characters begins and ends in the text that it was made from."""

    text: str
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def find(self, start: int, end: int) -> tuple[int, int]:
        """Where here what lies from `start` to `end` in the text that it was made from.

        >>> plain = normalise("p &lt; \ufb01ve")
        >>> plain.find(7, 10)
        (4, 8)
        """
        first = np.searchsorted(self.ends, start, side="right")
        return int(first), int(np.searchsorted(self.starts, end, side="left"))


def normalise(text: str) -> Normalised | None:
    """The text in plain characters; None where it is that already.

    >>> plain = normalise("TNF\u2010\u03b1 &lt; 5 \ufb01bres")
    >>> plain.text, int(plain.starts[-1])
    ('TNF-\u03b1 < 5 fibres', 17)
    """
    found = list(_changes(text))
    if not found:
        return None
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for start, end, plain in [*found, (len(text), len(text), "")]:
        parts += [text[at:start], plain]
        starts += range(at, start)
        ends += range(at + 1, start + 1)
        starts += [start] * len(plain)
        ends += [end] * len(plain)
        at = end
    return Normalised("".join(parts), np.array(starts, np.int64), np.array(ends, np.int64))


def _changes(text: str) -> Iterator[tuple[int, int, str]]:
    if text.isascii() and "&" not in text:
        return
    for match in _FIND.finditer(text):
        found = match.group()
        plain = REPLACEMENTS.get(found)
        if plain is None:
            if found[1] != "#" and found[1:] not in html5:
                continue  # "AT&T;" names nothing
            plain = html.unescape(found)
            plain = "".join(REPLACEMENTS.get(c, c) for c in plain)
        if plain and plain != found and "\ufffd" not in plain:
            yield match.start(), match.end(), plain
