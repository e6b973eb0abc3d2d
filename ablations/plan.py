"""From a study to its cells: each one legal, each one once, each with its identity."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.config import (
    RunConfig,
    Scalar,
    check,
    config_from_flat,
    flatten,
    refusals,
    seeded_ids,
)
from ablations.states import without_result
from ablations.study import Arrangement, Study

if TYPE_CHECKING:
    import pandas

    from ablations.tuning import Tuning

Changes = dict[str, Scalar]
COST_PATHS = (
    "task",
    "dims.d_model",
    "dims.d_ff",
    "dims.n_encoder_layers",
    "dims.n_decoder_layers",
    "data.source",
    "data.vocabulary_size",
    "data.tokens_per_batch",
    "data.batch_size",
    "data.lookback",
    "data.horizon",
    "data.eval_lookbacks",
    "data.task",
    "data.train_max",
    "data.eval_lengths",
    "data.context_length",
    "data.eval_stride",
    "data.n_prompts",
    "data.continuation_lengths",
    "variant.form",
    "variant.model",
    "variant.tokens",
    "variant.channels",
    "variant.readout",
    "budget.beam_size",
    "optim.accumulate",
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of a study.

    Attributes:
        id: the run's identity, also the name of its folder.
        config: all of its values.
        changes: what differs from the baseline, by dotted name, the seed left out.
        pruning: what a trial of a search must know to end itself early; None for any other run.
    """

    id: str
    config: RunConfig
    changes: Changes
    pruning: Mapping[str, Any] | None = None

    @property
    def seed(self) -> int:
        """The seed of its config."""
        return self.config.seed

    @property
    def values(self) -> dict[str, Scalar]:
        """Its config by dotted names."""
        return flatten(self.config)

    @property
    def updates(self) -> int:
        """Updates of the weights; 0 where there is nothing to train."""
        return self.config.updates


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The cells of a study, and what became of the others.

    Attributes:
        study: what is studied.
        cells: what is to be run, seed by seed, so that an unfinished study shows every level.
        dropped: `(changes, reason)` of the combinations that break a constraint.
        merged: `(changes, id)` of the cells that are the same run as an earlier one.
        tunings: what is known of each arm that is tuned before its seeds run.
        is_tuning: whether the cells are trials, for some arm has yet to be tuned.
    """

    study: Study
    cells: list[Cell] = field(default_factory=list)
    dropped: list[tuple[Changes, str]] = field(default_factory=list)
    merged: list[tuple[Changes, str]] = field(default_factory=list)
    tunings: "Sequence[Tuning]" = ()
    is_tuning: bool = False

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.study.name

    def missing(self, runs_dir: Path) -> list[Cell]:
        """The cells without a result in this folder."""
        return without_result(self.cells, runs_dir)

    def rows(self) -> list[dict[str, Scalar]]:
        """A row for each cell: `id`, `seed` and its level of every axis, by dotted name."""
        baseline = self.study.baseline
        return [
            {"id": cell.id, "seed": cell.config.seed, **baseline, **cell.changes}
            for cell in self.cells
        ]


def make_plan(study: Study, *, data_fingerprint: Callable[[Any], str] | None = None) -> Plan:
    """List the cells of a study.

    Args:
        study: what is studied.
        data_fingerprint: identifies the content of the data, asked once for each data config;
            the task's own unless given.

    Raises:
        ValueError: the baseline breaks a constraint, or its data cannot be found.
    """
    baseline = config_from_flat({**study.base, **study.baseline})
    check(baseline)
    plan = Plan(study=study)
    legal: list[tuple[Changes, RunConfig]] = []
    for changes in _all_changes(study):
        config = config_from_flat(changes, base=baseline)
        if sentences := refusals(config):
            plan.dropped.append((changes, sentences[0]))
        else:
            legal.append((changes, config))
    identify = cache(data_fingerprint or baseline.task.value.fingerprint)
    ids = [seeded_ids(config, study.seeds, identify(config.data)) for _, config in legal]
    seen: set[str] = set()
    for of_seed in zip(*ids, strict=True):
        for (seed, identity), (changes, unseeded) in zip(of_seed, legal, strict=True):
            if identity in seen:
                plan.merged.append(({**changes, "seed": seed}, identity))
                continue
            seen.add(identity)
            config = replace(unseeded, seed=seed)
            plan.cells.append(Cell(id=identity, config=config, changes=changes))
    return plan


def estimate_seconds(cells: list[Cell], frame: "pandas.DataFrame") -> float | None:
    """Seconds of one worker that these cells take, judged by past runs of the same size.

    Args:
        cells: what is to be run.
        frame: the ledger's records.

    Returns:
        The estimate, or None when no past run has the size of some cell.
    """
    if not cells:
        return 0.0
    if frame.empty:
        return None
    trained = (frame["status"] == "finished") & (frame["steps"] > 0)
    runs = frame[trained].drop_duplicates("run")
    runs = runs.assign(
        per_step=runs["seconds_train"] / runs["steps"],
        once=runs["seconds_total"] - runs["seconds_train"],
    )
    columns = [path for path in COST_PATHS if path in runs]
    costs = runs.groupby(columns, dropna=False)[["per_step", "once"]].median()
    by_size = {
        _size(dict(zip(columns, key, strict=True))): (per_step, once)
        for key, per_step, once in zip(costs.index, costs["per_step"], costs["once"], strict=True)
    }
    total = 0.0
    for cell in cells:
        if not cell.config.updates:
            continue  # a few seconds, whatever it is
        size = _size(cell.values)
        if size not in by_size:
            return None
        per_step, once = by_size[size]
        total += per_step * cell.config.updates + once
    return total


def _size(values: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the cost of an update depends on; None where a task has no such number."""
    known = (values.get(path) for path in COST_PATHS)
    return tuple(None if value is None or value != value else value for value in known)


def _all_changes(study: Study) -> Iterator[Changes]:
    """What differs from the baseline in each cell, the baseline itself first."""
    if study.arrangement is Arrangement.one_factor_at_a_time:
        yield {}
        for axis, levels in study.axes.items():
            yield from ({axis: level} for level in levels[1:])
        return
    baseline = study.baseline
    for levels_of_cell in product(*study.axes.values()):
        chosen = zip(study.axes, levels_of_cell, strict=True)
        yield {axis: level for axis, level in chosen if level != baseline[axis]}
