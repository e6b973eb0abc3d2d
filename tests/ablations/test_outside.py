"""Files, disks and databases that cannot be used are told in a line; bugs keep their traceback."""

import errno
from pathlib import Path

import optuna
import pytest
import sqlalchemy

from ablations.outside import fault_outside
from ablations.storage import open_storage, parse_address, quiet


def caught(action: object, *arguments: object) -> BaseException:
    with pytest.raises(Exception) as error:  # noqa: PT011 (any kind is the point)
        action(*arguments)  # type: ignore[operator]
    return error.value


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fault = fault_outside(caught((tmp_path / "file" / "runs").mkdir))
    assert fault == f"{tmp_path}/file/runs: Not a directory"


def test_a_full_disk_says_that_nothing_is_lost() -> None:
    fault = fault_outside(OSError(errno.ENOSPC, "No space left on device"))
    assert fault is not None
    assert fault.startswith("No space left on device; what is finished stays")


def test_a_queue_on_a_full_disk_is_told_from_inside_optuna(tmp_path: Path) -> None:
    with quiet():
        storage = open_storage(parse_address(tmp_path / "queue.sqlite"), heartbeat=5, grace=20)
    study = optuna.create_study(storage=storage, study_name="x")

    def fill_up(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # SQLite's own full disk

    sqlalchemy.event.listen(storage.engine, "begin", fill_up)
    fault = fault_outside(caught(study.set_user_attr, "large", "x" * 100_000))
    assert fault is not None
    assert fault.startswith("the queue's database: database or disk is full; what is finished")


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), KeyError("a"), ConnectionResetError(errno.ECONNRESET, "reset")]
)
def test_other_errors_keep_their_traceback(error: Exception) -> None:
    assert fault_outside(error) is None
