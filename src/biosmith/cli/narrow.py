"""Tables in windows that are too narrow for them."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

WIDEST = 10_000  # columns: a window in which everything fits


@dataclass(frozen=True)
class Uncut:
    """A table of numbers that is never cut short: where it does not fit, each row is a line a column.

    Half a number would be a wrong one. Columns that may wrap fit as long as their words do.

    Attributes:
        table: without a box; its first column names the rows.
    """

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [_least_width(column, console, options) for column in self.table.columns]
        _, right, _, left = Padding.unpack(self.table.padding)
        if sum(widths) + (right + left) * len(widths) <= options.max_width:
            yield self.table
            return
        if self.table.title:
            yield self.table.title
        first, *others = self.table.columns
        headers = [_plain(column.header) for column in others]
        for name, *cells in zip(first.cells, *(column.cells for column in others), strict=True):
            yield Text(_plain(name), style="bold", overflow="fold")
            for header, cell in zip(headers, map(_plain, cells), strict=True):
                if cell:
                    yield Text(f"  {header}: {cell}" if header else f"  {cell}", overflow="fold")
        if self.table.caption:
            yield self.table.caption


def _least_width(column: Column, console: Console, options: ConsoleOptions) -> int:
    measured = [
        Measurement.get(console, options.update_width(WIDEST), cell)
        for cell in (column.header, *column.cells)
    ]
    return max(one.maximum if column.no_wrap else one.minimum for one in measured)


def _plain(cell: object) -> str:
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain
