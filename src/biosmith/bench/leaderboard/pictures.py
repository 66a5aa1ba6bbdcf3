"""Pictures of the site: SVG by matplotlib, drawn in the colour of the text around it, so that they suit light and dark."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

INK = "#0a0b0c"  # stands for the page's own colour until it is replaced
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Point:
    """A point of a scatter: its name, where it is, and half the height of its interval (0 for none)."""

    name: str
    x: float
    y: float
    spread: float = 0.0


def scatter(
    points: Sequence[Point], x_label: str, y_label: str, description: str, *, log: bool = True
) -> str:
    """Quality against something: every point has a marker of its own and its name beside it."""
    figure, axes = _new(4.7, 3.5)
    for index, point in enumerate(points):
        marker = MARKERS[index % len(MARKERS)]
        axes.errorbar(
            point.x,
            point.y,
            yerr=point.spread or None,
            fmt=marker,
            color=INK,
            markersize=7,
            capsize=3,
            linewidth=1.2,
        )
    if log:
        axes.set_xscale("log")
        low, high = min(p.x for p in points), max(p.x for p in points)
        axes.set_xlim(low / 1.8, high * 2.6)
        _plain_ticks(axes, low / 1.8, high * 2.6)
    axes.margins(y=0.25)
    for point in points:
        axes.annotate(
            _shorten(point.name),
            (point.x, point.y),
            xytext=(8, 6),
            textcoords="offset points",
            fontsize=9.5,
            color=INK,
            parse_math=False,
        )
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return _finish(figure, description)


def strip(rows: Sequence[tuple[str, Sequence[float], float | None, float | None]], description: str) -> str:
    """Scores of single seeds: a row a model, a point a seed, a bar for the mean, a line for the interval.

    Args:
        rows: name, scores in percent, ends of the interval.
        description: for those who cannot see it.
    """
    figure, axes = _new(4.4, 0.6 + 0.42 * len(rows))
    for place, (_, values, low, high) in enumerate(rows):
        if low is not None and high is not None:
            axes.plot([low, high], [place, place], color=INK, linewidth=1.1, alpha=0.55)
        axes.plot(values, [place] * len(values), "o", color=INK, markersize=5, fillstyle="none")
        mean = sum(values) / len(values)
        axes.plot([mean, mean], [place - 0.28, place + 0.28], color=INK, linewidth=2.2)
    axes.set_yticks(range(len(rows)), [_shorten(name) for name, *_ in rows], parse_math=False)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.margins(x=0.06)
    return _finish(figure, description)


def _new(width: float, height: float) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10}):
        figure, axes = pyplot.subplots(figsize=(width, height))
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.tick_params(colors=INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.grid(axis="both", color=INK, alpha=0.12, linewidth=0.7)
    axes.set_axisbelow(True)
    return figure, axes


def _plain_ticks(axes: Any, low: float, high: float) -> None:
    """1, 2, 5, 10, ... as numbers and not as powers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    ticks = [m * 10**e for e in range(-3, 9) for m in (1, 2, 5) if low <= m * 10**e <= high]
    axis = axes.xaxis
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _shorten(name: str) -> str:
    return name if len(name) <= 22 else name[:21] + "…"


def _finish(figure: Any, description: str) -> str:
    import matplotlib
    from matplotlib import pyplot

    stream = io.StringIO()
    with (
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "biosmith"}),
        warnings.catch_warnings(),
    ):
        # The letters are drawn by the browser, whatever matplotlib's own font has.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(stream, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})
    pyplot.close(figure)
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # The size is the page's; the letters are the page's too.
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px; font-family: inherit", svg)
    label = description.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1).replace(
        "#000000", "currentColor"
    )
