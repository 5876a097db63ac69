"""Brute force on small tables, straight from the definitions, sharing no code with the library.

Rows are those of a plain schema, or of one with kinds of missing and a rule: people without work
have no income.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import pandas as pd
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.schema import NotApplicable

GRADES, SEXES, INCOMES, CARS = (0, 1, 2), ("f", "m"), (0, 3, 8), ("no", "yes")
WORKS, DEFAULT_INCOME, DEFAULT_CAR = ("no", "yes"), 4, 0


def income(**kinds):
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
# Codes: -1 is not applicable, -7 refused, -8 unknown. "R" refused. None a plain missing cell.
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
    def applies(self):
        """Whether an income applies. None if that is open."""
        if self.work in WORKS:
            return self.work == "yes"
        if self.income == -1:
            return False
        return True if self.earned is not None else None

    @property
    def earned(self):
        return None if self.work == "no" or self.income in (None, -1, -7) else self.income

    @property
    def drives(self):
        return CARS.index(self.car) if self.car in CARS else None

    @property
    def place(self):
        return {None: "hole", -8: "hole", -1: "n/a"}.get(self.grade, self.grade)

    @property
    def gives(self):
        return self.drives is not None and (self.earned is not None or self.applies is False)

    @property
    def takes(self):
        return self.drives is None or (self.earned is None and self.applies is True)


def as_table(rows, schema=PLAIN):
    """Return a table in which the rows stand in the order of their labels."""
    rows = in_order(rows)
    columns = {
        name: pd.array(
            [getattr(row, name) for row in rows],
            dtype="Int64" if name in ("grade", "income") else "string",
        )
        for name in schema.names
    }
    return Table.read(pd.DataFrame(columns), schema)


def distance(x, t, group=False):
    """Gower distance on grade and sex. None (never matched) across groups of sex, or of work."""
    if (group and x.sex != t.sex) or (x.applies is not None and x.applies != t.applies):
        return None
    both = isinstance(x.place, int) and isinstance(t.place, int)
    near = Fraction(abs(x.place - t.place), 2) if both else Fraction(int(x.place != t.place))
    return near + int(x.sex != t.sex)


def in_order(rows):
    return sorted(rows, key=lambda row: row.label)


def ways_of(x, rows, k, group):
    """Every choice of k donors that x is averaged over: of those tied, runs round the table."""
    far = [(distance(x, t, group), t) for t in in_order(rows) if t.gives]
    result = sorted(((d, t) for d, t in far if d is not None), key=lambda pair: pair[0])
    if len(result) <= k:
        return [[*(t for _, t in result), *([None] * (k - len(result)))]]
    edge = result[k - 1][0]
    nearer, tied = ([t for d, t in result if one(d)] for one in (lambda d: d < edge, edge.__eq__))
    runs = [
        in_order([tied[(i + step) % len(tied)] for step in range(k - len(nearer))])
        for i in range(len(tied))
    ]
    return [[*nearer, *run] for run in (runs if len(nearer) + len(tied) > k else runs[:1])]


def fills(x, rows, k, group=False):
    """Income and code of the car of a row in each of its ways. None where no income applies."""
    result = []
    for donors in ways_of(x, rows, k, group) if x.takes else [[]]:
        earned, car = x.earned, x.drives
        if earned is None and x.applies is True:
            earned = sum(DEFAULT_INCOME if t is None else t.earned for t in donors) / k
        if car is None:
            votes = [DEFAULT_CAR if t is None else t.drives for t in donors]
            support = [sum(vote == other for other in votes) for vote in votes]
            car = votes[support.index(max(support))]
        result.append((earned, car))
    return result


def average(rows, k, of, group=False):
    """Sum over rows of the average of a function of income and car over their ways."""
    each = (fills(x, rows, k, group) for x in rows)
    return math.fsum(math.fsum(of(*fill) for fill in ways) / len(ways) for ways in each)


def share(x, near, others, k, j, group):
    """Most of x that a donor at a distance could fill, if j others went: 0 if it never can."""
    far = (
        [d for t in others if (d := distance(x, t, group)) is not None] if near is not None else []
    )
    before, tied = sum(d < near for d in far), sum(d == near for d in far)
    return (
        max(
            min(Fraction(1), Fraction(max(0, k - before + r), tied - q + 1))
            for r in range(min(before, j) + 1)
            for q in range(min(tied, j - r) + 1)
        )
        if near is not None
        else Fraction(0)
    )


def profile(rows, k, j, group=False):
    """M_j, over donors that are there and every possible one."""
    grades = (*GRADES, None, *({-1} if any(row.place == "n/a" for row in rows) else ()))
    works = ("yes", *({"no"} if any(row.applies is False for row in rows) else ()))
    possible = [
        Row(grade, sex, 3, "no", -1, work) for grade, sex, work in product(grades, SEXES, works)
    ]
    recipients, donors = ([x for x in rows if x.takes], [t for t in rows if t.gives])
    return max(
        sum(
            share(x, distance(x, t, group), [y for y in donors if y is not t], k, j, group)
            for x in recipients
        )
        for t in [*possible, *donors]
    )


def completions(row):
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


def cells(schema):
    return st.tuples(*map(st.sampled_from, CELLS[schema]))


def row_of(drawn, label):
    return Row(*drawn[:4], label, drawn[4])


@st.composite
def tables(draw, schema=PLAIN, max_rows=8):
    size = draw(st.integers(1, max_rows))
    labels = draw(st.permutations(range(size)))
    return [row_of(draw(cells(schema)), 2 * label + 2) for label in labels]


@st.composite
def worlds(draw, max_rows=8):
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


def neighbours(schema, rows):
    """Every table with one row less, and many with one row more at every place of the circle."""
    less = [[*rows[:i], *rows[i + 1 :]] for i in range(len(rows))]
    gaps = sorted({row.label + 1 for row in rows} or {1})
    return less + [[*rows, row_of(new, label)] for new, label in product(MORE[schema], gaps)]
