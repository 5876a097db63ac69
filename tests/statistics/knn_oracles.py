"""Brute force on small tables, straight from the definitions, sharing no code with the library.

Rows are those of a plain schema, or of one with kinds of missing and a rule: whoever does not work
has no income.
"""

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

GRADES, SEXES, INCOMES, CARS = (0, 1, 2), ("f", "m"), (0, 3, 8), ("no", "yes")
WORKS, DEFAULT_INCOME, DEFAULT_CAR = ("no", "yes"), 4, 0


def income(**kinds: object) -> Numeric:
    edges = (0, 2, 5, 8)
    facts = {"lower": 0, "upper": 8, "integer": True, "edges": edges, "nullable": True}
    return Numeric(name="income", **facts, **kinds)


PLAIN = Schema(
    (
        Ordinal(name="grade", levels=GRADES, nullable=True),
        Categorical(name="sex", levels=SEXES),
        income(),
        Categorical(name="car", levels=CARS, nullable=True),
    )
)
# Codes: -1 is not applicable, -7 refused, -8 unknown; "R" refused; None a plain hole.
RULED = Schema(
    (
        Ordinal(name="grade", levels=GRADES, nullable=True, not_applicable=(-1,), unknown=(-8,)),
        Categorical(name="sex", levels=SEXES),
        income(not_applicable=(-1,), refused=(-7,)),
        Categorical(name="car", levels=CARS, nullable=True, not_asked=("X",)),
        Categorical(name="work", levels=WORKS, nullable=True, refused=("R",)),
    ),
    (NotApplicable("income", unless="work = 'yes'"),),
)


@dataclass(frozen=True)
class Row:
    """A labelled row as it is in the file."""

    grade: int | None
    sex: str
    income: int | None
    car: str | None
    label: int
    work: str | None = "yes"

    @property
    def applies(self) -> bool | None:
        """Whether an income applies; None if that is open."""
        if self.work in WORKS:
            return self.work == "yes"
        if self.income == -1:
            return False
        return True if self.earned is not None else None

    @property
    def earned(self) -> int | None:
        """The income, if it is there."""
        return None if self.work == "no" or self.income in (None, -1, -7) else self.income

    @property
    def drives(self) -> int | None:
        return CARS.index(self.car) if self.car in CARS else None

    @property
    def place(self) -> int | str:
        return {None: "hole", -8: "hole", -1: "n/a"}.get(self.grade, self.grade)

    @property
    def gives(self) -> bool:
        return self.drives is not None and (self.earned is not None or self.applies is False)

    @property
    def takes(self) -> bool:
        return self.drives is None or (self.earned is None and self.applies is True)


def as_table(rows: list[Row], schema: Schema = PLAIN) -> Table:
    columns = {
        name: pd.array(
            [getattr(row, name) for row in rows],
            dtype="Int64" if name in ("grade", "income") else "string",
        )
        for name in schema.names
    }
    return Table.read(pd.DataFrame(columns), schema)


def labels_of(rows: list[Row]) -> np.ndarray:
    return np.array([row.label for row in rows], dtype=np.uint64)


def distance(x: Row, t: Row, group: bool = False) -> Fraction | None:
    """Gower distance on grade and sex; None (never matched) across groups of sex, or of work."""
    if (group and x.sex != t.sex) or (x.applies is not None and x.applies != t.applies):
        return None
    both = isinstance(x.place, int) and isinstance(t.place, int)
    near = Fraction(abs(x.place - t.place), 2) if both else Fraction(int(x.place != t.place))
    return near + int(x.sex != t.sex)


def key(x: Row, t: Row, group: bool = False) -> tuple[Fraction, int] | None:
    """How near t is to x, then the tie; None if t may not give to x."""
    near = distance(x, t, group)
    return None if near is None else (near, (t.label - x.label) % 10**6)


def donors_of(x: Row, rows: list[Row], k: int, group: bool) -> list[Row | None]:
    keyed = [(key(x, t, group), t) for t in rows if t.gives]
    found = [t for _, t in sorted(((q, t) for q, t in keyed if q), key=lambda pair: pair[0])]
    return [*found[:k], *([None] * (k - len(found[:k])))]


