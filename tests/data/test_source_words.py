"""Training on short sentences, and test sentences by the length of their source."""

from dataclasses import replace
from pathlib import Path

import pytest

from data.corpus import TranslationData
from data.parallel import count_words
from data.tokenized_pairs import load_corpus
from data.translation import TranslationDataModule


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def make(cache: Path, **options: object) -> TranslationDataModule:
    load_corpus.cache_clear()
    sizes = {"vocabulary_size": 200, "n_train": 300, "n_test": 60, "max_words": 16}
    return TranslationDataModule(TranslationData(**sizes | options), seed=1, cache_dir=cache)


def test_words_are_what_stands_between_white_space() -> None:
    assert count_words("A dog, well-fed,  barks.\tLoud!") == 5


def test_only_short_sources_are_trained_on_and_the_others_counted(cache: Path) -> None:
    whole, short = make(cache), make(cache, train_max_source_words=8)
    for name in ("train", "validation"):
        kept = [s for s in whole.sources(name) if count_words(s) <= 8]
        assert short.sources(name) == kept
        dropped = short.report["splits"][name]["dropped"]
        assert dropped["long_source"] == len(whole.sources(name)) - len(kept) > 0
    assert max(count_words(source) for source in short.sources("train")) == 8
    seen = [i for batch in short.train_dataloader() for i in batch.indices.tolist()]
    assert sorted(seen) == list(range(len(short.sources("train"))))


def test_test_splits_and_vocabulary_stay_whole(cache: Path) -> None:
    whole, short = make(cache), make(cache, train_max_source_words=8)
    assert short.sources("test") == whole.sources("test")
    assert short.tokenizer.hash == whole.tokenizer.hash
    assert "long_source" not in short.report["splits"]["test"]["dropped"]
    assert "long_source" not in whole.report["splits"]["train"]["dropped"]


def test_a_limit_below_every_sentence_is_refused(cache: Path) -> None:
    with pytest.raises(ValueError, match=r"train_max_source_words=3: every source of train is"):
        make(cache, train_max_source_words=3).setup()


def test_every_test_sentence_is_in_one_bucket_and_counted(cache: Path) -> None:
    module = make(cache, train_max_source_words=6, eval_source_words="1x 2x")
    found = module.source_buckets("test")
    words = [count_words(source) for source in module.sources("test")]
    assert list(found) == [6, 12, max(words)]
    assert sorted(row for rows in found.values() for row in rows) == list(range(60))
    assert {words[row] for row in found[12]} <= set(range(7, 13))
    counts = module.report["splits"]["test"]["by_source_words"]
    assert counts == {str(bound): len(rows) for bound, rows in found.items()}
    assert module.source_buckets("train") == {}
    assert "by_source_words" not in module.report["splits"]["train"]


def test_without_bounds_there_are_no_buckets(cache: Path) -> None:
    module = make(cache)
    assert module.source_buckets("test") == {}
    assert "by_source_words" not in module.report["splits"]["test"]


def test_some_rows_are_loaded_in_the_order_asked_for(cache: Path) -> None:
    module = make(cache)
    rows = [17, 3, 40]
    read = {}
    for batch in module.test_dataloader("test", rows):
        for position, ids in zip(batch.indices.tolist(), batch.source, strict=True):
            read[position] = module.tokenizer.decode([i for i in ids.tolist() if i > 3])
    assert [read[i] for i in range(3)] == [module.sources("test")[row] for row in rows]


def test_the_longest_sentence_of_some_rows(cache: Path) -> None:
    module = make(cache)
    encode = module.tokenizer.encode_lines
    sides = zip(encode(module.sources("test")), encode(module.references("test")), strict=True)
    lengths = [max(len(source), len(target)) + 1 for source, target in sides]
    assert module.longest_sentence("test") == max(lengths)
    assert module.longest_sentence("test", [4]) == lengths[4]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"train_max_source_words": -1}, r"train_max_source_words=-1 is too small: at least 0"),
        ({"eval_source_words": "1x 2x"}, r"'1x 2x': 1x is a multiple of the trained length, and"),
        ({"eval_source_words": "12,8"}, r"eval_source_words='12,8': each length ends a bucket"),
        ({"eval_source_words": "8,ten"}, r"'ten' is neither a whole number"),
    ],
)
def test_what_is_no_bucket_is_refused_at_once(options: dict, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        replace(TranslationData(), **options)
