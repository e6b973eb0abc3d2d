"""One page for everything: verdicts, tables, effects, figures, cost and provenance.

The page is one HTML file that asks for nothing from outside: figures are inline SVG, the sorting of
its tables a few lines of script. Words from runs, configs and study files are escaped.
"""

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from analysis import curves
from analysis.effects import Effects
from analysis.effects_rendering import effects_parts
from analysis.frames import StudyView
from analysis.pages import render_template
from analysis.row_words import row_table
from analysis.tables import Table
from analysis.text_tables import TextTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTS = (
    *("status", "parameters", "steps", "seconds_total", "hardware", "git_commit"),
    *("data_fingerprint", "tokenizer_hash", "started", "ended"),
)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure of the page: its caption, and its drawing as SVG."""

    caption: str
    svg: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """A study on the page.

    Attributes:
        name: the study.
        description: what it asks.
        command: what makes its runs.
        headline: how complete it is.
        parts: the paragraphs and tables that are shown.
        folded: more of them, behind a click: other splits, cost and provenance.
        pictures: its figures.
    """

    name: str
    description: str
    command: str
    headline: str
    parts: Sequence[str | TextTable]
    folded: Sequence[tuple[str, Sequence[str | TextTable]]] = ()
    pictures: Sequence[Picture] = ()


def study_section(
    frame: pd.DataFrame,
    study: StudyView,
    *,
    description: str,
    tables: Sequence[Table],
    effects: Effects | None,
    figures: "Iterable[tuple[str, Figure]]",
) -> Section:
    """The section of one study.

    Args:
        frame: the ledger's tidy frame, for cost and provenance.
        study: the plan.
        description: what the study asks.
        tables: its comparison tables, the main one first.
        effects: of a factorial study.
        figures: captions and figures.
    """
    first, *others = tables
    records = frame[frame["run"].isin(study.expected["id"])].drop_duplicates("run")
    folded: list[tuple[str, Sequence[str | TextTable]]] = []
    if effects is not None:
        folded.append(("Effects and interactions", tuple(effects_parts(effects))))
    folded += [(f"{table.metric} on {table.split}", table_parts(table)) for table in others]
    folded.append(("Cost", (cost_table(records),)))
    folded.append(("Provenance", (provenance_table(records, study),)))
    return Section(
        name=study.name,
        description=description,
        command=study.fill_command,
        headline=first.headline,
        parts=table_parts(first),
        folded=folded,
        pictures=[
            Picture(caption=caption, svg=inline_svg(figure, prefix=f"{study.name}-{index}"))
            for index, (caption, figure) in enumerate(figures)
        ],
    )


def table_parts(table: Table) -> tuple[str | TextTable, ...]:
    """A comparison table and its notes."""
    return row_table(table), *table.notes


def cost_table(records: pd.DataFrame) -> TextTable:
    """What the runs cost, by hardware: `records` has one row per run."""
    lines = []
    for hardware, runs in records.groupby("hardware", dropna=False, sort=True):
        hours = runs["seconds_total"].sum() / 3600
        lines.append(
            [
                str(hardware),
                f"{len(runs)}",
                f"{(runs['status'] == 'diverged').sum()}",
                f"{hours:.2f}",
                f"{runs['seconds_total'].median():,.0f}",
                f"{int(runs['steps'].sum()):,}",
            ]
        )
    header = ("hardware", "runs", "diverged", "hours of runs", "median seconds", "updates")
    return TextTable(title="Cost", header=header, rows=lines, words=("hardware",))


def provenance_table(records: pd.DataFrame, study: StudyView) -> TextTable:
    """A row for each planned run with what it was made of; a run without a record is missing."""
    facts = records.set_index("run")
    shown = [name for name in FACTS if name in facts.columns]
    lines = []
    for _, cell in study.expected.drop_duplicates("id").iterrows():
        known = facts.loc[cell["id"]] if cell["id"] in facts.index else None
        texts = ["missing" if name == "status" else "" for name in shown]
        if known is not None:
            texts = [_text(known[name]) for name in shown]
        levels = " ".join(f"{axis}={cell[axis]}" for axis in study.axes)
        lines.append([cell["id"], str(cell["seed"]), levels, *texts])
    header = ("run", "seed", "levels", *shown)
    numbers = {"seed", "parameters", "steps", "seconds_total"}
    words = [name for name in header if name not in numbers]
    return TextTable(title="Runs", header=header, rows=lines, words=words)


def inline_svg(figure: "Figure", *, prefix: str) -> str:
    """A figure as SVG to stand inside HTML; its ids begin with `prefix`, so that none is double."""
    import matplotlib

    written = io.StringIO()
    with matplotlib.rc_context(curves.SETTINGS):
        figure.savefig(written, format="svg", metadata={"Date": None})
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)


def render_report(
    sections: Sequence[Section], *, claims: Sequence[str | TextTable] = (), title: str
) -> str:
    """The page.

    Args:
        sections: the studies, in order.
        claims: paragraphs and tables on the claims; they lead.
        title: of the page.
    """
    return render_template("report.html.j2", sections=sections, claims=claims, title=title)


def _text(value: object) -> str:
    if pd.isna(value):  # type: ignore[call-overload]
        return ""
    return f"{value:,.0f}" if isinstance(value, float) else str(value)
