"""One cell, from its config to its result."""

import csv
import io
import json
import math
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from ablations import run as run_module
from ablations.callbacks import AverageLast, Predictions
from ablations.config import RunConfig, config_from_flat, run_id
from ablations.devices import Devices
from ablations.ledger import load
from ablations.run import run_cell
from ablations.weights import load_module
from data.translation import TranslationDataModule
from lightning_modules.optimization import Precision
from lightning_modules.translation import TranslationModule
from tests.ablations.tiny import tiny

# Lightning warns those who set up a Trainer without workers or validation.
BY_HAND = pytest.mark.filterwarnings("ignore::UserWarning:pytorch_lightning")


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def run(config: RunConfig, runs_dir: Path, **options: Any) -> dict[str, Any]:
    return run_cell(config, runs_dir=runs_dir, cache_dir=runs_dir / ".cache", **options)


@pytest.fixture(scope="module")
def result(runs_dir: Path) -> dict[str, Any]:
    return run(tiny(), runs_dir)


def value(result: dict[str, Any], metric: str, split: str) -> float:
    [found] = [
        row["value"]
        for row in result["metrics"]
        if (row["metric"], row["split"]) == (metric, split)
    ]
    return found


def curve(result: dict[str, Any], runs_dir: Path) -> list[dict[str, str]]:
    with (runs_dir / result["id"] / "learning_curve.csv").open() as file:
        return list(csv.DictReader(file))


def validations(result: dict[str, Any], runs_dir: Path) -> dict[int, float]:
    rows = curve(result, runs_dir)
    return {int(r["step"]): float(r["validation_loss"]) for r in rows if r["validation_loss"]}


def test_result_says_what_was_measured_and_how(result: dict, runs_dir: Path) -> None:
    assert result["status"] == "finished"
    assert result["steps"] == 10
    measured = {(row["metric"], row["split"]) for row in result["metrics"]}
    texts = {("bleu", "test"), ("bleu_lowercase_tokenized", "test"), ("chrf", "test")}
    losses = {(m, split) for m in ("loss", "accuracy") for split in ("validation", "test")}
    assert measured == texts | losses
    assert all(row["signature"] for row in result["metrics"])
    assert 3 < value(result, "loss", "validation") < math.log(300) + 2
    assert result["versions"]["torch"] == torch.__version__
    assert result["threads"] == torch.get_num_threads()
    assert load(runs_dir, ids=[result["id"]]).problems == []


def test_the_recorded_command_names_the_same_run(result: dict) -> None:
    program, command, *flags = result["command"].split()
    assert (program, command) == ("ablate", "run")
    flat = dict(flag.removeprefix("--").split("=") for flag in flags)
    assert run_id(config_from_flat(flat), result["data_fingerprint"]) == result["id"]


def test_target_tokens_are_those_of_the_batches_seen(result: dict, runs_dir: Path) -> None:
    data = TranslationDataModule(tiny().data, seed=1, cache_dir=runs_dir / ".cache")
    batches = [batch for _, batch in zip(range(10), data.train_dataloader(), strict=False)]
    assert result["target_tokens"] == sum(int(b.target_lengths.sum()) for b in batches)


def test_hypotheses_are_in_the_order_of_the_file(result: dict, runs_dir: Path) -> None:
    lines = (runs_dir / result["id"] / "hypotheses" / "test.txt").read_text().split("\n")
    assert len(lines) == 8 + 1
    module = load_module(runs_dir / result["id"] / "weights.pt")
    data = TranslationDataModule(tiny().data, seed=1, cache_dir=runs_dir / ".cache")
    [batch] = list(data.test_dataloader("test"))
    assert batch.indices.tolist() != sorted(batch.indices.tolist())
    with torch.no_grad():
        decoded = [data.tokenizer.decode(ids) for ids in module.predict_step(batch)]
    assert [lines[index] for index in batch.indices.tolist()] == decoded


def test_predictions_must_be_complete() -> None:
    collected = Predictions()
    collected.by_index = {}
    collected.trainer = Silent()  # type: ignore[assignment]
    with pytest.raises(AssertionError, match="a row was not predicted"):
        collected.collect(None, None, count=2)  # type: ignore[arg-type]


