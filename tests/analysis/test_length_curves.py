"""What was measured by length, as a frame and as a figure."""

import math
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.collections import LineCollection

from analysis.figures import study_figures
from analysis.frames import StudyView
from analysis.length_curves import COLUMNS, lengths_figure, lengths_frame
from analysis.tables import study_table
from tests.analysis.ledgers import factorial_cells, one_factor_cells, view

POSITIONS = {"design.position": ["sinusoidal", "rope", "learned"]}
TASKS = {**POSITIONS, "data.task": ["copy", "reverse"]}
LENGTHS = (8, 16, 64)
WHY = (
    "design.position learned is not defined beyond dims.max_length 18 tokens, and 16 items take 34"
)


def value(cell: pd.Series, length: float) -> float:
    """A number for each run and length, so that every mean can be told from every other."""
    level = POSITIONS["design.position"].index(cell["design.position"])
    reversed_too = 0.05 * (cell.get("data.task") == "reverse")
    return round(0.9 - 0.1 * level - length / 100 + 0.01 * cell["seed"] - reversed_too, 6)


def ledger(expected: pd.DataFrame, *, split: str = "test", task: str = "sequences") -> pd.DataFrame:
    rows = []
    for _, cell in expected.iterrows():
        run = {"run": cell["id"], "status": "finished", "task": task, "data.train_max": 8}
        run |= {"split": split, "undefined": None}
        nothing = {"metric": None, "value": None, "signature": None}
        for length in LENGTHS:
            if cell["design.position"] == "learned" and length > 8:
                rows.append(run | nothing | {"length": length, "undefined": WHY})
                continue
            for metric in ("exact_match", "token_accuracy"):
                measured = value(cell, length) / (1 if metric == "exact_match" else 2)
                kind = {"metric": metric, "value": measured, "signature": "free-running"}
                rows.append(run | kind | {"length": length})
        loss = {"metric": "loss", "value": 1.0, "signature": "nats", "split": "validation"}
        rows.append(run | loss | {"length": math.nan})
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


def study(axes: dict = TASKS, **changes: object) -> StudyView:
    cells = factorial_cells if len(axes) > 1 else one_factor_cells
    known = {"name": "lengths", "metric": "exact_match", "split": "test@8"} | changes
    expected = known.pop("expected", None)
    return view(cells(axes, [1, 2, 3]) if expected is None else expected, axes, **known)


def line(lengths: pd.DataFrame, **wanted: object) -> pd.DataFrame:
    """The rows with these values, by length."""
    for column, wanted_value in wanted.items():
        lengths = lengths[lengths[column] == wanted_value]
    return lengths.set_index("length")


def test_each_level_has_a_line_in_each_panel_of_the_data() -> None:
    plan = study()
    lengths = lengths_frame(ledger(plan.expected), plan)
    assert tuple(lengths.columns) == COLUMNS
    assert set(lengths["axis"]) == {"design.position"}
    assert list(dict.fromkeys(lengths["panel"])) == ["task copy", "task reverse"]
    assert set(lengths["metric"]) == {"exact_match", "token_accuracy"}
    reverse = line(lengths, panel="task reverse", level="rope", metric="exact_match")
    assert reverse.index.tolist() == [8.0, 16.0, 64.0]
    assert reverse["mean"].tolist() == pytest.approx([0.69, 0.61, 0.13])
    reach = 4.302652729911275 * 0.01 / math.sqrt(3)
    assert (reverse["high"] - reverse["mean"]).tolist() == pytest.approx([reach] * 3)
    assert (reverse["mean"] - reverse["low"]).tolist() == pytest.approx([reach] * 3)
    assert set(reverse["n"]) == set(reverse["planned"]) == {3}
    assert set(lengths["trained"]) == {8}
    assert set(lengths["counts"]) == {"items"}


def test_an_undefined_length_stays_in_the_frame_and_says_why() -> None:
    plan = study()
    lengths = lengths_frame(ledger(plan.expected), plan)
    learned = line(lengths, panel="task copy", level="learned", metric="token_accuracy")
    assert learned["undefined"].tolist() == ["", WHY, WHY]
    assert learned["n"].tolist() == [3, 0, 0]
    assert learned["mean"].notna().tolist() == [True, False, False]
    assert set(lengths.loc[lengths["level"] != "learned", "undefined"]) == {""}


