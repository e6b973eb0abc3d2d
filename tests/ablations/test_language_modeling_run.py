"""What a run of language modelling records: lengths, modes, positions, continuations."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ablations.ledger import load
from ablations.run import run_cell
from ablations.task_runs.registry import make_task_run
from ablations.weights import load_module
from data.text_loading import TextDataModule
from lightning_modules.axes.strategies import Strategy
from lightning_modules.sampling import Sampling, distinct_n, repetition_rate
from tests.ablations.test_tasks import config

NAMES = [*map(str, Strategy), "text"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text that most of its own eighth repeats."""
    path = tmp_path_factory.mktemp("text")
    (path / "text.txt").write_text("".join(f"{n % 7} and {n % 5} is {n}.\n" for n in range(900)))
    return path


@pytest.fixture(scope="module")
def result(folder: Path) -> dict[str, Any]:
    return recorded(folder)


def recorded(folder: Path, **values: object) -> dict[str, Any]:
    cell = config("language_modeling", data__path=str(folder / "text.txt"), **values)
    return run_cell(cell, runs_dir=folder, cache_dir=folder / ".cache")


def rows_of(result: dict[str, Any], metric: str) -> dict[tuple[str, int | None], dict[str, Any]]:
    rows = [row for row in result["metrics"] if row["metric"] == metric]
    found = {(row["split"], row["length"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def test_every_length_has_its_loss_in_nats_and_bits_with_the_mode(result: dict[str, Any]) -> None:
    nats, bits = rows_of(result, "loss"), rows_of(result, "bits_per_token")
    assert list(nats) == list(bits) == [("validation", None), ("test", 16), ("test", 32)]
    for place, row in nats.items():
        assert bits[place]["value"] == pytest.approx(row["value"] / math.log(2))
        assert row["signature"] == "nats per token, non-overlapping windows"
        assert bits[place]["signature"] == "bits per token, non-overlapping windows"


def test_positions_average_to_the_longest_window(result: dict[str, Any], folder: Path) -> None:
    by_position = rows_of(result, "position_bits")
    assert list(by_position) == [("position", end) for end in (1, 2, 4, 8, 16, 32)]
    assert by_position["position", 16]["signature"] == (
        "bits per token, non-overlapping windows of 32 tokens, positions 9 to 16"
    )
    cell = config("language_modeling", data__path=str(folder / "text.txt"))
    data = TextDataModule(cell.data, seed=1, cache_dir=folder)
    counts: Counter[int] = Counter()
    for batch in data.test_dataloader(32):
        for place in batch.loss_mask.nonzero()[:, 1].tolist():
            counts[1 << place.bit_length()] += 1
    total = sum(by_position["position", end]["value"] * n for end, n in counts.items())
    whole = rows_of(result, "bits_per_token")["test", 32]["value"]
    assert total / counts.total() == pytest.approx(whole, abs=1e-5)


def test_a_sliding_window_is_another_number_and_says_so(
    result: dict[str, Any], folder: Path
) -> None:
    sliding = recorded(folder, data__eval_stride=4)
    row = rows_of(sliding, "bits_per_token")["test", 32]
    assert row["signature"] == "bits per token, sliding windows, stride 4"
    assert row["value"] != rows_of(result, "bits_per_token")["test", 32]["value"]


def test_every_strategy_is_measured_at_every_length_beside_the_text(
    result: dict[str, Any], folder: Path
) -> None:
    places = [(f"continuation.{name}", length) for length in (8, 12) for name in NAMES]
    for metric in ("repetition_rate", "distinct_1", "distinct_2", "continuation_bits"):
        assert list(rows_of(result, metric)) == places
    kept = folder / result["id"] / "continuations"
    assert sorted(file.name for file in kept.iterdir()) == sorted(
        f"{name}@{length}.jsonl" for name in map(str, Strategy) for length in (8, 12)
    )


def test_what_is_kept_is_what_was_measured(result: dict[str, Any], folder: Path) -> None:
    """Also in its likelihood: the sum of what a model says of each token, alone."""
    cell = config("language_modeling", data__path=str(folder / "text.txt"))
    data = TextDataModule(cell.data, seed=1, cache_dir=folder)
    module = load_module(folder / result["id"] / "weights.pt")
    text = (folder / result["id"] / "continuations" / "temperature_1_5@12.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["prompt"] for line in lines] == [
        data.tokenizer.decode(row[:4]) for row in data.prompted(12).tolist()
    ]
    written = [line["tokens"] for line in lines]
    assert {len(row) for row in written} == {12}
    assert [line["continuation"] for line in lines] == list(map(data.tokenizer.decode, written))
    place = ("continuation.temperature_1_5", 12)
    values = {
        "repetition_rate": sum(repetition_rate(row) for row in written) / 3,
        "distinct_1": distinct_n(written, n=1),
        "distinct_2": distinct_n(written, n=2),
    }
    rows = data.prompted(12)
    bits = 0.0
    for row, ids in zip(rows, written, strict=True):
        completed = [*row[:4].tolist(), *ids]
        log_p = module.model.logits(module.model(row.new_tensor([completed]))).log_softmax(-1)[0]
        bits -= sum(log_p[i - 1, completed[i]].item() for i in range(4, 16)) / math.log(2)
    values["continuation_bits"] = bits / 36
    for metric, value in values.items():
        assert rows_of(result, metric)[place]["value"] == pytest.approx(value, abs=1e-5)


def test_a_context_beyond_the_table_is_undefined_and_the_others_go_on(folder: Path) -> None:
    result = recorded(folder, design__position="learned", dims__max_length=16)
    assert list(rows_of(result, "loss")) == [("validation", None), ("test", 16)]
    assert rows_of(result, "position_bits") == {}
    assert {length for _, length in rows_of(result, "repetition_rate")} == {8, 12}
    assert [(part["split"], part["length"]) for part in result["undefined"]] == [("test", 32)]
    assert result["undefined"][0]["why"].endswith(
        "beyond dims.max_length 16 tokens, and the context has 32"
    )
    longer = recorded(
        folder,
        design__position="learned",
        dims__max_length=16,
        data__continuation_lengths="13 14",
        seed=2,
    )
    assert {length for _, length in rows_of(longer, "repetition_rate")} == {13}
    assert len(longer["undefined"]) == 1 + len(NAMES)
    assert load(folder, ids=[longer["id"]]).problems == []


def test_more_prompts_than_the_text_has_are_refused_before_training(folder: Path) -> None:
    cell = config("language_modeling", data__path=str(folder / "text.txt"), data__n_prompts=5000)
    with pytest.raises(ValueError, match="n_prompts=5000: the test split has"):
        make_task_run(cell, cache_dir=folder)
    assert rows_of(recorded(folder, data__n_prompts=0), "repetition_rate") == {}


def test_strategies_are_levels_of_one_axis() -> None:
    assert next(iter(Strategy))() == Sampling()
    assert len({level() for level in Strategy}) == len(Strategy)
    assert Strategy.top_k().top_k == 10
