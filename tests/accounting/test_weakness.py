"""Guarantees that mean next to nothing warn, on declared and released facts only."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import MST, Budget, Numeric, Ordinal, Schema, Table
from missdp.accounting.guarantee import warn_if_weak
from missdp.errors import MissDPWarning, WeakGuaranteeWarning
from missdp.mechanisms import Noise
from missdp.mechanisms.session import Witness
from missdp.pricing import PricedPipeline, PrivateMean
from missdp.statistics import ImputedStatistics, KNNImputation

SCHEMA = Schema(
    (
        Ordinal(name="grade", levels=(1, 2, 3)),
        Numeric(name="income", lower=0, upper=100, bins=4, nullable=True),
    )
)


def table(rows=60):
    rng = np.random.default_rng(0)
    codes = {a.name: rng.integers(0, a.extended_size, rows) for a in SCHEMA}
    return Table.from_codes(SCHEMA, codes).with_values(rng)


@given(st.floats(0, 100), st.floats(0, 1), st.none() | st.integers(0, 10**9))
def test_exactly_the_weak_ones(epsilon, delta, n):
    weak = {"epsilon": epsilon > 10, "delta": n is not None and delta > 0 and delta * n >= 1}
    found = heard(lambda: warn_if_weak(epsilon, delta, n=n))
    assert found == [name for name, said in weak.items() if said]


def heard(act):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", WeakGuaranteeWarning)
        act()
    assert issubclass(WeakGuaranteeWarning, MissDPWarning)
    return [str(w.message).split(" = ")[0] for w in caught if w.category is WeakGuaranteeWarning]


class Seeming(Witness):
    """Answers of a table that seems to have so many times as many rows."""

    def __init__(self, times):
        super().__init__(0)
        self.times = times

    def answer(self, event, law, exact):
        found = super().answer(event, law, exact)
        return np.asarray(found) * self.times if isinstance(law, Noise) else found


@pytest.mark.parametrize(
    ("epsilon", "n", "released"), [(11.0, 40, True), (1.0, 4000, True), (1.0, 4000, False)]
)
def test_fits(epsilon, n, released):
    """The private table has 60 rows; what is declared or released may be anything."""
    witness = Seeming(n / 60 if released else 1)
    n_rows = "noisy" if released else n
    model = MST(epsilon=epsilon, delta=1e-3, n_rows=n_rows, random_state=witness)
    expected = ["epsilon"] * (epsilon > 10) + ["delta"] * (n >= 1000)
    assert heard(lambda: model.fit(table())) == expected


def test_a_warning_made_an_error_loses_no_release():
    budget = Budget(30.0, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakGuaranteeWarning)
        with pytest.raises(WeakGuaranteeWarning, match="epsilon"):
            MST(epsilon=11.0, delta=1e-3, budget=budget).fit(table())
        assert not budget.events
        model = MST(epsilon=1.0, delta=1e-3, budget=budget, random_state=Seeming(70))
        with pytest.raises(WeakGuaranteeWarning, match="delta"):
            model.fit(table())
        assert len(model.sample(5)) == 5  # paid for, and there
        asked = ImputedStatistics(
            table(), KNNImputation(impute="income", match_on="grade"), budget=Budget(20.0)
        )
        with pytest.raises(WeakGuaranteeWarning):
            asked.count(where="income > 5", epsilon=12.0)
        assert not asked.budget.events


def test_pipelines():
    rows = np.random.default_rng(0).random((50, 2))
    for delta, noise, expected in (
        (1e-6, 20.0, []),
        (0.02, 20.0, ["delta"]),
        (1e-6, 0.1, ["epsilon"]),
    ):
        estimator = PrivateMean(noise_multiplier=noise, delta=delta)
        pipeline = PricedPipeline([], estimator, rows=50, columns=2, delta=delta)
        assert heard(lambda fitted=pipeline: fitted.fit(rows)) == expected
        assert heard(lambda fitted=estimator: fitted.fit(rows)) == expected
