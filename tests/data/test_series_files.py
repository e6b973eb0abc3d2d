"""Tables of numbers: what is read, and what is refused with its line."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.remote import content_digest
from data.series_files import Series, read_series

HEADER = "date,load,wind"
ROWS = (
    "2016-07-01 00:00,1.5,-2",
    "2016-07-01 01:00,2.5,.5",
    "2016-07-01 02:00,3,1e1",
    "2016-07-01 03:00,4.25,+7.",
)
NUMBERS = [[1.5, -2], [2.5, 0.5], [3, 10], [4.25, 7]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "series.csv"


def read(file: Path, content: str | bytes, **options) -> Series:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    choice = {"time_column": "date", "timezone": "", "fill": False} | options
    return read_series(str(file), content_digest(str(file)), **choice)


def lines(*rows: str, header: str = HEADER) -> str:
    return "\n".join([header, *rows, ""])


def test_a_file_by_hand(file: Path) -> None:
    series = read(file, lines(*ROWS))
    assert series.channels == ("load", "wind")
    assert series.values.tolist() == NUMBERS
    assert str(series.stamps[-1]) == "2016-07-01 03:00:00"
    assert series.report == {
        "delimiter": ",",
        "decimal": ".",
        "lines": 4,
        "step": "1:00:00",
        "repeated_stamps": 0,
        "filled_stamps": 0,
        "filled_values": 0,
    }


def semicolons(text: str) -> str:
    return text.replace(",", ";").replace(".", ",")


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda text: text.replace(",", "\t"),
        lambda text: text.replace(",", ";"),
        semicolons,
        lambda text: semicolons(text).replace(";", "\t"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text + "\n\n",
        lambda text: text.rstrip("\n"),
        lambda text: (
            text.replace(",", " , ")
            .replace("date ,", "date,")
            .replace(" , wind", ",wind")
            .replace("date, load", "date,load")
        ),
        lambda text: text.replace("1.5", '"1.5"').replace("date", '"date"'),
    ],
)
def test_ways_to_write_the_same_numbers(file: Path, rewrite) -> None:
    series = read(file, rewrite(lines(*ROWS)))
    assert series.channels == ("load", "wind")
    assert series.values.tolist() == NUMBERS


def test_a_packed_file(tmp_path: Path) -> None:
    series = read(tmp_path / "series.csv.gz", gzip.compress(lines(*ROWS).encode()))
    assert series.values.tolist() == NUMBERS


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (["2016-07-01 00:00,1,2,5,3"], "line 2: 5 fields, but the header has 3.*decimal commas"),
        ([*ROWS[:2], "", ROWS[2]], "line 4: 0 fields"),
        ([*ROWS[:2], "2016-07-01 02:00,3"], "line 4: 2 fields"),
        (
            ['2016-07-01 00:00,"1,5",2', ROWS[1]],
            r"line 2, column 'load': '1,5' has a comma.*semicolons",
        ),
        ([*ROWS[:3], "2016-07-01 03:00,x,2"], "line 5, column 'load': 'x' is not a finite number"),
        (["2016-07-01 00:00,inf,2", *ROWS[1:]], "line 2, column 'load': 'inf' is not a finite"),
        (["2016-07-01 00:00,1e999,2", *ROWS[1:]], "'1e999' is not a finite"),
        (["2016-07-01 00:00,1_0,2", *ROWS[1:]], "'1_0' is not a finite"),
        (["2016-07-01 00:00,0x1,2", *ROWS[1:]], "'0x1' is not a finite"),
        (["2016-07-01 00:00,1.234.5,2", *ROWS[1:]], "'1.234.5' is not a finite"),
        ([*ROWS[:3], "2016-07-01 03:00,2,NaN"], "line 5, column 'wind': 'NaN' is no value; data.f"),
        ([*ROWS[:3], "2016-07-01 03:00,,2"], "line 5, column 'load': '' is no value"),
        ([*ROWS[:3], "2016-13-01 03:00,2,2"], "line 5: '2016-13-01 03:00' is no date"),
        ([*ROWS[:3], ROWS[2]], "repeats the stamp before in line 5"),
        ([], "no rows below the header"),
        (['2016-07-01 00:00,"1,2'], "line 2: not CSV"),
    ],
)
def test_what_cannot_be_read_is_named_in_one_line(
    file: Path, rows: list[str], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        read(file, lines(*rows))
    assert str(refused.value).startswith(f"{file}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (
            "time,load,wind",
            r"no column 'date' \(data.time_column\); there are 'time', 'load', 'wind'",
        ),
        (" date,load,wind", "no column 'date'.*' date'"),
        ("date,load,load", "column 'load' comes twice"),
        ("date,,wind", "a column has no name"),
        ("", "no column 'date'.*there are none"),
    ],
)
def test_bad_headers(file: Path, header: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(file, lines(*ROWS, header=header))


def test_time_alone_is_no_series(file: Path) -> None:
    with pytest.raises(ValueError, match="no column but 'date'"):
        read(file, "date\n2016-07-01\n2016-07-02\n")


def test_two_decimal_marks_in_a_file_are_refused(file: Path) -> None:
    """`1.234,5` and `1,234.5` are a thousand for some and one for others."""
    for value in ("1.234,5", "1,234.5"):
        rows = [f"2016-07-01 00:00;{value};2", "2016-07-01 01:00;1;2"]
        with pytest.raises(ValueError, match=r"line 2.*has a comma, but line 2.*one decimal mark"):
            read(file, lines(*rows, header="date;load;wind"))
    rows = ["2016-07-01 00:00;1,5;2", "2016-07-01 01:00;1;2.5"]
    with pytest.raises(ValueError, match=r"'1,5' has a comma, but line 3, column 'wind': '2.5'"):
        read(file, lines(*rows, header="date;load;wind"))


def test_bytes_that_are_no_utf8_are_named(file: Path) -> None:
    with pytest.raises(ValueError, match=r"line 3: not UTF-8 \(byte 0xe4\)"):
        read(file, lines(*ROWS).encode().replace(b"2.5", b"\xe4"))


def test_filling_values_repeats_the_row_before_and_counts(file: Path) -> None:
    rows = [ROWS[0], "2016-07-01 01:00,,3", "2016-07-01 02:00,NA,", "2016-07-01 04:00,9,9"]
    series = read(file, lines(*rows), fill=True)
    assert series.values.tolist() == [[1.5, -2], [1.5, 3], [1.5, 3], [1.5, 3], [9, 9]]
    assert series.report["filled_values"] == 3
    assert series.report["filled_stamps"] == 1


def test_nothing_to_repeat_before_the_first_row(file: Path) -> None:
    with pytest.raises(ValueError, match="line 2, column 'load': '' is no value; fill it by hand"):
        read(file, lines("2016-07-01 00:00,,3", *ROWS[1:]), fill=True)


def test_a_changed_file_is_read_again(file: Path) -> None:
    first = read(file, lines(*ROWS))
    assert read(file, lines(*ROWS)) is first
    assert read(file, lines(*ROWS).replace("4.25", "9.75")).values[-1, 0] == 9.75


def test_nobody_can_write_into_what_all_runs_share(file: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        read(file, lines(*ROWS)).values[0, 0] = 0


def test_the_scale_by_hand_and_of_the_training_rows_only(file: Path) -> None:
    mean, sd = read(file, lines(*ROWS)).scale(range(2))
    assert mean.tolist() == [2.0, -0.75]
    assert sd.tolist() == [0.5, 1.25]


def test_a_column_constant_in_training_has_no_scale(file: Path) -> None:
    series = read(file, lines(*ROWS).replace(",2.5,", ",1.5,"))
    assert series.constant_channels(range(2)) == ["load"]
    assert series.constant_channels(range(4)) == []
    with pytest.raises(ValueError, match="column 'load': one value in all 2 training rows"):
        series.scale(range(2))


@given(
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=20),
    style=st.sampled_from([(",", "."), (";", "."), (";", ","), ("\t", ","), ("\t", ".")]),
)
def test_every_number_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, values: list[float], style: tuple[str, str]
) -> None:
    delimiter, decimal = style
    texts = [repr(value).replace(".", decimal) for value in values]
    rows = [f"2016-07-{day + 1:02}{delimiter}{text}" for day, text in enumerate(texts)]
    file = tmp_path_factory.getbasetemp() / "numbers.csv"
    series = read(file, lines(*rows, header=f"date{delimiter}x"))
    assert np.array_equal(series.values[:, 0], values)
