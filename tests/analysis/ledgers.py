"""Synthetic ledgers: the frame that `ablations.ledger` makes, with known effects inside."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.frames import StudyView

BASE = {"budget.max_steps": 1000, "data.tokens_per_batch": 1024, "optim.accumulate": 1}
AXES: dict[str, list[Any]] = {
    "design.norm_position": ["pre", "post"],
    "design.position": ["sinusoidal", "none", "rope"],
    "dims.n_heads": [4, 8],
}
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def one_factor_cells(axes: dict, seeds: list[int]) -> pd.DataFrame:
    baseline = {axis: levels[0] for axis, levels in axes.items()}
    changes = [{}] + [{axis: level} for axis in axes for level in axes[axis][1:]]
    return _expected([(seed, baseline | change, change) for change in changes for seed in seeds])


def factorial_cells(axes: dict, seeds: list[int]) -> pd.DataFrame:
    rows = []
    for levels in itertools.product(*axes.values()):
        chosen = dict(zip(axes, levels, strict=True))
        change = {axis: level for axis, level in chosen.items() if level != axes[axis][0]}
        rows += [(seed, chosen, change) for seed in seeds]
    return _expected(rows)


def _expected(rows: list[tuple[int, dict, dict]]) -> pd.DataFrame:
    return pd.DataFrame(
        {"id": f"{index:012x}", "seed": seed, **BASE, **levels, "changes": change}
        for index, (seed, levels, change) in enumerate(rows)
    )


def ledger_frame(expected: pd.DataFrame, score: Callable[[pd.Series], float]) -> pd.DataFrame:
    """Two metric rows per planned run; a run whose score is NaN has diverged and has none."""
    records = []
    for _, cell in expected.iterrows():
        value = score(cell)
        run = {
            "run": cell["id"],
            "status": "diverged" if np.isnan(value) else "finished",
            "parameters": 1_200_000 + 1000 * cell.get("dims.n_heads", 0),
            "steps": 1000,
            "seconds_total": 60.0 + cell["seed"],
            "data_fingerprint": "feedfacefeedface",
            "tokenizer_hash": "0123456789abcdef",
            "hardware": "2 CPU cores",
            "length": None,
            **cell.drop(["id", "changes"]).to_dict(),
        }
        if np.isnan(value):
            records.append(run | {"metric": None, "split": None, "value": None, "signature": None})
            continue
        bleu = {"metric": "bleu", "split": "test", "value": value, "signature": SIGNATURE}
        loss = {"metric": "loss", "split": "validation", "value": 100 - value}
        records += [run | bleu, run | loss | {"signature": "nats per target token"}]
    return pd.DataFrame(records)


def view(
    expected: pd.DataFrame, axes: dict[str, list[Any]] | None = None, **changes: Any
) -> StudyView:
    axes = AXES if axes is None else axes
    known = StudyView(
        name="six-axes",
        axes=axes,
        baseline={axis: levels[0] for axis, levels in axes.items()},
        seeds=sorted(expected["seed"].unique()),
        metric="bleu",
        split="test",
        expected=expected,
    )
    return replace(known, **changes)


def planted(
    effects: dict, *, noise: float = 0.1, seed_noise: float = 0.5, seed: int = 0
) -> Callable[[pd.Series], float]:
    """Score = 30 + seed's own luck + planted effects + the run's noise."""
    generator = np.random.default_rng(seed)
    luck = generator.normal(0, seed_noise, size=1000)

    def score(cell: pd.Series) -> float:
        effect = sum(size for (axis, level), size in effects.items() if cell[axis] == level)
        return 30 + luck[cell["seed"]] + effect + noise * generator.standard_normal()

    return score
