"""The command `ablate`: its arguments. What the commands do is in the files that they name."""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

# Nothing here imports torch: only the command that is asked for gets its arguments.


class Parser(argparse.ArgumentParser):
    """An argument parser that raises what is wrong instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        """Raise the message."""
        raise ValueError(message)


@dataclass(frozen=True)
class Command:
    """One command: a line of help, its usage, what adds its arguments, what runs it and where.

    Where it `configures`, it also takes a flag for every name of a config.
    """

    help: str
    usage: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: str
    configures: bool = True
    module: str = "ablations.commands"


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ablate` and return its exit code: 0, 1 for cells that failed, 2 for wrong input."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = _parse(words)
        command = COMMANDS[arguments.command]
        return getattr(importlib.import_module(command.module), command.run)(arguments)
    except ValueError as error:
        print(f"ablate: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("ablate: interrupted; the same command goes on from here", file=sys.stderr)
        return 130


def _parse(words: list[str]) -> argparse.Namespace:
    parser = Parser(prog="ablate", description="Ablation studies of Transformer design choices.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=command.help,
            usage=f"ablate {name} {command.usage}".strip(),
            description=f"{command.help}.",
            allow_abbrev=False,
        )
        if words[:1] == [name]:
            command.arguments(sub)
            if command.configures:
                _config_flags(sub, words[1:])
    arguments, rest = parser.parse_known_args(words)
    if rest:
        _refuse(rest[0], words[1:])
    return arguments


def _refuse(word: str, words: list[str]) -> NoReturn:
    name = word.partition("=")[0].removeprefix("--")
    if "." in name and word.startswith("--"):
        from ablations.config import parse_value
        from ablations.study import task_asked_for

        parse_value(name, "", task=task_asked_for(words))
    raise ValueError(f"unrecognised argument {word!r}; see 'ablate COMMAND --help'")


def _config_flags(parser: argparse.ArgumentParser, words: list[str]) -> None:
    from ablations.config import paths
    from ablations.describe import describe_paths, values_of
    from ablations.study import task_asked_for

    task = task_asked_for(words)
    about = describe_paths(task)
    groups: dict[str, argparse._ArgumentGroup] = {}
    for path, kind in paths(task).items():
        section = path.partition(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(section)
        groups[section].add_argument(
            f"--{path}",
            dest=path,
            default=argparse.SUPPRESS,
            metavar=values_of(kind),
            help=about[path].replace("%", "%%"),
        )


def _runs_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (runs)")


def _study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="a study file, or the name of a shipped study")
    _runs_flag(parser)


def _run(parser: argparse.ArgumentParser) -> None:
    _config_files(parser)
    _runs_flag(parser)
    _no_wandb(parser)


def _check(parser: argparse.ArgumentParser) -> None:
    _config_files(parser)
    parser.add_argument("--only", default="", metavar="IDS", help="such as A5,P3 (all checks)")
    _format_flag(parser)


def _attention(parser: argparse.ArgumentParser) -> None:
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


def _positions(parser: argparse.ArgumentParser) -> None:
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


def _claims(parser: argparse.ArgumentParser) -> None:
    actions = ("list", "show", "run")
    parser.add_argument("action", nargs="?", choices=actions, default="list", help="(list)")
    parser.add_argument("id", nargs="?", default="", help="a claim to show or run, such as A5")
    _runs_flag(parser)
    parser.add_argument("--data.path", dest="data_path", help="folder of the data it needs")
    parser.add_argument("--workers", type=_count, default=1, help="processes that train (1)")
    _no_wandb(parser)
    _format_flag(parser)
    parser.add_argument("--output", type=Path, help="write to this file instead of the terminal")


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("studies", nargs="*", help="studies (all that have a run in the folder)")
    _runs_flag(parser)
    parser.add_argument(
        "--output", type=Path, default=Path("report.html"), help="the page (report.html)"
    )


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


def _sweep(parser: argparse.ArgumentParser) -> None:
    _study(parser)
    _no_wandb(parser)
    parser.add_argument("--workers", type=_count, default=1, help="processes that train (1)")


def _status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", nargs="?", help="a study file, or the name of a shipped study")
    _runs_flag(parser)


def _table(parser: argparse.ArgumentParser) -> None:
    _study(parser)
    parser.add_argument("--metric", help="the metric shown (the study's)")
    parser.add_argument("--split", help="the split shown (the study's, or the first test split)")
    parser.add_argument(
        "--effect", type=_difference, help="a difference that matters; says how many seeds show it"
    )
    _format_flag(parser)
    parser.add_argument("--output", type=Path, help="write to this file instead of the terminal")
    parser.add_argument(
        "--figures", type=Path, metavar="FOLDER", help="draw effects and learning curves there"
    )


def _effects(parser: argparse.ArgumentParser) -> None:
    _study(parser)
    parser.add_argument("--metric", help="the metric shown (the study's)")
    parser.add_argument("--split", help="the split shown (the study's, or the first test split)")
    _format_flag(parser)
    parser.add_argument("--output", type=Path, help="write to this file instead of the terminal")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="draw interactions there")


def _format_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=("terminal", "markdown", "csv"), default="terminal", help="(terminal)"
    )


def _nothing(parser: argparse.ArgumentParser) -> None:
    pass


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _difference(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < abs(number) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number other than 0")
    return number


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


STUDY_USAGE = "STUDY [options] [--DOTTED.NAME VALUE ...]"
COMMANDS = {
    "run": Command(
        "Train and evaluate one cell",
        "[--config FILE] [options] [--DOTTED.NAME VALUE ...]",
        _run,
        "run",
    ),
    "plan": Command("List the cells of a study, without running any", STUDY_USAGE, _study, "plan"),
    "sweep": Command(
        "Run the cells of a study that have no result yet", STUDY_USAGE, _sweep, "sweep"
    ),
    "status": Command(
        "Count what is finished, diverged, failed and missing",
        f"[{STUDY_USAGE}]",
        _status,
        "status",
    ),
    "table": Command("Compare the levels of a study in a table", STUDY_USAGE, _table, "table"),
    "effects": Command(
        "Effects and interactions of the choices of a factorial study",
        STUDY_USAGE,
        _effects,
        "effects",
        module="ablations.analysis_commands",
    ),
    "check": Command(
        "Measure on an untrained model what needs no training, claim by claim",
        "[--config FILE] [options] [--DOTTED.NAME VALUE ...]",
        _check,
        "check_claims",
    ),
    "attention": Command(
        "Draw what the heads of a run attend to in one example",
        "RUN --output FOLDER [options]",
        _attention,
        "attention",
        configures=False,
        module="ablations.figure_commands",
    ),
    "positions": Command(
        "Draw the position table of a design or of a run",
        "[RUN] --output FOLDER [--config FILE] [--DOTTED.NAME VALUE ...]",
        _positions,
        "positions",
        module="ablations.figure_commands",
    ),
    "claims": Command(
        "List common claims with their verdicts, show one, or run what it needs",
        "[list | show ID | run ID] [options]",
        _claims,
        "claims",
        configures=False,
        module="ablations.claim_commands",
    ),
    "report": Command(
        "Write one HTML page: verdicts, tables, effects, figures, cost and provenance",
        "[STUDY ...] [options]",
        _report,
        "report",
        configures=False,
        module="ablations.report_commands",
    ),
    "axes": Command(
        "List every axis, its levels and the constraints", "", _nothing, "axes", configures=False
    ),
}

if __name__ == "__main__":
    sys.exit(main())
