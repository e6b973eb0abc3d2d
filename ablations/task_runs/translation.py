"""The translation part of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytorch_lightning as pl

from ablations.callbacks import Predictions
from ablations.config import RunConfig
from ablations.files import write_atomically
from ablations.task_runs.base import Facts, Rows, TaskRun
from data.text_scores import score
from data.translation import TranslationDataModule
from lightning_modules.translation import TranslationModule


class TranslationRun(TaskRun):
    """Sentence pairs: losses, accuracies, and translations scored as text."""

    signatures: ClassVar[Mapping[str, str]] = {
        "loss": "nats per target token",
        "accuracy": "teacher-forced, per target token",
    }
    data: TranslationDataModule

    def __init__(self, config: RunConfig, *, cache_dir: Path) -> None:
        super().__init__(config, cache_dir=cache_dir)
        self.data = TranslationDataModule(config.data, seed=config.seed, cache_dir=cache_dir)
        self.data.setup()
        self.tokenizer_hash = self.data.tokenizer.hash

    def refuse(self) -> None:
        """Refuse sentences that a learned position table doesn't reach."""
        longest = self.data.longest_sentence
        if why := self.config.design.position.undefined_at(longest, dims=self.config.dims):
            raise ValueError(
                f"{why}, and the data have a sentence of {longest}; raise dims.max_length to "
                f"{longest} or choose another design.position"
            )

    @property
    def facts(self) -> Facts:
        """The size of the vocabulary."""
        return {"vocabulary_size": self.data.vocabulary_size}

    @staticmethod
    def build(config: RunConfig, facts: Facts) -> TranslationModule:
        """The untrained module."""
        return TranslationModule(
            vocabulary_size=facts["vocabulary_size"],
            design=config.design,
            dims=config.dims,
            optim=config.optim,
            max_steps=config.budget.max_steps,
            beam_size=config.budget.beam_size,
        )

    def evaluate(self, trainer: pl.Trainer, module: pl.LightningModule, folder: Path) -> Rows:
        """Losses, accuracies and text scores of all splits; texts go to `hypotheses/`."""
        loader = self.data.val_dataloader()
        rows = self.rows("validation", trainer.validate(module, loader, verbose=False)[0])
        for split in self.data.test_splits:
            loader = self.data.test_dataloader(split)
            rows += self.rows(split, trainer.test(module, loader, verbose=False)[0])
            rows += self._scores(trainer, module, folder, split)
        return rows

    def _scores(
        self, trainer: pl.Trainer, module: pl.LightningModule, folder: Path, split: str
    ) -> Rows:
        references = self.data.references(split)
        loader = self.data.predict_dataloader(split)
        ids = Predictions.of(trainer).collect(module, loader, count=len(references))
        texts = [self.data.tokenizer.decode(sentence) for sentence in ids]
        content = "".join(f"{text}\n" for text in texts)
        write_atomically(folder / "hypotheses" / f"{split}.txt", content)
        scores = score(texts, references, language=self.config.data.target_language)
        return [{"split": split, "length": None, **vars(item)} for item in scores]
