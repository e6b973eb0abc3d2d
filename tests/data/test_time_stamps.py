"""Time stamps: what is a time, summer time, gaps and repetitions."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.time_stamps import on_a_grid, parse_stamps

BERLIN = "Europe/Berlin"


def parse(texts: list[str], timezone: str = "") -> pd.DatetimeIndex:
    return parse_stamps(texts, list(range(2, len(texts) + 2)), timezone=timezone)


def grid(texts: list[str], timezone: str = "", fill: bool = False):
    stamps = parse(texts, timezone)
    return on_a_grid(stamps, list(range(2, len(texts) + 2)), timezone=timezone, fill=fill)


def hours(first: str, n: int) -> list[str]:
    return [str(stamp) for stamp in pd.date_range(first, periods=n, freq="h")]


def local_hours(first: str, n: int) -> list[str]:
    """What a clock in Berlin shows."""
    stamps = pd.date_range(first, periods=n, freq="h", tz=BERLIN)
    return stamps.tz_localize(None).astype(str).tolist()


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "now", "31.12.2016 01:00", "01/02/2016", "2016-02-30", "1467331200", "nan"],
)
def test_what_is_no_iso_date_is_refused_by_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^line 3: .* is no date; write YYYY-MM-DD"):
        parse(["2016-07-01 00:00", text])


@pytest.mark.parametrize("text", ["2016-07-01", "2016-07-01 00:00", "2016-07-01T00:00:00.000"])
def test_ways_to_write_a_time(text: str) -> None:
    assert parse([text]) == pd.DatetimeIndex(["2016-07-01"])


@pytest.mark.parametrize("offset", ["Z", "z", "+00:00", "+0000", "+00"])
def test_an_offset_needs_a_zone(offset: str) -> None:
    texts = [f"2016-07-01T0{i}:00:00{offset}" for i in range(3)]
    with pytest.raises(ValueError, match=r"^line 2: .*offset from UTC.*data\.timezone"):
        parse(texts)
    if offset != "z":
        assert parse(texts, BERLIN)[0] == pd.Timestamp("2016-07-01 02:00", tz=BERLIN)


def test_offsets_in_some_rows_only_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^line 3: '2016-07-01 01:00' has no offset"):
        parse(["2016-07-01 00:00Z", "2016-07-01 01:00"], "UTC")


def test_a_year_of_local_time_is_regular_in_its_zone_only() -> None:
    texts = local_hours("2021-01-01", 8760)
    read = grid(texts, BERLIN)
    assert (len(read.stamps), read.step, read.n_repeated, read.n_filled) == (8760, "1:00:00", 0, 0)
    assert read.stamps.tz_localize(None).astype(str).tolist() == texts
    with pytest.raises(ValueError, match=r"repeats.*line 7276 \(2021-10-31 02:00.*data\.timezone"):
        grid(texts)


def test_the_hour_in_spring_is_a_gap_without_a_zone() -> None:
    texts = local_hours("2021-03-27 22:00", 10)
    with pytest.raises(ValueError, match=r"more than 1:00:00 after .* line 6 \(2021-03-28 03:00"):
        grid(texts)
    assert len(grid(texts, BERLIN).stamps) == 10


def test_a_time_that_the_clock_skipped_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^line 4: .*02:00:00' does not exist in Europe/Berlin"):
        parse(hours("2021-03-28 00:00", 4), BERLIN)


def test_an_autumn_hour_that_comes_once_leaves_a_gap() -> None:
    texts = local_hours("2021-10-31 00:00", 6)
    del texts[3]
    with pytest.raises(ValueError, match=r"more than 1:00:00 after"):
        grid(texts, BERLIN)


def test_filling_steps_over_the_change_of_the_clock() -> None:
    texts = local_hours("2021-03-27 22:00", 10)
    read = grid(texts[:2] + texts[5:], BERLIN, fill=True)
    assert [str(stamp.tz_localize(None)) for stamp in read.stamps] == texts
    assert read.rows.tolist() == [0, 1, 1, 1, 1, 2, 3, 4, 5, 6]


def test_rows_out_of_order_are_named_and_never_sorted() -> None:
    texts = hours("2016-07-01", 6)
    texts[2], texts[3] = texts[3], texts[2]
    for fill in (False, True):
        with pytest.raises(ValueError, match=r"goes back in time in line 5 \(2016-07-01 02.*sort"):
            grid(texts, fill=fill)


def test_a_repeated_row_is_named_or_left_out_and_counted() -> None:
    texts = hours("2016-07-01", 6)
    texts.insert(3, texts[2])
    with pytest.raises(
        ValueError, match=r"repeats the stamp before in line 5 .*data\.fill=forward"
    ):
        grid(texts)
    read = grid(texts, fill=True)
    assert read.rows.tolist() == [0, 1, 2, 4, 5, 6]
    assert (read.n_repeated, read.n_filled) == (1, 0)


def test_missing_rows_are_named_or_filled_and_counted() -> None:
    texts = hours("2016-07-01", 8)
    del texts[3:5]
    with pytest.raises(ValueError, match=r"more than 1:00:00 after the row before in line 5 "):
        grid(texts)
    read = grid(texts, fill=True)
    assert read.rows.tolist() == [0, 1, 2, 2, 2, 3, 4, 5]
    assert (read.n_repeated, read.n_filled) == (0, 2)


def test_a_time_between_the_steps_is_always_refused() -> None:
    texts = hours("2016-07-01", 6)
    texts[3] = "2016-07-01 03:10:00"
    with pytest.raises(ValueError, match=r"off the step of 1:00:00 in line 5 .*, 6 "):
        grid(texts, fill=True)


def test_many_places_are_counted_not_listed() -> None:
    texts = hours("2016-07-01", 60)
    del texts[1::4]
    with pytest.raises(ValueError, match=r" and 10 more; data\.fill") as refused:
        grid(texts)
    assert "\n" not in str(refused.value)


def test_a_wrong_century_is_not_filled_up() -> None:
    with pytest.raises(ValueError, match="more than the 5 rows there are; correct"):
        grid([*hours("2016-07-01", 4), "2106-07-01 04:00:00"], fill=True)


@pytest.mark.parametrize(
    ("freq", "step"), [("MS", "MS"), ("B", "B"), ("W-SUN", "7 days, 0:00:00"), ("15min", "0:15:00")]
)
def test_other_steps(freq: str, step: str) -> None:
    texts = [str(stamp) for stamp in pd.date_range("2016-01-03", periods=40, freq=freq)]
    assert grid(texts).step == step


def test_office_hours_are_not_taken_for_regular() -> None:
    """Nights would vanish from the windows."""
    texts = [str(s) for s in pd.date_range("2016-01-04", periods=72, freq="h") if 8 < s.hour < 17]
    with pytest.raises(ValueError, match="more than 1:00:00 after"):
        grid(texts)


def test_one_time_only_is_no_series() -> None:
    with pytest.raises(ValueError, match="no two different time stamps"):
        grid(["2016-07-01"] * 3, fill=True)


@given(
    counts=st.lists(st.integers(0, 3), min_size=4, max_size=60).filter(
        lambda counts: counts[0] and counts[-1] and sum(map(bool, counts)) > 0.7 * len(counts)
    )
)
def test_filling_gives_every_hour_once(counts: list[int]) -> None:
    """Each hour comes `counts[hour]` times in the file."""
    every = hours("2016-07-01", len(counts))
    texts = [text for text, count in zip(every, counts, strict=True) for _ in range(count)]
    read = grid(texts, fill=True)
    assert [str(stamp) for stamp in read.stamps] == every
    assert read.n_filled == counts.count(0)
    assert read.n_repeated == len(texts) - sum(map(bool, counts))
    for hour, row in enumerate(read.rows):
        known = max(h for h in range(hour + 1) if counts[h])
        assert row == np.sum(counts[:known])
