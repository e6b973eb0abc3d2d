"""The data module: who gets which window when, in one process and in several."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor

from data.batches import ForecastingBatch
from data.forecasting import ForecastingData, ForecastingDataModule
from tests.data.tables import order, random_values, series_data, write_series


@pytest.fixture
def data(tmp_path: Path) -> ForecastingData:
    return series_data(write_series(tmp_path / "series.csv", random_values()))


@pytest.fixture
def module(data: ForecastingData) -> ForecastingDataModule:
    return ForecastingDataModule(data, seed=1)


def test_training_takes_every_window_once_an_epoch(module: ForecastingDataModule) -> None:
    for epoch in (0, 1):
        batches = order(module, epoch)
        assert sorted(index for batch in batches for index in batch) == list(range(251))
        assert {len(batch) for batch in batches} == {16, 251 % 16}


def test_order_depends_on_seed_and_epoch_only(
    module: ForecastingDataModule, data: ForecastingData
) -> None:
    torch.manual_seed(123)
    assert order(module) == order(ForecastingDataModule(data, seed=1))
    other = ForecastingDataModule(data, seed=2)
    assert len({str(order(m, epoch)) for m in (module, other) for epoch in (0, 1)}) == 4


def test_reading_batches_leaves_the_dropout_generator_alone(module: ForecastingDataModule) -> None:
    module.setup()
    before = torch.get_rng_state()
    for loader in (module.train_dataloader(), module.val_dataloader()):
        next(iter(loader))
    assert torch.equal(before, torch.get_rng_state())


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator:
    """Pretend to be one of several processes."""

    def pretend(rank: int, world_size: int) -> None:
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world_size)

    return pretend


@pytest.mark.parametrize("batch_size", [1, 32, 512])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_every_process_evaluates_its_own_windows_and_all_are_there(
    data: ForecastingData, ranks, batch_size: int, world_size: int
) -> None:
    sized = ForecastingData(**(vars(data) | {"batch_size": batch_size}))
    seen: list[int] = []
    for rank in range(world_size):
        ranks(rank, world_size)
        module = ForecastingDataModule(sized, seed=1)
        seen += [i for batch in module.test_dataloader() for i in batch.indices.tolist()]
        if world_size == 1:
            assert seen == list(range(75))
    assert sorted(seen) == list(range(75))


def test_processes_train_in_step(data: ForecastingData, ranks) -> None:
    alone = order(ForecastingDataModule(data, seed=1))
    shares = []
    for rank in range(2):
        ranks(rank, 2)
        shares.append(order(ForecastingDataModule(data, seed=1)))
    assert [sorted(a + b) for a, b in zip(*shares, strict=True)] == list(map(sorted, alone))


class Recorder(LightningModule):
    """Learns nothing; writes down what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.trained: list[list[int]] = []
        self.validated: list[int] = []

    def training_step(self, batch: ForecastingBatch, index: int) -> Tensor:
        self.trained.append(batch.indices.tolist())
        return self.weight.sum()

    def validation_step(self, batch: ForecastingBatch, index: int) -> None:
        self.validated += batch.indices.tolist()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_a_trainer_gets_a_new_order_each_epoch(
    module: ForecastingDataModule, tmp_path: Path
) -> None:
    recorder = Recorder()
    trainer = Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        default_root_dir=tmp_path,
        max_epochs=2,
    )
    trainer.fit(recorder, datamodule=module)
    assert recorder.trained == order(module, 0) + order(module, 1)
    assert recorder.validated == [*range(35)] * 2
