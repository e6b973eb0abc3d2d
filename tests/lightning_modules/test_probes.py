"""Each probe against a value worked out by hand, or a model whose answer is known."""

import dataclasses
import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from lightning_modules import probes
from lightning_modules.axes.attention import AttentionScale, CausalMask, MaskMethod
from lightning_modules.axes.positions import Position
from lightning_modules.design import Design
from lightning_modules.mask_probes import mask_behaviour
from lightning_modules.masks import AttentionMask
from lightning_modules.placement import Placement
from lightning_modules.probes import AttentionRecord, head_statistics
from tests.lightning_modules.designs import (
    TINY,
    build,
    tokens,
)

SOURCE, LENGTHS, TARGET = tokens(3, 7), torch.tensor([7, 5, 3]), tokens(3, 6, seed=1)
TARGET_LENGTHS = torch.tensor([6, 4, 2])


def record(weights: list[list[float]], allowed: Tensor | None = None) -> AttentionRecord:
    """One row, one head with these weights."""
    tensor = torch.tensor(weights, dtype=torch.double)[None, None]
    return AttentionRecord("layer", torch.zeros_like(tensor), allowed, tensor)


def test_attention_is_recorded_as_it_runs_and_only_while_asked() -> None:
    model = build(Design())
    fused = model(SOURCE, LENGTHS, TARGET)
    with probes.record_attention(model) as records:
        explicit = model(SOURCE, LENGTHS, TARGET)
    model(SOURCE, LENGTHS, TARGET)
    assert [r.name for r in records] == [
        "encoder.blocks.0.self_attention",
        "encoder.blocks.1.self_attention",
        "decoder.blocks.0.self_attention",
        "decoder.blocks.0.cross_attention",
        "decoder.blocks.1.self_attention",
        "decoder.blocks.1.cross_attention",
    ]
    assert [tuple(r.weights.shape) for r in records[::3]] == [(3, 4, 7, 7), (3, 4, 6, 7)]
    torch.testing.assert_close(explicit, fused)
    for r in records:
        torch.testing.assert_close(r.weights.sum(-1), torch.ones_like(r.weights[..., 0]))


def test_the_observer_leaves_when_the_pass_fails() -> None:
    model = build(Design(position=Position.learned), dims=dataclasses.replace(TINY, max_length=3))
    with pytest.raises(ValueError, match="not defined beyond 3"), probes.record_attention(model):
        model(SOURCE, LENGTHS, TARGET)
    assert model.encoder.blocks[0].self_attention.observer is None


@given(n_keys=st.integers(2, 20))
def test_even_attention_has_entropy_log_n(n_keys: int) -> None:
    found = head_statistics(record([[1 / n_keys] * n_keys] * n_keys))
    assert found.entropy.item() == pytest.approx(math.log(n_keys))
    assert found.uniformity.item() == pytest.approx(1)
    assert found.diagonal.item() == pytest.approx(1 / n_keys)
    # The mean distance of two of n places is (n² - 1) / 3n.
    assert found.distance.item() == pytest.approx((n_keys**2 - 1) / (3 * n_keys))


def test_a_head_that_looks_at_the_token_before() -> None:
    found = head_statistics(record([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]))
    assert found.previous_token.item() == 1
    assert found.diagonal.item() == 0.25
    assert found.distance.item() == 0.75
    assert found.entropy.item() == found.uniformity.item() == 0


def test_padding_and_hidden_keys_stay_out_of_the_statistics() -> None:
    """Even attention over what a causal mask leaves is uniform; a padded query isn't counted."""
    causal = torch.ones(3, 3, dtype=torch.bool).tril()[None, None]
    weights = [[1.0, 0, 0], [0.5, 0.5, 0], [1, 0, 0]]
    real = torch.tensor([[True, True, False]])
    found = head_statistics(record(weights, causal), real=real)
    assert found.uniformity.item() == pytest.approx(1)
    assert found.entropy.item() == pytest.approx(math.log(2) / 2)
    assert found.diagonal.item() == pytest.approx(0.75)
    assert head_statistics(record(weights, causal)).uniformity.item() == pytest.approx(0.5)


def test_redundancy_of_equal_and_of_disjoint_heads() -> None:
    first, second = torch.eye(4), torch.eye(4).roll(1, dims=0)
    real = torch.ones(1, 4, dtype=torch.bool)
    for heads, expected in (
        ([first, first], 1.0),
        ([first, second], 0.0),
        ([first, first, second], 1 / 3),
    ):
        found = probes.head_redundancy(torch.stack(heads)[None], real=real)
        assert found == pytest.approx(expected)
    assert math.isnan(probes.head_redundancy(first[None, None], real=real))


def test_score_variance_counts_allowed_scores_only() -> None:
    scores = torch.tensor([[1.0, 99.0], [3.0, 5.0]])[None, None]
    allowed = torch.tensor([[True, False], [True, True]])[None, None]
    found = AttentionRecord("layer", scores, allowed, scores)
    assert probes.score_variance(found) == pytest.approx(4)
    assert probes.score_variance(dataclasses.replace(found, allowed=None)) == pytest.approx(
        6920 / 3
    )


