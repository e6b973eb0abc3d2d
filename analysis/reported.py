"""Published numbers beside ours: shown with their source, never part of any statistic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STATUSES = {"read": "read in the source", "quoted": "as others quote the source"}


@dataclass(frozen=True, kw_only=True)
class Reported:
    """What one source reports on the levels of a study.

    Attributes:
        source: where it stands, such as a paper with its table.
        status: a key of `STATUSES`, how the number was found.
        protocol: what was done otherwise there than here.
        metric: the metric here that the numbers belong beside; "" for every one.
        split: the split here that they belong beside; "" for every one.
        measure: what the numbers are, where that isn't `metric`.
        finding: what the source says that is no number of one level.
        baseline: its number of the baseline.
        levels: axis -> level -> its number.
    """

    source: str
    status: str
    protocol: str
    metric: str = ""
    split: str = ""
    measure: str = ""
    finding: str = ""
    baseline: float | None = None
    levels: Mapping[str, Mapping[Any, float]] = field(default_factory=dict)

    def belongs(self, *, metric: str, split: str) -> bool:
        """Whether it may stand beside numbers of this metric on this split."""
        return self.metric in ("", metric) and self.split in ("", split)

    def number(self, axis: str, level: Any, *, is_baseline: bool) -> float | None:
        """Its number of a row; None where it has none."""
        known = self.levels.get(axis, {}).get(level)
        return self.baseline if known is None and is_baseline else known

    @property
    def sentence(self) -> str:
        """Where the numbers are from, what they are, and what was done otherwise."""
        said = "".join(f"{text}. " for text in (self.measure, self.finding) if text)
        return f"{self.source}: {said}There: {self.protocol}. ({STATUSES[self.status]})"


def reported_numbers(
    reported: Sequence[Reported], axis: str, level: Any, *, is_baseline: bool
) -> tuple[tuple[int, float], ...]:
    """The published numbers of a row, each with the place of its source, from 1."""
    found = (one.number(axis, level, is_baseline=is_baseline) for one in reported)
    return tuple((place, n) for place, n in enumerate(found, start=1) if n is not None)


def reported_notes(reported: Sequence[Reported]) -> list[str]:
    """The sources, in the order of their marks."""
    if not reported:
        return []
    return [
        "Reported: published numbers, for comparison by eye; no mean, interval or test uses them.",
        *(f"[{place}] {one.sentence}" for place, one in enumerate(reported, start=1)),
    ]
