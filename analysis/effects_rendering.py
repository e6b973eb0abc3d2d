"""The effects of a factorial study as terminal text, Markdown and CSV."""

import math
from collections.abc import Iterator

import pandas as pd

from analysis.effects import Effects, dependencies
from analysis.formats import write
from analysis.metrics import metric_of
from analysis.row_words import p_value
from analysis.text_tables import TextTable


def render(effects: Effects, *, format: str) -> str:
    """The effects as text; `format` is "terminal", "markdown", "csv", "latex" or "html".

    Raises:
        ValueError: another format.
    """
    signature = f" ({effects.signature})" if effects.signature else ""
    title = f"{effects.study}: effects on {effects.metric}, {effects.split}{signature}"
    if format == "csv":
        return effects.frame.to_csv(index=False, lineterminator="\n")
    return write(effects_parts(effects), format=format, title=title)


def effects_parts(effects: Effects) -> Iterator[str | TextTable]:
    """What is shown of the effects, in order."""
    yield effects.headline
    rows = effects.contrasts
    yield _contrasts("Effects", rows[rows["kind"] == "main"], effects)
    yield _contrasts("Interactions", rows[rows["kind"] == "interaction"], effects)
    found = dependencies(effects)
    if found:
        yield "What depends on what (interactions whose interval leaves out 0):"
        yield from found
    else:
        yield "What depends on what: no interaction has an interval that leaves out 0."
    if len(effects.importance):
        yield _importance(effects.importance)
    yield from effects.notes


def _contrasts(title: str, rows: pd.DataFrame, effects: Effects) -> TextTable:
    digits = metric_of(effects.metric).decimals
    interaction = title == "Interactions"
    names = ["level", "and", "change of Δ [95%]"] if interaction else ["level", "Δ [95%]"]
    header = [*names, "p (Holm)", "n", "diverged", "detectable", "verdict"]
    words = ("level", "and", "verdict")
    lines = []
    for _, row in rows.iterrows():
        second = [f"{row['given']}={row['given_level']}"] if interaction else []
        lines.append(
            [
                f"{row['axis']}={row['level']}",
                *second,
                interval(row, digits),
                p_value(row["p_holm"]),
                f"{row['seeds_compared']} of {row['seeds_planned']}",
                str(row["diverged"]),
                "none" if math.isinf(row["detectable"]) else f"{row['detectable']:.{digits}f}",
                row["verdict"],
            ]
        )
    return TextTable(title=title, header=header, rows=lines, words=words)


def interval(row: pd.Series, digits: int) -> str:
    """A difference with its interval, signed; "-" where there is none."""
    if math.isnan(row["difference"]):
        return "-"
    ends = (
        ""
        if math.isnan(row["low"])
        else f" [{row['low']:+z.{digits}f}, {row['high']:+z.{digits}f}]"
    )
    return f"{row['difference']:+z.{digits}f}{ends}"


def _importance(rows: pd.DataFrame) -> TextTable:
    lines = [
        [
            row["term"],
            _number(row["df"], ".0f"),
            _number(row["f"], ".1f"),
            p_value(row["p_f"]),
            _number(row["share"], ".1%"),
            _number(row["fanova"], ".1%"),
        ]
        for _, row in rows.iterrows()
    ]
    return TextTable(
        title="Share of the spread: analysis of variance (type II, normal noise), and fANOVA",
        header=["term", "df", "F", "p (F)", "share", "fANOVA"],
        rows=lines,
        words=("term",),
    )


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else f"{value:{form}}"
