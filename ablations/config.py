"""RunConfig: everything that decides what one run computes, its flat form, and its identity."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache, lru_cache
from typing import Any, get_type_hints

from ablations.identity import identity, unsaid
from ablations.tasks import Task
from lightning_modules.design import Design, Dims, violated
from lightning_modules.optimization import Optim

Scalar = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long a run trains and how it is evaluated.

    Attributes:
        max_steps: updates of the weights.
        validate_every: updates between two validations.
        divergence_loss: a training loss over it, or NaN, ends the run as diverged (nats per token).
        beam_size: hypotheses kept while decoding the test splits; 1 is greedy.
        measure_heads: record what the heads look at on the validation data, before and after.
    """

    max_steps: int = 1000
    validate_every: int = 200
    divergence_loss: float = 20.0
    beam_size: int = 1
    measure_heads: bool = False

    def __post_init__(self) -> None:
        """Refuse counts below one."""
        for name in ("max_steps", "validate_every", "beam_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"budget.{name} is {getattr(self, name)}; it must be 1 or more")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One cell of a study: task, design, sizes, training, data, budget and seed.

    Attributes:
        task: what is trained.
        variant: the task's own choices.
        design: the level of each design axis.
        dims: sizes of the model.
        optim: how the weights are updated.
        data: what is learned from.
        budget: how long, and how it is evaluated.
        seed: fixes initialisation, data order and dropout.
    """

    task: Task = Task.translation
    variant: Any = field(default_factory=Task.translation.value.variant)
    design: Design = field(default_factory=Design)
    dims: Dims = field(default_factory=Dims)
    optim: Optim = field(default_factory=Optim)
    data: Any = field(default_factory=Task.translation.value.data)
    budget: Budget = field(default_factory=Budget)
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse a seed that generators don't take."""
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed is {self.seed}; it must be from 0 to 4294967295")

    @property
    def updates(self) -> int:
        """Updates of the weights; 0 where there is nothing to train."""
        return self.budget.max_steps if self.task.value.trains(self.variant) else 0


@cache
def sections(task: Task = Task.translation) -> dict[str, type]:
    """The fields of a config of this task, with the type of each."""
    own = {"data": task.value.data, "variant": task.value.variant}
    return {**get_type_hints(RunConfig), **own}


@cache
def paths(task: Task = Task.translation) -> dict[str, type]:
    """Every dotted name of a config of this task, with the type of its value."""
    found: dict[str, type] = {}
    for name, section in sections(task).items():
        if is_dataclass(section):
            hints = get_type_hints(section)
            found.update({f"{name}.{f.name}": hints[f.name] for f in fields(section)})
        else:
            found[name] = section
    return found


def flatten(config: RunConfig) -> dict[str, Scalar]:
    """The config as dotted names and plain values: `{"design.norm_position": "pre", ...}`."""
    parts = [_flat_part(name, part) for name, part in vars(config).items()]
    return {path: value for part in parts for path, value in part.items()}


def nested(config: RunConfig) -> dict[str, Any]:
    """The config as nested plain values, as records and trackers hold it."""
    return {
        name: plain(part)
        if isinstance(part, Scalar | Enum)
        else {path.partition(".")[2]: value for path, value in _flat_part(name, part).items()}
        for name, part in vars(config).items()
    }


def config_from_flat(flat: Mapping[str, Any], *, base: RunConfig | None = None) -> RunConfig:
    """Build a config from dotted names; what is not named comes from `base` or the defaults.

    Args:
        flat: values by dotted name; levels by name, numbers also as text.
        base: the config that is changed.

    Raises:
        ValueError: a name that is no config path, or a value or level that is not legal there.
    """
    start = base if base is not None else RunConfig()
    task = parse_value("task", flat.get("task", start.task))
    parsed: dict[str, dict[str, Any]] = {}
    for path, value in flat.items():
        section, _, name = path.rpartition(".")
        parsed.setdefault(section, {})[name] = parse_value(path, value, task=task)
    changes = parsed.pop("", {})
    if task is not start.task:
        changes |= {"data": task.value.data(), "variant": task.value.variant()}
    for section, values in parsed.items():
        changes[section] = replace(changes.get(section, getattr(start, section)), **values)
    return replace(start, **changes)


def parse_value(path: str, value: Any, *, task: Task = Task.translation) -> Any:
    """The value a config holds at this dotted name, from a plain value.

    Raises:
        ValueError: the name is no config path, or the value is not legal there.
    """
    kind = paths(task).get(path)
    if kind is None:
        raise ValueError(f"{path!r} is no config path; {_nearest(path, paths(task))}")
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(path, value, kind)
    if type(value) is kind:
        return value
    converted = _convert(value, kind)
    if converted is None:
        raise ValueError(f"{path}: {value!r} is not {_KINDS.get(kind, f'a {kind.__name__}')}")
    return converted


def plain(value: Any) -> Scalar:
    """The value as it stands in files: levels by name."""
    return value.name if isinstance(value, Enum) else value


def run_id(config: RunConfig, data_fingerprint: str) -> str:
    """The identity of a run: 12 hexadecimal digits of what it computes and on what data."""
    return identity(_said(config), data_fingerprint)


def seeded_ids(
    config: RunConfig, seeds: Sequence[int], data_fingerprint: str
) -> list[tuple[int, str]]:
    """Each seed with the identity of the run that the config is with it."""
    said = _said(config)
    return [(seed, identity({**said, "seed": seed}, data_fingerprint)) for seed in seeds]


def _said(config: RunConfig) -> dict[str, Scalar]:
    """The config by dotted names, without most of what goes without saying."""
    parts = [_said_part(config.task.name, name, part) for name, part in vars(config).items()]
    return {path: value for part in parts for path, value in part.items()}


@lru_cache(maxsize=4096)
def _said_part(task: str, name: str, part: Any) -> dict[str, Scalar]:
    known = unsaid(task)
    values = _flat_part(name, part).items()
    return {path: value for path, value in values if path not in known or known[path] != value}


def check(config: RunConfig) -> None:
    """Refuse an illegal combination.

    Raises:
        ValueError: the sentence of the first violated constraint.
    """
    if sentences := refusals(config):
        raise ValueError(sentences[0])


def refusals(config: RunConfig) -> list[str]:
    """The sentence of each constraint that this combination violates; empty when it is legal."""
    sentences = violated(config.design, config.dims, config.optim)
    own = config.task.value.refusal(config)
    return [*sentences, own] if own else sentences


_KINDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
}


