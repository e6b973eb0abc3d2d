"""Runs of different code are not compared unless that is asked for."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.tables import study_table
from tests.analysis.ledgers import AXES, ledger_frame, one_factor_cells, planted, view

CELLS = one_factor_cells(AXES, [1, 2])
NOTE = "Code is not, or may not be, the same: "


def frame_of(versions: list[str | None], commits: list[str | None] | None = None) -> pd.DataFrame:
    """The records of the study, the code of its runs one after the other, the last one repeated."""
    frame = ledger_frame(CELLS, planted({}))
    places = dict(zip(CELLS["id"], range(len(CELLS)), strict=True))
    for column, values in (("code_version", versions), ("git_commit", commits or [None])):
        chosen = [values[min(places[run], len(values) - 1)] for run in frame["run"]]
        frame[column] = pd.Series(chosen, index=frame.index, dtype=object)
    return frame


def notes(frame: pd.DataFrame, **changes: bool) -> list[str]:
    return [note for note in study_table(frame, view(CELLS, **changes)).notes if NOTE in note]


def test_one_code_needs_no_word() -> None:
    assert notes(frame_of(["aa"], ["1" * 40, "2" * 40])) == []
    assert notes(ledger_frame(CELLS, planted({}))) == []


def test_two_codes_are_refused_with_both_and_the_command() -> None:
    frame = frame_of(["aa", "bb"], ["1" * 40, "2" * 40])
    with pytest.raises(ValueError, match="code differs") as error:
        study_table(frame, view(CELLS))
    assert str(error.value) == (
        "code differs within one column of six-axes: aa (commit 111111111111) (1 run, such as "
        "000000000000) and bb (commit 222222222222) (9 runs, such as 000000000001); remove the "
        "runs of one, then type 'ablate sweep six-axes', or compare them as they are with "
        "--mixed-code"
    )


def test_two_codes_are_mixed_when_told_to_and_named() -> None:
    assert notes(frame_of(["aa", "bb"]), mixed_code=True) == [f"{NOTE}1 run by aa; 9 runs by bb."]


def test_runs_of_unknown_code_mix_with_a_note() -> None:
    frame = frame_of([None, None, "aa"], ["1" * 40, "1" * 40, "2" * 40])
    told = "8 runs by aa (commit 222222222222); 2 runs of unknown code (commit 111111111111)."
    assert notes(frame) == [f"{NOTE}{told}"]
    earlier = notes(frame_of([None], ["1" * 40, "2" * 40]))
    assert earlier == [f"{NOTE}10 runs of unknown code (commit 111111111111, 222222222222)."]
    assert notes(frame_of([None], ["1" * 40])) == []


def test_files_that_differed_from_their_commit_are_told_from_those_that_did_not() -> None:
    found = notes(frame_of([None], ["1" * 40, "1" * 40 + "-dirty"]))
    assert found == [f"{NOTE}10 runs of unknown code (commit 111111111111, 111111111111-dirty)."]


def test_a_diverged_run_of_other_code_is_named(tmp_path: Path) -> None:
    frame = frame_of(["bb", "aa"])
    first = frame["run"] == CELLS["id"][0]
    frame = frame[~first | (frame["metric"] == "bleu")]
    gone = {"status": "diverged", "metric": None, "split": None, "value": None}
    frame.loc[first[frame.index], list(gone)] = list(gone.values())
    assert notes(frame) == [f"{NOTE}1 run by bb; 9 runs by aa."]
