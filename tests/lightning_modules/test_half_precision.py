"""Every level trains in bf16 as it does in single precision, but for rounding."""

from collections.abc import Callable

import pytest
import torch

from data.batches import Batch
from lightning_modules.axis import Axis
from lightning_modules.design import Design
from lightning_modules.optimization import Optim, Precision, configure
from lightning_modules.supervised import SupervisedModule
from tests.lightning_modules.designs import ALL_LEVELS, alone
from tests.lightning_modules.test_meta import forecasting, language_modeling, translation

Task = Callable[[Design], tuple[SupervisedModule, Batch]]
# The other tasks are made of the same blocks.
CASES = [(translation, *choice) for choice in ALL_LEVELS]
CASES += [(task, *ALL_LEVELS[0]) for task in (language_modeling, forecasting)]


def losses(task: Task, design: Design, precision: Precision) -> list[float]:
    """Mean losses of three updates and after them."""
    torch.manual_seed(1)
    module, batch = task(design)
    module.summed = lambda total, n_targets: {"loss": total / n_targets}
    optim = Optim(precision=precision, lr=1e-3, warmup_steps=1)
    optimizer = configure(module, optim, max_steps=4)
    found = []
    for _ in range(4):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision is Precision.bf16):
            loss = module.training_step(batch, 0)["loss"]
        loss.backward()
        optimizer["optimizer"].step()
        optimizer["optimizer"].zero_grad()
        found.append(float(loss.detach()))
    return found


@pytest.mark.parametrize(("task", "axis", "level"), CASES)
def test_half_the_bits_learn_the_same(task: Task, axis: str, level: Axis) -> None:
    exact, rounded = (losses(task, alone(axis, level), one) for one in list(Precision)[:2])
    assert exact[-1] < exact[0]
    assert rounded == pytest.approx(exact, rel=0.03, abs=0.03)
