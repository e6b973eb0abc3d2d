"""One design axis is one Enum; one level is one member that carries its behaviour."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any


@dataclass(frozen=True, eq=False)
class Level:
    """What a member of an `Axis` carries.

    Attributes:
        make: the behaviour: a function, or a class to be built.
        why: the reason to choose this level, in one line.
        source: the paper, equation or document it comes from.
        breaks: the invariances this level is known to violate, out of `causality`,
            `padding_invariance` and `cached_decoding`. A test catches it violating each of them.
    """

    make: Callable[..., Any]
    why: str
    source: str
    breaks: frozenset[str] = frozenset()


class Axis(Enum):
    """A design choice. Members are its levels, the first one is the baseline.

    A member is called like the thing it makes, and is found by its name: `Axis("pre")`.
    """

    value: Level

    __hash__ = object.__hash__  # members are single objects, and plans hash ten thousand configs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the level's function, or build its module."""
        return self.value.make(*args, **kwargs)

    def __str__(self) -> str:
        """The level's name, as written in files and on the command line."""
        return self.name

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle by name, so that records outlive a change of the behaviour's code."""
        return getattr, (self.__class__, self.name)

    @classmethod
    def _missing_(cls, value: object) -> "Axis":
        if isinstance(value, str) and value in cls.__members__:
            return cls[value]
        legal = ", ".join(cls.__members__)
        raise ValueError(f"{value!r} is no level of {cls.__name__}; its levels are {legal}")
