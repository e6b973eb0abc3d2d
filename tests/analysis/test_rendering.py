import html
import io
import math
import re
import sys

import pandas as pd
import pytest

from analysis.rendering import render
from analysis.tables import study_table
from tests.analysis.ledgers import (
    AXES,
    factorial_cells,
    ledger_frame,
    one_factor_cells,
    planted,
    view,
)
from tests.analysis.test_latex import printed
from tests.analysis.test_report import Page


def table_lines(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def test_markdown_says_everything_of_a_row(small_study):
    frame, study = small_study
    gone = study.expected["id"].iloc[8]
    table = study_table(frame[frame["run"] != gone], study)
    text = render(table, format="markdown")
    assert text.startswith("# six-axes: bleu on test (nrefs:1|case:mixed|")
    assert "\nincomplete: 1 of 40 runs missing; fill with: ablate sweep six-axes\n" in text
    header, _, _, post, *_ = table_lines(text)
    names = [name.strip() for name in header.strip("|").split("|")]
    cells = dict(zip(names, (cell.strip() for cell in post.strip("|").split("|")), strict=True))
    row = table.rows[1]
    assert cells["axis"] == "design.norm_position"
    assert cells["level"] == "post"
    assert cells["bleu [95%]"] == (f"{row.mean.mean:.2f} [{row.mean.low:.2f}, {row.mean.high:.2f}]")
    assert cells["Δ [95%]"].startswith("-")
    assert cells["p (Holm)"] == f"{row.p_adjusted:.3f}"
    assert cells["n"] == "7 of 8"
    assert cells["diverged"] == "0 of 7"
    assert cells["missing"] == "1"
    assert cells["detectable"] == f"{row.detectable:.2f}"
    assert cells["parameters"] == "1,204,000"
    assert cells["verdict"] == "worse"
    assert f"- row 2: {gone} (missing), " in text


def test_every_markdown_line_of_the_table_has_the_same_number_of_cells(small_study):
    lines = table_lines(render(study_table(*small_study), format="markdown"))
    assert {line.replace(r"\|", "").count("|") for line in lines} == {13}


def test_names_from_files_cannot_break_markdown_or_the_terminal():
    nasty = "a|b [bold]x[/] <script> `c` *d* $e_{1}$"
    axes = {"data.path": ["plain", nasty]}
    expected = one_factor_cells(axes, [1, 2])
    table = study_table(ledger_frame(expected, planted({})), view(expected, axes))
    text = render(table, format="markdown")
    assert r"a\|b \[bold]x\[/] &lt;script> \`c\` \*d\*" in text
    assert {line.replace(r"\|", "").count("|") for line in table_lines(text)} == {13}
    assert "[bold]x[/]" in render(table, format="terminal")


def test_csv_reads_back_as_the_frame(small_study):
    table = study_table(*small_study)
    back = pd.read_csv(io.StringIO(render(table, format="csv")), dtype={"runs": str})
    assert list(back.columns) == [*table.frame.columns, "headline", "notes"]
    assert set(back["headline"]) == {"complete: 40 runs"}
    assert back["notes"][0].startswith(" ".join(table.notes))
    assert back["notes"][0].endswith("ablate reproduce six-axes --row N")
    assert back["difference"].tolist() == pytest.approx(
        table.frame["difference"].tolist(), nan_ok=True
    )
    assert back["runs"].tolist() == [" ".join(row.runs) for row in table.rows]


def test_what_is_missing_or_diverged_reads_as_such():
    expected = one_factor_cells(AXES, [1, 2, 3])
    score = planted({})
    frame = ledger_frame(
        expected, lambda cell: math.nan if cell["design.position"] == "none" else score(cell)
    )
    frame = frame[frame["dims.n_heads"] != 8]
    lines = table_lines(render(study_table(frame, view(expected)), format="markdown"))
    none = next(line for line in lines if "position | none |" in line)
    heads = next(line for line in lines if "heads | 8 |" in line)
    assert "| none | diverged | - | - | 0 of 3 | 3 of 3 | 0 | none |" in none
    assert none.endswith("| 3 of 3 diverged |")
    assert "| 8 | missing | - | - | 0 of 3 | 0 of 0 | 3 | none | - | - | missing |" in heads


def test_one_seed_has_no_interval():
    expected = one_factor_cells(AXES, [1])
    text = render(study_table(ledger_frame(expected, planted({})), view(expected)), format="csv")
    row = pd.read_csv(io.StringIO(text)).iloc[1]
    assert not math.isnan(row["difference"])
    assert math.isnan(row["difference_low"])
    markdown = render(
        study_table(ledger_frame(expected, planted({})), view(expected)), format="markdown"
    )
    assert "nan" not in markdown
    assert "n too small to tell" in markdown


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_terminal_shows_the_verdict_at_any_width(small_study, monkeypatch, width):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    text = render(study_table(*small_study), format="terminal")
    assert "distinguishable" in text
    assert "complete: 40 runs" in text
    assert ("seconds" in text.split("Baseline:")[0].split("Left out")[0]) == (width == 200)
    assert ("Left out, the terminal is narrow: seconds" in text) == (width < 200)
    assert "\x1b[" in text


def test_without_a_terminal_there_is_no_colour_and_nothing_is_left_out(small_study):
    text = render(study_table(*small_study), format="terminal")
    assert "\x1b[" not in text
    assert "parameters" in text
    assert "row 1: 000000000000, 000000000001" in text


def test_a_row_of_many_runs_is_cut_short_on_the_terminal_only():
    axes = {"design.norm_position": ["pre", "post"], "dims.n_heads": [4, 8, 16]}
    expected = factorial_cells(axes, list(range(1, 9)))
    table = study_table(ledger_frame(expected, planted({})), view(expected, axes))
    last = table.rows[0].runs[-1]
    assert len(table.rows[0].runs) == 24
    assert "and 4 more in the CSV" in render(table, format="terminal")
    assert f", {last}\n- row 2" in render(table, format="markdown")
    assert f" {last}," in render(table, format="csv").splitlines()[1]


@pytest.mark.parametrize("format", ["terminal", "markdown", "csv", "latex", "html"])
def test_every_form_says_what_is_missing_and_the_notes_and_the_runs(small_study, format):
    frame, study = small_study
    gone = study.expected["id"].iloc[8]
    study = view(study.expected, command="ablate sweep six_axes --runs=a&b")
    table = study_table(frame[frame["run"] != gone], study)
    text = SHOWN[format](render(table, format=format))
    assert "incomplete: 1 of 40 runs missing; fill with: ablate sweep six_axes --runs=a&b" in text
    assert all(" ".join(note.split()) in text for note in table.notes)
    assert gone in text


def read_page(text):
    assert Page(text).open == []
    return html.unescape(re.sub(r"<[^>]+>", " ", text))


def read_latex(text):
    lines = text.replace(r"\par\noindent ", "").splitlines()
    words = [line for line in lines if not line.endswith(r"\\") and "tabular" not in line]
    return "\n".join(printed(line) if line[:1] not in "%\\" else line for line in words)


SHOWN = {
    "terminal": lambda text: " ".join(text.split()),
    "markdown": lambda text: html.unescape(text.replace("\\", "")),
    "csv": lambda text: text.replace('""', '"'),
    "latex": read_latex,
    "html": read_page,
}


def test_a_page_escapes_names_and_sorts_its_tables():
    axes = {"data.path": ["plain", "<script>alert(1)</script>"]}
    expected = one_factor_cells(axes, [1, 2])
    page = render(
        study_table(ledger_frame(expected, planted({})), view(expected, axes)), format="html"
    )
    assert page.startswith("<!doctype html>")
    assert Page(page).tags.count("script") == 1
    assert "&lt;script&gt;alert(1)" in page
    assert page.count('aria-sort="none"') == 14  # of both tables
    assert all(target.startswith(("#", "data:,")) for target in Page(page).targets)


def test_the_columns_that_are_asked_for_are_shown_in_their_order(small_study):
    frame, study = small_study
    told = frame.assign(flops_per_target=1_500_000, peak_memory_bytes=300 * 2**20)
    table = study_table(told, study)
    header, _, first, *_ = table_lines(
        render(table, format="markdown", columns=["memory", "flops", "n"])
    )
    assert header == "| # | axis | level | bleu [95%] | Δ [95%] | peak MiB | FLOPs a target | n |"
    assert first.endswith("| 300 | 1,500,000 | 8 of 8 |")
    assert set(table.frame["flops_per_target_max"]) == {1_500_000}
    line = table_lines(render(study_table(frame, study), format="markdown", columns=["memory"]))[2]
    assert line.endswith("| - |")  # not measured by the runs


def test_unknown_columns_and_columns_of_a_csv_are_refused(small_study):
    table = study_table(*small_study)
    with pytest.raises(ValueError, match="unknown column 'time'; legal: p, n, diverged"):
        render(table, format="markdown", columns=["time"])
    with pytest.raises(ValueError, match="a CSV holds every column"):
        render(table, format="csv", columns=["n"])


def test_an_unknown_format_is_refused(small_study):
    with pytest.raises(ValueError, match="unknown table format 'pdf'; legal: terminal, markdown"):
        render(study_table(*small_study), format="pdf")
