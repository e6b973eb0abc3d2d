"""Scale, mask, causality, query and key norm, and heads, each against its oracle."""

import dataclasses

import pytest
import torch
from torch import nn

from lightning_modules.axes.attention import AttentionScale, CausalMask, MaskMethod, QueryKeyNorm
from lightning_modules.axes.heads import HeadSharing, HeadSplit
from lightning_modules.design import Design
from lightning_modules.masks import AttentionMask
from tests import oracles
from tests.lightning_modules.designs import TINY, build, tokens


@pytest.mark.parametrize("level", AttentionScale)
@pytest.mark.parametrize("width", [1, 8, 64])
def test_scale(level: AttentionScale, width: int) -> None:
    assert level(width) == pytest.approx(oracles.SCALES[level.name](width))


@pytest.mark.parametrize("level", MaskMethod)
def test_mask_weights(level: MaskMethod) -> None:
    scores = torch.randn(2, 3, 4, 5, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    allowed = torch.rand(scores.shape, generator=torch.Generator().manual_seed(1)) > 0.4
    allowed[0, 0, 0] = False
    weights = level(scores, allowed).flatten(0, 2).tolist()
    rows = zip(scores.flatten(0, 2).tolist(), allowed.flatten(0, 2).tolist(), strict=True)
    expected = [oracles.MASKS[level.name](*row) for row in rows]
    torch.testing.assert_close(torch.tensor(weights), torch.tensor(expected))


@pytest.mark.parametrize("level", CausalMask)
def test_what_a_later_token_reaches(level: CausalMask) -> None:
    model = build(Design(causal_mask=level))
    source, lengths, target = tokens(1, 4), torch.tensor([4]), tokens(1, 5, seed=1)
    changed = target.clone()
    changed[0, 4] = 4 if target[0, 4] > 4 else 5
    moved = (model(source, lengths, target) - model(source, lengths, changed))[0].abs().amax(-1)
    assert bool((moved[:4] > 1e-9).any()) is oracles.REACHES_THE_PAST[level.name]
    assert moved[4] > 1e-9


@pytest.mark.parametrize("level", QueryKeyNorm)
def test_query_key_norm(level: QueryKeyNorm) -> None:
    vector = [3.0, -4.0, 0.5, 1.0]
    normed = level(4).double()(torch.tensor(vector, dtype=torch.double))
    expected = oracles.QUERY_KEY_NORMS[level.name](vector)
    torch.testing.assert_close(normed.tolist(), expected, rtol=1e-7, atol=1e-7)


def test_query_key_norm_bounds_the_scores() -> None:
    """By the square root of the width, whatever the size of what is projected."""
    attention = build(Design(query_key_norm=QueryKeyNorm.rms)).encoder.blocks[0].self_attention
    nn.init.ones_(attention.query_norm.weight)
    query = attention.query_norm(1e3 * torch.randn(1, 4, 6, 4, dtype=torch.double))
    scores = attention.scale * query @ query.transpose(2, 3)
    assert scores.abs().max() <= 2 + 1e-6


@pytest.mark.parametrize("level", HeadSplit)
def test_head_split(level: HeadSplit) -> None:
    x = torch.randn(2, 5, 12)
    heads = level(x, 3)
    assert heads.shape == (2, 3, 5, 4)
    for head in range(3):
        for position in range(5):
            expected = oracles.HEAD_ROWS[level.name](x[1].tolist(), head, position, 3)
            assert heads[1, head, position].tolist() == expected


@pytest.mark.parametrize("level", HeadSharing)
def test_head_sharing(level: HeadSharing) -> None:
    """Shared heads give what separate ones with repeated weights give, and cost fewer rows."""
    shared = build(Design(head_sharing=level)).encoder.blocks[0].self_attention
    assert shared.key.weight.shape[0] == oracles.KEY_ROWS[level.name]
    separate = build(Design()).encoder.blocks[0].self_attention
    separate.load_state_dict(
        {
            name: _repeated(tensor) if name.split(".")[0] in ("key", "value") else tensor
            for name, tensor in shared.state_dict().items()
        }
    )
    x = torch.randn(2, 5, 16, dtype=torch.double)
    outputs = [each(x, mask=AttentionMask(causal=True)) for each in (shared, separate)]
    torch.testing.assert_close(*outputs)


def _repeated(tensor: torch.Tensor) -> torch.Tensor:
    """Rows of each shared head, once for every head that uses it."""
    heads = tensor.unflatten(0, (-1, 4))
    return heads.repeat_interleave(4 // len(heads), dim=0).flatten(0, 1)


@pytest.mark.parametrize("n_heads", [4, 8, 16])
def test_heads_cost_no_parameters(n_heads: int) -> None:
    dims = dataclasses.replace(TINY, n_heads=n_heads)
    count = [sum(p.numel() for p in build(Design(), dims=d).parameters()) for d in (TINY, dims)]
    assert count[0] == count[1]


@pytest.mark.parametrize("width", [2, 4, 12])
def test_the_width_of_a_query_is_a_number_of_its_own(width: int) -> None:
    """Values keep theirs, as in Vaswani et al. 2017, table 3 row B."""
    attention = (
        build(Design(), dims=dataclasses.replace(TINY, d_head=width))
        .encoder.blocks[0]
        .self_attention
    )
    assert attention.query.weight.shape == attention.key.weight.shape == (4 * width, 16)
    assert attention.value.weight.shape == attention.output.weight.shape == (16, 16)
    assert attention.scale == pytest.approx(width**-0.5)
