"""What stands behind a run, and whether running it again gives the same."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablations.ledger import flat, read_record

SHOWN = 5
_SAME = ("data_fingerprint", "tokenizer_hash", "hardware", "threads", "git_commit", "resumed")


def known_records(ids: Sequence[str], *, runs_dir: Path) -> dict[str, dict[str, Any]]:
    """The records of these runs, those without a result left out.

    Raises:
        ValueError: a record cannot be read, or is that of another run.
    """
    found = {}
    for identity in ids:
        file = runs_dir / identity / "result.json"
        if file.is_file():
            try:
                found[identity] = read_record(file)
            except ValueError as error:
                raise ValueError(f"{file}: {error}") from None
    return found


def provenance(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Lines that say what the runs are made of: what they share first, then each run.

    Args:
        records: by id, as `known_records` gives them.
    """
    facts = {identity: _facts(record) for identity, record in records.items()}
    names = list(dict.fromkeys(name for of_run in facts.values() for name in of_run))
    shared = {
        name: values[0]
        for name in names
        if len(set(map(repr, values := [of_run.get(name) for of_run in facts.values()]))) == 1
    }
    yield f"the same in {'all ' if len(facts) > 1 else ''}{_count(len(facts), 'run')}:"
    yield from (f"  {name}: {value}" for name, value in shared.items())
    for identity, of_run in facts.items():
        yield f"run {identity}: {records[identity]['status']}, ended {records[identity]['ended']}"
        yield from (f"  {name}: {value}" for name, value in of_run.items() if name not in shared)
        yield f"  again: {records[identity]['command']}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two results of one run.

    Attributes:
        n_values: numbers that both have.
        differing: by name, first and second value of those that differ.
        only_in_one: names of numbers that one of them lacks.
        weights: largest difference of a weight; None where one has no weights to compare.
        circumstances: by name, first and second of what a result may depend on and differs.
    """

    n_values: int
    differing: Mapping[str, tuple[float, float]]
    only_in_one: Sequence[str]
    weights: float | None
    circumstances: Mapping[str, tuple[Any, Any]]

    @property
    def identical(self) -> bool:
        """Whether no number and no weight differs by a bit."""
        return not (self.differing or self.only_in_one or self.weights)

    def lines(self) -> Iterator[str]:
        """The comparison in words."""
        numbers = _count(self.n_values, "number")
        if self.identical:
            yield f"bit-identical: {numbers}, {'no weights' if self.weights is None else 'weights'}"
        else:
            weights = "no weights to compare"
            if self.weights is not None:
                weights = f"weights by up to {self.weights:.3g}"
            yield f"not identical: {len(self.differing)} of {numbers} differ, {weights}"
        widest = sorted(self.differing.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
        for name, (first, second) in widest[:SHOWN]:
            yield f"  {name}: {first:.10g}, now {second:.10g} ({second - first:+.3g})"
        if len(widest) > SHOWN:
            yield f"  and {len(widest) - SHOWN} smaller differences"
        yield from (f"  {name}: in one of them only" for name in self.only_in_one)
        for name, (before, now) in self.circumstances.items():
            yield f"  made with {name} {before}, now {now}"


def compare(first: Path, second: Path) -> Comparison:
    """Compare the results in two folders of the same run.

    Raises:
        ValueError: a record cannot be read, or they are of two runs.
    """
    records = [read_record(folder / "result.json") for folder in (first, second)]
    if records[0]["id"] != records[1]["id"]:
        raise ValueError(f"{first} and {second} hold two runs; compare results of one")
    before, now = (_numbers(record) for record in records)
    both = [name for name in before if name in now]
    made = [_circumstances(record) for record in records]
    return Comparison(
        n_values=len(both),
        differing={n: (before[n], now[n]) for n in both if not _same(before[n], now[n])},
        only_in_one=[name for name in {**before, **now} if name not in both],
        weights=_largest_difference(first / "weights.pt", second / "weights.pt"),
        circumstances={
            name: (value, made[1].get(name))
            for name, value in made[0].items()
            if value != made[1].get(name)
        },
    )


def _facts(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**flat(record["config"]), **_circumstances(record)}


def _circumstances(record: Mapping[str, Any]) -> dict[str, Any]:
    versions = {f"version of {name}": v for name, v in record.get("versions", {}).items()}
    return {**{name: record.get(name) for name in _SAME}, **versions}


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    measured = {}
    for row in record["metrics"]:
        length = "" if row["length"] is None else f"@{row['length']}"
        measured[f"{row['metric']} on {row['split']}{length}"] = float(row["value"])
    steps = {"updates": float(record["steps"])}
    return {**measured, **steps}


def _same(first: float, second: float) -> bool:
    return first == second or (first != first and second != second)


def _largest_difference(first: Path, second: Path) -> float | None:
    if not (first.is_file() and second.is_file()):
        return None
    import torch

    states = [
        torch.load(file, map_location="cpu", weights_only=True)["state_dict"]
        for file in (first, second)
    ]
    if states[0].keys() != states[1].keys():
        return float("inf")
    gaps = [
        0.0 if torch.equal(tensor, other) else float((tensor.double() - other.double()).abs().max())
        for tensor, other in ((states[0][name], states[1][name]) for name in states[0])
    ]
    return max(gaps, default=0.0)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
