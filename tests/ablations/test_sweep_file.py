from pathlib import Path

import pytest
import yaml

from ablations.config import flatten, parse_value, paths
from ablations.plan import make_plan
from ablations.study import Arrangement, load_study
from ablations.study_files import TABLES, shipped_studies
from lightning_modules.design import AXES

ROOT = Path(__file__).parents[2]
SWEEP = ROOT / "sweep.yaml"
STUDIES = [str(SWEEP), *shipped_studies()]
CARD = [
    "design.attention_scale",
    "design.mask",
    "design.norm_position",
    "design.norm_sharing",
    "design.position",
    "dims.n_heads",
]


def plan(study):
    return make_plan(study, data_fingerprint=lambda data: "f" * 16)


@pytest.mark.parametrize("name", STUDIES)
def test_every_key_is_a_path_and_every_value_a_level(name):
    study = load_study(name)  # refuses any other name or level
    task = parse_value("task", study.base.get("task", "translation"))
    assert {*study.base, *study.axes} <= paths(task).keys()


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_says_what_it_asks_and_plans_without_a_loss(name):
    study = load_study(name)
    found = plan(study)
    assert study.description or name == str(SWEEP)
    assert found.cells
    assert not found.dropped
    assert not found.merged


@pytest.mark.parametrize("name", STUDIES)
def test_axes_of_a_study_start_with_the_baseline(name):
    for path, levels in load_study(name).axes.items():
        section, _, axis = path.partition(".")
        if section == "design":
            assert set(levels) <= set(AXES[axis].__members__)
            assert levels[0] == next(iter(AXES[axis])).name


def test_the_grid_spans_the_six_axes_and_the_seeds():
    study = load_study(str(SWEEP))
    assert study.name == "sweep"
    assert sorted(study.axes) == CARD
    assert study.axes["dims.n_heads"] == (4, 8, 16)
    assert study.arrangement is Arrangement.factorial
    assert len(plan(study).cells) == 2 * 3 * 2 * 2 * 5 * 3 * 3


def test_six_axes_on_multi30k_one_at_a_time():
    study = load_study("multi30k_six_axes")
    assert sorted(study.axes) == CARD
    assert study.arrangement is Arrangement.one_factor_at_a_time
    assert study.base["data.source"] == "multi30k"
    assert len(plan(study).cells) == (1 + 1 + 2 + 1 + 1 + 4 + 2) * 3


def test_the_demo_needs_no_download_and_has_four_axes_and_three_seeds():
    study = load_study("demo")
    assert study.base["data.source"] == "grammar"
    assert len(study.axes) >= 4
    assert len(study.seeds) == 3


def test_the_recipe_is_transformer_tiny():
    (cell,) = plan(load_study("multi30k")).cells
    dims = cell.config.dims
    sizes = (dims.n_encoder_layers, dims.n_decoder_layers, dims.d_model, dims.n_heads, dims.d_ff)
    assert sizes == (4, 4, 128, 4, 256)
    assert (cell.config.data.vocabulary_size, cell.config.budget.beam_size) == (6_000, 5)


def test_names_of_shipped_studies_are_those_of_their_files():
    assert shipped_studies() == sorted(
        file.stem for file in Path(str(TABLES)).iterdir() if file.suffix == ".yaml"
    )
    assert all(load_study(name).name == name for name in shipped_studies())


def test_the_wandb_agent_starts_the_cell_that_the_grid_means(tmp_path, monkeypatch, capsys):
    sweep_utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils")
    from ablations import cli

    grid = yaml.safe_load(SWEEP.read_text())
    wanted = plan(load_study(str(SWEEP))).cells[-1]
    flat = flatten(wanted.config)
    file = tmp_path / "arguments.json"
    arguments = {path: {"value": flat[path]} for path in grid["parameters"]}
    values = sweep_utils.create_sweep_command_args({"args": arguments})
    file.write_text(values["args_json"][0])
    replaced = {"${program}": grid["program"], "${args_json_file}": str(file)}
    words = [replaced.get(word, word) for word in sweep_utils.create_sweep_command(grid["command"])]
    assert words[:2] == ["${env}", "ablate"]
    seen = []

    def run_cell(config, **_):
        seen.append(config)
        return {"id": wanted.id, "status": "finished", "metrics": []}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ablations.run.run_cell", run_cell)
    assert cli.main([*words[2:], "--no-wandb"]) == 0
    assert seen == [wanted.config]
    assert wanted.id in capsys.readouterr().out
