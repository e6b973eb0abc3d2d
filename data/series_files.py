"""Tables of numbers over time: from the bytes of a CSV file to a series without a gap.

Nothing is repaired unless asked for: what cannot be read for certain is refused, with its line.
"""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from data.remote import read_content
from data.time_stamps import on_a_grid, parse_stamps

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

DELIMITERS = (",", ";", "\t")
MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Series:
    """Numbers at evenly spaced times.

    Attributes:
        stamps: local time of each row.
        values: in original units, `(rows, channels)`, float64.
        channels: names of the columns.
        report: how it was read, as plain values.
    """

    stamps: pd.DatetimeIndex
    values: np.ndarray
    channels: tuple[str, ...]
    report: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_columns(
        cls, stamps: pd.DatetimeIndex, columns: dict[str, np.ndarray], *, report: dict[str, Any]
    ) -> Series:
        """Columns `(rows,)` by name, side by side."""
        import numpy as np

        values = np.stack(list(columns.values()), axis=1)
        # Shared by all runs of a process: nobody may write into it.
        values.setflags(write=False)
        return cls(stamps, values, tuple(columns), report)

    def constant_channels(self, rows: range) -> list[str]:
        """Names of the channels that don't change in these rows."""
        values = self.values[rows.start : rows.stop]
        same = values.max(0) == values.min(0)
        return [name for name, constant in zip(self.channels, same, strict=True) if constant]

    def scale(self, rows: range) -> tuple[np.ndarray, np.ndarray]:
        """Mean and population standard deviation of each channel in these rows.

        Args:
            rows: those of the training split, so that nothing is learnt from later ones.

        Returns:
            Two arrays `(channels,)`.

        Raises:
            ValueError: A channel that doesn't change in these rows; its name.
        """
        if constant := self.constant_channels(rows):
            raise ValueError(
                f"column {', '.join(map(repr, constant))}: one value in all {len(rows)} training"
                " rows, so it has no scale; leave it out of the file"
            )
        values = self.values[rows.start : rows.stop]
        return values.mean(0), values.std(0)


@lru_cache(maxsize=4)
def read_series(
    location: str, digest: str, *, time_column: str, timezone: str, fill: bool
) -> Series:
    """Read a CSV file: a header, a column of ISO 8601 time stamps, and numbers.

    Columns are separated by commas, semicolons or tabs. Numbers have a decimal point, or, where
    columns aren't separated by commas, all a decimal comma.

    Args:
        location: a file, plain or `.gz`, or a URL.
        digest: `content_digest(location)`; part of the memory's key.
        time_column: its name.
        timezone: zone of the stamps; empty for none.
        fill: repeat the row before where stamps or values are missing, and leave out the later
            rows of a repeated stamp; else refuse.

    Raises:
        ValueError: Anything else; the file, line and column.
    """
    content = read_content(location)
    try:
        return _parse(content, time_column=time_column, timezone=timezone, fill=fill)
    except ValueError as error:
        raise ValueError(f"{location}: {error}") from error


def _parse(content: bytes, *, time_column: str, timezone: str, fill: bool) -> Series:
    table = _read_table(content, time_column=time_column)
    texts = table.columns.pop(time_column)
    stamps = parse_stamps(texts, table.lines, timezone=timezone)
    grid = on_a_grid(stamps, table.lines, timezone=timezone, fill=fill)
    decimal = _decimal(table)
    columns, n_filled = {}, 0
    for name in table.columns:
        values, filled = _numbers(table, name, decimal=decimal, fill=fill)
        columns[name] = values[grid.rows]
        n_filled += filled
    report = {
        "delimiter": table.delimiter,
        "decimal": decimal,
        "lines": len(texts),
        "step": grid.step,
        "repeated_stamps": grid.n_repeated,
        "filled_stamps": grid.n_filled,
        "filled_values": n_filled,
    }
    return Series.from_columns(grid.stamps, columns, report=report)


