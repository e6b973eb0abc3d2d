"""Parallel sentences from a small grammar, English to German.

Each English sentence has one German translation, and finding it takes what translation takes:
articles, adjectives and weak nouns agree in gender, number and case; the finite verb of a main
clause comes second whatever comes first, and last in a subordinate or relative clause; separable
prefixes, participles and infinitives close the clause, far from their verb.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from data import lexicon
from data.german import RELATIVE, Clause, Phrase, Text, determiner, join, noun_form
from data.lexicon import Noun, Verb

GENERATOR_VERSION = 1  # part of the data's fingerprint: raise it when any sentence changes
SPLITS = ("train", "validation", "test")
FRUITLESS = 2000  # draws in a row without a new sentence, after which there seem to be no more

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Frame:
    """What a group of verbs takes beside the subject: nouns and the German case they stand in."""

    verbs: tuple[Verb, ...]
    objects: tuple[tuple[tuple[Noun, ...], str], ...] = ()

    @property
    def words(self) -> int:
        """English words of the shortest clause."""
        return 3 + 2 * len(self.objects)


REPORT = Frame(lexicon.CLAUSE_TAKING)
FRAMES = (
    Frame(lexicon.INTRANSITIVE),
    Frame(lexicon.ACCUSATIVE_PEOPLE, ((lexicon.PEOPLE, "accusative"),)),
    Frame(lexicon.ACCUSATIVE_THINGS, ((lexicon.THINGS, "accusative"),)),
    Frame(lexicon.DATIVE, ((lexicon.PEOPLE, "dative"),)),
    Frame(lexicon.DITRANSITIVE, ((lexicon.PEOPLE, "dative"), (lexicon.THINGS, "accusative"))),
)


class Writer:
    """Draws sentences.

    Only `random()` is used: of the standard generator's methods it alone is promised to give the
    same numbers in every Python version.

    Args:
        seed: the same text gives the same sentences.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def pick(self, choices: Sequence[Choice]) -> Choice:
        """One of the choices, all alike."""
        return choices[int(self._random() * len(choices))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._random() < probability

    def sentence(self, words: int) -> Text:
        """A sentence of about so many English words, with its translation."""
        clauses = max(1, round(words / (6 + 6 * self._random())))
        share = words // clauses
        english, german, used = self._opening(share, clauses)
        for _ in range(clauses - used):
            next_english, next_german = self._continuation(share)
            english, german = f"{english} {next_english}", f"{german} {next_german}"
        return finish(re.sub(r"\ba (?=[aeiou])", "an ", english)), finish(german)

    def _opening(self, words: int, clauses: int) -> tuple[str, str, int]:
        """English, German and how many clauses they hold."""
        if clauses > 1 and self.chance(0.4):
            before, (when, wenn) = self._clause(words - 1), self.pick(lexicon.SUBORDINATORS)
            main = self._clause(words)
            english = f"{when} {before.english()} , {main.english()}"
            return english, f"{wenn} {before.german_last()} , {main.german_second(first='')}", 2
        if words > 6 and self.chance(0.2):
            matrix, said = self._fill(REPORT, words=3, depth=1), self._clause(words - 4)
            german = f"{matrix.german_second()} , dass {said.german_last()} ,"
            return f"{matrix.english()} that {said.english()}", german, 1
        clause = self._clause(words)
        if clause.adverb and self.chance(0.5):
            return clause.english(fronted=True), clause.german_second(first=clause.adverb[1]), 1
        return clause.english(), clause.german_second(), 1

    def _continuation(self, words: int) -> Text:
        clause = self._clause(words - 1)
        if self.chance(0.5):
            english, german = self.pick(lexicon.SUBORDINATORS)
            return f"{english} {clause.english()}", f", {german} {clause.german_last()} ,"
        if self.chance(0.3):
            return f", so {clause.english()}", f", deshalb {clause.german_second(first='')}"
        english, german = self.pick(lexicon.COORDINATORS)
        comma = ", " if english == "but" else ""
        return f"{comma}{english} {clause.english()}", f"{comma}{german} {clause.german_second()}"

    def _clause(self, words: int) -> Clause:
        fitting = [frame for frame in FRAMES if frame.words <= max(words, 3)]
        return self._fill(self.pick(fitting), words=words, depth=0)

    def _fill(self, frame: Frame, *, words: int, depth: int) -> Clause:
        """A clause of one frame; words left over go to adverb, place, adjectives, relative clauses.

        A clause inside another (`depth` 1) gets no adverb or place: either would seem to
        belong to the outer one.
        """
        tense = self.pick(("present", "present", "perfect", "modal"))
        left = words - frame.words - (tense == "modal")
        adverb = place = None
        if depth == 0 and left > 0 and self.chance(0.6):
            adverb, left = self.pick(lexicon.ADVERBS[tense]), left - 1
        if depth == 0 and left > 2 and self.chance(0.5):
            place, left = self._place(), left - 3
        phrases = []
        for nouns in (lexicon.PEOPLE, *(nouns for nouns, _ in frame.objects)):
            phrases.append(self._noun_phrase(nouns, extra=left, depth=depth))
            left -= len(phrases[-1].english.split()) - 2
        subject = self._pronoun() if self.chance(0.2) else phrases[0]
        return Clause(
            subject=subject,
            forms=subject.forms,
            verb=self.pick(frame.verbs),
            tense=tense,
            modal=self.pick(lexicon.MODALS) if tense == "modal" else None,
            objects=tuple(zip(phrases[1:], (case for _, case in frame.objects), strict=True)),
            adverb=adverb,
            place=place,
        )

    def _pronoun(self) -> Phrase:
        english, german, *forms = self.pick(lexicon.PRONOUNS)
        return Phrase(english, lambda case: german, (forms[0], forms[1]))

    def _place(self) -> Text:
        """A preposition and a place, with the usual contractions."""
        english, german, case = self.pick(lexicon.PREPOSITIONS)
        where = self._noun_phrase(lexicon.PLACES, extra=0, depth=1)
        text = f"{german} {where.german(case)} "
        for long, short in lexicon.CONTRACTIONS.items():
            text = text.replace(f"{long} ", f"{short} ") if text.startswith(f"{long} ") else text
        return f"{english} {where.english}", text.strip()

    def _noun_phrase(self, nouns: tuple[Noun, ...], *, extra: int, depth: int) -> Phrase:
        """A noun with its determiner and, if `extra` words are left, an adjective or a clause."""
        noun, number = self.pick(nouns), int(self.chance(0.3))
        the, stems, kind = self.pick(lexicon.DETERMINERS)
        forms = (0, 2) if number else (1, 1)
        gender = "p" if number else noun.gender
        old, alt, that, relative = "", "", "", ""
        if depth == 0 and extra > 3 and self.chance(0.5):
            that, relative = self._relative(nouns, gender, forms, words=min(extra, 8))
        elif extra > 0 and self.chance(0.6):
            old, alt = self.pick(lexicon.ADJECTIVES)

        def german(case: str) -> str:
            article, endings = determiner(stems[number], kind, gender, case)
            adjective = alt and alt + endings[gender][case]
            return join([article, adjective, noun_form(noun, number, case), relative])

        return Phrase(join([the[number], old, noun.english[number], that]), german, forms)

    def _relative(
        self, nouns: tuple[Noun, ...], gender: str, forms: tuple[int, int], *, words: int
    ) -> Text:
        """A clause about a noun: the noun is its subject, or one of its objects."""
        last_objects = [(frame, *frame.objects[-1]) for frame in FRAMES if frame.objects]
        roles = [(frame, case) for frame, kind, case in last_objects if kind is nouns]
        if nouns is lexicon.PEOPLE:
            roles += [(frame, "nominative") for frame in FRAMES]
        frame, case = self.pick([role for role in roles if role[0].words - 1 <= words])
        clause = self._fill(frame, words=words + 1, depth=1)
        if case == "nominative":
            clause = replace(clause, subject=None, forms=forms)
        clause = replace(clause, objects=tuple(item for item in clause.objects if item[1] != case))
        return f"that {clause.english()}", f", {RELATIVE[gender][case]} {clause.german_last()} ,"


def finish(text: str) -> str:
    """Capital letter, full stop, and one comma where clauses meet."""
    text = re.sub(r"\s*,(\s*,)*", ",", text).rstrip(", ")
    return f"{text[0].upper()}{text[1:]}."


def split_of(english: str) -> str:
    """The split a source sentence belongs to, whoever draws it: 8 in 10 are for training."""
    bucket = zlib.crc32(english.encode()) % 10
    return {8: "validation", 9: "test"}.get(bucket, "train")


def grammar_pairs(n: int, *, seed: int, min_words: int, max_words: int, split: str) -> list[Text]:
    """Different sentence pairs; no source sentence is in two splits, whatever the seeds.

    Args:
        n: how many.
        seed: the same arguments give the same pairs, and more of them begin with the same ones.
        min_words: fewest English words.
        max_words: most English words; lengths between are about equally common.
        split: `train`, `validation` or `test`.

    Raises:
        ValueError: The lengths do not allow that many different sentences.
    """
    writer = Writer(f"{seed}/{split}/{min_words}/{max_words}")
    pairs: dict[str, str] = {}
    fruitless = 0
    while len(pairs) < n:
        english, german = writer.sentence(writer.pick(range(min_words, max_words + 1)))
        fits = min_words <= english.count(" ") + 1 <= max_words and split_of(english) == split
        new = fits and english not in pairs
        fruitless = 0 if new else fruitless + 1
        if new:
            pairs[english] = german
        elif fruitless == FRUITLESS:
            raise ValueError(
                f"only {len(pairs)} of {n} different {split} sentences have {min_words} to"
                f" {max_words} words: ask for fewer, or allow more lengths"
            )
    return list(pairs.items())
