"""The command `ablate`: its arguments. What the commands do is in the files that they name."""

import argparse
import difflib
import gc
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ablations import flags
from ablations.outside import fault_outside

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
        return _run_of(COMMANDS[arguments.command])(arguments)
    except ValueError as error:
        print(f"ablate: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("ablate: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    except Exception as error:
        if (fault := fault_outside(error)) is None:
            raise
        print(f"ablate: {' '.join(fault.split())}", file=sys.stderr)
        return 2


def _run_of(command: Command) -> Callable[[argparse.Namespace], int]:
    """What runs a command, from its module."""
    # What torch makes while it is imported stays: to look through it for garbage again and again
    # takes a tenth of a short command.
    gc.disable()
    module = importlib.import_module(command.module)
    gc.enable()
    gc.freeze()
    return getattr(module, command.run)


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
        _refuse(rest[0], words, commands.choices[words[0]])
    return arguments


def _refuse(word: str, words: list[str], parser: argparse.ArgumentParser) -> NoReturn:
    name = word.partition("=")[0].removeprefix("--")
    if "." in name and word.startswith("--"):
        from ablations.config import parse_value
        from ablations.study import task_asked_for

        parse_value(name, "", task=task_asked_for(words[1:]))
    legal = [flag for action in parser._actions for flag in action.option_strings]
    near = difflib.get_close_matches(f"--{name}", legal) if word.startswith("-") else []
    meant = f"; did you mean {', '.join(near)}?" if near else ""
    raise ValueError(f"unrecognised argument {word!r}{meant}; see 'ablate {words[0]} --help'")


def _config_flags(parser: argparse.ArgumentParser, words: list[str]) -> None:
    """A flag for every name of a config, with its help, or for the names that are there."""
    if {"-h", "--help"} & {*words}:
        _described_flags(parser, words)
        return
    flags = [word.removeprefix("--").partition("=")[0] for word in words if word.startswith("--")]
    for name in dict.fromkeys(flags):
        if "." in name or name in ("task", "seed"):
            parser.add_argument(f"--{name}", dest=name, default=argparse.SUPPRESS)


def _described_flags(parser: argparse.ArgumentParser, words: list[str]) -> None:
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


STUDY_USAGE = "STUDY [options] [--DOTTED.NAME VALUE ...]"
COMMANDS = {
    "run": Command(
        "Train and evaluate one cell",
        "[--config FILE] [options] [--DOTTED.NAME VALUE ...]",
        flags.run,
        "run",
    ),
    "plan": Command(
        "List the cells of a study, without running any", STUDY_USAGE, flags.study, "plan"
    ),
    "sweep": Command(
        "Run the cells of a study that have no result yet", STUDY_USAGE, flags.sweep, "sweep"
    ),
    "worker": Command(
        "Join a sweep from another shell or machine: run cells of its queue until none is left",
        "NAME [--study URL] [--runs FOLDER] [options]",
        flags.worker,
        "worker",
        configures=False,
    ),
    "status": Command(
        "Count what is finished, diverged, failed and missing",
        f"[{STUDY_USAGE}]",
        flags.status,
        "status",
        module="ablations.status_commands",
    ),
    "table": Command("Compare the levels of a study in a table", STUDY_USAGE, flags.table, "table"),
    "effects": Command(
        "Effects and interactions of the choices of a factorial study",
        STUDY_USAGE,
        flags.effects,
        "effects",
        module="ablations.analysis_commands",
    ),
    "bootstrap": Command(
        "Compare the translations of a study's runs sentence by sentence",
        STUDY_USAGE,
        flags.bootstrap,
        "bootstrap",
        module="ablations.bootstrap_commands",
    ),
    "reproduce": Command(
        "Say what stands behind a run or a row of a table, and run it again",
        "RUN | STUDY --row N [options] [--DOTTED.NAME VALUE ...]",
        flags.reproduce,
        "reproduce",
        module="ablations.analysis_commands",
    ),
    "check": Command(
        "Measure on an untrained model what needs no training, claim by claim",
        "[--config FILE] [options] [--DOTTED.NAME VALUE ...]",
        flags.check,
        "check_claims",
    ),
    "attention": Command(
        "Draw what the heads of a run attend to in one example",
        "RUN --output FOLDER [options]",
        flags.attention,
        "attention",
        configures=False,
        module="ablations.figure_commands",
    ),
    "positions": Command(
        "Draw the position table of a design or of a run",
        "[RUN] --output FOLDER [--config FILE] [--DOTTED.NAME VALUE ...]",
        flags.positions,
        "positions",
        module="ablations.figure_commands",
    ),
    "claims": Command(
        "List common claims with their verdicts, show one, or run what it needs",
        "[list | show ID | run ID] [options]",
        flags.claims,
        "claims",
        configures=False,
        module="ablations.claim_commands",
    ),
    "report": Command(
        "Write one HTML page: verdicts, tables, effects, figures, cost and provenance",
        "[STUDY ...] [options]",
        flags.report,
        "report",
        configures=False,
        module="ablations.report_commands",
    ),
    "dashboard": Command(
        "Open what there is of a study: offline W&B runs, its HTML page, or its queue",
        STUDY_USAGE,
        flags.dashboard,
        "dashboard",
        module="ablations.dashboard_commands",
    ),
    "wandb": Command(
        "Send a study's results to W&B, fetch results from there, or make its dashboards there",
        "push | workspace | report STUDY | pull [STUDY] [options]",
        flags.wandb,
        "wandb",
        module="ablations.wandb_commands",
    ),
    "axes": Command(
        "List every axis, its levels and the constraints",
        "",
        flags.nothing,
        "axes",
        configures=False,
    ),
}

if __name__ == "__main__":
    sys.exit(main())
