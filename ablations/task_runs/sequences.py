"""The sequence-task part of a run: free-running answers at every evaluated length."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytorch_lightning as pl

from ablations.callbacks import Predictions
from ablations.config import RunConfig
from ablations.task_runs.base import Facts, Rows, TaskRun
from data.sequence_loading import SequenceDataModule
from data.sequences import SequenceForm, positions_needed
from lightning_modules.axes.positions import stretch_positions
from lightning_modules.language_modeling import LanguageModelingModule
from lightning_modules.supervised import TokenModule
from lightning_modules.translation import TranslationModule


class SequenceRun(TaskRun):
    """Sequence tasks: losses under teacher forcing, and what is written without it."""

    signatures: ClassVar[Mapping[str, str]] = {
        "loss": "nats per target token",
        "accuracy": "teacher-forced, per target token",
        "exact_match": "free-running, whole answers",
        "token_accuracy": "free-running, per target token",
    }
    data: SequenceDataModule

    def __init__(self, config: RunConfig, *, cache_dir: Path) -> None:
        super().__init__(config, cache_dir=cache_dir)
        self.data = SequenceDataModule(config.data, seed=config.seed, form=config.variant.form)

        reasons = {length: self.undefined_at(length) for length in self.data.eval_lengths}
        self.undefined = [
            {"split": "test", "length": length, "why": why}
            for length, why in reasons.items()
            if why
        ]

    def undefined_at(self, length: int) -> str:
        """Why the position scheme isn't defined for so many items; empty where it is."""
        config = self.config
        needed = positions_needed(config.data, form=config.variant.form, length=length)
        why = config.design.position.undefined_at(needed, dims=config.dims)
        return f"{why}, and {length} items take {needed}" if why else ""

    def refuse(self) -> None:
        """Refuse training examples that the position scheme isn't defined for."""
        if why := self.undefined_at(self.config.data.train_max):
            raise ValueError(
                f"{why}, as data.train_max allows; raise dims.max_length or choose another "
                "design.position"
            )

    @property
    def facts(self) -> Facts:
        """The size of the vocabulary."""
        return {"vocabulary_size": self.data.vocabulary_size}

    @staticmethod
    def build(config: RunConfig, facts: Facts) -> TokenModule:
        """The untrained module of the form asked for."""
        choices: dict[str, Any] = {
            "design": config.design,
            "dims": config.dims,
            "optim": config.optim,
            "max_steps": config.budget.max_steps,
        }
        size = facts["vocabulary_size"]
        if config.variant.form is SequenceForm.decoder_only:
            return LanguageModelingModule(vocabulary_size=size, **choices)
        beam_size = config.budget.beam_size
        return TranslationModule(vocabulary_size=size, beam_size=beam_size, **choices)

    def evaluate(self, trainer: pl.Trainer, module: pl.LightningModule, folder: Path) -> Rows:
        """Losses and free-running answers, a row for each length and metric.

        A length at which the position scheme isn't defined has no rows; see `undefined`.
        """
        loader = self.data.val_dataloader()
        rows = self.rows("validation", trainer.validate(module, loader, verbose=False)[0])
        undefined = {part["length"] for part in self.undefined}
        for length in self.data.eval_lengths:
            if length in undefined:
                continue
            loader = self.data.test_dataloader(length)
            stretch_positions(module, length / self.config.data.train_max)
            logged = trainer.test(module, loader, verbose=False)[0]
            targets = self.data.targets(length)
            answers = Predictions.of(trainer).collect(module, loader, count=len(targets))
            rows += self.rows("test", {**logged, **_compare(answers, targets)}, length=length)
        stretch_positions(module, 1.0)
        return rows


def _compare(answers: list[list[int]], targets: list[list[int]]) -> dict[str, float]:
    pairs = list(zip(answers, targets, strict=True))
    hits = sum(a == t for answer, target in pairs for a, t in zip(answer, target, strict=False))
    return {
        "exact_match": sum(answer == target for answer, target in pairs) / len(pairs),
        "token_accuracy": hits / sum(len(target) for target in targets),
    }
