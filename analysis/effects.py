"""Effects of a factorial study as data: each choice, each pair of choices, and their importance.

A main effect is the paired difference of a level to the baseline, averaged over all levels of the
other axes. An interaction is the difference of such differences: how much the effect of one level
changes when another axis moves from its baseline to a level. Both are formed seed by seed, so the
seeds are the replicates; the averages over contexts are those of an ordinary least squares fit
with sum-to-zero contrasts wherever no cell is missing. The analysis of variance and the
functional one (Hutter et al., "An Efficient Approach for Assessing Hyperparameter Importance",
2014) say what share of the spread each choice makes, as a cross-check.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pandas as pd

from analysis import statistics
from analysis.frames import StudyView, has_level, pairs, per_seed, study_cells
from analysis.importance import importance_frame
from analysis.judging import judged
from analysis.metrics import metric_of
from analysis.statistics import Estimate, Verdict

SHOWS_NOTHING = {
    Verdict.not_distinguishable,
    Verdict.too_few_seeds,
    Verdict.diverged,
    Verdict.missing,
    Verdict.undefined,
}
COLUMNS = ("axis", "level", "given", "given_level")


@dataclass(frozen=True, kw_only=True)
class Effects:
    """The effects of a factorial study.

    Attributes:
        study: name of the study.
        metric: the metric, read on `split` with `signature` ("" when nothing is measured yet).
        contrasts: a row per level (`kind` main) and pair of levels of two axes (`kind`
            interaction): `axis`, `level`, `given`, `given_level`, `difference` with its t interval
            `low`, `high`, `sd`, sign-flip `p`, `p_holm`, `detectable`, `seeds_compared`,
            `seeds_planned`, `diverged` among the runs in it, `verdict`.
        conditional: the effect of every level at every level of every other axis, `kind`
            conditional, with the same columns up to `sd`, and `seeds_compared`.
        means: mean and t interval of the metric for every pair of levels of two axes.
        importance: a row per axis and pair of axes, from `importance_frame`.
        headline: how many runs there are, or are missing and which command fills them.
        notes: sentences a reader needs, in order.
    """

    study: str
    metric: str
    split: str
    signature: str
    contrasts: pd.DataFrame
    conditional: pd.DataFrame
    means: pd.DataFrame
    importance: pd.DataFrame
    headline: str
    notes: tuple[str, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """All of it in one frame, told apart by `kind`."""
        parts = [self.contrasts, self.conditional, self.importance.assign(kind="variance")]
        return pd.concat(parts, ignore_index=True).assign(study=self.study, metric=self.metric)


def study_effects(frame: pd.DataFrame, study: StudyView) -> Effects:
    """Main effects and two-way interactions of a factorial study.

    Args:
        frame: the ledger's tidy frame; runs of other studies in it are ignored.
        study: what the plan knows.

    Raises:
        ValueError: fewer than two axes vary together, or as in `frames.study_cells`.
    """
    cells = study_cells(frame, study)
    if not any(True for _ in _interactions(cells, study)):
        raise ValueError(
            f"{study.name} varies one factor at a time: nothing in it shows whether two choices "
            f"interact; 'ablate table {study.name}' compares its levels"
        )
    contrasts = _judged([*_main_effects(cells, study), *_interactions(cells, study)], study)
    conditional = _as_given(list(_conditional(cells, study)))
    missing = cells.loc[cells["status"] == "missing", "id"]
    absent = f"incomplete: {len(missing)} of {len(cells)} runs missing; fill with: "
    signatures = cells.loc[cells["value"].notna(), "signature"].dropna().unique()
    importance, left_out = importance_frame(cells, study)
    return Effects(
        study=study.name,
        metric=study.metric,
        split=study.split,
        signature=str(signatures[0]) if len(signatures) else "",
        contrasts=contrasts,
        conditional=conditional,
        means=_as_given(list(_means(cells, study))),
        importance=importance,
        headline=absent + study.fill_command if len(missing) else f"complete: {len(cells)} runs",
        notes=(*_notes(cells, study, contrasts), *left_out),
    )


def dependencies(effects: Effects) -> list[str]:
    """What depends on what: a sentence for each level and axis with an interval that leaves out 0.

    It gives the effect at each level of the other axis, with the verdict on how much it differs
    there from that at the first one, where that interval leaves out 0.
    """
    rows = effects.contrasts
    found = rows[(rows["kind"] == "interaction") & ((rows["low"] > 0) | (rows["high"] < 0))]
    names = ["axis", "level", "given"]
    groups = found.groupby(names, sort=False, dropna=False)
    return [
        _dependence(dict(zip(names, key, strict=True)), group, effects) for key, group in groups
    ]


def _dependence(which: dict[str, Any], found: pd.DataFrame, effects: Effects) -> str:
    table, digits = effects.conditional, metric_of(effects.metric).decimals
    same = [has_level(table, name, value) for name, value in which.items()]
    verdicts = found.set_index("given_level")["verdict"].to_dict()
    at = ", ".join(
        f"{line['difference']:+.{digits}f} [{line['low']:+.{digits}f}, {line['high']:+.{digits}f}] "
        f"at {line['given_level']}{_in_brackets(verdicts.get(line['given_level'], ''))}"
        for _, line in table[same[0] & same[1] & same[2]].iterrows()
    )
    return f"{which['axis']}={which['level']} on {which['given']}: {at}"


def _in_brackets(words: str) -> str:
    return f" ({words})" if words else ""


def _main_effects(cells: pd.DataFrame, study: StudyView) -> Iterator[dict[str, Any]]:
    for axis in study.axes:
        paired = pairs(cells, study, axis)
        for level in _levels(study, axis):
            members = paired[has_level(paired, axis, level)]
            if len(members):
                yield _draft("main", (axis, level, "", None), members, cells)


def _interactions(cells: pd.DataFrame, study: StudyView) -> Iterator[dict[str, Any]]:
    """Differences of differences: the pairs along one axis, paired once more along another."""
    for axis, given in combinations(study.axes, 2):
        inner = pairs(cells, study, axis)
        outer = pairs(inner.assign(value=inner["difference"]), study, given)
        for level in _levels(study, axis):
            for given_level in _levels(study, given):
                members = outer[
                    has_level(outer, axis, level) & has_level(outer, given, given_level)
                ]
                if len(members):
                    yield _draft("interaction", (axis, level, given, given_level), members, cells)


def _draft(
    kind: str, names: tuple[Any, ...], members: pd.DataFrame, cells: pd.DataFrame
) -> dict[str, Any]:
    runs = members[["id", "partner"]].to_numpy().ravel()
    counts = cells.loc[cells["id"].isin(runs), "status"].value_counts()
    differences = per_seed(members, "difference").to_numpy()
    return {
        "kind": kind,
        **dict(zip(COLUMNS, names, strict=True)),
        "difference": statistics.t_estimate(differences),
        "differences": differences,
        "finished": len(differences),
        "diverged": int(counts.get("diverged", 0)),
        "comparable": bool(len(differences) or not counts.get("undefined", 0)),
    }


def _judged(drafts: list[dict[str, Any]], study: StudyView) -> pd.DataFrame:
    """The rows with intervals, p-values over all of them as one family, and verdicts."""
    rows = []
    for fields in judged(drafts, study):
        effect, verdict = fields["difference"], fields["verdict"]
        depends = fields["kind"] == "interaction" and verdict not in SHOWS_NOTHING
        rows.append(
            {name: fields[name] for name in ("kind", *COLUMNS, "diverged")}
            | _interval(effect)
            | {
                "p": fields["p"],
                "p_holm": fields["p_adjusted"],
                "detectable": fields["detectable"],
                "seeds_compared": effect.n,
                "seeds_planned": len(study.seeds),
                "verdict": "depends" if depends else verdict.value,
            }
        )
    return _as_given(rows)


def _as_given(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A frame in which levels stay what they are: beside an absent one, 4 would become 4.0."""
    frame = pd.DataFrame(rows)
    kept = {n: pd.Series([row[n] for row in rows], dtype=object) for n in ("level", "given_level")}
    return frame.assign(**kept)


