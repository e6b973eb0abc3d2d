"""Each task through a whole run, and what the parts of a run promise."""

from pathlib import Path
from typing import Any

import pytest

from ablations.config import RunConfig, check, config_from_flat
from ablations.ledger import load
from ablations.run import run_cell
from ablations.task_runs import sequences
from ablations.task_runs.registry import make_task_run
from ablations.tasks import HEAD_METRICS, Task
from ablations.weights import load_module
from lightning_modules.axes.positions import PositionScheme, stretch_positions

SMALL = {
    "dims.d_model": 16,
    "dims.n_heads": 2,
    "dims.d_ff": 16,
    "dims.n_encoder_layers": 1,
    "dims.n_decoder_layers": 1,
    "optim.warmup_steps": 2,
    "budget.max_steps": 4,
    "budget.validate_every": 2,
}
OF_TASK: dict[str, dict[str, Any]] = {
    "translation": {"data.vocabulary_size": 200, "data.n_train": 200, "data.n_test": 10},
    "forecasting": {"data.n_hours": 1_500, "data.lookback": 48},
    "sequences": {"data.n_train": 200, "data.n_eval": 20, "data.eval_lengths": "1x 2x"},
    "language_modeling": {
        "data.path": str(Path(__file__).parents[2] / "LICENSE"),
        "data.context_length": 16,
        "data.tokens_per_batch": 64,
        "data.eval_lengths": "1x 2x",
        "data.n_prompts": 3,
        "data.prompt_length": 4,
        "data.continuation_lengths": "8 12",
    },
}
TRAINED = {
    "translation": "bleu",
    "forecasting": "mse",
    "sequences": "exact_match",
}


def config(task: str, **values: object) -> RunConfig:
    named = {path.replace("__", "."): value for path, value in values.items()}
    return config_from_flat({"task": task, **SMALL, **OF_TASK[task], **named})


def run(cell: RunConfig, folder: Path) -> dict[str, Any]:
    return run_cell(cell, runs_dir=folder, cache_dir=folder / ".cache")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("task", "values"),
    [
        ("translation", {}),
        ("forecasting", {}),
        ("forecasting", {"variant__readout": "autoregressive", "variant__tokens": "point"}),
        ("sequences", {}),
        ("sequences", {"variant__form": "decoder_only"}),
        ("language_modeling", {}),
        ("language_modeling", {"data__vocabulary_size": 120, "data__eval_stride": 7}),
    ],
)
def test_a_run_from_config_to_record(
    task: str, values: dict[str, object], precision: str, tmp_path: Path
) -> None:
    result = run(config(task, **values, optim__precision=precision), tmp_path)
    assert (result["status"], result["steps"]) == ("finished", 4)
    measured = {row["metric"] for row in result["metrics"]}
    assert measured == set(Task[task].value.metrics) - {*HEAD_METRICS}
    assert load(tmp_path).problems == []
    assert load_module(tmp_path / result["id"] / "weights.pt").training is False


@pytest.mark.parametrize("model", ["ridge", "repeat_last", "same_hour_yesterday"])
def test_what_has_nothing_to_train_is_not_trained(model: str, tmp_path: Path) -> None:
    cell = config("forecasting", variant__model=model)
    assert cell.updates == 0
    result = run(cell, tmp_path)
    assert (result["status"], result["steps"], result["parameters"]) == ("finished", 0, 0)
    errors = [row["value"] for row in result["metrics"] if row["metric"] == "mse"]
    assert 0 < errors[0] < 2


def test_a_length_beyond_the_table_has_no_rows(tmp_path: Path) -> None:
    cell = config("sequences", design__position="learned", dims__max_length=10)
    result = run(cell, tmp_path)
    assert {row["length"] for row in result["metrics"]} == {None, 8}
    (part,) = result["undefined"]
    assert (part["split"], part["length"]) == ("test", 16)
    assert part["why"] == (
        "design.position learned is not defined beyond dims.max_length 10 tokens, and 16 items "
        "take 17"
    )


LOOKBACKS = {"data__lookback": 24, "data__eval_lookbacks": "1x 2x 4x", "data__horizon": 6}


def test_forecasts_by_lookback_and_the_split_as_ever(tmp_path: Path) -> None:
    one_shot = {"variant__readout": "one_shot", **LOOKBACKS}
    result = run(config("forecasting", **one_shot), tmp_path)
    errors = {
        (row["split"], row["length"]): row["value"]
        for row in result["metrics"]
        if row["metric"] == "mse"
    }
    assert set(errors) == {("test", None), ("test", 24), ("test", 48), ("test", 96)}
    assert errors["test", 24] == errors["test", None]
    assert len(set(errors.values())) == 3
    assert result["undefined"] == []


@pytest.mark.parametrize(
    ("values", "undefined", "says"),
    [
        ({}, [48, 96], "variant.readout head has weights for data.lookback 24 rows, no others"),
        (
            {"variant__model": "ridge"},
            [48, 96],
            "variant.model ridge has weights for data.lookback",
        ),
        ({"variant__model": "repeat_last"}, [], ""),
        ({"variant__model": "lstm"}, [], ""),
        (
            {
                "variant__readout": "autoregressive",
                "variant__tokens": "point",
                "design__position": "learned",
                "dims__max_length": 48,
            },
            [96],
            "learned is not defined beyond dims.max_length 48 tokens, and a window has 96",
        ),
        (
            {"variant__readout": "one_shot", "data__eval_lookbacks": "7,8"},
            [7],
            "variant.patch_length 16 is longer than 7",
        ),
    ],
)
def test_a_lookback_that_a_model_cannot_read_is_undefined(
    values: dict[str, object], undefined: list[int], says: str, tmp_path: Path
) -> None:
    part = make_task_run(config("forecasting", **(LOOKBACKS | values)), cache_dir=tmp_path)
    assert [found["length"] for found in part.undefined] == undefined
    assert all(says in found["why"] for found in part.undefined)
    module = part.build(part.config, part.facts).eval()
    for lookback in part.data.eval_lookbacks:
        batch = next(iter(part.data.test_dataloader(lookback)))
        if lookback not in undefined:
            assert module.predict_step(batch).shape == batch.future.shape
        else:
            with pytest.raises((RuntimeError, ValueError)):
                module.predict_step(batch)


