"""The rows of a comparison table in words, as all its forms show them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analysis.metrics import metric_of
from analysis.rows import Row
from analysis.statistics import Estimate
from analysis.tables import Table
from analysis.text_tables import TextTable


@dataclass(frozen=True)
class Column:
    """A column that can be asked for.

    Attributes:
        heading: what stands above it.
        text: what stands in a row of it, the metric's decimals given.
        words: whether it holds words rather than numbers.
    """

    heading: str
    text: Callable[[Row, int], str]
    words: bool = False


def row_table(table: Table, *, columns: Sequence[str] = ()) -> TextTable:
    """The rows of a table in words, below what was measured.

    Args:
        table: what is shown.
        columns: names in `COLUMNS`, in order; `shown_columns` when empty.
    """
    chosen = [COLUMNS[name] for name in dict.fromkeys(columns or shown_columns(table))]
    decimals = metric_of(table.metric).decimals
    fixed = ["#", "axis", "level", f"{table.metric} [95%]", "Δ [95%]"]
    return TextTable(
        title=measured(table),
        header=[*fixed, *(column.heading for column in chosen)],
        rows=[
            [str(number), *_fixed(row, decimals), *(c.text(row, decimals) for c in chosen)]
            for number, row in enumerate(table.rows, start=1)
        ],
        words=("axis", "level", *(column.heading for column in chosen if column.words)),
    )


def shown_columns(table: Table) -> list[str]:
    """The columns of a table unless others are asked for."""
    left_out = {"flops", "memory"}
    left_out |= set() if table.missing else {"missing"}
    left_out |= set() if table.reported else {"reported"}
    return [name for name in COLUMNS if name not in left_out]


def measured(table: Table) -> str:
    """What is shown, measured where and how."""
    signature = f" ({table.signature})" if table.signature else ""
    return f"{table.metric} on {table.split}{signature}"


def runs_heading(table: Table) -> str:
    """What stands above `run_lines`: how to find out more, too."""
    return f"What made row N, and whether it comes out again: {table.trace_command} N"


def run_lines(table: Table, *, most: int | None = None) -> list[str]:
    """The runs behind each row, missing ones named as such; at most so many of a row."""
    absent, lines = set(table.missing), []
    for number, row in enumerate(table.rows, start=1):
        runs = [f"{run} (missing)" if run in absent else run for run in row.runs[:most]]
        left = len(row.runs) - len(runs)
        more = [f"and {left} more in the CSV"] if left else []
        lines.append(f"row {number}: {', '.join(runs + more)}")
    return lines


def p_value(p: float) -> str:
    """A p-value in three decimals; "-" where there is none."""
    if math.isnan(p):
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _fixed(row: Row, decimals: int) -> list[str]:
    return [
        row.axis or "baseline",
        "" if row.is_baseline and not row.axis else str(row.level),
        _estimate(row.mean, decimals, sign="") if row.mean.n else _absent(row),
        "" if row.difference is None else _estimate(row.difference, decimals, sign="+"),
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


def _detectable(row: Row, decimals: int) -> str:
    if row.is_baseline:
        return ""
    return "none" if math.isinf(row.detectable) else f"{row.detectable:.{decimals}f}"


def _reported(row: Row, _: int) -> str:
    return ", ".join(f"{number:g} [{place}]" for place, number in row.reported)


def _range(numbers: tuple[int, int] | None) -> str:
    if numbers is None:
        return "-"
    fewest, most = numbers
    return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else f"{value:{form}}"


COLUMNS = {
    "p": Column("p (Holm)", lambda row, _: "" if row.is_baseline else p_value(row.p_adjusted)),
    "n": Column("n", lambda row, _: f"{row.seeds_compared} of {row.seeds_planned}"),
    "diverged": Column(
        "diverged", lambda row, _: f"{row.diverged} of {row.finished + row.diverged}"
    ),
    "missing": Column("missing", lambda row, _: str(row.missing)),
    "detectable": Column("detectable", _detectable),
    "parameters": Column("parameters", lambda row, _: _range(row.parameters)),
    "flops": Column("FLOPs a target", lambda row, _: _range(row.flops_per_target)),
    "seconds": Column("seconds", lambda row, _: _number(row.seconds, ",.0f")),
    "memory": Column("peak MiB", lambda row, _: _number(row.peak_memory / 2**20, ",.0f")),
    "reported": Column("reported", _reported),
    "verdict": Column("verdict", lambda row, _: row.verdict_text, words=True),
}
"""The columns that can be asked for, in the order in which they are shown."""
