"""Lengths at which a run is evaluated, as one plain value: `1x 2x 4x 8x` or `10, 20, 100`."""

import re


def evaluation_lengths(text: str, *, name: str, trained: int) -> tuple[int, ...]:
    """Read lengths, in the order given.

    Args:
        text: whole numbers, or multiples of the trained length such as `2x`, between commas or
            spaces.
        name: the setting, for messages.
        trained: the longest trained length, which `1x` stands for.

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
    lengths = tuple(int(part[:-1]) * trained if part.endswith("x") else int(part) for part in parts)
    for length in lengths:
        if lengths.count(length) > 1:
            raise ValueError(f"{name}={text!r} names the length {length} twice")
    return lengths
