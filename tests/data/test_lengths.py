"""Evaluation lengths written as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.lengths import buckets, canonical_lengths, evaluation_lengths


def read(text: str, trained: int = 10) -> tuple[int, ...]:
    return evaluation_lengths(text, name="data.eval_lengths", trained=trained)


def test_multiples_and_numbers_keep_their_order() -> None:
    assert read("1x 2x 4x 8x") == (10, 20, 40, 80)
    assert read("80, 20,5") == (80, 20, 5)
    assert read("1x,15") == (10, 15)
    assert read("32") == (32,)


@given(st.lists(st.integers(1, 10**6), min_size=1, unique=True))
def test_what_is_written_is_read(lengths: list[int]) -> None:
    assert read(",".join(map(str, lengths))) == tuple(lengths)


@pytest.mark.parametrize("text", ["0", "-3", "x", "0x", "2.5x", "1x twice", "x2", "1e3", "²"])
def test_what_is_no_length_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"data\.eval_lengths=.*neither a whole number above 0"):
        read(text)


def test_nothing_and_twice_are_refused() -> None:
    with pytest.raises(ValueError, match=r"data\.eval_lengths is empty: give lengths"):
        read(" , ")
    with pytest.raises(ValueError, match=r"names the length 20 twice"):
        read("2x 20")


def test_a_multiple_needs_a_trained_length() -> None:
    assert read("5,10", trained=0) == (5, 10)
    with pytest.raises(ValueError, match="2x is a multiple of the trained length, and there is no"):
        read("5 2x", trained=0)


def test_buckets_by_hand() -> None:
    assert buckets([3, 9, 5, 6, 12], [5, 10]) == {5: [0, 2], 10: [1, 3], 12: [4]}
    assert buckets([3, 9], [5, 10]) == {5: [0], 10: [1]}
    assert buckets([7], [5, 10]) == {5: [], 10: [0]}
    assert buckets([7], []) == {}


@given(
    lengths=st.lists(st.integers(1, 50)),
    bounds=st.lists(st.integers(1, 40), min_size=1, unique=True).map(sorted),
)
def test_everything_is_in_the_first_bucket_that_it_fits(
    lengths: list[int], bounds: list[int]
) -> None:
    found = buckets(lengths, bounds)
    assert list(found)[: len(bounds)] == bounds
    for bound, rows in found.items():
        for row in rows:
            assert bound == min(end for end in found if end >= lengths[row])
    assert sorted(row for rows in found.values() for row in rows) == list(range(len(lengths)))


@given(st.lists(st.integers(1, 200), min_size=1, unique=True), st.integers(1, 20))
def test_one_spelling_of_the_same_lengths(lengths: list[int], trained: int) -> None:
    def spell(text: str) -> str:
        return canonical_lengths(text, name="data.eval_lengths", trained=trained)

    found = spell(",".join(map(str, lengths)))
    assert read(found, trained) == tuple(lengths)
    assert spell(found) == found
    assert all(
        part.endswith("x") == (read(part, trained)[0] % trained == 0) for part in found.split()
    )


def test_the_default_spelling_is_the_one() -> None:
    for text in ("1x 2x 4x 8x", "8,16, 32 64", "1x,16 4x 64"):
        assert canonical_lengths(text, name="x", trained=8) == "1x 2x 4x 8x"
