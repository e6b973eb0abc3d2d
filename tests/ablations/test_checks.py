import csv
import io
import re

import pytest
import torch
from torch import nn

from ablations.checks import register, sequence_checks
from ablations.checks.block_checks import additivity_violation
from ablations.checks.check import Check, Outcome, Verdict, run_checks, select
from ablations.checks.register import CHECKS
from ablations.checks.report import markdown
from ablations.checks.subject import Subject
from ablations.config import RunConfig
from tests.ablations.tiny import tiny

TINY = ["--dims.d_model=16", "--dims.n_heads=2", "--dims.d_ff=32"]
TINY += ["--dims.n_encoder_layers=1", "--dims.n_decoder_layers=1"]
REFUTED = {"A2", "A5", "N7", "F1", "F4"}
UNTRAINED = {"A10"}


def crash(subject: Subject) -> Outcome:
    raise RuntimeError("no such luck")


CRASH = Check(id="X1", statement="nothing", expected="nothing", measure=crash)


def verdicts(ids: str, **changes) -> dict[str, str]:
    found = run_checks(tiny(**changes), select(CHECKS, ids))
    return {result.check.id: result.outcome.verdict.value for result in found}


def reason(identifier: str, **changes) -> str:
    (result,) = run_checks(tiny(**changes), select(CHECKS, identifier))
    assert result.outcome.verdict is Verdict.not_applicable, result
    return result.outcome.measured


