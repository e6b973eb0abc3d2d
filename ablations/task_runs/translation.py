"""The translation part of a run."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytorch_lightning as pl

from ablations.callbacks import Predictions
from ablations.config import RunConfig
from ablations.files import write_atomically
from ablations.task_runs.base import Facts, Rows, TaskRun
from data.text_scores import score
from data.translation import TranslationDataModule
from lightning_modules.translation import TranslationModule

Part = tuple[int | None, Sequence[int]]  # a bucket's bound, None for the whole split; its rows


class TranslationRun(TaskRun):
    """Sentence pairs: losses, accuracies, and translations scored as text.

    Where `data.eval_source_words` asks for it, also by the length of the source.
    """

    signatures: ClassVar[Mapping[str, str]] = {
        "loss": "nats per target token",
        "accuracy": "teacher-forced, per target token",
        "sentences": "pairs that were measured",
    }
    data: TranslationDataModule

    def __init__(self, config: RunConfig, *, cache_dir: Path) -> None:
        super().__init__(config, cache_dir=cache_dir)
        self.data = TranslationDataModule(config.data, seed=config.seed, cache_dir=cache_dir)
        self.data.setup()
        self.tokenizer_hash = self.data.tokenizer.hash
        self.undefined = [
            {"split": split, "length": length, "why": why}
            for split in self.data.test_splits
            for length, rows in self._parts(split)
            if (why := self._undefined_at(split, rows))
        ]

    def _parts(self, split: str) -> list[Part]:
        """The whole split, then each bucket of source lengths."""
        whole = range(len(self.data.references(split)))
        return [(None, whole), *self.data.source_buckets(split).items()]

    def _undefined_at(self, split: str, rows: Sequence[int] | None = None) -> str:
        """Why these rows of a split can't be measured; empty where they can."""
        if rows is not None and not rows:
            return "no sentence is of that length"
        longest = self.data.longest_sentence(split, rows)
        why = self.config.design.position.undefined_at(longest, dims=self.config.dims)
        return f"{why}, and there is a sentence of {longest}" if why else ""

    def refuse(self) -> None:
        """Refuse sentences that the position scheme isn't defined for.

        Those of the test splits are refused unless they are also measured by length: then the
        lengths are told apart in the results.
        """
        splits = ["train", "validation"]
        if not self.config.data.eval_source_words:
            splits += self.data.test_splits
        for split in splits:
            if why := self._undefined_at(split):
                raise ValueError(
                    f"{why} in {split}; raise dims.max_length or choose another design.position"
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
        """Losses, accuracies and text scores of all splits; texts go to `hypotheses/`.

        Parts at which the position scheme isn't defined have no rows (see `undefined`), and their
        sentences empty lines.
        """
        loader = self.data.val_dataloader()
        rows = self.rows("validation", trainer.validate(module, loader, verbose=False)[0])
        undefined = {(part["split"], part["length"]) for part in self.undefined}
        for split in self.data.test_splits:
            parts = [part for part in self._parts(split) if (split, part[0]) not in undefined]
            if parts:
                rows += self._measure(trainer, module, folder, split, parts)
        return rows

    def _measure(
        self,
        trainer: pl.Trainer,
        module: pl.LightningModule,
        folder: Path,
        split: str,
        parts: Sequence[Part],
    ) -> Rows:
        measured: Rows = []
        wanted = sorted({row for _, rows in parts for row in rows})
        texts = dict(zip(wanted, self._translate(trainer, module, split, wanted), strict=True))
        references = self.data.references(split)
        content = "".join(f"{texts.get(row, '')}\n" for row in range(len(references)))
        write_atomically(folder / "hypotheses" / f"{split}.txt", content)
        for length, rows in parts:
            loader = self.data.test_dataloader(split, rows)
            values = trainer.test(module, loader, verbose=False)[0]
            if length is not None:
                values = {**values, "sentences": len(rows)}
            measured += self.rows(split, values, length=length)
            hypotheses, own = [texts[row] for row in rows], [references[row] for row in rows]
            measured += self._scores(split, length, hypotheses, own)
        return measured

    def _translate(
        self, trainer: pl.Trainer, module: pl.LightningModule, split: str, rows: Sequence[int]
    ) -> Iterator[str]:
        loader = self.data.predict_dataloader(split, rows)
        ids = Predictions.of(trainer).collect(module, loader, count=len(rows))
        return (self.data.tokenizer.decode(sentence) for sentence in ids)

    def _scores(
        self, split: str, length: int | None, hypotheses: list[str], references: list[str]
    ) -> list[dict[str, Any]]:
        language = self.config.data.target_language
        scores = score(hypotheses, references, language=language)
        return [{"split": split, "length": length, **vars(item)} for item in scores]
