"""Parallel text: from bytes on disk, or a dataset on the hub, to sentence pairs.

Lines end at a line feed and nowhere else. A carriage return before it belongs to the line end; one
inside a sentence, like any other separator a text editor may have left there, is only a space.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

Pair = tuple[str, str]


def split_files(folder: Path, *, stem: str, source: str, target: str) -> tuple[Path, ...]:
    """The files that hold one split.

    Returns:
        `(stem.source, stem.target)`, each plain or `.gz`, or `(stem.jsonl,)`; empty when the folder
        has no such split.

    Raises:
        ValueError: Only one of the two languages is there.
    """
    found = {language: _plain_or_gz(folder, f"{stem}.{language}") for language in (source, target)}
    present = [path for path in found.values() if path is not None]
    if len(present) == 2:
        return tuple(present)
    if present:
        missing = next(language for language, path in found.items() if path is None)
        raise ValueError(
            f"{folder}: {present[0].name} has no partner {stem}.{missing} (plain or .gz)"
        )
    lines = _plain_or_gz(folder, f"{stem}.jsonl")
    return () if lines is None else (lines,)


def _plain_or_gz(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)


def read_bytes(path: Path) -> bytes:
    """A file's content, unpacked when its name ends in `.gz`.

    Raises:
        ValueError: The file cannot be unpacked.
    """
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a whole gzip file ({error})") from error


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, without line ends, surrounding space or carriage returns.

    Raises:
        ValueError: The file is empty or not UTF-8 (the line is named).
    """
    content = read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise ValueError(
            f"{path}, line {line}: not UTF-8 (byte 0x{byte:02x}); convert the file to UTF-8"
        ) from error
    if not text.strip():
        raise ValueError(f"{path}: the file is empty")
    return [line.replace("\r", " ").strip() for line in text.removesuffix("\n").split("\n")]


def read_pairs(files: tuple[Path, ...], *, source: str, target: str) -> list[Pair]:
    """Sentence pairs of one split, in file order; blank sentences included.

    Raises:
        ValueError: Different line counts, or a JSON line without both languages.
    """
    if len(files) == 1:
        return _read_json_lines(files[0], source=source, target=target)
    sources, targets = (read_lines(path) for path in files)
    if len(sources) != len(targets):
        raise ValueError(
            f"line counts differ: {files[0]} has {len(sources)}, {files[1]} has {len(targets)};"
            " parallel files pair line by line"
        )
    return list(zip(sources, targets, strict=True))


def _read_json_lines(path: Path, *, source: str, target: str) -> list[Pair]:
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        try:
            record = json.loads(line)
            pairs.append(pair_of(record, source=source, target=target))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f'{path}, line {number}: expected {{"{source}": "...", "{target}": "..."}},'
                f" got {line[:60]!r}"
            ) from error
    return pairs


def pair_of(record: dict, *, source: str, target: str) -> Pair:
    """The two sentences of a record, which may hold them under `translation`.

    Raises:
        KeyError: A language is missing.
        TypeError: A sentence is not text.
    """
    record = record.get("translation", record)
    first, second = (" ".join(record[language].split()) for language in (source, target))
    return first, second


def hub_splits(name: str, *, source: str, target: str) -> dict[str, list[Pair]]:
    """All splits of a dataset on the Hugging Face hub, by the hub's own split names.

    Needs the package `datasets` and, the first time, a network.

    Raises:
        ValueError: The dataset cannot be loaded or has no such languages.
    """
    try:
        import datasets
    except ImportError as error:
        raise ValueError(
            f"{name!r} is on the hub: install the package 'datasets' or give a folder"
        ) from error
    try:
        loaded = datasets.load_dataset(name)
        return {
            split: [pair_of(record, source=source, target=target) for record in records]
            for split, records in loaded.items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"dataset {name!r}: no text columns {source!r} and {target!r}") from error
    except Exception as error:  # the hub client raises types of several packages
        cause = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"dataset {name!r} could not be loaded from the hub ({cause}); give a folder instead"
        ) from error


def count_words(sentence: str) -> int:
    """Words between white space, punctuation left where it stands."""
    return len(sentence.split())


def without_blanks(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs that have text on both sides: a blank on one side translates nothing."""
    return [(source, target) for source, target in pairs if source.strip() and target.strip()]


def file_digest(path: Path) -> str:
    """SHA-256 of a file's unpacked content, remembered until the file changes."""
    status = path.stat()
    return _digest(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _digest(path: Path, modified_ns: int, size: int) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()
