import json
import subprocess
import sys
from dataclasses import replace
from enum import Enum

import pytest

from ablations.config import (
    Budget,
    RunConfig,
    Task,
    check,
    config_from_flat,
    flatten,
    paths,
    run_id,
)
from ablations.identity import LOCATION_PATHS, canonical_text, unsaid
from data.corpus import TranslationData
from lightning_modules.design import AXES, Design, Dims

FINGERPRINT = "0123456789abcdef"
LEVELS = [(name, level) for name, axis in AXES.items() for level in axis]


def test_flat_and_back_is_the_same_config():
    config = RunConfig(dims=Dims(d_model=96, dropout=0.25), budget=Budget(max_steps=7), seed=3)
    assert config_from_flat(flatten(config)) == config


@pytest.mark.parametrize(("axis", "level"), LEVELS, ids=str)
def test_every_level_goes_by_its_name(axis, level):
    config = config_from_flat({f"design.{axis}": level.name})
    assert getattr(config.design, axis) is level
    assert flatten(config)[f"design.{axis}"] == level.name


def test_paths_are_the_flat_names():
    assert list(paths()) == list(flatten(RunConfig()))


def test_flat_values_are_plain():
    assert {type(value) for value in flatten(RunConfig()).values()} <= {str, int, float, bool}


def test_base_keeps_what_is_not_named():
    base = RunConfig(dims=Dims(d_model=96), seed=5)
    changed = config_from_flat({"dims.n_heads": 2}, base=base)
    assert changed == RunConfig(dims=Dims(d_model=96, n_heads=2), seed=5)


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("dims.n_heads", "8", 8),
        ("dims.n_heads", 8.0, 8),
        ("optim.lr", "5e-3", 0.005),
        ("optim.lr", 1, 1.0),
        ("data.path", "a/b", "a/b"),
        ("seed", "2", 2),
    ],
)
def test_values_from_text(path, text, value):
    found = flatten(config_from_flat({path: text}))[path]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("design.norm", "pre", "'design.norm' is no config path; did you mean design.norm_"),
        ("norm_position", "pre", "did you mean design.norm_position"),
        ("zzz", 1, "'zzz' is no config path; legal: task, "),
        ("design.position", "ropy", "'ropy' is no level; legal: sinusoidal, none, learned, rope,"),
        ("design.mask", None, "design.mask: None is no level; legal: minus_inf"),
        ("data.source", "wmt", "data.source: 'wmt' is no level; legal: grammar, multi30k, files"),
        ("task", "chess", "task: 'chess' is no level; legal: translation"),
        ("dims.n_heads", "eight", "dims.n_heads: 'eight' is not a whole number"),
        ("dims.n_heads", 2.5, "dims.n_heads: 2.5 is not a whole number"),
        ("dims.n_heads", True, "dims.n_heads: True is not a whole number"),
        ("dims.n_heads", "inf", "dims.n_heads: 'inf' is not a whole number"),
        ("optim.lr", "fast", "optim.lr: 'fast' is not a number"),
        ("optim.lr", [0.1], "optim.lr: [0.1] is not a number"),
        ("budget.max_steps", 0, "budget.max_steps is 0; it must be 1 or more"),
    ],
)
def test_what_is_not_legal_is_named(path, value, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the text is compared below)
        config_from_flat({path: value})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_canonical_is_sorted_json_of_what_differs_from_the_defaults():
    config = RunConfig(data=TranslationData(path="somewhere", n_train=7), dims=Dims(d_ff=9))
    kept = {"data.n_train": 7, "dims.d_ff": 9, "seed": 1, "task": "translation"}
    assert canonical_text(flatten(config)) == json.dumps(kept, sort_keys=True)


@pytest.mark.parametrize("task", Task)
def test_what_goes_without_saying_is_every_default(task):
    """A new name stands in unsaid.json with the value that earlier runs had; values there stay."""
    defaults = flatten(config_from_flat({"task": task.name}))
    said = {"task", "seed", *LOCATION_PATHS}
    assert {path: v for path, v in defaults.items() if path not in said} == unsaid(task.name)


def test_a_finished_run_keeps_its_id():
    """These ids were made by the first release that leaves out what goes without saying."""
    assert run_id(RunConfig(), FINGERPRINT) == "61229cc6d080"
    assert run_id(RunConfig(dims=Dims(d_ff=9), seed=3), FINGERPRINT) == "372381fe7741"


