"""Rows of which a rule cannot tell whether an attribute is not applicable, or was lost."""

import numpy as np
import pandas as pd
import pytest

from missdp import AllPairs, Categorical, Numeric, Schema, Table
from missdp.schema import NotApplicable
from missdp.synth import AIM


def survey(unless="smokes = 'yes'"):
    """Men smoke more often, and do not say so more often; no one under age has cigarettes."""
    rng, n = np.random.default_rng(0), 10_000
    male, old = rng.random(n) < 0.5, rng.random(n) < 0.7
    smokes = rng.random(n) < np.where(male, 0.4, 0.15) * np.where(old, 1.0, 0.4)
    applies = smokes & (old | ("age" not in unless))
    lost, told = rng.random((2, n)) < np.where(male, 0.3, 0.05), rng.random(n) < 0.9
    rows = pd.DataFrame(
        {
            "sex": np.where(male, "m", "f"),
            "age": np.where(told | ("age" not in unless), np.where(old, "old", "young"), None),
            "smokes": np.where(lost[0], None, np.where(smokes, "yes", "no")),
            "cigarettes": np.where(applies, rng.integers(1, 31, n).astype(object), None),
        }
    )
    rows.loc[rng.random(n) < 0.03, "cigarettes"] = -9
    schema = Schema(
        (
            Categorical(name="sex", levels=("f", "m")),
            Categorical(name="age", levels=("old", "young"), nullable=True),
            Categorical(name="smokes", levels=("no", "yes"), nullable=True),
            Numeric(
                name="cigarettes",
                lower=1,
                upper=40,
                edges=(1, 11, 21, 40),
                nullable=True,
                missing_codes=(-9,),
            ),
        ),
        (NotApplicable("cigarettes", unless=unless),),
    )
    return Table.read(rows, schema), smokes.mean(), smokes[male].mean(), applies.mean()


def shares(family, table, **parameters):
    drawn = family(epsilon=10, random_state=3, **parameters).fit(table).sample(20_000)
    smokes, male = drawn["smokes"] == "yes", drawn["sex"] == "m"
    return smokes.mean(), smokes[male].mean(), drawn["cigarettes"].notna().mean()


@pytest.mark.parametrize(
    ("family", "unless"), [(AllPairs, "smokes = 'yes'"), (AIM, "smokes = 'yes' and age = 'old'")]
)
def test_blanks_under_a_missing_condition_make_nobody_a_smoker(family, unless):
    table, *truth = survey(unless)
    assert shares(family, table, delta=1e-6) == pytest.approx(truth, abs=0.04)


def test_rows_with_holes_leave_open_what_the_private_ones_did():
    table, *_ = survey()
    model = AllPairs(epsilon=10, delta=1e-6, random_state=3).fit(table)
    drawn = model.sample_table(20_000, missing_values="keep", random_state=2)
    lost, hole = drawn.mask("smokes", "missing"), drawn.mask("cigarettes", "missing")
    assert lost.mean() == pytest.approx(table.mask("smokes", "missing").mean(), abs=0.01)
    assert hole.mean() == pytest.approx(table.mask("cigarettes", "missing").mean(), abs=0.02)
    assert not drawn.mask("cigarettes", "not_applicable")[lost].any()
    expected = table.mask("cigarettes", "missing")[table.mask("smokes", "missing")].mean()
    assert hole[lost].mean() == pytest.approx(expected, abs=0.05)