def test_scores_carry_the_scale_of_the_design() -> None:
    variances = []
    for scale in (AttentionScale.none, AttentionScale.sqrt_d_head):
        model = build(Design(attention_scale=scale))
        with torch.no_grad(), probes.record_attention(model) as records:
            model.encode(SOURCE, LENGTHS)
        variances.append(probes.score_variance(records[0]))
    assert variances[0] / variances[1] == pytest.approx(TINY.d_key)


def test_query_and_key_gradients_are_those_of_the_weights() -> None:
    model = build(Design())
    assert set(probes.query_key_gradients(model).values()) == {0.0}
    model(SOURCE, LENGTHS, TARGET).sin().sum().backward()
    layer = model.decoder.blocks[1].cross_attention
    both = torch.cat([layer.query.weight.grad, layer.key.weight.grad])
    found = probes.query_key_gradients(model)
    assert len(found) == 6
    assert found["decoder.blocks.1.cross_attention"] == pytest.approx(both.norm().item())


X = torch.randn(3, 6, 16, generator=torch.Generator().manual_seed(0), dtype=torch.double)


def moving_mean(x: Tensor, *, ahead: int) -> Tensor:
    """Each place plus what stands so many places after it."""
    return x + x.roll(-ahead, dims=1)


def test_a_function_that_looks_ahead_leaks() -> None:
    found = probes.causal_leak(partial(moving_mean, ahead=1), X, position=2)
    assert found.perturbation > 0.1
    assert found.gradient > 0.1
    assert probes.causal_leak(torch.sin, X, position=2) == probes.Leak(0, 0)
    with pytest.raises(ValueError, match="at least one hidden"):
        probes.causal_leak(torch.sin, X, position=5)


def test_a_leak_is_seen_through_a_layer_norm() -> None:
    """The plain sum of its outputs is constant, so that its gradient would be blind."""
    mean = nn.LayerNorm(16).double()
    found = probes.causal_leak(lambda x: mean(moving_mean(x, ahead=1)), X, position=2)
    assert found.gradient > 0.1


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("position", Position)
def test_the_leaky_mask_is_caught_and_the_correct_one_is_not(
    position: Position, explicit: bool
) -> None:
    largest = []
    for level in CausalMask:
        model = build(Design(position=position, causal_mask=level))
        memory, memory_mask = model.encode(SOURCE, LENGTHS)
        states = partial(
            model.decoder,
            mask=AttentionMask(causal=model.decodes_causally),
            memory=memory.detach(),
            memory_mask=memory_mask,
        )
        with probes.record_attention(model) if explicit else torch.enable_grad():
            largest.append(probes.causal_leak(states, X, position=3).largest)
    assert largest[0] < 1e-12
    assert largest[1] > 1e-3


def test_padding_that_is_seen_is_caught() -> None:
    model = build(Design())
    real = torch.arange(6) < torch.tensor([6, 4, 2])[:, None]
    hidden = AttentionMask(keep=real[:, None, None])
    found = [
        probes.padding_leak(partial(model.encoder, mask=mask), X, real=real).largest
        for mask in (hidden, AttentionMask())
    ]
    assert found[0] < 1e-12
    assert found[1] > 1e-3


def test_an_encoder_without_positions_is_equivariant() -> None:
    order = torch.tensor([3, 0, 5, 1, 2, 4])
    found = {
        position: probes.permutation_difference(
            partial(build(Design(position=position)).encoder, mask=AttentionMask()), X, order=order
        )
        for position in Position
    }
    assert found.pop(Position.none) < 1e-12
    assert min(found.values()) > 1e-3


def test_cached_decoding_differs_where_a_level_breaks_it() -> None:
    batch = (SOURCE, LENGTHS, TARGET, TARGET_LENGTHS)
    with torch.no_grad():
        assert probes.cached_difference(build(Design()), *batch) < 1e-12
        leaky = build(Design(causal_mask=CausalMask.leaky))
        assert probes.cached_difference(leaky, *batch) > 1e-3


def test_cached_decoding_is_compared_at_every_real_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A cache that forgets where it stands is right at the first token only."""
    of, model = Placement.of, build(Design())
    monkeypatch.setattr(Placement, "of", lambda *schemes, **at: of(*schemes, **{**at, "start": 0}))
    with torch.no_grad():
        found = [
            probes.cached_difference(model, SOURCE, LENGTHS, TARGET, torch.full((3,), length))
            for length in (1, 6)
        ]
    assert found[0] < 1e-12
    assert found[1] > 1e-3


FORMATS = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_mask_levels_in_each_format(dtype: torch.dtype) -> None:
    found = {method: mask_behaviour(method, dtype) for method in MaskMethod}
    refused = {method for method, behaviour in found.items() if behaviour.refused}
    assert refused == ({MaskMethod.minus_1e9} if dtype is torch.float16 else set())
    finite = {MaskMethod.minus_1e9, MaskMethod.dtype_min} - refused
    for method in finite | {MaskMethod.minus_inf}:
        assert (found[method].differing, found[method].hidden_weight) == (0, 0)
        assert found[method].compared == 2 * 4 * 31 * 16
        assert found[method].empty_row == (1 / 32 if method in finite else 0)
    assert found[MaskMethod.post_softmax].largest > 0.1
    assert found[MaskMethod.post_softmax_renormalised].largest < 0.02
