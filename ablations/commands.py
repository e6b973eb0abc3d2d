"""What each command of `ablate` does; heavy packages are imported where they are used."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from ablations.analysis_commands import put, read_study, tuning_progress
from ablations.arguments import asked_config, planned, same_command
from ablations.plan import Cell, Plan, estimate_seconds
from ablations.states import changes_text, count_states, report_failures, state_of
from ablations.tasks import Task


def run(arguments: Namespace) -> int:
    """Train one cell and print its result."""
    config = asked_config(arguments)
    config.task.value.validate(config.data)
    from ablations.progress import measured_on
    from ablations.run import run_cell
    from ablations.stopping import Stop
    from ablations.tracking import Tracker

    runs, tracker = arguments.runs, Tracker(arguments.runs, enabled=not arguments.no_wandb)
    with Stop("stopping with a checkpoint after this update; Ctrl-C again stops now") as stop:
        result = run_cell(
            config,
            runs_dir=runs,
            cache_dir=runs / ".cache",
            tracker=tracker,
            progress=sys.stderr.isatty(),
            stop=stop,
            devices=arguments.devices_per_cell,
        )
    print(f"{result['id']}  {result['status']}  {runs / result['id'] / 'result.json'}")
    for row in result["metrics"]:
        print(
            f"  {measured_on(row):<20} {row['metric']:<26} {row['value']:<12.6g} {row['signature']}"
        )
    for part in result.get("undefined", []):
        print(f"  {measured_on(part):<20} undefined: {part['why']}")
    return 0


def plan(arguments: Namespace) -> int:
    """Print the cells of a study, what was left out and why, and the cost."""
    cells = planned(arguments)
    to_run = cells.missing(arguments.runs)
    missing = {cell.id for cell in to_run}
    groups: dict[str, list[Cell]] = {}
    for cell in cells.cells:
        groups.setdefault(changes_text(cell.changes), []).append(cell)
    print(f"{cells.name}: {len(cells.cells)} cells, {cells.study.arrangement}")
    for title, group in groups.items():
        print(title)
        for cell in group:
            state = "missing" if cell.id in missing else "has a result"
            print(f"    {cell.id}  seed {cell.config.seed}  {state}")
    for changes, reason in cells.dropped:
        print(f"dropped: {changes_text(changes)}: {reason}")
    for changes, kept in cells.merged:
        print(f"merged: {changes_text(changes)}: the same run as {kept}")
    for line in (*_too_few_seeds(cells), _cost(to_run, arguments.runs)):
        print(line)
    return 0


def sweep(arguments: Namespace) -> int:
    """Run the cells without a result; 1 when some failed."""
    if arguments.storage is not None:
        from ablations.storage import check_storage

        check_storage(arguments.storage)
    if arguments.launcher != "local":
        from ablations.launchers.order import engine

        engine(arguments.launcher).check(arguments.storage)
    cells = planned(arguments)
    while cells.is_tuning:
        print(f"{tuning_progress(cells)}; {len(cells.cells)} runs come next", flush=True)
        _launch(cells.cells, cells, arguments)
        left = [c for c in cells.cells if state_of(arguments.runs / c.id) in ("failed", "missing")]
        if left:
            return report_failures(left, arguments.runs)
        cells = planned(arguments)
    missing = cells.missing(arguments.runs)
    if missing:
        first = f"{cells.name}: {len(missing)} of {len(cells.cells)} cells to run"
        print(first, *_too_few_seeds(cells), sep="\n", flush=True)
        _launch(missing, cells, arguments)
    print(count_states(cells.name, cells.cells, arguments.runs))
    left = cells.missing(arguments.runs)
    if left:
        return report_failures(left, arguments.runs)
    print(f"the table: {same_command('table', arguments)}")
    return 0


def worker(arguments: Namespace) -> int:
    """Join a sweep until none of its cells is left."""
    from ablations.worker import join

    return join(
        arguments.name,
        arguments.runs,
        wandb=not arguments.no_wandb,
        storage=arguments.storage,
        devices=arguments.devices_per_cell,
    )


def _launch(missing: list[Cell], cells: Plan, arguments: Namespace) -> None:
    from ablations.launch import launch
    from ablations.packing import asked_workers

    workers = asked_workers(cells.cells, arguments)
    prepare(missing, arguments.runs, devices=arguments.devices_per_cell)
    launch(
        missing,
        name=cells.name,
        runs_dir=arguments.runs,
        workers=workers,
        wandb=not arguments.no_wandb,
        storage=arguments.storage,
        devices=arguments.devices_per_cell,
        launcher=arguments.launcher,
    )


def table(arguments: Namespace) -> int:
    """Compare the levels of a study with its baseline."""
    from analysis.rendering import check_form, render

    check_form(arguments.format, arguments.columns)
    frame, view = read_study(arguments, effect=arguments.effect)
    from analysis.splits import compare_splits
    from analysis.tables import study_table

    comparison = study_table(*compare_splits(frame, view))
    text = render(comparison, format=arguments.format, columns=arguments.columns)
    put(text, arguments.output)
    if arguments.figures is not None:
        from analysis.figures import save_figures

        files = save_figures(
            comparison, frame, view, runs_dir=arguments.runs, folder=arguments.figures
        )
        for file in files:
            print(f"figure: {file}")
    return 0


def check_claims(arguments: Namespace) -> int:
    """Check the claims that need no training; 1 when a check could not run."""
    config = asked_config(arguments)
    if config.task is not Task.translation:
        raise ValueError(
            f"task {config.task.name}: the checks build an encoder-decoder of tokens; leave --task "
            "out"
        )
    from ablations.checks.check import Verdict, run_checks, select
    from ablations.checks.register import CHECKS
    from ablations.checks.report import FORMATS

    results = list(run_checks(config, select(CHECKS, arguments.only)))
    print(FORMATS[arguments.format](results))
    crashed = [result for result in results if result.outcome.verdict is Verdict.crashed]
    for result in crashed:
        print(f"{result.check.id} could not run:\n{result.error}", file=sys.stderr)
    return 1 if crashed else 0


def axes(arguments: Namespace) -> int:
    """List what exists: axes with their levels, then the constraints."""
    from ablations.describe import describe_axes

    for line in describe_axes():
        print(line)
    return 0


def prepare(cells: Sequence[Cell], runs_dir: Path, *, devices: int = 1) -> None:
    """Read the data, train the vocabularies and refuse what can't work, before a worker starts."""
    configs = [cell.config for cell in cells]
    for config in {config.data: config for config in configs}.values():
        config.task.value.validate(config.data)
    from ablations.devices import check_devices, check_shares
    from ablations.task_runs.registry import make_task_run

    for config in configs:
        check_devices(config, count=devices if config.updates else 1)
    kinds = {(c.data, c.variant, c.design.position, c.dims.max_length): c for c in configs}
    for config in kinds.values():
        part = make_task_run(config, cache_dir=runs_dir / ".cache")
        if devices > 1 and config.updates:
            check_shares(part.data, count=devices)


