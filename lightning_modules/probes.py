"""What a built model does, measured on a batch, without training.

`record_attention` keeps scores and weights of a forward pass; the functions on weights take what it
kept. Leaks and equivariance are asked of any function from vectors to states, so they hold for an
encoder, a decoder with its memory, or one layer.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from lightning_modules.cache import Cache
from lightning_modules.layers import Attention
from lightning_modules.transformer import EncoderDecoder

# Unlike the seeds that inputs are drawn with: drawn again, they would hide a leak.
SEED = 912_367_421

# From vectors `(batch, length, d_model)` to states `(batch, length, width)`.
States = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """One attention layer in one forward pass.

    Attributes:
        name: the layer's place in the model, such as `encoder.blocks.0.self_attention`.
        scores: before mask and softmax, with their scale and bias, `(batch, heads, query, key)`.
        allowed: broadcastable to the scores, True where a key may be attended to; None: everywhere.
        weights: as the values are summed, `(batch, heads, query, key)`.
    """

    name: str
    scores: Tensor
    allowed: Tensor | None
    weights: Tensor


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[AttentionRecord]]:
    """Keep the scores and weights of every attention layer of `model`, in the order they run.

    Inside, attention takes the explicit path. What is kept belongs to the graph of the pass, so its
    gradients can be asked for; detach or use `torch.no_grad` where they aren't needed.
    """
    records: list[AttentionRecord] = []

    def keep(name: str, scores: Tensor, allowed: Tensor | None, weights: Tensor) -> None:
        records.append(AttentionRecord(name, scores, allowed, weights))

    layers = {name: part for name, part in model.named_modules() if isinstance(part, Attention)}
    for name, layer in layers.items():
        layer.observer = partial(keep, name)
    try:
        yield records
    finally:
        for layer in layers.values():
            layer.observer = None


def score_variance(record: AttentionRecord) -> float:
    """Variance of the allowed scores before the softmax (Vaswani et al. 2017, section 3.2.1).

    The scale of the design is in them; divide by its square for that of raw dot products.
    """
    if record.allowed is None:
        return record.scores.var().item()
    return record.scores[record.allowed.expand_as(record.scores)].var().item()


def entropy(weights: Tensor) -> Tensor:
    """`-sum_k w_k log w_k` of each query in nats, `(batch, heads, query)` (Clark et al. 2019, 3.3).

    From 0 (one key) to `log n` (n keys evenly). A zero weight adds nothing.
    """
    return torch.special.entr(weights).sum(-1)


def attention_distance(weights: Tensor) -> Tensor:
    """`sum_k w_k |query - key|` in tokens, `(batch, heads, query)` (Vig & Belinkov 2019, eq. 3)."""
    queries = torch.arange(weights.shape[-2], device=weights.device)
    keys = torch.arange(weights.shape[-1], device=weights.device)
    return (weights * (queries[:, None] - keys).abs()).sum(-1)


@dataclass(frozen=True, eq=False)
class HeadStatistics:
    """What the heads of one layer look at: means over real queries, `(heads,)` each.

    Attributes:
        entropy: of a query's weights, in nats.
        uniformity: that entropy over the logarithm of the number of allowed keys; 1 is even
            attention, 0 a single key. Queries with fewer than two keys are left out.
        distance: from query to key, in tokens.
        previous_token: weight on the token before the query (Voita et al. 2019, section 5.2).
        diagonal: weight on the query itself.
        redundancy: mean cosine similarity of two heads' weights, over all pairs; one number, NaN
            for a single head.
    """

    entropy: Tensor
    uniformity: Tensor
    distance: Tensor
    previous_token: Tensor
    diagonal: Tensor
    redundancy: float


def head_statistics(record: AttentionRecord, *, real: Tensor | None = None) -> HeadStatistics:
    """What the heads of a layer of self-attention look at.

    `real` `(batch, query)` is True where a query is no padding; None where none is.
    """
    weights = record.weights.detach()
    if real is None:
        real = torch.ones(weights.shape[0], weights.shape[2], dtype=torch.bool).to(weights.device)
    allowed = torch.ones((), dtype=torch.bool) if record.allowed is None else record.allowed
    n_allowed = allowed.expand_as(weights).sum(-1)
    chosen, spread = real[:, None], entropy(weights)
    return HeadStatistics(
        entropy=_mean(spread, chosen),
        uniformity=_mean(spread / n_allowed.clamp_min(2).log(), chosen & (n_allowed > 1)),
        distance=_mean(attention_distance(weights), chosen),
        previous_token=_mean(weights.diagonal(offset=-1, dim1=-2, dim2=-1), chosen[..., 1:]),
        diagonal=_mean(weights.diagonal(dim1=-2, dim2=-1), chosen),
        redundancy=head_redundancy(weights, real=real),
    )


def head_redundancy(weights: Tensor, *, real: Tensor) -> float:
    """Mean cosine similarity of the weights of two heads, over pairs; NaN for a single head.

    `2 / (H(H-1)) · sum_{i<j} cos(A_i, A_j)`, where A_i are all weights of real queries of head i.
    """
    n_heads = weights.shape[1]
    flat = (weights * real[:, None, :, None]).transpose(0, 1).flatten(1)
    unit = nn.functional.normalize(flat, dim=-1)
    pairs = torch.triu_indices(n_heads, n_heads, offset=1, device=weights.device)
    return (unit @ unit.T)[pairs[0], pairs[1]].mean().item()


def _mean(values: Tensor, chosen: Tensor) -> Tensor:
    """Means `(heads,)` of `(batch, heads, query)` over the chosen queries, of the same shape."""
    share = chosen.expand_as(values).to(values.dtype)
    return (values * share).sum((0, 2)) / share.sum((0, 2))


def query_key_gradients(model: nn.Module) -> dict[str, float]:
    """Norm of the gradient of each layer's query and key projections together, after a backward.

    The weights' gradients, by the layer's name; 0 where a map has got none.
    """
    norms = {}
    for name, layer in model.named_modules():
        if isinstance(layer, Attention):
            found = [part.weight.grad for part in (layer.query, layer.key)]
            norms[name] = math.hypot(*(g.norm().item() for g in found if g is not None))
    return norms


@dataclass(frozen=True)
class Leak:
    """How much hidden inputs reach watched outputs; both are 0 without a leak.

    Attributes:
        perturbation: largest change of a watched output when the hidden inputs are replaced.
        gradient: largest derivative, by a hidden input, of a random projection of watched outputs.
    """

    perturbation: float
    gradient: float

    @property
    def largest(self) -> float:
        """The larger of the two."""
        return max(self.perturbation, self.gradient)


def leak(states: States, x: Tensor, *, hidden: Tensor, watched: Tensor) -> Leak:
    """Whether inputs at `hidden` reach outputs at `watched`, both boolean `(batch, length)`.

    The projection is random, since a layer norm's outputs have a constant sum.

    Raises:
        ValueError: nothing is hidden, or nothing is watched.
    """
    if not hidden.any() or not watched.any():
        raise ValueError("a leak needs at least one hidden and one watched position")
    generator = torch.Generator(x.device).manual_seed(SEED)
    random = partial(torch.randn, generator=generator, dtype=x.dtype, device=x.device)
    with torch.no_grad():
        other = torch.where(hidden[..., None], random(x.shape), x)
        change = (states(other) - states(x))[watched].abs().max()
    probed = x.detach().requires_grad_()
    outputs = states(probed)[watched]
    (gradient,) = torch.autograd.grad((outputs * random(outputs.shape)).sum(), probed)
    return Leak(change.item(), gradient[hidden].abs().max().item())


def causal_leak(states: States, x: Tensor, *, position: int) -> Leak:
    """Whether inputs after `position` reach the outputs up to and at it."""
    after = (torch.arange(x.shape[1], device=x.device) > position).expand(x.shape[:2])
    return leak(states, x, hidden=after, watched=~after)


def padding_leak(states: States, x: Tensor, *, real: Tensor) -> Leak:
    """Whether inputs in the padding reach outputs at real positions; `real` `(batch, length)`."""
    return leak(states, x, hidden=~real, watched=real)


def permutation_difference(states: States, x: Tensor, *, order: Tensor) -> float:
    """Largest `|f(Px) - P f(x)|` for the permutation `order` `(length,)`; 0 where f is equivariant.

    Yun et al. 2020, definition 1.
    """
    return (states(x[:, order]) - states(x)[:, order]).abs().max().item()


def cached_difference(
    model: EncoderDecoder,
    source: Tensor,
    source_lengths: Tensor,
    target: Tensor,
    target_lengths: Tensor,
) -> float:
    """Largest difference between decoding token by token with the cache and one full pass.

    Arguments as of the model. Compared are the states at real positions of the target.
    """
    memory, mask = model.encode(source, source_lengths)
    cache = Cache(len(model.decoder.blocks))
    steps = [
        model.decode(token, memory=memory, memory_mask=mask, cache=cache)
        for token in target.split(1, dim=1)
    ]
    full = model.decode(target, memory=memory, memory_mask=mask, target_lengths=target_lengths)
    real = torch.arange(target.shape[1], device=target.device) < target_lengths[:, None]
    return (full - torch.cat(steps, dim=1))[real].abs().max().item()
