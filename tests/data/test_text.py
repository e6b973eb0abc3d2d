"""The choice of a text: checks, splits by position, fingerprint."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.batches import EOS_ID, UNK_ID
from data.text import TextData, _grammar_text, evaluation_mode, fingerprint, load_text, validate
from data.text import test_lengths as lengths_of
from data.text_vocabulary import FIRST_CHARACTER_ID, Characters, Subwords
from data.tokenization import train_tokenizer

LETTERS = "ab \n\té🐙Ω\u2028"
TEXT = "".join(f"line {number} of many.\n" for number in range(200))


@pytest.fixture
def data(tmp_path: Path) -> TextData:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, newline="")
    return TextData(path=str(path), context_length=16, eval_lengths="1x 2x")


def test_a_file_is_split_by_position(data: TextData) -> None:
    texts = load_text(data)
    assert list(texts) == ["train", "validation", "test"]
    assert "".join(texts.values()) == TEXT
    shares = [len(text) / len(TEXT) for text in texts.values()]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.001)


def test_built_in_text_has_no_sentence_in_two_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = {"train": 300, "validation": 40, "test": 40}
    monkeypatch.setattr("data.text.GRAMMAR_SENTENCES", sentences)
    _grammar_text.cache_clear()
    texts = load_text(TextData())
    _grammar_text.cache_clear()
    lines = {name: set(text.splitlines()) for name, text in texts.items()}
    assert {name: len(found) for name, found in lines.items()} == sentences
    assert not lines["train"] & (lines["validation"] | lines["test"])
    assert not lines["validation"] & lines["test"]


def test_line_ends_become_line_feeds_and_nothing_else_changes(data: TextData) -> None:
    path = Path(data.path)
    clean = load_text(data)
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert load_text(data) == clean
    path.write_text(TEXT.replace(" of ", "\r of\t"), newline="")
    assert "".join(load_text(data).values()) == TEXT.replace(" of ", "  of\t")


def test_the_fingerprint_is_that_of_the_content(data: TextData, tmp_path: Path) -> None:
    first = fingerprint(data)
    packed = tmp_path / "elsewhere.txt.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    assert fingerprint(replace(data, path=str(packed))) == first
    assert load_text(replace(data, path=str(packed))) == load_text(data)
    Path(data.path).write_text(TEXT + "more")
    assert len({first, fingerprint(data), fingerprint(TextData())}) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"context_length": 1}, r"data\.context_length=1 is too small: at least 2"),
        ({"vocabulary_size": 3}, r"data\.vocabulary_size=3 is too small: at least 5, or 0 for"),
        ({"vocabulary_size": -1}, r"data\.vocabulary_size=-1 is too small"),
        ({"tokens_per_batch": 63}, r"data\.tokens_per_batch=63 is too small: at least 64"),
        ({"eval_stride": -1}, r"data\.eval_stride=-1 is too small"),
        ({"eval_stride": 65}, r"data\.eval_stride=65 is longer than a window"),
        ({"eval_lengths": "16", "eval_stride": 32}, r"eval_lengths='16', so tokens between"),
        ({"eval_lengths": "1x, 2y"}, r"'2y' is neither"),
        ({"continuation_lengths": "long"}, r"data\.continuation_lengths='long': 'long' is neither"),
        ({"n_prompts": -1}, r"data\.n_prompts=-1 is too small: at least 0"),
        ({"prompt_length": 0}, r"data\.prompt_length=0 is too small: at least 1"),
    ],
)
def test_senseless_settings_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        replace(TextData(), **changes)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_read_is_refused(data: TextData, tmp_path: Path) -> None:
    missing = replace(data, path=str(tmp_path / "none.txt"))
    for look in (validate, fingerprint):
        with pytest.raises(ValueError, match=r"none\.txt' is no file; leave it empty"):
            look(missing)
    with pytest.raises(ValueError, match=r"the validation split has \d+ characters, fewer than"):
        validate(replace(data, eval_lengths="1000"))
    Path(data.path).write_bytes(b"good\nb\xe4d\n")
    with pytest.raises(ValueError, match=r"text\.txt, line 2: not UTF-8 \(byte 0xe4\)"):
        validate(data)


def test_lengths_and_mode_are_stated() -> None:
    assert lengths_of(TextData()) == (64, 128, 256, 512)
    assert evaluation_mode(TextData()) == "non-overlapping windows"
    assert evaluation_mode(TextData(eval_stride=8)) == "sliding windows, stride 8"


@given(st.text(LETTERS, min_size=1), st.text(LETTERS))
def test_characters_go_round(known: str, other: str) -> None:
    vocabulary = Characters(known)
    assert vocabulary.decode(vocabulary.encode(known)) == known
    assert max(vocabulary.encode(known)) == vocabulary.vocabulary_size - 1
    ids = vocabulary.encode(other)
    assert [token == UNK_ID for token in ids] == [letter not in known for letter in other]


def test_characters_by_hand() -> None:
    vocabulary = Characters("b\na")
    assert vocabulary.encode("ab\nc") == [
        FIRST_CHARACTER_ID + 1,
        FIRST_CHARACTER_ID + 2,
        FIRST_CHARACTER_ID,
        UNK_ID,
    ]
    assert Characters("b\na").hash != Characters("b\nac").hash


def test_subwords_keep_line_ends(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXT.split("\n"), vocabulary_size=60, path=tmp_path / "x.model")
    vocabulary = Subwords(tokenizer)
    for text in ("line 1\n\nline 2", "line 1\n", "\nline", "line"):
        ids = vocabulary.encode(text)
        assert ids.count(EOS_ID) == text.count("\n")
        assert vocabulary.decode(ids) == text
    assert (vocabulary.vocabulary_size, vocabulary.hash) == (60, tokenizer.hash)


def test_tokens_of_text_have_names(tmp_path: Path) -> None:
    characters = Characters(LETTERS)
    assert characters.names([1, *characters.encode(f"{LETTERS}x")]) == ["<s>", *LETTERS, "<unk>"]
    tokenizer = train_tokenizer(TEXT.split("\n"), vocabulary_size=60, path=tmp_path / "x.model")
    names = Subwords(tokenizer).names(Subwords(tokenizer).encode("line 1\nmany"))
    assert names.count("</s>") == 1
    assert "".join(names).replace("▁", " ").replace("</s>", "\n") == " line 1\n many"
