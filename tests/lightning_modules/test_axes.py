"""Every level of every axis is documented, is stored by name, has an oracle and has an effect."""

import pickle

import pytest
import torch
from torch import Tensor, nn

from lightning_modules.axes.attention import MaskMethod
from lightning_modules.axis import Axis
from lightning_modules.design import AXES, Design
from lightning_modules.transformer import EncoderDecoder
from tests import oracles
from tests.lightning_modules.designs import (
    ALL_LEVELS,
    IN_TRAINING,
    TINY,
    VOCABULARY,
    alone,
    pairwise_cover,
    possible_pairs,
    tokens,
)

INVARIANCES = {"causality", "padding_invariance", "cached_decoding", *IN_TRAINING}


@pytest.mark.parametrize(("axis", "level"), ALL_LEVELS)
def test_level_is_documented_and_has_an_oracle(axis: str, level: Axis) -> None:
    assert level.value.why
    assert level.value.source
    assert level.value.breaks <= INVARIANCES
    assert level.name in oracles.ORACLES[axis], f"no oracle for {axis} {level}"


def test_no_oracle_is_left_over() -> None:
    for axis, levels in oracles.ORACLES.items():
        assert set(levels) == set(AXES[axis].__members__), axis


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


def outcome(design: Design, source: Tensor, lengths: Tensor) -> list[Tensor]:
    """The first parameters, the states, and the states after one update, with one seed."""
    torch.manual_seed(0)
    model = EncoderDecoder(VOCABULARY, design=design, dims=TINY).double().train()
    for stack in (model.encoder, model.decoder):
        stack.position.stretch(3.0)
    first = [nn.utils.parameters_to_vector(model.parameters()).detach()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        states = model(source, lengths, tokens(2, 6, seed=1))
        first.append(states.detach())
        model.logits(states).logsumexp(-1).sum().backward()
        optimizer.step()
    return first


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    return all(
        a.shape == b.shape and torch.allclose(a, b, rtol=1e-9, atol=1e-9)
        for a, b in zip(first, second, strict=True)
    )


# The same function as minus_inf wherever a query has a key and scores are of ordinary size.
ONLY_WITHOUT_A_KEY = (MaskMethod.minus_1e9, MaskMethod.dtype_min)


@pytest.mark.parametrize(("axis", "level"), ALL_LEVELS)
def test_no_level_is_dead(axis: str, level: Axis) -> None:
    """Each level changes parameters, states, or states after an update, against the baseline."""
    reference = {**vars(alone(axis, level)), axis: getattr(Design(), axis)}
    if level is reference[axis] or level is MaskMethod.post_softmax_renormalised:
        return
    lengths = torch.tensor([5, 0 if level in ONLY_WITHOUT_A_KEY else 3])
    designs = (Design(**reference), alone(axis, level))
    results = [outcome(design, tokens(2, 5), lengths) for design in designs]
    assert not same(*results)


def test_renormalised_weights_differ_where_a_hidden_score_outweighs_all_others() -> None:
    scores = torch.tensor([[[[0.0, 1.0, 200.0]]]])
    allowed = torch.tensor([True, True, False])
    weights = {level: level(scores, allowed)[0, 0, 0].tolist() for level in MaskMethod}
    assert weights[MaskMethod.minus_inf][1] == pytest.approx(0.7310586)
    assert weights[MaskMethod.post_softmax_renormalised] == [0, 0, 0]


def test_the_cover_holds_every_possible_pair() -> None:
    covered = {
        frozenset([(a, level), (b, other)])
        for design in pairwise_cover()
        for a, level in vars(design).items()
        for b, other in vars(design).items()
        if a != b
    }
    assert possible_pairs() <= covered
    assert len(pairwise_cover()) < 100
