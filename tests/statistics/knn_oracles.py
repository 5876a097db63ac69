"""Brute force on small tables, straight from the definitions, sharing no code with the library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table

GRADES, SEXES, INCOMES, CARS = (0, 1, 2), ("f", "m"), (0, 3, 8), ("no", "yes")
DEFAULT_INCOME, DEFAULT_CAR = 4, 0

SCHEMA = Schema(
    (
        Ordinal(name="grade", levels=GRADES, nullable=True),
        Categorical(name="sex", levels=SEXES),
        Numeric(name="income", lower=0, upper=8, integer=True, edges=(0, 2, 5, 8), nullable=True),
        Categorical(name="car", levels=CARS, nullable=True),
    )
)


@dataclass(frozen=True)
class Row:
    """A labelled row; None is a hole."""

    grade: int | None
    sex: str
    income: int | None
    car: str | None
    label: int

    @property
    def complete(self) -> bool:
        return self.income is not None and self.car is not None


def as_table(rows: list[Row]) -> Table:
    columns = {
        "grade": pd.array([r.grade for r in rows], dtype="Int64"),
        "sex": pd.array([r.sex for r in rows], dtype="string"),
        "income": pd.array([r.income for r in rows], dtype="Int64"),
        "car": pd.array([r.car for r in rows], dtype="string"),
    }
    return Table.read(pd.DataFrame(columns), SCHEMA)


def labels_of(rows: list[Row]) -> np.ndarray:
    return np.array([r.label for r in rows], dtype=np.uint64)


def distance(x: Row, t: Row, *, group: bool = False) -> Fraction | None:
    """Gower distance on grade and sex; None (never matched) across groups of sex."""
    if group and x.sex != t.sex:
        return None
    if x.grade is None or t.grade is None:
        grade = Fraction(int(x.grade != t.grade))
    else:
        grade = Fraction(abs(x.grade - t.grade), 2)
    return grade + (0 if group else int(x.sex != t.sex))


def order_key(x: Row, t: Row, circle: int, group: bool) -> tuple[Fraction, int] | None:
    d = distance(x, t, group=group)
    return None if d is None else (d, (t.label - x.label) % circle)


def donors_of(x: Row, rows: list[Row], k: int, group: bool) -> list[Row | None]:
    keyed = [(order_key(x, t, 10**6, group), t) for t in rows if t.complete]
    found = [t for _, t in sorted(((q, t) for q, t in keyed if q is not None), key=lambda p: p[0])]
    return [*found[:k], *([None] * (k - len(found[:k])))]


def imputed(rows: list[Row], k: int, group: bool = False) -> list[tuple[float, int]]:
    """Income and car code of every row after imputation."""
    answers = []
    for x in rows:
        donors = [] if x.complete else donors_of(x, rows, k, group)
        incomes = [DEFAULT_INCOME if t is None else t.income for t in donors]
        cars = [DEFAULT_CAR if t is None else CARS.index(t.car) for t in donors]
        income = sum(incomes) / k if x.income is None else x.income
        if x.car is None:
            votes = [sum(c == other for other in cars) for c in cars]
            car = cars[votes.index(max(votes))]
        else:
            car = CARS.index(x.car)
        answers.append((income, car))
    return answers


def rank(x: Row, t: Row, rows: list[Row], group: bool, *, key=None) -> float:
    """1 + number of donors other than t before t; infinite if t can never serve x."""
    at = order_key(x, t, 10**6, group) if key is None else key
    if at is None:
        return float("inf")
    before = 0
    for y in rows:
        if y.complete and y is not t:
            other = order_key(x, y, 10**6, group)
            before += other is not None and other < at
    return 1 + before


def hypothetical(rows: list[Row]) -> Iterator[Row]:
    """Every cell with every label between two that are there."""
    gaps = {row.label + 1 for row in rows} or {1}
    for grade, sex, label in product((*GRADES, None), SEXES, sorted(gaps)):
        yield Row(grade, sex, 0, "no", label)


def profile(rows: list[Row], k: int, j: int, group: bool = False) -> int:
    donees = [x for x in rows if not x.complete]
    candidates = [*hypothetical(rows), *(t for t in rows if t.complete)]
    return max(sum(rank(x, t, rows, group) <= k + j for x in donees) for t in candidates)


def neighbours(rows: list[Row]) -> list[list[Row]]:
    """Every table with one row less, and with one row more at every place of the circle."""
    less = [[*rows[:i], *rows[i + 1 :]] for i in range(len(rows))]
    gaps = sorted({row.label + 1 for row in rows} or {1})
    values = [*product(INCOMES, CARS), (None, "no"), (0, None), (None, None)]
    more = [
        [*rows, Row(grade, sex, income, car, label)]
        for grade, sex, label in product((*GRADES, None), SEXES, gaps)
        for income, car in values
    ]
    return less + more


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 8) -> list[Row]:
    size = draw(st.integers(1, max_rows))
    labels = draw(st.permutations(range(size)))
    grade = st.sampled_from((*GRADES, None))
    income, car = st.sampled_from((*INCOMES, None, None)), st.sampled_from((*CARS, "no", None))
    return [
        Row(draw(grade), draw(st.sampled_from(SEXES)), draw(income), draw(car), 2 * label + 2)
        for label in labels
    ]
