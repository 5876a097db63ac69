"""Figure 1 and Example 5.1 of Mohapatra et al. (2024): one row of the truth, many incomplete rows.

    python bench/papers/a_figure1.py           # a second

A mechanism hides every income at the maximum of the column. Two tables that differ in one person's
income then differ in more rows after the values went missing. A guarantee for the incomplete table
therefore implies little about the truth. Missingness that is drawn independently for each row
changes one row only (Theorem 5.2). This library states ground-truth guarantees only for independent
rows.
"""

import sys

import numpy as np
from a_shared import Claim, claims_table, options

from missdp import Numeric, PrivBayes, Schema, Table
from missdp.accounting import RowIndependentMissingness
from missdp.errors import UnprovenError

ROWS = 200


def hidden_at_the_top(incomes):
    """Return the incomes with NaN in place of the largest."""
    return np.where(incomes == incomes.max(), np.nan, incomes)


def rows_that_differ(one, two):
    """Return the number of rows in which two columns differ. A missing cell is a value."""
    return int((~((one == two) | (np.isnan(one) & np.isnan(two)))).sum())


def differing_rows():
    """Return rows that differ before and after values went missing."""
    incomes = np.where(np.arange(ROWS) % 10 == 0, 80.0, 40.0)
    neighbour = incomes.copy()
    incomes[-1], neighbour[-1] = 100.0, 80.0
    after = rows_that_differ(hidden_at_the_top(incomes), hidden_at_the_top(neighbour))
    return rows_that_differ(incomes, neighbour), after


def stated():
    """Return the ground-truth epsilon without an assumption (None: refused) and with one."""
    schema = Schema((Numeric(name="income", lower=0, upper=120, bins=6, nullable=True),))
    codes = {"income": np.arange(ROWS) % 7}
    model = PrivBayes(epsilon=1.0, delta=0.0, random_state=0).fit(Table.from_codes(schema, codes))
    try:
        epsilon = model.ground_truth_guarantee(None).epsilon
    except UnprovenError:
        epsilon = None
    return epsilon, model.ground_truth_guarantee(RowIndependentMissingness()).epsilon


def claims():
    before, after = differing_rows()
    yield Claim(
        "one changed income changes more than one row of the incomplete table",
        f"{before} row of the truth differs, and {after} of {ROWS} after the values went missing",
        after > before == 1,
    )
    without, independent = stated()
    yield Claim(
        "epsilon carries over if each row loses its values independently (Theorem 5.2)",
        ("no epsilon without that assumption" if without is None else f"{without:g}")
        + f", and an unchanged epsilon of {independent:.6g} with it",
        without is None and independent <= 1.0,
    )


def page(measured=None):  # noqa: ARG001
    return claims_table(claims())


def main(argv=None):
    options(__doc__, argv)
    print("\n".join(page()))


if __name__ == "__main__":
    sys.exit(main())
