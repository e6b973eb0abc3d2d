"""Optimisers and learning rate schedules."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from lightning_modules.axis import Axis, Level

if TYPE_CHECKING:
    from pytorch_lightning.utilities.types import OptimizerLRSchedulerConfig

# From warm-up and length of the training to the factor on the peak rate at a step.
Factor = Callable[[int], float]


def _warmed_up(step: int, warmup_steps: int) -> float:
    return min(1.0, (step + 1) / max(1, warmup_steps))


def _inverse_sqrt(warmup_steps: int, max_steps: int) -> Factor:
    start = max(1, warmup_steps)
    return lambda step: min((step + 1) / start, (start / (step + 1)) ** 0.5)


def _linear(warmup_steps: int, max_steps: int) -> Factor:
    decay = max(1, max_steps - warmup_steps)
    return lambda step: min(_warmed_up(step, warmup_steps), max(0.0, (max_steps - step) / decay))


def _cosine(warmup_steps: int, max_steps: int) -> Factor:
    decay = max(1, max_steps - warmup_steps)

    def factor(step: int) -> float:
        done = min(1.0, max(0.0, (step - warmup_steps) / decay))
        return min(_warmed_up(step, warmup_steps), 0.5 * (1 + math.cos(math.pi * done)))

    return factor


def _constant(warmup_steps: int, max_steps: int) -> Factor:
    return lambda step: _warmed_up(step, warmup_steps)


class Schedule(Axis):
    """The rate over the steps: `level(warmup_steps, max_steps) -> factor(step)`, steps from 0.

    The first update (step 0) has the rate `lr / warmup_steps`, update `warmup_steps` has `lr`.
    """

    inverse_sqrt = Level(
        _inverse_sqrt,
        "linear warm-up, then falls with the square root of the step",
        "Vaswani et al. 2017, eq. 3",
    )
    linear = Level(
        _linear, "linear warm-up, then linear to zero at the last step", "Devlin et al. 2019"
    )
    cosine = Level(
        _cosine,
        "linear warm-up, then half a cosine to zero at the last step",
        "Loshchilov & Hutter 2017, eq. 5",
    )
    constant = Level(_constant, "linear warm-up, then constant", "Xiong et al. 2020")


class Optimizer(Axis):
    """The rule of the updates: `level(parameters, lr=, betas=, eps=, weight_decay=, fused=)`."""

    adamw = Level(
        torch.optim.AdamW,
        "Adam, with weights shrunk apart from the gradient",
        "Loshchilov & Hutter 2019, algorithm 2",
    )
    adam = Level(
        torch.optim.Adam,
        "weight decay is part of the gradient; without any, the same as adamw",
        "Kingma & Ba 2015, algorithm 1",
    )


class Precision(Axis):
    """The number format of the training, as Lightning calls it: `level() -> str`."""

    fp32 = Level(lambda: "32-true", "single precision", "IEEE 754 binary32")
    bf16 = Level(lambda: "bf16-mixed", "half the bits, the range of fp32", "Kalamkar et al. 2019")
    fp16 = Level(
        lambda: "16-mixed", "half the bits, largest value 65504", "Micikevicius et al. 2018"
    )


BELOW_ONE = 1 - 1e-9
RANGES: dict[str, tuple[float, float]] = {
    "lr": (1e-30, math.inf),
    "warmup_steps": (0, math.inf),
    "weight_decay": (0, math.inf),
    "beta2": (0, BELOW_ONE),
    "clip_norm": (0, math.inf),
    "label_smoothing": (0, BELOW_ONE),
    "accumulate": (1, math.inf),
    "average_last": (0, 1),
}


@dataclass(frozen=True, kw_only=True)
class Optim:
    """How the weights are trained: Adam with a warmed-up schedule.

    Attributes:
        optimizer: the rule of the updates.
        lr: peak learning rate.
        warmup_steps: updates of linear warm-up.
        schedule: the rate after the warm-up.
        weight_decay: factor on the weights, by the rule of the optimizer; 0 is plain Adam.
        beta2: decay of Adam's second moment.
        clip_norm: the gradient's global norm is clipped to this; 0 is off.
        label_smoothing: share of the target spread over the vocabulary.
        accumulate: micro-batches of one update.
        average_last: share of the training, at its end, whose weights are averaged; 0 is off.
        precision: number format of the training.
    """

    optimizer: Optimizer = Optimizer.adamw
    lr: float = 5e-3
    warmup_steps: int = 400
    schedule: Schedule = Schedule.inverse_sqrt
    weight_decay: float = 0.0
    beta2: float = 0.98
    clip_norm: float = 1.0
    label_smoothing: float = 0.1
    accumulate: int = 1
    average_last: float = 0.2
    precision: Precision = Precision.fp32

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            ValueError: the first of them, with its range.
        """
        for name, (lowest, highest) in RANGES.items():
            value = getattr(self, name)
            if not lowest <= value <= highest:
                raise ValueError(
                    f"optim.{name} is {value}; it must be from {lowest:g} to {highest:g}"
                )


def configure(model: nn.Module, optim: Optim, *, max_steps: int) -> "OptimizerLRSchedulerConfig":
    """Optimiser and per-step schedule, in the form `configure_optimizers` returns."""
    optimizer = optim.optimizer(
        model.parameters(),
        lr=optim.lr,
        betas=(0.9, optim.beta2),
        eps=1e-9,
        weight_decay=optim.weight_decay,
        # The fused kernel takes over the scaling of gradients, so they could not be clipped first.
        fused=optim.precision is Precision.fp32,
    )
    schedule = LambdaLR(optimizer, optim.schedule(optim.warmup_steps, max_steps))
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
