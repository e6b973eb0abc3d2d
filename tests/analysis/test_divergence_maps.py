import numpy as np
import pytest

from analysis import figures
from analysis.divergence_maps import column_axis, divergence_figure, divergence_frame
from analysis.tables import study_table
from tests.analysis.ledgers import factorial_cells, ledger_frame, one_factor_cells, view

AXES = {
    "design.norm_position": ["pre", "post"],
    "optim.lr": [0.001, 0.01, 0.1],
    "optim.warmup_steps": [50, 0],
}


def score(cell):
    """Post-norm diverges at the highest rate, without warm-up at two of three seeds there."""
    hot = cell["design.norm_position"] == "post" and cell["optim.lr"] == 0.1
    lost = hot and (cell["optim.warmup_steps"] == 50 or cell["seed"] < 3)
    return float("nan") if lost else 30.0 + cell["seed"]


def found_of(axes=AXES, cells=factorial_cells, score=score, drop=0):
    expected = cells(axes, [1, 2, 3])
    frame = ledger_frame(expected, score)
    return divergence_frame(frame.iloc[drop:], view(expected, axes))


def test_diverged_runs_are_counted_by_combination():
    found = found_of().set_index(["row", "column"])
    assert len(found) == 2 * 3 * 2
    assert found["n"].eq(3).all()
    assert found.loc[("norm_position post, warmup_steps 50", "0.1"), "diverged"] == 3
    assert found.loc[("norm_position post, warmup_steps 0", "0.1"), "diverged"] == 2
    assert found["diverged"].sum() == 5


def test_missing_runs_are_not_among_those_that_ended():
    found = found_of(drop=2)  # the two metrics of the first run
    assert found["n"].tolist() == [2] + [3] * 11


@pytest.mark.parametrize(
    ("cells", "lost"),
    [(factorial_cells, False), (one_factor_cells, True)],
    ids=["nothing diverged", "one factor at a time"],
)
def test_what_there_is_no_map_of(cells, lost):
    assert found_of(
        cells=cells, score=lambda cell: float("nan") if lost and cell["seed"] == 1 else 30.0
    ).empty


def test_the_figure_shades_shares_and_writes_counts():
    expected = factorial_cells(AXES, [1, 2, 3])
    study = view(expected, AXES)
    figure = divergence_figure(divergence_frame(ledger_frame(expected, score), study), study)
    panel = figure.axes[0]
    assert column_axis(study) == panel.get_xlabel() == "optim.lr"
    shades = np.asarray(panel.images[0].get_array())
    assert shades.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, pytest.approx(2 / 3)]]
    words = {(t.get_position(), t.get_text(), t.get_color()) for t in panel.texts}
    assert ((2, 3), "2 of 3", "white") in words
    assert ((0, 0), "0 of 3", "black") in words


def test_it_is_drawn_with_the_other_figures(tmp_path):
    expected = factorial_cells(AXES, [1, 2, 3])
    study = view(expected, AXES)
    frame = ledger_frame(expected, score)
    table = study_table(frame, study)
    drawn = figures.study_figures(table, frame, study, runs_dir=tmp_path)
    assert "divergence" in [one.name for one in drawn]
