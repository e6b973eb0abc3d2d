"""Greedy and beam search against searches without a cache, written out plainly."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from data.batches import BOS_ID, EOS_ID
from lightning_modules.axes.positions import Position
from lightning_modules.decoding import NEVER_GENERATED, beam_search, greedy_search
from lightning_modules.design import Design
from lightning_modules.transformer import EncoderDecoder
from tests.lightning_modules.designs import build, tokens

LENGTHS = torch.tensor([7, 5, 3])
LONGEST = 6


def model(position: Position) -> EncoderDecoder:
    """Random weights large enough that rows end at different times."""
    built = build(Design(position=position), seed=3)
    for parameter in built.parameters():
        nn.init.normal_(parameter, std=0.4)
    return built


def log_probabilities(built: EncoderDecoder, row: int, prefix: list[int]) -> list[float]:
    """Of the next token, by a full pass over one unpadded row."""
    source = tokens(3, 7)[[row], : int(LENGTHS[row])]
    target = torch.tensor([[BOS_ID, *prefix]])
    states = built(source, LENGTHS[[row]], target)
    values = built.logits(states[0, -1]).log_softmax(-1)
    values[NEVER_GENERATED] = -math.inf
    return values.tolist()


def plain_beam(built: EncoderDecoder, row: int, beam_size: int) -> list[int]:
    """Beam search in lists, with the same rules."""
    open_ones: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    for length in range(1, LONGEST + 1):
        longer = sorted(
            (
                (total + value, [*ids, token])
                for total, ids in open_ones
                for token, value in enumerate(log_probabilities(built, row, ids))
                if value > -math.inf
            ),
            reverse=True,
        )[: 2 * beam_size]
        ended += [(s / length, ids[:-1]) for s, ids in longer[:beam_size] if ids[-1] == EOS_ID]
        open_ones = [(s, ids) for s, ids in longer if ids[-1] != EOS_ID][:beam_size]
        if len(ended) >= beam_size and max(ended)[0] >= open_ones[0][0] / (length + 1):
            break
    return max(ended)[1] if ended else open_ones[0][1]


@pytest.mark.parametrize("position", Position)
def test_greedy_equals_a_search_without_cache(position: Position) -> None:
    built, sources = model(position), (tokens(3, 7), LENGTHS)
    with torch.no_grad():
        found = greedy_search(built, *sources, longest=LONGEST)
        assert found == [plain_beam(built, row, 1) for row in range(3)]
        assert found == greedy_search(built, *sources, longest=LONGEST, cached=False)


def test_without_the_cache_every_step_reads_from_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built, read = model(Position.sinusoidal), []
    decode = built.decode
    monkeypatch.setattr(
        built,
        "decode",
        lambda target, **rest: read.append(target.shape[1]) or decode(target, **rest),
    )
    for cached in (True, False):
        greedy_search(built, tokens(3, 7), LENGTHS, longest=3, cached=cached)
    assert read == [1, 1, 1, 1, 2, 3]


@pytest.mark.parametrize("position", [Position.sinusoidal, Position.alibi])
@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_beam_equals_a_search_without_cache(position: Position, beam_size: int) -> None:
    built = model(position)
    with torch.no_grad():
        found = beam_search(built, tokens(3, 7), LENGTHS, beam_size=beam_size, longest=LONGEST)
        assert found == [plain_beam(built, row, beam_size) for row in range(3)]


def test_the_rows_do_not_depend_on_their_neighbours() -> None:
    built = model(Position.rope)
    together = beam_search(built, tokens(3, 7), LENGTHS, beam_size=3, longest=LONGEST)
    alone = beam_search(built, tokens(3, 7)[[2], :3], LENGTHS[[2]], beam_size=3, longest=LONGEST)
    assert together[2] == alone[0]


@pytest.mark.parametrize("search", [greedy_search, partial(beam_search, beam_size=3)])
def test_a_row_that_never_ends_does_not_depend_on_its_neighbours(
    search: Callable[..., list[list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = model(Position.sinusoidal)
    endless = type(built).logits

    def without_end(self: EncoderDecoder, states: torch.Tensor) -> torch.Tensor:
        logits = endless(self, states)
        logits[..., EOS_ID] = -math.inf
        return logits

    monkeypatch.setattr(type(built), "logits", without_end)
    source = tokens(3, 7)
    together = search(built, source, LENGTHS)
    assert [len(row) for row in together] == [24, 20, 16]
    assert search(built, source[2:, :3], LENGTHS[2:]) == [together[2]]