def imputed(rows: list[Row], k: int, group: bool = False) -> list[tuple[float | None, int]]:
    """Income and code of the car of every row after imputation; None where none applies."""
    answers = []
    for x in rows:
        donors = donors_of(x, rows, k, group) if x.takes else []
        earned, car = x.earned, x.drives
        if earned is None and x.applies is True:
            earned = sum(DEFAULT_INCOME if t is None else t.earned for t in donors) / k
        if car is None:
            votes = [DEFAULT_CAR if t is None else t.drives for t in donors]
            support = [sum(vote == other for other in votes) for vote in votes]
            car = votes[support.index(max(support))]
        answers.append((earned, car))
    return answers


def rank(x: Row, t: Row, rows: list[Row], group: bool = False, *, at: object = None) -> float:
    """1 + number of donors other than t before t; infinite if t can never serve x."""
    at = key(x, t, group) if at is None else at
    if at is None:
        return float("inf")
    keys = [key(x, y, group) for y in rows if y.gives and y is not t]
    return 1 + sum(other is not None and other < at for other in keys)


def profile(rows: list[Row], k: int, j: int, group: bool = False) -> int:
    """M_j, over donors that are there and every possible one: of all cells that are near any."""
    grades = (*GRADES, None, *({-1} if any(row.place == "n/a" for row in rows) else ()))
    works = ("yes", *({"no"} if any(row.applies is False for row in rows) else ()))
    labels = {row.label + 1 for row in rows} or {1}
    possible = (
        Row(grade, sex, 3, "no", label, work)
        for grade, sex, work, label in product(grades, SEXES, works, sorted(labels))
    )
    donees = [x for x in rows if x.takes]
    candidates = [*possible, *(t for t in rows if t.gives)]
    return max(sum(rank(x, t, rows, group) <= k + j for x in donees) for t in candidates)


def completions(row: Row) -> Iterator[Row]:
    """Every row without holes that it could be."""
    for grade in [row.grade] if row.place != "hole" else GRADES:
        for work in [row.work] if row.work in WORKS else WORKS:
            if work == ("no" if row.earned is not None else "yes" if row.applies is False else ""):
                continue
            earned = [None] if work == "no" else INCOMES if row.earned is None else [row.earned]
            for one, car in product(earned, [row.car] if row.drives is not None else CARS):
                yield replace(row, grade=grade, work=work, income=one, car=car)


CELLS = {
    PLAIN: ((*GRADES, None), SEXES, (*INCOMES, None, None), (*CARS, "no", None), ("yes",)),
    RULED: (
        (*GRADES, None, -1, -8),
        SEXES,
        (*INCOMES, None, None, -1, -7),
        (*CARS, None, "X"),
        (*WORKS, "yes", None, "R"),
    ),
}


def cells(schema: Schema) -> st.SearchStrategy[tuple]:
    return st.tuples(*map(st.sampled_from, CELLS[schema]))


def row_of(drawn: tuple, label: int) -> Row:
    return Row(*drawn[:4], label, drawn[4])


@st.composite
def tables(draw: st.DrawFn, schema: Schema = PLAIN, max_rows: int = 8) -> list[Row]:
    size = draw(st.integers(1, max_rows))
    labels = draw(st.permutations(range(size)))
    return [row_of(draw(cells(schema)), 2 * label + 2) for label in labels]


@st.composite
def worlds(draw: st.DrawFn, max_rows: int = 8) -> tuple[Schema, list[Row]]:
    schema = draw(st.sampled_from((PLAIN, RULED)))
    return schema, draw(tables(schema, max_rows))


VALUES = [(8, "yes"), (0, "no"), (None, "no"), (3, None), (None, None)]
MORE = {
    PLAIN: [
        (grade, sex, *values, "yes")
        for grade, sex, values in product((*GRADES, None), SEXES, VALUES)
    ],
    RULED: [
        (1, "f", 8, "yes", "yes"), (2, "f", None, "no", "no"), (-1, "m", 0, "no", "yes"),
        (0, "m", 8, "yes", "no"), (None, "f", -7, "X", "R"), (0, "f", -7, "yes", "yes"),
        (-8, "m", 3, "no", None), (1, "f", None, None, "yes"), (2, "m", None, "yes", None),
    ],
}  # fmt: skip


def neighbours(schema: Schema, rows: list[Row]) -> list[list[Row]]:
    """Every table with one row less, and many with one row more at every place of the circle."""
    less = [[*rows[:i], *rows[i + 1 :]] for i in range(len(rows))]
    gaps = sorted({row.label + 1 for row in rows} or {1})
    return less + [[*rows, row_of(new, label)] for new, label in product(MORE[schema], gaps)]
