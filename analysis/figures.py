"""All the figures of a study, written into a folder."""

from pathlib import Path

import pandas as pd

from analysis.curves import curves_figure, curves_frame, effects_figure, effects_frame, save
from analysis.frames import StudyView
from analysis.length_curves import COMPANIONS, lengths_figure, lengths_frame
from analysis.responses import responses_figure, responses_frame
from analysis.tables import Table


def save_figures(
    table: Table, frame: pd.DataFrame, study: StudyView, *, runs_dir: Path, folder: Path
) -> list[Path]:
    """Draw what there is to draw of a study into `folder`; the pictures (PNG) written.

    Args:
        table: its comparison table; without a level to compare, no effects are drawn.
        frame: the ledger's tidy frame.
        study: the plan.
        runs_dir: the folder of the runs, for their learning curves.
        folder: where `effects`, `learning_curves`, `lengths` and `responses` go, as in `save`.
    """
    pictures = []
    effects, curves = effects_frame(table), curves_frame(frame, study, runs_dir=runs_dir)
    if not effects.empty:
        pictures.append(save(effects_figure(table), effects, folder / "effects")[0])
    if not curves.empty:
        label = f"validation loss, {_validation_signature(frame, study)}"
        drawn = curves_figure(curves, title=f"{study.name}: learning curves", label=label)
        pictures.append(save(drawn, curves, folder / "learning_curves")[0])
    lengths = lengths_frame(frame, study)
    metrics = [study.metric, *COMPANIONS.get(study.metric, ())]
    if lengths["metric"].isin(metrics).any():
        pictures.append(
            save(lengths_figure(lengths, metrics=metrics), lengths, folder / "lengths")[0]
        )
    responses = responses_frame(frame, study)
    if not responses.empty:
        drawn = responses_figure(responses, study, signature=table.signature)
        pictures.append(save(drawn, responses, folder / "responses")[0])
    return pictures


def _validation_signature(frame: pd.DataFrame, study: StudyView) -> str:
    """What the validation losses of the study are in, as its runs say."""
    rows = frame[frame["run"].isin(study.expected["id"])]
    losses = rows[(rows["metric"] == "loss") & (rows["split"] == "validation")]
    return ", ".join(dict.fromkeys(losses["signature"])) or "of runs that all diverged"
