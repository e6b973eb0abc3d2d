"""The choice of a sequence task: checks, sizes, fingerprint, and what it does not import."""

import subprocess
import sys
from dataclasses import replace

import pytest

from data.sequences import (
    SIZES,
    SequenceData,
    SequenceForm,
    SequenceTask,
    fingerprint,
    positions_needed,
    validate,
)
from data.sequences import test_lengths as lengths_of

SMALL = SequenceData(train_max=6, eval_lengths="1x 2x", n_train=200, n_eval=20)


@pytest.mark.parametrize("task", SequenceTask)
def test_every_task_is_legal_by_default(task: SequenceTask) -> None:
    data = replace(SMALL, task=task)
    validate(data)
    assert lengths_of(data) == (6, 12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alphabet": 1}, r"data\.alphabet=1 is too small for data\.task=copy: at least 2"),
        ({"train_min": 0}, r"data\.train_min=0 is too small for data\.task=copy: at least 1"),
        ({"train_min": 7}, r"data\.train_min=7 is more than data\.train_max=6"),
        ({"n_eval": 0}, r"data\.n_eval=0 is too small"),
        ({"batch_size": 0}, r"data\.batch_size=0 is too small"),
        ({"n_train": 4}, r"data\.n_train=4 is less than one example for each length"),
        ({"eval_lengths": "much"}, r"'much' is neither"),
        (
            {"task": SequenceTask.neighbour, "train_min": 1},
            r"data\.train_min=1 is too small for data\.task=neighbour: at least 2",
        ),
        (
            {"task": SequenceTask.neighbour, "eval_lengths": "1"},
            r"1 is too short for data\.task=neighbour, which needs at least 2 items",
        ),
        (
            {"alphabet": 2, "eval_lengths": "6"},
            r"data\.n_eval=20: data\.task=copy has only 64 different sources of 6 items over"
            r" data\.alphabet=2; at most 3",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        replace(SMALL, **changes)
    assert "\n" not in str(caught.value)


def test_a_trained_length_without_a_source_is_refused() -> None:
    """Of the two sources of one item, none may fall to validation alone."""
    with pytest.raises(ValueError, match="no source is left for validation"):
        validate(SequenceData(alphabet=2, train_min=1, train_max=1, eval_lengths="20"))


def test_the_fingerprint_follows_the_examples_only() -> None:
    first = fingerprint(SMALL)
    assert first == fingerprint(replace(SMALL, batch_size=3))
    assert first == fingerprint(replace(SMALL, eval_lengths="6,12"))
    others = [
        replace(SMALL, task=SequenceTask.reverse),
        replace(SMALL, alphabet=17),
        replace(SMALL, n_train=201),
        replace(SMALL, n_eval=21),
        replace(SMALL, train_min=3),
        replace(SMALL, eval_lengths="1x"),
    ]
    assert len({first, *map(fingerprint, others)}) == 1 + len(others)


def test_the_examples_are_those_of_other_machines_and_days() -> None:
    assert fingerprint(SMALL) == "fc16e970592779d2"


@pytest.mark.parametrize(
    ("task", "encoder_decoder", "decoder_only"),
    [
        (SequenceTask.copy, 11, 22),
        (SequenceTask.addition, 22, 34),
        (SequenceTask.associative_recall, 22, 24),
        (SequenceTask.neighbour, 12, 14),
    ],
)
def test_positions_by_hand(task: SequenceTask, encoder_decoder: int, decoder_only: int) -> None:
    data = replace(SMALL, task=task)
    found = [positions_needed(data, form=form, length=10) for form in SequenceForm]
    assert found == [encoder_decoder, decoder_only]


def test_every_task_has_sizes() -> None:
    assert set(SIZES) == set(SequenceTask)


def test_the_choice_needs_no_heavy_library() -> None:
    code = "import sys, data.sequences, data.text; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
