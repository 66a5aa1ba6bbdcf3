r"""TeX formulas as plain text, for the few articles that have no MathML: `\frac{a}{b}` to `a/b`, `\alpha` to `α`.

This is no TeX: commands that are neither letters nor known operators are left out and their arguments kept.
"""

from __future__ import annotations

import re
import unicodedata

_OPERATORS = {
    "times": "×", "pm": "±", "mp": "∓", "cdot": "·", "ast": "*", "div": "÷", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥",
    "neq": "≠", "ne": "≠", "approx": "≈", "sim": "~", "equiv": "≡", "propto": "∝", "in": "∈", "notin": "∉", "subset": "⊂",
    "cup": "∪", "cap": "∩", "to": "→", "rightarrow": "→", "leftarrow": "←", "leftrightarrow": "↔", "Rightarrow": "⇒",
    "infty": "∞", "sum": "sum", "prod": "product", "int": "integral", "partial": "∂", "nabla": "∇", "forall": "∀",
    "exists": "∃", "mid": "|", "circ": "°", "prime": "'", "ldots": "...", "dots": "...", "cdots": "...", "degree": "°",
}  # fmt: skip
_FUNCTIONS = frozenset(
    [
        "exp",
        "log",
        "ln",
        "sin",
        "cos",
        "tan",
        "min",
        "max",
        "arg",
        "lim",
        "det",
        "dim",
        "deg",
        "sup",
        "inf",
        "Pr",
        "mod",
    ]
)
_VARIANTS = {"varepsilon": "ε", "vartheta": "ϑ", "varphi": "φ", "varrho": "ρ", "varsigma": "ς", "upmu": "μ"}
_ENVELOPE = re.compile(r".*\\begin\{document\}(.*?)\\end\{document\}.*", re.DOTALL)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[^{}]*\}(?:\[[^\]]*\])?(?:\{(?:[^{}]|\{[^{}]*\})*\})?")
_LAYOUT = re.compile(
    r"\\(?:left|right|big|Big|bigg|Bigg)(?![a-zA-Z])\.?|\\(?:label|tag|vspace|hspace)\*?\{[^{}]*\}|\\[,;:!>]|\$|~"
)
_FRACTION = re.compile(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_ROOT = re.compile(r"\\sqrt\s*\{([^{}]*)\}")
_SCRIPT = re.compile(r"([\^_])\s*\{([^{}]*)\}")
_COMMAND = re.compile(r"\\([a-zA-Z]+)\*?\s*")
_BRACES = re.compile(r"\{([^{}]*)\}")
_SIMPLE = re.compile(r"\s*[+\-−]?\w*\s*")


def tex_to_text(source: str) -> str:
    """The formula on one line, without preamble, layout and braces."""
    text = _ENVELOPE.sub(r"\1", source)
    text = _ENVIRONMENT.sub(" ", text)
    text = (
        text.replace("\\\\", " ; ").replace("\\{", "\ue001").replace("\\}", "\ue002").replace("\\&", "\ue003")
    )
    text = (
        text.replace("&", " ").replace("\\%", "%").replace("\\_", "_").replace("\\#", "#").replace("\\ ", " ")
    )
    text = _LAYOUT.sub(" ", text)
    changed = 1
    while changed:  # from the innermost braces outwards
        text, fractions = _FRACTION.subn(lambda m: f" {_group(m[1])}/{_group(m[2])} ", text)
        text, roots = _ROOT.subn(lambda m: f" sqrt({m[1].strip()}) ", text)
        text, scripts = _SCRIPT.subn(lambda m: f"{m[1]}{_group(m[2])}", text)
        changed = fractions + roots + scripts
        if not changed:
            text, changed = _BRACES.subn(r" \1 " if "\\" in text else r"\1", text)
    text = _COMMAND.sub(_replace_command, text).replace("\\", " ")
    text = text.replace("\ue001", "{").replace("\ue002", "}").replace("\ue003", "&")
    text = re.sub(r"\s+([\^_])\s*", r"\1", text)
    return " ".join(text.replace(" ; ; ", " ; ").split()).strip("; ")


def _group(text: str) -> str:
    text = text.strip()
    return text if _SIMPLE.fullmatch(text) or re.fullmatch(r"\\[a-zA-Z]+", text) else f"({text})"


def _replace_command(match: re.Match[str]) -> str:
    name = match[1]
    if name in _OPERATORS:
        return f" {_OPERATORS[name]} "
    if name in _VARIANTS:
        return _VARIANTS[name]
    if name in _FUNCTIONS:
        return f" {name} "
    case = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {name.upper().replace('LAMBDA', 'LAMDA')}")
    except KeyError:
        return " "
