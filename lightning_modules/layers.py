"""Attention and the Transformer block. They read slots and never ask which level a slot holds."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightning_modules.axes.positions import PositionScheme
from lightning_modules.cache import LayerCache
from lightning_modules.design import Design, Dims
from lightning_modules.masks import AttentionMask


def attention_weights(scores: Tensor, allowed: Tensor | None, design: Design) -> Tensor:
    """Weights `(batch, heads, query, key)` from scores of the same shape.

    `allowed` is True where a key may be attended to; None where all may.
    """
    return scores.softmax(-1) if allowed is None else design.mask(scores, allowed)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    bias: Tensor | None,
    mask: AttentionMask,
    scale: float,
) -> Tensor:
    """Attention with -inf masking by PyTorch's fused kernel: `(batch, heads, query, d_head)`.

    Shapes as in `Attention`. A query without any key gives zeros, as in the explicit path.
    """
    n_queries, n_keys = query.shape[2], key.shape[2]
    if mask.keep is None and bias is None and (not mask.causal or n_queries == n_keys):
        causal = mask.causal and n_queries > 1
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)
    allowed = mask.allowed(n_queries, n_keys, query.device)
    if allowed is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scale)
    some_key = allowed.any(-1, keepdim=True)
    opened = allowed | ~some_key
    if bias is not None:
        opened = bias.to(query.dtype).masked_fill(~opened, -math.inf)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=opened, scale=scale)
    return output.masked_fill(~some_key, 0.0)


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2).

    The fused kernel is used wherever it computes the same function; the explicit path where
    the design needs the weights.
    """

    def __init__(self, design: Design, dims: Dims) -> None:
        super().__init__()
        self.design, self.dims = design, dims
        self.scale: float = design.attention_scale(dims.d_head)
        self.query = nn.Linear(dims.d_model, dims.d_model)
        self.key_value = nn.Linear(dims.d_model, 2 * dims.d_model)
        self.output = nn.Linear(dims.d_model, dims.d_model)
        for weight in (self.query.weight, *self.key_value.weight.chunk(2), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for linear in (self.query, self.key_value, self.output):
            nn.init.zeros_(linear.bias)

    def forward(
        self,
        x: Tensor,
        *,
        mask: AttentionMask,
        memory: Tensor | None = None,
        position: PositionScheme | None = None,
        positions: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Attend from `x` to itself, or to `memory`.

        Args:
            x: `(batch, query, d_model)`.
            mask: which keys each query may attend to.
            memory: `(batch, key, d_model)`; None for self-attention.
            position: the scheme whose hooks apply; None for attention to a memory.
            positions: of the queries, `(query,)`.
            cache: keys and values of earlier steps; a memory is projected into it once.

        Returns:
            `(batch, query, d_model)`.
        """
        query = self._split(self.query(x))
        key, value = self._keys_values(x, memory, position, positions, cache)
        bias = None
        if position is not None and positions is not None:
            query = position.rotate(query, positions)
            bias = position.bias(positions, torch.arange(key.shape[2], device=x.device))
        return self.output(self._attend(query, key, value, bias, mask).transpose(1, 2).flatten(2))

    def weights(
        self, query: Tensor, key: Tensor, *, bias: Tensor | None, mask: AttentionMask
    ) -> Tensor:
        """The explicit weights `(batch, heads, query, key)` of split heads."""
        scores = self.scale * query @ key.transpose(2, 3)
        if bias is not None:
            scores = scores + bias.to(scores.dtype)
        allowed = mask.allowed(query.shape[2], key.shape[2], query.device)
        return attention_weights(scores, allowed, self.design)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: AttentionMask
    ) -> Tensor:
        drops = self.training and self.dims.attention_dropout > 0
        if self.design.mask.fusable and not drops:
            return fused_attention(query, key, value, bias=bias, mask=mask, scale=self.scale)
        weights = self.weights(query, key, bias=bias, mask=mask)
        return F.dropout(weights, self.dims.attention_dropout, self.training) @ value

    def _keys_values(
        self,
        x: Tensor,
        memory: Tensor | None,
        position: PositionScheme | None,
        positions: Tensor | None,
        cache: LayerCache | None,
    ) -> tuple[Tensor, Tensor]:
        remembered = memory is not None and cache is not None
        if remembered and cache.keys is not None and cache.values is not None:  # type: ignore[union-attr]
            return cache.keys, cache.values  # type: ignore[union-attr]
        key, value = self.key_value(x if memory is None else memory).chunk(2, dim=-1)
        key, value = self._split(key), self._split(value)
        if position is not None and positions is not None:
            key = position.rotate(key, positions)
        return (key, value) if cache is None else cache.append(key, value)

    def _split(self, x: Tensor) -> Tensor:
        """`(batch, length, d_model)` to `(batch, heads, length, d_head)`."""
        return x.unflatten(-1, (self.dims.n_heads, self.dims.d_head)).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between (Vaswani et al. 2017, eq. 2), on `(…, d_model)`."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.inner = nn.Linear(dims.d_model, dims.d_ff)
        self.outer = nn.Linear(dims.d_ff, dims.d_model)
        self.dropout = nn.Dropout(dims.feedforward_dropout)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to each position by itself."""
        return self.outer(self.dropout(F.relu(self.inner(x))))


class Block(nn.Module):
    """Self-attention, attention to a memory where asked for, and a feed-forward network."""

    def __init__(self, design: Design, dims: Dims, *, cross_attention: bool) -> None:
        super().__init__()
        make_norm = design.norm_sharing(lambda: nn.LayerNorm(dims.d_model))

        def wiring() -> nn.Module:
            return design.norm_position(make_norm, nn.Dropout(dims.dropout))

        self.self_attention, self.around_self = Attention(design, dims), wiring()
        if cross_attention:
            self.cross_attention, self.around_cross = Attention(design, dims), wiring()
        self.feed_forward, self.around_feed_forward = FeedForward(dims), wiring()
        self.crosses = cross_attention

    def forward(
        self,
        x: Tensor,
        *,
        mask: AttentionMask,
        position: PositionScheme,
        positions: Tensor,
        memory: Tensor | None = None,
        memory_mask: AttentionMask | None = None,
        cache: tuple[LayerCache, LayerCache] | None = None,
    ) -> Tensor:
        """Map `(batch, length, d_model)` to the same shape. Arguments as in `Attention`."""
        own, remembered = cache or (None, None)

        def attend(inner: Tensor) -> Tensor:
            return self.self_attention(
                inner, mask=mask, position=position, positions=positions, cache=own
            )

        x = self.around_self(x, attend)
        if self.crosses:
            visible = memory_mask or AttentionMask()
            x = self.around_cross(
                x,
                lambda inner: self.cross_attention(
                    inner, mask=visible, memory=memory, cache=remembered
                ),
            )
        return self.around_feed_forward(x, self.feed_forward)
