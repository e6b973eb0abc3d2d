"""What the heads of a run look at on its validation data, before training and after it."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytorch_lightning as pl

from ablations.config import RunConfig
from ablations.devices import Devices
from ablations.task_runs.base import Rows, TaskRun
from lightning_modules.head_roles import HeadRoles
from lightning_modules.probes import AttentionRecord, record_attention

SIGNATURES = {
    "uniformity": "entropy over that of even attention, mean over heads",
    "distance": "tokens from query to key, mean over heads",
    "offset": "weight at a head's favourite offset, mean over heads",
    "distance_spread": "tokens, standard deviation over the heads of a layer",
    "offset_spread": "weight, standard deviation over the heads of a layer",
    "redundancy": "cosine similarity of two heads' weights, mean over the pairs of a layer",
}


class WatchHeads(pl.Callback):
    """Adds up what each layer of self-attention does in validation.

    Attributes:
        layers: by the layer's name.
    """

    def __init__(self) -> None:
        self.layers: dict[str, HeadRoles] = {}
        self._watched = ExitStack()
        self._records: list[AttentionRecord] = []

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any
    ) -> None:
        """Begin to watch."""
        self._records = self._watched.enter_context(record_attention(pl_module))

    def on_validation_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Count what was seen."""
        self._watched.close()
        for record in self._records:
            if not record.name.endswith("cross_attention"):
                self.layers.setdefault(record.name, HeadRoles()).add(record)


def head_rows(part: TaskRun, config: RunConfig, trained: pl.LightningModule) -> Rows:
    """Rows of the record: means over the layers of self-attention, as `head_uniformity` and so on.

    The split is `validation` for the trained module and `untrained` for the same one before its
    first update, on the same data. See `HeadRoles.measures` for the metrics.
    """
    pl.seed_everything(config.seed, verbose=False)
    untrained = part.build(config, part.facts)
    return [
        *_rows("validation", measure_heads(part, config, trained)),
        *_rows("untrained", measure_heads(part, config, untrained)),
    ]


def measure_heads(part: TaskRun, config: RunConfig, module: pl.LightningModule) -> dict[str, float]:
    """What the heads of a module do on the validation data, each figure a mean over layers."""
    watch = WatchHeads()
    trainer = pl.Trainer(
        **Devices().trainer_options(config.optim.precision),
        logger=False,
        callbacks=[watch],
        enable_progress_bar=False,
    )
    trainer.validate(module, part.data.val_dataloader(), verbose=False)
    layers = [roles.measures() for roles in watch.layers.values()]
    return {name: sum(layer[name] for layer in layers) / len(layers) for name in layers[0]}


def _rows(split: str, values: Mapping[str, float]) -> Rows:
    return [
        {
            "split": split,
            "length": None,
            "metric": f"head_{name}",
            "value": value,
            "signature": SIGNATURES[name],
        }
        for name, value in values.items()
    ]
