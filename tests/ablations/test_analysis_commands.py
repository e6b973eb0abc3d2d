import json

import pandas
import pytest

from ablations.analysis_commands import recorded_plan
from ablations.config import nested
from ablations.plan import make_plan
from ablations.study import load_study
from ablations.tuning import tuned_plan
from analysis.claim_tables import Part
from analysis.verdicts import ClaimVerdict
from tests.ablations.test_claim_commands import RECORD
from tests.ablations.test_search import STUDY as TUNED
from tests.ablations.test_search import run_all

STUDY = """
description: norm and activation, together
design: factorial
base:
  task: sequences
  data.n_train: 50
  data.n_eval: 4
  dims.d_model: 16
axes:
  design.norm_position: [pre, post]
  design.activation: [relu, gelu]
seeds: [1, 2, 3, 4, 5, 6, 7, 8]
metric: token_accuracy
split: test@8
"""


@pytest.fixture
def factorial(tmp_path):
    """A finished factorial study: post-norm costs .2, and .2 more with gelu."""
    (tmp_path / "both.yaml").write_text(STUDY)
    for cell in make_plan(load_study(str(tmp_path / "both.yaml"))).cells:
        post, gelu = (name in cell.changes.values() for name in ("post", "gelu"))
        value = 0.8 - 0.2 * post - 0.2 * post * gelu + 0.001 * (cell.config.seed % 4) * (1 + gelu)
        record = {
            **RECORD,
            "schema": 1,
            "id": cell.id,
            "status": "finished",
            "config": nested(cell.config),
            "data_fingerprint": cell.config.task.value.fingerprint(cell.config.data),
            "metrics": [
                {
                    "metric": "token_accuracy",
                    "split": "test",
                    "length": 8,
                    "value": value,
                    "signature": "made up",
                }
            ],
            "seconds": {"train": 1.0, "evaluate": 1.0, "total": 2.0},
        }
        folder = tmp_path / "runs" / cell.id
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(record))


def test_effects_find_the_planted_interaction_and_draw_it(ablate, factorial, tmp_path):
    code, out, err = ablate("effects", "both.yaml", "--figures", "figures")
    assert (code, err) == (0, "")
    assert "design.norm_position=post  design.activation=gelu" in out
    assert "depends" in out
    assert "figure: figures/interactions.png" in out
    assert (tmp_path / "figures" / "interactions.csv").is_file()
    code, out, _ = ablate("effects", "both.yaml", "--format=markdown", "--output=docs/effects.md")
    assert (code, out) == (0, "")
    assert "## Interactions" in (tmp_path / "docs" / "effects.md").read_text()


def test_effects_of_a_study_of_single_factors_are_refused(ablate, tmp_path, factorial):
    single = STUDY.replace("design: factorial", "design: one_factor_at_a_time")
    (tmp_path / "both.yaml").write_text(single)
    code, out, err = ablate("effects", "both.yaml")
    assert (code, out) == (2, "")
    assert "nothing in it shows whether two choices interact" in err


def test_a_table_says_how_many_seeds_show_an_effect(ablate, factorial):
    code, out, _ = ablate("table", "both.yaml", "--effect", "0.01")
    assert code == 0
    assert "Seeds that would show |Δ| of 0.01" in " ".join(out.split())
    code, _, err = ablate("table", "both.yaml", "--effect", "0")
    assert code == 2
    assert "'0' is not a number other than 0" in err


def test_a_report_holds_the_study_and_the_claims(ablate, factorial, tmp_path, monkeypatch):
    checked = Part(what="check", verdict=ClaimVerdict.confirmed, found="it is", command="none")
    monkeypatch.setattr("ablations.claim_commands._checks", lambda ids: dict.fromkeys(ids, checked))
    code, out, err = ablate("report", "both.yaml", "--output", "page/report.html")
    assert (code, out, err) == (0, "report: page/report.html\n", "")
    page = (tmp_path / "page" / "report.html").read_text()
    assert "norm and activation, together" in page
    assert "Documents contradict each other" in page
    assert page.count("<svg") >= 2
    assert "Effects and interactions" in page


