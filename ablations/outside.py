"""What goes wrong outside the program: files, disks and databases. Cheap to import."""

import errno
import sys

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
KEPT = "what is finished stays, and the same command goes on once there is a place to write to"


def fault_outside(error: BaseException | None) -> str | None:
    """One line about a file or a database that cannot be used; None for any other error.

    Args:
        error: what was raised; what it was raised from is looked at, too.
    """
    while error is not None:
        if isinstance(error, OSError) and (error.filename or error.errno in UNWRITABLE):
            where = f"{error.filename}: " if error.filename else ""
            remedy = f"; {KEPT}" if error.errno in UNWRITABLE else ""
            return f"{where}{error.strerror}{remedy}"
        if _is_of_database(error):
            return f"the queue's database: {getattr(error, 'orig', error)}; {KEPT}"
        error = error.__cause__
    return None


def _is_of_database(error: BaseException) -> bool:
    """Whether a database refused its work; without one, SQLAlchemy isn't even imported."""
    module = sys.modules.get("sqlalchemy.exc")
    return module is not None and isinstance(error, module.OperationalError)