def _conditional(cells: pd.DataFrame, study: StudyView) -> Iterator[dict[str, Any]]:
    for axis in study.axes:
        paired = pairs(cells, study, axis)
        for level in _levels(study, axis):
            members = paired[has_level(paired, axis, level)]
            for given in (name for name in study.axes if name != axis):
                for given_level in study.axes[given]:
                    at = members[has_level(members, given, given_level)]
                    if len(at):
                        effect = statistics.t_estimate(per_seed(at, "difference").to_numpy())
                        names = (axis, level, given, given_level)
                        yield {
                            "kind": "conditional",
                            **dict(zip(COLUMNS, names, strict=True)),
                            **_interval(effect),
                            "seeds_compared": effect.n,
                        }


def _means(cells: pd.DataFrame, study: StudyView) -> Iterator[dict[str, Any]]:
    for axis, given in combinations(study.axes, 2):
        for level in study.axes[axis]:
            for given_level in study.axes[given]:
                at = cells[has_level(cells, axis, level) & has_level(cells, given, given_level)]
                if len(at):
                    found = statistics.t_estimate(per_seed(at, "value").to_numpy())
                    yield {
                        **dict(zip(COLUMNS, (axis, level, given, given_level), strict=True)),
                        "mean": found.mean,
                        "low": found.low,
                        "high": found.high,
                        "seeds_compared": found.n,
                        "diverged": int((at["status"] == "diverged").sum()),
                    }


def _interval(effect: Estimate) -> dict[str, float]:
    return {
        "difference": effect.mean,
        "low": effect.low,
        "high": effect.high,
        "sd": effect.sd,
    }


def _levels(study: StudyView, axis: str) -> list[Any]:
    return [level for level in study.axes[axis] if level != study.baseline_level(axis)]


def _notes(cells: pd.DataFrame, study: StudyView, contrasts: pd.DataFrame) -> list[str]:
    levels = ", ".join(f"{axis}={study.baseline_level(axis)}" for axis in study.axes)
    notes = [
        f"Baseline: {levels}. {study.metric}: {metric_of(study.metric).direction}.",
        "Intervals: 95% Student t over seeds. p: two-sided sign-flip test, Holm-adjusted over "
        f"all {len(contrasts)} effects and interactions; verdicts at {statistics.ALPHA:.0%}.",
        "An effect is averaged over the levels of the other axes; an interaction is how much it "
        "changes between the baseline and a level of the other axis.",
    ]
    if (contrasts["verdict"] == Verdict.too_few_seeds.value).any():
        fewest = statistics.fewest_seeds(statistics.ALPHA / len(contrasts))
        notes.append(f"A first verdict takes at least {fewest} compared seeds.")
    diverged = int((cells["status"] == "diverged").sum())
    if diverged:
        notes.append(f"{diverged} runs diverged; what they would have been compared with is out.")
    if (contrasts["seeds_compared"] == 0).any():
        notes.append("An effect without a pair of finished runs has no number.")
    return notes
