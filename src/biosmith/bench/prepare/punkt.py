"""Punkt sentence boundaries (Kiss and Strunk, 2006), decided as the tokenizer that BLURB's preprocessing used does.

The method: a full stop ends a sentence unless its word is an abbreviation; then the word after it is looked at, for an
abbreviation may end a sentence and an initial or a number may not. What is known of words is `Knowledge`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

# What a word has been seen as, somewhere but at the beginning of a sentence or at it.
SEEN_UPPER_INSIDE, SEEN_UPPER, SEEN_LOWER_AT_START, SEEN_LOWER = 1, 2, 4, 8

_NON_WORD = r"""[?!)";}\]*:@'({\[]"""
_SEVERAL = r"(?:-{2,}|\.{2,}|(?:\.\s){2,}\.)"
_CANDIDATE = re.compile(rf"\S*[.?!](?=(?P<after>{_NON_WORD}|\s+(?P<next>\S+)))")
_TOKEN = re.compile(
    rf"""{_SEVERAL} | (?=[^("`{{\[:;&\#*@)}}\]\-,])\S+?(?=\s|$|{_NON_WORD}|{_SEVERAL}|,(?=$|\s|{_NON_WORD}|{_SEVERAL})) | \S""",
    re.VERBOSE,
)
_CLOSING = re.compile(r"""["')\]}]+?(?:\s+|(?=--)|$)""", re.MULTILINE)
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*\.?$")
_INITIAL = re.compile(r"[^\W\d]\.$")
NUMBER = "##number##"


@dataclass(frozen=True)
class Knowledge:
    """What is known of words, all in lower case.

    Attributes:
        abbreviations: without their last stop.
        starters: words that begin sentences often, even after an abbreviation.
        collocations: pairs across a stop that belong together.
        seen: how a word has been written (the flags above); words that are not there have never been seen.
    """

    abbreviations: frozenset[str]
    starters: frozenset[str] = frozenset()
    collocations: frozenset[tuple[str, str]] = frozenset()
    seen: dict[str, int] = field(default_factory=dict)


@dataclass
class _Token:
    text: str
    is_break: bool = False
    is_abbreviation: bool = False
    is_ellipsis: bool = False

    @property
    def type(self) -> str:
        """The word in lower case, numbers alike."""
        lowered = self.text.lower()
        return NUMBER if _NUMBER.match(lowered) else lowered

    @property
    def type_without_stop(self) -> str:
        return self.type[:-1] if len(self.type) > 1 and self.type.endswith(".") else self.type

    @property
    def type_as_next(self) -> str:
        """The type without a stop that ends a sentence."""
        return self.type_without_stop if self.is_break else self.type


def sentences(text: str, known: Knowledge) -> list[tuple[int, int]]:
    """Spans of the sentences of a text, closing quotes and brackets with the sentence before them."""
    spans: list[tuple[int, int]] = []
    shift = 0
    slices = list(_slices(text, known))
    for i, (start, end) in enumerate(slices):
        start += shift
        shift = 0
        if i + 1 < len(slices):
            after_start, after_end = slices[i + 1]
            closing = _CLOSING.match(text[after_start:after_end])
            if closing:
                end = after_start + len(closing[0].rstrip())
                shift = closing.end()
        if start < end:
            spans.append((start, end))
    return spans


def _slices(text: str, known: Knowledge) -> Iterator[tuple[int, int]]:
    last = 0
    for candidate in _CANDIDATE.finditer(text):
        if _holds_break(candidate[0] + candidate["after"], known):
            yield last, candidate.end()
            last = candidate.start("next") if candidate["next"] else candidate.end()
    yield last, len(text.rstrip())


def _holds_break(context: str, known: Knowledge) -> bool:
    """Whether a sentence ends before the last token of a candidate and what follows it."""
    tokens = [_Token(t) for t in _TOKEN.findall(context)]
    for token in tokens:
        _look_alone(token, known)
    for token, following in itertools.pairwise(tokens):
        _look_at_next(token, following, known)
    return any(token.is_break for token in tokens[:-1])


def _look_alone(token: _Token, known: Knowledge) -> None:
    text = token.text
    if text in (".", "?", "!"):
        token.is_break = True
    elif re.match(r"\.\.+$", text):
        token.is_ellipsis = True
    elif text.endswith(".") and not text.endswith(".."):
        bare = text[:-1].lower()
        known_one = bare in known.abbreviations or bare.split("-")[-1] in known.abbreviations
        token.is_abbreviation, token.is_break = known_one, not known_one


def _look_at_next(token: _Token, following: _Token, known: Knowledge) -> None:
    if not token.text.endswith("."):
        return
    type, next_type = token.type_without_stop, following.type_as_next
    is_initial = bool(_INITIAL.match(token.text))
    if (type, next_type) in known.collocations:
        token.is_break, token.is_abbreviation = False, True
        return
    starts = _starts_sentence(following, known)
    begins_often = following.text[0].isupper() and next_type in known.starters
    if (token.is_abbreviation or token.is_ellipsis) and not is_initial and (starts or begins_often):
        token.is_break = True
        return
    if is_initial or type == NUMBER:
        never_lower = not known.seen.get(next_type, 0) & (SEEN_LOWER | SEEN_LOWER_AT_START)
        unknown_name = starts is None and is_initial and following.text[0].isupper() and never_lower
        if starts is False or unknown_name:
            token.is_break, token.is_abbreviation = False, True


def _starts_sentence(token: _Token, known: Knowledge) -> bool | None:
    """What the case of a word says of whether it begins a sentence; None if it says nothing."""
    if token.text in (";", ":", ",", ".", "!", "?"):
        return False
    seen = known.seen.get(token.type_as_next, 0)
    lower = seen & (SEEN_LOWER | SEEN_LOWER_AT_START)
    if token.text[0].isupper() and lower and not seen & SEEN_UPPER_INSIDE:
        return True
    upper = seen & (SEEN_UPPER | SEEN_UPPER_INSIDE)
    if token.text[0].islower() and (upper or not seen & SEEN_LOWER_AT_START):
        return False
    return None