BY_WORDS = {"data__n_test": 30, "data__train_max_source_words": 8, "data__eval_source_words": "1x"}


def test_translations_by_length_of_the_source_are_those_of_the_whole(tmp_path: Path) -> None:
    result = run(config("translation", **BY_WORDS), tmp_path)
    found = {(row["length"], row["metric"]): row["value"] for row in result["metrics"]}
    bounds = [length for length, metric in found if metric == "sentences"]
    counts = result["data_report"]["splits"]["test"]["by_source_words"]
    assert {str(bound): found[bound, "sentences"] for bound in bounds} == counts
    assert bounds[0] == 8
    assert sum(counts.values()) == 30
    for metric in ("loss", "bleu", "chrf"):
        assert {length for length, name in found if name == metric} == {None, *bounds}
    lines = (tmp_path / result["id"] / "hypotheses" / "test.txt").read_text().splitlines()
    assert len(lines) == 30


def test_where_a_table_ends_the_longer_buckets_are_undefined(tmp_path: Path) -> None:
    """The whole split has a sentence that is too long, and the first bucket has none."""
    data = make_task_run(config("translation", **BY_WORDS), cache_dir=tmp_path / ".cache").data
    needed = [data.longest_sentence(split) for split in ("train", "validation")]
    limit = max(*needed, data.longest_sentence("test", data.source_buckets("test")[8]))
    assert data.longest_sentence("test") > limit
    limits = {"design__position": "learned", "dims__max_length": limit}
    result = run(config("translation", **BY_WORDS, **limits), tmp_path)
    measured = {(row["split"], row["length"]) for row in result["metrics"]}
    assert measured == {("validation", None), ("test", 8)}
    assert result["undefined"][0]["length"] is None
    assert f"is not defined beyond dims.max_length {limit} tokens" in result["undefined"][0]["why"]
    lines = (tmp_path / result["id"] / "hypotheses" / "test.txt").read_text().split("\n")
    assert len(lines) == 31


def test_an_answer_counts_when_it_is_whole_and_no_more() -> None:
    targets = [[5, 6], [5, 6], [5, 6], [5, 6]]
    compared = sequences._compare([[5, 6], [5], [5, 6, 7], [6, 5]], targets)
    assert compared == {"exact_match": 0.25, "token_accuracy": 5 / 8}


def test_position_schemes_are_told_how_much_longer_the_inputs_are() -> None:
    cell = config(
        "sequences", design__position="rope", design__rope_scaling="position_interpolation"
    )
    module = sequences.SequenceRun.build(cell, {"vocabulary_size": 20})
    stretch_positions(module, 4.0)
    schemes = [part for part in module.modules() if isinstance(part, PositionScheme)]
    assert [scheme.factor for scheme in schemes] == [4.0, 4.0]
    stretch_positions(module, 0.5)
    assert [scheme.factor for scheme in schemes] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("task", "values", "says"),
    [
        ("translation", {"dims__max_length": 5}, "learned is not defined beyond.* 5 tokens"),
        ("forecasting", {"dims__max_length": 5}, "learned is not defined beyond.* 5 tokens"),
        ("sequences", {"dims__max_length": 5}, "learned is not defined beyond.* 5 tokens"),
        ("language_modeling", {"dims__max_length": 5}, "beyond.* 5 tokens, and the context has 16"),
    ],
)
def test_data_that_a_learned_table_does_not_reach_are_refused(
    task: str, values: dict[str, object], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=says):
        make_task_run(config(task, design__position="learned", **values), cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("task", "values", "says"),
    [
        ("forecasting", {"design.mask": "minus_1e9"}, "design.mask minus_1e9 does nothing here"),
        ("forecasting", {"design.embedding_tying": "none"}, "embedding_tying none does nothing"),
        ("translation", {"design.position": "rope", "design.rope_scaling": "ntk_aware"}, "nothing"),
        ("sequences", {"variant.form": "decoder_only", "budget.beam_size": 2}, "beam_size 2 does"),
        ("language_modeling", {"budget.beam_size": 2}, "budget.beam_size 2 does nothing here"),
        ("forecasting", {"variant.model": "same_hour_last_week"}, "lookback of at least 168"),
    ],
)
def test_what_nothing_reads_is_refused(task: str, values: dict[str, Any], says: str) -> None:
    cell = config_from_flat({"task": task, **SMALL, **OF_TASK[task], **values})
    with pytest.raises(ValueError, match=says):
        check(cell)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("optim.accumulate", 0),
        ("optim.average_last", 2),
        ("optim.clip_norm", -1),
        ("optim.label_smoothing", 1.5),
        ("optim.lr", -1),
        ("optim.beta2", 2),
        ("seed", -1),
    ],
)
def test_numbers_out_of_range_are_refused(path: str, value: float) -> None:
    with pytest.raises(ValueError, match=r"it must be from [\d.e-]+ to"):
        config_from_flat({path: value})
