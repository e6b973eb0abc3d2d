"""Reading parallel text: what counts as a line, and what is refused."""

import gzip
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from data.parallel import (
    file_digest,
    hub_splits,
    read_lines,
    read_pairs,
    split_files,
    without_blanks,
)

LANGUAGES = {"source": "en", "target": "de"}


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["train.en", "train.en.gz"])
def test_lines_are_read_plain_and_packed(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, "Ein Hund.\nZwei Äpfel.\n".encode())
    assert read_lines(path) == ["Ein Hund.", "Zwei Äpfel."]


def test_a_carriage_return_never_makes_or_joins_a_line(tmp_path: Path) -> None:
    source = written(tmp_path / "train.en", b"A dog.\r\nTwo \rcats.\r\nA man\rsings.\r\n")
    target = written(tmp_path / "train.de", b"Ein Hund.\nZwei Katzen.\nEin Mann singt.\n")
    pairs = read_pairs((source, target), **LANGUAGES)
    assert [target for _, target in pairs] == ["Ein Hund.", "Zwei Katzen.", "Ein Mann singt."]
    assert [source.split() for source, _ in pairs] == [
        ["A", "dog."],
        ["Two", "cats."],
        ["A", "man", "sings."],
    ]
    assert not any("\r" in source for source, _ in pairs)


@pytest.mark.parametrize("separator", ["\u2028", "\x0b", "\x0c", "\x85", "\x1e"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, separator: str) -> None:
    path = written(tmp_path / "train.en", f"one{separator}line\nanother\n".encode())
    assert len(read_lines(path)) == 2


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path: Path) -> None:
    assert read_lines(written(tmp_path / "train.en", b"\xef\xbb\xbfone\n")) == ["one"]


def test_the_last_line_may_lack_its_line_feed(tmp_path: Path) -> None:
    assert read_lines(written(tmp_path / "train.en", b"one\n\ntwo")) == ["one", "", "two"]


def test_different_line_counts_are_refused_with_both_counts(tmp_path: Path) -> None:
    source = written(tmp_path / "train.en", b"a\nb\nc\nd\ne\n")
    target = written(tmp_path / "train.de", b"a\nb\n\nc\nd\ne\n")
    with pytest.raises(ValueError, match=r"train\.en has 5, .*train\.de has 6"):
        read_pairs((source, target), **LANGUAGES)


def test_a_blank_line_keeps_its_place_and_then_takes_its_pair_with_it(tmp_path: Path) -> None:
    source = written(tmp_path / "train.en", b"a\nb\nc\nd\ne\n")
    target = written(tmp_path / "train.de", b"A\nB\n \nD\nE\n")
    pairs = read_pairs((source, target), **LANGUAGES)
    assert len(pairs) == 5
    assert without_blanks(pairs) == [("a", "A"), ("b", "B"), ("d", "D"), ("e", "E")]


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n\t\n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ValueError, match=r"val\.de: the file is empty"):
        read_lines(written(tmp_path / "val.de", content))


@pytest.mark.parametrize("name", ["train.de", "train.de.gz"])
def test_other_encodings_are_refused_with_file_and_line(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, b"eins\nzwei\n" + "drei Äpfel\n".encode("latin-1"))
    with pytest.raises(ValueError, match=rf"{name}, line 3: not UTF-8 \(byte 0xc4\)"):
        read_lines(path)


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"one\ntwo\n" * 100)
    path = tmp_path / "train.en.gz"
    for content in (whole[:-12], b"not packed at all"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"train\.en\.gz: not a whole gzip file"):
            read_lines(path)


def test_json_lines(tmp_path: Path) -> None:
    content = '{"en": "A dog.", "de": "Ein Hund."}\n\n{"translation": {"en": "b", "de": "B"}}\n'
    path = written(tmp_path / "train.jsonl", content.encode())
    assert split_files(tmp_path, stem="train", **LANGUAGES) == (path,)
    assert read_pairs((path,), **LANGUAGES) == [("A dog.", "Ein Hund."), ("b", "B")]


@pytest.mark.parametrize("line", ["{", '{"en": "a"}', '{"en": "a", "de": null}', '["a", "b"]'])
def test_a_json_line_without_both_texts_is_refused(tmp_path: Path, line: str) -> None:
    good = '{"en": "a", "de": "b"}\n'
    path = written(tmp_path / "train.jsonl", f"{good}{line}\n".encode())
    with pytest.raises(ValueError, match=r'train\.jsonl, line 2: expected \{"en": .*"de": '):
        read_pairs((path,), **LANGUAGES)


def test_one_language_without_the_other_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "train.en", b"one\n")
    with pytest.raises(ValueError, match=r"train\.en has no partner train\.de"):
        split_files(tmp_path, stem="train", **LANGUAGES)


def test_a_digest_is_of_the_content_and_follows_changes(tmp_path: Path) -> None:
    plain = written(tmp_path / "train.en", b"one\n")
    packed = written(tmp_path / "train.en.gz", b"one\n")
    first = file_digest(plain)
    assert first == file_digest(packed)
    plain.write_bytes(b"three\n")
    assert file_digest(plain) != first


def test_the_hub_gives_pairs_by_split(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"train": [{"en": "A  dog.", "de": "Ein Hund.\r"}], "test": [{"en": "b", "de": "B"}]}
    hub = SimpleNamespace(load_dataset={"someone/captions": rows}.__getitem__)
    monkeypatch.setitem(sys.modules, "datasets", hub)
    expected = {"train": [("A dog.", "Ein Hund.")], "test": [("b", "B")]}
    assert hub_splits("someone/captions", **LANGUAGES) == expected
    with pytest.raises(ValueError, match="'someone/captions': no text columns 'en' and 'fr'"):
        hub_splits("someone/captions", source="en", target="fr")


def test_an_unreachable_hub_is_one_plain_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(name: str) -> None:
        raise ConnectionError("Couldn't reach the hub\nsecond line")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=unreachable))
    with pytest.raises(ValueError, match=r"\(Couldn't reach the hub\); give a folder") as refused:
        hub_splits("someone/captions", **LANGUAGES)
    assert "\n" not in str(refused.value)
