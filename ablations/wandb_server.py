"""The runs that a W&B server has."""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ablations.files import create_once
from ablations.ledger import STATUSES, read_record
from ablations.tracking import FILES, project, quiet_wandb

PAGE, SECONDS = 200, 60
NO_PROJECT = "Could not find project"
IDENTITY = re.compile(r"[0-9a-f]{12}")


def find_runs(identities: Iterable[str] | None = None) -> Iterator[tuple[str, Any]]:
    """The runs of these ids, or all, each with its id; those of a W&B sweep have another one there.

    Raises:
        ValueError: there is no key, or the server does not answer or know it.
    """
    asked = None if identities is None else list(identities)
    wanted: dict[str, Any] = {}
    if asked is not None:
        wanted = {"$or": [{"name": {"$in": asked}}, {"config.run": {"$in": asked}}]}
    place = "/".join(part for part in (os.environ.get("WANDB_ENTITY"), project()) if part)
    try:
        api = quiet_wandb().Api(timeout=SECONDS)
        found = list(api.runs(place, filters=wanted, per_page=PAGE, lazy=False))
    except Exception as error:
        if str(error).startswith(NO_PROJECT):  # it is made with its first run
            return
        raise ValueError(f"W&B: {' '.join(str(error).split())}; is WANDB_API_KEY set?") from None
    for run in found:
        identity = run.config.get("run", run.id)
        if IDENTITY.fullmatch(identity) if asked is None else identity in asked:
            yield identity, run


def account() -> tuple[str, str]:
    """Whose project runs go to, and the project.

    Raises:
        ValueError: there is no key, or the server does not know it.
    """
    try:
        entity = os.environ.get("WANDB_ENTITY") or quiet_wandb().Api().default_entity
    except Exception as error:
        raise ValueError(f"W&B: {' '.join(str(error).split())}; is WANDB_API_KEY set?") from None
    return str(entity), project()


def is_whole(run: Any) -> bool:
    """Whether the server has all of a run: a killed one has no status."""
    return run.summary.get("status") in STATUSES


def fetch(run: Any, identity: str, *, runs_dir: Path) -> bool:
    """Put the record of a run into the folder of runs; False where there was one already.

    Raises:
        ValueError: the server has no record of it, or one that is not whole.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / identity
        for file in FILES:
            try:
                run.file(file).download(root=str(folder)).close()
            except Exception as error:
                raise ValueError(f"{file}: {' '.join(str(error).split())}") from None
        read_record(folder / FILES[0])
        # The result comes last: with it the run counts as finished.
        return [
            create_once(runs_dir / identity / file, (folder / file).read_bytes())
            for file in reversed(FILES)
        ][-1]
