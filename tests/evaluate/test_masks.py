from __future__ import annotations

import numpy as np
import pandas as pd

from missdp import Categorical, Numeric, Schema, Table
from missdp.evaluate import MCAR, missing_mask, missing_patterns

SCHEMA = Schema(
    (
        Categorical(name="a", levels=("x", "y"), nullable=True),
        Numeric(name="n", lower=0, upper=10, nullable=True),
        Categorical(name="b", levels=("u", "v")),
    )
)
FRAME = pd.DataFrame(
    {
        "a": ["x", None, "y", None, None],
        "n": [1.0, 2.0, np.nan, np.nan, 9.0],
        "b": ["u", "v", "u", "v", "u"],
    }
)


def test_mask_and_patterns_match_pandas() -> None:
    table = Table.read(FRAME, SCHEMA)
    np.testing.assert_array_equal(missing_mask(table), FRAME.isna().to_numpy())
    patterns = missing_patterns(table)
    assert patterns == {("a",): 2, (): 1, ("n",): 1, ("a", "n"): 1}
    assert next(iter(patterns)) == ("a",)
    empty = Table.read(FRAME.iloc[:0], SCHEMA)
    assert missing_mask(empty).shape == (0, 3)
    assert missing_patterns(empty) == {}


def test_holes_hide_the_value_and_leave_the_others_alone() -> None:
    complete = Table.read(FRAME.iloc[:1], SCHEMA)
    rows = complete.take(np.zeros(200, dtype=int))
    holed = MCAR(rate=0.5, columns=("n",)).apply(rows, random_state=1)
    mask = holed.mask("n")
    assert 0 < mask.sum() < 200
    assert set(holed.values("n")[~mask]) == {1.0}
    assert set(holed.values("n")[mask]) == {0.0}  # the lower bound, not the hidden value
    np.testing.assert_array_equal(holed.codes("a"), rows.codes("a"))


def test_a_table_of_bins_only_can_have_holes() -> None:
    table = Table.from_codes(SCHEMA, {"a": [0] * 50, "n": [3] * 50, "b": [1] * 50})
    holed = MCAR(rate=0.5).apply(table, random_state=0)
    assert holed.schema.nullable == ("a", "n", "b")
    assert set(np.unique(holed.codes("n"))) == {3, 10}
