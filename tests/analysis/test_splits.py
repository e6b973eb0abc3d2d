"""Splits of one run as levels of an axis."""

import numpy as np
import pandas as pd
import pytest

from analysis.frames import StudyView
from analysis.splits import compare_splits
from analysis.statistics import Verdict
from analysis.tables import study_table
from tests.analysis.ledgers import view

SEEDS = range(1, 9)
NOISE = np.random.default_rng(3).normal(0, 0.01, size=(8, 3))
MEANS = {"continuation.greedy": 0.6, "continuation.wild": 0.1, "continuation.text": 0.1}


def runs(axes: dict[str, list[str]] | None = None) -> tuple[pd.DataFrame, StudyView]:
    """Eight seeds, each measured on three splits at one length, and once elsewhere."""
    axis, levels = next(iter((axes or {"": [""]}).items()))
    cells, records = [], []
    for level in levels:
        for seed in SEEDS:
            run = f"{level}{seed}"
            config = {axis: level} if axis else {}
            cells.append({"id": run, "seed": seed, **config})
            facts = {"run": run, "seed": seed, "status": "finished", "undefined": None, **config}
            for column, (split, mean) in enumerate(MEANS.items()):
                value = mean + NOISE[seed - 1, column] + 0.05 * seed + 0.2 * (level == "none")
                measured = {"metric": "repetition_rate", "value": value, "signature": "4-grams"}
                records.append({**facts, **measured, "split": split, "length": 64})
            loss = {"metric": "loss", "value": 9.0, "signature": "nats", "length": None}
            records.append({**facts, **loss, "split": "validation"})
    study = view(
        pd.DataFrame(cells), axes or {}, metric="repetition_rate", split="continuation.*@64"
    )
    return pd.DataFrame(records), study


def test_splits_are_paired_within_their_runs():
    table = study_table(*compare_splits(*runs()))
    baseline, wild, text = table.rows
    assert baseline.is_baseline
    assert table.baseline == {"split": "continuation.greedy@64"}
    assert (wild.axis, wild.level) == ("split", "continuation.wild@64")
    expected = NOISE[:, 1] - NOISE[:, 0] - 0.5
    assert wild.difference.mean == pytest.approx(expected.mean())
    assert wild.difference.sd == pytest.approx(expected.std(ddof=1))
    assert {wild.verdict, text.verdict} == {Verdict.lower}
    assert wild.runs == wild.baseline_runs == tuple(map(str, SEEDS))
    assert (table.planned, table.headline) == (8, "complete: 8 runs")


def test_the_first_split_named_is_the_baseline():
    frame, study = runs()
    named = view(
        study.expected,
        {},
        metric=study.metric,
        split="continuation.text@64, continuation.*",
    )
    table = study_table(*compare_splits(frame, named))
    levels = [row.level for row in table.rows[1:]]
    assert table.baseline == {"split": "continuation.text@64"}
    assert levels == ["continuation.greedy@64", "continuation.wild@64"]


def test_other_axes_are_compared_at_the_same_split():
    table = study_table(*compare_splits(*runs({"design.position": ["rope", "none"]})))
    differences = {(row.axis, row.level): row.difference for row in table.rows if row.difference}
    assert differences["design.position", "none"].mean == pytest.approx(0.2)
    assert differences["design.position", "none"].n == 8
    assert differences["split", "continuation.wild@64"].mean == pytest.approx(-0.5, abs=0.02)


def test_what_stands_behind_a_row_is_asked_for_with_the_splits_that_it_is_of():
    table = study_table(*compare_splits(*runs()))
    assert table.trace_command == (
        "ablate reproduce six-axes --metric repetition_rate --split 'continuation.*@64' --row"
    )


def test_a_plain_split_changes_nothing():
    frame, study = runs()
    plain = view(study.expected, {}, metric=study.metric, split="continuation.text@64")
    assert compare_splits(frame, plain) == (frame, plain)


def test_what_is_missing_diverged_or_undefined_is_said():
    frame, study = runs()
    gone, diverged, undefined = "1", "2", "3"
    frame = frame[frame["run"] != gone]
    nothing = {"metric": None, "split": None, "value": None, "signature": None, "length": None}
    ended = frame[frame["run"] == diverged].iloc[[0]].assign(status="diverged", **nothing)
    frame = pd.concat([frame[frame["run"] != diverged], ended.astype(frame.dtypes)])
    there = (frame["run"] == undefined) & (frame["split"] == "continuation.wild")
    frame.loc[there, ["metric", "value", "signature"]] = [None, np.nan, None]
    frame.loc[there, "undefined"] = "too long"
    table = study_table(*compare_splits(frame, study))
    wild = table.rows[1]
    counts = (wild.finished, wild.diverged, wild.undefined, wild.missing)
    assert counts == (5, 1, 1, 1)
    assert wild.difference.n == 5
    assert table.missing == (gone,)
    assert table.headline.startswith("incomplete: 1 of 8 runs missing")
    assert table.rows[2].finished == 6


def test_a_name_that_no_split_has_is_refused_with_those_there_are():
    frame, study = runs()
    wrong = view(study.expected, {}, metric=study.metric, split="continuation.text@64,beam*")
    with pytest.raises(ValueError, match=r"named 'beam\*'; measured: continuation.greedy@64, "):
        compare_splits(frame, wrong)
