"""Training Transformer-Tiny on Multi30k, against the loop that one would write otherwise.

    python -m benchmarks.training --data.path FOLDER

The other loop is `torch.nn.Transformer` on shuffled, padded batches (`benchmarks/_plain_loop.py`):
the same model, places of dropout, optimiser and schedule, and as many targets in an update. All
train on one thread, by turns, from the same weights; the first updates are left out of the time.
The validation losses after the same number of updates say whether the same was learnt. Prints a
table, then one line of JSON.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import _measuring  # before torch: it sets the threads

# isort: split
import pytorch_lightning as pl

from ablations.config import config_from_flat
from ablations.loading import TrainingLoader
from ablations.quiet import quieten
from ablations.task_runs.registry import make_task_run
from ablations.task_runs.translation import TranslationRun
from benchmarks import _plain_loop
from benchmarks._plain_decoding import plain_copy
from data.translation import Pairs

PLAIN = "plain nn.Transformer loop"
OURS = "this project, by its Trainer"
BATCH_SIZE = 128  # pairs in an update of the plain loop
TOKENS_PER_BATCH = 2066  # gives ours as many, on Multi30k
SKIPPED = 3  # updates before the clock starts


class Measured(NamedTuple):
    """One training: CPU seconds and targets of the updates that count, and what was learnt."""

    seconds: float
    targets: int
    validation_loss: float


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print, and return what is printed as JSON."""
    arguments = _parser().parse_args(words)
    quieten()
    arms: dict[str, Callable[[TranslationRun, int], Measured]] = {
        PLAIN: _plainly,
        OURS: _ours,
    }
    measured: dict[str, list[Measured]] = {name: [] for name in arms}
    with tempfile.TemporaryDirectory() as folder:
        part = _part(arguments, cache_dir=Path(folder))
        for seed in range(1, arguments.repetitions + 1):
            for name, arm in arms.items():
                measured[name].append(arm(part, seed))
    counted = part.config.budget.max_steps - SKIPPED
    found = {
        "updates": part.config.budget.max_steps,
        **{
            field: {name: [get(run) for run in runs] for name, runs in measured.items()}
            for field, get in {
                "targets_per_update": lambda run: run.targets / counted,
                "targets_per_cpu_second": lambda run: run.targets / run.seconds,
                "validation_loss": lambda run: run.validation_loss,
            }.items()
        },
        **_measuring.machine(),
    }
    print(_table(found))
    print(json.dumps(found))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Time training against a plain loop.")
    parser.add_argument("--data.path", dest="path", default=_measuring.multi30k_folder())
    parser.add_argument("--updates", type=int, default=40, help="of each training (40)")
    parser.add_argument("--repetitions", type=int, default=3, help="seeds of each (3)")
    return parser


def _part(arguments: argparse.Namespace, *, cache_dir: Path) -> TranslationRun:
    chosen = {
        "data.source": "multi30k",
        "data.path": arguments.path,
        "data.vocabulary_size": 10_000,
        "data.tokens_per_batch": TOKENS_PER_BATCH,
        "optim.lr": 0.002,
        "optim.warmup_steps": arguments.updates // 2,
        "optim.schedule": "linear",
        "budget.max_steps": arguments.updates,
    }
    part = make_task_run(config_from_flat(chosen), cache_dir=cache_dir)
    assert isinstance(part, TranslationRun)
    return part


def _plainly(part: TranslationRun, seed: int) -> Measured:
    pl.seed_everything(seed, verbose=False)
    config = part.config
    model = plain_copy(part.build(config, part.facts).model, config.dims).train()
    pairs = part.data.train_dataloader().dataset
    assert isinstance(pairs, Pairs)
    updates = _plain_loop.train(
        model,
        pairs.ids,
        optim=config.optim,
        batch_size=BATCH_SIZE,
        max_steps=config.budget.max_steps,
    )
    for _ in range(SKIPPED):
        next(updates)
    started = time.process_time()
    targets = sum(updates)
    seconds = time.process_time() - started
    return Measured(seconds, targets, _plain_loop.loss(model, list(part.data.val_dataloader())))


class _Clock(pl.Callback):
    """Starts after the first updates, and counts targets."""

    def __init__(self) -> None:
        self.started, self.targets = 0.0, 0

    def on_train_batch_end(self, trainer: pl.Trainer, *words: Any) -> None:
        if self.started:
            batch = words[2]
            self.targets += batch.n_targets
        elif trainer.global_step == SKIPPED:
            self.started = time.process_time()

    def on_train_end(self, *_: Any) -> None:
        self.seconds = time.process_time() - self.started


def _ours(part: TranslationRun, seed: int) -> Measured:
    pl.seed_everything(seed, verbose=False)
    config, clock = part.config, _Clock()
    module = part.build(config, part.facts)
    trainer = pl.Trainer(
        max_steps=config.budget.max_steps,
        gradient_clip_val=config.optim.clip_norm,
        accelerator="cpu",
        logger=False,
        callbacks=[clock],
        use_distributed_sampler=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
    )
    trainer.fit(module, TrainingLoader(part.data.train_dataloader()))
    (scores,) = trainer.validate(module, part.data.val_dataloader(), verbose=False)
    return Measured(clock.seconds, clock.targets, scores["validation/loss"])


def _table(found: dict[str, Any]) -> str:
    speeds, losses = found["targets_per_cpu_second"], found["validation_loss"]
    lines = [
        f"{found['updates']} updates, {len(speeds[PLAIN])} seeds; {found['threads']} thread(s) of "
        f"{found['hardware']}",
        f"{'':<28} {'targets an update':>18} {'targets a CPU second':>24} {'times':>18} "
        f"{'validation loss':>20}",
    ]
    for name in speeds:
        lines.append(
            f"{name:<28} {found['targets_per_update'][name][0]:>18.0f} "
            f"{_measuring.median(speeds[name], digits=0):>24} "
            f"{_measuring.median(_measuring.ratios(speeds[name], speeds[PLAIN])):>18} "
            f"{_measuring.median(losses[name], digits=3):>20}"
        )
    lines.append("Medians with their range over seeds; ratios seed by seed.")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