@dataclass(frozen=True)
class Table:
    """Text by column, and the line of the file that each row ends at."""

    columns: dict[str, list[str]]
    lines: list[int]
    delimiter: str


def _read_table(content: bytes, *, time_column: str) -> Table:
    try:
        text = content.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"line {line}: not UTF-8 (byte 0x{content[error.start]:02x}); convert the file to UTF-8"
        ) from error
    delimiter, header = _header(text, time_column=time_column)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, lines = [], []
    try:
        for row in reader:
            if len(row) != len(header):
                raise ValueError(
                    f"line {reader.line_num}: {len(row)} fields, but the header has {len(header)};"
                    " one field for each column, and no decimal commas between commas"
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: not CSV ({error})") from error
    if len(rows) < 2:
        raise ValueError("there are no rows below the header")
    columns = dict(zip(header, map(list, zip(*rows[1:], strict=True)), strict=True))
    return Table(columns, lines[1:], delimiter)


def _header(text: str, *, time_column: str) -> tuple[str, list[str]]:
    """The delimiter, and the names of the columns."""
    first = io.StringIO(text, newline=None).readline().rstrip("\n")
    headers = {mark: next(csv.reader([first], delimiter=mark), []) for mark in DELIMITERS}
    delimiter, names = max(headers.items(), key=lambda item: (time_column in item[1], len(item[1])))
    if time_column not in names:
        raise ValueError(
            f"no column {time_column!r} (data.time_column); there are"
            f" {', '.join(map(repr, names)) or 'none'}"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or "" in names:
        problem = f"column {twice[0]!r} comes twice" if twice else "a column has no name"
        raise ValueError(f"line 1: {problem}; give each column a name of its own")
    if len(names) == 1:
        raise ValueError(f"there is no column but {time_column!r}; nothing to forecast")
    return delimiter, names


def _decimal(table: Table) -> str:
    """The decimal mark of the file.

    Raises:
        ValueError: Both marks, or commas where commas separate the columns.
    """
    first: dict[str, tuple[int, str, str]] = {}
    for name, texts in table.columns.items():
        for mark in ",.":
            place = next((i for i, text in enumerate(texts) if mark in text), None)
            if place is not None:
                first.setdefault(mark, (table.lines[place], name, texts[place]))
    if "," not in first:
        return "."
    line, name, text = first[","]
    if table.delimiter == ",":
        raise ValueError(
            f"line {line}, column {name!r}: {text!r} has a comma, which also separates the"
            " columns; write a decimal point, or separate columns by semicolons"
        )
    if "." in first:
        other, other_name, other_text = first["."]
        raise ValueError(
            f"line {line}, column {name!r}: {text!r} has a comma, but line {other}, column"
            f" {other_name!r}: {other_text!r} a point; one decimal mark only, none for thousands"
        )
    return ","


def _numbers(table: Table, name: str, *, decimal: str, fill: bool) -> tuple[np.ndarray, int]:
    """A column as `(rows,)` float64, and how many missing values were filled."""
    import numpy as np

    texts = table.columns[name]
    values = np.array([_number(text, decimal=decimal) for text in texts])
    missing = np.isnan(values)
    fillable = fill and not missing[0]
    for place in np.flatnonzero(np.isinf(values) | (missing & (not fillable))):
        line, text = table.lines[place], texts[place]
        problem = "is not a finite number"
        if missing[place]:
            way = "fill it by hand" if fill else "data.fill=forward repeats the row before"
            problem = f"is no value; {way}"
        raise ValueError(f"line {line}, column {name!r}: {text!r} {problem}")
    last = np.maximum.accumulate(np.where(missing, 0, np.arange(len(texts))))
    return values[last], int(missing.sum())


def _number(text: str, *, decimal: str) -> float:
    """The number a text stands for; NaN for a missing one, infinity for anything else."""
    text = text.strip().replace(decimal, ".")
    if NUMBER.fullmatch(text):
        return float(text)
    return math.nan if text.lower() in MISSING else math.inf
