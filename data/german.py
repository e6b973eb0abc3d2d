"""Inflection and word order of the English-German grammar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from data.lexicon import AUXILIARIES, Noun, Verb

Text = tuple[str, str]  # English, German
CASES = ("nominative", "accusative", "dative", "genitive")

Endings = dict[str, dict[str, str]]  # by gender (`p` is the plural) and case


def _endings(**rows: str) -> Endings:
    """Endings in the order of CASES, one space between: two in a row enclose an empty one."""
    return {gender: dict(zip(CASES, row.split(" "), strict=True)) for gender, row in rows.items()}


DEFINITE = _endings(
    m="der den dem des", f="die die der der", n="das das dem des", p="die die den der"
)
DIESER = _endings(m="er en em es", f="e e er er", n="es es em es", p="e e en er")
EIN = _endings(m=" en em es", f="e e er er", n="  em es", p="e e en er")
WEAK = _endings(m="e en en en", f="e e en en", n="e e en en", p="en en en en")
MIXED = _endings(m="er en en en", f="e e en en", n="es es en en", p="en en en en")
STRONG_PLURAL = _endings(p="e e en er")
RELATIVE = DEFINITE | _endings(p="die die denen deren")


@dataclass(frozen=True)
class Phrase:
    """A noun phrase or pronoun: its English, its German in every case, its person.

    Attributes:
        forms: indices of the English and the German verb form that agree with it.
    """

    english: str
    german: Callable[[str], str]
    forms: tuple[int, int]


def determiner(stem: str, kind: str, gender: str, case: str) -> tuple[str, Endings]:
    """The German determiner and the endings an adjective takes after it."""
    if kind == "der":
        return DEFINITE[gender][case], WEAK
    if kind == "dieser":
        return stem + DIESER[gender][case], WEAK
    if not stem:
        return "", STRONG_PLURAL
    return stem + EIN[gender][case], MIXED


def noun_form(noun: Noun, number: int, case: str) -> str:
    """The German noun in a case; number 0 is the singular, 1 the plural."""
    if number == 1:
        plural = noun.german[1]
        return plural + "n" if case == "dative" and plural[-1] not in "ns" else plural
    weak = noun.gender == "m" and not noun.genitive.endswith("s")
    changes = case == "genitive" or (weak and case != "nominative")
    return noun.genitive if changes else noun.german[0]


@dataclass(frozen=True)
class Clause:
    """A clause with its words chosen and their order open.

    Attributes:
        subject: `None` in a relative clause about the subject.
        forms: verb forms of the subject, given or not.
        objects: each with the German case the verb asks of it.
        modal: present for the tense `modal` only.
    """

    subject: Phrase | None
    forms: tuple[int, int]
    verb: Verb
    tense: str
    modal: Verb | None
    objects: tuple[tuple[Phrase, str], ...]
    adverb: Text | None
    place: Text | None

    def english(self, *, fronted: bool = False) -> str:
        """Subject, verb, objects, place; the adverb first when `fronted`, else last."""
        adverb = self.adverb[0] if self.adverb else ""
        words = [
            adverb if fronted else "",
            self.subject.english if self.subject else "",
            self._english_verb(),
            *(phrase.english for phrase, _ in self.objects),
            self.place[0] if self.place else "",
            "" if fronted else adverb,
        ]
        return join(words)

    def _english_verb(self) -> str:
        if self.modal:
            return f"{self.modal.english[self.forms[0]]} {self.verb.english[0]}"
        return self.verb.english[2 if self.tense == "perfect" else self.forms[0]]

    def german_second(self, *, first: str | None = None) -> str:
        """Main clause, the finite verb second: after the subject, or after `first` if not `None`.

        An empty `first` is one said already, such as a fronted subordinate clause.
        """
        finite, closing = self._german_verb()
        subject = self._german_subject()
        opening = [subject, finite] if first is None else [first, finite, subject]
        adverb = "" if self.adverb is None or first == self.adverb[1] else self.adverb[1]
        return join([*opening, adverb, *self._german_rest(), closing])

    def german_last(self) -> str:
        """Subordinate clause, the finite verb last, its prefix joined to it."""
        finite, closing = self._german_verb()
        bracket = f"{closing}{finite}" if self.tense == "present" else f"{closing} {finite}"
        adverb = self.adverb[1] if self.adverb else ""
        return join([self._german_subject(), adverb, *self._german_rest(), bracket])

    def _german_verb(self) -> Text:
        """The finite form, and what closes the clause: prefix, participle or infinitive."""
        form = self.forms[1]
        prefix, verb = self.verb.prefix, self.verb.german
        if self.modal:
            return self.modal.german[form], prefix + verb[2]
        if self.tense == "perfect":
            return AUXILIARIES[self.verb.auxiliary][form], prefix + verb[3]
        return verb[form], prefix

    def _german_subject(self) -> str:
        return self.subject.german("nominative") if self.subject else ""

    def _german_rest(self) -> list[str]:
        objects = [phrase.german(case) for phrase, case in self.objects]
        return [*objects, self.place[1] if self.place else ""]


def join(words: Sequence[str]) -> str:
    """The words that are there, with spaces between."""
    return " ".join(word for word in words if word)