def test_a_split_that_cannot_be_compared_is_not_left_out_of_a_report(
    ablate, factorial, tmp_path, monkeypatch
):
    monkeypatch.setattr("ablations.claim_commands.claim_rows", lambda *_, **__: [])
    files = sorted((tmp_path / "runs").glob("*/result.json"))
    for file in files:
        record = json.loads(file.read_text())
        here = {**record["metrics"][0], "length": 16, "signature": f"of {file == files[0]}"}
        file.write_text(json.dumps({**record, "metrics": [*record["metrics"], here]}))
    code, _, err = ablate("report", "both.yaml")
    assert code == 2
    assert "signature differs within one column of both" in err


def test_runs_of_two_codes_are_compared_only_when_told_to(ablate, factorial, tmp_path, monkeypatch):
    monkeypatch.setattr("ablations.claim_commands.claim_rows", lambda *_, **__: [])
    files = sorted((tmp_path / "runs").glob("*/result.json"))
    for file in files:
        version = "aa" if file == files[0] else "bb"
        file.write_text(json.dumps({**json.loads(file.read_text()), "code_version": version}))
    for command in ("table", "effects", "report"):
        code, _, said = ablate(command, "both.yaml")
        assert code == 2
        assert "code differs within one column of both: " in said
        assert "(1 run, such as " in said
        assert "then type 'ablate sweep both" in said
        assert ablate(command, "both.yaml", "--mixed-code")[0] == 0
    _, out, _ = ablate("table", "both.yaml", "--mixed-code")
    assert "1 run by aa" in " ".join(out.split())


def test_a_report_without_results_is_refused(ablate, tmp_path):
    code, _, err = ablate("report", "demo")
    assert code == 2
    assert err == "ablate: no results of demo in runs; run it first\n"
    code, _, err = ablate("report")
    assert (code, err.count("\n")) == (2, 1)
    assert not (tmp_path / "report.html").exists()


def test_a_plan_from_records_is_that_of_the_tuned_arms(tmp_path):
    (tmp_path / "tuned.yaml").write_text(TUNED)
    study = load_study(str(tmp_path / "tuned.yaml"))
    run_all(study, tmp_path / "runs")
    known = tuned_plan(study, runs_dir=tmp_path / "runs")
    columns = {path: [value] for path, value in known.cells[0].values.items()}
    fingerprint = known.cells[0].config.task.value.fingerprint(known.cells[0].config.data)
    records = pandas.DataFrame({"run": ["any"], "data_fingerprint": [fingerprint], **columns})
    plan = recorded_plan(str(tmp_path / "tuned.yaml"), records, runs_dir=tmp_path / "runs")
    assert [cell.id for cell in plan.cells] == [cell.id for cell in known.cells]
    assert plan.tunings == known.tunings


def test_a_report_on_arms_that_are_being_tuned_says_so(ablate, tmp_path):
    (tmp_path / "tuned.yaml").write_text(TUNED)
    code, _, error = ablate("report", "tuned.yaml")
    assert code == 2
    assert "tuned: tuning, 0 of 16 trials done in 2 arms; 'ablate sweep tuned' goes on" in error


def test_a_plan_from_records_is_on_the_data_of_most_of_them(tmp_path):
    (tmp_path / "both.yaml").write_text(STUDY)
    study = load_study(str(tmp_path / "both.yaml"))
    config = make_plan(study, data_fingerprint=lambda data: "").cells[0]
    columns = {path: [value] * 3 for path, value in config.values.items()}
    fingerprints = ["few", "most", "most"]
    records = pandas.DataFrame(
        {"run": ["a", "b", "c"], "data_fingerprint": fingerprints, **columns}
    )
    plan = recorded_plan(str(tmp_path / "both.yaml"), records, runs_dir=tmp_path)
    known = make_plan(study, data_fingerprint=lambda data: "most")
    assert [cell.id for cell in plan.cells] == [cell.id for cell in known.cells]
