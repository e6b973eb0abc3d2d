"""A study's dashboards at Weights & Biases, as code: a workspace and a report.

Both are built without a key and without a network, as models of the package `wandb-workspaces`;
`as_json` shows what would be saved. Runs are named there as the tracker logs them: the study is the
runs' group, an axis its nested path in the config, `final/SPLIT/METRIC` the metric of a table.
"""

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.frames import StudyView, named_splits
from analysis.metrics import metric_of
from analysis.text_tables import TextTable, markdown

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import Report
    from wandb_workspaces.workspaces import Workspace

    from analysis.tables import Table

STEP = "step"
CURVE = "validation/loss"
PICTURES = ("attention/encoder", "attention/decoder-self", "attention/decoder-cross")
MOST_RUNS = 1000  # that W&B draws in one panel
WIDTH, HEIGHT = 24, 9  # of a report's grid of panels


def study_workspace(study: StudyView, table: "Table", *, entity: str, project: str) -> "Workspace":
    """Curves by every axis, the metric by level, what matters, and what diverged.

    Args:
        study: the plan; its metric and split are shown.
        table: its comparison table.
        entity: whose project it is.
        project: where the runs are.
    """
    from wandb_workspaces import workspaces
    from wandb_workspaces.reports import v2 as reports

    parts: dict[str, list[Any]] = {
        "Learning curves": curve_panels(study),
        "By level": level_panels(study),
        "All choices": overview_panels(study),
        "Divergence": [reports.MarkdownPanel(markdown=divergence_table(table))],
        "Attention": [reports.MediaBrowser(title="Attention", media_keys=list(PICTURES))],
    }
    sections = [
        workspaces.Section(name=name, panels=panels, is_open=name != "Attention")
        for name, panels in parts.items()
    ]
    settings = workspaces.WorkspaceSettings(x_axis=STEP, max_runs=MOST_RUNS)
    shown = workspaces.RunsetSettings(filters=_filters(study))
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name=study.name,
        sections=sections,
        settings=settings,
        runset_settings=shown,
    )


def study_report(
    study: StudyView,
    table: "Table",
    frame: pd.DataFrame,
    *,
    description: str = "",
    entity: str = "",
    project: str = "",
) -> "Report":
    """The comparison table with its verdicts and notes, then the panels, over lengths too.

    Args:
        study: the plan.
        table: its comparison table.
        frame: the ledger's tidy frame, asked for the lengths that were measured.
        description: what the study asks.
        entity: whose project it is; empty to build it offline.
        project: where the runs are; empty to build it offline.
    """
    from wandb_workspaces.reports import v2 as reports

    from analysis.rendering import render

    runs = reports.Runset(entity=entity, project=project, name=study.name, filters=_filters(study))
    grids = {
        "Learning curves": curve_panels(study),
        "By level": level_panels(study),
        "By length": length_panels(study, frame),
        "All choices": overview_panels(study),
    }
    blocks: list[Any] = [reports.P(text=description)] if description else []
    blocks += [
        reports.H1(text="The table"),
        reports.MarkdownBlock(text=render(table, format="markdown")),
    ]
    for title, panels in grids.items():
        if panels:
            grid = reports.PanelGrid(runsets=[runs], panels=_laid_out(panels))
            blocks += [reports.H1(text=title), grid]
    blocks += [reports.H1(text="Divergence"), reports.MarkdownBlock(text=divergence_table(table))]
    return reports.Report(
        entity=entity, project=project, title=study.name, description=table.headline, blocks=blocks
    )


def curve_panels(study: StudyView) -> list[Any]:
    """For each axis the validation loss: mean and range over the runs of a level."""
    from wandb_workspaces.reports import v2 as reports

    return [
        reports.LinePlot(
            title=f"{CURVE} by {axis}",
            x=STEP,
            y=[CURVE],
            title_x="updates",
            groupby=reports.Config(axis),
            groupby_aggfunc="mean",
            groupby_rangefunc="minmax",
            max_runs_to_show=MOST_RUNS,
        )
        for axis in _axes(study)
    ]


def level_panels(study: StudyView) -> list[Any]:
    """For each axis the study's metric: mean and standard error over the runs of a level."""
    return [_bar(study, axis, f"final/{study.split}/{study.metric}") for axis in _axes(study)]


def length_panels(study: StudyView, frame: pd.DataFrame) -> list[Any]:
    """For each axis the metric at every length that was measured; none without lengths."""
    known = frame[frame["run"].isin(study.expected["id"]) & frame["length"].notna()]
    known = known[known["metric"] == study.metric].sort_values("length", kind="stable")
    places = [f"final/{split}/{study.metric}" for split in dict.fromkeys(named_splits(known))]
    return [_bar(study, axis, *places) for axis in _axes(study)] if places else []


def overview_panels(study: StudyView) -> list[Any]:
    """All axes at once, and how much each has to do with the metric."""
    from wandb_workspaces.reports import v2 as reports

    metric = reports.SummaryMetric(f"final/{study.split}/{study.metric}")
    columns = [
        reports.ParallelCoordinatesPlotColumn(metric=reports.Config(axis), display_name=axis)
        for axis in _axes(study)
    ]
    columns.append(reports.ParallelCoordinatesPlotColumn(metric=metric, display_name=study.metric))
    return [
        reports.ParallelCoordinatesPlot(title="All choices", columns=columns),
        reports.ParameterImportancePlot(with_respect_to=metric.name),
    ]


def divergence_table(table: "Table") -> str:
    """How many runs of each level diverged, as Markdown."""
    rows = [
        [row.axis or "baseline", "" if row.level is None else str(row.level)]
        + [str(count) for count in (row.diverged, row.finished, row.undefined, row.missing)]
        for row in table.rows
    ]
    header = ("axis", "level", "diverged", "finished", "undefined", "missing")
    text = TextTable(title="Runs by level", header=header, rows=rows, words=header[:2])
    return markdown([text], title=table.study)


def as_json(built: "Workspace | Report") -> str:
    """What would be saved, as JSON."""
    text = built._to_model().model_dump_json(by_alias=True, exclude_none=True)
    return json.dumps(json.loads(text), indent=1)


def _axes(study: StudyView) -> list[str]:
    """What varies; the seeds where that is all."""
    return list(study.axes) or ["seed"]


def _filters(study: StudyView) -> Any:
    """The study's own runs, also those that were first logged for another study or by a sweep."""
    from wandb_workspaces import expr

    return expr.And(expr.Config("run").isin(list(study.expected["id"])))


def _bar(study: StudyView, axis: str, *metrics: str) -> Any:
    from wandb_workspaces.reports import v2 as reports

    return reports.BarPlot(
        title=f"{study.metric} by {axis} ({metric_of(study.metric).direction})",
        metrics=[reports.SummaryMetric(metric) for metric in metrics],
        groupby=reports.Config(axis),
        groupby_aggfunc="mean",
        groupby_rangefunc="stderr",
        max_runs_to_show=MOST_RUNS,
    )


def _laid_out(panels: list[Any]) -> list[Any]:
    """The panels in two columns."""
    from wandb_workspaces.reports import v2 as reports

    width = WIDTH // 2
    for index, panel in enumerate(panels):
        line, column = divmod(index, 2)
        panel.layout = reports.Layout(x=column * width, y=line * HEIGHT, w=width, h=HEIGHT)
    return panels
