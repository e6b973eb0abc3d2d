"""The fused loss equals PyTorch's own, in value and gradient."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from lightning_modules import losses
from lightning_modules.losses import (
    CHUNK_ROWS,
    each_loss_and_hit,
    loss_and_hits,
    projected_cross_entropy,
)


def problem(rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    states = torch.randn(rows, 8, dtype=torch.double, requires_grad=True)
    weight = torch.randn(50, 8, dtype=torch.double, requires_grad=True)
    return states, weight, torch.randint(50, (rows,))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("rows", [1, CHUNK_ROWS, CHUNK_ROWS + 3])
def test_value_and_gradients(rows: int, smoothing: float) -> None:
    states, weight, targets = problem(rows)
    ours = projected_cross_entropy(states, weight, targets, label_smoothing=smoothing)
    theirs = cross_entropy(states @ weight.T, targets, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(ours, theirs)
    gradients = [torch.autograd.grad(3 * loss, (states, weight)) for loss in (ours, theirs)]
    torch.testing.assert_close(*gradients)


def test_loss_and_hits() -> None:
    states, weight, targets = problem(CHUNK_ROWS + 5)
    loss, hits = loss_and_hits(states, weight, targets)
    logits = states @ weight.T
    assert loss.item() == pytest.approx(cross_entropy(logits, targets, reduction="sum").item())
    assert hits.item() == (logits.argmax(-1) == targets).sum().item()


def test_loss_and_hit_of_each_target() -> None:
    states, weight, targets = problem(CHUNK_ROWS + 5)
    losses, hits = each_loss_and_hit(states, weight, targets)
    logits = states @ weight.T
    torch.testing.assert_close(losses, cross_entropy(logits, targets, reduction="none").detach())
    assert torch.equal(hits, logits.argmax(-1) == targets)


def test_no_information_costs_log_of_the_vocabulary() -> None:
    _, weight, targets = problem(10)
    loss, _ = loss_and_hits(torch.zeros(10, 8, dtype=torch.double), weight, targets)
    assert loss.item() / 10 == pytest.approx(math.log(50))


def test_a_gpu_works_on_more_rows_at_once_within_bounds() -> None:
    assert losses.chunk_rows(10_000, on_gpu=False) == losses.CHUNK_ROWS
    for vocabulary in (100, 10_000, 250_000):
        rows = losses.chunk_rows(vocabulary, on_gpu=True)
        assert rows * vocabulary <= losses.GPU_LOGITS < (rows + 1) * vocabulary
    assert losses.chunk_rows(10_000_000, on_gpu=True) == losses.CHUNK_ROWS
