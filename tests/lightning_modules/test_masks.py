"""Masks: one type, one polarity, rows without any key, and what each number format holds."""

import pytest
import torch
from torch import nn

from lightning_modules.axes.attention import MaskMethod
from lightning_modules.design import Design
from lightning_modules.layers import Attention
from lightning_modules.masks import AttentionMask
from tests.lightning_modules.designs import TINY

FINITE = (MaskMethod.minus_1e9, MaskMethod.dtype_min)


@pytest.mark.parametrize("mask", MaskMethod)
def test_a_query_without_any_key(mask: MaskMethod) -> None:
    """-inf gives zeros and loses nothing else; finite values attend to padding; never NaN."""
    attention = Attention(Design(mask=mask), TINY, n_branches=1).double()
    nn.init.zeros_(attention.output.bias)
    window = torch.ones(2, 1, 4, 4, dtype=torch.bool).tril().triu(-1)
    window = window & (torch.arange(4) < torch.tensor([4, 2])[:, None])[:, None, None, :]
    x = torch.randn(2, 4, 16, dtype=torch.double, requires_grad=True)
    output = attention(x, mask=AttentionMask(keep=window))
    output.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in attention.parameters())
    empty = output[1, 3].abs().max()
    assert (empty > 0) if mask in FINITE else (empty == 0)


def test_a_plain_softmax_over_minus_infinity_is_not_a_number() -> None:
    assert torch.full((4,), -torch.inf).softmax(-1).isnan().all()


def test_one_query_against_cached_keys_sees_them_all() -> None:
    assert AttentionMask(causal=True).allowed(1, 5, torch.device("cpu")) is None
    two = AttentionMask(causal=True).allowed(2, 5, torch.device("cpu"))
    assert two is not None
    assert two[0, 0].tolist() == [[True] * 4 + [False], [True] * 5]


def test_masks_have_one_type_one_polarity_and_one_shape() -> None:
    with pytest.raises(TypeError, match="True = may be attended to"):
        AttentionMask(keep=torch.zeros(1, 1, 2, 2))
    with pytest.raises(ValueError, match=r"\(batch, heads, query, key\)"):
        AttentionMask(keep=torch.ones(2, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="2 x 3 doesn't fit 4 queries x 4 keys"):
        AttentionMask(keep=torch.ones(1, 1, 2, 3, dtype=torch.bool)).allowed(
            4, 4, torch.device("cpu")
        )
    lengths = AttentionMask.from_lengths(torch.tensor([2, 3]), 3)
    assert lengths.keep is not None
    assert lengths.keep[:, 0, 0].tolist() == [[True, True, False], [True, True, True]]


@pytest.mark.parametrize("causal", [False, True])
def test_rows_without_padding_need_no_mask(causal: bool) -> None:
    mask = AttentionMask.from_lengths(torch.tensor([3, 3]), 3, causal=causal)
    assert mask == AttentionMask(causal=causal)
    padded = AttentionMask.from_lengths(torch.tensor([3, 3]), 4, causal=causal)
    assert padded.keep is not None
    assert not padded.keep[..., 3].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", MaskMethod)
def test_masks_by_precision(mask: MaskMethod, dtype: torch.dtype) -> None:
    scores = torch.randn(1, 1, 3, 3).to(dtype)
    allowed = torch.ones(1, 1, 3, 3, dtype=torch.bool).tril()
    if mask is MaskMethod.minus_1e9 and dtype is torch.float16:
        with pytest.raises(RuntimeError, match="overflow"):
            mask(scores, allowed)
        return
    weights = mask(scores, allowed)
    assert weights.dtype is dtype
    assert weights.isfinite().all()
    assert (weights[~allowed] == 0).all()
