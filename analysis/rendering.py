"""A comparison table as Markdown, CSV and terminal text."""

import io
import math
import re
import shutil
import sys
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Literal

from analysis.frames import metric_of
from analysis.statistics import Estimate, Verdict
from analysis.tables import Row, Table

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


def markdown(table: Table) -> str:
    """GitHub Markdown: title, headline, table, notes, and the run ids behind every row."""
    header = _header(table)
    lines = [f"# {escaped(_title(table))}", "", escaped(table.headline), ""]
    lines.append("| " + " | ".join(header) + " |")
    lines.append("|" + "|".join(["---:", "---", "---", *["---:"] * (len(header) - 4), "---"]) + "|")
    for number, row in enumerate(table.rows, start=1):
        first, axis, level, *numbers = _texts(table, row, number)
        cells = [first, escaped(axis), escaped(level), *numbers]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", *(f"- {escaped(note)}" for note in table.notes)]
    lines += ["", "Runs behind each row:", "", *(f"- {line}" for line in _run_lines(table)), ""]
    return "\n".join(lines)


def csv(table: Table) -> str:
    """The frame of the table as CSV: plain numbers, one line per row, run ids in a column."""
    return table.frame.to_csv(index=False, lineterminator="\n")


def terminal(table: Table) -> str:
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
    left_out: list[str] = []
    grid = _grid(table, left_out)
    while Measurement.get(console, unbounded, grid).maximum > width:
        stacked = len(left_out) == len(EXPENDABLE)
        left_out += EXPENDABLE[len(left_out) : len(left_out) + 1]
        grid = _grid(table, left_out, stacked=stacked)
        if stacked:
            break
    console.print(Text(_title(table)))
    console.print(Text(table.headline, style="yellow" if table.missing else ""))
    console.print(grid)
    narrow = [f"Left out, the terminal is narrow: {', '.join(left_out)}."] if left_out else []
    for line in (
        *narrow,
        *table.notes,
        "Runs behind each row:",
        *_run_lines(table, most=SHOWN_RUNS),
    ):
        console.print(Text(line))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def text_rows(table: Table) -> tuple[list[str], list[list[str]]]:
    """Header and cells of a table in words, as all its forms show them."""
    rows = [_texts(table, row, number) for number, row in enumerate(table.rows, start=1)]
    return _header(table), rows


def _grid(table: Table, left_out: Collection[str], *, stacked: bool = False) -> "Grid":
    """The rows as a rich table without some columns; stacked, intervals run downwards."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    header = _header(table)
    shown = [index for index, name in enumerate(header) if name not in left_out]
    for index in shown:
        words = header[index] in ("axis", "level", "verdict")
        justify: Literal["left", "right"] = "left" if words else "right"
        text = header[index].replace(" ", "\n") if stacked else header[index]
        grid.add_column(Text(text), justify=justify, overflow="fold", no_wrap=text != "verdict")
    for number, row in enumerate(table.rows, start=1):
        texts = _texts(table, row, number)
        if stacked:
            texts = [text.replace(" ", "\n") if " [" in text else text for text in texts]
            texts[1] = texts[1].replace(".", ".\n")
        style = _STYLES.get(row.verdict, "") if row.verdict else "bold"
        grid.add_row(*(Text(texts[index]) for index in shown), style=style)
    return grid


def _title(table: Table) -> str:
    signature = f" ({table.signature})" if table.signature else ""
    return f"{table.study}: {table.metric} on {table.split}{signature}"


def _header(table: Table) -> list[str]:
    missing = ["missing"] if table.missing else []
    return [
        "#",
        "axis",
        "level",
        f"{table.metric} [95%]",
        "Δ [95%]",
        "p (Holm)",
        "n",
        "diverged",
        *missing,
        "detectable",
        "parameters",
        "seconds",
        "verdict",
    ]


def _texts(table: Table, row: Row, number: int) -> list[str]:
    """What stands in the cells of one row, in the order of the header."""
    decimals = metric_of(table.metric).decimals
    missing = [str(row.missing)] if table.missing else []
    return [
        str(number),
        row.axis or "baseline",
        "" if row.is_baseline and not row.axis else str(row.level),
        _estimate(row.mean, decimals, sign="") if row.mean.n else _absent(row),
        "" if row.difference is None else _estimate(row.difference, decimals, sign="+"),
        "" if row.is_baseline else p_value(row.p_adjusted),
        f"{row.seeds_compared} of {row.seeds_planned}",
        f"{row.diverged} of {row.finished + row.diverged}",
        *missing,
        _detectable(row, decimals),
        _parameters(row),
        "-" if math.isnan(row.seconds) else f"{row.seconds:,.0f}",
        row.verdict_text,
    ]


def _absent(row: Row) -> str:
    if row.diverged:
        return "diverged"
    return "undefined" if row.undefined else "missing"


def _estimate(estimate: Estimate, decimals: int, *, sign: str) -> str:
    if estimate.n == 0:
        return "-"
    mean = f"{estimate.mean:{sign}z.{decimals}f}"
    if estimate.n == 1:
        return mean
    return f"{mean} [{estimate.low:{sign}z.{decimals}f}, {estimate.high:{sign}z.{decimals}f}]"


def p_value(p: float) -> str:
    """A p-value in three decimals; "-" where there is none."""
    if math.isnan(p):
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _detectable(row: Row, decimals: int) -> str:
    if row.is_baseline:
        return ""
    return "none" if math.isinf(row.detectable) else f"{row.detectable:.{decimals}f}"


def _parameters(row: Row) -> str:
    if row.parameters is None:
        return "-"
    fewest, most = row.parameters
    return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"


def _run_lines(table: Table, *, most: int | None = None) -> Iterator[str]:
    absent = set(table.missing)
    for number, row in enumerate(table.rows, start=1):
        runs = [f"{run} (missing)" if run in absent else run for run in row.runs[:most]]
        left = len(row.runs) - len(runs)
        more = [f"and {left} more in the CSV"] if left else []
        yield f"row {number}: {', '.join(runs + more)}"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is: names come from study files."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return re.sub(r"[\\*`\[~]|(?<!\w)_|_(?!\w)", r"\\\g<0>", safe)
