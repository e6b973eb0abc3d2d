"""`ablate wandb`: the results of a study at W&B, from there, and their dashboards."""

import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.analysis_commands import put, results, study_view
from ablations.arguments import planned, same_command
from ablations.ledger import read_record
from ablations.plan import Plan

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import Report
    from wandb_workspaces.workspaces import Workspace


def wandb(arguments: Namespace) -> int:
    """Do what is asked; 1 when something could not be sent or fetched."""
    if arguments.dry_run is not None and arguments.action in ("push", "pull"):
        raise ValueError(f"--dry-run: {arguments.action} writes no JSON; leave it out")
    if arguments.study is None:
        if arguments.action != "pull":
            raise ValueError(f"wandb {arguments.action}: name a study; only pull goes without one")
        return _pull_all(arguments.runs)
    return ACTIONS[arguments.action](planned(arguments), arguments)


def _push(cells: Plan, arguments: Namespace) -> int:
    """Send each result that W&B has not got."""
    from ablations.tracking import Tracker
    from ablations.wandb_server import find_runs, is_whole

    runs_dir = arguments.runs
    missing = {cell.id for cell in cells.missing(runs_dir)}
    mine = [cell for cell in cells.cells if cell.id not in missing]
    if not mine:
        raise ValueError(f"no results of {cells.name} in {runs_dir}; run the study first")
    for file in broken_logs(runs_dir, [cell.id for cell in cells.cells]):
        print(f"left out: {file} is broken; what W&B gets is the run's own record")
    there = {identity for identity, run in find_runs(c.id for c in mine) if is_whole(run)}
    tracker = Tracker(runs_dir, group=cells.name, online=True)
    sent, problems = 0, 0
    for cell in (cell for cell in mine if cell.id not in there):
        try:
            result = read_record(runs_dir / cell.id / "result.json")
        except ValueError as error:
            print(f"left out: {runs_dir / cell.id / 'result.json'}: {error}", file=sys.stderr)
            problems += 1
            continue
        if not tracker.show(cell.config, result, changes=cell.changes):
            problems += 1
            break
        sent += 1
    without = f", {len(missing)} cells have no result yet" if missing else ""
    print(f"{cells.name}: {sent} sent, {len(there)} were there{without}")
    return 1 if problems else 0


def _pull(cells: Plan, arguments: Namespace) -> int:
    """Fetch each result that is not here."""
    from ablations.wandb_server import find_runs

    missing = [cell.id for cell in cells.missing(arguments.runs)]
    fetched, problems = _fetch(find_runs(missing), arguments.runs)
    left = len(cells.missing(arguments.runs))
    here = len(cells.cells) - len(missing)
    print(f"{cells.name}: {fetched} fetched, {here} were here, {left} still missing")
    return 1 if problems else 0


def _pull_all(runs_dir: Path) -> int:
    """Fetch each result of the project that is not here, of whatever study it is."""
    from ablations.tracking import project
    from ablations.wandb_server import find_runs

    found = dict(find_runs())
    missing = {i: run for i, run in found.items() if not (runs_dir / i / "result.json").exists()}
    fetched, problems = _fetch(missing.items(), runs_dir)
    print(f"{project()}: {fetched} fetched, {len(found) - len(missing)} were here")
    return 1 if problems else 0


def _fetch(found: Iterable[tuple[str, Any]], runs_dir: Path) -> tuple[int, int]:
    """How many results came, and how many were no good; which, is said."""
    from ablations.wandb_server import fetch, is_whole

    fetched, problems = 0, 0
    for identity, run in found:
        if not is_whole(run):
            print(f"left out: run {identity} at W&B has no result yet")
            continue
        try:
            fetched += fetch(run, identity, runs_dir=runs_dir)
        except ValueError as error:
            print(f"left out: run {identity} at W&B: {error}", file=sys.stderr)
            problems += 1
    return fetched, problems


def _dashboard(cells: Plan, arguments: Namespace) -> int:
    """Save the study's workspace or report at W&B, or write what would be saved."""
    from ablations.wandb_server import account
    from analysis.dashboards import as_json, study_report, study_workspace
    from analysis.splits import compare_splits
    from analysis.tables import study_table

    command = same_command("sweep", arguments)
    frame = results(cells, arguments.runs, command=command)
    view = study_view(cells, command=command, mixed_code=arguments.mixed_code)
    table = study_table(*compare_splits(frame, view))
    entity, project = ("", "") if arguments.dry_run is not None else account()
    built: Workspace | Report
    if arguments.action == "workspace":
        built = study_workspace(view, table, entity=entity, project=project)
    else:
        about = cells.study.description
        built = study_report(view, table, frame, description=about, entity=entity, project=project)
    if arguments.dry_run is not None:
        put(as_json(built), arguments.dry_run)
        print(f"{arguments.action}: {arguments.dry_run}")
        return 0
    try:
        built.save()
    except Exception as error:
        raise ValueError(f"W&B did not save it: {' '.join(str(error).split())}") from None
    print(f"{arguments.action}: {built.url}")
    return 0


def broken_logs(runs_dir: Path, identities: list[str]) -> list[Path]:
    """The offline logs of these runs that hold no record: on them `wandb sync` gives up."""
    files = (
        file
        for identity in identities
        for file in sorted(runs_dir.glob(f"wandb/offline-run-*-{identity}/*.wandb"))
    )
    return [file for file in files if file.stat().st_size <= HEADER]


HEADER = 7  # bytes of a log without a record
ACTIONS = {"push": _push, "pull": _pull, "workspace": _dashboard, "report": _dashboard}
