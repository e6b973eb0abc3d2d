"""Check of a recurrent layer against attention: S1."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from ablations.checks.check import Check, Outcome, encoder, verdict
from ablations.checks.subject import Subject
from lightning_modules.masks import AttentionMask
from lightning_modules.sequential_steps import longest_chain
from lightning_modules.transformer import Stack

LENGTHS = (8, 16, 32, 64)

# From vectors `(1, length, d_model)` to states of the same shape.
States = Callable[[Tensor], Tensor]


def parallel_over_time(subject: Subject) -> Outcome:
    """S1: operations that wait for one another in an LSTM layer and in a block, over the length.

    What is counted is the computation step by step. Solving for all steps at once by iteration
    (Lim et al. 2024, "Parallelizing non-linear sequential models over the sequence length") takes
    more work for fewer steps, and is no part of it.
    """
    lstm, block = (chains(states, subject.dims.d_model) for states in layers(subject))
    growth = pairwise(zip(LENGTHS, lstm, strict=True))
    a_token = {(after - before) / (longer - n) for (n, before), (longer, after) in growth}
    steady = len(a_token) == 1
    grown = f"{min(a_token):g} more a token" if steady else "unevenly more a token"
    return verdict(
        steady and min(a_token) >= 1 and len(set(block)) == 1,
        f"operations that wait for one another, forward, at {_numbers(LENGTHS)} tokens: LSTM "
        f"{_numbers(lstm)} ({grown}), a block of this model {_numbers(block)}. So no number of "
        "cores makes a step of the LSTM wait less; what they make of it in seconds is for "
        "'python -m benchmarks.recurrence' on a machine that has them to spare",
    )


def layers(subject: Subject) -> tuple[States, States]:
    """An LSTM layer and a block of the model, as wide."""
    width = subject.dims.d_model
    torch.manual_seed(subject.config.seed)
    # In single precision torch runs an LSTM as one operation, and its steps can't be seen.
    lstm = nn.LSTM(width, width, batch_first=True).double()
    dims = replace(subject.dims, max_length=max(subject.dims.max_length, *LENGTHS))
    stack = Stack(subject.config.design, dims, n_layers=1, causal=False).double()
    return lambda x: lstm(x)[0], lambda x: stack(x, mask=AttentionMask())


def chains(states: States, width: int) -> list[int]:
    """The longest chain of operations at each length."""
    inputs = (torch.randn(1, length, width, dtype=torch.double) for length in LENGTHS)
    return [longest_chain(states(x)) for x in inputs]


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


SEQUENCE_CHECKS = (
    Check(
        id="S1",
        statement="an LSTM cannot be parallelised over time, a Transformer can",
        expected="the chain of operations grows by the same number with every token in the LSTM, "
        "and doesn't grow in the Transformer",
        measure=parallel_over_time,
        needs=(encoder,),
    ),
)
