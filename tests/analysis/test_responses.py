import pytest

from analysis import figures, responses
from analysis.tables import study_table
from tests.analysis.ledgers import (
    factorial_cells,
    ledger_frame,
    one_factor_cells,
    planted,
    view,
)

AXES = {
    "design.norm_position": ["pre", "post"],
    "dims.d_head": [64, 8, 16, 32],
    "dims.n_heads": [4, 8],
}


def score(cell):
    return cell["dims.d_head"] * cell["dims.n_heads"] + cell["seed"]


def test_every_number_has_its_mean_and_interval_by_line_and_panel():
    expected = factorial_cells(AXES, [1, 2, 3])
    found = responses.responses_frame(ledger_frame(expected, score), view(expected, AXES))
    assert len(found) == 2 * 4 * 2
    assert set(found["line"]) == {"pre", "post"}
    assert set(found["panel"]) == {"dims.n_heads 4", "dims.n_heads 8"}
    at_16 = found[(found["number"] == 16) & (found["panel"] == "dims.n_heads 8")]
    assert at_16["mean"].tolist() == pytest.approx([130.0, 130.0])
    # three seeds 129, 130, 131: t(.975, 2) = 4.3027 times 1 / sqrt(3)
    assert (at_16["high"] - at_16["mean"]).tolist() == pytest.approx([2.4841] * 2, abs=1e-4)
    assert set(found["n"]) == set(found["planned"]) == {3}


def test_a_diverged_seed_is_counted_and_not_averaged():
    expected = factorial_cells(AXES, [1, 2, 3])
    lost = expected["id"][(expected["dims.d_head"] == 8) & (expected["seed"] == 3)]

    def with_losses(cell):
        return float("nan") if cell["id"] in set(lost) else score(cell)

    found = responses.responses_frame(ledger_frame(expected, with_losses), view(expected, AXES))
    at_8 = found[found["number"] == 8]
    assert set(at_8["n"]) == {2}
    assert set(at_8["planned"]) == {3}
    assert at_8["mean"].tolist() == [8 * heads + 1.5 for heads in (4, 8, 4, 8)]


@pytest.mark.parametrize(
    "axes",
    [
        {"dims.d_head": [8, 16, 32]},
        {"design.norm_position": ["pre", "post"], "dims.n_heads": [4, 8]},
        {**AXES, "design.position": ["none", "rope"]},
    ],
    ids=["no line", "two numbers are no curve", "too many axes to draw"],
)
def test_what_cannot_be_drawn_so_is_empty(axes):
    expected = factorial_cells(axes, [1, 2])
    frame = ledger_frame(expected, planted({}))
    assert responses.responses_frame(frame, view(expected, axes)).empty


def test_one_factor_at_a_time_has_no_lines():
    expected = one_factor_cells(AXES, [1, 2])
    frame = ledger_frame(expected, planted({}))
    assert responses.responses_frame(frame, view(expected, AXES)).empty


def test_the_figure_shows_every_panel_line_and_number(tmp_path):
    expected = factorial_cells(AXES, [1, 2, 3])
    frame, study = ledger_frame(expected, score), view(expected, AXES)
    table = study_table(frame, study)
    pictures = figures.save_figures(table, frame, study, runs_dir=tmp_path, folder=tmp_path)
    assert [picture.name for picture in pictures] == ["effects.png", "responses.png"]
    drawn = responses.responses_frame(frame, study)
    figure = responses.responses_figure(drawn, study, signature="in words")
    assert [panel.get_title() for panel in figure.axes] == ["dims.n_heads 4", "dims.n_heads 8"]
    for panel in figure.axes:
        assert [line.get_label() for line in panel.get_lines()] == ["pre", "post"]
        assert panel.get_lines()[0].get_xdata().tolist() == [8, 16, 32, 64]
        assert [tick.get_text() for tick in panel.get_xticklabels()] == ["8", "16", "32", "64"]
    assert "in words" in figure.get_supylabel()
    assert (tmp_path / "responses.csv").read_text().startswith("number,line,panel,mean,low,high")
