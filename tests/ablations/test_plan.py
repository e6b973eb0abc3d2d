from pathlib import Path

import pandas
import pytest

from ablations.plan import estimate_seconds, make_plan
from ablations.study import Arrangement, load_study, parse_study, shipped_studies

AXES = {
    "design.norm_position": ["pre", "post"],
    "design.position": ["sinusoidal", "rope", "alibi"],
}


def study(**content):
    return parse_study({"axes": AXES, **content}, name="test", overrides={})


def plan(**content):
    return make_plan(study(**content), data_fingerprint=lambda data: "f" * 16)


def test_one_factor_at_a_time_changes_one_axis_in_each_cell():
    cells = plan(seeds=[1, 2]).cells
    assert [(cell.config.seed, cell.changes) for cell in cells] == [
        (seed, changes)
        for seed in (1, 2)
        for changes in (
            {},
            {"design.norm_position": "post"},
            {"design.position": "rope"},
            {"design.position": "alibi"},
        )
    ]


def test_factorial_spans_every_combination_once():
    cells = plan(design="factorial", seeds=[1, 2]).cells
    combinations = {
        (cell.config.design.norm_position, cell.config.design.position, cell.config.seed)
        for cell in cells
    }
    assert len(cells) == len(combinations) == 2 * 3 * 2


def test_the_first_level_is_the_baseline_even_where_the_default_is_another():
    cells = plan(axes={"design.norm_position": ["post", "pre"]}).cells
    assert [cell.config.design.norm_position.name for cell in cells] == ["post", "pre"]
    assert cells[1].changes == {"design.norm_position": "pre"}


def test_no_axes_is_one_cell_a_seed():
    assert [cell.config.seed for cell in plan(axes={}, seeds=[4, 5]).cells] == [4, 5]


def test_rows_hold_the_level_of_every_axis():
    rows = plan(axes={"dims.n_heads": [4, 8], "design.mask": ["minus_inf", "minus_1e9"]}).rows()
    assert [(row["seed"], row["dims.n_heads"], row["design.mask"]) for row in rows] == [
        (1, 4, "minus_inf"),
        (1, 8, "minus_inf"),
        (1, 4, "minus_1e9"),
    ]
    assert len({row["id"] for row in rows}) == 3


def test_a_level_named_twice_is_merged_and_reported():
    found = plan(axes={"optim.lr": [0.1, "0.1", 0.2]})
    assert [cell.config.optim.lr for cell in found.cells] == [0.1, 0.2]
    assert found.merged == [({"optim.lr": 0.1, "seed": 1}, found.cells[0].id)]


def test_illegal_combinations_are_dropped_with_the_reason():
    found = plan(
        design="factorial",
        base={"dims.d_model": 20},
        axes={"dims.n_heads": [2, 3, 4], "design.position": ["none", "rope"]},
        seeds=[1, 2],
    )
    assert [changes for changes, _ in found.dropped] == [
        {"dims.n_heads": 3},
        {"dims.n_heads": 3, "design.position": "rope"},
        {"dims.n_heads": 4, "design.position": "rope"},
    ]
    assert "dims.n_heads 3 must divide dims.d_model 20" in found.dropped[0][1]
    assert "even, not 5" in found.dropped[2][1]
    assert len(found.cells) == 3 * 2


def test_an_illegal_baseline_is_refused_before_the_data_is_looked_at():
    def untouched(data):
        raise AssertionError("the data was read")

    with pytest.raises(ValueError, match="n_heads 3 must divide"):
        make_plan(study(base={"dims.n_heads": 3}), data_fingerprint=untouched)


def test_the_fingerprint_is_asked_once_for_each_data_config():
    asked = []
    make_plan(
        study(axes={"data.n_train": [100, 200], **AXES}, seeds=[1, 2, 3]),
        data_fingerprint=lambda data: asked.append(data) or str(data.n_train),
    )
    assert [data.n_train for data in asked] == [100, 200]


def test_missing_are_the_cells_without_a_result(tmp_path):
    found = plan()
    (tmp_path / found.cells[1].id).mkdir()
    (tmp_path / found.cells[1].id / "result.json").touch()
    (tmp_path / found.cells[2].id).mkdir()
    assert found.missing(tmp_path) == [found.cells[0], *found.cells[2:]]


def test_ten_thousand_cells():
    big = study(
        design="factorial",
        axes={**AXES, "optim.lr": [step / 1000 for step in range(1, 418)]},
        seeds=[1, 2, 3, 4],
    )
    found = make_plan(big, data_fingerprint=lambda data: "f" * 16)
    assert len({cell.id for cell in found.cells}) == len(found.cells) == 10_008


def runs(**values):
    size = {
        "task": "translation",
        "dims.d_model": 128,
        "dims.d_ff": 256,
        "dims.n_encoder_layers": 4,
        "dims.n_decoder_layers": 4,
        "data.source": "grammar",
        "data.vocabulary_size": 400,
        "data.tokens_per_batch": 1024,
        "optim.accumulate": 1,
    }
    size["budget.beam_size"] = 1
    facts = {"run": "a", "status": "finished", "steps": 100}
    seconds = {"seconds_train": 20.0, "seconds_total": 23.0}
    return pandas.DataFrame([{**size, **facts, **seconds, **values}] * 2)


