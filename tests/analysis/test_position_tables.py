"""Heat maps of position tables, and the sentence on their waves."""

import numpy as np
import pandas as pd
import pytest

from analysis.position_tables import positions_figure, save_positions, wave_sentence


def waves(lengths, name="dimension"):
    return pd.DataFrame({"stack": "encoder", name: range(len(lengths)), "wavelength": lengths})


def table(kind="vector", axes=("position", "dimension"), stacks=("encoder", "decoder")):
    parts = [
        pd.DataFrame(
            {"stack": stack, "kind": kind, axes[0]: row, axes[1]: column, "value": row - column},
            index=[0],
        )
        for stack in stacks
        for row in range(3)
        for column in range(-2, 3)
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        (
            [6.28, 6.28, 100, 54410],
            "waves of 6.3 tokens (dimension 0) to 54,410 tokens (dimension 3), rank correlation "
            "with the dimension +0.95: low dimensions oscillate fast, high ones slow",
        ),
        ([900, 80, 7], "low dimensions oscillate slow, high ones fast"),
        ([4, 5, 3, 6, 4], "the speed does not follow the dimension"),
        (
            [7, np.inf],
            "to 7.0 tokens (dimension 0), 1 without a wave, rank correlation with the dimension "
            "+1.00: low dimensions oscillate fast, high ones slow",
        ),
        ([7], "waves of 7.0 tokens (dimension 0) to 7.0 tokens (dimension 0)"),
        ([np.inf, np.inf], "no dimension oscillates"),
    ],
)
def test_the_sentence_says_which_dimensions_are_fast(lengths, words):
    assert wave_sentence(waves(lengths)).endswith(words)


def test_a_stack_is_a_column_with_its_waves_below():
    both = pd.concat([waves([6, 60]), waves([5, 50]).assign(stack="decoder")])
    figure = positions_figure(table(), both, title="$t_1$")
    heats = [panel for panel in figure.axes if panel.images and panel.get_title()]
    assert [panel.get_title() for panel in heats] == ["encoder", "decoder"]
    for panel in heats:
        image = panel.images[0]
        assert image.get_array().tolist() == [[2 + r, 1 + r, r, r - 1, r - 2] for r in range(3)]
        assert image.get_clim() == (-4, 4)
        assert image.get_extent() == [-2.5, 2.5, 2.5, -0.5]
    drawn = [panel.lines[0].get_ydata().tolist() for panel in figure.axes if panel.lines]
    assert drawn == [[6, 60], [5, 50]]
    assert figure.get_suptitle() == "$t_1$"


def test_a_table_without_waves_is_drawn_alone():
    figure = positions_figure(table("bias", ("head", "offset")), pd.DataFrame(), title="x")
    heats = [panel for panel in figure.axes if panel.get_title()]
    assert [(panel.get_xlabel(), panel.get_ylabel()) for panel in heats] == [
        ("offset, key - query", "head")
    ] * 2


def test_angles_have_a_scale_that_closes():
    figure = positions_figure(table("rotation", ("position", "pair")), waves([6], "pair"), title="")
    assert figure.axes[0].images[0].get_clim() == (-np.pi, np.pi)
    assert figure.axes[0].images[0].get_cmap().name == "twilight"


def test_labels_of_the_wave_axis_are_numbers(tmp_path):
    pictures = save_positions(table(), waves([6.28, 54410]), title="t", folder=tmp_path)
    assert [file.name for file in pictures] == ["positions.png", "wavelengths.csv"]
    text = (tmp_path / "positions.svg").read_text(encoding="utf-8")
    assert "10,000" in text
    assert "mathdefault" not in text
    assert len(pd.read_csv(tmp_path / "positions.csv")) == 30
    assert pd.read_csv(tmp_path / "wavelengths.csv")["wavelength"].tolist() == [6.28, 54410]