@lru_cache(maxsize=4096)
def _flat_part(name: str, part: Any) -> dict[str, Scalar]:
    """One field of a config, each number as its type says: 0 and 0.0 are the same dropout."""
    if not is_dataclass(part):
        return {name: plain(part)}
    flat: dict[str, Scalar] = {}
    for field_name, kind in get_type_hints(type(part)).items():
        value = plain(getattr(part, field_name))
        flat[f"{name}.{field_name}"] = float(value) if kind is float else value
    return flat


def _member(path: str, value: Any, kind: type[Enum]) -> Enum:
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in kind.__members__:
        return kind.__members__[value]
    raise ValueError(f"{path}: {value!r} is no level; legal: {', '.join(kind.__members__)}")


def _convert(value: Any, kind: type) -> Any:
    """The value as `kind` where nothing is lost by it, else None."""
    if kind is bool:
        return {"true": True, "false": False}.get(str(value).lower())
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if kind is str:
        return str(value)
    try:
        number = float(value)
        if kind is int:
            return int(value) if number == int(number) else None
        return number
    except (ValueError, OverflowError):
        return None


def _nearest(path: str, legal: Mapping[str, type]) -> str:
    close = difflib.get_close_matches(path, legal, n=3, cutoff=0.6)
    if not close:
        last = path.rpartition(".")[2]
        close = [name for name in legal if name.rpartition(".")[2] == last]
    return f"did you mean {', '.join(close)}?" if close else f"legal: {', '.join(legal)}"
