"""The results of checks as a table: for the terminal, as Markdown, as CSV."""

import csv
import io
import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence

from ablations.checks.check import Result, Verdict

HEADER = ("id", "verdict", "statement", "expected", "measured")
STYLES = {
    Verdict.confirmed: "green",
    Verdict.refuted: "red",
    Verdict.not_applicable: "dim",
    Verdict.crashed: "bold red",
}


def summary(results: Sequence[Result]) -> str:
    """How many checks had each verdict."""
    counts = Counter(result.outcome.verdict for result in results)
    found = ", ".join(f"{counts[v]} {v.value}" for v in Verdict if counts[v])
    return f"{len(results)} checks: {found}"


def terminal(results: Sequence[Result]) -> str:
    """Text as wide as the terminal (180 columns where there is none), coloured on one."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    on_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else 180
    written = io.StringIO()
    console = Console(file=written, width=width, force_terminal=on_terminal)
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_lines=False)
    for name, ratio in zip(HEADER, (None, None, 3, 3, 7), strict=True):
        grid.add_column(name, ratio=ratio, overflow="fold", no_wrap=name == "id")
    for result in results:
        first, verdict, *words = _texts(result)
        styled = Text(verdict, style=STYLES[result.outcome.verdict])
        grid.add_row(Text(first), styled, *map(Text, words))
    console.print(grid)
    console.print(Text(summary(results)))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def markdown(results: Sequence[Result]) -> str:
    """GitHub Markdown: the table, then the counts."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + " --- |" * len(HEADER)]
    for result in results:
        cells = (re.sub(r"([\\|*_`<\[~])", r"\\\1", text) for text in _texts(result))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", summary(results)])


def comma_separated(results: Sequence[Result]) -> str:
    """CSV, one line a check."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(_texts(result) for result in results)
    return written.getvalue().rstrip("\n")


FORMATS = {"terminal": terminal, "markdown": markdown, "csv": comma_separated}


def _texts(result: Result) -> list[str]:
    check, outcome = result.check, result.outcome
    verdict, measured = outcome.verdict.value, " ".join(outcome.measured.split())
    return [check.id, verdict, check.statement, check.expected, measured]
