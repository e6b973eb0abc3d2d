"""What is read for a run: sources, refusals, fingerprints."""

import gzip
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from data import corpus, generators
from data.corpus import (
    MULTI30K_TESTS,
    TranslationData,
    TranslationSource,
    fingerprint,
    list_test_splits,
    load_pairs,
    validate,
)

GRAMMAR = TranslationData(n_train=50, n_test=10)


def pack(folder: Path) -> None:
    for file in list(folder.iterdir()):
        (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()


def test_a_folder_is_read_by_split(files: TranslationData) -> None:
    pairs = load_pairs(files)
    assert {name: len(split) for name, split in pairs.items()} == {
        "train": 300,
        "validation": 30,
        "test": 20,
    }
    assert list_test_splits(files) == ["test"]


def test_the_first_pairs_are_used_when_asked_for_fewer(files: TranslationData) -> None:
    everything, few = load_pairs(files), load_pairs(replace(files, n_train=10, n_test=5))
    assert few["train"] == everything["train"][:10]
    assert few["validation"] == everything["validation"][:5]
    assert few["test"] == everything["test"][:5]
    assert len(load_pairs(replace(files, n_test=1000))["test"]) == 20


def test_more_training_pairs_than_there_are_is_refused(files: TranslationData) -> None:
    with pytest.raises(ValueError, match=r"data\.n_train=301: there are only 300"):
        validate(replace(files, n_train=301))


def test_the_grammar_needs_no_files() -> None:
    pairs = load_pairs(GRAMMAR)
    assert {name: len(split) for name, split in pairs.items()} == {
        "train": 50,
        "validation": 10,
        "test": 10,
    }
    assert list_test_splits(GRAMMAR) == ["test"]
    validate(GRAMMAR)


@pytest.mark.parametrize("path", ["", "no/such/folder/anywhere", "../nowhere"])
def test_a_missing_folder_is_refused(path: str) -> None:
    data = TranslationData(source=TranslationSource.files, path=path)
    for ask in (validate, fingerprint, list_test_splits):
        with pytest.raises(ValueError, match=r"data\.path='.*' is no folder"):
            ask(data)


@pytest.mark.parametrize("stem", ["train", "val", "test"])
def test_a_missing_split_is_refused(files: TranslationData, folder: Path, stem: str) -> None:
    for language in ("en", "de"):
        (folder / f"{stem}.{language}").unlink()
    with pytest.raises(ValueError, match=rf"no {stem} split; expected {stem}\.en and {stem}\.de"):
        validate(files)


def test_a_missing_language_is_refused(files: TranslationData, folder: Path) -> None:
    (folder / "val.de").unlink()
    with pytest.raises(ValueError, match=r"val\.en has no partner val\.de"):
        validate(files)


def test_different_line_counts_are_refused(files: TranslationData, folder: Path) -> None:
    with (folder / "test.de").open("a") as file:
        file.write("Ein Satz mehr.\n")
    with pytest.raises(ValueError, match=r"test\.en has 20, .*test\.de has 21"):
        validate(files)


def test_an_empty_file_is_refused(files: TranslationData, folder: Path) -> None:
    (folder / "train.de").write_bytes(b"")
    with pytest.raises(ValueError, match=r"train\.de: the file is empty"):
        validate(files)


def test_another_encoding_is_refused(files: TranslationData, folder: Path) -> None:
    path = folder / "val.de"
    path.write_bytes(path.read_text(encoding="utf-8").encode("latin-1"))
    with pytest.raises(ValueError, match=r"val\.de, line \d+: not UTF-8"):
        validate(files)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vocabulary_size", 4),
        ("tokens_per_batch", 0),
        ("max_length", 1),
        ("n_train", -1),
        ("n_test", -1),
        ("min_words", 2),
    ],
)
def test_numbers_out_of_range_are_refused(name: str, value: int) -> None:
    with pytest.raises(
        ValueError, match=rf"data\.{name}={value} is too small: at least {value + 1}"
    ):
        TranslationData(**{name: value})


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"min_words=9 is more than data\.max_words=5"):
        TranslationData(min_words=9, max_words=5)
    with pytest.raises(ValueError, match="both 'de'"):
        TranslationData(source_language="de")


def test_a_fingerprint_is_of_the_content(files: TranslationData, folder: Path) -> None:
    first = fingerprint(files)
    moved = shutil.copytree(folder, folder.with_name("elsewhere"))
    pack(moved)
    assert fingerprint(replace(files, path=str(moved))) == first
    with (folder / "test.de").open("a") as file:
        file.write("x")
    assert fingerprint(files) != first


def test_a_fingerprint_tells_the_directions_apart(files: TranslationData) -> None:
    back = replace(files, source_language="de", target_language="en")
    assert fingerprint(back) != fingerprint(files)


def test_the_grammars_fingerprint_knows_lengths_and_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = fingerprint(GRAMMAR)
    assert fingerprint(replace(GRAMMAR, max_words=17)) != first
    monkeypatch.setattr(generators, "GENERATOR_VERSION", 99)
    assert fingerprint(GRAMMAR) != first


def test_multi30k_from_a_folder(multi30k_path: Path) -> None:
    data = TranslationData(source=TranslationSource.multi30k, path=str(multi30k_path), n_test=50)
    assert list_test_splits(data) == list(MULTI30K_TESTS)
    pairs = load_pairs(data)
    assert len(pairs["train"]) == 29_000
    assert pairs["train"][0] == (
        "Two young, White males are outside near many bushes.",
        "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    )
    assert {len(pairs[name]) for name in ("validation", *MULTI30K_TESTS)} == {50}


def test_a_test_split_that_is_not_there_is_not_listed(folder: Path) -> None:
    for language in ("en", "de"):
        (folder / f"test.{language}").rename(folder / f"test_2017_flickr.{language}")
    data = TranslationData(source=TranslationSource.multi30k, path=str(folder))
    assert list_test_splits(data) == ["test_2017_flickr"]


@pytest.mark.parametrize("path", ["", "someone/captions"])
def test_multi30k_from_the_hub(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus._named_hub_pairs.cache_clear()
    asked = []

    def load_dataset(name: str) -> dict[str, list[dict[str, str]]]:
        asked.append(name)
        return {
            split: [{"en": f"{split} {i}", "de": f"{split} {i}."} for i in range(4)]
            for split in ("train", "validation", "test")
        }

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    data = TranslationData(source=TranslationSource.multi30k, path=path, n_train=2)
    assert list_test_splits(data) == ["test_2016_flickr"]
    pairs = load_pairs(data)
    assert pairs["train"] == [("train 0", "train 0."), ("train 1", "train 1.")]
    assert len(pairs["test_2016_flickr"]) == 4
    assert len(fingerprint(data)) == 16
    assert asked == [path or "bentrevett/multi30k"]


def test_a_plan_imports_neither_torch_nor_lightning() -> None:
    code = (
        "import sys, data.corpus as c; c.fingerprint(c.TranslationData());"
        "print([m for m in ('torch', 'pytorch_lightning', 'datasets', 'sentencepiece')"
        " if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
