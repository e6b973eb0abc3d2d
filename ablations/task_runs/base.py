"""What every task's part of a run offers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytorch_lightning as pl

from ablations.config import RunConfig

Facts = Mapping[str, Any]
Rows = list[dict[str, Any]]
Undefined = Sequence[Mapping[str, Any]]


class TaskRun(ABC):
    """The part of a run that depends on its task.

    Args:
        config: the cell.
        cache_dir: where vocabularies and downloads are kept.

    Attributes:
        data: the LightningDataModule, with a `report` of what was read.
        tokenizer_hash: identifies the vocabulary; empty where there is none.
        signatures: by metric, what its values are in.
        undefined: the evaluated parts that the design isn't defined at, as `split`, `length` and
            `why`; they have no rows.
    """

    signatures: ClassVar[Mapping[str, str]]
    data: Any
    tokenizer_hash = ""
    undefined: Undefined = ()

    def __init__(self, config: RunConfig, *, cache_dir: Path) -> None:
        self.config = config

    @abstractmethod
    def refuse(self) -> None:
        """Refuse, before anything is trained, what the data show cannot work.

        Raises:
            ValueError: in one line.
        """

    @property
    @abstractmethod
    def facts(self) -> Facts:
        """Plain numbers of the data that build the module, besides the config."""

    @staticmethod
    @abstractmethod
    def build(config: RunConfig, facts: Facts) -> pl.LightningModule:
        """The untrained module."""

    def fit_without_training(self, module: Any) -> bool:
        """Fit a module that has nothing to train; False where it must be trained."""
        return False

    @abstractmethod
    def evaluate(self, trainer: pl.Trainer, module: pl.LightningModule, folder: Path) -> Rows:
        """Measure the trained module on validation and all test splits, one row a value."""

    def rows(self, split: str, values: Mapping[str, float], *, length: int | None = None) -> Rows:
        """Logged values, named `stage/metric`, as rows of the record."""
        return [
            {
                "split": split,
                "length": length,
                "metric": (metric := name.rpartition("/")[2]),
                "value": float(value),
                "signature": self.signatures[metric],
            }
            for name, value in values.items()
        ]
