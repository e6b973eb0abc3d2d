"""The vocabulary: repeatable, complete, honest about what it does not know."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.batches import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from data.generators import grammar_pairs
from data.tokenization import Tokenizer, train_tokenizer, unknown_share

RARE = "Ein schöner 🐙 aß ½ ﬁ Łódź …"
WORDS = {"min_words": 4, "max_words": 12, "split": "train"}


@pytest.fixture(scope="module")
def lines() -> list[str]:
    pairs = grammar_pairs(200, seed=1, **WORDS)
    return [sentence for pair in pairs for sentence in pair]


@pytest.fixture(scope="module")
def tokenizer(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("vocabulary") / "small.model"
    return train_tokenizer([*lines, RARE], vocabulary_size=300, path=path)


def test_special_tokens_stand_where_the_batches_expect_them(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocabulary_size == 300
    assert tokenizer.decode([BOS_ID, EOS_ID, PAD_ID]) == ""
    assert not {PAD_ID, BOS_ID, EOS_ID} & set(tokenizer.encode("<pad> <s> </s> der Hund"))


def test_the_same_lines_give_the_same_bytes(lines: list[str], tmp_path: Path) -> None:
    """Twice, and once more with so many lines that a cap or a shuffle would show."""
    many = lines * 20
    hashes = {
        train_tokenizer(text, vocabulary_size=300, path=tmp_path / f"{number}.model").hash
        for number, text in enumerate((many, many, many))
    }
    assert len(hashes) == 1
    assert Tokenizer.load(tmp_path / "0.model").hash == hashes.pop()
    other = train_tokenizer(lines, vocabulary_size=301, path=tmp_path / "other.model")
    assert other.hash != Tokenizer.load(tmp_path / "0.model").hash


def test_the_hash_is_of_the_model_file(lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder.model"
    trained = train_tokenizer(lines, vocabulary_size=300, path=path)
    assert trained.hash == hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    assert [file.name for file in path.parent.iterdir()] == ["folder.model"]


def test_a_vocabulary_too_large_names_the_largest_which_then_works(
    lines: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"vocabulary_size=8000 .*at most \d+") as refused:
        train_tokenizer(lines, vocabulary_size=8000, path=tmp_path / "large.model")
    assert not (tmp_path / "large.model").exists()
    largest = int(str(refused.value).split("at most ")[1].split()[0])
    fits = train_tokenizer(lines, vocabulary_size=largest, path=tmp_path / "largest.model")
    assert fits.vocabulary_size == largest
    with pytest.raises(ValueError, match=f"at most {largest}"):
        train_tokenizer(lines, vocabulary_size=largest + 1, path=tmp_path / "larger.model")


def test_a_vocabulary_too_small_names_the_smallest(lines: list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"vocabulary_size=20 .*at least \d+") as refused:
        train_tokenizer(lines, vocabulary_size=20, path=tmp_path / "small.model")
    smallest = int(str(refused.value).split("at least ")[1].split()[0])
    train_tokenizer(lines, vocabulary_size=smallest, path=tmp_path / "small.model")


def test_every_character_of_the_training_text_is_known(tokenizer: Tokenizer) -> None:
    """Umlauts, an emoji and letters that occur once among thousands."""
    assert UNK_ID not in tokenizer.encode(RARE)
    assert tokenizer.decode(tokenizer.encode(RARE)) == RARE
    assert tokenizer.unknown_rate([RARE]) == 0.0


def test_a_character_never_seen_is_counted(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("der Ω Hund")
    assert ids.count(UNK_ID) == 1
    assert tokenizer.unknown_rate(["der Ω Hund"]) == pytest.approx(1 / len(ids))


def test_unknown_share_of_nothing_is_nothing() -> None:
    assert unknown_share([]) == 0.0
    assert unknown_share([[UNK_ID, 7], [8, 9]]) == 0.25


def test_text_survives_the_round_trip(lines: list[str], tokenizer: Tokenizer) -> None:
    assert [tokenizer.decode(tokenizer.encode(line)) for line in lines] == lines
    assert tokenizer.encode_lines(lines) == [tokenizer.encode(line) for line in lines]


@given(words=st.lists(st.text(alphabet="aäßDLmnor🐙Ł.,", min_size=1), max_size=8))
def test_any_text_of_known_characters_survives_but_for_spaces(
    tokenizer: Tokenizer, words: list[str]
) -> None:
    assert tokenizer.decode(tokenizer.encode("  ".join(words))) == " ".join(words)


def test_each_token_has_a_piece_of_the_text_and_a_name(tokenizer: Tokenizer) -> None:
    text = "der Hund 日本"
    pieces, ids = tokenizer.pieces(text), tokenizer.encode(text)
    assert len(pieces) == len(ids)
    assert "".join(pieces).replace("▁", " ").strip() == text
    assert tokenizer.names(ids)[:-1] == pieces[:-1]
    assert tokenizer.names([BOS_ID, EOS_ID, ids[-1]]) == ["<s>", "</s>", "<unk>"]
    assert tokenizer.pieces("") == tokenizer.names([]) == []
