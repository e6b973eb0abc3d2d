"""Position schemes, their injection and their scaling, each against its oracle."""

import dataclasses

import pytest
import torch
from torch import Tensor
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from lightning_modules.axes.injection import PositionInjection, RopeScaling
from lightning_modules.axes.positions import (
    Position,
    PositionScheme,
    alibi_slopes,
    sinusoids,
    t5_bucket,
)
from lightning_modules.design import Design, Dims
from lightning_modules.placement import Placement
from tests import oracles
from tests.lightning_modules.designs import TINY, build, tokens

QUERY = torch.zeros(1, 4, 1, 4, dtype=torch.double)


def scheme(
    level: Position, *, d_model: int = 16, n_heads: int = 4, causal: bool = False, **design: object
) -> PositionScheme:
    dims = Dims(d_model=d_model, n_heads=n_heads, max_length=64)
    return level(Design(position=level, **design), dims, causal=causal).double()


@pytest.mark.parametrize("d_model", [5, 16, 127])
def test_sinusoidal_table(d_model: int) -> None:
    table = sinusoids(torch.arange(40, dtype=torch.double), d_model)
    expected = [[oracles.sinusoid(p, c, d_model) for c in range(d_model)] for p in range(40)]
    torch.testing.assert_close(table, torch.tensor(expected, dtype=torch.double))


def test_sinusoidal_dot_product_depends_on_the_distance_only() -> None:
    table = sinusoids(torch.arange(60, dtype=torch.double), 16)
    for distance in (1, 7, 20):
        products = [table[p] @ table[p + distance] for p in (0, 3, 17, 39)]
        torch.testing.assert_close(products, [products[0]] * 4)


def test_learned_positions_are_rows_of_the_table() -> None:
    learned = scheme(Position.learned)
    assert torch.equal(learned.vectors(torch.arange(3, 8)), learned.table.weight[3:8])


@pytest.mark.parametrize("level", list(Position))
def test_a_level_knows_before_it_is_built_up_to_where_it_is_defined(level: Position) -> None:
    dims = Dims(d_model=16, n_heads=4, max_length=64)
    limit = scheme(level).longest
    assert level.undefined_at(64, dims=dims) == ""
    assert level.undefined_at(65, dims=dims) == (
        f"design.position {level} is not defined beyond dims.max_length 64 tokens"
        if limit == 64
        else ""
    )
    assert limit == (64 if level is Position.learned else None)


@pytest.mark.parametrize("start", [0, 60])
def test_learned_positions_refuse_what_lies_beyond_the_table(start: int) -> None:
    with pytest.raises(ValueError, match=r"not defined beyond 64 tokens.*dims\.max_length"):
        Placement.of(
            scheme(Position.learned), None, start=start, length=65 - start, device=QUERY.device
        )


def test_no_positions_leave_everything_as_it_is() -> None:
    none, x = scheme(Position.none), torch.randn(2, 4, 5, 4)
    assert none.vectors(torch.arange(5)) is None
    assert none.rotate(x, torch.arange(5)) is x
    assert none.bias(x, torch.arange(5), torch.arange(5)) is None
    assert none.longest is None


def heads(length: int, width: int, *, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, 1, length, width, dtype=torch.double, generator=generator)


def test_rope_rotates_as_complex_numbers() -> None:
    x = heads(6, 8)
    turned = scheme(Position.rope, d_model=8, n_heads=1).rotate(x, torch.arange(2, 8))
    expected = [oracles.rotated(row, p + 2) for p, row in enumerate(x[0, 0].tolist())]
    torch.testing.assert_close(
        turned[0, 0], torch.tensor(expected, dtype=torch.double), atol=1e-6, rtol=1e-6
    )


def test_rope_is_that_of_llama() -> None:
    x = heads(6, 8)
    angles = torch.arange(6)[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)
    both = torch.cat([angles, angles], dim=-1).double()[None]
    expected, _ = apply_rotary_pos_emb(x, x, both.cos(), both.sin())
    turned = scheme(Position.rope, d_model=8, n_heads=1).rotate(x, torch.arange(6))
    torch.testing.assert_close(turned, expected, atol=1e-6, rtol=1e-6)


