"""Inline markup as readable text: the one rule that PubMed and JATS share.

- Runs of white space of any kind become one space. Nothing else is added or removed, but for what follows.
- Bold, italic, underlined, coloured or linked text, and names of things, are the text itself.
- Subscripts and superscripts follow their base, as authors write them in plain text: `H2O`, `Ca2+`, `cm2`, `IC50`,
  `Cmax`, `p53-/-`, `18F`. A mark, `_` or `^`, stands between them where two numbers or two words would run
  together: `10^6`, `10^-9`, `SO4^2-`, `(100 g)^-1`, `P_trend`, `CD25^high`. See `attach`.
- MathML and TeX are written on one line (`mathml.py`, `tex.py`): `x_i`, `10^6`, `(a + b)/c`. Of alternatives, the
  MathML is taken before the TeX, and one only. A formula that is only a picture has no text.
- Any other element stands apart from its neighbours by a space, so that cells, names and lines never run together.
- Comments, processing instructions, pictures and identifiers of objects have no text.
- Entities that no DTD was read for are the characters that HTML gives them; others stay as they are written.
- Markup and entities that the source has escaped once too often (`&lt;italic&gt;`) are treated like the others.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping

from lxml import etree
from lxml.etree import _Element as Element

from biosmith.text.mathml import linearise
from biosmith.text.tex import tex_to_text

# Elements whose text is part of the words around it.
INLINE = frozenset(
    [
        "i",
        "b",
        "u",
        "s",
        "em",
        "strong",
        "span",
        "font",
        "small",
        "big",
        "tt",
        "a",
        "italic",
        "bold",
        "underline",
        "overline",
        "roman",
        "sans-serif",
        "monospace",
        "strike",
        "sc",
        "named-content",
        "styled-content",
        "ext-link",
        "uri",
        "email",
        "xref",
        "abbrev",
        "target",
        "related-object",
        "related-article",
        "taxon-name",
        "fixed-case",
        "ruby",
        "rb",
        "rt",
        "mark",
        "x",
        "milestone-start",
        "milestone-end",
        "overline-start",
        "overline-end",
        "underline-start",
        "underline-end",
        "inline-supplementary-material",
        "institution",
        "funding-source",
        "award-id",
        "code",
        "bio-term",
        "chem-struct-wrap",
        "chem-struct",
        "inline-formula",
        "private-char",
    ]
)
SUBSCRIPTS = frozenset(("sub", "inf", "subscript"))
SUPERSCRIPTS = frozenset(("sup", "superscript", "PRE"))
FORMULAS = frozenset(("math", "tex-math", "alternatives"))
SILENT = frozenset(
    [
        "graphic",
        "inline-graphic",
        "inline-media",
        "object-id",
        "alt-text",
        "long-desc",
        "index-term",
        "annotation",
        "annotation-xml",
        "glyph-data",
        "glyph-ref",
        "permissions",
    ]
)

Special = Mapping[str, Callable[[Element, list[str]], None]]
NOTHING_SPECIAL: Special = {}

_ENTITY = etree.Entity
_WIDE_SPACES = tuple(chr(code) for code in range(0x80, 0x3001) if chr(code).isspace())
_WORD = re.compile(r"[^\W\d_]{4,}|\S\s+\S")
_NUMBER = re.compile(r"[+\-−–±]?\d")
_DECIMAL = re.compile(r"[+\-−–]?\d+[.,]\d+")
_CLOSING = frozenset(")]}.")

_ESCAPED_PAIR = re.compile(
    r"<(?:jats:)?(p|sec|title|list|list-item|div|i|b|u|em|strong|italic|bold|underline|sc|span|monospace|"
    r"inline-formula|sub|inf|sup|pre)(?:\s[^<>]*)?>(.*?)</(?:jats:)?\1\s*>",
    re.DOTALL | re.IGNORECASE,
)
_ESCAPED_BREAK = re.compile(r"<(?:br|hr|break)\s*/?>", re.IGNORECASE)
_DOUBLE_STOP = re.compile(r"([.!?])\s+\.\s*$")  # `<p>... end.</p>.`: a full stop was added after the tag
_ESCAPED_BLOCKS = frozenset(("p", "sec", "title", "list", "list-item", "div"))
_ESCAPED_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def text_of(element: Element, special: Special = NOTHING_SPECIAL) -> str:
    """The readable text of an element, on one line.

    Args:
        element: a title, paragraph or the like.
        special: local name of an element -> what to do instead with one found inside; it is given the element and
            the parts of the text so far.
    """
    if not len(element):
        text = element.text
        return clean(text) if text else ""
    parts: list[str] = []
    gather(element, parts, special)
    return clean("".join(parts))


def clean(text: str) -> str:
    """A text on one line, without escaped markup."""
    text = one_line(text)
    if "</" in text or "&" in text or ("<" in text and _ESCAPED_BREAK.search(text)):
        return unescape(text)
    return text


def one_line(text: str) -> str:
    """The text with each run of white space of any kind as one space, and none at its ends.

    Control characters that XML does not allow are white space only where something else is to be mended.
    """
    # Most texts have nothing to mend, and looking for each kind of space is cheaper than splitting into words.
    if "  " in text or "\n" in text or "\t" in text or "\r" in text:
        return " ".join(text.split())
    if not text.isascii():
        for space in _WIDE_SPACES:
            if space in text:
                return " ".join(text.split())
    return text.strip()


def local_name(element: Element) -> str:
    """Name of an element without its namespace; empty for comments and processing instructions."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def gather(element: Element, parts: list[str], special: Special = NOTHING_SPECIAL) -> None:
    """Append the pieces of an element's text to `parts`; no piece is empty, white space is as in the source."""
    if element.text:
        parts.append(element.text)
    for child in element:
        gather_child(child, parts, special)


