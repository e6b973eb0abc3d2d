"""What a run records of its heads, where it is asked to."""

import math
from pathlib import Path
from typing import Any

import pytest

from ablations.config import check
from ablations.heads import measure_heads
from ablations.ledger import load
from ablations.task_runs.registry import make_task_run
from ablations.tasks import HEAD_METRICS
from ablations.weights import load_module
from tests.ablations.test_tasks import config, run

ALONE = {"head_uniformity", "head_distance", "head_offset"}


def heads(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in result["metrics"]:
        if row["metric"] in HEAD_METRICS:
            assert row["signature"]
            assert row["length"] is None
            found.setdefault(row["split"], {})[row["metric"]] = row["value"]
    return found


@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("translation", {}),
        ("sequences", {}),
        ("sequences", {"variant__form": "decoder_only", "design__causal_mask": "leaky"}),
        ("language_modeling", {"optim__precision": "bf16"}),
    ],
)
def test_heads_are_measured_before_and_after(
    task: str, values: dict[str, Any], tmp_path: Path
) -> None:
    cell = config(task, budget__measure_heads=True, optim__lr=0.1, **values)
    found = heads(result := run(cell, tmp_path))
    assert found.keys() == {"validation", "untrained"}
    for split in found.values():
        assert split.keys() == {*HEAD_METRICS}
        assert all(math.isfinite(value) for value in split.values())
        assert 0 < split["head_uniformity"] < 1 + 1e-6
    assert found["validation"] != found["untrained"]
    assert load(tmp_path).problems == []
    module = load_module(tmp_path / result["id"] / "weights.pt")
    again = measure_heads(make_task_run(cell, cache_dir=tmp_path / ".cache"), cell, module)
    assert {f"head_{name}": value for name, value in again.items()} == pytest.approx(
        found["validation"]
    )


def test_what_is_called_untrained_is_what_training_began_with(tmp_path: Path) -> None:
    """At so low a rate no weight changes."""
    found = heads(run(config("sequences", budget__measure_heads=True, optim__lr=1e-30), tmp_path))
    assert found["validation"] == found["untrained"]


def test_measuring_heads_changes_nothing_else(tmp_path: Path) -> None:
    plain, measured = (
        run(config("sequences", budget__measure_heads=asked), tmp_path) for asked in (False, True)
    )
    assert heads(plain) == {}
    assert plain["id"] != measured["id"]
    assert plain["metrics"] == [
        row for row in measured["metrics"] if row["metric"] not in HEAD_METRICS
    ]


def test_one_head_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    cell = config("sequences", budget__measure_heads=True, dims__n_heads=1)
    assert {split: {*row} for split, row in heads(run(cell, tmp_path)).items()} == {
        "validation": ALONE,
        "untrained": ALONE,
    }


@pytest.mark.parametrize(
    ("task", "values", "says"),
    [
        ("forecasting", {}, "budget.measure_heads True does nothing here"),
        (
            "translation",
            {"dims__n_encoder_layers": 0, "dims__n_decoder_layers": 0},
            "needs a layer of self-attention, and there is none",
        ),
        (
            "sequences",
            {"variant__form": "decoder_only", "dims__n_decoder_layers": 0},
            "needs a layer of self-attention, and there is none",
        ),
    ],
)
def test_heads_that_are_not_there_are_not_asked(
    task: str, values: dict[str, Any], says: str
) -> None:
    check(config(task, **values))
    with pytest.raises(ValueError, match=says):
        check(config(task, budget__measure_heads=True, **values))
