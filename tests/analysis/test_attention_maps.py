"""Figures of attention: what stands where, and text that stays text."""

import itertools
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.attention_maps import attention_figure, printable, save_maps

ODD = ["$x_{1}$", "日本", "a\nb", "<s>", " ", "\x07", "_a_", "NA"]


def frames(labels, *, layers=2, heads=3, stack="encoder"):
    places = itertools.product(range(layers), range(heads), enumerate(labels), enumerate(labels))
    weights = pd.DataFrame(
        [
            {
                "stack": stack,
                "layer": layer,
                "head": head,
                "query": query,
                "query_label": asked,
                "key": key,
                "key_label": read,
                "weight": 0.5 - 0.2 * layer if (query, key) == (layer, head) else 0.01 * layer,
            }
            for layer, head, (query, asked), (key, read) in places
        ]
    )
    means = [
        {
            "stack": stack,
            "layer": layer,
            "head": head,
            "entropy_bits": layer + head / 4,
            "distance": 1.25 * head,
            "previous_token": 0.0,
            "self": 0.0,
        }
        for layer, head in itertools.product(range(layers), range(heads))
    ]
    return weights, pd.DataFrame(means)


def panels_of(figure):
    return [panel for panel in figure.axes if panel.images and panel.get_title()]


def test_layers_are_rows_and_heads_are_columns():
    weights, heads = frames(["a", "b", "c", "d"])
    panels = panels_of(attention_figure(weights.sample(frac=1, random_state=0), heads, title="x"))
    assert [panel.get_title() for panel in panels] == [
        f"layer {layer}, head {head}\n{layer + head / 4:.2f} bits, distance {1.25 * head:.1f}"
        for layer, head in itertools.product(range(2), range(3))
    ]
    for panel, (layer, head) in zip(panels, itertools.product(range(2), range(3)), strict=True):
        grid = panel.images[0].get_array()
        assert grid.shape == (4, 4)
        assert grid[layer, head] == 0.5 - 0.2 * layer
        assert panel.images[0].get_clim() == (0, 0.5)
    rows = [panel.get_subplotspec().rowspan.start for panel in panels]
    assert rows == [0, 0, 0, 1, 1, 1]


def test_tokens_stand_at_the_outer_panels_and_equal_ones_stay_apart():
    panels = panels_of(attention_figure(*frames(["a", "b", "a"]), title="x"))
    shown = [[text.get_text() for text in panel.get_yticklabels()] for panel in panels]
    assert shown == [["a", "b", "a"], [], []] * 2
    shown = [[text.get_text() for text in panel.get_xticklabels()] for panel in panels]
    assert shown == [[]] * 3 + [["a", "b", "a"]] * 3


def test_long_inputs_are_labelled_as_often_as_there_is_room():
    labels = [f"t{number}" for number in range(150)]
    weights, heads = frames(labels, layers=1, heads=1)
    figure = attention_figure(weights, heads, title="x")
    [panel] = panels_of(figure)
    shown = [text.get_text() for text in panel.get_xticklabels()]
    assert shown == labels[::3]
    assert figure.get_size_inches().max() < 10


def test_text_of_data_stays_text(tmp_path):
    weights, heads = frames(ODD, layers=1, heads=1)
    title = "run: $a_b$"
    pictures = save_maps(weights, heads, title=title, unit="$u$", folder=tmp_path)
    assert pictures == [tmp_path / "encoder.png"]
    assert pictures[0].read_bytes().startswith(b"\x89PNG")
    root = ElementTree.parse(tmp_path / "encoder.svg").getroot()
    texts = ["".join(node.itertext()) for node in root.iter() if node.tag.endswith("text")]
    for label in (
        "$x_{1}$",
        "日本",
        "a\\nb",
        "<s>",
        "␣",
        "\\x07",
        "_a_",
        "encoder, run: $a_b$",
        "key ($u$)",
    ):
        assert label in texts
    read = pd.read_csv(tmp_path / "encoder.csv", keep_default_na=False)
    assert list(read["key_label"][: len(ODD)]) == ODD
    assert read["weight"].tolist() == weights["weight"].tolist()
    assert len(pd.read_csv(tmp_path / "heads.csv")) == 1


def test_every_stack_has_its_own_figure(tmp_path):
    parts = [frames(["a", "b"], stack=stack) for stack in ("encoder", "decoder-cross")]
    weights, heads = (pd.concat(side) for side in zip(*parts, strict=True))
    pictures = save_maps(weights, heads, title="x", unit="token", folder=tmp_path / "new")
    assert [picture.name for picture in pictures] == ["encoder.png", "decoder-cross.png"]
    assert set(pd.read_csv(tmp_path / "new/encoder.csv")["stack"]) == {"encoder"}
    assert len(pd.read_csv(tmp_path / "new/heads.csv")) == 12


@given(st.text(max_size=60))
def test_a_label_is_one_short_line_that_can_be_seen(text):
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) <= 24
    assert bool(text) == bool(shown.strip())


@pytest.mark.parametrize("text", ["▁Haus", "</s>", "🙂", "-336..-321", "a b"])
def test_a_common_token_is_its_own_label(text):
    assert printable(text) == text