def gather_child(child: Element, parts: list[str], special: Special = NOTHING_SPECIAL) -> None:
    """Append the pieces of an element that stands within text, and of the text that follows it."""
    tail = child.tail
    if isinstance(child.tag, str):
        name = child.tag.rpartition("}")[2]
        if name in special:
            special[name](child, parts)
        elif name in SUBSCRIPTS or name in SUPERSCRIPTS:
            _gather_script(child, parts, special, "_" if name in SUBSCRIPTS else "^")
            if tail and tail[0].isdigit() and parts and parts[-1][-1].isdigit():
                parts.append(" ")
        elif name in INLINE:
            gather(child, parts, special)
        elif name in FORMULAS:
            _gather_formula(child, name, parts, tail or "", special)
        elif name not in SILENT:
            parts.append(" ")
            gather(child, parts, special)
            parts.append(" ")
    elif child.tag is _ENTITY and child.text:
        parts.append(html.unescape(child.text))
    if tail:
        parts.append(tail)


def attach(base: str, script: str, mark: str) -> str:
    """A sub- or superscript as it follows the text `base`, with the mark where it is needed.

    The mark stands where two numbers would meet, where a number is raised on a bracket or a full stop, before
    decimal exponents, and before words (four letters or more, or several words) that would lengthen a word.

    >>> "10" + attach("10", "6", "^"), "H" + attach("H", "2", "_"), "P" + attach("P", "trend", "_")
    ('10^6', 'H2', 'P_trend')
    """
    stripped = script.strip()
    last = base[-1:]
    if not stripped or not last or last.isspace():
        return script
    raised = mark == "^"
    if (
        ((last.isdigit() or (raised and last in _CLOSING)) and _NUMBER.match(stripped))
        or (raised and _DECIMAL.fullmatch(stripped))
        or (last.isalnum() and _WORD.search(stripped))
    ):
        return mark + script.lstrip()
    return script


def unescape(text: str) -> str:
    """Text without the tags and entities that were escaped once too often.

    Only pairs of known tags count, so that comparisons (`a < b`, `p<0.05`) stay.

    >>> unescape("<p>imaged <italic>en face</italic> at 60/mm<PRE>3</PRE> (p &lt; 0.05).</p>")
    'imaged en face at 60/mm3 (p < 0.05).'
    """
    if "</" in text:
        changed = 1
        while changed:
            text, changed = _ESCAPED_PAIR.subn(_replace_pair, text)
        text = _DOUBLE_STOP.sub(r"\1", text)
    if "<" in text:
        text = _ESCAPED_BREAK.sub(" ", text)
    if "&" in text:
        text = _ESCAPED_ENTITY.sub(lambda match: html.unescape(match.group()), text)
    return one_line(text)


def _gather_script(element: Element, parts: list[str], special: Special, mark: str) -> None:
    inner: list[str] = []
    gather(element, inner, special)
    script = "".join(inner)
    if script:
        parts.append(attach(parts[-1] if parts else "", script, mark))


def _gather_formula(element: Element, name: str, parts: list[str], tail: str, special: Special) -> None:
    """A formula, or one of its alternatives; a space only where it would run together with a word beside it."""
    if name == "alternatives":
        chosen = _choose(element)
        if chosen is None:
            return
        element, name = chosen, local_name(chosen)
    if name == "math":
        text = linearise(element)
    elif name == "tex-math":
        text = tex_to_text("".join(map(str, element.itertext())))
    else:
        text = text_of(element, special)
    if text:
        before = parts[-1][-1:] if parts else ""
        parts.append(f" {text}" if before.isalnum() and text[0].isalnum() else text)
        if tail[:1].isalnum() and text[-1].isalnum():
            parts.append(" ")


def _choose(alternatives: Element) -> Element | None:
    """MathML before TeX before anything else that has text."""
    children = [child for child in alternatives if local_name(child) not in SILENT and local_name(child)]
    for wanted in ("math", "tex-math"):
        for child in children:
            if local_name(child) == wanted:
                return child
    return children[0] if children else None


def _replace_pair(match: re.Match[str]) -> str:
    name, inner = match[1].lower(), match[2]
    if name in _ESCAPED_BLOCKS:
        return f" {inner} "
    if name in ("sub", "inf", "sup", "pre"):
        base = match.string[: match.start()]
        return attach(base[-1:], inner, "_" if name in ("sub", "inf") else "^")
    return inner
