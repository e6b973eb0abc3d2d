"""The register of claims: statements about Transformers, and what settles each of them.

`claims/*.yaml` holds them, a file per subject, with the prediction that was written down before
anything was run. A claim is settled by a check, which needs no training, or by comparisons in
shipped studies, or by both.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from importlib import resources
from typing import Any

from ablations.config import Scalar
from ablations.mappings import read_mapping

REGISTER = resources.files("ablations") / "claims"
CLAIM_KEYS = {
    *("statement", "source", "kind", "contradiction", "prediction", "expects"),
    *("check", "comparisons", "needs"),
}
COMPARISON_KEYS = {
    "study",
    "axis",
    "level",
    "at",
    "metric",
    "split",
    "against",
    "claims",
    "smallest",
}
EXPECTED = ("confirmed", "refuted", "open")


class Kind(StrEnum):
    """How a claim can be settled."""

    identity = "identity"
    behaviour = "behaviour"
    ablation = "ablation"


class Claimed(Enum):
    """What is claimed of a level against the baseline, or of a split against another.

    Higher and lower are for metrics of which neither direction is good by itself.
    """

    better = "better"
    worse = "worse"
    higher = "higher"
    lower = "lower"
    equal = "equal"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One comparison of a shipped study that bears on a claim.

    Attributes:
        study: name of the study.
        axis: the axis whose level is compared with its baseline; empty for all runs, where they
            are compared `against` another split of theirs.
        level: the level.
        at: levels of other axes, by dotted name: only runs at them count.
        metric: the metric, and `split` where it is read.
        split: the evaluated split.
        against: another split of the same runs, in place of the baseline's level.
        claims: what the claim says of it.
        smallest: the smallest difference that would matter, in the unit of the metric.
    """

    study: str
    axis: str = ""
    level: Scalar = ""
    at: Mapping[str, Scalar] = field(default_factory=dict)
    metric: str
    split: str
    against: str = ""
    claims: Claimed
    smallest: float


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim.

    Attributes:
        id: its name, a letter and a number; never given to another claim.
        statement: what is claimed, in one or two lines.
        source: the documents that claim it, with sections.
        kind: how it can be settled.
        contradiction: what another document says, or the same one elsewhere; mostly empty.
        prediction: what was expected before anything was run.
        expects: the same as a verdict: `confirmed`, `refuted` or `open`.
        check: the id of the check that bears on it, or empty.
        comparisons: the comparisons that bear on it.
        needs: what would have to be run that no shipped study holds; mostly empty.
    """

    id: str
    statement: str
    source: str
    kind: tuple[Kind, ...]
    contradiction: str = ""
    prediction: str
    expects: str
    check: str = ""
    comparisons: tuple[Comparison, ...] = ()
    needs: str = ""


def load_claims() -> list[Claim]:
    """All registered claims: contradictions between documents first, then in the order of ids.

    Raises:
        ValueError: a key, kind or value that is not legal, naming the claim.
    """
    found: dict[str, Claim] = {}
    for file in sorted(REGISTER.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".yaml"):
            continue
        for name, content in read_mapping(file.read_text(encoding="utf-8")).items():
            if name in found:
                raise ValueError(f"claim {name} is registered twice")
            found[name] = parse_claim(name, content)
    return sorted(found.values(), key=lambda claim: (not claim.contradiction, _place(claim.id)))


def find_claim(name: str) -> Claim:
    """The claim of this id.

    Raises:
        ValueError: there is none.
    """
    claims = {claim.id: claim for claim in load_claims()}
    if name not in claims:
        known = ", ".join(sorted(claims, key=_place))
        raise ValueError(f"{name!r} is no claim; there are {known}")
    return claims[name]


def parse_claim(name: str, content: Any) -> Claim:
    """Build a claim from its entry in a file.

    Raises:
        ValueError: a key, kind or value that is not legal, naming the claim.
    """
    try:
        if not re.fullmatch(r"[A-Z]\d+", name):
            raise ValueError("an id is a letter and a number, such as A5")
        fields = _known(content, CLAIM_KEYS, required=CLAIM_KEYS - {"contradiction", *_SETTLED_BY})
        if not any(fields.get(key) for key in _SETTLED_BY):
            raise ValueError("nothing settles it; give 'check', 'comparisons' or 'needs'")
        if fields["expects"] not in EXPECTED:
            raise ValueError(f"expects: {fields['expects']!r}; legal: {', '.join(EXPECTED)}")
        words = {key: " ".join(str(fields[key]).split()) for key in _WORDS if key in fields}
        return Claim(
            id=name,
            **words,
            kind=tuple(Kind(kind) for kind in fields["kind"]),
            comparisons=tuple(map(_comparison, fields.get("comparisons", ()))),
        )
    except ValueError as error:
        raise ValueError(f"claim {name}: {error}") from None


_SETTLED_BY = ("check", "comparisons", "needs")
_WORDS = CLAIM_KEYS - {"kind", "comparisons"}


def _comparison(content: Any) -> Comparison:
    free = {"at", "against"}
    if isinstance(content, dict) and content.get("against"):
        free |= {"axis", "level"}
    fields = _known(content, COMPARISON_KEYS, required=COMPARISON_KEYS - free)
    smallest = fields["smallest"]
    if not isinstance(smallest, int | float) or not smallest > 0:
        raise ValueError(f"smallest: {smallest!r} is no number over 0")
    return Comparison(**{**fields, "claims": Claimed(fields["claims"])})


def _known(content: Any, legal: set[str], *, required: set[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"expected names and values, found {content!r}")
    for key in content:
        if key not in legal:
            raise ValueError(f"{key!r} is no key; legal: {', '.join(sorted(legal))}")
    absent = sorted(required - content.keys())
    if absent:
        raise ValueError(f"{absent[0]} is missing")
    return content


def _place(name: str) -> tuple[int, int]:
    """Families in the order of the parts of a model, then by number."""
    families = "APNFTGS"
    return families.find(name[0]) % (len(families) + 1), int(name[1:])
