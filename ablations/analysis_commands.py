"""What the commands that look at finished runs do: effects, and what stands behind a row."""

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.arguments import located, overrides, planned, same_command
from ablations.config import RunConfig, config_from_flat, flatten
from ablations.identity import LOCATION_PATHS
from ablations.ledger import flat
from ablations.plan import Plan, make_plan
from ablations.study import load_study
from ablations.tasks import Task

if TYPE_CHECKING:
    import pandas

    from analysis.frames import StudyView


def study_view(
    cells: Plan,
    *,
    metric: str | None = None,
    split: str | None = None,
    command: str = "",
    effect: float | None = None,
    mixed_code: bool = False,
) -> "StudyView":
    """What the analysis needs to know of a plan.

    Args:
        cells: the plan.
        metric: another metric than the study's.
        split: another split than the study's, or the first test split of its data.
        command: the command that runs what is missing.
        effect: a difference that matters.
        mixed_code: whether runs of different code may be compared.
    """
    import pandas

    from analysis.frames import StudyView
    from analysis.reported import Reported

    tuning = ""
    if cells.study.search is not None:
        from ablations.tuning import describe_tuning

        tuning = describe_tuning(cells)
    study, first = cells.study, cells.cells[0].config
    return StudyView(
        name=cells.name,
        axes={axis: tuple(dict.fromkeys(levels)) for axis, levels in study.axes.items()},
        baseline=study.baseline,
        seeds=study.seeds,
        metric=metric or study.metric,
        split=split or study.split or first.task.value.test_splits(first.data)[0],
        expected=pandas.DataFrame(cells.rows()),
        command=command,
        effect=effect,
        reported=tuple(Reported(**source) for source in study.reported),
        mixed_code=mixed_code,
        tuning=tuning,
    )


def results(cells: Plan, runs_dir: Path, *, command: str) -> "pandas.DataFrame":
    """The records of a plan; those that can't be read are named.

    Raises:
        ValueError: there is none, or the study has yet to be tuned.
    """
    if cells.is_tuning:
        raise ValueError(f"{tuning_progress(cells)}; '{command}' goes on")
    from ablations.ledger import load

    ledger = load(runs_dir, ids=[cell.id for cell in cells.cells])
    for problem in ledger.problems:
        print(f"left out: {problem}", file=sys.stderr)
    if ledger.frame.empty:
        raise ValueError(f"no results of {cells.name} in {runs_dir}; run '{command}'")
    return ledger.frame


def read_study(
    arguments: Namespace, *, effect: float | None = None
) -> tuple["pandas.DataFrame", "StudyView"]:
    """The records of the study that the arguments name, and what the analysis needs of its plan.

    Raises:
        ValueError: there is no such study, or no record of it.
    """
    cells, command = planned(arguments), same_command("sweep", arguments)
    frame = results(cells, arguments.runs, command=command)
    view = study_view(
        cells,
        metric=arguments.metric,
        split=arguments.split,
        command=command,
        effect=effect,
        mixed_code=arguments.mixed_code,
    )
    return frame, view


def tuning_progress(cells: Plan) -> str:
    """How much of the tuning of a plan is done, in a line."""
    assert cells.study.search is not None
    trials = cells.study.search.trials * len(cells.tunings)
    done = sum(tuning.done for tuning in cells.tunings)
    return f"{cells.name}: tuning, {done} of {trials} trials done in {len(cells.tunings)} arms"


def recorded_plan(name: str, frame: "pandas.DataFrame", *, runs_dir: Path) -> Plan:
    """The plan of a study on the data that the records name, without reading data.

    Where no record has the study's data, no run of it is there either, and ids match nothing.

    Args:
        name: a shipped study, or a file.
        frame: the ledger's tidy frame.
        runs_dir: the folder of the runs, for a study that tunes its arms first.
    """
    study, fingerprint = load_study(name), _recorded_fingerprint(frame)
    if study.search is None:
        return make_plan(study, data_fingerprint=fingerprint)
    from ablations.tuning import tuned_plan

    return tuned_plan(study, runs_dir=runs_dir, data_fingerprint=fingerprint)


