"""`ablate dashboard`: what is there of a study, opened on this machine."""

import shutil
import socket
import subprocess
import sys
import webbrowser
from argparse import Namespace
from pathlib import Path

from ablations.analysis_commands import results, study_view
from ablations.arguments import planned, same_command
from ablations.plan import Plan
from ablations.study_files import queue_file
from ablations.tracked_values import recorded_curve

DASHBOARD = ("optuna-dashboard", "'transformer-ablations[dashboard]'")
HOST = "127.0.0.1"  # nobody else's machine
LOSS = "validation/loss"


def dashboard(arguments: Namespace) -> int:
    """Open offline logs, the report, the results or the queue: the first that is there."""
    cells = planned(arguments)
    kinds = [arguments.show] if arguments.show else list(SHOWN)
    for kind in kinds:
        if SHOWN[kind][0](cells, arguments):
            return SHOWN[kind][1](cells, arguments)
    raise ValueError(f"nothing to show of {cells.name} in {arguments.runs}; run the study first")


def offline_runs(cells: Plan, arguments: Namespace) -> list[Path]:
    """The folders that W&B wrote for the study's runs, oldest first."""
    found = [
        folder
        for cell in cells.cells
        for folder in arguments.runs.glob(f"wandb/offline-run-*-{cell.id}")
    ]
    return sorted(found)


def _show_runs(cells: Plan, arguments: Namespace) -> int:
    """Curves in the terminal, by `wandb leet`."""
    folder = queue_file(arguments.runs, cells.name).with_suffix(".wandb")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for run in offline_runs(cells, arguments):
        (folder / run.name).symlink_to(run.resolve())
    return subprocess.call([_program("wandb", "wandb"), "leet", str(folder)])


def _show_results(cells: Plan, arguments: Namespace) -> int:
    """What the choices come to, in a browser, by optuna-dashboard, until Ctrl-C."""
    _program(*DASHBOARD)
    _check_port(arguments.port)
    from optuna_dashboard import run_server

    from analysis.splits import compare_splits
    from analysis.trials import results_study

    command = same_command("sweep", arguments)
    frame = results(cells, arguments.runs, command=command)
    view = study_view(cells, command=command, mixed_code=arguments.mixed_code)
    curves = {cell.id: _validation_losses(arguments.runs / cell.id) for cell in cells.cells}
    shown = results_study(*compare_splits(frame, view), curves=curves)
    run_server(shown._storage, host=HOST, port=arguments.port)
    return 0


def _validation_losses(run: Path) -> dict[int, float]:
    """The validation losses of a run, by the step of the update."""
    curve = recorded_curve(run / "learning_curve.csv")
    return {step: logged[LOSS] for logged, step in curve if LOSS in logged}


def _show_queue(cells: Plan, arguments: Namespace) -> int:
    """The queue in a browser, by optuna-dashboard, until Ctrl-C."""
    program = _program(*DASHBOARD)
    _check_port(arguments.port)
    url = f"sqlite:///{queue_file(arguments.runs, cells.name).resolve()}"
    place = ["--host", HOST, "--port", str(arguments.port)]
    return subprocess.call([program, url, *place])


def _show_report(cells: Plan, arguments: Namespace) -> int:
    """The study's page in a browser."""
    from ablations.report_commands import report

    page = queue_file(arguments.runs, cells.name).with_suffix(".html")
    asked = {"runs": arguments.runs, "mixed_code": arguments.mixed_code}
    report(Namespace(studies=[arguments.study], output=page, **asked))
    webbrowser.open(page.resolve().as_uri())
    return 0


def _check_port(port: int) -> None:
    """Refuse a port that cannot be had.

    Raises:
        ValueError: it is taken, or there is no such port.
    """
    try:
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            place.bind((HOST, port))
    except (OSError, OverflowError) as error:
        raise ValueError(f"--port {port}: {error}; name a free one, up to 65535") from None


def _program(name: str, package: str) -> str:
    """A program of this environment.

    Raises:
        ValueError: it is not installed.
    """
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise ValueError(f"{name} is not installed; get it with: pip install {package}")
    return found


def _has_results(cells: Plan, arguments: Namespace) -> bool:
    return len(cells.missing(arguments.runs)) < len(cells.cells)


def _has_queue(cells: Plan, arguments: Namespace) -> bool:
    return queue_file(arguments.runs, cells.name).is_file()


SHOWN = {
    "runs": (offline_runs, _show_runs),
    "report": (_has_results, _show_report),
    "results": (_has_results, _show_results),
    "queue": (_has_queue, _show_queue),
}