def test_id_does_not_depend_on_where_the_data_lies():
    here, there = (RunConfig(data=TranslationData(path=path)) for path in ("here", "there"))
    assert run_id(here, FINGERPRINT) == run_id(there, FINGERPRINT)


def test_id_depends_on_the_content_of_the_data():
    assert run_id(RunConfig(), "a" * 16) != run_id(RunConfig(), "b" * 16)


def _another(value):
    if isinstance(value, Enum):
        return next((level for level in type(value) if level is not value), None)
    if isinstance(value, str):
        return f"{value}8"
    return value / 2 if 0 < value < 1 else value + 1


CHANGED = [path for path in paths() if path not in ("task", "data.path", "data.min_words")]


@pytest.mark.parametrize("path", CHANGED)
def test_id_depends_on_every_other_value(path):
    section, _, name = path.rpartition(".")
    base = RunConfig()
    if section:
        part = getattr(base, section)
        changed = replace(base, **{section: replace(part, **{name: _another(getattr(part, name))})})
    else:
        changed = replace(base, **{name: _another(getattr(base, name))})
    assert run_id(changed, FINGERPRINT) != run_id(base, FINGERPRINT)


def test_id_of_a_whole_number_is_that_of_the_same_fraction():
    assert run_id(RunConfig(dims=Dims(dropout=0)), FINGERPRINT) == run_id(
        RunConfig(dims=Dims(dropout=0.0)), FINGERPRINT
    )


def test_id_is_the_same_in_another_process():
    code = (
        "from ablations.config import RunConfig, run_id;"
        f"print(run_id(RunConfig(), {FINGERPRINT!r}))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == run_id(RunConfig(), FINGERPRINT)


@pytest.mark.parametrize(
    ("flat", "word"),
    [
        ({"dims.n_heads": 3}, "dims.n_heads 3 must divide dims.d_model 128"),
        ({"design.position": "rope", "dims.d_model": 12, "dims.n_heads": 4}, "even, not 3"),
    ],
)
def test_check_refuses_an_illegal_combination(flat, word):
    with pytest.raises(ValueError, match=word):
        check(config_from_flat(flat))


def test_check_accepts_the_baseline():
    check(RunConfig())
    assert RunConfig().design == Design()


def id_of(task, **data):
    named = {f"data.{name}": value for name, value in data.items()}
    return run_id(config_from_flat({"task": task, **named}), FINGERPRINT)


@pytest.mark.parametrize(
    ("task", "trained"), [("sequences", "train_max"), ("language_modeling", "context_length")]
)
def test_lengths_spelled_in_another_way_are_the_same_run(task, trained):
    spelled = {
        id_of(task, **{trained: 16, "eval_lengths": text})
        for text in ("1x 2x 50", "16,32,50", "1x,32 50")
    }
    assert len(spelled) == 1
    others = [
        id_of(task, **{trained: 16, "eval_lengths": "2x 1x 50"}),
        id_of(task, **{trained: 20, "eval_lengths": "16 32 50"}),
        id_of(task, **{trained: 20, "eval_lengths": "1x 2x 50"}),
    ]
    assert len(spelled.union(others)) == 4


def test_buckets_and_lookbacks_are_spelled_in_one_way_too():
    words = [
        id_of("translation", train_max_source_words=8, eval_source_words=text)
        for text in ("1x 12", "8, 12")
    ]
    assert words[0] == words[1] != id_of("translation", train_max_source_words=8)
    assert id_of("translation", eval_source_words="8,12") == id_of(
        "translation", eval_source_words="8 12"
    )
    assert id_of("forecasting", eval_lookbacks="2x") == id_of("forecasting", eval_lookbacks="336")


def test_the_default_lengths_keep_their_id_however_they_are_spelled():
    assert id_of("sequences", eval_lengths="8 16 32 64") == id_of("sequences") == "583169532c8f"
    assert id_of("language_modeling", continuation_lengths="64,256") == id_of("language_modeling")


def test_an_axis_of_the_trained_length_leaves_other_lengths_alone():
    base = config_from_flat({"task": "sequences", "data.eval_lengths": "8,16"})
    longer = config_from_flat({"data.train_max": 16}, base=base)
    assert longer.data.eval_lengths == "8,16"
