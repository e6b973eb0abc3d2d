"""Tuning each arm of a study before its seeds run: which trials come next, and what came of them.

Nothing is kept but the runs: the proposals are made again from the study file and from the results
so far, so the same file and results lead to the same proposals, whoever runs them.
"""

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from ablations.config import RunConfig, Scalar, config_from_flat, refusals, run_id
from ablations.plan import Cell, Changes, Plan, make_plan
from ablations.search import Pruner, Range, Sampler, Search
from ablations.study import Study

SEED = 0  # of the sampler: the first proposals are the same in every arm


@dataclass(frozen=True)
class Outcome:
    """What came of a run: its validation loss, infinite where it diverged, or that it was pruned.

    Attributes:
        loss: in validation; None where the run was pruned.
        curve: the losses of its validations so far.
    """

    loss: float | None
    curve: list[float]


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """One arm.

    Attributes:
        changes: what differs from the baseline.
        done: trials with an outcome.
        pruned: those of them that were ended early.
        best: the values of the best one; empty while trials are missing, or where all failed.
        loss: its mean validation loss over the tuning seeds.
        pending: the runs of the next trial.
    """

    changes: Changes
    done: int
    pruned: int
    best: dict[str, Scalar]
    loss: float
    pending: list[Cell]


def tuned_plan(
    study: Study, *, runs_dir: Path, data_fingerprint: Callable[[Any], str] | None = None
) -> Plan:
    """The plan of a study whose arms are tuned, as far as the results go.

    While an arm is not tuned, the plan's cells are the trials that can run now.

    Args:
        study: what is studied.
        runs_dir: the folder of the runs.
        data_fingerprint: as for `make_plan`.

    Raises:
        ValueError: as for `make_plan`, or no trial of an arm gave a finite loss.
    """
    assert study.search is not None
    whole = make_plan(study, data_fingerprint=data_fingerprint)
    fingerprint = cache(data_fingerprint or whole.cells[0].config.task.value.fingerprint)

    def identify(config: RunConfig) -> str:
        return run_id(config, fingerprint(config.data))

    arms = {json.dumps(cell.changes): cell for cell in whole.cells}
    tunings = {
        key: _tune(cell, study.search, runs_dir, identify)
        for key, cell in arms.items()
        if cell.config.updates
    }
    pending = [cell for tuning in tunings.values() for cell in tuning.pending]
    if pending:
        return replace(whole, cells=pending, tunings=list(tunings.values()), is_tuning=True)
    cells = [_tuned(cell, tunings.get(json.dumps(cell.changes)), identify) for cell in whole.cells]
    return replace(whole, cells=cells, tunings=list(tunings.values()))


def describe_tuning(plan: Plan) -> str:
    """How the arms of a plan were tuned, for the caption of its table; empty where none was."""
    search = plan.study.search
    if search is None:
        return ""
    ranges = "; ".join(f"{path} in {area}" for path, area in search.ranges.items())
    seeds = ", ".join(map(str, search.seeds))
    arms = "; ".join(_describe_arm(search, tuning) for tuning in plan.tunings)
    return (
        f"Tuned in every arm, then its seeds run: {ranges}; {search.sampler} sampler, "
        f"{search.trials} trials, pruner {search.pruner}, tuning seeds {seeds}; the lowest "
        f"validation loss won: {arms}."
    )


def _describe_arm(search: Search, tuning: Tuning) -> str:
    name = " ".join(f"{path}={value}" for path, value in tuning.changes.items()) or "baseline"
    best = ", ".join(f"{path} {value:.4g}" for path, value in tuning.best.items())
    at_edge = [p for p, value in tuning.best.items() if search.ranges[p].is_at_edge(float(value))]
    edge = f", {' and '.join(at_edge)} at the edge of the range" if at_edge else ""
    pruned = f", {tuning.pruned} pruned" if tuning.pruned else ""
    return f"{name} {best} (loss {tuning.loss:.4g}{pruned}{edge})"


def _tuned(cell: Cell, tuning: Tuning | None, identify: Callable[[RunConfig], str]) -> Cell:
    if tuning is None:
        return cell
    config = config_from_flat(tuning.best, base=cell.config)
    return Cell(id=identify(config), config=config, changes=cell.changes)


