"""Rows of unlike lengths, cut into parts of like ones, which need less padding."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch

# Tokens that can be computed in the time that it takes to start on one part more.
CPU_PART_COST, GPU_PART_COST = 128, 8192


def part_cost() -> int:
    """Tokens that this machine can compute in the time that one more part takes."""
    return GPU_PART_COST if torch.cuda.is_available() else CPU_PART_COST


def like_lengths(lengths: Sequence[int], *, part_cost: int) -> list[list[int]]:
    """The cheapest cut: positions of the rows of each part, the longest rows first.

    A part costs its rows times its longest, and `part_cost`. The least sum is found by dynamic
    programming over the distinct lengths: to cut between rows of one length never pays.

    Args:
        lengths: tokens of each row.
        part_cost: tokens that could be computed in the time that one more part takes.
    """
    rows: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        rows.setdefault(length, []).append(row)
    distinct = sorted(rows, reverse=True)
    before = list(accumulate((len(rows[length]) for length in distinct), initial=0))
    best = [(0, 0)]  # for so many distinct lengths: the least cost, and where the last part starts
    for end in range(1, len(distinct) + 1):
        costs = (
            cost + (before[end] - before[start]) * distinct[start] + part_cost
            for start, (cost, _) in enumerate(best)
        )
        best.append(min(zip(costs, range(end), strict=True)))
    parts, end = [], len(distinct)
    while end:
        start = best[end][1]
        parts.append([row for length in distinct[start:end] for row in rows[length]])
        end = start
    return parts[::-1]


def padding_share(
    lengths: Sequence[tuple[int, int]], batches: Iterable[Sequence[int]]
) -> tuple[float, float]:
    """Share of padding among the positions that are computed, on either side.

    Args:
        lengths: tokens of each row on both sides.
        batches: the rows of each batch.
    """
    tokens, positions = [0, 0], [0, 0]
    for batch in batches:
        rows = [lengths[row] for row in batch]
        for part in like_lengths(list(map(max, rows)), part_cost=part_cost()):
            for side in (0, 1):
                chosen = [rows[row][side] for row in part]
                tokens[side] += sum(chosen)
                positions[side] += len(chosen) * max(chosen)
    return 1 - tokens[0] / positions[0], 1 - tokens[1] / positions[1]
