"""What paired runs say about a claim: confirmed, refuted, or not distinguishable at this n.

A claim that a level is better or worse is confirmed when the sign-flip test shows a difference in
that direction, and refuted when the same test shows that a difference of the smallest size that
would matter isn't there. A claim that two are equal is confirmed when differences of that size are
ruled out in both directions, and refuted when a difference is shown. Shifting the paired
differences by a bound before the test makes it a test of that bound, so that every verdict rests
on the same exact test, and few seeds can earn neither. A claim with m comparisons tests each at
5% / m.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd

from analysis import statistics
from analysis.frames import StudyView, has_level, pairs, per_seed, study_cells
from analysis.metrics import metric_of
from analysis.statistics import ALPHA, Estimate

MATTERING_RATE = 0.5  # the smallest difference that matters between two rates of divergence
DIRECTIONS = {"higher": 1, "lower": -1, "equal": 0}


class ClaimVerdict(Enum):
    """What can be said of a claim; the value is how it is printed."""

    confirmed = "confirmed"
    refuted = "refuted"
    not_distinguishable = "not distinguishable at this n"
    not_run = "not run"


@dataclass(frozen=True, kw_only=True)
class Question:
    """One comparison of a study, and what a claim says of it.

    Attributes:
        study: the plan, with the metric and split that are read.
        axis: the axis whose `level` is compared with its baseline; "" for all runs, with `against`.
        level: the level.
        at: levels of other axes that runs must have to count.
        against: another split of the same runs, in place of the baseline's level.
        claimed: "better", "worse", "higher", "lower" or "equal".
        smallest: the smallest difference that would matter, over 0.
        alpha: two-sided level of each test.
    """

    study: StudyView
    axis: str
    level: Any
    at: Mapping[str, Any] = field(default_factory=dict)
    against: str = ""
    claimed: str
    smallest: float
    alpha: float = ALPHA


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the runs say.

    Attributes:
        verdict: of this comparison alone.
        effect: the paired difference with its t interval; of divergence rates where `diverging`.
        p: sign-flip p of no difference.
        planned: seeds of the study; `effect.n` of them have a number.
        missing: ids of the runs that are still to be made.
        diverged: runs that diverged among those compared.
        diverging: the level, or the baseline, never finished: rates of divergence are compared.
        detectable: smallest difference that these seeds would show; infinite when none could be.
        smallest: the smallest difference that matters, in the unit of `effect`.
        seeds_needed: seeds that would show the smallest difference that matters; 0 when unknown.
    """

    verdict: ClaimVerdict
    effect: Estimate
    p: float
    planned: int
    missing: tuple[str, ...]
    diverged: int
    diverging: bool
    detectable: float
    smallest: float
    seeds_needed: int


