"""Maps of a model against what its probes keep, and their statistics by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from data.batches import ForecastingBatch
from lightning_modules.attention_maps import AttentionMap, attention_maps, map_statistics
from lightning_modules.cache import Cache
from lightning_modules.design import Design, Dims
from lightning_modules.forecaster import ForecastVariant, TransformerForecaster
from lightning_modules.readouts import Readout, WindowShape
from tests.lightning_modules.designs import build, tokens

SOURCE, LENGTHS, TARGET = tokens(2, 7), torch.tensor([7, 7]), tokens(2, 5, seed=1)


def test_there_is_a_map_for_every_layer_of_every_stack() -> None:
    model = build(Design())
    maps = attention_maps(model, lambda: model(SOURCE, LENGTHS, TARGET), row=1)
    assert [(found.stack, found.layer, tuple(found.weights.shape)) for found in maps] == [
        ("encoder", 0, (4, 7, 7)),
        ("encoder", 1, (4, 7, 7)),
        ("decoder-self", 0, (4, 5, 5)),
        ("decoder-self", 1, (4, 5, 5)),
        ("decoder-cross", 0, (4, 5, 7)),
        ("decoder-cross", 1, (4, 5, 7)),
    ]
    for found in maps:
        torch.testing.assert_close(found.weights.sum(-1), torch.ones_like(found.weights[..., 0]))
    alone = attention_maps(model, lambda: model(SOURCE[1:], LENGTHS[1:], TARGET[1:]))
    for found, expected in zip(maps, alone, strict=True):
        torch.testing.assert_close(found.weights, expected.weights)


def test_steps_over_a_cache_make_the_map_of_one_pass() -> None:
    model = build(Design())

    def step_by_step() -> None:
        memory, mask = model.encode(SOURCE, LENGTHS)
        cache = Cache(len(model.decoder.blocks))
        for token in TARGET.split(1, dim=1):
            model.decode(token, memory=memory, memory_mask=mask, cache=cache)

    stepped = attention_maps(model, step_by_step)
    whole = attention_maps(model, lambda: model(SOURCE, LENGTHS, TARGET))
    for found, expected in zip(stepped, whole, strict=True):
        assert (found.stack, found.layer) == (expected.stack, expected.layer)
        torch.testing.assert_close(found.weights, expected.weights)


@pytest.mark.parametrize("readout", Readout)
def test_a_forecaster_has_maps_over_its_patches(readout: Readout) -> None:
    shape = WindowShape(lookback=40, horizon=3, n_channels=2, n_time_features=0)
    dims = Dims(d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1)
    variant = ForecastVariant(readout=readout)
    model = TransformerForecaster(shape, design=Design(), dims=dims, variant=variant).eval()
    batch = ForecastingBatch(
        past=torch.randn(1, 40, 2),
        future=torch.randn(1, 3, 2),
        past_time=torch.empty(1, 40, 0),
        future_time=torch.empty(1, 3, 0),
        indices=torch.tensor([0]),
    )
    shapes = {m.stack: tuple(m.weights.shape) for m in attention_maps(model, lambda: model(batch))}
    assert shapes.pop("encoder") == (2, 5, 5)
    decodes = {"decoder-self": (2, 3, 3), "decoder-cross": (2, 3, 5)}
    assert shapes == ({} if readout is Readout.head else decodes)
    assert [stop for _, stop in model.tokens.spans(40)] == [16, 24, 32, 40, 48]


def test_a_model_without_attention_has_no_maps() -> None:
    model = nn.Linear(2, 2)
    assert attention_maps(model, lambda: model(torch.zeros(1, 2))) == []


@given(n_keys=st.integers(1, 30))
def test_even_attention_has_the_entropy_of_its_keys_in_bits(n_keys: int) -> None:
    even = torch.full((1, n_keys, n_keys), 1 / n_keys, dtype=torch.double)
    found = map_statistics(AttentionMap("encoder", 0, even))
    assert found.entropy.item() == pytest.approx(math.log2(n_keys), abs=1e-9)
    assert found.diagonal.item() == pytest.approx(1 / n_keys)


def test_where_the_heads_of_a_map_look() -> None:
    itself = torch.eye(4)
    before = torch.roll(itself, 1, dims=0)
    before[0] = torch.tensor([1.0, 0, 0, 0])
    found = map_statistics(AttentionMap("decoder-self", 0, torch.stack([itself, before])))
    assert found.entropy.tolist() == [0, 0]
    assert found.distance.tolist() == [0, 0.75]
    assert found.previous_token.tolist() == [0, 1]
    assert found.diagonal.tolist() == [1, 0.25]


def test_tokens_of_another_sequence_are_neither_itself_nor_the_one_before() -> None:
    weights = torch.eye(4)[None]
    found = map_statistics(AttentionMap("decoder-cross", 0, weights))
    assert (found.entropy.item(), found.distance.item()) == (0, 0)
    assert found.previous_token.isnan().all()
    assert found.diagonal.isnan().all()