def _recorded_fingerprint(frame: "pandas.DataFrame") -> Callable[[Any], str]:
    """What identifies the data of a config, as most records of that config say."""

    def find(data: Any) -> str:
        kind = next(task for task in Task if isinstance(data, task.value.data))
        config = RunConfig(task=kind, data=data, variant=kind.value.variant())
        wanted = {
            path: value
            for path, value in flatten(config).items()
            if path == "task" or (path.startswith("data.") and path not in LOCATION_PATHS)
        }
        if not wanted.keys() <= set(frame.columns):
            return ""
        same = frame[(frame[list(wanted)] == list(wanted.values())).all(axis=1)]
        runs = same.drop_duplicates("run")["data_fingerprint"].value_counts()
        return str(runs.index[0]) if len(runs) else ""

    return find


def put(text: str, output: Path | None) -> None:
    """Print a text, or write it to a file."""
    if output is None:
        print(text)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, encoding="utf-8")


def effects(arguments: Namespace) -> int:
    """Main effects and interactions of a factorial study."""
    frame, view = read_study(arguments)
    from analysis.effects import study_effects
    from analysis.effects_rendering import render

    found = study_effects(frame, view)
    put(render(found, format=arguments.format), arguments.output)
    if arguments.figures is not None:
        from analysis.interaction_plots import save_interactions

        print(f"figure: {save_interactions(found, folder=arguments.figures)}")
    return 0


def reproduce(arguments: Namespace) -> int:
    """Say what stands behind a run or a row; run it again, 1 where that gives something else."""
    from ablations.reproduction import known_records, provenance

    if arguments.run is not None and arguments.run.resolve() == arguments.runs.resolve():
        raise ValueError(f"--run {arguments.run}: the first result is there; name another folder")
    ids = _asked_runs(arguments)
    records = known_records(ids, runs_dir=arguments.runs)
    if not records:
        raise ValueError(f"no result of {', '.join(ids)} in {arguments.runs}; run it first")
    for line in provenance(records):
        print(line)
    for identity in ids:
        if identity not in records:
            print(f"run {identity}: missing; {same_command('sweep', arguments)}")
    if arguments.run is None:
        return 0
    same = [_run_again(identity, records[identity], arguments) for identity in records]
    return 0 if all(same) else 1


def _asked_runs(arguments: Namespace) -> list[str]:
    """The run that is named, or those of a row of a study, the baseline's last."""
    if (arguments.runs / arguments.study).is_dir():
        asked = sorted(overrides(arguments).keys() - LOCATION_PATHS)
        if asked or arguments.row is not None:
            named = asked[0] if asked else "row"
            raise ValueError(
                f"--{named}: {arguments.study} is a run, whose config is known; leave it out"
            )
        return [arguments.study]
    if arguments.row is None:
        raise ValueError(
            f"{arguments.study} is no run in {arguments.runs}; of a study, name a row of its table "
            "with --row"
        )
    cells = planned(arguments)
    frame = results(cells, arguments.runs, command=same_command("sweep", arguments))
    from analysis.splits import compare_splits
    from analysis.tables import study_table

    view = study_view(cells, metric=arguments.metric, split=arguments.split, mixed_code=True)
    rows = study_table(*compare_splits(frame, view)).rows
    if not 1 <= arguments.row <= len(rows):
        raise ValueError(f"--row {arguments.row}: the table has rows 1 to {len(rows)}")
    row = rows[arguments.row - 1]
    print(
        f"row {arguments.row} of {cells.name}: {row.axis or 'baseline'} {row.level or ''}".rstrip()
    )
    if row.baseline_runs:
        print(f"compared with {', '.join(row.baseline_runs)}")
    return list(row.runs)


def _run_again(identity: str, record: dict[str, Any], arguments: Namespace) -> bool:
    """Run a recorded config in another folder, and say whether it comes to the same."""
    import torch

    from ablations.reproduction import compare
    from ablations.run import run_cell

    torch.set_num_threads(record["threads"])  # which decides the order of sums
    values = flat(record["config"]) | located(overrides(arguments))
    again = run_cell(
        config_from_flat(values), runs_dir=arguments.run, cache_dir=arguments.run / ".cache"
    )
    if again["id"] != identity:
        raise ValueError(
            f"run {identity} was trained on data {record['data_fingerprint']}, and here are "
            f"{again['data_fingerprint']}; name their folder with --data.path"
        )
    found = compare(arguments.runs / identity, arguments.run / identity)
    for line in found.lines():
        print(f"{identity} {line}" if not line.startswith(" ") else line)
    return found.identical
