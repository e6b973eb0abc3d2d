"""Which process of this machine is which."""

import os
from pathlib import Path


def process_key(pid: int) -> str:
    """A process of this machine: its id and its start, which tell it from a later one.

    Only the id where the start cannot be read, and `PID gone` for a process that has ended.
    """
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return f"{pid} gone" if state == "Z" else f"{pid} {fields[18]}"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return f"{pid} gone"
    except PermissionError:
        pass
    return f"{pid}"
