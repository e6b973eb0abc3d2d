"""Lengths at which a run is evaluated, as one plain value: `1x 2x 4x 8x` or `10, 20, 100`."""

import re
from collections.abc import Sequence


def evaluation_lengths(text: str, *, name: str, trained: int) -> tuple[int, ...]:
    """Read lengths, in the order given.

    Args:
        text: whole numbers, or multiples of the trained length such as `2x`, between commas or
            spaces.
        name: the setting, for messages.
        trained: the longest trained length, which `1x` stands for; 0 where there is none.

    Raises:
        ValueError: Nothing is named, a part is no such length, or one length comes twice.
    """
    parts = text.replace(",", " ").split()
    if not parts:
        raise ValueError(f"{name} is empty: give lengths such as 10,20 or multiples such as 1x 2x")
    for part in parts:
        if not re.fullmatch(r"[1-9]\d*x?", part, flags=re.ASCII):
            raise ValueError(
                f"{name}={text!r}: {part!r} is neither a whole number above 0 nor a multiple such"
                " as 2x"
            )
        if part.endswith("x") and not trained:
            raise ValueError(
                f"{name}={text!r}: {part} is a multiple of the trained length, and there is no"
                " limit in training; give whole numbers"
            )
    lengths = tuple(int(part[:-1]) * trained if part.endswith("x") else int(part) for part in parts)
    for length in lengths:
        if lengths.count(length) > 1:
            raise ValueError(f"{name}={text!r} names the length {length} twice")
    return lengths


def canonical_lengths(text: str, *, name: str, trained: int, multiples: bool = True) -> str:
    """The one spelling of these lengths, in their order.

    With `multiples`, those of the trained length are written as such: `8,16` and `1x 2x` are both
    `1x 2x` where 8 is the trained length. Without, all are numbers. Other arguments and errors are
    those of `evaluation_lengths`.
    """
    lengths = evaluation_lengths(text, name=name, trained=trained)
    if not multiples:
        return " ".join(map(str, lengths))
    return " ".join(
        str(length) if length % trained else f"{length // trained}x" for length in lengths
    )


def bucket_bounds(text: str, *, name: str, trained: int) -> tuple[int, ...]:
    """Read the longest length of each bucket, shortest bucket first; arguments as above.

    Raises:
        ValueError: As for `evaluation_lengths`, or the lengths don't grow.
    """
    bounds = evaluation_lengths(text, name=name, trained=trained)
    if sorted(bounds) != list(bounds):
        raise ValueError(f"{name}={text!r}: each length ends a bucket, so they must grow")
    return bounds


def buckets(lengths: Sequence[int], bounds: Sequence[int]) -> dict[int, list[int]]:
    """Where each bucket's members stand in `lengths`, by the bucket's upper bound.

    A bucket holds what is longer than the bound before it and no longer than its own. What is
    longer than all bounds gets a bucket of its own, up to the longest of all.
    """
    longest = max(lengths, default=0)
    ends = [*bounds, longest] if longest > max(bounds, default=longest) else [*bounds]
    starts = [0, *ends][:-1]
    return {
        end: [i for i, length in enumerate(lengths) if start < length <= end]
        for start, end in zip(starts, ends, strict=True)
    }
