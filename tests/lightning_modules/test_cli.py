"""The modules under LightningCLI, without the harness."""

from pathlib import Path

import pytest
from pytorch_lightning.cli import LightningCLI

from data.translation import TranslationDataModule
from lightning_modules.axes.positions import Position
from lightning_modules.translation import TranslationModule

# LightningCLI itself calls what jsonargparse deprecates.
pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning")

SIZES = {
    "model.vocabulary_size": 300,
    "model.dims.d_model": 16,
    "model.max_steps": 2,
    "seed_everything": 1,
    "data.seed": 1,
    "data.data.n_train": 300,
    "data.data.n_test": 10,
    "data.data.vocabulary_size": 300,
    "trainer.accelerator": "cpu",
    "trainer.max_steps": 2,
    "trainer.limit_val_batches": 0,
    "trainer.use_distributed_sampler": "false",
    "trainer.logger": "false",
    "trainer.enable_checkpointing": "false",
    "trainer.enable_progress_bar": "false",
}


@pytest.fixture(autouse=True)
def no_words_of_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["train.py"])


def command_line(tmp_path: Path, position: str) -> LightningCLI:
    flags = {**SIZES, "data.cache_dir": tmp_path, "model.design.position": position}
    words = ["fit", *(f"--{name}={value}" for name, value in flags.items())]
    return LightningCLI(
        TranslationModule, TranslationDataModule, args=words, save_config_callback=None
    )


def test_an_axis_is_a_flag(tmp_path: Path) -> None:
    trained = command_line(tmp_path, "rope")
    assert trained.trainer.global_step == 2
    scheme = trained.model.model.encoder.position
    assert type(scheme) is Position.rope.value.make


def test_an_unknown_level_names_the_legal_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command_line(tmp_path, "ropy")
    error = capsys.readouterr().err
    assert all(level.name in error for level in Position), error