def overall(verdicts: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """The verdict on a claim from those of its parts.

    A general statement falls with one counter-example. What has not been run is left out, and
    stands beside the verdict.
    """
    for verdict in (
        ClaimVerdict.refuted,
        ClaimVerdict.not_distinguishable,
        ClaimVerdict.confirmed,
    ):
        if verdict in verdicts:
            return verdict
    return ClaimVerdict.not_run


def answer(frame: pd.DataFrame, question: Question) -> Answer:
    """Settle one comparison with the runs that are there.

    Args:
        frame: the ledger's tidy frame; runs of other studies in it are ignored.
        question: what is compared.

    Raises:
        ValueError: as in `frames.study_cells`.
    """
    members = _members(frame, question)
    planned = len(question.study.seeds)
    runs = pd.concat([members["id"], members["partner"]]).drop_duplicates()
    states = members.set_index("id")["status"].to_dict()
    states |= members.set_index("partner")["partner_status"].to_dict()
    differences, diverging = _differences(members)
    effect = statistics.t_estimate(differences)
    diverged = sum(states[run] == "diverged" for run in runs)
    missing = tuple(run for run in runs if states[run] == "missing")
    verdict, p = ClaimVerdict.not_run, math.nan
    smallest = MATTERING_RATE if diverging else question.smallest
    if effect.n:
        p = float(statistics.sign_flip_p(differences))
        direction = _direction(question, diverging)
        verdict = settle(differences, direction, smallest=smallest, alpha=question.alpha)
    return Answer(
        verdict=verdict,
        effect=effect,
        p=p,
        planned=planned,
        missing=missing,
        diverged=diverged,
        diverging=diverging,
        detectable=statistics.detectable_effect(effect.sd, effect.n, alpha=question.alpha),
        smallest=smallest,
        seeds_needed=_seeds_needed(smallest, effect.sd, alpha=question.alpha),
    )


def _direction(question: Question, diverging: bool) -> int:
    """The sign of the differences that is claimed; 0 for none. More divergence is worse."""
    if question.claimed in DIRECTIONS:
        return DIRECTIONS[question.claimed]
    higher = False if diverging else metric_of(question.study.metric).higher_is_better
    if higher is None:
        raise ValueError(
            f"{question.study.metric} is not better in either direction; claim higher or lower"
        )
    return 1 if (question.claimed == "better") == higher else -1


def settle(
    differences: np.ndarray, direction: int, *, smallest: float, alpha: float = ALPHA
) -> ClaimVerdict:
    """The verdict of paired differences (n,) on a claim.

    Args:
        differences: level minus baseline, one per seed.
        direction: 1 where the claim says they are over 0, -1 below 0, 0 where it says equal.
        smallest: the smallest difference that would matter.
        alpha: two-sided level of each test.
    """
    if direction == 0:
        if _below(differences, smallest, alpha) and _below(-differences, smallest, alpha):
            return ClaimVerdict.confirmed
        shown = _below(differences, 0, alpha) or _below(-differences, 0, alpha)
        return ClaimVerdict.refuted if shown else ClaimVerdict.not_distinguishable
    claimed = direction * differences
    if _below(claimed, smallest, alpha):
        return ClaimVerdict.refuted
    shown = _below(-claimed, 0, alpha)
    return ClaimVerdict.confirmed if shown else ClaimVerdict.not_distinguishable


def _below(numbers: np.ndarray, bound: float, alpha: float) -> bool:
    """Whether the sign-flip test shows that the mean is below the bound."""
    shifted = numbers - bound
    return bool(shifted.mean() < 0 and statistics.sign_flip_p(shifted) <= alpha)


def _members(frame: pd.DataFrame, question: Question) -> pd.DataFrame:
    """The compared runs: `id`, `partner`, both states, `seed` and `difference`."""
    study = question.study
    cells = study_cells(frame, study)
    for axis, level in question.at.items():
        cells = cells[has_level(cells, axis, level)].reset_index(drop=True)
    if question.against:
        other = study_cells(frame, replace(study, split=question.against)).set_index("id")["value"]
        found = cells
        if question.axis:
            found = cells[has_level(cells, question.axis, question.level)]
        difference = found["value"] - found["id"].map(other)
        return found.assign(
            partner=found["id"], partner_status=found["status"], difference=difference
        )
    paired = pairs(cells, study, question.axis)
    found = paired[has_level(paired, question.axis, question.level)]
    states = cells.set_index("id")["status"]
    return found.assign(partner_status=found["partner"].map(states))


def _differences(members: pd.DataFrame) -> tuple[np.ndarray, bool]:
    """Differences by seed; of divergence, where one side never finished."""
    differences = per_seed(members, "difference").to_numpy()
    known = members[(members["status"] != "missing") & (members["partner_status"] != "missing")]
    sides = (known["status"] == "diverged", known["partner_status"] == "diverged")
    if len(differences) or not len(known) or sides[0].all() == sides[1].all():
        return differences, False
    rates = known.assign(difference=sides[0].astype(float) - sides[1].astype(float))
    return per_seed(rates, "difference").to_numpy(), True


def _seeds_needed(smallest: float, sd: float, *, alpha: float) -> int:
    try:
        return 0 if math.isnan(sd) else statistics.seeds_needed(smallest, sd, alpha=alpha)
    except ValueError:
        return 0
