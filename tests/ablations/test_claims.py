import pytest

from ablations.checks.register import CHECKS
from ablations.claim import Kind, find_claim, load_claims, parse_claim
from ablations.config import parse_value
from ablations.plan import make_plan
from ablations.study import load_study
from analysis.verdicts import ClaimVerdict
from data.text import continuation_lengths
from lightning_modules.axes.strategies import Strategy

FAMILIES = {"A": 13, "P": 11, "N": 8, "F": 5, "T": 6, "G": 3, "S": 5}
IDS = {f"{family}{number}" for family, last in FAMILIES.items() for number in range(1, last + 1)}
DISPUTED = ["A5", "A9", "P3", "P6", "N2", "F1"]
CLAIMS = {claim.id: claim for claim in load_claims()}
COMPARED = [(claim.id, part) for claim in CLAIMS.values() for part in claim.comparisons]
FORM = {
    "statement": "it holds",
    "source": "a document",
    "kind": ["identity"],
    "prediction": "it does",
    "expects": "confirmed",
    "check": "A1",
}
COMPARISON = {
    "study": "copy_sizes",
    "axis": "dims.n_heads",
    "level": 8,
    "metric": "token_accuracy",
    "split": "test@8",
    "claims": "equal",
    "smallest": 0.02,
}


def test_every_claim_is_registered_and_no_other():
    assert CLAIMS.keys() == IDS


def test_contradictions_between_documents_come_first():
    ids = [claim.id for claim in load_claims()]
    assert ids[: len(DISPUTED)] == DISPUTED
    assert ids[len(DISPUTED) :] == sorted(
        IDS - {*DISPUTED}, key=lambda name: ("APNFTGS".index(name[0]), int(name[1:]))
    )


@pytest.mark.parametrize("name", sorted(IDS))
def test_a_claim_says_what_settles_it(name):
    claim = CLAIMS[name]
    checks = {check.id for check in CHECKS}
    assert not claim.check or claim.check in checks
    assert claim.check or claim.comparisons or claim.needs
    if Kind.identity in claim.kind:
        assert claim.check
    assert claim.statement.endswith(".")
    assert claim.prediction.endswith((".", ".)"))
    assert claim.source


def test_every_check_bears_on_the_claim_of_its_name():
    for check in CHECKS:
        # Of heads, the check can only say how they start: training decides.
        assert CLAIMS[check.id].check == check.id or check.id == "A10"


@pytest.mark.parametrize(("name", "part"), COMPARED, ids=lambda value: str(value)[:60])
def test_a_comparison_is_one_that_its_study_makes(name, part):
    study = load_study(part.study)
    task = parse_value("task", study.base.get("task", "translation")).value
    plan = make_plan(study, data_fingerprint=lambda data: "f" * 16)
    if part.axis:
        assert part.level in study.axes[part.axis]
        assert part.against or part.level != study.baseline[part.axis]
    assert all(level in study.axes[axis] for axis, level in part.at.items())
    assert part.metric in task.metrics
    data = plan.cells[0].config.data
    splits = task.test_splits(data)
    if part.study == "generation":
        names = [*map(str, Strategy), "text"]
        splits = [
            f"continuation.{name}@{length}"
            for name in names
            for length in continuation_lengths(data)
        ]
    if study.base.get("budget.measure_heads"):
        splits = [*splits, "validation", "untrained"]
    assert {part.split, part.against or part.split} <= set(splits)
    # Of m comparisons each is tested at 5% / m, so a study of eight seeds can settle up to six.
    assert len(CLAIMS[name].comparisons) <= 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expects": "perhaps"}, "expects: 'perhaps'; legal: confirmed, refuted, open"),
        ({"verdict": "confirmed"}, "'verdict' is no key; legal: check, comparisons"),
        ({"check": ""}, "nothing settles it"),
        ({"kind": ["guess"]}, "'guess' is not a valid Kind"),
        ({"comparisons": [{**COMPARISON, "smallest": 0}]}, "smallest: 0 is no number over 0"),
        ({"comparisons": [{**COMPARISON, "claims": "nicer"}]}, "'nicer' is not a valid Claimed"),
        ({"comparisons": ["copy_sizes"]}, "expected names and values, found 'copy_sizes'"),
    ],
)
def test_a_wrong_entry_is_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=f"^claim A1: .*{message}"):
        parse_claim("A1", {**FORM, **changes})


def test_only_another_split_stands_in_for_a_level():
    bare = {name: COMPARISON[name] for name in COMPARISON if name not in ("axis", "level")}
    with pytest.raises(ValueError, match="claim A1: axis is missing"):
        parse_claim("A1", {**FORM, "comparisons": [bare]})
    (part,) = parse_claim("A1", {**FORM, "comparisons": [{**bare, "against": "a"}]}).comparisons
    assert (part.axis, part.against) == ("", "a")


def test_an_entry_without_its_parts_is_refused():
    with pytest.raises(ValueError, match="claim A1: prediction is missing"):
        parse_claim("A1", {name: value for name, value in FORM.items() if name != "prediction"})
    with pytest.raises(ValueError, match="an id is a letter and a number"):
        parse_claim("first", FORM)
    with pytest.raises(ValueError, match="'Z9' is no claim; there are A1, A2, "):
        find_claim("Z9")


def test_verdicts_are_four():
    assert {verdict.value for verdict in ClaimVerdict} == {
        "confirmed",
        "refuted",
        "not distinguishable at this n",
        "not run",
    }
