"""The fragmentation report as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from biosmith.artefact import write_by_rename
from biosmith.tokens.fragmentation import VocabularyCut

COLOURS = ("#1f6f8b", "#e07a5f", "#81b29a", "#5f5aa2", "#f2cc8f", "#8d99ae", "#b56576", "#3d405b")
_INK, _QUIET = "#222222", "#666666"


def draw_report(cuts: Sequence[VocabularyCut], labels: Sequence[str], path: Path) -> None:
    """Pieces a word, pieces of each term, and the share of mentions kept whole, one colour a vocabulary (PNG).

    Panels without data are left out.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    has_text = any(cut.fragmentation is not None for cut in cuts)
    datasets = list(dict.fromkeys(name for cut in cuts for name in cut.mentions))
    terms = list(dict.fromkeys(term for cut in cuts for term in cut.terms))
    rows = [("terms", 0.9 + 0.42 * len(cuts))]
    if has_text:
        rows.insert(0, ("text", 0.9 + 0.42 * len(cuts)))
    if datasets:
        rows.append(("mentions", 3.2))
    width = max(9.0, 0.55 * len(terms) + 3.0, 0.35 * len(datasets) * len(cuts) + 3.0)
    figure = Figure(figsize=(width, sum(height for _, height in rows) + 1.2), layout="constrained", dpi=150)
    panels = figure.subplots(len(rows), 1, height_ratios=[height for _, height in rows], squeeze=False)[:, 0]
    for (name, _), axes in zip(rows, panels, strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_INK, length=0)
        if name == "text":
            _draw_text(axes, cuts, labels)
        elif name == "terms":
            _draw_terms(axes, cuts, labels, terms)
        else:
            _draw_mentions(axes, cuts, labels, datasets)
    with write_by_rename(path) as temporary:
        FigureCanvasAgg(figure).print_png(str(temporary))


def _title(axes: Any, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold", color=_INK)


def _draw_text(axes: Any, cuts: Sequence[VocabularyCut], labels: Sequence[str]) -> None:
    _title(axes, f"Pieces a word, over {cuts[0].words:,} words of running text (lower is better)")
    values = [cut.fragmentation or 0.0 for cut in cuts]
    bars = axes.barh(range(len(cuts)), values, height=0.62, color=_colours(len(cuts)))
    notes = [
        f"{v:.3f}   {cut.unknown_rate or 0:.2%} of words unknown" for v, cut in zip(values, cuts, strict=True)
    ]
    axes.bar_label(bars, notes, padding=5, fontsize=9, color=_INK)
    axes.set_xlim(0, max(values) * 1.35)
    axes.set_yticks(range(len(cuts)), labels, fontsize=9)
    axes.invert_yaxis()
    axes.axvline(1, color=_QUIET, linewidth=0.8, linestyle="--")


def _draw_terms(
    axes: Any, cuts: Sequence[VocabularyCut], labels: Sequence[str], terms: Sequence[str]
) -> None:
    _title(axes, "Pieces of each term (1: the term is in the vocabulary)")
    grid = [[len(cut.terms[term]) for term in terms] for cut in cuts]
    axes.imshow(grid, aspect="auto", cmap="YlGnBu", vmin=0, vmax=max(7, *(max(row) for row in grid)))
    for row, line in enumerate(grid):
        for column, value in enumerate(line):
            axes.text(
                column,
                row,
                str(value),
                ha="center",
                va="center",
                fontsize=9,
                color="white" if value > 4 else _INK,
                fontweight="bold" if value == 1 else "normal",
            )
    axes.set_xticks(range(len(terms)), terms, rotation=40, ha="right", fontsize=9)
    named = [f"{label} ({cut.whole_terms}/{len(terms)})" for label, cut in zip(labels, cuts, strict=True)]
    axes.set_yticks(range(len(cuts)), named, fontsize=9)
    axes.spines[:].set_visible(False)


def _draw_mentions(
    axes: Any, cuts: Sequence[VocabularyCut], labels: Sequence[str], datasets: Sequence[str]
) -> None:
    _title(axes, "Mentions kept whole: no word of the entity is broken (higher is better)")
    width = 0.8 / len(cuts)
    for number, (cut, label, colour) in enumerate(zip(cuts, labels, _colours(len(cuts)), strict=True)):
        places = [place - 0.4 + width * (number + 0.5) for place in range(len(datasets))]
        values = [100 * cut.mentions[name].whole if name in cut.mentions else 0.0 for name in datasets]
        bars = axes.bar(places, values, width * 0.92, color=colour, label=label)
        axes.bar_label(bars, [f"{value:.0f}" for value in values], fontsize=8, color=_QUIET, padding=1)
    axes.set_ylim(0, 108)
    axes.set_ylabel("% of mentions", fontsize=9, color=_INK)
    axes.set_xticks(range(len(datasets)), datasets, fontsize=9)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    axes.legend(
        frameon=False, fontsize=9, ncols=min(4, len(cuts)), loc="upper left", bbox_to_anchor=(0, -0.12)
    )


def _colours(count: int) -> list[str]:
    return [COLOURS[number % len(COLOURS)] for number in range(count)]
