"""Paragraphs and tables of words in every form but CSV."""

from collections.abc import Iterable

from analysis import latex, pages, text_tables
from analysis.text_tables import TextTable

FORMATS = {
    "terminal": text_tables.terminal,
    "markdown": text_tables.markdown,
    "latex": latex.latex,
    "html": pages.render_page,
}


def write(parts: Iterable[str | TextTable], *, format: str, title: str) -> str:
    """Paragraphs and tables in order, below a title.

    Raises:
        ValueError: a format that isn't in `FORMATS`.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; legal: {', '.join([*FORMATS, 'csv'])}")
    return FORMATS[format](parts, title=title)
