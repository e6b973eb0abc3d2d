"""The language-modelling part of a run: losses by context length, and what the model writes."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytorch_lightning as pl
import torch
from torch import Tensor

from ablations.callbacks import Predictions
from ablations.config import RunConfig
from ablations.files import write_atomically
from ablations.task_runs.base import Facts, Rows, TaskRun
from data.text import evaluation_mode
from data.text_loading import TextDataModule
from lightning_modules.axes.positions import stretch_positions
from lightning_modules.axes.strategies import Strategy
from lightning_modules.language_modeling import TextModule
from lightning_modules.sampling import distinct_n, repetition_rate

REPEATED = 4  # tokens of the n-grams whose repetition is counted
BY_POSITION = "loss_at_"


class LanguageModelingRun(TaskRun):
    """Running text: losses of windows of every evaluated length, and continuations of prompts."""

    signatures: ClassVar[Mapping[str, str]] = {
        "loss": "nats per token",
        "bits_per_token": "bits per token",
        "position_bits": "bits per token",
        "accuracy": "teacher-forced, per token",
        "repetition_rate": f"{REPEATED}-grams that stand earlier in their continuation",
        "distinct_1": "different tokens among all written",
        "distinct_2": "different pairs of tokens, for each token written",
        "continuation_bits": "bits per token written, by the model itself",
    }
    data: TextDataModule

    def __init__(self, config: RunConfig, *, cache_dir: Path) -> None:
        super().__init__(config, cache_dir=cache_dir)
        self.data = TextDataModule(config.data, seed=config.seed, cache_dir=cache_dir)
        self.data.setup()
        self.tokenizer_hash = self.data.tokenizer.hash
        parts = [("test", length, length) for length in self.data.eval_lengths] + [
            (f"continuation.{name}", length, self._read(length))
            for length in self.data.continuation_lengths
            for name in (*map(str, Strategy), "text")
        ]
        self.undefined = [
            {"split": split, "length": length, "why": why}
            for split, length, context in parts
            if (why := self.undefined_at(context))
        ]

    def undefined_at(self, length: int) -> str:
        """Why the position scheme isn't defined for so long a context; empty where it is."""
        why = self.config.design.position.undefined_at(length, dims=self.config.dims)
        return f"{why}, and the context has {length}" if why else ""

    def refuse(self) -> None:
        """Refuse windows that a learned table doesn't reach, and more prompts than the text has."""
        if why := self.undefined_at(self.config.data.context_length):
            raise ValueError(
                f"{why}, as data.context_length says; raise dims.max_length or choose another "
                "design.position"
            )
        for length in self.data.continuation_lengths:
            self.data.prompted(length)

    @property
    def facts(self) -> Facts:
        """The size of the vocabulary."""
        return {"vocabulary_size": self.data.vocabulary_size}

    @staticmethod
    def build(config: RunConfig, facts: Facts) -> TextModule:
        """The untrained module."""
        return TextModule(
            vocabulary_size=facts["vocabulary_size"],
            design=config.design,
            dims=config.dims,
            optim=config.optim,
            max_steps=config.budget.max_steps,
        )

    def evaluate(self, trainer: pl.Trainer, module: pl.LightningModule, folder: Path) -> Rows:
        """Losses at every length, and each strategy's continuations, which go to `continuations/`.

        A length at which the position scheme isn't defined has no rows; see `undefined`. Every
        strategy draws with the run's seed.
        """
        assert isinstance(module, TextModule)
        loader = self.data.val_dataloader()
        logged = trainer.validate(module, loader, verbose=False)[0]
        rows = self._losses("validation", logged)
        for length in self.data.eval_lengths:
            if not self.undefined_at(length):
                rows += self._windows(trainer, module, length)
        for length in self.data.continuation_lengths:
            if not self.undefined_at(self._read(length)):
                rows += self._continuations(trainer, module, folder, length)
        stretch_positions(module, 1.0)
        return rows

    def _windows(self, trainer: pl.Trainer, module: TextModule, length: int) -> Rows:
        """Losses of windows of this length; of the longest ones, also by position."""
        stretch_positions(module, length / self.config.data.context_length)
        loader = self.data.test_dataloader(length)
        logged = trainer.test(module, loader, verbose=False)[0]
        whole = {name: value for name, value in logged.items() if BY_POSITION not in name}
        rows = self._losses("test", whole, length=length)
        if length < max(self.data.eval_lengths):
            return rows
        ends = {int(name.rpartition(BY_POSITION)[2]): name for name in logged if name not in whole}
        for end in sorted(ends):
            place = f"position {end}" if end < 3 else f"positions {end // 2 + 1} to {end}"
            bits = {"position_bits": logged[ends[end]] / math.log(2)}
            [row] = self._cut("position", bits, length=end)
            rows.append({**row, "signature": f"{row['signature']} of {length} tokens, {place}"})
        return rows

    def _losses(
        self, split: str, logged: Mapping[str, float], *, length: int | None = None
    ) -> Rows:
        """Rows in nats and in bits."""
        nats = next(value for name, value in logged.items() if name.endswith("/loss"))
        return self._cut(split, {"bits_per_token": nats / math.log(2), **logged}, length=length)

    def _cut(self, split: str, values: Mapping[str, float], *, length: int | None) -> Rows:
        """Rows that say how the windows were cut."""
        mode = evaluation_mode(self.config.data)
        rows = self.rows(split, values, length=length)
        return [{**row, "signature": f"{row['signature']}, {mode}"} for row in rows]

    def _read(self, length: int) -> int:
        """Tokens that are read to write `length`: all but the last one."""
        return self.config.data.prompt_length + length - 1

    def _continuations(
        self, trainer: pl.Trainer, module: TextModule, folder: Path, length: int
    ) -> Rows:
        """What every strategy writes, and the text itself as if it were one."""
        stretch_positions(module, self._read(length) / self.config.data.context_length)
        prompted = self.data.prompted(length)
        loader = self.data.prompt_dataloader(prompted)
        rows: Rows = []
        for strategy in Strategy:
            module.sampling = strategy()
            torch.manual_seed(self.config.seed)  # the same luck for every strategy
            written = Predictions.of(trainer).collect(module, loader, count=len(prompted))
            completed = prompted.clone()
            completed[:, -length:] = torch.tensor(written)
            self._keep(completed, folder / "continuations" / f"{strategy}@{length}.jsonl")
            rows += self._measured(trainer, module, str(strategy), completed, length)
        return rows + self._measured(trainer, module, "text", prompted, length)

    def _measured(
        self, trainer: pl.Trainer, module: TextModule, name: str, rows: Tensor, length: int
    ) -> Rows:
        """Repetition, variety and likelihood of continuations behind their prompts."""
        logged = trainer.test(module, self.data.prompt_dataloader(rows), verbose=False)[0]
        written = rows[:, -length:].tolist()
        rates = [repetition_rate(row, n=REPEATED) for row in written]
        values = {
            "repetition_rate": sum(rates) / len(rates),
            "distinct_1": distinct_n(written, n=1),
            "distinct_2": distinct_n(written, n=2),
            "continuation_bits": logged["test/loss"] / math.log(2),
        }
        return self.rows(f"continuation.{name}", values, length=length)

    def _keep(self, rows: Tensor, file: Path) -> None:
        """Write prompts and continuations as text and token ids, one JSON object a line."""
        prompt, decode = self.config.data.prompt_length, self.data.tokenizer.decode
        lines = [
            {
                "prompt": decode(row[:prompt]),
                "continuation": decode(row[prompt:]),
                "tokens": row[prompt:],
            }
            for row in rows.tolist()
        ]
        content = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        write_atomically(file, content)
