"""`ablate claims`: the register with its verdicts, one claim in full, and what it still needs."""

import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.analysis_commands import put, recorded_plan, study_view
from ablations.claim import Claim, Comparison, find_claim, load_claims
from ablations.config import RunConfig
from ablations.plan import Cell, Plan, make_plan
from ablations.study import load_study
from ablations.tasks import Task

if TYPE_CHECKING:
    import pandas

    from analysis.claim_tables import ClaimRow, Part


def claims(arguments: Namespace) -> int:
    """List the claims, show one, or run what it needs."""
    if arguments.action == "list" and arguments.id:
        raise ValueError(
            f"{arguments.id!r}: 'list' takes no id; 'ablate claims show {arguments.id}'"
        )
    if arguments.action != "list" and not arguments.id:
        raise ValueError(f"'ablate claims {arguments.action}' needs the id of a claim, such as A5")
    chosen = load_claims() if arguments.action == "list" else [find_claim(arguments.id)]
    code = _run(chosen[0], arguments) if arguments.action == "run" else 0
    rows = claim_rows(
        chosen,
        runs_dir=arguments.runs,
        data_path=arguments.data_path,
        mixed_code=arguments.mixed_code,
    )
    put(_text(rows, arguments), arguments.output)
    return code


def claim_rows(
    chosen: Sequence[Claim],
    *,
    runs_dir: Path,
    data_path: str | None = None,
    mixed_code: bool = False,
) -> "list[ClaimRow]":
    """What is known of claims: checks are measured now, comparisons read from the runs."""
    from ablations.ledger import load
    from analysis.claim_tables import ClaimRow

    ledger = load(runs_dir)
    for problem in ledger.problems:
        print(f"left out: {problem}", file=sys.stderr)
    checked = _checks({claim.check for claim in chosen if claim.check})
    part = partial(
        _part, frame=ledger.frame, runs_dir=runs_dir, data_path=data_path, mixed_code=mixed_code
    )
    plans: dict[str, Plan] = {}
    rows = []
    for claim in chosen:
        parts = [checked[claim.check]] if claim.check else []
        for comparison in claim.comparisons:
            name = comparison.study
            plans[name] = plans.get(name) or recorded_plan(name, ledger.frame, runs_dir=runs_dir)
            parts.append(part(comparison, claim, plans[name]))
        rows.append(
            ClaimRow(
                id=claim.id,
                statement=claim.statement,
                source=claim.source,
                kind=" and ".join(claim.kind),
                contradiction=claim.contradiction,
                prediction=claim.prediction,
                expects=claim.expects,
                needs=claim.needs,
                parts=tuple(parts),
            )
        )
    return rows


def _checks(ids: set[str]) -> "dict[str, Part]":
    """The checks of these ids on the default model, by id."""
    if not ids:
        return {}
    from ablations.checks.check import run_checks
    from ablations.checks.register import CHECKS
    from analysis.claim_tables import Part
    from analysis.verdicts import ClaimVerdict

    verdicts = {verdict.value: verdict for verdict in ClaimVerdict}
    chosen = [check for check in CHECKS if check.id in ids]
    return {
        result.check.id: Part(
            what=f"check: {result.check.statement}",
            verdict=verdicts.get(result.outcome.verdict.value, ClaimVerdict.not_run),
            found=" ".join(result.outcome.measured.split()),
            command=f"ablate check --only {result.check.id}",
        )
        for result in run_checks(RunConfig(), chosen)
    }


def _part(
    comparison: Comparison,
    claim: Claim,
    plan: Plan,
    *,
    frame: "pandas.DataFrame",
    runs_dir: Path,
    data_path: str | None,
    mixed_code: bool,
) -> "Part":
    from analysis.claim_tables import Part, found_text
    from analysis.statistics import ALPHA
    from analysis.verdicts import ClaimVerdict, Question, answer

    question = Question(
        study=study_view(
            plan, metric=comparison.metric, split=comparison.split, mixed_code=mixed_code
        ),
        axis=comparison.axis,
        level=comparison.level,
        at=comparison.at,
        against=comparison.against,
        claimed=comparison.claims.value,
        smallest=comparison.smallest,
        alpha=ALPHA / len(claim.comparisons),
    )
    command = _command(claim, runs_dir=runs_dir, data_path=data_path)
    try:
        found = answer(frame, question) if len(frame) else None
    except ValueError as error:
        return Part(
            what=_what(comparison), verdict=ClaimVerdict.not_run, found=str(error), command=command
        )
    if found is None:
        return Part(
            what=_what(comparison), verdict=ClaimVerdict.not_run, found="no runs", command=command
        )
    return Part(
        what=_what(comparison),
        verdict=found.verdict,
        found=found_text(question, found),
        command=command,
        question=question,
        answer=found,
    )


