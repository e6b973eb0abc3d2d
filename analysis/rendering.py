"""A comparison table as Markdown, CSV, LaTeX, HTML and terminal text."""

import io
import shutil
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from analysis.row_words import COLUMNS, row_table, run_lines, runs_heading
from analysis.rows import Row
from analysis.statistics import Verdict
from analysis.tables import Table
from analysis.text_tables import TextTable, escaped

if TYPE_CHECKING:
    from rich.table import Table as Grid

SHOWN_RUNS = 20
EXPENDABLE = ("seconds", "parameters", "detectable", "missing", "diverged")

_STYLES = {
    Verdict.better: "green",
    Verdict.worse: "red",
    Verdict.diverged: "red",
    Verdict.missing: "yellow",
    Verdict.undefined: "dim",
    Verdict.too_few_seeds: "dim",
}


def render(table: Table, *, format: str, columns: Sequence[str] = ()) -> str:
    """The table as text.

    Args:
        table: what is shown.
        format: "terminal", "markdown", "csv", "latex" or "html".
        columns: the columns after the difference, by their names in `analysis.row_words`; those
            that it shows by itself when empty. A CSV holds all that is known.

    Raises:
        ValueError: another format, an unknown column, or columns chosen of a CSV.
    """
    check_form(format, columns)
    if format == "csv":
        return csv(table)
    rows = row_table(table, columns=columns)
    return _WRITERS[format](table, replace(rows, title=f"{table.study}: {rows.title}"))


def check_form(format: str, columns: Sequence[str]) -> None:
    """Refuse what `render` can't show.

    Raises:
        ValueError: as there.
    """
    if format != "csv" and format not in _WRITERS:
        raise ValueError(f"unknown table format {format!r}; legal: {', '.join([*_WRITERS, 'csv'])}")
    if format == "csv" and columns:
        raise ValueError("--columns: a CSV holds every column; leave one of the two out")
    for name in columns:
        if name not in COLUMNS:
            raise ValueError(f"unknown column {name!r}; legal: {', '.join(COLUMNS)}")


def csv(table: Table) -> str:
    """The frame of the table as CSV: plain numbers, one line per row, run ids in a column.

    The last two columns repeat in each line how complete the table is, and its notes.
    """
    told = table.frame.assign(
        headline=table.headline, notes=" ".join([*table.notes, runs_heading(table)])
    )
    return told.to_csv(index=False, lineterminator="\n")


def _markdown(table: Table, rows: TextTable) -> str:
    """GitHub Markdown: title, headline, table, notes, and the run ids behind every row."""
    lines = [f"# {escaped(rows.title)}", "", escaped(table.headline), ""]
    lines.append("| " + " | ".join(rows.header) + " |")
    align = ("---" if name in rows.words else "---:" for name in rows.header)
    lines.append("|" + "|".join(align) + "|")
    for row in rows.rows:
        first, axis, level, *numbers = row
        cells = [first, escaped(axis), escaped(level), *numbers]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", *(f"- {escaped(note)}" for note in table.notes)]
    lines += ["", escaped(runs_heading(table)), "", *(f"- {line}" for line in run_lines(table)), ""]
    return "\n".join(lines)


def _latex(table: Table, rows: TextTable) -> str:
    """LaTeX for booktabs: headline, table, notes; the run ids behind every row are comments."""
    from analysis.latex import latex

    runs = "\n".join(f"% {line}" for line in (runs_heading(table), *run_lines(table)))
    parts: list[str | TextTable] = [table.headline, rows, *table.notes]
    return f"{latex(parts, title=rows.title)}{runs}\n"


def _html(table: Table, rows: TextTable) -> str:
    """A page that needs nothing from outside: headline, sortable table, notes, run ids."""
    from analysis.pages import render_page

    runs = TextTable(
        title=runs_heading(table),
        header=("row", "runs"),
        rows=[line.removeprefix("row ").split(": ", 1) for line in run_lines(table)],
        words=("runs",),
    )
    return render_page([table.headline, rows, *table.notes, runs], title=rows.title)


def _terminal(table: Table, rows: TextTable) -> str:
    """Text as wide as the terminal (180 columns where there is none), coloured on one.

    What doesn't fit beside the rest is left out and named: `EXPENDABLE` columns, in that order.
    """
    from rich.console import Console
    from rich.measure import Measurement
    from rich.text import Text

    on_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else 180
    written = io.StringIO()
    console = Console(file=written, width=width, force_terminal=on_terminal)
    unbounded = console.options.update(width=1000)
    expendable = [name for name in EXPENDABLE if name in rows.header]
    left_out: list[str] = []
    grid = _grid(rows, table.rows, left_out)
    while Measurement.get(console, unbounded, grid).maximum > width:
        stacked = len(left_out) == len(expendable)
        left_out += expendable[len(left_out) : len(left_out) + 1]
        grid = _grid(rows, table.rows, left_out, stacked=stacked)
        if stacked:
            break
    console.print(Text(rows.title))
    console.print(Text(table.headline, style="yellow" if table.missing else ""))
    console.print(grid)
    narrow = [f"Left out, the terminal is narrow: {', '.join(left_out)}."] if left_out else []
    runs = run_lines(table, most=SHOWN_RUNS)
    for line in (*narrow, *table.notes, runs_heading(table), *runs):
        console.print(Text(line))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def _grid(
    texts: TextTable, rows: Sequence[Row], left_out: Collection[str], *, stacked: bool = False
) -> "Grid":
    """The rows as a rich table without some columns; stacked, intervals run downwards."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    shown = [index for index, name in enumerate(texts.header) if name not in left_out]
    for name in (texts.header[index] for index in shown):
        justify: Literal["left", "right"] = "left" if name in texts.words else "right"
        text = name.replace(" ", "\n") if stacked else name
        grid.add_column(Text(text), justify=justify, overflow="fold", no_wrap=name != "verdict")
    for row, cells in zip(rows, texts.rows, strict=True):
        words = list(cells)
        if stacked:
            words = [text.replace(" ", "\n") if " [" in text else text for text in words]
            words[1] = words[1].replace(".", ".\n")
        style = _STYLES.get(row.verdict, "") if row.verdict else "bold"
        grid.add_row(*(Text(words[index]) for index in shown), style=style)
    return grid


_WRITERS = {"terminal": _terminal, "markdown": _markdown, "latex": _latex, "html": _html}