def _tune(
    arm: Cell, search: Search, runs_dir: Path, identify: Callable[[RunConfig], str]
) -> Tuning:
    """Propose and look up trial after trial, up to the first that has yet to run."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=_sampler(search), pruner=optuna.pruners.NopPruner())
    spaces = {path: _distribution(area) for path, area in search.ranges.items()}
    history: dict[int, list[Outcome]] = {seed: [] for seed in search.seeds}
    for number in range(search.trials):
        trial = study.ask(spaces)
        cells = _trial_cells(arm, trial.params, search, identify)
        outcomes = {cell.id: outcome(runs_dir / cell.id) for cell in cells}
        if None in outcomes.values():
            pending = [
                replace(cell, pruning=_pruning(arm, search, history[cell.config.seed]))
                for cell in cells
                if outcomes[cell.id] is None
            ]
            return Tuning(
                changes=arm.changes,
                done=number,
                pruned=_count_pruned(study),
                best={},
                loss=math.nan,
                pending=pending,
            )
        found = [value for value in outcomes.values() if value is not None]
        for seed, one in zip(search.seeds, found, strict=True):
            history[seed].append(one)
        _tell(study, trial, found)
    return _best(arm, study)


def _best(arm: Cell, study: optuna.Study) -> Tuning:
    complete = (trial for trial in study.trials if trial.state == TrialState.COMPLETE)
    losses = {t.number: t.value for t in complete if t.value is not None}
    losses = {number: loss for number, loss in losses.items() if math.isfinite(loss)}
    if not losses:
        changes = " ".join(f"{path}={value}" for path, value in arm.changes.items())
        raise ValueError(
            f"search: no trial of {changes or 'the baseline'} ended with a finite validation loss; "
            "change search.ranges"
        )
    best = min(losses, key=losses.__getitem__)
    return Tuning(
        changes=arm.changes,
        done=len(study.trials),
        pruned=_count_pruned(study),
        best=dict(study.trials[best].params),
        loss=losses[best],
        pending=[],
    )


def _count_pruned(study: optuna.Study) -> int:
    return sum(trial.state == TrialState.PRUNED for trial in study.trials)


def _trial_cells(
    arm: Cell, values: Mapping[str, Any], search: Search, identify: Callable[[RunConfig], str]
) -> list[Cell]:
    configs = [config_from_flat({**values, "seed": s}, base=arm.config) for s in search.seeds]
    for sentence in refusals(configs[0]):
        raise ValueError(f"search.ranges: {dict(values)}: {sentence}")
    changes = {**arm.changes, **values}
    return [Cell(id=identify(c), config=c, changes=changes) for c in configs]


def _tell(study: optuna.Study, trial: optuna.Trial, outcomes: list[Outcome]) -> None:
    """The mean over the tuning seeds; a trial of which one run was pruned is pruned."""
    _report(trial, outcomes[0].curve)
    losses = [one.loss for one in outcomes if one.loss is not None]
    if len(losses) < len(outcomes):
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, sum(losses) / len(losses))


def _sampler(search: Search) -> optuna.samplers.BaseSampler:
    if search.sampler is Sampler.random:
        return optuna.samplers.RandomSampler(seed=SEED)
    # Optuna's ten random trials before the first that learns would be most of a short search.
    return optuna.samplers.TPESampler(seed=SEED, n_startup_trials=max(2, search.trials // 3))


def _distribution(area: Range) -> BaseDistribution:
    if area.whole:
        return IntDistribution(int(area.low), int(area.high), log=area.log)
    return FloatDistribution(area.low, area.high, log=area.log)


def outcome(folder: Path) -> Outcome | None:
    """What came of a run; None where it has not ended."""
    try:
        record = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        pruned = (folder / "pruned.json").is_file()
        return Outcome(None, read_curve(folder)) if pruned else None
    losses = [
        row["value"]
        for row in record["metrics"]
        if (row["split"], row["metric"]) == ("validation", "loss")
    ]
    loss = losses[0] if losses and math.isfinite(losses[0]) else math.inf
    return Outcome(loss, read_curve(folder))


def read_curve(folder: Path) -> list[float]:
    """The validation losses that are known; infinite where one is no number."""
    try:
        text = (folder / "learning_curve.csv").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    rows = csv.DictReader(text.splitlines())
    return [as_loss(row["validation_loss"]) for row in rows if row["validation_loss"]]


def as_loss(text: str) -> float:
    """The number, infinite where it is none: the worst of all."""
    return float(text) if math.isfinite(float(text)) else math.inf


def _pruning(arm: Cell, search: Search, history: list[Outcome]) -> dict[str, Any] | None:
    """What a run must know of the trials before it to end itself; None without a pruner."""
    if search.pruner is Pruner.none:
        return None
    budget = arm.config.budget
    return {
        "pruner": search.pruner.value,
        "validations": math.ceil(budget.max_steps / budget.validate_every),
        "curves": [one.curve for one in history],
    }


def is_hopeless(pruning: Mapping[str, Any], curve: Sequence[float]) -> bool:
    """Whether the pruner ends a run with these validation losses, after those of earlier trials."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner: optuna.pruners.BasePruner = optuna.pruners.MedianPruner()
    if pruning["pruner"] == Pruner.hyperband:
        pruner = optuna.pruners.HyperbandPruner(max_resource=pruning["validations"])
    # Hyperband draws the bracket of a trial from the study's name and the trial's number.
    study = optuna.create_study(study_name="tuning", pruner=pruner)
    for earlier in pruning["curves"]:
        trial = study.ask()
        _report(trial, earlier)
        study.tell(trial, min(earlier, default=math.inf))
    return _report(study.ask(), curve)


def _report(trial: optuna.Trial, curve: Sequence[float]) -> bool:
    """Report losses by the number of the validation; whether the last one is hopeless."""
    hopeless = False
    for step, loss in enumerate(curve, start=1):
        trial.report(loss, step)
        hopeless = trial.should_prune()  # Hyperband notes at each step how far a trial got
    return hopeless
