"""Presentation MathML written on one line: `x_i`, `10^6`, `(a + b)/c`, `sum_(i = 1)^n x_i`.

White space of the source means nothing in MathML, so all spaces are made here: around relations and binary
operators, and between words. Accents over a symbol (a dot, a bar, a hat) are left out; letters and digits never are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from lxml.etree import _Element as Element

_RELATIONS = frozenset(
    [
        "=",
        "<",
        ">",
        "≤",
        "≥",
        "⩽",
        "⩾",
        "≦",
        "≧",
        "≠",
        "≈",
        "≅",
        "≃",
        "≡",
        "∼",
        "~",
        "∝",
        "∈",
        "∉",
        "⊂",
        "⊆",
        "∪",
        "∩",
        "→",
        "←",
        "↔",
        "⇒",
        "⇔",
        "⟶",
        "×",
        "±",
        "∓",
        "÷",
        "∧",
        "∨",
        ":=",
        "≪",
        "≫",
        "|",
        "∣",
    ]
)
_SIGNS = frozenset("+-−–")
_INVISIBLE = "\u2061\u2062\u2063\u2064\u200b\u200a"
_NAMES = {"∑": "sum", "∏": "product", "∫": "integral", "√": "sqrt"}
_SILENT = frozenset(
    ("annotation", "annotation-xml", "mphantom", "none", "mprescripts", "maligngroup", "malignmark")
)
_LAST_SIGN = re.compile(r" ([+\-−–]) $")  # a charge, as in `2−`, and no operator
_SIMPLE = re.compile(r"[+\-−–]?\w+|\d*[+\-−–*]|[′″'*]+")


def linearise(element: Element) -> str:
    """The formula as text without leading or trailing white space."""
    return " ".join(_write(element).split())


def _write(element: Element) -> str:
    if not isinstance(element.tag, str):
        return ""
    name = element.tag.rpartition("}")[2]
    if name in _SILENT:
        return ""
    if name in ("mi", "mn", "mo", "mtext", "ms"):
        return _token(element, name)
    if name == "mspace":
        return " "
    children = [child for child in element if isinstance(child.tag, str)]
    arity, write = _LAYOUTS.get(name, (0, _row))
    if arity == ANY or (arity and arity == len(children)):
        return write(children)
    if name == "mfenced":
        return _fenced(element, children)
    return _row(children) if children else (element.text or "")


def _token(element: Element, name: str) -> str:
    text = "".join(map(str, element.itertext())).translate(dict.fromkeys(map(ord, _INVISIBLE)))
    if name == "mtext":
        return text
    return _NAMES.get(text.strip(), text.strip())


def _row(children: Sequence[Element]) -> str:
    """Children one after another, with spaces around relations and between words."""
    written, after_word = "", False
    for child in children:
        part = _write(child)
        if not part:
            continue
        name = child.tag.rpartition("}")[2]
        operator = part.strip() if name == "mo" else ""
        is_word = name in ("mi", "mtext", "ms") and len(part) > 1 and part[0].isalpha()
        if operator in _RELATIONS or (operator in _SIGNS and _ends_operand(written)):
            written += f" {operator} "
        elif operator in (",", ";"):
            written += f"{operator} "
        elif _numbers_meet(written, part) or (
            written[-1:].isalnum() and part[0].isalnum() and (is_word or (after_word and part[0].isalpha()))
        ):
            written += f" {part}"
        else:
            written += part
        after_word = is_word
    return _LAST_SIGN.sub(r"\1", written)


def _ends_operand(written: str) -> bool:
    return bool(written) and (written[-1].isalnum() or written[-1] in ")]}")


def _numbers_meet(before: str, after: str) -> bool:
    return before[-1:].isdigit() and after[:1].isdigit()


def _group(text: str) -> str:
    """The text in brackets, unless it is one symbol, word or number."""
    text = " ".join(text.split())
    return text if len(text) < 2 or _SIMPLE.fullmatch(text) else f"({text})"


def _subscript(base: str, script: str) -> str:
    script = _group(script)
    if not script:
        return base
    joined = script[0].isdigit() and base[-1:].isalpha() and base not in _NAMES.values()
    return base + (script if joined else f"_{script}")


def _superscript(base: str, script: str) -> str:
    script = _group(script)
    if not script or script[0] in "′″'":
        return base + script
    return f"{base}^{script}"


def _base(element: Element) -> str:
    text = _write(element).strip()
    return text if re.fullmatch(r"\w*|[(\[{|].*[)\]}|]|[^\w\s]", text) else _group(text)


def _msub(children: Sequence[Element]) -> str:
    return _subscript(_base(children[0]), _row(children[1:2]))


def _msup(children: Sequence[Element]) -> str:
    return _superscript(_base(children[0]), _row(children[1:2]))


def _msubsup(children: Sequence[Element]) -> str:
    below = _subscript(_base(children[0]), _row(children[1:2]))
    return _superscript(below, _row(children[2:3]))


def _accent(script: str) -> bool:
    return not any(character.isalnum() for character in script)


def _munder(children: Sequence[Element]) -> str:
    script = _row(children[1:2])
    return _base(children[0]) if _accent(script) else _subscript(_base(children[0]), script) + " "


def _mover(children: Sequence[Element]) -> str:
    script = _row(children[1:2])
    base = _write(children[0])
    return base if _accent(script) else _superscript(_base(children[0]), script)


def _munderover(children: Sequence[Element]) -> str:
    return _msubsup(children) + " "


def _mfrac(children: Sequence[Element]) -> str:
    return f"{_group(_row(children[:1]))}/{_group(_row(children[1:2]))}"


def _msqrt(children: Sequence[Element]) -> str:
    return f"sqrt({_row(children).strip()})"


def _mroot(children: Sequence[Element]) -> str:
    return f"root_{_group(_row(children[1:2]))}({_row(children[:1]).strip()})"


def _mmultiscripts(children: Sequence[Element]) -> str:
    """Base, pairs of sub- and superscripts, and after `mprescripts` pairs that stand before the base."""
    before, after, target = "", _base(children[0]) if children else "", "after"
    position = 1
    while position < len(children):
        if children[position].tag.rpartition("}")[2] == "mprescripts":
            target, position = "before", position + 1
            continue
        below, above = (_row(children[place : place + 1]).strip() for place in (position, position + 1))
        if target == "after":
            after = _superscript(_subscript(after, below), above)
        else:
            before += _group(below) + (" " if below and above else "") + _group(above)
        position += 2
    return f"{before} {after}" if _numbers_meet(before, after) else before + after


def _mtable(children: Sequence[Element]) -> str:
    """Rows divided by semicolons, cells by spaces, for most tables line up equations."""
    rows = []
    for row in children:
        in_row = row.tag.rpartition("}")[2] in ("mtr", "mlabeledtr")
        cells = [_row([cell]).strip() for cell in (row if in_row else (row,)) if isinstance(cell.tag, str)]
        rows.append(" ".join(cell for cell in cells if cell))
    return " " + "; ".join(row for row in rows if row) + " "


def _semantics(children: Sequence[Element]) -> str:
    return _write(children[0]) if children else ""


def _fenced(element: Element, children: Sequence[Element]) -> str:
    separators = (element.get("separators", ",") or "").replace(" ", "")
    written = ""
    for position, child in enumerate(children):
        if position and separators:
            written += separators[min(position - 1, len(separators) - 1)] + " "
        written += _write(child).strip()
    return element.get("open", "(") + written + element.get("close", ")")


ANY = -1
# Name -> how many children it has (with any other number it is read as a row), and what writes it.
_LAYOUTS: dict[str, tuple[int, Callable[[Sequence[Element]], str]]] = {
    "msub": (2, _msub),
    "msup": (2, _msup),
    "msubsup": (3, _msubsup),
    "munder": (2, _munder),
    "mover": (2, _mover),
    "munderover": (3, _munderover),
    "mfrac": (2, _mfrac),
    "mroot": (2, _mroot),
    "msqrt": (ANY, _msqrt),
    "mmultiscripts": (ANY, _mmultiscripts),
    "mtable": (ANY, _mtable),
    "semantics": (ANY, _semantics),
}
