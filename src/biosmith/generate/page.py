"""One self-contained HTML page of interpolation paths side by side; what a step changes is marked. It loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from jinja2 import Environment

from biosmith.artefact import write_by_rename
from biosmith.generate.sentences import Step

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; --line: #8886; --new: #1f8f6f38; --dim: #777; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 84rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.paths { display: grid; gap: 1.5rem; grid-template-columns: repeat({{ columns }}, minmax(18rem, 1fr)); overflow-x: auto; }
ol { list-style: none; margin: 0; padding: 0; }
li { border-top: 1px solid var(--line); padding: .45rem 0 .45rem 4.2rem; position: relative; overflow-wrap: anywhere; }
li.end { font-weight: 600; }
.place { position: absolute; left: 0; width: 3.6rem; color: var(--dim); font-variant-numeric: tabular-nums; }
.perplexity { color: var(--dim); font-size: .85rem; white-space: nowrap; }
mark { background: var(--new); color: inherit; border-radius: .2rem; text-decoration: underline dotted; }
@media (max-width: 44rem) { .paths { grid-template-columns: 1fr; } }
@media print { body { max-width: none; } }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p>{{ about }} Marked words are new against the sentence above; the number behind a sentence is its perplexity given the
latent vector.</p>
{% for pair in pairs %}
<section>
<h2>{{ loop.index }}. {{ pair.one | truncate(60) }} → {{ pair.other | truncate(60) }}</h2>
<div class="paths">
{% for path in pair.paths %}
<div><h3>{{ path.name }}</h3>
<ol>
<li class="end"><span class="place">from</span>{{ pair.one }}</li>
{% for row in path.rows %}
<li><span class="place">{{ row.place }}</span>
{%- for text, is_new in row.words %}{% if is_new %}<mark>{{ text }}</mark>{% else %}{{ text }}{% endif %} {% endfor -%}
<span class="perplexity">{{ row.perplexity }}</span></li>
{% endfor %}
<li class="end"><span class="place">to</span>{{ pair.other }}</li>
</ol></div>
{% endfor %}
</div>
</section>
{% endfor %}
</body>
</html>
"""


@dataclass(frozen=True)
class Way:
    """One way between two sentences, by its name."""

    name: str
    steps: Sequence[Step]


@dataclass(frozen=True)
class Pair:
    """Two sentences and the ways between them."""

    one: str
    other: str
    paths: Sequence[Way]


def write_page(file: Path, pairs: Sequence[Pair], title: str, about: str = "") -> Path:
    """Write the page, by rename. Everything that comes from sentences is escaped."""
    template = Environment(autoescape=True).from_string(PAGE)
    shown = [
        {
            "one": pair.one,
            "other": pair.other,
            "paths": [{"name": path.name, "rows": _rows(path.steps)} for path in pair.paths],
        }
        for pair in pairs
    ]
    columns = max((len(pair.paths) for pair in pairs), default=1)
    with write_by_rename(file) as temporary:
        text = template.render(title=title, about=about, pairs=shown, columns=columns)
        temporary.write_text(text, encoding="utf-8")
    return file


def _rows(steps: Sequence[Step]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    before: list[str] = []
    for step in steps:
        words = step.written.split()
        new = set(range(len(words)))
        for block in SequenceMatcher(None, before, words, autojunk=False).get_matching_blocks():
            new -= set(range(block.b, block.b + block.size))
        marked = [(word, bool(rows) and i in new) for i, word in enumerate(words)]
        rows.append({"place": f"{step.place:.2f}", "words": marked, "perplexity": f"{step.perplexity:.2f}"})
        before = words
    return rows
