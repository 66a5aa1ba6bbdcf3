"""Cleaning: what every text of a corpus goes through, kept conservative.

In this order, in each passage:

1. character references that were escaped twice (`&lt;`, `&amp;`, `&#945;`, `&alpha;`) become their characters;
2. control characters, lone surrogates, noncharacters, soft hyphens, zero-width spaces and joiners of words, byte
   order marks and bidirectional controls are removed;
3. the text is brought into Unicode's composed form (NFC; never NFKC, which would turn H₂O₂ into H2O2);
4. a run of white space becomes one space, or one line break if it holds one; none is left at the ends;
5. of abstracts, two kinds of boilerplate at the very end are removed: "(ABSTRACT TRUNCATED AT 250 WORDS)" and
   copyright notices ("Copyright © 2019 Elsevier Ltd. All rights reserved.", "© 2012 Wiley Periodicals, Inc.").

Passages without text, cells of tables, references, formulas that stand alone and captions of supplementary files
("Click here for additional data file.") are left out. Mentions, relations and infons that do not name the
document are left out too: a corpus is text.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping

from biosmith.text.document import Document, Passage

LEFT_OUT_KINDS = frozenset({"ref", "table", "formula", "supplementary_caption"})
KEPT_INFONS = (
    "pmid",
    "pmcid",
    "doi",
    "version",
    "date_revised",
    "language",
    "journal",
    "year",
    "source",
    "license",
)

_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_REMOVED = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u061c\u200b\u200e\u200f\u2060\ufeff\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufff9-\ufffb\ufffe\uffff"
    + "".join(f"{chr(plane * 0x10000 + 0xFFFE)}{chr(plane * 0x10000 + 0xFFFF)}" for plane in range(1, 17))
    + "]"
)
_SPACES = re.compile(r"(?: (?=\s)|[^\S ])\s*")
_TRUNCATED = re.compile(r"\s*[(\[]\s*ABSTRACT TRUNCATED(?: AT \d+ WORDS)?\s*[)\]]\.?$")
_COPYRIGHT = re.compile(
    r"""(?: ^ | (?<=[.?!)\]"”]) \s* ) (?:
        (?: (?:Copyright\s*)? (?:©|\([cC]\)) \s* (?:Copyright\s*)? | Copyright\s+ )
        (?: [Tt]he\s | by\s | [A-Z] [^\n]{0,80}? [\s,] )? (?:19|20)\d\d
        (?: [.,;]? \s* (?:by\s)? (?:the\s)? (?:authors? | [A-Z0-9(]) [^\n]{0,160} | \.? )
      | \(Psyc(?:INFO|Info)\ Database\ Record \s* \([cC]\) \s* (?:19|20)\d\d [^\n]{0,40} \)\.?
    ) $""",
    re.VERBOSE,
)
_COPYRIGHT_HINT = re.compile(r"©|\([cC]\)|Copyright")
_COPYRIGHT_TAIL = 240  # a notice is looked for in the last characters only


def clean(document: Document, removed: Counter[str] | None = None) -> Document:
    """The document as a corpus holds it: cleaned passages laid out one space apart.

    Args:
        document: as a reader gave it.
        removed: counts the boilerplate that was removed, by its kind.
    """
    source = document.passages or (Passage("paragraph", document.text),)
    passages = []
    for passage in source:
        if passage.kind in LEFT_OUT_KINDS:
            continue
        text = clean_text(passage.text)
        if text and passage.kind in ("abstract", "other_abstract"):
            text = _without_boilerplate(text, removed)
        if text:
            passages.append(Passage(passage.kind, text, label=clean_text(passage.label)))
    return Document.build(clean_text(document.id), passages, infons=_kept(document.infons))


def clean_text(text: str) -> str:
    """Steps 1 to 4 of the module's list.

    >>> clean_text(" P &lt; 0.05\\u200b,  n\\u00a0=\\t3 ")
    'P < 0.05, n = 3'
    """
    if "&" in text:
        text = _REFERENCE.sub(lambda m: html.unescape(m[0]), text)
    if not text.isprintable():  # printable text holds no white space but spaces, and nothing of step 2
        text = _SPACES.sub(_one_space, _REMOVED.sub("", text))
    elif "  " in text:
        text = _SPACES.sub(" ", text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return text.strip()


def _one_space(match: re.Match[str]) -> str:
    run = match[0]
    return "\n" if "\n" in run or "\r" in run or "\u2028" in run or "\u2029" in run else " "


def _without_boilerplate(text: str, removed: Counter[str] | None) -> str:
    found = {}
    if text[-1] in ").]" and "TRUNCATED" in text[-60:]:
        shorter = _TRUNCATED.sub("", text)
        found["truncation mark"], text = shorter != text, shorter
    tail = max(0, len(text) - _COPYRIGHT_TAIL)
    if _COPYRIGHT_HINT.search(text, tail):
        match = _COPYRIGHT.search(text, tail)
        if match is not None and (match.start() > tail or tail == 0):
            found["copyright notice"], text = True, text[: match.start()]
    if removed is not None:
        removed.update(kind for kind, was_found in found.items() if was_found)
    return text.rstrip()


def _kept(infons: Mapping[str, str]) -> dict[str, str]:
    return {key: clean_text(infons[key]) for key in KEPT_INFONS if infons.get(key)}
