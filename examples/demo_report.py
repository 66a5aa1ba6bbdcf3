"""The demo's report: one self-contained HTML page."""

from __future__ import annotations

import base64
import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import biosmith
from biosmith import Document

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --disease: #d9480f33; --chemical: #1971c233; --gene: #2f9e4433; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; font-size: .95rem; } .wide { overflow-x: auto; }
th, td { text-align: left; padding: .35rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
code { font-size: .85rem; overflow-wrap: anywhere; } img { max-width: 100%; background: #fff; }
.note { border-left: .25rem solid var(--line); padding: .2rem 1rem; background: var(--soft); }
mark { color: inherit; border-radius: .2rem; padding: .05rem .2rem; }
mark.Disease { background: var(--disease); border-bottom: 2px solid #d9480f; }
mark.Chemical { background: var(--chemical); border-bottom: 2px dashed #1971c2; }
mark.Gene { background: var(--gene); border-bottom: 2px dotted #2f9e44; }
"""


def write(path: Path, road: Any, source: str, out: Path, sample: Path) -> None:
    """Write the report of one run of the demo.

    Args:
        path: the page to make.
        road: the steps that were run and what they answered (`demo.Road`).
        source: where the corpus came from, in words.
        out: the folder of the demo's artefacts.
        sample: the folder of the sample data.
    """
    answers = road.answers
    annotated = {name: list(biosmith.read(answer["file"])) for name, answer in answers["annotated"].items()}
    best = max(answers["scores"], key=lambda name: answers["scores"][name]["f1"])
    gold = (
        []
        if (out / "first-documents.jsonl").exists()
        else list(biosmith.read(sample / "to-annotate.gold.pubtator"))
    )
    parts = [
        "<h1>biosmith: the whole road</h1>",
        f"<p>Corpus: {html.escape(source)}.</p>",
        "<p class=note>The model made here is tiny and was trained for about a minute. Its scores show that the road "
        "works. They say nothing about what the papers' recipes reach on real text, and the tagging set is far easier "
        "than a real one. biosmith-tagger, where it is listed, was trained on open text and public corpora; nothing of this "
        "run went into it.</p>",
        "<h2>Vocabulary: pieces a word</h2>",
        _vocabularies(answers["vocabularies"], out),
        _picture(
            out / "vocabulary-report" / "report.png", "Pieces a word and unknown words of each vocabulary"
        ),
        "<h2>Pretraining: loss</h2>",
        _picture(out / "run" / "loss.png", "Loss of masked words and next sentences over the steps"),
        _pretraining(answers["pretrained"]),
        "<h2>Tagging diseases and chemicals: test scores</h2>",
        _scores(answers["scores"]),
        _seen_and_new(annotated, gold, sample / "ner" / "train.tsv"),
        f"<h2>Citations annotated by the best tagger, {html.escape(best)}</h2>",
        *(_document(document) for document in annotated[best][:4]),
        "<p>All citations",
        ", gold beside predicted: " if gold else ": ",
        ", ".join(
            f"<a href='{a['page'].name}'>{html.escape(n)}</a>" for n, a in answers["annotated"].items()
        ),
        "</p>",
        "<h2>What was run</h2>",
        _steps(road.done),
    ]
    page = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>biosmith demo</title><style>{STYLE}</style>{''.join(parts)}</html>\n"
    )
    path.write_text(page, encoding="utf-8")


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    def cell(tag: str, value: object) -> str:
        number = isinstance(value, int | float)
        digits = 3 if isinstance(value, float) and abs(value) < 10 else 1
        text = f"{value:,.{digits}f}" if isinstance(value, float) else f"{value:,}" if number else str(value)
        return f"<{tag}{' class=number' if number else ''}>{text}</{tag}>"

    kept = [list(row) for row in rows]
    numeric = [isinstance(value, int | float) for value in kept[0]]
    names = "".join(
        f"<th{' class=number' if n else ''}>{name}</th>" for name, n in zip(head, numeric, strict=True)
    )
    body = "".join(f"<tr>{''.join(cell('td', value) for value in row)}</tr>" for row in kept)
    return f"<div class=wide><table><tr>{names}</tr>{body}</table></div>"


def _picture(path: Path, what: str) -> str:
    if not path.is_file():
        return ""
    data = base64.b64encode(path.read_bytes()).decode()
    return f"<img alt='{html.escape(what)}' src='data:image/png;base64,{data}'>"


def _vocabularies(report: Sequence[Mapping[str, Any]], out: Path) -> str:
    names = [
        "the demo's own" if Path(row["vocab"]) == out / "vocabulary" else "general English" for row in report
    ]
    table = _table(
        ["vocabulary", "pieces a word", "unknown words"],
        [(name, row["fragmentation"], row["unknown_rate"]) for name, row in zip(names, report, strict=True)],
    )
    terms = list(report[0]["terms"])[:8]
    cut = [[term, *(html.escape(" ".join(row["terms"][term])) for row in report)] for term in terms]
    return table + "<p>Some terms, cut:</p>" + _table(["term", *names], cut)


def _pretraining(answer: Mapping[str, Any]) -> str:
    head = ["steps", "tokens", "loss", "loss on held-out documents", "tokens a second"]
    table = _table(head, [[answer[k] for k in ("steps", "tokens", "loss", "eval_loss", "tokens_per_second")]])
    return table + (
        "<p>The line in the picture is the unigram entropy of the corpus, where a model stands that knows how frequent "
        "words are and nothing else. A few hundred steps on a few hundred abstracts lead no farther than there; the "
        "papers' recipes take a million times as many tokens.</p>"
    )


def _scores(scores: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [(name, *(100 * s[key] for key in ("precision", "recall", "f1"))) for name, s in scores.items()]
    return _table(["model", "precision, %", "recall, %", "F1, %"], rows)


def _seen_and_new(annotated: Mapping[str, Sequence[Document]], gold: Sequence[Document], train: Path) -> str:
    """How many gold mentions were found, apart for names that occur in the training split and for those that do not."""
    if not gold:
        return ""
    text = " " + " ".join(line.split("\t")[0] for line in train.read_text("utf-8").splitlines() if line) + " "
    asked: Counter[bool] = Counter()
    found: Counter[tuple[bool, str]] = Counter()
    predicted = {
        name: {(d.id, m.start, m.end, m.type) for d in documents for m in d.mentions}
        for name, documents in annotated.items()
    }
    for document in gold:
        for mention in document.mentions:
            is_new = f" {' '.join(_words(mention.text))} ".lower() not in text.lower()
            asked[is_new] += 1
            for name, mentions in predicted.items():
                found[is_new, name] += (document.id, mention.start, mention.end, mention.type) in mentions
    kinds = {False: "names that occur in training", True: "names that do not"}
    rows = [
        (kind, asked[is_new], *(100 * found[is_new, name] / max(1, asked[is_new]) for name in predicted))
        for is_new, kind in kinds.items()
    ]
    head = ["gold mentions of the test citations", "number", *(f"found by {name}, %" for name in predicted)]
    return "<p>How many gold mentions were found:</p>" + _table(head, rows)


def _words(text: str) -> list[str]:
    """Words and punctuation marks, as the sample's tagging set has them."""
    return re.findall(r"\w+|[^\w\s]", text)


def _document(document: Document) -> str:
    parts, position = [], 0
    for mention in sorted(document.mentions, key=lambda m: (m.start, -m.end)):
        if mention.start < position:
            continue
        score = "" if mention.score is None else f" {mention.score:.2f}"
        parts.append(html.escape(document.text[position : mention.start]))
        parts.append(f"<mark class={html.escape(mention.type)} title='{html.escape(mention.type)}{score}'>")
        parts.append(html.escape(document.text[mention.start : mention.end]) + "</mark>")
        position = mention.end
    return f"<p>{''.join(parts)}{html.escape(document.text[position:])}</p>"


def _steps(done: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"{html.escape(s['title'])}<br><code>biosmith {html.escape(s['command'])}</code>",
            html.escape(s["told"]),
        )
        for s in done
    ]
    seconds = [round(float(s["seconds"]), 1) for s in done]
    return _table(
        ["step", "gave", "seconds"], [(*row, f"{s:.1f}") for row, s in zip(rows, seconds, strict=True)]
    )
