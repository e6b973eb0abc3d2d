"""Files that are whole or not there."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write or replace a file; a reader never sees a part of it."""
    _write(path, content, os.replace)


def create_once(path: Path, content: str | bytes) -> bool:
    """Create a file; False when it was there already and is left as it is."""
    try:
        _write(path, content, os.link)
    except FileExistsError:
        return False
    return True


def _write(path: Path, content: str | bytes, publish: Callable[[str, Path], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        publish(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