def _too_few_seeds(cells: Plan) -> list[str]:
    """A line where no row of the table can earn a verdict, however large its difference."""
    study = cells.study
    levels = {(path, cell.changes[path]) for cell in cells.cells for path in cell.changes}
    compared = [path for path, _ in levels if path in study.axes]
    if not compared or "*" in study.split or "," in study.split:
        return []
    from analysis.statistics import ALPHA, fewest_seeds

    fewest, n = fewest_seeds(ALPHA / len(compared)), len(study.seeds)
    if n >= fewest:
        return []
    seeds = "1 seed" if n == 1 else f"{n} seeds"
    tests = "1 comparison" if len(compared) == 1 else f"{len(compared)} comparisons"
    return [f"{seeds}: too few for a verdict; the first over {tests} takes at least {fewest} seeds"]


def _cost(missing: list[Cell], runs_dir: Path) -> str:
    steps = sum(cell.config.updates for cell in missing)
    seconds = 0.0 if not missing else None
    if missing and any(runs_dir.glob("*/result.json")):
        from ablations.ledger import load

        seconds = estimate_seconds(missing, load(runs_dir).frame)
    time = "unknown, no past run of this size" if seconds is None else _duration(seconds)
    return f"to run: {len(missing)} cells, {steps} updates; time of one worker: {time}"


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"about {hours} h {minutes} min" if hours else f"about {minutes} min"
