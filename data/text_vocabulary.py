"""Vocabularies of running text: single characters, or subwords of lines."""

from __future__ import annotations

import hashlib

from data.batches import EOS_ID, SPECIAL_NAMES, UNK_ID
from data.tokenization import Tokenizer

FIRST_CHARACTER_ID = UNK_ID + 1


class Characters:
    """A vocabulary of single characters, in the order of their code points.

    Args:
        text: its characters are the vocabulary.
    """

    def __init__(self, text: str) -> None:
        self._characters = sorted(set(text))
        self._ids = {
            character: FIRST_CHARACTER_ID + i for i, character in enumerate(self._characters)
        }
        self.hash = hashlib.sha256("".join(self._characters).encode()).hexdigest()[:16]

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens, the four special ones included."""
        return FIRST_CHARACTER_ID + len(self._characters)

    def encode(self, text: str) -> list[int]:
        """Token ids, line ends included; a character never seen becomes `UNK_ID`."""
        return [self._ids.get(character, UNK_ID) for character in text]

    def decode(self, ids: list[int]) -> str:
        """The text of token ids; special tokens vanish."""
        first = FIRST_CHARACTER_ID
        return "".join(self._characters[token - first] for token in ids if token >= first)

    def names(self, ids: list[int]) -> list[str]:
        """Each token as its character, special ones as `<s>`."""
        return [SPECIAL_NAMES.get(token) or self.decode([token]) for token in ids]


class Subwords:
    """A subword vocabulary for running text: `</s>` stands for a line end.

    Args:
        tokenizer: reads the lines.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.hash = tokenizer.hash
        self.vocabulary_size = tokenizer.vocabulary_size

    def encode(self, text: str) -> list[int]:
        """Token ids; a character never seen becomes `UNK_ID`, repeated spaces become one."""
        lines = self._tokenizer.encode_lines(text.split("\n"))
        return [token for line in lines for token in (*line, EOS_ID)][:-1]

    def decode(self, ids: list[int]) -> str:
        """The text of token ids; the other special tokens vanish."""
        lines: list[list[int]] = [[]]
        for token in ids:
            if token == EOS_ID:
                lines.append([])
            else:
                lines[-1].append(token)
        return "\n".join(map(self._tokenizer.decode, lines))

    def names(self, ids: list[int]) -> list[str]:
        """How the vocabulary writes each token, a line end as `</s>`."""
        return self._tokenizer.names(ids)
