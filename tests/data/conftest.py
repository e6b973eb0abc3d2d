"""A small folder of parallel files."""

from pathlib import Path

import pytest

from data.corpus import TranslationData, TranslationSource
from data.generators import grammar_pairs

SIZES = {"train": 300, "val": 30, "test": 20}


def write_pairs(folder: Path, stem: str, pairs: list[tuple[str, str]]) -> None:
    for side, language in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{stem}.{language}").write_bytes(text.encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`train`, `val` and `test` in English and German."""
    path = tmp_path / "parallel"
    path.mkdir()
    for stem, n in SIZES.items():
        split = {"val": "validation"}.get(stem, stem)
        pairs = grammar_pairs(n, seed=7, min_words=4, max_words=10, split=split)
        write_pairs(path, stem, pairs)
    return path


@pytest.fixture
def files(folder: Path) -> TranslationData:
    """The folder as data, with a vocabulary that fits."""
    return TranslationData(
        source=TranslationSource.files, path=str(folder), vocabulary_size=200, tokens_per_batch=256
    )