class Silent:
    """A Trainer that predicts nothing."""

    def predict(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


def test_an_existing_result_is_reused(result: dict, runs_dir: Path, monkeypatch) -> None:
    monkeypatch.setattr(run_module, "_Run", None)
    assert run(tiny(data__path="/elsewhere"), runs_dir) == result


def test_the_first_result_of_two_stays(runs_dir: Path, monkeypatch) -> None:
    config = tiny(seed=7, budget__max_steps=2)
    finish = run_module._Run.finish

    def overtaken(self: Any, logger: Any) -> dict[str, Any]:
        mine = finish(self, logger)
        (self.folder / "result.json").write_text(json.dumps({**mine, "hardware": "the faster one"}))
        return mine

    monkeypatch.setattr(run_module._Run, "finish", overtaken)
    assert run(config, runs_dir)["hardware"] == "the faster one"


def test_equal_configs_give_equal_numbers(result: dict, tmp_path: Path) -> None:
    again = run(tiny(), tmp_path)
    assert again["metrics"] == result["metrics"]
    assert again["target_tokens"] == result["target_tokens"]


@BY_HAND
def test_the_kept_weights_are_those_evaluated(result: dict, runs_dir: Path) -> None:
    module = load_module(runs_dir / result["id"] / "weights.pt")
    data = TranslationDataModule(tiny().data, seed=1, cache_dir=runs_dir / ".cache")
    trainer = pl.Trainer(
        logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu"
    )
    [values] = trainer.validate(module, data.val_dataloader(), verbose=False)
    assert values["validation/loss"] == pytest.approx(value(result, "loss", "validation"), abs=1e-6)


def test_weights_are_plain_and_foreign_files_are_refused(
    result: dict, runs_dir: Path, tmp_path: Path
) -> None:
    content = torch.load(runs_dir / result["id"] / "weights.pt", weights_only=True)
    assert content["tokenizer_hash"] == result["tokenizer_hash"]
    assert {type(x) for x in content["config"].values()} <= {str, int, float, bool}
    for number, foreign in enumerate((b"", b"no checkpoint", _saved({"a": 1}), _saved(tiny()))):
        file = tmp_path / f"{number}.pt"
        file.write_bytes(foreign)
        with pytest.raises(ValueError, match="no weights of a run"):
            load_module(file)


def _saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_averaging_starts_late_and_is_what_is_validated(accumulate: int, runs_dir: Path) -> None:
    changes = {"optim__accumulate": accumulate, "budget__max_steps": 8, "seed": 3}
    plain = run(tiny(optim__average_last=0, **changes), runs_dir)
    averaged = run(tiny(optim__average_last=0.5, **changes), runs_dir)
    assert plain["steps"] == averaged["steps"] == 8
    before, after = validations(plain, runs_dir), validations(averaged, runs_dir)
    assert sorted(before) == sorted(after) == [4, 8]
    assert before[4] == after[4]
    assert before[8] != after[8]
    assert after[8] == pytest.approx(value(averaged, "loss", "validation"), abs=1e-6)
    assert [row["train_loss"] for row in curve(plain, runs_dir)] == [
        row["train_loss"] for row in curve(averaged, runs_dir)
    ]


@BY_HAND
def test_average_is_the_mean_of_the_weights_after_the_last_updates(tmp_path: Path) -> None:
    class Weights(pl.Callback):
        def __init__(self) -> None:
            self.seen: list[torch.Tensor] = []

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            self.seen.append(torch.nn.utils.parameters_to_vector(pl_module.parameters()).detach())

    config = tiny()
    data = TranslationDataModule(config.data, seed=1, cache_dir=tmp_path)
    data.setup()
    module = TranslationModule(
        vocabulary_size=data.vocabulary_size, design=config.design, dims=config.dims
    )
    weights = Weights()
    trainer = pl.Trainer(
        max_steps=6,
        logger=False,
        accelerator="cpu",
        callbacks=[weights, AverageLast(4)],
        limit_val_batches=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, data.train_dataloader())
    final = torch.nn.utils.parameters_to_vector(module.parameters()).detach()
    torch.testing.assert_close(final, (weights.seen[4] + weights.seen[5]) / 2)


def test_learning_curve_counts_updates_and_traces_the_rate(runs_dir: Path) -> None:
    config = tiny(optim__accumulate=2, optim__schedule="linear", budget__max_steps=6, seed=4)
    rows = curve(run(config, runs_dir), runs_dir)
    assert [int(row["step"]) for row in rows] == [1, 2, 3, 4, 5, 6]
    factor = config.optim.schedule(4, 6)
    rates = [config.optim.lr * factor(step) for step in range(6)]
    assert [float(row["lr"]) for row in rows] == pytest.approx(rates, rel=1e-4)
    assert [row["step"] for row in rows if row["validation_loss"]] == ["4"]
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize(
    "changes", [{"optim__lr": 1e30}, {"budget__divergence_loss": 0.5}], ids=["nan", "bound"]
)
def test_divergence_is_a_result(changes: dict, runs_dir: Path) -> None:
    result = run(tiny(**changes), runs_dir)
    assert result["status"] == "diverged"
    assert result["metrics"] == []
    assert 1 <= result["diverged_at_step"] == result["steps"] - 1 < 10  # seen an update later
    ledger = load(runs_dir, ids=[result["id"]])
    assert ledger.problems == []
    assert ledger.frame["status"].tolist() == ["diverged"]


def test_the_average_lies_where_the_training_is() -> None:
    average = AverageLast(0)
    trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("meta")))
    module = TranslationModule(vocabulary_size=20, dims=tiny().dims)
    average.setup(trainer, module, "fit")
    assert all(weight.is_meta for weight in average._average_model.module.parameters())


def test_ctrl_c_records_nothing(tmp_path: Path, monkeypatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TranslationModule, "on_train_batch_end", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(tiny(), tmp_path)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert list(tmp_path.glob("*/result.json")) == []


def test_illegal_combination_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dims\.n_heads 3 must divide"):
        run(tiny(dims__n_heads=3), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU runs fp16")
def test_half_precision_needs_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fp16 needs a GPU"):
        run(tiny(optim__precision="fp16"), tmp_path)


@pytest.mark.parametrize("there", [False, True])
def test_only_cuda_counts_as_a_gpu(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning by itself would take the GPU of a Mac, which has no double precision."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    options = Devices().trainer_options(Precision.fp32)
    assert options["accelerator"] == ("cuda" if there else "cpu")
