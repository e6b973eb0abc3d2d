"""The grammar: agreement and word order by hand-written examples, and sentences by the thousand."""

import hashlib

import pytest

from data import generators, lexicon
from data.generators import GENERATOR_VERSION, SPLITS, Writer, finish, grammar_pairs, split_of
from data.german import Clause, Phrase, determiner, noun_form
from data.lexicon import Noun, Verb

ALL_VERBS = (
    *lexicon.INTRANSITIVE,
    *lexicon.ACCUSATIVE_PEOPLE,
    *lexicon.ACCUSATIVE_THINGS,
    *lexicon.DATIVE,
    *lexicon.DITRANSITIVE,
)
WORDS = {"min_words": 4, "max_words": 16}


def noun(english: str) -> Noun:
    nouns = (*lexicon.PEOPLE, *lexicon.THINGS, *lexicon.PLACES)
    return next(noun for noun in nouns if noun.english[0] == english)


def verb(english: str) -> Verb:
    return next(verb for verb in ALL_VERBS if verb.english[0] == english)


def german(english: str, case: str, *, stem: str, kind: str, plural: bool = False) -> str:
    """A noun phrase with the adjective `alt`."""
    word = noun(english)
    gender = "p" if plural else word.gender
    article, endings = determiner(stem, kind, gender, case)
    return f"{article} alt{endings[gender][case]} {noun_form(word, int(plural), case)}".strip()


@pytest.mark.parametrize(
    ("english", "stem", "kind", "plural", "expected"),
    [
        (
            "man",
            "",
            "der",
            False,
            ["der alte Mann", "den alten Mann", "dem alten Mann", "des alten Mannes"],
        ),
        (
            "boy",
            "ein",
            "ein",
            False,
            ["ein alter Junge", "einen alten Jungen", "einem alten Jungen", "eines alten Jungen"],
        ),
        (
            "woman",
            "dies",
            "dieser",
            False,
            ["diese alte Frau", "diese alte Frau", "dieser alten Frau", "dieser alten Frau"],
        ),
        (
            "book",
            "kein",
            "ein",
            False,
            ["kein altes Buch", "kein altes Buch", "keinem alten Buch", "keines alten Buches"],
        ),
        (
            "child",
            "",
            "ein",
            True,
            ["alte Kinder", "alte Kinder", "alten Kindern", "alter Kinder"],
        ),
        (
            "tree",
            "",
            "der",
            True,
            ["die alten Bäume", "die alten Bäume", "den alten Bäumen", "der alten Bäume"],
        ),
    ],
)
def test_a_noun_phrase_agrees(
    english: str, stem: str, kind: str, plural: bool, expected: list[str]
) -> None:
    cases = ("nominative", "accusative", "dative", "genitive")
    forms = [german(english, case, stem=stem, kind=kind, plural=plural) for case in cases]
    assert forms == expected


def fixed(english: str, forms: dict[str, str], numbers: tuple[int, int] = (1, 1)) -> Phrase:
    return Phrase(english, forms.__getitem__, numbers)


MAN = fixed("the man", {"nominative": "der Mann"})
DOG = fixed("the dog", {"accusative": "den Hund", "dative": "dem Hund"})
TODAY = ("today", "heute")


def clause(name: str, case: str, tense: str, **changes) -> Clause:
    parts = {
        "subject": MAN,
        "forms": (1, 1),
        "verb": verb(name),
        "tense": tense,
        "modal": lexicon.MODALS[0] if tense == "modal" else None,
        "objects": ((DOG, case),),
        "adverb": TODAY,
        "place": None,
    }
    return Clause(**parts | changes)


def test_the_verb_comes_second_whatever_comes_first() -> None:
    said = clause("call", "accusative", "present")
    assert said.english() == "the man calls the dog today"
    assert said.german_second() == "der Mann ruft heute den Hund an"
    assert said.english(fronted=True) == "today the man calls the dog"
    assert said.german_second(first="heute") == "heute ruft der Mann den Hund an"
    assert said.german_second(first="") == "ruft der Mann heute den Hund an"


def test_the_verb_comes_last_in_a_subordinate_clause() -> None:
    said = clause("call", "accusative", "present")
    assert said.german_last() == "der Mann heute den Hund anruft"
    assert clause("see", "accusative", "perfect").german_last() == (
        "der Mann heute den Hund gesehen hat"
    )
    assert clause("listen to", "dative", "modal").german_last() == (
        "der Mann heute dem Hund zuhören kann"
    )


