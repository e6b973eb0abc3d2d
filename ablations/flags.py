"""The arguments that each command of `ablate` takes, besides the flags of a config."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ablations.launchers.order import LAUNCHERS


def _runs_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (runs)")


def study(parser: argparse.ArgumentParser, *, nargs: str | None = None) -> None:
    """A study and the folder of its runs."""
    parser.add_argument("study", nargs=nargs, help="a study file, or the name of a shipped study")
    _runs_flag(parser)


def run(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate run`."""
    _config_files(parser)
    _runs_flag(parser)
    _no_wandb(parser)
    _devices(parser)


def check(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate check`."""
    _config_files(parser)
    parser.add_argument("--only", default="", metavar="IDS", help="such as A5,P3 (all checks)")
    _format_flag(parser, ("terminal", "markdown", "csv"))


def attention(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate attention`."""
    parser.add_argument("run", metavar="RUN", help="the id of a finished run")
    _runs_flag(parser)
    parser.add_argument("--split", default="", help="a test split, such as test@16 (the first)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--example", type=_index, default=0, help="its place in the split, from 0 (0)"
    )
    which.add_argument("--text", help="a sentence to translate and look at instead")
    parser.add_argument("--channel", default="", help="of a series (the first)")
    parser.add_argument(
        "--data.path", metavar="FOLDER", default=argparse.SUPPRESS, help="where the data lie now"
    )
    _output_folder(parser)


def positions(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate positions`."""
    parser.add_argument(
        "run", metavar="RUN", nargs="?", help="the id of a finished run (the design of the flags)"
    )
    _runs_flag(parser)
    _config_files(parser)
    _output_folder(parser)


def _output_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FOLDER", help="where figures and data go"
    )


