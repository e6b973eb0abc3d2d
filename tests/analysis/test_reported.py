"""Published numbers stand beside ours, with their source, and nothing is computed from them."""

from dataclasses import replace

import pytest

from analysis.rendering import render
from analysis.reported import Reported
from analysis.tables import study_table
from tests.analysis.ledgers import AXES, factorial_cells, ledger_frame, planted, view

PAPER = Reported(
    source="A <b>et al.</b> 2017, table 3",
    status="read",
    protocol="another language",
    metric="bleu",
    baseline=25.8,
    levels={"design.position": {"rope": 99.5}, "dims.n_heads": {8: 25.5}},
)
OTHER = replace(PAPER, metric="", source="B", status="quoted", measure="Ranks", baseline=None)


@pytest.fixture
def tables(small_study):
    frame, study = small_study
    sources = (PAPER, OTHER, replace(PAPER, metric="loss"), replace(PAPER, split="elsewhere"))
    told = view(study.expected, reported=sources)
    return study_table(frame, study), study_table(frame, told)


def test_each_row_has_its_number_with_its_source(tables):
    numbers = {row.level: row.reported for row in tables[1].rows}
    assert numbers == {
        None: ((1, 25.8),),
        "post": (),
        "none": (),
        "rope": ((1, 99.5), (2, 99.5)),
        8: ((1, 25.5), (2, 25.5)),
    }
    text = render(tables[1], format="markdown")
    assert "| 25.8 [1] | baseline |" in text
    assert "| 99.5 [1], 99.5 [2] | better |" in text
    assert r"\[1] A &lt;b>et al.&lt;/b> 2017, table 3: There: another language" in text
    assert r"\[2] B: Ranks. There: another language. (as others quote the source)" in text
    frame = tables[1].frame
    assert frame["reported"].tolist() == ["25.8", "", "", "99.5; 99.5", "25.5; 25.5"]
    assert frame["reported_by"][0] == PAPER.sentence


def test_nothing_is_computed_from_them(tables):
    without, told = tables
    columns = [name for name in told.frame if not name.startswith("reported")]
    assert told.frame[columns].equals(without.frame[columns])
    assert told.notes[: len(without.notes)] == without.notes
    assert "no mean, interval or test uses them" in told.notes[len(without.notes)]
    assert "reported" not in render(without, format="markdown")


def test_the_baseline_of_each_axis_has_its_own_in_a_factorial_study():
    axes = {name: AXES[name] for name in ("design.norm_position", "design.position")}
    expected = factorial_cells(axes, [1, 2])
    source = replace(PAPER, baseline=None, levels={"design.position": {"sinusoidal": 0.22}})
    study = view(expected, axes, reported=[source])
    rows = study_table(ledger_frame(expected, planted({})), study).rows
    assert [row.reported for row in rows if row.is_baseline] == [(), ((1, 0.22),)]


def test_a_finding_in_words_is_a_note(small_study):
    frame, study = small_study
    source = Reported(source="C", status="read", protocol="x", finding="Post-norm fails")
    notes = study_table(frame, view(study.expected, reported=[source])).notes
    assert notes[-1] == "[1] C: Post-norm fails. There: x. (read in the source)"