def _what(comparison: Comparison) -> str:
    chosen = {comparison.axis: comparison.level} if comparison.axis else {}
    levels = ", ".join(f"{axis}={level}" for axis, level in {**chosen, **comparison.at}.items())
    against = f" against {comparison.against}" if comparison.against else " against the baseline"
    place = f" on {comparison.split}" if levels else ""
    return (
        f"{comparison.study}: {levels or comparison.split}{against} is "
        f"{comparison.claims.value} in {comparison.metric}{place} (by {comparison.smallest:g})"
    )


def _command(claim: Claim, *, runs_dir: Path, data_path: str | None) -> str:
    words = ["ablate", "claims", "run", claim.id]
    words += [f"--runs={runs_dir}"] if runs_dir != Path("runs") else []
    words += [f"--data.path={data_path}"] if data_path else []
    return shlex.join(words)


def _run(claim: Claim, arguments: Namespace) -> int:
    """Run the missing cells of the claim's comparisons; 1 when some failed."""
    from ablations.commands import prepare
    from ablations.launch import launch
    from ablations.states import report_failures

    if claim.needs:
        print(f"{claim.id} also needs {claim.needs}", file=sys.stderr)
    code = 0
    for name in dict.fromkeys(comparison.study for comparison in claim.comparisons):
        study = load_study(name, overrides=_data(name, arguments.data_path))
        plan = make_plan(study)
        wanted = [cell for cell in plan.missing(arguments.runs) if _needed(cell, claim, plan)]
        print(f"{name}: {len(wanted)} cells to run", file=sys.stderr, flush=True)
        if wanted:
            prepare(wanted, arguments.runs)
            launch(
                wanted,
                name=name,
                runs_dir=arguments.runs,
                workers=arguments.workers,
                wandb=not arguments.no_wandb,
            )
            left = [cell for cell in plan.missing(arguments.runs) if cell in wanted]
            code |= report_failures(left, arguments.runs)
    return code


def _data(name: str, data_path: str | None) -> dict[str, str]:
    """Where the data of a study lies, for studies whose data lies somewhere."""
    from ablations.config import paths

    if not data_path:
        return {}
    base = load_study(name).base
    task = Task[str(base.get("task", Task.translation.name))]
    return {"data.path": str(Path(data_path).resolve())} if "data.path" in paths(task) else {}


def _needed(cell: Cell, claim: Claim, plan: Plan) -> bool:
    levels = {**plan.study.baseline, **cell.changes}
    return any(
        comparison.study == plan.name
        and all(levels[axis] == level for axis, level in comparison.at.items())
        and (
            not comparison.axis
            or levels[comparison.axis] in (comparison.level, _other(comparison, plan))
        )
        and _elsewhere_alike(levels, comparison, plan)
        for comparison in claim.comparisons
    )


def _other(comparison: Comparison, plan: Plan) -> Any:
    """What the level is compared with: the baseline's, or itself on another split."""
    return comparison.level if comparison.against else plan.study.baseline[comparison.axis]


def _elsewhere_alike(levels: dict[str, Any], comparison: Comparison, plan: Plan) -> bool:
    """In a one-factor study, a pair is at the baseline of all other axes."""
    from ablations.study import Arrangement

    if plan.study.arrangement is Arrangement.factorial:
        return True
    own = {comparison.axis, *comparison.at}
    return all(
        levels[axis] == first for axis, first in plan.study.baseline.items() if axis not in own
    )


def _text(rows: "Sequence[ClaimRow]", arguments: Namespace) -> str:
    from analysis.claim_tables import claim_parts, claims_frame, claims_parts
    from analysis.formats import write

    if arguments.format == "csv":
        return claims_frame(rows).to_csv(index=False, lineterminator="\n")
    parts: Iterable[Any]
    title, parts = "Claims", claims_parts(rows)
    if arguments.action != "list":
        title, parts = rows[0].id, claim_parts(rows[0])
    return write(parts, format=arguments.format, title=title)
