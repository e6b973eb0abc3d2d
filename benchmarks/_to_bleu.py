"""Multi30k from nothing to a BLEU, on the clock."""

import tempfile
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from sacrebleu.metrics import BLEU

from ablations.config import config_from_flat
from ablations.devices import Devices
from ablations.task_runs.registry import make_task_run
from ablations.task_runs.translation import TranslationRun

GOAL = 36.0  # cased, detokenised, 13a
RECIPE = {
    "data.source": "multi30k",
    "data.vocabulary_size": 6000,
    "data.tokens_per_batch": 4096,
    "dims.dropout": 0.2,
    "optim.lr": 0.004,
    "optim.warmup_steps": 300,
    "optim.schedule": "linear",
    "optim.precision": "bf16",
}


class _UntilGoal(pl.Callback):
    """Translates the test sentences now and then, and stops at the goal or when time is up."""

    def __init__(self, part: TranslationRun, *, every: int, started: float, seconds: float) -> None:
        self.part, self.every, self.seconds = part, every, seconds
        self.started = started
        self.found: dict[str, dict[str, float]] = {}

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        step, trained = trainer.global_step, time.perf_counter() - self.started
        late = trained > self.seconds
        if step % self.every and step < trainer.max_steps and not late:
            return
        bleu = _bleu(self.part, module)
        self.found[f"after {step} updates"] = {"seconds": trained, "bleu": bleu}
        if bleu >= GOAL or late:
            trainer.should_stop = True


def train(
    path: str, *, seconds: float, max_steps: int = 4000, every: int = 500
) -> dict[str, dict[str, float]]:
    """Train until the goal, the time or the updates are reached.

    Returns:
        By number of updates: seconds since the start, decoding included, and BLEU on the first test
        split, greedy.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache:
        chosen = {**RECIPE, "data.path": path, "budget.max_steps": max_steps}
        part = make_task_run(config_from_flat(chosen), cache_dir=Path(cache))
        assert isinstance(part, TranslationRun)
        pl.seed_everything(1, verbose=False)
        module = part.build(part.config, part.facts)
        watch = _UntilGoal(part, every=every, started=started, seconds=seconds)
        trainer = pl.Trainer(
            max_steps=max_steps,
            **Devices().trainer_options(part.config.optim.precision),
            gradient_clip_val=part.config.optim.clip_norm,
            logger=False,
            callbacks=[watch],
            enable_progress_bar=False,
        )
        trainer.fit(module, part.data.train_dataloader())
    return watch.found


@torch.no_grad()
def _bleu(part: TranslationRun, module: Any) -> float:
    split = part.data.test_splits[0]
    module.eval()
    ids: dict[int, list[int]] = {}
    for batch in part.data.test_dataloader(split):
        rows = module.predict_step(batch.to(module.device))
        ids.update(zip(batch.indices.tolist(), rows, strict=True))
    module.train()
    texts = [part.data.tokenizer.decode(ids[index]) for index in range(len(ids))]
    return float(BLEU().corpus_score(texts, [part.data.references(split)]).score)
