"""A study's workspace and report at W&B, built offline: panels, grouping, filters, words."""

import json
import math
from typing import Any

import pandas as pd
import pytest

from analysis.dashboards import as_json, study_report, study_workspace
from analysis.tables import study_table
from tests.analysis.ledgers import AXES, ledger_frame, one_factor_cells, view

CELLS = one_factor_cells(AXES, [1, 2, 3])
METRIC = "final/test/bleu"


def score(cell: pd.Series) -> float:
    return math.nan if cell["design.norm_position"] == "post" else 20.0 + cell["seed"]


FRAME = ledger_frame(CELLS, score)
STUDY = view(CELLS)
TABLE = study_table(FRAME, STUDY)


def panels_of(found: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The settings of all panels of a kind, wherever they stand."""
    if isinstance(found, list):
        return [panel for part in found for panel in panels_of(part, kind)]
    if not isinstance(found, dict):
        return []
    if found.get("viewType") == kind:
        return [found["config"]]
    return [panel for part in found.values() for panel in panels_of(part, kind)]


@pytest.fixture(scope="module")
def workspace() -> dict[str, Any]:
    return json.loads(as_json(study_workspace(STUDY, TABLE, entity="me", project="ablations")))


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    lengths = pd.concat(
        FRAME[FRAME["metric"] == "bleu"].assign(length=length) for length in (16, 8)
    )
    frame = pd.concat([FRAME, lengths])
    return json.loads(as_json(study_report(STUDY, TABLE, frame, description="Why not?")))


@pytest.mark.parametrize("name", ["workspace", "report"])
def test_every_axis_has_curves_and_bars_by_its_nested_path(
    name: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(name)
    paths = ["design.value.norm_position", "design.value.position", "dims.value.n_heads"]
    curves = panels_of(found, "Run History Line Plot")
    assert [panel["groupBy"] for panel in curves] == paths
    for panel in curves:
        assert (panel["xAxis"], panel["metrics"]) == ("step", ["validation/loss"])
        assert (panel["groupAgg"], panel["groupArea"]) == ("mean", "minmax")
    bars = panels_of(found, "Bar Chart")
    assert [panel["groupBy"] for panel in bars][:3] == paths
    assert all(panel["metrics"] == [f"summary_metrics.{METRIC}"] for panel in bars[:3])
    [columns] = (panel["columns"] for panel in panels_of(found, "Parallel Coordinates Plot"))
    wanted = [f"config:{path}" for path in paths]
    assert [c["accessor"] for c in columns] == [*wanted, f"summary:{METRIC}"]
    [importance] = panels_of(found, "Parameter Importance")
    assert importance["targetKey"] == METRIC


def test_only_the_runs_of_the_study_are_shown(
    workspace: dict[str, Any], report: dict[str, Any]
) -> None:
    [shown] = workspace["spec"]["section"]["runSets"]
    [rule] = shown["filters"]["filters"]
    assert rule["key"] == {"section": "config", "name": "run"}
    assert rule["op"] == "IN"
    assert rule["value"] == list(CELLS["id"])
    assert json.dumps(report).count(CELLS["id"][0]) >= 1


def test_divergence_is_counted_by_level(workspace: dict[str, Any], report: dict[str, Any]) -> None:
    [panel] = panels_of(workspace, "Markdown Panel")
    assert "| design.norm_position | post | 3 | 0 | 0 | 0 |" in panel["value"]
    blocks = [b["content"] for b in report["spec"]["blocks"] if b["type"] == "markdown-block"]
    assert "| design.norm_position | post | 3 | 0 | 0 | 0 |" in blocks[-1]


def test_the_report_holds_question_table_verdicts_and_lengths(report: dict[str, Any]) -> None:
    text = json.dumps(report, ensure_ascii=False)
    assert "Why not?" in text
    table = next(b["content"] for b in report["spec"]["blocks"] if b["type"] == "markdown-block")
    assert "| verdict |" in table
    assert TABLE.rows[-1].verdict_text in table
    by_length = [p["metrics"] for p in panels_of(report, "Bar Chart") if len(p["metrics"]) > 1]
    wanted = [f"summary_metrics.final/test@{length}/bleu" for length in (8, 16)]
    assert by_length == [wanted] * 3


def test_without_an_axis_the_seeds_are_told_apart() -> None:
    cells = one_factor_cells({}, [1, 2])
    study = view(cells, {})
    table = study_table(ledger_frame(cells, lambda cell: 20.0), study)
    found = json.loads(as_json(study_workspace(study, table, entity="me", project="p")))
    [panel] = panels_of(found, "Run History Line Plot")
    assert panel["groupBy"] == "seed.value"
