"""Which trial of a cell comes after one that failed."""

from datetime import datetime, timedelta
from typing import Any

from optuna.trial import FrozenTrial

RETRIES = 2  # of a cell that raised, and of a cell whose worker died without a new checkpoint
# What a cell's next trial is told.
LASTING = ("cell", "config", "changes", "pruning", "errors", "deaths")


def next_attempt(trial: FrozenTrial) -> dict[str, Any] | None:
    """What the trial after a failed one knows; None when it was the last for this cell."""
    attributes = {n: trial.user_attrs[n] for n in LASTING if n in trial.user_attrs}
    if trial.user_attrs.get("progress"):
        attributes.pop("deaths", None)
    # One that was found stale by Optuna has no outcome: its worker is dead, too.
    reasons = {"error": "errors", "returned": None}
    reason = reasons.get(trial.user_attrs.get("outcome", ""), "deaths")
    if reason is None:
        return attributes
    attributes[reason] = attributes.get(reason, 0) + 1
    return attributes if attributes[reason] <= RETRIES else None


def older_than(trial: FrozenTrial, seconds: float) -> bool:
    """Whether the trial was started so many seconds ago."""
    started = trial.datetime_start
    return started is not None and datetime.now() - started > timedelta(seconds=seconds)
