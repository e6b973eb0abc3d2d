"""Roles of heads against values worked out by hand, and against the figures of a single batch."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from lightning_modules.design import Design
from lightning_modules.head_roles import BETWEEN_HEADS, HeadRoles
from lightning_modules.masks import AttentionMask
from lightning_modules.probes import AttentionRecord, head_statistics, record_attention
from tests.lightning_modules.designs import build, tokens

LENGTHS = torch.tensor([7, 5, 3, 2])


def record(weights: Tensor, allowed: Tensor | None = None) -> AttentionRecord:
    return AttentionRecord("layer", torch.zeros_like(weights), allowed, weights)


def measured(*records: AttentionRecord) -> dict[str, float]:
    roles = HeadRoles()
    for one in records:
        roles.add(one)
    return roles.measures()


def random_record(seed: int, lengths: Tensor, *, causal: bool) -> tuple[AttentionRecord, Tensor]:
    """Weights of 3 heads under a mask, and which queries are real."""
    longest = int(lengths.max())
    mask = AttentionMask.from_lengths(lengths, longest, causal=causal)
    allowed = mask.allowed(longest, longest, torch.device("cpu"))
    assert allowed is not None
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(len(lengths), 3, longest, longest, generator=generator)
    weights = scores.masked_fill(~allowed, -math.inf).softmax(-1)
    return record(weights, allowed), torch.arange(longest) < lengths[:, None]


def test_a_head_on_the_token_before_beside_an_even_one() -> None:
    before = torch.tensor([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    found = measured(record(torch.stack((before, torch.full((4, 4), 0.25)))[None]))
    assert found["uniformity"] == pytest.approx(0.5)
    assert found["distance"] == pytest.approx((0.75 + 1.25) / 2)
    assert found["distance_spread"] == pytest.approx(0.5 / math.sqrt(2))
    # Three of four queries have a token before them; the even head's favourite is the query itself.
    assert found["offset"] == pytest.approx((0.75 + 0.25) / 2)
    assert found["offset_spread"] == pytest.approx(0.5 / math.sqrt(2))
    assert found["redundancy"] == pytest.approx(1 / (2 * 1))


def test_one_head_is_compared_with_none() -> None:
    found = measured(record(torch.eye(3)[None, None]))
    assert not found.keys() & {*BETWEEN_HEADS}
    assert found == {"uniformity": 0, "distance": 0, "offset": 1}


@given(seed=st.integers(0, 2**32 - 1), causal=st.booleans())
def test_the_figures_are_those_of_one_batch(seed: int, causal: bool) -> None:
    single, real = random_record(seed, LENGTHS, causal=causal)
    found, expected = measured(single), head_statistics(single, real=real)
    assert found["uniformity"] == pytest.approx(expected.uniformity.mean().item(), abs=1e-5)
    assert found["distance"] == pytest.approx(expected.distance.mean().item(), abs=1e-5)
    assert found["distance_spread"] == pytest.approx(expected.distance.std().item(), abs=1e-5)
    assert found["redundancy"] == pytest.approx(expected.redundancy, abs=1e-5)
    assert found["offset"] >= max(expected.diagonal.mean().item(), 0) - 1e-6


@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(1, 3))
def test_how_examples_are_cut_into_batches_changes_nothing(seed: int, cut: int) -> None:
    """Neither does padding: each part is only as long as its longest row."""
    whole, _ = random_record(seed, LENGTHS, causal=True)
    assert whole.allowed is not None
    parts = []
    for rows in (slice(0, cut), slice(cut, None)):
        longest = int(LENGTHS[rows].max())
        block = (rows, slice(None), slice(longest), slice(longest))
        parts.append(record(whole.weights[block], whole.allowed[block]))
    for order in (parts, parts[::-1]):
        assert measured(*order) == pytest.approx(measured(whole), abs=1e-5)


def test_attention_to_other_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="layer: 2 queries, 3 keys: not the same"):
        HeadRoles().add(record(torch.full((1, 2, 2, 3), 1 / 3)))


def test_layers_of_a_model_count_their_real_queries() -> None:
    model, lengths = build(Design()), torch.tensor([7, 5, 3])
    with record_attention(model) as records:
        model(tokens(3, 7), lengths, tokens(3, 6, seed=1), torch.tensor([6, 4, 2]))
    queries = []
    for one in records:
        if one.name.endswith("self_attention"):
            roles = HeadRoles()
            roles.add(one)
            queries.append(int(roles.sums["queries"]))
    assert queries == [15, 15, 12, 12]
