"""The trials of a study in short, in one question to the database.

Optuna reads all that is known of each unfinished trial at each question: to look through hundreds
of cells that wait took as long as a small one takes to run.
"""

import json
from typing import NamedTuple

import sqlalchemy
from optuna.storages import RDBStorage
from optuna.trial import TrialState

QUESTION = sqlalchemy.text(
    "SELECT trials.trial_id, CAST(trials.state AS VARCHAR(10)), cells.value_json FROM trials "
    "JOIN trial_user_attributes AS cells "
    "ON cells.trial_id = trials.trial_id AND cells.key = 'cell' "
    "WHERE trials.study_id = :study ORDER BY trials.number"
)


class Entry(NamedTuple):
    """A trial: Optuna's id for it, its state, and the id of the cell that it names."""

    trial_id: int
    state: TrialState
    cell: str


def entries_of(storage: RDBStorage, study_id: int) -> list[Entry]:
    """The trials that name a cell, in the order of their numbers."""
    with storage.engine.connect() as connection:
        rows = connection.execute(QUESTION, {"study": study_id}).all()
    return [Entry(trial_id, TrialState[state], json.loads(cell)) for trial_id, state, cell in rows]
