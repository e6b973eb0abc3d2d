"""Trainings come to what they came to."""

import json
from pathlib import Path

import pytest

from ablations.tasks import Task
from tests.golden.curves import CASES, KEPT, UPDATES, made

# Products in another order (another processor, another library) change the seventh digit: the
# training losses are kept to six, the others whole. A rate that is .1% off changes the fifth.
TOLERANCE = {"train_loss": 2e-5, "validation_loss": 5e-6}


@pytest.mark.parametrize("case", CASES)
def test_the_first_updates_are_those_kept(case: str, tmp_path: Path) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))[case]
    found = made(case, tmp_path)
    assert found.keys() == kept.keys()
    for name, losses in kept.items():
        assert found[name] == pytest.approx(losses, rel=TOLERANCE[name])


def test_every_task_has_a_curve() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    assert kept.keys() == CASES.keys()
    assert {task for task, _ in CASES.values()} == {task.name for task in Task}
    assert {len(curve["train_loss"]) for curve in kept.values()} == {UPDATES["budget__max_steps"]}
