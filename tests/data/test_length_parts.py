"""Parts of like length: every row once, at the least cost that any cut has."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.length_parts import like_lengths, padding_share, part_cost

LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=9)


def cost(parts: list[list[int]], lengths: list[int], each: int) -> int:
    return sum(len(part) * max(lengths[row] for row in part) + each for part in parts)


def every_cut(rows: list[int]) -> list[list[list[int]]]:
    cuts = range(2 ** (len(rows) - 1))
    places = [[i + 1 for i in range(len(rows) - 1) if cut >> i & 1] for cut in cuts]
    return [[rows[a:b] for a, b in pairwise([0, *ends, len(rows)])] for ends in places]


@given(lengths=LENGTHS, each=st.integers(0, 60))
def test_no_cut_of_the_sorted_rows_costs_less(lengths: list[int], each: int) -> None:
    parts = like_lengths(lengths, part_cost=each)
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    least = min(cost(cut, lengths, each) for cut in every_cut(by_length))
    assert cost(parts, lengths, each) == least


def test_the_longest_come_first_and_rows_keep_their_order() -> None:
    assert like_lengths([3, 90, 3, 80, 3], part_cost=10) == [[1, 3], [0, 2, 4]]


def test_rows_of_one_length_stay_together() -> None:
    assert like_lengths([7] * 50, part_cost=0) == [list(range(50))]


def test_padding_share_by_hand() -> None:
    lengths = [(4, 4), (3, 2), (1, 1)]
    assert part_cost() > 12  # so that three rows are one part
    source, target = padding_share(lengths, [[0, 1, 2]])
    assert (source, target) == (pytest.approx(4 / 12), pytest.approx(5 / 12))


def test_parts_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.length_parts.part_cost", lambda: 128)  # whatever the machine
    lengths = [(2 + i % 17, 2 + (i * 7) % 19) for i in range(2000)]
    source, target = padding_share(lengths, [range(i, i + 250) for i in range(0, 2000, 250)])
    assert source < 1 - sum(source for source, _ in lengths) / (2000 * 18) - 0.1
    assert target < 1 - sum(target for _, target in lengths) / (2000 * 20) - 0.1
