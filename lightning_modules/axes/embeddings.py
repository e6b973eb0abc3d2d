"""Axes of the token embeddings: their scale, and which tables are one."""

import math
from collections.abc import Callable

from torch import Tensor, nn

from lightning_modules.axis import Axis, Level


class TokenTable(nn.Module):
    """A vector for each token, to read tokens with or to score them.

    Args:
        vocabulary_size: rows.
        d_model: width outside.
        rank: width of the rows, mapped to `d_model` (Lan et al. 2020, section 3.1); 0 is `d_model`.
    """

    def __init__(self, vocabulary_size: int, d_model: int, *, rank: int = 0) -> None:
        super().__init__()
        width = rank or d_model
        self.rows = nn.Embedding(vocabulary_size, width)
        nn.init.normal_(self.rows.weight, std=d_model**-0.5)
        self.wider = nn.Linear(rank, d_model, bias=False) if rank else None
        if self.wider is not None:
            nn.init.normal_(self.wider.weight, std=rank**-0.5)

    def read(self, tokens: Tensor) -> Tensor:
        """Token ids `(batch, length)` to vectors `(batch, length, d_model)`."""
        rows = self.rows(tokens)
        return rows if self.wider is None else self.wider(rows)

    def narrow(self, states: Tensor) -> Tensor:
        """States `(…, d_model)` at the width of the rows, `(…, width)`, to score tokens with."""
        return states if self.wider is None else states @ self.wider.weight


def _sqrt_d_model(d_model: int) -> float:
    return math.sqrt(d_model)


class EmbeddingScale(Axis):
    """The factor on token vectors before positions are added: `level(d_model) -> float`."""

    sqrt_d_model = Level(
        _sqrt_d_model, "brings vectors to the size of the positions", "Vaswani et al. 2017, 3.4"
    )
    none = Level(
        lambda d_model: 1.0, "vectors as they stand in the table", "Devlin et al. 2019, code"
    )


Tables = tuple[TokenTable, TokenTable, TokenTable]


def _one_table(make: Callable[[], TokenTable]) -> Tables:
    table = make()
    return table, table, table


def _two_tables(make: Callable[[], TokenTable]) -> Tables:
    source, target = make(), make()
    return source, target, target


def _three_tables(make: Callable[[], TokenTable]) -> Tables:
    return make(), make(), make()


class EmbeddingTying(Axis):
    """Which tables are one: `level(make) -> (source, target, output)`.

    A model without a source uses the other two.
    """

    all = Level(
        _one_table, "one table for source, target and output", "Press & Wolf 2017; Vaswani, 3.4"
    )
    output = Level(
        _two_tables, "target and output share a table, the source has its own", "Press & Wolf 2017"
    )
    none = Level(_three_tables, "three tables", "Press & Wolf 2017, baseline")
