"""Tables of words as LaTeX for the booktabs package.

Words from runs, configs and study files stand for themselves: none can end a row, start a comment
or run a command.
"""

import re
from collections.abc import Iterable

from analysis.text_tables import TextTable

NEEDS = r"% Needs \usepackage{booktabs} and \usepackage[T1]{fontenc}."
_WRITTEN = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "Δ": r"$\Delta$",
    "→": r"$\rightarrow$",
    **{character: f"\\{character}" for character in "&%$#_"},
}
_SPECIAL = re.compile("|".join(map(re.escape, _WRITTEN)))


def latex(parts: Iterable[str | TextTable], *, title: str) -> str:
    """Paragraphs and tables in order, each table in an environment of its own.

    The title is a comment: captions say what each table shows.
    """
    head = f"% {' '.join(title.split())}\n{NEEDS}"
    return "\n\n".join([head, *map(_part, parts)]) + "\n"


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is; `--` stays two hyphens."""
    words = " ".join(text.split())
    return _SPECIAL.sub(lambda found: _WRITTEN[found[0]], words).replace("--", "-{}-")


def _part(part: str | TextTable) -> str:
    if isinstance(part, str):
        return rf"\par\noindent {escaped(part)}"
    numbers = [name not in part.words for name in part.header]
    lines = [_row([escaped(name) for name in part.header]), r"\midrule"]
    for row in part.rows:
        cells = zip(row, numbers, strict=True)
        lines.append(_row([_number(cell) if number else escaped(cell) for cell, number in cells]))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\small",
            rf"\caption{{{escaped(part.title)}}}",
            rf"\begin{{tabular}}{{{''.join('r' if number else 'l' for number in numbers)}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _row(cells: list[str]) -> str:
    """A row; its first cell can't be taken for an argument of the row before."""
    return f"{{}}{' & '.join(cells)} \\\\"


def _number(cell: str) -> str:
    """A cell of numbers, its minus signs as long as its plus signs."""
    return re.sub(r"(?<![\w.)-])-(?=[\d.])", "$-$", escaped(cell))
