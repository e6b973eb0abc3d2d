"""What a study tunes for each of its arms before it compares them: ranges, sampler, pruner.

Cheap to import: the tuning itself is `ablations.tuning`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ablations.config import parse_value, paths
from ablations.tasks import Task

KEYS = ("ranges", "sampler", "trials", "pruner", "seeds")
RANGE_KEYS = ("low", "high", "log")
EDGE = 0.05  # of the range, at either end


class Sampler(StrEnum):
    """What proposes the next value."""

    tpe = "tpe"
    random = "random"


class Pruner(StrEnum):
    """What ends a trial that does worse in validation than earlier ones did at the same step."""

    none = "none"
    median = "median"
    hyperband = "hyperband"


@dataclass(frozen=True, kw_only=True)
class Range:
    """Where a number is searched, both ends included.

    Attributes:
        low: the lowest value.
        high: the highest value.
        log: whether its logarithm is searched evenly.
        whole: whether only whole numbers are.
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def is_at_edge(self, value: float) -> bool:
        """Whether a better value may lie outside."""
        scale = math.log if self.log else float
        low, high = scale(self.low), scale(self.high)
        return not low + EDGE * (high - low) < scale(value) < high - EDGE * (high - low)

    def __str__(self) -> str:
        """As a caption says it: `0.0001 to 0.01, log`."""
        return f"{self.low:g} to {self.high:g}{', log' if self.log else ''}"


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is tuned in every arm of a study, and how.

    Attributes:
        ranges: by dotted name.
        sampler: proposes the values.
        trials: proposals for each arm.
        pruner: ends hopeless trials.
        seeds: of the trials; none is a seed of the study, or the comparison would see luck.
    """

    ranges: Mapping[str, Range]
    sampler: Sampler = Sampler.tpe
    trials: int = 12
    pruner: Pruner = Pruner.none
    seeds: tuple[int, ...] = (1000,)


def parse_search(content: Any, *, task: Task, seeds: tuple[int, ...]) -> Search:
    """Read the `search` of a study file.

    Args:
        content: names and values.
        task: the study's.
        seeds: the study's, which are not for tuning.

    Raises:
        ValueError: a key or value that is not legal.
    """
    _refuse_unknown(content, KEYS, "search")
    ranges = content.get("ranges")
    if not isinstance(ranges, dict) or not ranges:
        raise ValueError("search.ranges: name what is tuned, as in 'optim.lr: {low: .., high: ..}'")
    search = Search(
        ranges={path: _range(path, value, task) for path, value in ranges.items()},
        sampler=_choice("sampler", content.get("sampler", Sampler.tpe), Sampler),
        trials=content.get("trials", 12),
        pruner=_choice("pruner", content.get("pruner", Pruner.none), Pruner),
        seeds=distinct_seeds(content.get("seeds", [1000]), name="search.seeds"),
    )
    if type(search.trials) is not int or search.trials < 1:
        raise ValueError(f"search.trials: {search.trials!r}; it must be a whole number, 1 or more")
    if shared := set(search.seeds) & set(seeds):
        raise ValueError(f"search.seeds: {min(shared)} is a seed of the study; tune on others")
    return search


def distinct_seeds(values: Any, *, name: str) -> tuple[int, ...]:
    """The seeds of a list.

    Raises:
        ValueError: no list, an empty one, no seed in it, or one twice, which adds no replicate.
    """
    if not isinstance(values, list) or not values:
        raise ValueError(f"{name}: expected a list of values, found {values!r}")
    seeds = tuple(parse_value("seed", seed) for seed in values)
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None:
        raise ValueError(f"{name}: {twice} stands twice; each seed is one replicate, name it once")
    return seeds


def _range(path: str, content: Any, task: Task) -> Range:
    _refuse_unknown(content, RANGE_KEYS, f"search.ranges.{path}")
    kind = paths(task).get(path)
    if kind not in (int, float) and kind is not None:
        raise ValueError(f"search.ranges: {path} is no number; levels are axes")
    low, high = (parse_value(path, content.get(end), task=task) for end in ("low", "high"))
    log = content.get("log", False)
    if not low < high or not isinstance(log, bool) or (log and low <= 0):
        raise ValueError(
            f"search.ranges.{path}: {content}; low must be below high, and above 0 where log is "
            "true"
        )
    return Range(low=low, high=high, log=log, whole=kind is int)


def _choice(name: str, value: Any, kind: type[StrEnum]) -> Any:
    if value not in list(kind):
        raise ValueError(f"search.{name}: {value!r} is not legal; legal: {', '.join(kind)}")
    return kind(value)


def _refuse_unknown(content: Any, legal: tuple[str, ...], name: str) -> None:
    if not isinstance(content, dict):
        raise ValueError(f"{name}: expected names and values, found {content!r}")
    for key in content:
        if key not in legal:
            raise ValueError(f"{key!r} is no key of {name}; legal: {', '.join(legal)}")
