import os
import re
import shutil
import subprocess
import xml.etree.ElementTree
from html.parser import HTMLParser

import pytest

from analysis import curves
from analysis.effects import study_effects
from analysis.interaction_plots import interaction_figure
from analysis.report import inline_svg, render_report, study_section
from analysis.tables import study_table
from analysis.text_tables import TextTable
from tests.analysis.ledgers import factorial_cells, ledger_frame, planted, view

NASTY = "<script>alert('run')</script> & \"co\""
AXES = {"design.norm_position": ["pre", "post"], "data.path": ["plain", NASTY]}
EMPTY_TAGS = {"meta", "link", "br", "hr", "img", "input"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


class Page(HTMLParser):
    """Tags in order, whether they nest, and what they point to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in EMPTY_TAGS:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                self.targets.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY_TAGS:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page() -> str:
    expected = factorial_cells(AXES, [1, 2, 3, 4, 5])
    frame = ledger_frame(expected, planted({("design.norm_position", "post"): -2.0}))
    study = view(expected, AXES, command=f"ablate sweep {NASTY}")
    table, effects = study_table(frame, study), study_effects(frame, study)
    section = study_section(
        frame,
        study,
        description=NASTY,
        tables=[table],
        effects=effects,
        figures=[
            ("differences", curves.effects_figure(table)),
            ("interactions", interaction_figure(effects)),
        ],
    )
    claims = TextTable(
        title="Claims",
        header=("id", "n", "effect"),
        rows=[("A10", "", NASTY), ("A9", "3", "-.5"), ("A1", "12", "+0.1"), ("P1", "<0.001", "")],
        words=("id",),
    )
    return render_report([section], claims=[claims, NASTY], title=f"Report {NASTY}")


def test_the_page_is_well_formed(page):
    parsed = Page(page)
    assert parsed.open == []
    assert page.startswith("<!doctype html>")
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {"table", "svg", "figure", "nav", "details"} <= set(parsed.tags)


def test_words_of_runs_are_escaped_everywhere(page):
    assert Page(page).tags.count("script") == 1  # the one that sorts
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert") > 10  # table, effects, notes, provenance, figures


def test_the_page_asks_for_nothing_from_outside(page):
    assert all(target.startswith(("#", "data:,")) for target in Page(page).targets)
    assert not re.search(r"url\((?!#)|@import", page)
    outside = set(re.findall(r"https?://[^\"'\s<>)]+", page))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names only
    assert "default-src 'none'" in page


def test_the_page_holds_what_a_reader_needs(page):
    text = re.sub(r"<[^>]+>", " ", page)
    for words in (
        "complete: 20 runs",
        "Interactions",
        "Noise floor",
        "2 CPU cores",
        "feedfacefeed",
    ):
        assert words in text
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert all(f"{index:012x}" in text for index in range(20))


def test_a_missing_run_is_in_the_provenance():
    expected = factorial_cells(AXES, [1, 2, 3])
    frame = ledger_frame(expected, planted({}))
    frame = frame[frame["run"] != "000000000001"]
    study = view(expected, AXES)
    section = study_section(
        frame, study, description="", tables=[study_table(frame, study)], effects=None, figures=[]
    )
    (runs,) = dict(section.folded)["Provenance"]
    assert [row[0] for row in runs.rows if "missing" in row] == ["000000000001"]
    assert len(runs.rows) == 12
    (cost,) = dict(section.folded)["Cost"]
    assert cost.rows[0][1] == "11"


def test_a_drawing_is_whole_and_its_ids_are_its_own():
    expected = factorial_cells(AXES, [1, 2, 3])
    figure = curves.effects_figure(
        study_table(ledger_frame(expected, planted({})), view(expected, AXES))
    )
    svg = inline_svg(figure, prefix="first")
    root = xml.etree.ElementTree.fromstring(svg)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert ids
    assert all(name.startswith("first-") for name in ids)
    references = set(re.findall(r"url\(#([^)]+)\)", svg)) | set(re.findall(r'href="#([^"]+)"', svg))
    assert references
    assert references <= set(ids)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here; name one with CHROMIUM=PATH")
def test_a_browser_sorts_without_an_error(page, tmp_path):
    """Clicks a head of the first table twice; what the console says goes to the error stream."""
    clicks = """<script>
      const column = () => [...document.querySelectorAll("#claims tbody tr")]
        .map(row => row.cells[1].textContent).join("|");
      const head = document.querySelectorAll("#claims th button")[1];
      head.click(); const up = column(); head.click();
      document.body.setAttribute("data-sorted", up + " then " + column());
    </script></body>"""
    file = tmp_path / "report.html"
    file.write_text(page.replace("</body>", clicks), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    done = subprocess.run(
        [BROWSER, *options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 'data-sorted="&lt;0.001|3|12| then 12|3|&lt;0.001|"' in done.stdout
    assert "CONSOLE" not in done.stderr