def test_rope_scores_depend_on_the_distance_only() -> None:
    rope = scheme(Position.rope, d_model=32, n_heads=4)
    query, key = heads(1, 8), heads(1, 8, seed=1)

    def score(query_position: int, key_position: int) -> Tensor:
        turned = rope.rotate(query, torch.tensor([query_position]))
        return (turned * rope.rotate(key, torch.tensor([key_position]))).sum(-1)

    torch.testing.assert_close(score(3, 7), score(13, 17), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(score(3, 7), score(3, 8))


@pytest.mark.parametrize("level", RopeScaling)
@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_rope_scaling(level: RopeScaling, factor: float) -> None:
    frequencies = 10000.0 ** (-torch.arange(0, 16, 2, dtype=torch.double) / 16)
    oracle = oracles.ROPE_FREQUENCIES[level.name]
    expected = [oracle(index, 16, factor) for index in range(8)]
    assert level(frequencies, factor).tolist() == pytest.approx(expected)


def test_rope_goes_beyond_training_when_stretched() -> None:
    """Interpolated positions at twice the length turn as far as the trained ones."""
    rope = scheme(Position.rope, rope_scaling=RopeScaling.position_interpolation)
    x = heads(1, 4)
    trained = rope.rotate(x, torch.tensor([10]))
    rope.stretch(2.0)
    torch.testing.assert_close(rope.rotate(x, torch.tensor([20])), trained)


@pytest.mark.parametrize("n_heads", oracles.ALIBI_SLOPES)
def test_alibi_slopes(n_heads: int) -> None:
    assert alibi_slopes(n_heads) == pytest.approx(oracles.ALIBI_SLOPES[n_heads])


@pytest.mark.parametrize("n_heads", [4, 6, 8, 12])
def test_alibi_slopes_are_those_of_bloom(n_heads: int) -> None:
    ones = torch.ones(1, 2)
    theirs = build_alibi_tensor(ones, n_heads, torch.float32)[:, 0, 1]
    torch.testing.assert_close(torch.tensor(alibi_slopes(n_heads)), theirs)


def test_alibi_bias() -> None:
    bias = scheme(Position.alibi).bias(QUERY, torch.tensor([4]), torch.arange(5))
    expected = [[[oracles.alibi_bias(4, k, s) for k in range(5)]] for s in oracles.ALIBI_SLOPES[4]]
    torch.testing.assert_close(bias[0], torch.tensor(expected, dtype=torch.double))


@pytest.mark.parametrize("causal", [True, False])
def test_relative_buckets_are_those_of_t5(causal: bool) -> None:
    offsets = torch.arange(-300, 1 if causal else 301)
    theirs = T5Attention._relative_position_bucket(offsets, bidirectional=not causal)
    assert torch.equal(t5_bucket(offsets, causal=causal), theirs)


def test_relative_bias_is_that_of_its_bucket() -> None:
    relative = scheme(Position.relative, causal=True)
    bias = relative.bias(QUERY, torch.tensor([6]), torch.arange(7))
    assert bias.shape == (1, 4, 1, 7)
    # Near distances have a bucket each.
    for key in range(7):
        assert torch.equal(bias[0, :, 0, key], relative.biases.weight[6 - key])


def test_shaw_adds_a_vector_to_each_key() -> None:
    shaw, query = scheme(Position.shaw), torch.randn(2, 4, 40, 4, dtype=torch.double)
    bias = shaw.bias(query, torch.arange(40), torch.arange(40))
    for i, j in ((0, 0), (3, 5), (39, 2), (0, 39), (20, 4)):
        expected = oracles.shaw_term(query[1, 2], shaw.keys.weight, i, j)
        torch.testing.assert_close(bias[1, 2, i, j], expected)


@pytest.mark.parametrize("level", PositionInjection)
def test_injection(level: PositionInjection) -> None:
    torch.manual_seed(0)
    injection, x, p = level(TINY).double(), torch.randn(2, 5, 16).double(), torch.randn(5, 16)
    p = p.double()
    join = injection.join.weight if level is PositionInjection.concat else torch.zeros(16, 32)
    expected = oracles.INJECTIONS[level.name](x, p, *join.double().split(16, dim=1))
    entered = injection.embed(x, p)
    values = injection.values(entered, p)
    torch.testing.assert_close((entered, values), expected)


def test_positions_in_values_only_cannot_be_matched() -> None:
    """Equal tokens get equal weights in the first layer, wherever they stand."""
    model = build(Design(position_injection=PositionInjection.values_only))
    attention, stack = model.encoder.blocks[0].self_attention, model.encoder
    placement = Placement.of(
        stack.position, stack.injection, start=0, length=5, device=QUERY.device
    )
    x = torch.randn(1, 1, 16, dtype=torch.double).expand(1, 5, 16)
    entered = placement.embed(x)
    torch.testing.assert_close(attention.query(entered)[0, 0], attention.query(entered)[0, 4])
    values = attention.value(placement.value_input(entered))
    assert not torch.allclose(values[0, 0], values[0, 4])


def test_an_encoder_without_positions_is_blind_to_order() -> None:
    order = torch.randperm(7, generator=torch.Generator().manual_seed(0))
    lengths, source = torch.tensor([7, 7, 7]), tokens(3, 7)
    for position in Position:
        model = build(Design(position=position))
        states, shuffled = (model.encode(s, lengths)[0] for s in (source, source[:, order]))
        blind = torch.allclose(states[:, order], shuffled)
        assert blind is (position is Position.none), position


def test_the_numbers_of_a_scheme() -> None:
    dims = dataclasses.replace(TINY, rope_base=100.0, alibi_exponent=4.0)
    rope = Position.rope(Design(position=Position.rope), dims, causal=True)
    assert rope.frequencies.tolist() == pytest.approx([1.0, 0.1])
    alibi = Position.alibi(Design(), dims, causal=True)
    assert alibi.slopes.flatten().tolist() == pytest.approx([2**-1, 2**-2, 2**-3, 2**-4])
