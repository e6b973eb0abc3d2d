"""LaTeX that compiles: what stands in it is read back by the rules of TeX."""

import re

from hypothesis import given
from hypothesis import strategies as st

from analysis.latex import escaped, latex
from analysis.text_tables import TextTable

TABLE = TextTable(
    title="50% of a_b & c",
    header=("#", "level", "mean"),
    rows=[("1", r"\input{x} [a] $1$", "-1.20 [-2.0, 0.5]"), ("2", "--runs=~/r^2", "1e-05")],
    words=("level",),
)
PRINTED = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textbar{}": "|",
    r"\textquotedbl{}": '"',
    r"\textasciigrave{}": "`",
    r"\textquotesingle{}": "'",
    r"$\Delta$": "Δ",
    r"$\rightarrow$": "→",
    "{}": "",
    **{f"\\{character}": character for character in "&%$#_{}"},
}
TOKEN = re.compile("|".join(map(re.escape, sorted(PRINTED, key=len, reverse=True))) + "|.", re.S)


def printed(source: str) -> str:
    """What TeX prints of escaped text; anything that it would act on is refused."""
    found = []
    for token in TOKEN.findall(source):
        assert token in PRINTED or token not in "\\&%$#_{}~^", f"TeX acts on {token!r} in {source}"
        found.append(PRINTED.get(token, token))
    return "".join(found)


@given(st.text())
def test_any_text_is_printed_as_it_is(text):
    source = escaped(text)
    assert printed(source) == " ".join(text.split())
    assert "--" not in source  # a dash
    assert "\n" not in source


def test_environments_nest_and_rows_are_even():
    source = latex(["incomplete: fill with: ablate sweep x --runs=y", TABLE], title="a\nb")
    assert source.startswith("% a b\n")
    open_environments = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", source):
        if kind == "begin":
            open_environments.append(name)
        else:
            assert open_environments.pop() == name
    assert open_environments == []
    assert r"\begin{tabular}{rlr}" in source
    rows = [line for line in source.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 3
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {2}
    assert all(row.startswith("{}") for row in rows)  # "[" after "\\" would be its argument
    positions = [source.index(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")]
    assert positions == sorted(positions)
    assert r"ablate sweep x -{}-runs=y" in source


def test_minus_signs_are_those_of_numbers():
    row = next(line for line in latex([TABLE], title="").splitlines() if "input" in line)
    assert row == (r"{}1 & \textbackslash{}input\{x\} [a] \$1\$ & $-$1.20 [$-$2.0, 0.5] \\")
    assert "1e-05" in latex([TABLE], title="")
