import math
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

from analysis import curves
from analysis.tables import study_table
from tests.analysis.ledgers import (
    AXES,
    factorial_cells,
    ledger_frame,
    one_factor_cells,
    planted,
    view,
)

ROOT = Path(__file__).parents[2]


def write_curves(runs_dir, expected, *, loss, last=lambda cell: 1000):
    for _, cell in expected.iterrows():
        steps = np.arange(100, last(cell) + 1, 100)
        folder = runs_dir / cell["id"]
        folder.mkdir(parents=True)
        validated = [loss(cell) if step % 200 == 0 else None for step in steps]
        frame = pd.DataFrame({"step": steps, "train_loss": 1.0, "validation_loss": validated})
        frame.to_csv(folder / "learning_curve.csv", index=False)


@pytest.fixture
def drawn(tmp_path, small_study):
    frame, study = small_study
    write_curves(tmp_path, study.expected, loss=lambda cell: 2.0 + cell["seed"])
    return frame, study, tmp_path


def test_a_curve_has_one_row_per_level_seed_and_validation(drawn):
    frame, study, runs_dir = drawn
    tidy = curves.curves_frame(frame, study, runs_dir=runs_dir)
    counts = tidy.groupby(["axis", "level"]).size()
    assert counts.to_dict() == {
        (axis, str(level)): 8 * 5 for axis, levels in AXES.items() for level in levels
    }
    assert (tidy["value"] == 2.0 + tidy["seed"]).all()
    assert set(tidy["step"]) == {200, 400, 600, 800, 1000}


def test_contexts_of_a_factorial_are_averaged_by_seed(tmp_path):
    axes = {"design.norm_position": ["pre", "post"], "dims.n_heads": [4, 8]}
    expected = factorial_cells(axes, [1, 2])
    write_curves(tmp_path, expected, loss=lambda cell: float(cell["dims.n_heads"]))
    frame = ledger_frame(expected, planted({}))
    tidy = curves.curves_frame(frame, view(expected, axes), runs_dir=tmp_path)
    norm = tidy[tidy["axis"] == "design.norm_position"]
    assert set(norm["value"]) == {6.0}
    assert len(norm) == 2 * 2 * 5


def test_runs_without_a_curve_are_left_out_and_others_stay(drawn):
    frame, study, runs_dir = drawn
    (runs_dir / study.expected["id"].iloc[8] / "learning_curve.csv").unlink()
    tidy = curves.curves_frame(frame, study, runs_dir=runs_dir)
    assert (tidy["level"] == "post").sum() == 7 * 5


def test_an_unknown_column_names_the_file_and_what_there_is(drawn):
    frame, study, runs_dir = drawn
    with pytest.raises(ValueError, match=r"curve\.csv: no column 'bleu'; there are step, train"):
        curves.curves_frame(frame, study, runs_dir=runs_dir, column="bleu")


def test_no_curve_at_all_is_refused(small_study, tmp_path):
    frame, study = small_study
    tidy = curves.curves_frame(frame, study, runs_dir=tmp_path)
    with pytest.raises(ValueError, match="six-axes: no learning curve is there yet"):
        curves.curves_figure(tidy, title="six-axes", label="loss")


def test_one_panel_per_axis_with_every_level(drawn):
    frame, study, runs_dir = drawn
    tidy = curves.curves_frame(frame, study, runs_dir=runs_dir)
    figure = curves.curves_figure(tidy, title="six-axes", label="validation loss")
    panels = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title() for panel in panels] == list(AXES)
    for panel, levels in zip(panels, AXES.values(), strict=True):
        shown = [text.get_text() for text in panel.get_legend().get_texts()]
        assert shown == [str(level) for level in levels]


