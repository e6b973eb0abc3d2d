"""What a table says of its levels: p-values over the family of comparisons, and verdicts."""

import math
from collections.abc import Sequence
from typing import Any

from analysis import statistics
from analysis.bootstrap import bca_estimate_each
from analysis.frames import StudyView
from analysis.metrics import metric_of
from analysis.statistics import Verdict

Fields = dict[str, Any]


def judged(drafts: Sequence[Fields], study: StudyView) -> list[Fields]:
    """The fields of each row with p-values, what it could have shown, and its verdict.

    A level that can't be compared anywhere, because it or what it is compared with has no meaning
    on this split, is no test: it is "undefined", and Holm's correction doesn't count it.

    Args:
        drafts: fields of rows; `differences` by seed and `comparable` are taken out.
        study: the plan.
    """
    family = iter(_tested([draft for draft in drafts if draft["comparable"]], study))
    nothing = {"p": math.nan, "p_adjusted": math.nan, "detectable": math.inf}
    undefined = {**nothing, "verdict": Verdict.undefined}
    return [
        {name: value for name, value in draft.items() if name not in ("differences", "comparable")}
        | (next(family) if draft["comparable"] else undefined)
        for draft in drafts
    ]


def _tested(drafts: Sequence[Fields], study: StudyView) -> list[Fields]:
    """`bootstrap`, `p`, `p_adjusted`, `detectable`, `verdict` of each comparison of the family."""
    differences = [draft["differences"] for draft in drafts]
    bootstraps = bca_estimate_each(differences)
    p_values = statistics.sign_flip_p_each(differences)
    adjusted = statistics.holm(p_values)
    critical = statistics.critical_p(p_values)
    higher = metric_of(study.metric).higher_is_better
    found = []
    for index, draft in enumerate(drafts):
        effect = draft["difference"]
        verdict = statistics.judge(
            adjusted[index],
            effect.mean,
            tellable=statistics.smallest_p(effect.n) <= critical[index],
            higher_is_better=higher,
        )
        if draft["finished"] == 0:
            verdict = Verdict.diverged if draft["diverged"] else Verdict.missing
        found.append(
            {
                "bootstrap": bootstraps[index],
                "p": float(p_values[index]),
                "p_adjusted": float(adjusted[index]),
                "detectable": statistics.detectable_effect(
                    effect.sd, effect.n, alpha=critical[index]
                ),
                "verdict": verdict,
            }
        )
    return found
