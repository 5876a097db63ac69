"""Rows are looked at in parts, ranks take little room: answers are those of all rows at once."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import Budget, Categorical, Numeric, Ordinal, Schema, Table, shelf
from missdp.mechanisms.private_rows import ranks
from missdp.schema import NotApplicable
from missdp.statistics import CompleteRows, ImputedStatistics, KNNImputation, rings

PLAIN = Schema(
    (
        Ordinal(name="grade", levels=(1, 2, 3), nullable=True),
        Numeric(name="income", lower=0, upper=100, bins=8, nullable=True),
        Categorical(name="c", levels=("u", "v"), nullable=True),
        Categorical(name="work", levels=("no", "yes")),
    )
)
ROUTED = Schema(PLAIN.attributes, rules=(NotApplicable("income", unless="work = 'yes'"),))


def table(schema, n=700, seed=0):
    rng = np.random.default_rng(seed)
    return Table.read(
        pd.DataFrame(
            {
                "grade": rng.choice(np.array([1, 2, 3, None]), n, p=[0.6, 0.3, 0.05, 0.05]),
                "income": np.where(rng.random(n) < 0.3, np.nan, rng.random(n) * 100),
                "c": rng.choice(np.array(["u", "v", None]), n),
                "work": rng.choice(["no", "yes"], n),
            }
        ),
        schema,
    )


def answers(schema, imputation):
    asked = ImputedStatistics(
        table(schema), imputation, budget=Budget(100.0), random_state=7
    )  # fmt: skip
    return [
        asked.mean("income", where="c = 'u'", epsilon=1.0).value,
        asked.count(where="income > 50", epsilon=1.0).value,
        asked.variance("income", epsilon=1.0).value,
        asked.histogram("income", epsilon=1.0).values,  # noqa: PD011
        asked.mean("income", epsilon=1.0, uncertainty="worst-case").imputation_interval,
    ]


@pytest.mark.parametrize("schema", [PLAIN, ROUTED], ids=["plain", "routed"])
@pytest.mark.parametrize(
    "imputation",
    [
        KNNImputation(impute="income", match_on=("grade", "work")),
        KNNImputation(impute=("income", "c"), match_on="grade", group="work", k=5),
        CompleteRows(impute=("income",)),
    ],
    ids=["nearest", "several", "complete"],
)
@pytest.mark.parametrize("domain", [1, 2**24], ids=["large", "small"])
def test_parts_change_nothing(schema, imputation, domain, monkeypatch):
    whole = answers(schema, imputation)
    in_parts(monkeypatch, domain)
    assert answers(schema, imputation) == whole
    with shelf.on_disk(1):
        assert answers(schema, imputation) == whole


def in_parts(monkeypatch, domain):
    """Look at few rows at a time, and at few numbers of what lies on disk."""
    for name, rows in {
        "mechanisms.views.PART_ROWS": 64,
        "mechanisms.questions.PART_ROWS": 64,
        "mechanisms.private_rows.PART_ROWS": 64,
        "mechanisms.private_rows._MANY": 10,
        "statistics.donors.DONEES": 50,
        "statistics.donors._HEARD": 20,
        "statistics.rings.DONEES": 50,
        "statistics.rings._AT_ONCE": 150,
        "statistics.layout._CHUNK": 33,
        "statistics.layout._FEW": 0,
        "statistics.layout._ROWS": 33,
        "statistics.layout._SMALL_DOMAIN": domain,
        "shelf._LEAST": 1,
        "shelf._FULL": 0,
        "shelf._TIGHT": 0,
        "shelf._BLOCK": 70,
        "shelf._STRETCH": 160,
    }.items():
        monkeypatch.setattr(f"missdp.{name}", rows)


@given(st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_arcs_overlap_as_often_point_by_point(many, seed):
    rng = np.random.default_rng(seed)
    size = many + int(rng.integers(1, 20))
    start = rng.permutation(size)[:many].astype(np.uint32)
    stop = rng.integers(0, size, many).astype(np.uint32)
    expected = rings._overlap(start, stop, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rings, "DONEES", 5)
        assert rings._overlap_of_many(start, stop, size) == expected
    by_hand = [
        sum(s <= p <= e if s <= e else p >= s or p <= e for s, e in zip(start, stop, strict=True))
        for p in range(size)
    ]
    assert expected == max(by_hand)


def test_ranks_are_those_of_a_stable_sort():
    labels = np.random.default_rng(0).integers(0, 2**64, 5000, dtype=np.uint64)
    labels[::7] = labels[0]
    found = ranks(labels)
    assert (np.argsort(found) == np.argsort(labels, kind="stable")).all()
    assert (ranks(np.zeros(5, dtype=np.uint64)) == np.arange(5)).all()
