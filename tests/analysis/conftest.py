import pandas as pd
import pytest

from analysis.frames import StudyView
from tests.analysis.ledgers import AXES, ledger_frame, one_factor_cells, planted, view


@pytest.fixture
def small_study() -> tuple[pd.DataFrame, StudyView]:
    """Eight seeds, post-norm planted 2 BLEU worse, rope 1 better, the rest without effect."""
    expected = one_factor_cells(AXES, list(range(1, 9)))
    effects = {("design.norm_position", "post"): -2.0, ("design.position", "rope"): 1.0}
    return ledger_frame(expected, planted(effects)), view(expected)