def test_one_axis_alone_is_one_panel() -> None:
    plan = study(POSITIONS)
    lengths = lengths_frame(ledger(plan.expected), plan)
    assert set(lengths["panel"]) == {"design.position"}
    found = line(lengths, level="sinusoidal", metric="exact_match")
    assert found["mean"].tolist() == pytest.approx([0.84, 0.76, 0.28])


def test_in_a_one_factor_study_the_other_axes_stay_at_the_baseline() -> None:
    axes = {**POSITIONS, "design.norm_position": ["pre", "post"]}
    plan = study(axes, expected=one_factor_cells(axes, [1, 2, 3]))
    frame = ledger(plan.expected)
    post = plan.expected.loc[plan.expected["design.norm_position"] == "post", "id"]
    frame.loc[frame["run"].isin(post), "value"] = 100.0
    lengths = lengths_frame(frame, plan)
    assert list(dict.fromkeys(lengths["panel"])) == ["design.position", "design.norm_position"]
    baseline = lengths[lengths["level"].isin(["sinusoidal", "pre"])]
    assert baseline["mean"].max() < 1
    assert set(line(lengths, level="post")["mean"]) == {100.0}


def test_contexts_of_a_seed_are_averaged_and_seeds_counted() -> None:
    axes = {**POSITIONS, "design.norm_position": ["pre", "post"]}
    plan = study(axes)
    lengths = lengths_frame(ledger(plan.expected), plan)
    assert set(lengths["planned"]) == {3}
    found = line(lengths, level="rope", metric="exact_match")
    assert found["n"].tolist() == [3, 3, 3]
    assert found["mean"].tolist() == pytest.approx([0.74, 0.66, 0.18])


def test_a_study_of_the_data_alone_has_its_lines() -> None:
    axes = {"data.task": ["copy", "reverse"]}
    expected = one_factor_cells(axes, [1, 2]).assign(**{"design.position": "rope"})
    lengths = lengths_frame(ledger(expected), study(axes, expected=expected))
    assert set(lengths["level"]) == {"copy", "reverse"}


def test_runs_that_are_missing_or_diverged_have_no_part() -> None:
    plan = study(POSITIONS)
    frame = ledger(plan.expected)
    first, second, third = plan.expected.loc[plan.expected["design.position"] == "rope", "id"]
    frame.loc[frame["run"] == second, "status"] = "diverged"
    lengths = lengths_frame(frame[frame["run"] != first], plan)
    rope = line(lengths, level="rope", metric="exact_match")
    assert set(rope["n"]) == {1}
    kept = plan.expected.set_index("id").loc[third]
    assert rope.loc[16.0, "mean"] == pytest.approx(value(kept, 16))
    assert rope["low"].isna().all()


def test_strangers_and_unmeasured_studies_have_no_rows() -> None:
    plan = study(POSITIONS)
    frame = ledger(plan.expected)
    assert lengths_frame(frame.assign(run="ffffffffffff"), plan).empty
    whole = frame[frame["length"].isna()]
    assert tuple(lengths_frame(whole, plan).columns) == COLUMNS
    assert lengths_frame(whole, plan).empty


def test_without_a_trained_limit_there_is_no_mark() -> None:
    plan = study(POSITIONS)
    frame = ledger(plan.expected, task="translation").assign(**{"data.train_max_source_words": 0})
    lengths = lengths_frame(frame, plan)
    assert lengths["trained"].isna().all()
    (panel, _) = lengths_figure(lengths, metrics=["exact_match", "token_accuracy"]).axes
    assert not [drawn for drawn in panel.lines if drawn.get_linestyle() == "--"]


def test_the_figure_draws_what_the_frame_holds() -> None:
    plan = study()
    lengths = lengths_frame(ledger(plan.expected), plan)
    figure = lengths_figure(lengths, metrics=["exact_match", "token_accuracy"])
    assert [panel.get_title() for panel in figure.axes] == ["task copy", "task reverse"] * 2
    first = figure.axes[0]
    drawn = {drawn.get_label(): drawn for drawn in first.lines}
    copied = line(lengths, panel="task copy", level="rope", metric="exact_match")
    assert drawn["rope"].get_xdata().tolist() == [8, 16, 64]
    assert drawn["rope"].get_ydata().tolist() == copied["mean"].tolist()
    assert first.get_xscale() == "log"
    (mark,) = (item for item in first.lines if item.get_linestyle() == "--")
    assert set(mark.get_xdata()) == {8}
    (crosses,) = (c for c in first.collections if len(c.get_offsets()) == 2)
    assert [x for x, _ in crosses.get_offsets().tolist()] == [16, 64]
    assert [text.get_text() for text in first.texts] == ["learned"]
    assert "n = 3 seeds" in figure.get_suptitle()


