"""The rate at every step, and the first update, equal the written formulas."""

import math

import pytest
import torch

from lightning_modules.optimization import Optim, Optimizer, Precision, Schedule, configure

FORMULAS = {
    "inverse_sqrt": lambda update: min(update / 8, (8 / update) ** 0.5),
    "linear": lambda update: min(update / 8, (40 - (update - 1)) / 32, 1.0),
    "cosine": lambda update: min(
        update / 8, 0.5 + 0.5 * math.cos(math.pi * max(0, update - 9) / 32)
    ),
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


@pytest.mark.parametrize("schedule", [Schedule.linear, Schedule.cosine])
def test_a_decay_ends_at_zero(schedule: Schedule) -> None:
    assert schedule(8, 40)(40) == pytest.approx(0.0)


# The first update of a weight 2 with the gradient 3, at the rate .1 and the decay .5.
FIRST_UPDATE = {"adamw": 2 - 0.1 * 0.5 * 2 - 0.1, "adam": 2 - 0.1}


@pytest.mark.parametrize("optimizer", Optimizer)
def test_first_update(optimizer: Optimizer) -> None:
    """Adam's first step is the rate, whatever the gradient, which the decay may be part of."""
    linear = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(linear.weight, 2.0)
    optim = Optim(
        optimizer=optimizer, lr=0.1, weight_decay=0.5, warmup_steps=1, schedule=Schedule.constant
    )
    (3 * linear.weight).sum().backward()
    parts = configure(linear, optim, max_steps=5)
    parts["optimizer"].step()
    assert linear.weight.item() == pytest.approx(FIRST_UPDATE[optimizer.name])


@pytest.mark.parametrize("precision", Precision)
def test_precisions_are_names_that_lightning_knows(precision: Precision) -> None:
    assert precision() in {"32-true", "bf16-mixed", "16-mixed"}
