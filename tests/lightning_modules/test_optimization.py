"""The rate at every step equals the written formula."""

import pytest
import torch

from lightning_modules.optimization import Optim, Precision, Schedule, configure

FORMULAS = {
    "inverse_sqrt": lambda update: min(update / 8, (8 / update) ** 0.5),
    "linear": lambda update: min(update / 8, (40 - (update - 1)) / 32, 1.0),
    "constant": lambda update: min(update / 8, 1.0),
}


@pytest.mark.parametrize("schedule", Schedule)
def test_rate_trace(schedule: Schedule) -> None:
    parameter = torch.nn.Linear(1, 1)
    optim = Optim(lr=2.0, warmup_steps=8, schedule=schedule)
    parts = configure(parameter, optim, max_steps=40)
    assert parts["lr_scheduler"]["interval"] == "step"
    optimizer, scheduler = parts["optimizer"], parts["lr_scheduler"]["scheduler"]
    for update in range(1, 41):
        expected = 2.0 * FORMULAS[schedule.name](update)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected), update
        optimizer.step()
        scheduler.step()


def test_linear_ends_at_zero() -> None:
    assert Schedule.linear(8, 40)(40) == 0.0


@pytest.mark.parametrize("precision", Precision)
def test_precisions_are_names_that_lightning_knows(precision: Precision) -> None:
    assert precision() in {"32-true", "bf16-mixed", "16-mixed"}