def claims(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate claims`."""
    actions = ("list", "show", "run")
    parser.add_argument("action", nargs="?", choices=actions, default="list", help="(list)")
    parser.add_argument("id", nargs="?", default="", help="a claim to show or run, such as A5")
    _runs_flag(parser)
    parser.add_argument("--data.path", dest="data_path", help="folder of the data it needs")
    parser.add_argument("--workers", type=_count, default=1, help="processes that train (1)")
    _no_wandb(parser)
    _comparison_flags(parser)


def report(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate report`."""
    parser.add_argument("studies", nargs="*", help="studies (all that have a run in the folder)")
    _runs_flag(parser)
    parser.add_argument(
        "--output", type=Path, default=Path("report.html"), help="the page (report.html)"
    )
    _mixed_code_flag(parser)


def dashboard(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate dashboard`."""
    study(parser)
    parser.add_argument(
        "--show",
        choices=("runs", "report", "results", "queue"),
        help="offline W&B runs in the terminal, the HTML page, or results or queue in "
        "optuna-dashboard (the first there is)",
    )
    _mixed_code_flag(parser)
    parser.add_argument("--port", type=_count, default=8080, help="of optuna-dashboard (8080)")


def wandb(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate wandb`."""
    actions = ("push", "pull", "workspace", "report")
    parser.add_argument("action", choices=actions, metavar="ACTION", help=", ".join(actions))
    study(parser, nargs="?")
    parser.add_argument(
        "--dry-run",
        type=Path,
        metavar="FILE",
        help="write the workspace or the report as JSON instead; needs no key",
    )
    _mixed_code_flag(parser)


def _config_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="YAML or JSON, dotted or nested names; later files win, and flags win over files",
    )


def _no_wandb(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-wandb", action="store_true", help="no Weights & Biases (offline without a key)"
    )


def _devices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--devices-per-cell",
        type=_count,
        default=1,
        metavar="N",
        help="GPUs, or CPU processes without any, that share out the rows of each batch (1)",
    )


def sweep(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate sweep`."""
    study(parser)
    _no_wandb(parser)
    _storage_flag(parser)
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument("--workers", type=_count, default=1, help="processes that train (1)")
    workers.add_argument(
        "--cells-per-device",
        type=_packing,
        metavar="N",
        help="a worker for each of N cells on every GPU; auto: as many as fit by the memory of the "
        "study's finished runs",
    )
    _devices(parser)
    parser.add_argument(
        "--launcher",
        choices=LAUNCHERS,
        default=LAUNCHERS[0],
        help="what places the workers: this machine, a Ray cluster, or Slurm (local)",
    )


def worker(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate worker`."""
    parser.add_argument("name", metavar="NAME", help="the name of the study, as the sweep says it")
    _storage_flag(parser, "--study", "--storage")
    _runs_flag(parser)
    _no_wandb(parser)
    _devices(parser)


def _storage_flag(parser: argparse.ArgumentParser, *names: str) -> None:
    parser.add_argument(
        *(names or ("--storage",)),
        dest="storage",
        metavar="URL",
        help="the queue's address, such as postgresql+psycopg://USER@HOST:PORT/DATABASE "
        "(an SQLite file in the folder of the runs)",
    )


def status(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate status`."""
    parser.add_argument("study", nargs="?", help="a study file, or the name of a shipped study")
    _runs_flag(parser)
    _storage_flag(parser)


def table(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate table`."""
    study(parser)
    parser.add_argument("--metric", help="the metric shown (the study's)")
    parser.add_argument(
        "--split",
        help="the split shown (the study's, or the first test split); several, such as "
        "'continuation.*@64' or 'test@8,test@16', are compared within each run",
    )
    parser.add_argument(
        "--effect", type=_difference, help="a difference that matters; says how many seeds show it"
    )
    parser.add_argument(
        "--columns",
        type=_names,
        default=(),
        metavar="NAMES",
        help="the columns after the difference, such as p,n,flops,memory (all but these two): "
        "p, n, diverged, missing, detectable, parameters, flops, seconds, memory, reported, "
        "verdict",
    )
    parser.add_argument(
        "--figures", type=Path, metavar="FOLDER", help="draw effects and learning curves there"
    )
    _comparison_flags(parser)


def effects(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate effects`."""
    study(parser)
    parser.add_argument("--metric", help="the metric shown (the study's)")
    parser.add_argument("--split", help="the split shown (the study's, or the first test split)")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw interactions there")
    _comparison_flags(parser)


def bootstrap(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate bootstrap`."""
    study(parser)
    parser.add_argument("--metric", help="bleu, bleu_lowercase_tokenized or chrf (the study's)")
    parser.add_argument("--split", help="the test split (the study's, or the first)")
    _comparison_flags(parser)


def reproduce(parser: argparse.ArgumentParser) -> None:
    """Arguments of `ablate reproduce`."""
    parser.add_argument("study", metavar="RUN|STUDY", help="the id of a run, or a study")
    parser.add_argument("--row", type=_count, help="the number of a row in the study's table")
    parser.add_argument("--metric", help="as the table was asked for, where it compares splits")
    parser.add_argument("--split", help="as the table was asked for, where it compares splits")
    _runs_flag(parser)
    parser.add_argument(
        "--run", type=Path, metavar="FOLDER", help="run it again into this folder, and compare"
    )


def _comparison_flags(parser: argparse.ArgumentParser) -> None:
    _format_flag(parser)
    parser.add_argument("--output", type=Path, help="write to this file instead of the terminal")
    _mixed_code_flag(parser)


def _format_flag(
    parser: argparse.ArgumentParser,
    formats: Sequence[str] = ("terminal", "markdown", "csv", "latex", "html"),
) -> None:
    parser.add_argument("--format", choices=formats, default="terminal", help="(terminal)")


def _mixed_code_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mixed-code", action="store_true", help="compare runs of different code, and say so"
    )


def nothing(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _difference(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < abs(number) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number other than 0")
    return number


def _packing(text: str) -> int | str:
    return text if text == "auto" else _count(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)