def test_cost_is_taken_from_past_runs_of_the_same_size():
    cells = plan(base={"budget.max_steps": 500}).cells
    assert estimate_seconds(cells, runs()) == pytest.approx(len(cells) * (500 * 0.2 + 3))
    assert estimate_seconds([], pandas.DataFrame()) == 0


@pytest.mark.parametrize(
    "frame",
    [pandas.DataFrame(), runs(**{"dims.d_model": 64}), runs(status="diverged"), runs(steps=0)],
    ids=["no runs", "other size", "diverged", "nothing trained"],
)
def test_cost_without_such_runs_is_unknown(frame):
    assert estimate_seconds(plan().cells, frame) is None


GRID = {
    "method": "grid",
    "program": "ablate",
    "metric": {"name": "chrf", "goal": "maximize"},
    "parameters": {
        "design.norm_position": {"values": ["pre", "post"]},
        "dims.d_model": {"value": 64},
        "seed": {"values": [1, 2]},
    },
}


def test_a_wandb_grid_is_a_factorial_study_named_after_its_file():
    found = parse_study(GRID, name="grid", overrides={})
    assert found.arrangement is Arrangement.factorial
    assert (found.name, found.metric, found.seeds) == ("grid", "chrf", (1, 2))
    assert found.axes == {"design.norm_position": ("pre", "post")}
    assert found.base == {"dims.d_model": 64}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"axis": {}}, "'axis' is no key of a study file; legal: name, description"),
        ({"design": "pairwise"}, "'pairwise' is not legal; legal: one_factor_at_a_time, factorial"),
        ({"axes": {"design.norms": ["pre"]}}, "'design.norms' is no config path; did you mean"),
        ({"axes": {"design.mask": ["minus_2"]}}, "'minus_2' is no level; legal: minus_inf"),
        ({"axes": {"design.mask": "minus_inf"}}, "design.mask: expected a list of values"),
        ({"axes": {"design.mask": []}}, "design.mask: expected a list of values"),
        ({"axes": {"seed": [1]}}, "seeds are listed under 'seeds'"),
        ({"axes": ["design.mask"]}, "'base' and 'axes' hold dotted names"),
        ({"base": {"dims.width": 1}}, "'dims.width' is no config path"),
        ({"base": {"design.mask": "minus_inf"}, "axes": {"design.mask": ["minus_inf"]}}, "both a"),
        ({"seeds": ["x"]}, "seed: 'x' is not a whole number"),
        ({"seeds": 3}, "seeds: expected a list"),
        ({"seeds": [1, 2, "1"]}, "seeds: 1 stands twice"),
        ({"task": "sequences"}, "'task' is no key of a study file (settings go under 'base')"),
        ({"optim.lr": 0.1}, "(settings go under 'base')"),
        ({"base": {"dims": {"d_model": 8, "d_ff": 8}}}, "write dims.d_model, dims.d_ff"),
        ({"name": "a/b"}, "use letters"),
        ({**GRID, "method": "random"}, "method: 'random'; only 'grid'"),
        ({**GRID, "paramters": {}}, "'paramters' is no key"),
        ({**GRID, "parameters": {"optim.lr": {"min": 0, "max": 1}}}, "optim.lr: give 'values"),
    ],
)
def test_what_is_wrong_in_a_study_is_named(content, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the text is compared below)
        parse_study(content, name="test", overrides={})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_overrides_replace_fixed_values():
    found = parse_study({"base": {"dims.d_ff": 8}}, name="x", overrides={})
    changed = parse_study({"base": {"dims.d_ff": 8}}, name="x", overrides={"dims.d_ff": "16"})
    assert (found.base, changed.base) == ({"dims.d_ff": 8}, {"dims.d_ff": 16})


@pytest.mark.parametrize(
    ("path", "message"),
    [("design.position", "is an axis of this study"), ("seed", "listed under 'seeds'")],
)
def test_an_axis_cannot_be_overridden(path, message):
    with pytest.raises(ValueError, match=message):
        parse_study({"axes": AXES}, name="x", overrides={path: "1"})


def test_an_unknown_study_lists_the_shipped_ones():
    with pytest.raises(
        ValueError, match="neither a file nor a shipped study; shipped: copy_choices, copy_heads, "
    ):
        load_study("nope")


def test_broken_yaml_is_refused_in_one_line(tmp_path):
    file = tmp_path / "broken.yaml"
    file.write_text("axes: [1,\nseeds: }")
    with pytest.raises(ValueError, match="no valid YAML") as error:
        load_study(str(file))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"base: {dims.d_ff: 8, dims.d_ff: 16}", "'dims.d_ff' stands twice in the names from"),
        (b"seeds: [1]\naxes: {}\nseeds: [2]", "'seeds' stands twice"),
        (b"\xff\xfe", "no UTF-8 text"),
    ],
    ids=["setting twice", "key twice", "binary"],
)
def test_a_file_that_would_be_read_otherwise_than_it_looks_is_refused(tmp_path, content, message):
    file = tmp_path / "study.yaml"
    file.write_bytes(content)
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the text is compared below)
        load_study(str(file))
    assert str(error.value).startswith(f"{file}: ")
    assert message in str(error.value)


def test_a_file_is_read_before_a_shipped_study_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo").write_text("seeds: [7]")
    assert "demo" in shipped_studies()
    assert load_study("demo").seeds == (7,)
