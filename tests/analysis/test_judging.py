"""What is said of the rows of a table: what they could have shown, and what decides nothing."""

import math

import pytest

from analysis import statistics
from analysis.statistics import Verdict
from analysis.tables import study_table
from tests.analysis.test_tables import HEADS, by_level


def test_what_a_row_could_show_is_at_the_level_that_holm_leaves_it(small_study):
    table = study_table(*small_study)
    levels = [row for row in table.rows if not row.is_baseline]
    critical = statistics.critical_p([row.p for row in levels])
    assert len(set(critical)) > 1
    for row, alpha in zip(levels, critical, strict=True):
        n = row.seeds_compared
        known = statistics.detectable_effect(row.difference.sd, n, alpha=alpha)
        assert row.detectable == pytest.approx(known)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_value_that_is_no_number_is_named_and_decides_nothing(small_study, number):
    frame, study = small_study
    run = study.expected.loc[study.expected["dims.n_heads"] == 8, "id"].iloc[0]
    frame.loc[(frame["run"] == run) & (frame["metric"] == "bleu"), "value"] = number
    table = study_table(frame, study)
    row = by_level(table)[HEADS]
    assert row.verdict is Verdict.not_distinguishable
    assert (row.seeds_compared, row.seeds_planned) == (7, 8)
    assert math.isfinite(row.mean.mean)
    assert f"Finished without a finite bleu on test: {run}." in table.notes