def test_all_checks_of_a_tiny_model(ablate):
    """Every claim has a verdict; one that is refuted is a result, not a failure."""
    code, out, err = ablate("check", *TINY, "--format=csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, err) == (0, "")
    assert [row["id"] for row in rows] == [
        *("A1", "A2", "A4", "A5", "A6", "A7", "A10", "A11", "A12", "A13"),
        *("P1", "P2", "P3", "P5", "P11", "N7", "F1", "F3", "F4", "G3", "S1"),
    ]
    found = {row["id"]: row["verdict"] for row in rows}
    assert {name for name, verdict in found.items() if verdict == "refuted"} == REFUTED
    assert {name for name, verdict in found.items() if verdict == "not applicable"} == UNTRAINED
    assert all(row["statement"] and row["expected"] and row["measured"] for row in rows)
    said = {row["id"]: row["measured"] for row in rows}
    assert "fp32: 0 of 3968 outputs differ" in said["A5"]
    assert "no probability is left over" in said["A5"]
    assert "the wrong way round" in said["P3"]
    assert re.search(r"LSTM (\d+, ){3}\d+ \(8 more a token\), .* (\d+), \2, \2, \2\.", said["S1"])
    assert "354,823,168 parameters, the same when built" in said["F4"]


def test_a_check_that_crashes_stops_no_other(ablate, monkeypatch):
    (rotation,) = select(CHECKS, "P2")
    monkeypatch.setattr(register, "CHECKS", (CRASH, rotation))
    code, out, err = ablate("check", *TINY)
    assert code == 1
    assert re.search(r"^ *X1 +could not run .*RuntimeError: no such luck", out, re.MULTILINE)
    assert re.search(r"^ *P2 +confirmed", out, re.MULTILINE)
    assert out.endswith("2 checks: 1 confirmed, 1 could not run\n")
    assert err.startswith("X1 could not run:\nTraceback")


def test_some_checks_alone(ablate):
    code, out, _ = ablate("check", *TINY, "--only", "P3, A11")
    assert code == 0
    assert re.findall(r"^ *([A-Z]\d+) ", out, re.MULTILINE) == ["A11", "P3"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "A5,A99"], "--only: 'A99' is no check; there are A1, A2, "),
        (["--dims.n_heads=3"], "dims.n_heads 3 must divide dims.d_model 16"),
        (["--design.position=ropy"], "'ropy' is no level"),
        (["--format=latex"], "invalid choice: 'latex'"),
    ],
)
def test_wrong_input_is_one_line(ablate, words, message):
    code, out, err = ablate("check", *TINY, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.parametrize(
    ("identifier", "changes", "message"),
    [
        ("P11", {"design__position": "none"}, "design.position=none"),
        (
            "A7",
            {"design__mask": "post_softmax"},
            "design.mask=post_softmax breaks causality by its nature",
        ),
        ("G3", {"design__causal_mask": "leaky"}, "design.causal_mask=leaky breaks cached decoding"),
        ("F3", {"design__feed_forward": "none"}, "design.feed_forward=none"),
        ("S1", {"dims__n_encoder_layers": 0}, "dims.n_encoder_layers=0: no encoder"),
        ("P1", {"dims__n_encoder_layers": 0}, "dims.n_encoder_layers=0: no encoder"),
        ("A7", {"dims__n_decoder_layers": 0}, "dims.n_decoder_layers=0: no decoder"),
        ("A11", {"dims__d_head": 8}, "dims.d_head=8"),
        ("A13", {"dims__n_heads": 1}, "dims.n_heads=1"),
        ("P3", {"dims__d_model": 2}, "dims.d_model=2"),
        ("A10", {}, "this model is untrained"),
    ],
)
def test_what_a_check_has_no_meaning_for_is_said(identifier, changes, message):
    assert message in reason(identifier, **changes)


def test_a_design_that_leaks_is_put_right_for_the_check_of_the_mask():
    assert verdicts("A7", design__causal_mask="leaky") == {"A7": "confirmed"}


def test_position_schemes_that_the_sizes_forbid_are_left_out():
    """An odd head can't be rotated."""
    config = tiny(dims__d_model=15, dims__n_heads=3)
    (result,) = run_checks(config, select(CHECKS, "A7"))
    assert result.outcome.verdict is Verdict.confirmed, result.outcome.measured
    assert "(6 position schemes" in result.outcome.measured


def test_a_table_of_positions_that_is_short_is_checked_too():
    assert set(verdicts("P5,P11,G3", design__position="learned", dims__max_length=5).values()) == {
        "confirmed"
    }


def test_a_figure_depends_on_the_model_that_is_asked_for():
    """A gain of 3 multiplies the scores by 9, their variance by 81."""
    raw = []
    for gain in (1, 3):
        (result,) = run_checks(tiny(dims__init_gain=gain), select(CHECKS, "A1"))
        raw.append(float(re.findall(r": ([\d.]+) before", result.outcome.measured)[0]))
    assert raw[1] / raw[0] == pytest.approx(81, rel=0.02)


def test_a_layer_that_goes_step_by_step_is_no_transformer(monkeypatch):
    """A block in place of the LSTM, or the LSTM in place of the block, refutes S1."""
    lstm, block = sequence_checks.layers(Subject(tiny()))
    for pair in ((block, block), (lstm, lstm)):
        monkeypatch.setattr(sequence_checks, "layers", lambda subject, pair=pair: pair)
        assert verdicts("S1") == {"S1": "refuted"}


def test_additivity_of_known_functions():
    x, y = torch.randn(2, 5, dtype=torch.double)
    linear = nn.Linear(5, 3).double()
    assert additivity_violation(linear, x, y) < 1e-12
    expected = (2 * x * y).norm() / ((x + y) ** 2).norm()
    assert additivity_violation(torch.square, x, y) == pytest.approx(expected.item())


def test_markdown_keeps_five_cells_a_row():
    check = Check(id="X2", statement="|f(x)| *is* small", expected="a_b", measure=crash)
    (result,) = run_checks(RunConfig(), [check])
    lines = markdown([result]).splitlines()
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in lines[:3]] == [6, 6, 6]
    assert r"\|f(x)\| \*is\* small" in lines[2]
    assert lines[-1] == "1 checks: 1 could not run"


def test_ids_are_unique():
    assert len({check.id for check in CHECKS}) == len(CHECKS)
