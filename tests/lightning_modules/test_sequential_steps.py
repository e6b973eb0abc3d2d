import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lightning_modules.sequential_steps import longest_chain

X = torch.ones(3, requires_grad=True)


def test_operations_in_a_row_are_counted_and_those_side_by_side_are_not() -> None:
    one = longest_chain(X.exp())
    assert longest_chain(X.exp().exp()) == one + 1
    assert longest_chain(X.exp() + X.exp().exp().exp()) == one + 3
    assert longest_chain(torch.stack([X.exp() for _ in range(50)])) == one + 1


def test_the_longer_way_counts_wherever_paths_meet_again() -> None:
    y = X
    for _ in range(200):  # 2 ** 200 paths
        y = y.exp() + y
    assert longest_chain(y) == longest_chain(X.exp()) - 1 + 2 * 200


def test_what_has_no_gradient_is_no_chain() -> None:
    assert longest_chain(X.detach().exp()) == 0


@given(n=st.integers(2, 30))
def test_a_recurrence_grows_with_its_length(n: int) -> None:
    cell, x = nn.LSTMCell(3, 3), torch.randn(1, n, 3)
    lengths = []
    for count in (n - 1, n):
        state = (torch.zeros(1, 3), torch.zeros(1, 3))
        for token in x[:, :count].unbind(1):
            state = cell(token, state)
        lengths.append(longest_chain(state[0]))
    assert lengths[1] > lengths[0] >= n - 1


def test_a_very_long_chain_is_no_deep_recursion() -> None:
    y = X
    for _ in range(20_000):
        y = y.sin()
    assert longest_chain(y) == pytest.approx(20_000, abs=1)
