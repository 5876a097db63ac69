"""Brute force on small tables with kinds of missing and rules; no code shared with the library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.schema import NotApplicable

GRADES, WORKS, HOURS, CARS = (0, 1, 2), ("no", "yes"), (0, 3, 8), ("no", "yes")
DEFAULT_HOURS, DEFAULT_CAR = 4, 0
# Codes: -1 is not applicable, -7 refused, -8 unknown; "R" refused; None a plain hole.
SCHEMA = Schema(
    (
        Ordinal(name="grade", levels=GRADES, nullable=True, not_applicable=(-1,), unknown=(-8,)),
        Categorical(name="work", levels=WORKS, nullable=True, refused=("R",)),
        Numeric(
            name="hours", lower=0, upper=8, integer=True, edges=(0, 2, 5, 8), nullable=True,
            not_applicable=(-1,), refused=(-7,),
        ),
        Categorical(name="car", levels=CARS, nullable=True, not_asked=("X",)),
    ),
    (NotApplicable("hours", unless="work = 'yes'"),),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A labelled row as it is in the file."""

    grade: int | None
    work: str | None
    hours: int | None
    car: str | None
    label: int

    @property
    def applies(self) -> bool | None:
        """Whether hours applies; None if that is open."""
        if self.work in WORKS:
            return self.work == "yes"
        if self.hours == -1:
            return False
        return True if self.worked is not None else None

    @property
    def worked(self) -> int | None:
        """Hours, if they are there."""
        return None if self.work == "no" or self.hours in (None, -1, -7) else self.hours

    @property
    def drives(self) -> int | None:
        return CARS.index(self.car) if self.car in CARS else None

    @property
    def place(self) -> int | str:
        return {None: "hole", -8: "hole", -1: "n/a"}.get(self.grade, self.grade)

    @property
    def gives(self) -> bool:
        return self.drives is not None and (self.worked is not None or self.applies is False)

    @property
    def takes(self) -> bool:
        return self.drives is None or (self.worked is None and self.applies is True)


def as_table(rows: list[Row]) -> Table:
    columns = {
        "grade": pd.array([r.grade for r in rows], dtype="Int64"),
        "work": pd.array([r.work for r in rows], dtype="string"),
        "hours": pd.array([r.hours for r in rows], dtype="Int64"),
        "car": pd.array([r.car for r in rows], dtype="string"),
    }
    return Table.read(pd.DataFrame(columns), SCHEMA)


def labels_of(rows: list[Row]) -> np.ndarray:
    return np.array([r.label for r in rows], dtype=np.uint64)


def key(x: Row, t: Row) -> tuple[Fraction, int] | None:
    """How near t is to x, then the tie; None if t may not give to x."""
    if x.applies is not None and x.applies != t.applies:
        return None
    both = isinstance(x.place, int) and isinstance(t.place, int)
    near = Fraction(abs(x.place - t.place), 2) if both else Fraction(int(x.place != t.place))
    return near, (t.label - x.label) % 10**6


def donors_of(x: Row, rows: list[Row], k: int) -> list[Row | None]:
    keyed = [(key(x, t), t) for t in rows if t.gives]
    found = [t for _, t in sorted(((q, t) for q, t in keyed if q), key=lambda pair: pair[0])]
    return [*found[:k], *([None] * (k - len(found[:k])))]


def imputed(rows: list[Row], k: int) -> list[tuple[float | None, int | None]]:
    """Hours and car of every row after imputation; None where there still are none."""
    answers = []
    for x in rows:
        donors = donors_of(x, rows, k) if x.takes else []
        hours, car = x.worked, x.drives
        if hours is None and x.applies is True:
            hours = sum(DEFAULT_HOURS if t is None else t.worked for t in donors) / k
        if car is None:
            votes = [DEFAULT_CAR if t is None else t.drives for t in donors]
            support = [sum(vote == other for other in votes) for vote in votes]
            car = votes[support.index(max(support))]
        answers.append((hours, car))
    return answers


def rank(x: Row, t: Row, rows: list[Row]) -> float:
    at = key(x, t)
    if at is None:
        return float("inf")
    keys = [key(x, y) for y in rows if y.gives and y is not t]
    return 1 + sum(other is not None and other < at for other in keys)


def profile(rows: list[Row], k: int, j: int) -> int:
    """M_j, over donors that are there and every possible one."""
    gaps = {row.label + 1 for row in rows} or {1}
    possible = [
        Row(grade, work, hours, "no", label)
        for grade, (work, hours), label in product(
            (*GRADES, None, -1), (("yes", 3), ("no", None)), sorted(gaps)
        )
    ]
    donees = [x for x in rows if x.takes]
    candidates = [*possible, *(t for t in rows if t.gives)]
    return max(sum(rank(x, t, rows) <= k + j for x in donees) for t in candidates)


def completions(row: Row) -> Iterator[Row]:
    """Every row without holes that it could be."""
    for grade in [row.grade] if row.place != "hole" else GRADES:
        for work in [row.work] if row.work in WORKS else WORKS:
            known = replace(row, grade=grade, work=work)
            if work == ("no" if row.worked is not None else "yes" if row.applies is False else ""):
                continue
            hours = [None] if work == "no" else [row.worked] if row.worked is not None else HOURS
            for h, car in product(hours, [row.car] if row.drives is not None else CARS):
                yield replace(known, hours=h, car=car)


CELLS = st.tuples(
    st.sampled_from((*GRADES, None, -1, -8)),
    st.sampled_from((*WORKS, "yes", None, "R")),
    st.sampled_from((*HOURS, None, None, -1, -7)),
    st.sampled_from((*CARS, None, "X")),
)


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 8) -> list[Row]:
    size = draw(st.integers(1, max_rows))
    labels = draw(st.permutations(range(size)))
    return [Row(*draw(CELLS), 2 * label + 2) for label in labels]


def neighbours(rows: list[Row]) -> list[list[Row]]:
    """Every table with one row less, and many with one row more; half of these have holes."""
    less = [[*rows[:i], *rows[i + 1 :]] for i in range(len(rows))]
    cells = [
        (1, "yes", 8, "yes"), (2, "no", None, "no"), (-1, "yes", 0, "no"), (0, "no", 8, "yes"),
        (None, "R", -7, "X"), (0, "yes", -7, "yes"), (-8, None, 3, "no"), (1, "yes", None, None),
        (2, None, None, "yes"),
    ]  # fmt: skip
    gaps = sorted({row.label + 1 for row in rows})
    return less + [[*rows, Row(*row, label)] for row, label in product(cells, gaps)]
