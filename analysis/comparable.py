"""Which numbers may not stand in one column of a table."""

from typing import TYPE_CHECKING

import pandas as pd

from analysis.code_versions import check_code

if TYPE_CHECKING:
    from analysis.frames import StudyView

# Column that must hold one value in a table column -> axes that may make it differ on purpose.
COMPARABLE = {
    "signature": (),
    "budget.max_steps": ("budget.max_steps",),
    "steps": ("budget.max_steps", "variant.model"),
    "data.tokens_per_batch": ("data.tokens_per_batch",),
    "data.batch_size": ("data.batch_size",),
    "optim.accumulate": ("optim.accumulate",),
    "data_fingerprint": ("data.",),
    "tokenizer_hash": ("data.",),
}


def check_comparable(cells: pd.DataFrame, study: "StudyView") -> None:
    """Refuse signatures, budgets, data or code that differ among the finished cells of one column.

    A difference is allowed where the study varies it on purpose, as one of its axes; different code
    where the study says so, and where a record doesn't say which code it is of.

    Raises:
        ValueError: naming the column, two of its values and one run of each.
    """
    scored = cells[cells["value"].notna()]
    for column, wanted in COMPARABLE.items():
        on_purpose = any(axis.startswith(prefix) for axis in study.axes for prefix in wanted)
        if column not in scored.columns or on_purpose:
            continue
        first = scored[scored[column].notna()].drop_duplicates(column)
        if len(first) > 1:
            (run_a, a), (run_b, b) = first[["id", column]].head(2).itertuples(index=False)
            raise ValueError(
                f"{column} differs within one column of {study.name}: {a!r} (run {run_a}) and "
                f"{b!r} (run {run_b}); compare runs of one {column} only"
            )
    check_code(scored, study)
