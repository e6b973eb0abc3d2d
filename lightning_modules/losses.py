"""Cross-entropy fused with the output projection: logits are never whole.

PyTorch's own chunked `linear_cross_entropy` falls back to whole logits under label smoothing,
which every translation recipe uses; hence this one.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# Rows of logits alive at once: few enough to stay in a CPU's cache, many enough for one product.
CHUNK_ROWS = 256
GPU_LOGITS = 2**26  # alive at once on a GPU, where each chunk costs a dozen kernels to launch


class _ProjectedCrossEntropy(Function):
    """The gradients are made in the forward pass, while a chunk's logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, targets: Tensor, smoothing: float
    ) -> Tensor:
        """See `projected_cross_entropy`."""
        total = states.new_zeros((), dtype=torch.promote_types(states.dtype, torch.float32))
        state_gradient, weight_gradient = torch.empty_like(states), torch.zeros_like(weight)
        mean_row = weight.mean(0)
        for rows in _chunks(targets, weight):
            # What smoothing spreads evenly needs no logits: their mean is that of the weights.
            spread = smoothing * (states[rows] @ mean_row)
            loss, error = _loss_and_error(states[rows] @ weight.T, targets[rows], 1 - smoothing)
            total += loss - spread.sum(dtype=total.dtype)
            torch.addmm(mean_row, error, weight, beta=-smoothing, out=state_gradient[rows])
            weight_gradient.addmm_(error.T, states[rows])
        weight_gradient -= states.sum(0) * (smoothing / len(weight))
        ctx.save_for_backward(state_gradient, weight_gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Scale the gradients that the forward pass has made."""
        state_gradient, weight_gradient = ctx.saved_tensors
        factor = gradient.to(state_gradient.dtype)
        return state_gradient * factor, weight_gradient * factor, None, None


def _loss_and_error(logits: Tensor, targets: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Of a chunk whose targets hold this share: summed loss, and its gradient by the logits.

    The gradient `(rows, vocabulary)` is made in the place of the logits, in as few passes over them
    as there can be: they are most of a step's memory.
    """
    chosen, wide = targets[:, None], torch.promote_types(logits.dtype, torch.float32)
    wanted = share * logits.gather(1, chosen)
    highest = logits.amax(-1, keepdim=True)
    odds = logits.sub_(highest).exp_()
    normaliser = odds.sum(-1, keepdim=True, dtype=wide)
    loss = (highest + normaliser.log() - wanted).sum(dtype=wide)
    error = odds.div_(normaliser)
    error.scatter_add_(1, chosen, error.new_full((len(targets), 1), -share))
    return loss, error


def chunk_rows(vocabulary: int, *, on_gpu: bool) -> int:
    """Rows of logits, each as wide as the vocabulary, that are worked on at once."""
    return max(CHUNK_ROWS, GPU_LOGITS // vocabulary) if on_gpu else CHUNK_ROWS


def _chunks(targets: Tensor, weight: Tensor) -> Iterator[slice]:
    n_rows = chunk_rows(len(weight), on_gpu=weight.is_cuda)
    return (slice(start, start + n_rows) for start in range(0, len(targets), n_rows))


def projected_cross_entropy(
    states: Tensor, weight: Tensor, targets: Tensor, *, label_smoothing: float = 0.0
) -> Tensor:
    """Sum over targets of the cross-entropy of `states @ weight.T`, in nats.

    Args:
        states: `(targets, d_model)`, real positions only.
        weight: the output projection, `(vocabulary, d_model)`.
        targets: token ids, `(targets,)`.
        label_smoothing: share of each target spread evenly over the vocabulary
            (Szegedy et al. 2016, section 7).

    Returns:
        A scalar; divide by the number of targets for nats per target token.
    """
    device = states.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        states, weight = states.to(dtype), weight.to(dtype)
    return _ProjectedCrossEntropy.apply(states, weight, targets, label_smoothing)


@torch.no_grad()
def each_loss_and_hit(states: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Of each target, the loss without smoothing and whether it has the highest logit.

    Arguments as in `projected_cross_entropy`; both results are `(targets,)`.
    """
    dtype = torch.promote_types(states.dtype, torch.float32)
    losses, hits = states.new_empty(len(targets), dtype=dtype), torch.empty_like(targets).bool()
    for rows in _chunks(targets, weight):
        logits = states[rows] @ weight.T.to(states.dtype)
        hits[rows] = logits.argmax(-1).eq(targets[rows])
        losses[rows] = torch.nn.functional.cross_entropy(
            logits.to(dtype), targets[rows], reduction="none"
        )
    return losses, hits


@torch.no_grad()
def loss_and_hits(states: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The summed loss without smoothing, and how many targets have the highest logit.

    Arguments as in `projected_cross_entropy`; both results are scalars.
    """
    loss = states.new_zeros((), dtype=torch.promote_types(states.dtype, torch.float32))
    hits = targets.new_zeros(())
    for rows in _chunks(targets, weight):
        logits = states[rows] @ weight.T.to(states.dtype)
        hits += logits.argmax(-1).eq(targets[rows]).sum()
        logits = logits.to(loss.dtype)
        loss += torch.nn.functional.cross_entropy(logits, targets[rows], reduction="sum")
    return loss, hits
