"""The scores of a forecaster, whatever the evaluation batches and however many processes."""

import json
import os
import socket
from functools import cache
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from torch.multiprocessing import spawn

from data.forecasting import ForecastingDataModule
from data.series import ForecastingData
from lightning_modules.design import Design, Dims
from lightning_modules.forecaster import ForecastVariant
from lightning_modules.forecasting import ForecastingModule
from lightning_modules.optimization import Optim
from lightning_modules.readouts import WindowShape

SERIES = {"n_hours": 1200, "lookback": 48, "horizon": 6, "temperature": 0.0}


def scores(batch_size: int, *, processes: int = 1) -> dict[str, float]:
    """What a Trainer logs on the test windows: 235 of them, which two processes share unevenly."""
    data = ForecastingDataModule(ForecastingData(**SERIES, batch_size=batch_size), seed=1)
    data.setup()
    torch.manual_seed(3)
    module = ForecastingModule(
        shape=WindowShape(
            lookback=48, horizon=6, n_channels=1, n_time_features=data.n_time_features
        ),
        variant=ForecastVariant(),
        design=Design(),
        dims=Dims(d_model=16, n_heads=2, d_ff=32, n_encoder_layers=1),
        optim=Optim(),
        max_steps=1,
        deviation=data.scale[1],
    )
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=processes,
        strategy="ddp" if processes > 1 else "auto",
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    # The Trainer asks for the batches, once it knows of the other processes.
    return dict(trainer.test(module, datamodule=data, verbose=False)[0])


@cache
def reference() -> dict[str, float]:
    return scores(32)


@pytest.mark.parametrize("batch_size", [1, 512])
def test_the_scores_do_not_depend_on_the_evaluation_batch(batch_size: int) -> None:
    assert scores(batch_size) == pytest.approx(reference(), rel=1e-5)


def scores_of_two(rank: int, port: int, folder: Path) -> None:
    """One of two processes, as a launcher starts them: each writes what it logged."""
    torch.set_num_threads(1)
    places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": 2, "LOCAL_RANK": rank}
    os.environ.update({name: str(value) for name, value in places.items()})
    (folder / f"{rank}.json").write_text(json.dumps(scores(32, processes=2)))
    torch.distributed.destroy_process_group()


def test_two_processes_score_as_one_does(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawn(scores_of_two, args=(port, tmp_path), nprocs=2)
    for rank in range(2):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found == pytest.approx(reference(), rel=1e-6)