@pytest.mark.parametrize("undefined", [True, False])
def test_the_legend_names_the_marks_that_are_there(undefined: bool) -> None:
    plan = study()
    lengths = lengths_frame(ledger(plan.expected), plan)
    if not undefined:
        lengths = lengths[lengths["undefined"] == ""]
    (legend,) = lengths_figure(lengths, metrics=["exact_match"]).legends
    words = [text.get_text() for text in legend.get_texts()]
    assert "longest in training" in words
    assert ("undefined" in words) is undefined


def test_a_lone_length_shows_its_interval_as_a_bar() -> None:
    plan = study()
    lengths = lengths_frame(ledger(plan.expected), plan)
    first = lengths_figure(lengths, metrics=["exact_match"]).axes[0]
    learned = line(lengths, panel="task copy", level="learned", metric="exact_match").loc[8.0]
    bars = [c for c in first.collections if isinstance(c, LineCollection)]
    (segment,) = (segment for bar in bars for segment in bar.get_segments() if len(segment))
    assert segment.tolist() == [[8, learned["low"]], [8, learned["high"]]]


def test_lengths_too_near_to_be_named_keep_their_mark() -> None:
    plan = study(POSITIONS)
    frame = ledger(plan.expected)
    frame["length"] = frame["length"].replace(16, 8.2)
    (panel,) = lengths_figure(lengths_frame(frame, plan), metrics=["exact_match"]).axes
    assert panel.get_xticks().tolist() == [8, 8.2, 64]
    assert [text.get_text() for text in panel.get_xticklabels()] == ["8", "", "64"]


def test_several_studies_are_small_multiples_told_apart_by_name() -> None:
    first, second = study(POSITIONS), study(POSITIONS, name="others")
    frames = [
        lengths_frame(ledger(first.expected), first),
        lengths_frame(ledger(second.expected, split="test_2017"), second),
    ]
    figure = lengths_figure(pd.concat(frames), metrics=["exact_match"])
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["lengths\ntest\ndesign.position", "others\ntest_2017\ndesign.position"]


def test_sentences_in_a_bucket_stand_under_its_length() -> None:
    plan = study(POSITIONS)
    frame = ledger(plan.expected)
    counted = frame[frame["metric"] == "exact_match"].assign(metric="sentences", value=120.0)
    lengths = lengths_frame(pd.concat([frame, counted]), plan)
    (panel,) = lengths_figure(lengths, metrics=["exact_match"]).axes
    assert [text.get_text() for text in panel.get_xticklabels()] == [
        "8\n(120)",
        "16\n(120)",
        "64\n(120)",
    ]


def test_what_was_not_measured_cannot_be_drawn() -> None:
    plan = study(POSITIONS)
    with pytest.raises(ValueError, match="no bleu was measured by length; run the study first"):
        lengths_figure(lengths_frame(ledger(plan.expected), plan), metrics=["bleu"])


@pytest.mark.parametrize(("lengths", "drawn"), [((8,), False), ((8, 16), True)])
def test_one_length_is_no_curve(lengths: tuple[int, ...], drawn: bool, tmp_path: Path) -> None:
    plan = study()
    frame = ledger(plan.expected)
    frame = frame[frame["length"].isna() | frame["length"].isin(lengths)]
    table = study_table(frame, plan)
    names = [one.name for one in study_figures(table, frame, plan, runs_dir=tmp_path)]
    assert ("lengths" in names) is drawn


def test_lines_that_were_trained_to_unlike_lengths_are_each_marked_with_their_own() -> None:
    axes = {"data.train_max": [8, 16]}
    plan = study(axes)
    frame = ledger(plan.expected.assign(**{"design.position": "rope"}))
    trained = plan.expected.set_index("id")["data.train_max"]
    lengths = lengths_frame(frame.assign(**{"data.train_max": frame["run"].map(trained)}), plan)
    assert lengths.groupby("level")["trained"].unique().map(list).to_dict() == {
        "8": [8],
        "16": [16],
    }
    panel = lengths_figure(lengths, metrics=["exact_match"]).axes[0]
    dashed = [drawn.get_xdata()[0] for drawn in panel.lines if drawn.get_linestyle() == "--"]
    assert dashed == [8, 16]
