"""The initialisation axis: the first weights of the maps inside a block."""

import torch
from torch import nn

from lightning_modules.axis import Axis, Level

GPT2_DEVIATION = 0.02


def _xavier(linear: nn.Linear, d_model: int, n_branches: int) -> None:
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)


def _default(linear: nn.Linear, d_model: int, n_branches: int) -> None:
    linear.reset_parameters()


def _kaiming(linear: nn.Linear, d_model: int, n_branches: int) -> None:
    nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
    nn.init.zeros_(linear.bias)


def _depth_scaled(linear: nn.Linear, d_model: int, n_branches: int) -> None:
    nn.init.normal_(linear.weight, std=GPT2_DEVIATION * n_branches**-0.5)
    nn.init.zeros_(linear.bias)


def _small(linear: nn.Linear, d_model: int, n_branches: int) -> None:
    nn.init.normal_(linear.weight, std=(2 / (5 * d_model)) ** 0.5)
    nn.init.zeros_(linear.bias)


class Initialization(Axis):
    """First weights of a map inside a block, set in place: `level(linear, d_model, n_branches)`.

    `n_branches` is the number of residual branches in the stack for a map that ends one, and 1 for
    any other map.
    """

    xavier = Level(
        _xavier,
        "uniform, variance 2 / (inputs + outputs); biases zero",
        "Glorot & Bengio 2010, eq. 16",
    )
    default = Level(
        _default,
        "what PyTorch does to a linear map by itself: uniform within 1/sqrt(inputs), biases too",
        "LeCun et al. 1998, section 4.6",
    )
    kaiming = Level(_kaiming, "normal, variance 2 / inputs; biases zero", "He et al. 2015, eq. 10")
    depth_scaled = Level(
        _depth_scaled,
        "normal, deviation .02, over the square root of the number of branches for a map that ends "
        "one",
        "Radford et al. 2019 (GPT-2), section 2.3",
    )
    small_init = Level(
        _small,
        "normal, variance 2 / (5 d_model), for attention and feed-forward alike",
        "Nguyen & Salazar 2019, section 2.2",
    )


@torch.no_grad()
def make_linear(
    n_inputs: int,
    n_outputs: int,
    *,
    level: Initialization,
    gain: float,
    d_model: int,
    n_branches: int = 1,
) -> nn.Linear:
    """A linear map inside a block, with the first weights of `level`, times `gain`."""
    linear = nn.Linear(n_inputs, n_outputs)
    level(linear, d_model, n_branches)
    linear.weight *= gain
    return linear
