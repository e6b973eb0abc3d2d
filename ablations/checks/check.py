"""What a check is and how checks are run: claim, expectation, measurement, verdict."""

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from ablations.checks.subject import Subject
from ablations.config import RunConfig


class Verdict(Enum):
    """What a check found about its statement; the value is how it is printed."""

    confirmed = "confirmed"
    refuted = "refuted"
    not_applicable = "not applicable"
    crashed = "could not run"


@dataclass(frozen=True)
class Outcome:
    """What was measured, in words with figures, and what it says about the statement."""

    verdict: Verdict
    measured: str


# Why a check has no meaning for a config; empty where it has one.
Need = Callable[[RunConfig], str]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One claim.

    Attributes:
        id: its name, a letter and a number.
        statement: what is claimed, in one line.
        expected: what we expect to measure, fixed before measuring.
        measure: asks the model of a config.
        needs: what the config must have for it.
    """

    id: str
    statement: str
    expected: str
    measure: Callable[[Subject], Outcome]
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True)
class Result:
    """A check with its outcome; `error` holds the traceback of one that could not run."""

    check: Check
    outcome: Outcome
    error: str = ""


def verdict(holds: bool, measured: str) -> Outcome:
    """The outcome of a statement that was found to hold, or not to."""
    return Outcome(Verdict.confirmed if holds else Verdict.refuted, measured)


def run_checks(config: RunConfig, checks: Iterable[Check]) -> Iterator[Result]:
    """Run the checks on the model of a config, one by one; one that crashes stops no other."""
    subject = Subject(config)
    for check in checks:
        reasons = [reason for need in check.needs if (reason := need(config))]
        if reasons:
            yield Result(check, Outcome(Verdict.not_applicable, "; ".join(reasons)))
            continue
        try:
            yield Result(check, check.measure(subject))
        except Exception as error:
            measured = f"{type(error).__name__}: {error}"
            yield Result(check, Outcome(Verdict.crashed, measured), traceback.format_exc())


def select(checks: Sequence[Check], only: str) -> list[Check]:
    """The checks whose ids stand in `only`, separated by commas; all where it is empty.

    Raises:
        ValueError: an id that no check has.
    """
    wanted = [word.strip() for word in only.split(",") if word.strip()]
    known = {check.id: check for check in checks}
    for word in wanted:
        if word not in known:
            raise ValueError(f"--only: {word!r} is no check; there are {', '.join(known)}")
    return [check for check in checks if check.id in wanted or not wanted]


def encoder(config: RunConfig) -> str:
    """Need: there is an encoder."""
    return "" if config.dims.n_encoder_layers else "dims.n_encoder_layers=0: no encoder"


def decoder(config: RunConfig) -> str:
    """Need: there is a decoder."""
    return "" if config.dims.n_decoder_layers else "dims.n_decoder_layers=0: no decoder"


def feed_forward(config: RunConfig) -> str:
    """Need: blocks have a feed-forward network."""
    kind = config.design.feed_forward
    return "" if kind.built else f"design.feed_forward={kind}: no feed-forward network"


def several_heads(config: RunConfig) -> str:
    """Need: there is more than one head."""
    return "" if config.dims.n_heads > 1 else "dims.n_heads=1: one head has nothing to split"


def keeps(invariance: str, *, besides: str = "") -> Need:
    """Need: no level of the design breaks this invariance by its nature, one axis left out."""

    def need(config: RunConfig) -> str:
        broken = (
            f"design.{axis}={level} breaks {invariance.replace('_', ' ')} by its nature"
            for axis, level in vars(config.design).items()
            if axis != besides and invariance in level.value.breaks
        )
        return "; ".join(broken)

    return need
