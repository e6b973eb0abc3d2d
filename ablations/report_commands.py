"""`ablate report`: one HTML page of all that a folder of runs says."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.analysis_commands import put, recorded_plan, study_view, tuning_progress
from ablations.claim import load_claims
from ablations.plan import Plan
from ablations.study import Arrangement
from ablations.study_files import shipped_studies

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from analysis.effects import Effects
    from analysis.frames import StudyView
    from analysis.report import Section
    from analysis.tables import Table


def report(arguments: Namespace) -> int:
    """Write the page of some studies, or of all that have a run."""
    from ablations.claim_commands import claim_rows
    from ablations.ledger import load
    from ablations.progress import shown
    from analysis.claim_tables import claims_parts
    from analysis.report import render_report

    frame = load(arguments.runs).frame
    names = arguments.studies or shipped_studies()
    runs = arguments.runs
    plans = [recorded_plan(name, frame, runs_dir=runs) for name in dict.fromkeys(names)]
    with_runs = [plan for plan in plans if frame["run"].isin([c.id for c in plan.cells]).any()]
    for plan in plans if arguments.studies else []:
        if plan.is_tuning:
            raise ValueError(f"{tuning_progress(plan)}; 'ablate sweep {plan.name}' goes on")
        if plan not in with_runs:
            raise ValueError(f"no results of {plan.name} in {arguments.runs}; run it first")
    if not with_runs:
        raise ValueError(f"no results of a shipped study in {arguments.runs}; name a study file")
    mixed = arguments.mixed_code
    rows = claim_rows(load_claims(), runs_dir=arguments.runs, mixed_code=mixed)
    told = shown(with_runs, "drawing")
    sections = [_section(plan, frame, arguments.runs, mixed_code=mixed) for plan in told]
    claims = tuple(claims_parts(rows))
    put(render_report(sections, claims=claims, title="Transformer ablations"), arguments.output)
    print(f"report: {arguments.output}")
    return 0


def _section(
    plan: Plan, frame: "pandas.DataFrame", runs_dir: Path, *, mixed_code: bool
) -> "Section":
    from analysis.effects import study_effects
    from analysis.report import study_section

    runs = f" --runs={runs_dir}" if runs_dir != Path("runs") else ""
    command = f"ablate sweep {plan.name}{runs}"
    view = study_view(plan, command=command, mixed_code=mixed_code)
    tables = list(_tables(plan, view, frame))
    effects = None
    if plan.study.arrangement is Arrangement.factorial and len(plan.study.axes) > 1:
        effects = study_effects(frame, view)
    return study_section(
        frame,
        view,
        description=plan.study.description,
        tables=tables,
        effects=effects,
        figures=_figures(tables[0], effects, view, frame, runs_dir),
    )


def _tables(plan: Plan, view: "StudyView", frame: "pandas.DataFrame") -> "Iterator[Table]":
    """The main table, then those of the other test splits that the runs have."""
    from dataclasses import replace

    from analysis.frames import named_splits
    from analysis.splits import compare_splits
    from analysis.tables import study_table

    yield study_table(*compare_splits(frame, view))
    known = frame[frame["run"].isin(view.expected["id"]) & (frame["metric"] == view.metric)]
    measured, first = set(named_splits(known)), plan.cells[0].config
    for split in first.task.value.test_splits(first.data):
        if split != view.split and split in measured:
            yield study_table(frame, replace(view, split=split))


def _figures(
    table: "Table",
    effects: "Effects | None",
    view: "StudyView",
    frame: "pandas.DataFrame",
    runs_dir: Path,
) -> "Iterator[tuple[str, Figure]]":
    from analysis.figures import study_figures
    from analysis.interaction_plots import interaction_figure

    for drawing in study_figures(table, frame, view, runs_dir=runs_dir):
        yield drawing.caption, drawing.figure
    if effects is not None and effects.means["mean"].notna().any():
        yield (
            "Means of every pair of choices; parallel lines do not interact.",
            interaction_figure(effects),
        )
