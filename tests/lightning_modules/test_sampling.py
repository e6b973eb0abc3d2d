"""Choosing tokens, against sets worked out by hand; repetition counted plainly."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from data.batches import PAD_ID
from lightning_modules.sampling import (
    Sampling,
    choose,
    distinct_n,
    keep_top_k,
    keep_top_p,
    repetition_rate,
    without_repeats,
)

NOTHING = torch.zeros(1, 0, dtype=torch.long)
DRAWING = Sampling(temperature=1.3, top_k=9, top_p=0.9, no_repeat_ngram=2)
LOGITS = st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=12)


def logits_of(*probabilities: float) -> Tensor:
    return torch.tensor([probabilities], dtype=torch.double).log()


def kept(logits: Tensor) -> list[set[int]]:
    return [set((row > -math.inf).nonzero().flatten().tolist()) for row in logits]


@pytest.mark.parametrize(
    ("k", "expected"), [(1, {1}), (2, {1, 3}), (3, {0, 1, 3}), (9, {0, 1, 2, 3})]
)
def test_top_k_by_hand(k: int, expected: set[int]) -> None:
    assert kept(keep_top_k(logits_of(0.2, 0.4, 0.1, 0.3), k=k)) == [expected]


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.01, {1}),
        (0.39, {1}),
        (0.41, {1, 3}),
        (0.69, {1, 3}),
        (0.71, {0, 1, 3}),
        (0.95, {0, 1, 2, 3}),
    ],
)
def test_top_p_by_hand(p: float, expected: set[int]) -> None:
    """The fewest tokens that reach `p`: Holtzman et al. 2020, equation 2."""
    assert kept(keep_top_p(logits_of(0.2, 0.4, 0.1, 0.3), p=p)) == [expected]


def test_equal_tokens_are_taken_in_their_order() -> None:
    even = logits_of(0.25, 0.25, 0.25, 0.25)
    assert kept(keep_top_k(even, k=2)) == [{0, 1}]
    assert kept(keep_top_p(even, p=0.5)) == [{0, 1}]


@given(LOGITS, st.integers(1, 12), st.floats(0.01, 0.99))
def test_what_is_kept_is_unchanged_and_the_most_probable(
    values: list[float], k: int, p: float
) -> None:
    logits = torch.tensor([values], dtype=torch.double)
    for narrowed in (keep_top_k(logits, k=k), keep_top_p(logits, p=p)):
        stays = narrowed > -math.inf
        assert torch.equal(narrowed[stays], logits[stays])
        assert int(logits.argmax()) in kept(narrowed)[0]
        if not stays.all():
            assert logits[stays].min() >= logits[~stays].max()
    assert len(kept(keep_top_k(logits, k=k))[0]) == min(k, len(values))
    nucleus = logits.softmax(-1)[keep_top_p(logits, p=p) > -math.inf]
    assert nucleus.sum() >= p - 1e-12
    assert nucleus.sum() - nucleus.min() < p + 1e-12


@pytest.mark.parametrize(
    ("n", "banned"),
    [(1, {4, 5, 6}), (2, {5, 6}), (3, {6}), (4, set())],
)
def test_blocked_ngrams_by_hand(n: int, banned: set[int]) -> None:
    """After `4 5 4 6 5 4`: the pairs begun by 4, the triple begun by 5 4."""
    history = torch.tensor([[4, 5, 4, 6, 5, 4]])
    assert kept(without_repeats(torch.zeros(1, 8), history=history, n=n)) == [
        set(range(8)) - banned
    ]


@given(st.lists(st.integers(4, 6), min_size=0, max_size=12), st.integers(1, 4), st.integers(0, 3))
def test_blocking_stops_exactly_the_tokens_that_repeat(ids: list[int], n: int, pads: int) -> None:
    """Also where the row began later than its neighbours, with padding on the left."""
    history = torch.tensor([[PAD_ID] * pads + ids], dtype=torch.long)
    allowed = kept(without_repeats(torch.zeros(1, 8), history=history, n=n))[0] - {PAD_ID}

    def repeats(token: int) -> bool:
        longer = [*ids, token]
        ngrams = [tuple(longer[i : i + n]) for i in range(len(longer) - n + 1)]
        return bool(ngrams) and ngrams[-1] in ngrams[:-1]

    assert allowed == {token for token in range(1, 8) if not repeats(token)}


def test_each_row_is_blocked_by_its_own_history() -> None:
    history = torch.tensor([[4, 5, 4], [5, 5, 5]])
    assert kept(without_repeats(torch.zeros(2, 6), history=history, n=2)) == [
        {0, 1, 2, 3, 4},
        {0, 1, 2, 3, 4},
    ]
    assert kept(without_repeats(torch.zeros(2, 6), history=history, n=1)) == [
        {0, 1, 2, 3},
        {0, 1, 2, 3, 4},
    ]


def drawn(logits: Tensor, sampling: Sampling, *, n: int = 4000) -> Tensor:
    """Share of each token among many draws."""
    generator = torch.Generator().manual_seed(0)
    rows, history = logits.expand(n, -1), NOTHING.expand(n, 0)
    chosen = choose(rows, history=history, sampling=sampling, generator=generator)
    return torch.bincount(chosen, minlength=logits.shape[1]) / n


def test_draws_follow_the_tempered_probabilities() -> None:
    logits = logits_of(0.1, 0.2, 0.7)
    for temperature in (0.5, 1.0, 2.0):
        powered = torch.tensor([0.1, 0.2, 0.7]) ** (1 / temperature)
        shares = drawn(logits, Sampling(temperature=temperature))
        assert shares.tolist() == pytest.approx((powered / powered.sum()).tolist(), abs=0.03)


def test_temperature_acts_before_top_p() -> None:
    """At 2 the probabilities .81, .09, .09, .01 become .6, .2, .2, .07: the nucleus grows."""
    logits = logits_of(0.81, 0.09, 0.09, 0.01)
    assert (drawn(logits, Sampling(temperature=1.0, top_p=0.8)) > 0).tolist() == [1, 0, 0, 0]
    assert (drawn(logits, Sampling(temperature=2.0, top_p=0.8)) > 0).tolist() == [1, 1, 1, 0]


def test_top_k_acts_before_top_p() -> None:
    """Of .4 .3 .2 .1 the two first become .57 and .43: .5 is reached by one."""
    logits = logits_of(0.4, 0.3, 0.2, 0.1)
    assert (drawn(logits, Sampling(temperature=1.0, top_p=0.5)) > 0).tolist() == [1, 1, 0, 0]
    both = Sampling(temperature=1.0, top_p=0.5, top_k=2)
    assert (drawn(logits, both) > 0).tolist() == [1, 0, 0, 0]


def test_choosing_leaves_the_logits_alone() -> None:
    logits = logits_of(0.4, 0.3, 0.2, 0.1)
    before = logits.clone()
    choose(logits, history=torch.tensor([[0, 1, 0]]), sampling=DRAWING)
    assert torch.equal(logits, before)
    assert choose(logits, history=NOTHING, sampling=Sampling()).tolist() == [0]
    greedy = Sampling(no_repeat_ngram=1)
    assert choose(logits, history=torch.tensor([[0]]), sampling=greedy).tolist() == [1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": -1.0}, r"sampling\.temperature=-1\.0 must be a number of at least 0"),
        ({"temperature": math.nan}, r"sampling\.temperature=nan must be"),
        ({"top_k": -2}, r"sampling\.top_k=-2 must be"),
        ({"no_repeat_ngram": -1}, r"sampling\.no_repeat_ngram=-1 must be"),
        ({"top_p": 0.0}, r"sampling\.top_p=0\.0 must be above 0 and at most 1"),
        ({"top_p": 1.5}, r"sampling\.top_p=1\.5 must be above 0"),
        ({"top_k": 5}, r"sampling\.temperature=0 takes the most probable token, so"),
        ({"top_p": 0.9}, r"top_p=0\.9 would do nothing; give a temperature above 0"),
    ],
)
def test_senseless_rules_are_refused(values: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Sampling(**values)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_repetition_by_hand() -> None:
    assert repetition_rate([4, 5, 4, 5, 4, 5], n=2) == pytest.approx(3 / 5)
    assert repetition_rate([7] * 7) == pytest.approx(3 / 4)
    assert repetition_rate([4, 5, 6]) == 0
    assert repetition_rate([], n=1) == 0


def test_distinct_by_hand() -> None:
    """Over all rows together: 3 different tokens and 3 different pairs of 7 tokens."""
    rows = [[4, 5, 4, 5], [4, 5, 6]]
    assert distinct_n(rows, n=1) == pytest.approx(3 / 7)
    assert distinct_n(rows, n=2) == pytest.approx(3 / 7)
    assert distinct_n([[], []], n=1) == 0


@given(st.lists(st.integers(4, 7), max_size=20), st.integers(1, 4))
def test_repetition_counts_what_stood_before(ids: list[int], n: int) -> None:
    ngrams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    again = sum(ngram in ngrams[:i] for i, ngram in enumerate(ngrams))
    assert repetition_rate(ids, n=n) == pytest.approx(again / len(ngrams) if ngrams else 0)
