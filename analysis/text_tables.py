"""Any table of words as Markdown and as terminal text."""

import io
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """A table whose cells are words.

    Attributes:
        title: what stands above it.
        header: a name per column.
        rows: the cells.
        words: columns of words, which are aligned to the left; the others hold numbers.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str] = ()


def markdown(parts: Iterable[str | TextTable], *, title: str) -> str:
    """GitHub Markdown: paragraphs and tables in order, below a title."""
    lines = [f"# {escaped(title)}", ""]
    for part in parts:
        if isinstance(part, str):
            lines += [escaped(part), ""]
            continue
        lines += [f"## {escaped(part.title)}", "", "| " + " | ".join(part.header) + " |"]
        align = ("---" if name in part.words else "---:" for name in part.header)
        lines.append("|" + "|".join(align) + "|")
        for row in part.rows:
            cells = (escaped(cell).replace("|", "\\|") for cell in row)
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def terminal(parts: Iterable[str | TextTable], *, title: str) -> str:
    """Text as wide as the terminal (180 columns where there is none)."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    on_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else 180
    written = io.StringIO()
    console = Console(file=written, width=width, force_terminal=on_terminal)
    console.print(Text(title, style="bold"))
    for part in parts:
        if isinstance(part, str):
            console.print(Text(part))
            continue
        console.print(Text(f"\n{part.title}", style="bold"))
        grid = Grid(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for name in part.header:
            justify = "left" if name in part.words else "right"
            grid.add_column(Text(name), justify=justify, overflow="fold")  # type: ignore[arg-type]
        for row in part.rows:
            grid.add_row(*map(Text, row))
        console.print(grid)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def escaped(text: str) -> str:
    """Text that Markdown shows as it is: names come from study files."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return re.sub(r"[\\*`\[~]|(?<!\w)_|_(?!\w)", r"\\\g<0>", safe)