def test_participles_and_infinitives_close_the_main_clause() -> None:
    followed = clause("follow", "dative", "perfect")
    assert followed.english() == "the man followed the dog today"
    assert followed.german_second() == "der Mann ist heute dem Hund gefolgt"
    assert clause("call", "accusative", "perfect").german_second() == (
        "der Mann hat heute den Hund angerufen"
    )
    assert clause("call", "accusative", "modal").german_second() == (
        "der Mann kann heute den Hund anrufen"
    )


def test_verbs_agree_with_their_subject() -> None:
    men = fixed("the men", {"nominative": "die Männer"}, (0, 2))
    said = clause("help", "dative", "present", subject=men, forms=men.forms, adverb=None)
    assert said.english() == "the men help the dog"
    assert said.german_second() == "die Männer helfen dem Hund"


def test_commas_meet_and_sentences_end() -> None:
    assert finish("der Mann , der , schläft , , singt ,") == "Der Mann, der, schläft, singt."


def test_each_english_verb_form_has_one_reading() -> None:
    """A past that looks like a present would leave the German tense to chance."""
    for entry in ALL_VERBS:
        assert len(set(entry.english)) == 3, entry


def test_no_english_sentence_has_two_translations() -> None:
    seen: dict[str, str] = {}
    writer = Writer("ambiguity")
    for _ in range(4000):
        english, german = writer.sentence(4)
        assert seen.setdefault(english, german) == german


def test_sentences_are_well_formed() -> None:
    for english, german in grammar_pairs(500, seed=2, split="train", **WORDS):
        for text in (english, german):
            assert text[0].isupper()
            assert text.endswith(".")
            assert "  " not in text
            assert " ," not in text
            assert ",," not in text


def test_structures_that_need_order_are_common() -> None:
    pairs = grammar_pairs(1000, seed=2, split="train", **WORDS)
    assert sum(", " in german for _, german in pairs) > 300
    assert sum(" that " in english for english, _ in pairs) > 100
    openings = [english.split()[0] for english, _ in pairs]
    fronted = {"Today", "Yesterday", "Soon", "Tomorrow", "Often", "Because", "Although", "If"}
    assert sum(word in fronted for word in openings) > 100


@pytest.mark.parametrize(("shortest", "longest"), [(4, 16), (3, 5), (30, 60)])
def test_lengths_are_kept_and_spread(shortest: int, longest: int) -> None:
    pairs = grammar_pairs(60, seed=3, min_words=shortest, max_words=longest, split="test")
    counts = [len(english.split()) for english, _ in pairs]
    assert min(counts) >= shortest
    assert max(counts) <= longest
    assert max(counts) - min(counts) >= 0.6 * (longest - shortest)


def test_splits_share_no_source_sentence_whatever_their_seeds() -> None:
    written = {
        split: {english for english, _ in grammar_pairs(200, seed=seed, split=split, **WORDS)}
        for seed, split in enumerate(SPLITS)
    }
    assert all(len(sentences) == 200 for sentences in written.values())
    assert not written["train"] & written["validation"]
    assert not written["train"] & written["test"]
    assert not written["validation"] & written["test"]
    assert {split_of(english) for english in written["test"]} == {"test"}


def test_the_same_arguments_give_the_same_pairs() -> None:
    first = grammar_pairs(100, seed=4, split="train", **WORDS)
    assert first == grammar_pairs(100, seed=4, split="train", **WORDS)
    assert first == grammar_pairs(150, seed=4, split="train", **WORDS)[:100]
    assert first != grammar_pairs(100, seed=5, split="train", **WORDS)


def test_a_changed_grammar_has_a_new_version() -> None:
    """When this fails because sentences changed on purpose, raise GENERATOR_VERSION as well."""
    text = str(grammar_pairs(300, seed=0, split="train", **WORDS))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert (GENERATOR_VERSION, digest) == (1, "51534b2a9b7a8c34")


def test_more_sentences_than_there_are_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "FRUITLESS", 20)
    with pytest.raises(
        ValueError, match=r"only \d+ of 100000 different test sentences have 3 to 3"
    ):
        grammar_pairs(100_000, seed=0, min_words=3, max_words=3, split="test")