def test_a_diverged_seed_is_drawn_alone_and_does_not_set_the_scale(tmp_path):
    expected = one_factor_cells({"design.norm_position": ["pre", "post"]}, [1, 2, 3])
    axes = {"design.norm_position": ["pre", "post"]}
    lost = "post"

    def diverges(cell):
        return cell["design.norm_position"] == lost and cell["seed"] == 1

    score = planted({})
    frame = ledger_frame(expected, lambda cell: math.nan if diverges(cell) else score(cell))
    write_curves(
        tmp_path,
        expected,
        loss=lambda cell: 500.0 if diverges(cell) else 2.0 + cell["seed"],
        last=lambda cell: 400 if diverges(cell) else 1000,
    )
    tidy = curves.curves_frame(frame, view(expected, axes), runs_dir=tmp_path)
    assert set(tidy.loc[tidy["status"] == "diverged", "step"]) == {200, 400}
    panel = curves.curves_figure(tidy, title="x", label="loss").axes[0]
    assert panel.get_ylim()[1] < 10
    crosses = [line for line in panel.lines if line.get_marker() == "x"]
    assert [cross.get_xdata().tolist() for cross in crosses] == [[400]]
    post = [line for line in panel.lines if len(line.get_xdata()) == 5][1]
    assert post.get_ydata().tolist() == [4.5] * 5  # seeds 2 and 3 only


def test_the_forest_plot_shows_every_level_at_its_difference(small_study):
    frame, study = small_study
    rope = study.expected.loc[study.expected["design.position"] == "rope", "id"]
    table = study_table(frame[~frame["run"].isin(rope)], study)
    axes = curves.effects_figure(table).axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [
        "design.norm_position (against pre)",
        "post",
        "design.position (against sinusoidal)",
        "none",
        "rope",
        "dims.n_heads (against 4)",
        "8",
    ]
    points = {
        line.get_ydata()[0]: line.get_xdata()[0]
        for line in axes.lines
        if line.get_marker() not in ("None", "")
    }
    rows = {row.level: row for row in table.rows if not row.is_baseline}
    assert points[1] == pytest.approx(rows["post"].difference.mean)
    assert points[3] == pytest.approx(rows["none"].difference.mean)
    assert 4 not in points
    assert [text.get_text() for text in axes.texts if text.get_text() == " missing"] == [" missing"]


def test_the_frame_of_the_forest_plot_has_the_level_rows_only(small_study):
    frame = curves.effects_frame(study_table(*small_study))
    assert list(frame["level"]) == ["post", "none", "rope", 8]


def test_a_figure_is_saved_as_png_svg_and_its_frame(small_study, tmp_path):
    table = study_table(*small_study)
    frame = curves.effects_frame(table)
    files = curves.save(curves.effects_figure(table), frame, tmp_path / "out" / "v1.2")
    assert [file.name for file in files] == ["v1.2.png", "v1.2.svg", "v1.2.csv"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert "design.norm_position (against pre)" in files[1].read_text(encoding="utf-8")
    assert len(pd.read_csv(files[2])) == 4
    again = curves.save(curves.effects_figure(table), frame, tmp_path / "again")
    assert again[1].read_bytes() == files[1].read_bytes()


def test_drawing_leaves_the_settings_of_matplotlib_alone(small_study):
    names = ["font.size", "axes.spines.top", "svg.fonttype", "text.parse_math"]
    before = [matplotlib.rcParams[name] for name in names]
    curves.effects_figure(study_table(*small_study))
    assert [matplotlib.rcParams[name] for name in names] == before


def test_a_table_imports_neither_torch_nor_anything_that_draws():
    code = (
        "import sys, analysis.tables, analysis.rendering, analysis.curves\n"
        "heavy = {'torch', 'matplotlib', 'seaborn', 'pytorch_lightning', 'wandb', 'optuna'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_small_effects_keep_their_place_beside_huge_ones():
    axes = {"design.position": ["sinusoidal", "none", "rope", "alibi"], "dims.n_heads": [4, 8]}
    expected = one_factor_cells(axes, [1, 2, 3, 4, 5])
    huge = {("design.position", "none"): 40.0}
    small = {("design.position", "rope"): 0.5, ("dims.n_heads", 8): -0.5}
    for effects, scale in ((small, "linear"), (huge | small, "symlog")):
        frame = ledger_frame(expected, planted(effects))
        panel = curves.effects_figure(study_table(frame, view(expected, axes))).axes[0]
        assert panel.get_xscale() == scale
        assert ("logarithmic" in panel.get_xlabel()) == (scale == "symlog")
    left, zero, right, far = panel.transData.transform([(x, 0) for x in (-0.5, 0, 0.5, 40)])[:, 0]
    assert right - zero == pytest.approx(zero - left)
    assert right - zero > (far - zero) / 8  # on a linear scale, a share of 1 / 80
