"""What makes two runs the same run: their config by dotted name, and the data. Cheap to import."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from data.lengths import canonical_lengths

LOCATION_PATHS = frozenset({"data.path"})  # where the data lies does not change what a run computes
UNKNOWN = object()
as_json = json.JSONEncoder(sort_keys=True).encode  # made once, for ten thousand configs
# By task: the names that hold lengths, each with the name of the trained length, its `1x`.
LENGTH_PATHS = {
    "translation": {"data.eval_source_words": "data.train_max_source_words"},
    "forecasting": {"data.eval_lookbacks": "data.lookback"},
    "sequences": {"data.eval_lengths": "data.train_max"},
    "language_modeling": {
        "data.eval_lengths": "data.context_length",
        "data.continuation_lengths": "data.context_length",
    },
}
# Training may have no limit there, so that multiples of it can't always be written.
IN_NUMBERS = frozenset({"data.eval_source_words"})


@cache
def unsaid(task: str) -> dict[str, Any]:
    """By dotted name, the value that is meant where a config of this task does not say it.

    A name added later stands here with the value that all earlier runs had, so they stay what they
    are. A value in this table, therefore, never changes.
    """
    table = json.loads((resources.files("ablations") / "unsaid.json").read_text(encoding="utf-8"))
    return {**table["every_task"], **table.get(task, {})}


def canonical_text(values: Mapping[str, Any]) -> str:
    """A config as JSON: sorted dotted names, without locations and what goes without saying.

    Lengths are spelled in one way.

    Raises:
        ValueError: lengths that cannot be read.
    """
    known = unsaid(values["task"])
    kept = {
        name: value
        for name, value in {**values, **_spelled_lengths(values)}.items()
        if known.get(name, UNKNOWN) != value
    }
    for name in LOCATION_PATHS:
        kept.pop(name, None)
    return as_json(kept)


def _spelled_lengths(values: Mapping[str, Any]) -> dict[str, str]:
    """The lengths that are named, in their one spelling; what is no length stays as it is."""
    known, spelled = unsaid(values["task"]), {}
    for name, one in LENGTH_PATHS.get(values["task"], {}).items():
        text, trained = values.get(name), values.get(one, known[one])
        multiples = name not in IN_NUMBERS
        if (
            text
            and isinstance(text, str)
            and isinstance(trained, int)
            and (trained > 0 or not multiples)
        ):
            spelled[name] = canonical_lengths(text, name=name, trained=trained, multiples=multiples)
    return spelled


def identity(values: Mapping[str, Any], data_fingerprint: str) -> str:
    """The id of a run: 12 hexadecimal digits of what it computes and on what data."""
    text = f"{canonical_text(values)}\n{data_fingerprint}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
