"""Every level of every axis is documented, can be stored, and equals its oracle."""

import pickle

import pytest
import torch
from torch import nn

from lightning_modules.axes.attention import AttentionScale, MaskMethod
from lightning_modules.axes.norms import NormPosition
from lightning_modules.axes.positions import Position, alibi_slopes, sinusoids
from lightning_modules.axis import Axis
from lightning_modules.design import AXES, Design
from tests import oracles
from tests.lightning_modules.designs import ALL_LEVELS, TINY, build, tokens


def scheme(level: Position, *, d_model: int = 16, n_heads: int = 4) -> nn.Module:
    return level(d_model=d_model, n_heads=n_heads, max_length=64).double()


@pytest.mark.parametrize(("axis", "level"), ALL_LEVELS)
def test_level_is_documented_and_has_an_oracle(axis: str, level: Axis) -> None:
    assert level.value.why
    assert level.value.source
    assert level.name in oracles.ORACLES[axis], f"no oracle for {axis} {level}"


@pytest.mark.parametrize(("axis", "level"), ALL_LEVELS)
def test_level_round_trips_by_name(axis: str, level: Axis) -> None:
    assert AXES[axis](level.name) is level
    assert pickle.loads(pickle.dumps(level)) is level
    assert level.name.encode() in pickle.dumps(level)


@pytest.mark.parametrize("axis", AXES)
def test_unknown_level_names_the_legal_ones(axis: str) -> None:
    with pytest.raises(ValueError, match=", ".join(AXES[axis].__members__)):
        AXES[axis]("no_such_level")


@pytest.mark.parametrize("axis", AXES)
def test_first_level_is_the_baseline(axis: str) -> None:
    assert getattr(Design(), axis) is next(iter(AXES[axis]))


@pytest.mark.parametrize(("axis", "level"), ALL_LEVELS)
def test_no_level_is_dead(axis: str, level: Axis) -> None:
    """Each level changes the output, or the parameters, relative to the baseline."""
    if getattr(Design(), axis) is level:
        return
    baseline, other = build(Design()), build(Design(**{axis: level}))
    source, target = tokens(2, 5), tokens(2, 6, seed=1)
    lengths = torch.tensor([5, 3])
    same_shapes = [p.shape for p in baseline.parameters()] == [p.shape for p in other.parameters()]
    outputs = [model(source, lengths, target) for model in (baseline, other)]
    if level is MaskMethod.minus_1e9:
        # The same numbers wherever a query has a key; the difference is a query that has none.
        outputs = [model(source, torch.tensor([5, 0]), target) for model in (baseline, other)]
    assert not (same_shapes and torch.allclose(*outputs, atol=1e-6))


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


@pytest.mark.parametrize("level", NormPosition)
def test_norm_position(level: NormPosition) -> None:
    torch.manual_seed(0)
    wiring, sublayer = level(lambda: nn.LayerNorm(8), nn.Identity()), nn.Linear(8, 8)
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(wiring(x, sublayer), oracles.WIRINGS[level.name](x, sublayer))


@pytest.mark.parametrize("level", AXES["norm_sharing"])
def test_norm_sharing_counts(level: Axis) -> None:
    block = build(Design(norm_sharing=level)).decoder.blocks[0]
    norms = {id(module) for module in block.modules() if isinstance(module, nn.LayerNorm)}
    assert len(norms) == oracles.NORMS_PER_BLOCK[level.name]


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
    x = torch.zeros(2, 5, 16, dtype=torch.double)
    rows = learned.embed(x, torch.arange(3, 8))
    assert torch.equal(rows[1], learned.table.weight[3:8])


def test_learned_positions_refuse_what_lies_beyond_the_table() -> None:
    model = build(Design(position=Position.learned))
    with pytest.raises(ValueError, match=r"not defined beyond 64 tokens.*dims\.max_length"):
        model(tokens(1, 65), torch.tensor([65]), tokens(1, 3))


def test_no_positions_leave_everything_as_it_is() -> None:
    none, x = scheme(Position.none), torch.randn(2, 4, 5, 4)
    assert none.embed(x, torch.arange(5)) is x
    assert none.rotate(x, torch.arange(5)) is x
    assert none.bias(torch.arange(5), torch.arange(5)) is None


def test_rope_rotates_as_complex_numbers() -> None:
    heads = torch.randn(1, 1, 6, 8, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    turned = scheme(Position.rope, d_model=8, n_heads=1).rotate(heads, torch.arange(2, 8))
    expected = [oracles.rotated(row, p + 2) for p, row in enumerate(heads[0, 0].tolist())]
    torch.testing.assert_close(
        turned[0, 0], torch.tensor(expected, dtype=torch.double), atol=1e-6, rtol=1e-6
    )


def test_rope_scores_depend_on_the_distance_only() -> None:
    rope = scheme(Position.rope, d_model=32, n_heads=4)
    query, key = torch.randn(2, 1, 4, 1, 8, dtype=torch.double)

    def score(query_position: int, key_position: int) -> torch.Tensor:
        turned = rope.rotate(query, torch.tensor([query_position]))
        return (turned * rope.rotate(key, torch.tensor([key_position]))).sum(-1)

    torch.testing.assert_close(score(3, 7), score(13, 17), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(score(3, 7), score(3, 8))


@pytest.mark.parametrize("n_heads", oracles.ALIBI_SLOPES)
def test_alibi_slopes(n_heads: int) -> None:
    assert alibi_slopes(n_heads) == pytest.approx(oracles.ALIBI_SLOPES[n_heads])


def test_alibi_bias() -> None:
    bias = scheme(Position.alibi).bias(torch.tensor([4]), torch.arange(5))
    expected = [[[oracles.alibi_bias(4, k, s) for k in range(5)]] for s in oracles.ALIBI_SLOPES[4]]
    torch.testing.assert_close(bias[0], torch.tensor(expected, dtype=torch.double))


def test_tiny_dims_allow_every_level() -> None:
    assert TINY.d_head % 2 == 0
