"""All the figures of a study, one after the other, or written into a folder."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.curves import curves_figure, curves_frame, effects_figure, effects_frame, save
from analysis.divergence_maps import divergence_figure, divergence_frame
from analysis.frames import StudyView
from analysis.length_curves import COMPANIONS, lengths_figure, lengths_frame
from analysis.responses import responses_figure, responses_frame
from analysis.splits import compare_splits
from analysis.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """A figure, the name of its files, what it shows, and the frame behind it."""

    name: str
    caption: str
    figure: "Figure"
    frame: pd.DataFrame


def study_figures(
    table: Table, frame: pd.DataFrame, study: StudyView, *, runs_dir: Path
) -> Iterator[Drawing]:
    """What there is to draw of a study.

    Args:
        table: its comparison table; without a level to compare, no effects are drawn.
        frame: the ledger's tidy frame.
        study: the plan.
        runs_dir: the folder of the runs, for their learning curves.
    """
    effects, curves = effects_frame(table), curves_frame(frame, study, runs_dir=runs_dir)
    if not effects.empty:
        yield Drawing("effects", "Paired differences.", effects_figure(table), effects)
    if not curves.empty:
        label = f"validation loss, {_validation_signature(frame, study)}"
        drawn = curves_figure(curves, title=f"{study.name}: learning curves", label=label)
        yield Drawing("learning_curves", "Learning curves.", drawn, curves)
    lengths = lengths_frame(frame, study)
    metrics = [study.metric, *COMPANIONS.get(study.metric, ())]
    if lengths.loc[lengths["metric"].isin(metrics), "length"].nunique() > 1:
        drawn = lengths_figure(lengths, metrics=metrics)
        yield Drawing("lengths", "By length, the trained one marked.", drawn, lengths)
    responses = responses_frame(*compare_splits(frame, study))
    if not responses.empty:
        drawn = responses_figure(responses, study, signature=table.signature)
        yield Drawing("responses", "Over the levels of an axis of numbers.", drawn, responses)
    divergence = divergence_frame(*compare_splits(frame, study))
    if not divergence.empty:
        drawn = divergence_figure(divergence, study)
        yield Drawing("divergence", "Where training diverged.", drawn, divergence)


def save_figures(
    table: Table, frame: pd.DataFrame, study: StudyView, *, runs_dir: Path, folder: Path
) -> list[Path]:
    """Draw what there is to draw of a study into `folder`; the pictures (PNG) written.

    Arguments as in `study_figures`; files are named as there, and written as in `save`.
    """
    return [
        save(drawing.figure, drawing.frame, folder / drawing.name)[0]
        for drawing in study_figures(table, frame, study, runs_dir=runs_dir)
    ]


def _validation_signature(frame: pd.DataFrame, study: StudyView) -> str:
    """What the validation losses of the study are in, as its runs say."""
    rows = frame[frame["run"].isin(study.expected["id"])]
    losses = rows[(rows["metric"] == "loss") & (rows["split"] == "validation")]
    return ", ".join(dict.fromkeys(losses["signature"])) or "of runs that all diverged"
