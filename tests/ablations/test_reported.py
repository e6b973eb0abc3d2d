"""What a study file may say was published."""

import re

import pytest

from ablations.analysis_commands import study_view
from ablations.plan import make_plan
from ablations.reported import STATUSES
from ablations.study import load_study, parse_study, shipped_studies
from analysis import reported

STUDY = {
    "base": {"task": "sequences"},
    "axes": {"dims.dropout": [0.1, 0.0], "design.position": ["sinusoidal", "none"]},
}
SOURCE = {"source": "A, table 1", "status": "read", "protocol": "other data"}


def study_with(**source):
    content = {**STUDY, "reported": [{**SOURCE, **source}]}
    return parse_study(content, name="x", overrides={})


def test_levels_are_those_of_the_axes():
    study = study_with(levels={"dims.dropout": {0: 25}, "design.position": {"none": 1.5}})
    (source,) = study.reported
    assert source["levels"] == {"dims.dropout": {0.0: 25.0}, "design.position": {"none": 1.5}}
    view = study_view(make_plan(study))
    assert view.reported[0].number("dims.dropout", 0.0, is_baseline=False) == 25.0
    assert view.reported_here == tuple(view.reported)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"year": 2017}, "'year' is no key of a source; legal: source, status"),
        ({"status": "remembered"}, "status 'remembered' is not legal; legal: read, quoted"),
        ({"protocol": ""}, "needs 'protocol'"),
        ({"metric": "bleu"}, "metric 'bleu' is not measured; legal: exact_match"),
        ({"baseline": "25"}, "'25' is no number"),
        ({"baseline": True}, "True is no number"),
        ({"levels": {"dims.d_ff": {64: 1}}}, "dims.d_ff is no axis of this study"),
        ({"levels": {"dims.dropout": {0.5: 1}}}, "dims.dropout has no level 0.5; levels: 0.1, 0.0"),
        ({"levels": {"design.position": {"left": 1}}}, "left"),
    ],
)
def test_what_is_wrong_is_named(source, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        study_with(**source)


def test_no_list_is_refused():
    with pytest.raises(ValueError, match="expected a list of sources"):
        parse_study({**STUDY, "reported": {"A": 1}}, name="x", overrides={})


def test_shipped_sources_can_be_shown():
    """Every one says where it is from, and has something to show."""
    assert set(STATUSES) == set(reported.STATUSES)
    sources = [one for name in shipped_studies() for one in load_study(name).reported]
    assert len(sources) >= 8
    for source in sources:
        shown = reported.Reported(**source)
        assert shown.levels or shown.finding or shown.baseline is not None
        assert shown.sentence.endswith(("(read in the source)", "(as others quote the source)"))
