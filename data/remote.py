"""Files that may not be here yet: fetched from a URL, and known by their content."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from data.parallel import file_digest, read_bytes


@dataclass(frozen=True)
class Published:
    """A file everybody has: its name, its address and the SHA-256 of its content."""

    name: str
    url: str
    digest: str


_ETT_URL = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small"
PUBLISHED = {
    "etth1": Published(
        "ETTh1.csv",
        f"{_ETT_URL}/ETTh1.csv",
        "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
    ),
    "etth2": Published(
        "ETTh2.csv",
        f"{_ETT_URL}/ETTh2.csv",
        "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",
    ),
}


def is_url(location: str) -> bool:
    """Whether this is an address rather than a file."""
    return "://" in location


def read_content(location: str) -> bytes:
    """The content of a file or URL, unpacked when its name ends in `.gz`.

    Raises:
        ValueError: It cannot be unpacked or fetched.
    """
    return download(location) if is_url(location) else read_bytes(Path(location))


def content_digest(location: str) -> str:
    """SHA-256 of the unpacked content of a file or URL.

    Raises:
        ValueError: The URL cannot be fetched.
    """
    if is_url(location):
        return hashlib.sha256(download(location)).hexdigest()
    return file_digest(Path(location))


@lru_cache(maxsize=4)
def download(url: str) -> bytes:
    """The unpacked content behind any URL that fsspec knows, fetched once in a process.

    Raises:
        ValueError: It cannot be fetched.
    """
    import fsspec

    try:
        with fsspec.open(url, compression="infer") as file:
            return file.read()
    except Exception as error:  # every protocol has errors of its own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{url}: cannot be fetched ({reason}); download it by hand and name it in data.path"
        ) from error


def published_file(published: Published, *, cache_dir: Path | None) -> str:
    """Where a published file can be read: in `cache_dir`, or at its URL when that is None.

    Raises:
        ValueError: It cannot be fetched, or its content is not what it was.
    """
    kept = None if cache_dir is None else cache_dir / published.name
    if kept is not None and kept.is_file() and file_digest(kept) == published.digest:
        return str(kept)
    content = download(published.url)
    if hashlib.sha256(content).hexdigest() != published.digest:
        raise ValueError(
            f"{published.url}: not the published file (its SHA-256 should be {published.digest});"
            " name your copy in data.path"
        )
    if kept is None:
        return published.url
    kept.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{published.name}.", dir=kept.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    # Many workers may fetch it at once: a reader never sees a part of it.
    os.replace(temporary, kept)
    return str(kept)
