"""Which machine this is, and which of its processes is which."""

import contextlib
import os
import socket
from functools import cache
from pathlib import Path


@cache
def machine_key() -> str:
    """This machine, or the part of it whose processes can be seen from here, in one word.

    Not the name alone: many machines are called localhost, and containers may share a name.
    """
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return "/".join(parts)


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
