"""The config that files and flags of a command ask for. Cheap to import."""

import shlex
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.identity import LOCATION_PATHS

if TYPE_CHECKING:
    from ablations.config import RunConfig
    from ablations.plan import Plan


def asked_config(arguments: Namespace) -> "RunConfig":
    """The config of files and flags; one that has no meaning is refused."""
    from ablations.config import check, config_from_flat

    flat: dict[str, Any] = {}
    for file in arguments.config:
        flat |= _read_config(file)
    config = config_from_flat(located({**flat, **overrides(arguments)}))
    check(config)
    return config


def overrides(arguments: Namespace) -> dict[str, Any]:
    """What the flags say of a config: their names hold a dot, save two."""
    own = ("task", "seed")
    return {path: v for path, v in vars(arguments).items() if "." in path or path in own}


def located(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The same values, with folders that exist by their full path: workers may run elsewhere."""
    found = {path: Path(str(flat[path])) for path in LOCATION_PATHS & flat.keys() if flat[path]}
    return {**flat, **{path: str(f.resolve()) for path, f in found.items() if f.exists()}}


def planned(arguments: Namespace) -> "Plan":
    """The plan of the study that the arguments name; what needs no tuning is kept."""
    from ablations.kept import keep
    from ablations.plan import make_plan
    from ablations.study import load_study

    study = load_study(arguments.study, overrides=located(overrides(arguments)))
    if study.search is None:
        plan = make_plan(study)
        keep(plan, arguments)
        return plan
    from ablations.tuning import tuned_plan

    return tuned_plan(study, runs_dir=arguments.runs)


def same_command(name: str, arguments: Namespace) -> str:
    """Another command with the study, the folder of runs and the config flags of this one."""
    words = ["ablate", name, arguments.study]
    if arguments.runs != Path("runs"):
        words.append(f"--runs={arguments.runs}")
    words += [f"--{path}={value}" for path, value in overrides(arguments).items()]
    return shlex.join(words)


def _read_config(file: Path) -> dict[str, Any]:
    from ablations.mappings import read_mapping

    try:
        return dict(_flat(read_mapping(file.read_text(encoding="utf-8"))))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--config {file}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _flat(tree: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in tree.items():
        nested = isinstance(value, Mapping)
        rows += _flat(value, f"{prefix}{name}.") if nested else [(f"{prefix}{name}", value)]
    return rows
