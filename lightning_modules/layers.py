"""Attention and the Transformer block. They read slots and never ask which level a slot holds."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightning_modules.axes.initialization import make_linear
from lightning_modules.axes.norms import MakeNorm
from lightning_modules.cache import LayerCache
from lightning_modules.design import Design, Dims
from lightning_modules.dropout import Dropout
from lightning_modules.masks import AttentionMask
from lightning_modules.placement import Placement

# cuDNN's kernel, which PyTorch prefers on recent GPUs, is planned anew for every shape, some 40 ms
# each, and batches of sentences have hundreds of shapes.
torch.backends.cuda.enable_cudnn_sdp(False)

# Told the scores, which keys are allowed (None where all are), and the weights.
Observer = Callable[[Tensor, Tensor | None, Tensor], None]


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
    if n_queries == n_keys:
        mask = mask.without_redundancy()
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
    the design, or an observer, needs the weights.

    Args:
        design: the choices.
        dims: the sizes.
        n_branches: residual branches in the stack.

    Attributes:
        observer: told the weights of every forward pass; None where nobody looks.
    """

    def __init__(self, design: Design, dims: Dims, *, n_branches: int) -> None:
        super().__init__()
        self.observer: Observer | None = None
        self.design, self.dims = design, dims
        self.scale: float = design.attention_scale(dims.d_key)
        self.n_shared: int = design.head_sharing(dims.n_heads, dims.n_key_value_heads)
        make = partial(
            make_linear, level=design.initialization, gain=dims.init_gain, d_model=dims.d_model
        )
        self.query = make(dims.d_model, dims.n_heads * dims.d_key)
        self.key = make(dims.d_model, self.n_shared * dims.d_key)
        self.value = make(dims.d_model, self.n_shared * dims.d_value)
        self.output = make(dims.n_heads * dims.d_value, dims.d_model, n_branches=n_branches)
        self.query_norm = design.query_key_norm(dims.d_key)
        self.key_norm = design.query_key_norm(dims.d_key)
        self.dropout = Dropout(dims.attention_dropout)

    def forward(
        self,
        x: Tensor,
        *,
        mask: AttentionMask,
        memory: Tensor | None = None,
        placement: Placement | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Attend from `x` to itself, or to `memory`.

        Args:
            x: `(batch, query, d_model)`.
            mask: which keys each query may attend to.
            memory: `(batch, key, d_model)`; None for self-attention.
            placement: the positions of `x`; None for attention to a memory.
            cache: keys and values of earlier steps; a memory is projected into it once.

        Returns:
            `(batch, query, d_model)`.
        """
        query = self.query_norm(self.design.head_split(self.query(x), self.dims.n_heads))
        key, value = self._keys_values(x, memory, placement, cache)
        bias = None
        if placement is not None:
            query = placement.rotate(query)
            bias = placement.bias(self.scale * query, key.shape[2])
        return self.output(self._attend(query, key, value, bias, mask).transpose(1, 2).flatten(2))

    def weights(
        self, query: Tensor, key: Tensor, *, bias: Tensor | None, mask: AttentionMask
    ) -> Tensor:
        """The explicit weights `(batch, heads, query, key)` of split heads."""
        scores = self.scale * query @ key.transpose(2, 3)
        if bias is not None:
            scores = scores + bias.to(scores.dtype)
        allowed = mask.allowed(query.shape[2], key.shape[2], query.device)
        weights = attention_weights(scores, allowed, self.design)
        if self.observer is not None:
            self.observer(scores, allowed, weights)
        return weights

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: AttentionMask
    ) -> Tensor:
        if self.n_shared != self.dims.n_heads:
            group = self.dims.n_heads // self.n_shared
            key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
        drops = self.training and self.dims.attention_dropout > 0
        if self.design.mask.fusable and not drops and self.observer is None:
            return fused_attention(query, key, value, bias=bias, mask=mask, scale=self.scale)
        weights = self.weights(query, key, bias=bias, mask=mask)
        return self.dropout(weights) @ value

    def _keys_values(
        self,
        x: Tensor,
        memory: Tensor | None,
        placement: Placement | None,
        cache: LayerCache | None,
    ) -> tuple[Tensor, Tensor]:
        remembered = memory is not None and cache is not None
        if remembered and cache.keys is not None and cache.values is not None:  # type: ignore[union-attr]
            return cache.keys, cache.values  # type: ignore[union-attr]
        read = x if memory is None else memory
        for_values = read if placement is None else placement.value_input(read)
        key = self.key_norm(self.design.head_split(self.key(read), self.n_shared))
        value = self.design.head_split(self.value(for_values), self.n_shared)
        if placement is not None:
            key = placement.rotate(key)
        return (key, value) if cache is None else cache.append(key, value)


class Block(nn.Module):
    """Self-attention, attention to a memory where asked for, and a feed-forward network if any.

    Args:
        design: the choices.
        dims: the sizes.
        make_norm: gives the block's norms.
        n_layers: blocks in the stack.
        cross_attention: whether there is a memory to read.
    """

    def __init__(
        self,
        design: Design,
        dims: Dims,
        *,
        make_norm: MakeNorm,
        n_layers: int,
        cross_attention: bool,
    ) -> None:
        super().__init__()
        n_branches = n_layers * branches_per_block(design, cross_attention=cross_attention)

        def wiring() -> nn.Module:
            residual = design.residual(n_branches)
            return design.norm_position(make_norm, residual, Dropout(dims.dropout))

        attention = partial(Attention, design, dims, n_branches=n_branches)
        self.self_attention, self.around_self = attention(), wiring()
        self.cross_attention = attention() if cross_attention else None
        self.around_cross = wiring() if cross_attention else None
        self.feed_forward = make_feed_forward(design, dims, n_branches=n_branches)
        self.around_feed_forward = wiring() if self.feed_forward is not None else None

    def forward(
        self,
        x: Tensor,
        *,
        mask: AttentionMask,
        placement: Placement,
        real: Tensor | None = None,
        memory: Tensor | None = None,
        memory_mask: AttentionMask | None = None,
        cache: tuple[LayerCache, LayerCache] | None = None,
    ) -> Tensor:
        """Map `(batch, length, d_model)` to the same shape.

        `real` `(batch, length)` marks what is no padding. Other arguments as in `Attention`.
        """
        own, remembered = cache or (None, None)

        def attend(inner: Tensor) -> Tensor:
            return self.self_attention(inner, mask=mask, placement=placement, cache=own)

        def read(inner: Tensor) -> Tensor:
            assert self.cross_attention is not None
            visible = memory_mask or AttentionMask()
            return self.cross_attention(inner, mask=visible, memory=memory, cache=remembered)

        x = self.around_self(x, attend, real)
        if self.around_cross is not None:
            x = self.around_cross(x, read, real)
        if self.around_feed_forward is not None:
            x = self.around_feed_forward(x, self.feed_forward, real)
        return x


def branches_per_block(design: Design, *, cross_attention: bool) -> int:
    """Residual branches of one block."""
    return 1 + cross_attention + design.feed_forward.built


def make_feed_forward(design: Design, dims: Dims, *, n_branches: int) -> nn.Module | None:
    """The feed-forward network of a block, or None where the design has none."""
    make = partial(
        make_linear, level=design.initialization, gain=dims.init_gain, d_model=dims.d_model
    )
    return design.feed_forward(
        dims.d_model,
        dims.d_ff,
        activation=design.activation,
        dropout=dims.feedforward_dropout,
        make_linear=make,
        make_last=partial(make, n_branches=n_branches),
    )
