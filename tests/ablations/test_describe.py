"""What there is to choose from, and its page."""

from pathlib import Path

from ablations.describe import all_axes, describe_axes
from lightning_modules.design import AXES


def test_axes_lists_every_level_with_its_reason_and_source():
    out = "\n".join(describe_axes())
    for name, axis in all_axes().items():
        section = out.partition(f"## {name}\n")[2].partition("\n## ")[0]
        for level in axis:
            assert f"- **{level.name}**" in section
            assert f": {level.value.why}. [{level.value.source}]" in section
            assert all(invariance in section for invariance in level.value.breaks)
    assert {f"design.{name}" for name in AXES} < all_axes().keys()
    assert "heads_divide_width: `dims.n_heads <dims.n_heads> must divide" in out


def test_the_page_of_the_axes_is_what_the_command_prints():
    page = (Path(__file__).parents[2] / "docs" / "axes.md").read_text(encoding="utf-8")
    assert page.partition("\n\n")[2] == "\n".join(describe_axes()) + "\n", "run: make docs/axes.md"
