"""A row of a comparison table, and the plain record of it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.reported import Reported
from analysis.statistics import Estimate, Verdict


@dataclass(frozen=True, kw_only=True)
class Row:
    """One level of one axis.

    Attributes:
        axis: dotted name; "" for the baseline row that all axes share.
        level: the level; None in that shared row.
        mean: the metric over finished runs, with its t interval over seeds.
        difference: paired difference to the baseline; None in baseline rows.
        bootstrap: the same with its BCa interval; None in baseline rows.
        p: sign-flip p; NaN without at least one pair.
        p_adjusted: the same after Holm over the table.
        detectable: smallest difference these seeds would show; infinite when none could be shown.
        verdict: None in baseline rows.
        seeds_compared: seeds with a number to compare (in baseline rows: a finished run).
        seeds_planned: seeds of the study.
        finished: runs that finished; `diverged`, `undefined` and `missing` make it up to the
            planned ones.
        parameters: smallest and largest count among the runs; None when unknown.
        flops_per_target: smallest and largest number of operations of a forward pass among the
            runs, by target token or forecast value; None when unknown.
        seconds: mean wall time of a run; NaN when unknown.
        peak_memory: mean over runs of the most bytes that one held; NaN when unknown.
        runs: ids of all planned runs of the level, missing ones included.
        baseline_runs: ids of the runs that the level is compared with.
        reported: published numbers of the level, each with the place of its source in the table.
    """

    axis: str
    level: Any
    mean: Estimate
    difference: Estimate | None
    bootstrap: Estimate | None = None
    p: float = math.nan
    p_adjusted: float = math.nan
    detectable: float = math.nan
    verdict: Verdict | None = None
    seeds_compared: int
    seeds_planned: int
    finished: int
    diverged: int
    undefined: int
    missing: int
    parameters: tuple[int, int] | None
    flops_per_target: tuple[int, int] | None
    seconds: float
    peak_memory: float
    runs: tuple[str, ...]
    baseline_runs: tuple[str, ...] = ()
    reported: tuple[tuple[int, float], ...] = ()

    @property
    def is_baseline(self) -> bool:
        """Whether this row is what others are compared with."""
        return self.difference is None

    @property
    def verdict_text(self) -> str:
        """The verdict in words; an arm with divergences says so."""
        words = self.verdict.value if self.verdict else "baseline"
        if self.verdict is Verdict.undefined and self.finished:
            words = "baseline undefined"
        if not self.diverged:
            return words
        count = f"{self.diverged} of {self.diverged + self.finished} diverged"
        return count if self.verdict is Verdict.diverged else f"{words}; {count}"


def row_record(row: Row, shared: Mapping[str, str], reported: Sequence[Reported]) -> dict[str, Any]:
    """A row as plain numbers, the columns named in full.

    Args:
        row: the row.
        shared: `study`, `metric`, `split` and `signature` of its table.
        reported: the sources of its published numbers.
    """
    return {
        "study": shared["study"],
        "axis": row.axis,
        "level": row.level,
        "metric": shared["metric"],
        "split": shared["split"],
        "signature": shared["signature"],
        **_estimates(row),
        "p": row.p,
        "p_holm": row.p_adjusted,
        "detectable": row.detectable,
        "seeds_compared": row.seeds_compared,
        "seeds_planned": row.seeds_planned,
        "finished": row.finished,
        "diverged": row.diverged,
        "undefined": row.undefined,
        "missing": row.missing,
        **_ends("parameters", row.parameters),
        **_ends("flops_per_target", row.flops_per_target),
        "seconds": row.seconds,
        "peak_memory_bytes": row.peak_memory,
        "verdict": row.verdict_text,
        "reported": "; ".join(f"{number:g}" for _, number in row.reported),
        "reported_by": "; ".join(reported[place - 1].sentence for place, _ in row.reported),
        "runs": " ".join(row.runs),
        "baseline_runs": " ".join(row.baseline_runs),
    }


def _estimates(row: Row) -> dict[str, float]:
    nothing = Estimate(math.nan, math.nan, math.nan, math.nan, 0)
    difference, bootstrap = row.difference or nothing, row.bootstrap or nothing
    return {
        "mean": row.mean.mean,
        "mean_low": row.mean.low,
        "mean_high": row.mean.high,
        "mean_sd": row.mean.sd,
        "difference": difference.mean,
        "difference_low": difference.low,
        "difference_high": difference.high,
        "difference_sd": difference.sd,
        "difference_bca_low": bootstrap.low,
        "difference_bca_high": bootstrap.high,
    }


def _ends(name: str, ends: tuple[int, int] | None) -> dict[str, int | None]:
    fewest, most = ends or (None, None)
    return {f"{name}_min": fewest, f"{name}_max": most}
