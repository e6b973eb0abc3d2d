"""A batch that the memory does not hold is taken in parts: the same update."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ablations.loading import TrainingLoader
from ablations.run import run_cell
from data.sequence_loading import SequenceDataModule
from data.sequences import SequenceData, SequenceForm
from lightning_modules.supervised import TokenModule
from tests.ablations.runs import config_of, curve, weights

STEP = TokenModule.training_step
SAME = {"dims__dropout": 0.0, "optim__average_last": 0.0, "data__n_train": 50}


def run(config: Any, folder: Path) -> dict[str, Any]:
    return run_cell(config, runs_dir=folder, cache_dir=folder.parent / ".cache")


def fits(monkeypatch: pytest.MonkeyPatch, rows: int) -> list[int]:
    """A memory that holds so many rows; gives the rows of every batch that was tried."""
    tried: list[int] = []

    def training_step(self: Any, batch: Any, batch_index: int) -> Any:
        tried.append(len(batch))
        if len(batch) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return STEP(self, batch, batch_index)

    monkeypatch.setattr(TokenModule, "training_step", training_step)
    return tried


def assert_near(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> None:
    """Equal but for rounding, which is all that moves a bias of the keys: it has no gradient."""
    for name, tensor in before.items():
        if not name.endswith("key.bias"):
            torch.testing.assert_close(after[name], tensor, atol=1e-6, rtol=0)


def test_halved_batches_make_the_same_updates(tmp_path: Path, monkeypatch: Any) -> None:
    config = config_of("sequences", **SAME)
    whole = run(config, tmp_path / "whole")
    tried = fits(monkeypatch, 3)
    parts = run(config, tmp_path / "parts")
    assert (whole["batch_parts"], parts["batch_parts"]) == (1, 4)
    assert tried[:4] == [10, 5, 3, 3]
    assert set(tried[4:]) == {3, 2}
    for name in ("steps", "target_tokens"):
        assert whole[name] == parts[name]
    assert_near(weights(whole, tmp_path / "whole"), weights(parts, tmp_path / "parts"))
    rates = [
        [row["lr"] for row in curve(r, tmp_path / f)]
        for r, f in ((whole, "whole"), (parts, "parts"))
    ]
    assert rates[0] == rates[1]


def test_a_run_that_gets_out_of_memory_late_goes_on_from_its_checkpoint(
    tmp_path: Path, monkeypatch: Any
) -> None:
    config = config_of("sequences", **SAME)
    whole = run(config, tmp_path / "whole")
    monkeypatch.setenv("ABLATIONS_CHECKPOINT_SECONDS", "0")
    rows = 0

    def training_step(self: Any, batch: Any, batch_index: int) -> Any:
        nonlocal rows
        if rows >= 125 and len(batch) > 5:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        rows += len(batch)
        return STEP(self, batch, batch_index)

    monkeypatch.setattr(TokenModule, "training_step", training_step)
    parts = run(config, tmp_path / "parts")
    assert (parts["resumed"], parts["batch_parts"], parts["steps"]) == (1, 2, whole["steps"])
    assert parts["target_tokens"] == whole["target_tokens"]
    assert_near(weights(whole, tmp_path / "whole"), weights(parts, tmp_path / "parts"))


@pytest.mark.parametrize(
    "changes",
    [
        {"data__batch_size": 1},  # nothing to halve
        {"data__batch_size": 7},  # 50 rows: the last batch has one
        {"design__norm_kind": "batch_norm_masked"},  # half a batch has other statistics
    ],
)
def test_what_would_be_another_update_is_not_done(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    config = config_of("sequences", **{**SAME, **changes})
    tried = fits(monkeypatch, 0)
    with pytest.raises(torch.OutOfMemoryError):
        run(config, tmp_path)
    assert len(tried) == 1


def test_parts_hold_every_row_once_in_an_order_that_a_state_can_go_on_with() -> None:
    data = SequenceDataModule(
        SequenceData(n_train=50, batch_size=10), seed=1, form=SequenceForm.encoder_decoder
    )
    loader = TrainingLoader(data.train_dataloader(), parts=4)
    assert len(loader) == 20
    parts = [batch.indices.tolist() for batch in loader]
    assert sorted(row for part in parts for row in part) == list(range(50))
    whole = [batch.indices.tolist() for batch in data.train_dataloader()]
    assert parts[:4] == [whole[0][part::4] for part in range(4)]
    iterator = iter(loader)
    for _ in range(7):
        next(iterator)
    again = TrainingLoader(data.train_dataloader(), parts=4)
    again.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert [batch.indices.tolist() for batch in again] == parts[7:]
    assert [batch.indices.tolist() for batch in again] == parts
