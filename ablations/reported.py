"""What a study file says was published of its levels, checked.

Under `reported` a study lists sources: `source`, `status` (`read` in the source itself, or `quoted`
by others), `protocol` (what was done otherwise there), and what they report: `baseline` (a number),
`levels` (axis, level, number), or a `finding` in words. `metric` and `split` say where the numbers
belong, `measure` what they are where that isn't the metric.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

STATUSES = ("read", "quoted")
WORDS = ("source", "status", "protocol", "metric", "split", "measure", "finding")
KEYS = (*WORDS, "baseline", "levels")


def checked_reported(
    sources: Any,
    axes: Mapping[str, Sequence[Any]],
    *,
    metrics: Sequence[str],
    legal: Callable[[str, Any], Any],
) -> tuple[Mapping[str, Any], ...]:
    """The sources, their levels parsed as those of the axes are.

    Args:
        sources: as they stand in the file.
        axes: of the study, their levels parsed.
        metrics: that the task measures.
        legal: parses a level of an axis.

    Raises:
        ValueError: an unknown key, status, metric, axis or level, or a number that is none.
    """
    if not isinstance(sources, list | tuple):
        raise ValueError(f"reported: expected a list of sources, found {sources!r}")
    return tuple(_checked(source, axes, metrics=metrics, legal=legal) for source in sources)


def _checked(
    source: Any,
    axes: Mapping[str, Sequence[Any]],
    *,
    metrics: Sequence[str],
    legal: Callable[[str, Any], Any],
) -> Mapping[str, Any]:
    if not isinstance(source, dict):
        raise ValueError(f"reported: expected names and values, found {source!r}")
    for key in source:
        if key not in KEYS:
            raise ValueError(f"reported: {key!r} is no key of a source; legal: {', '.join(KEYS)}")
    for key in ("source", "status", "protocol"):
        if not source.get(key):
            raise ValueError(f"reported: a source needs {key!r}")
    if source["status"] not in STATUSES:
        known = ", ".join(STATUSES)
        raise ValueError(f"reported: status {source['status']!r} is not legal; legal: {known}")
    if source.get("metric", metrics[0]) not in metrics:
        raise ValueError(
            f"reported: metric {source['metric']!r} is not measured; legal: {', '.join(metrics)}"
        )
    return {
        **{key: " ".join(str(source[key]).split()) for key in WORDS if key in source},
        "baseline": _number(source["baseline"]) if "baseline" in source else None,
        "levels": {
            axis: _levels(axis, numbers, axes, legal)
            for axis, numbers in (source.get("levels") or {}).items()
        },
    }


def _levels(
    axis: str, numbers: Any, axes: Mapping[str, Sequence[Any]], legal: Callable[[str, Any], Any]
) -> dict[Any, float]:
    if axis not in axes:
        raise ValueError(f"reported: {axis} is no axis of this study; axes: {', '.join(axes)}")
    found = {legal(axis, level): _number(number) for level, number in numbers.items()}
    for level in found:
        if level not in axes[axis]:
            shown = ", ".join(map(str, axes[axis]))
            raise ValueError(f"reported: {axis} has no level {level!r}; levels: {shown}")
    return found


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"reported: {value!r} is no number")
    return float(value)
