"""Recordings that keep the exact numbers of every answer, or give answers of another kind."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np

from missdp.accounting import Filter, Guarantee, PureEvent, releases
from missdp.session import Session
from missdp.statistics import ImputedStatistics
from missdp.statistics.groups import ParallelGroups
from missdp.statistics.imputed_rows import ImputedRows, RowView, with_one_kind_of_missing
from missdp.statistics.row_queries import QUANTA
from missdp.statistics.smooth_sensitivity import Bounded
from missdp.statistics.table_rows import ChosenRows
from missdp.testing import Answer, RecordingNoise, undercharges


def prepared(knn, table):
    """Return the ways to fill the rows, with the profile of an imputation."""
    how = knn.change(table.schema)
    return how.fill(RowView(ImputedRows(with_one_kind_of_missing(table)), how.reads))


def filled(knn, table):
    """Rows as they are filled in the first of their ways."""
    ways = prepared(knn, table)
    came, first = with_one_kind_of_missing(table), ways.start[ways.lists]
    columns = {}
    for name, column in ways.columns.items():
        missing = came.codes(name)[ways.rows] >= came.schema[name].missing_code
        columns[name] = replace(column.where(first[missing]), rows=ways.rows[missing])
    return ImputedRows(came, columns)


def totals(answer):
    """The exact numbers behind an answer."""
    exact = answer.exact
    return np.array(exact.totals if isinstance(exact, Bounded) else exact)


def shift_is_too_large(a, b):
    """Whether the exact numbers of neighbours differ by more than event and distribution say."""
    assert (a.event, a.mechanism) == (b.event, b.mechanism)
    return undercharges(a.mechanism, a.event, a.exact, b.exact) is not None


class Same(RecordingNoise):
    """Give the same answer for all exact numbers, and keep the exact numbers."""

    def drawn(self, mechanism, behind):
        if isinstance(mechanism, ParallelGroups):
            return tuple(self.drawn(mechanism.mechanism, each) for each in behind)
        event, size = self.event, np.size(getattr(behind, "totals", behind))
        # A fifth of the bound of a sum. Five rows. A bound of at least 7 recipients.
        row_weight = getattr(mechanism, "row_weight", getattr(event, "sensitivity", 1))
        fixed = QUANTA // 5 if row_weight >= QUANTA else 5
        if isinstance(behind, Bounded):
            return (Fraction(fixed),) * size
        return np.full(size, fixed, dtype=np.int64)

    def answer(self, event, mechanism, exact):
        self.event = event
        return super().answer(event, mechanism, exact)


class Exact(RecordingNoise):
    """Answer without noise, and keep it."""

    def __init__(self, seed=0):
        super().__init__(seed)

    def answer(self, event, mechanism, exact):
        self.answers.append(Answer(event, mechanism, exact(), None))
        if isinstance(mechanism, ParallelGroups):
            return tuple(map(as_released, self.answers[-1].exact))
        return as_released(self.answers[-1].exact)


def as_released(exact):
    """Exact numbers in the form of an answer."""
    return tuple(map(Fraction, exact.totals)) if isinstance(exact, Bounded) else np.array(exact)


def nothing_is_read():
    unread = mock.PropertyMock(side_effect=AssertionError("read"))
    return mock.patch.object(ChosenRows, "cells", unread)


# Every kind of question, on imputed attributes and on others.
QUESTIONS = {
    "count": lambda s, **c: s.count(where="income > 3", **c),
    "count of all": lambda s, **c: s.count(**c),
    "count of others": lambda s, **c: s.count(where="grade >= 1", **c),
    "proportion": lambda s, **c: s.proportion("income > 2", where="sex = 'f'", **c),
    "proportion of others": lambda s, **c: s.proportion("sex = 'f'", where="car = 'yes'", **c),
    "mean": lambda s, **c: s.mean("income", where="grade < 2", **c),
    "mean imputed": lambda s, **c: s.mean("income", where="income >= 3", **c),
    "sum": lambda s, **c: s.sum("income", where="sex = 'm'", **c),
    "variance": lambda s, **c: s.variance("income", **c),
    "deviation": lambda s, **c: s.standard_deviation("income", where="car = 'no'", **c),
    "correlation": lambda s, **c: s.correlation("income", "income", **c),
    "histogram": lambda s, **c: s.histogram("income", where="sex = 'm'", **c),
    "histogram both": lambda s, **c: s.histogram("car", where="income > 2", **c),
    "means by imputed": lambda s, **c: s.mean("income", where="grade < 2", by="car", **c),
    "means by others": lambda s, **c: s.mean("income", by="sex", **c),
    "shares by imputed": lambda s, **c: s.proportion("income > 2", by="car", **c),
    "counts by imputed": lambda s, **c: s.count(where="income > 2", by="car", **c),
    "histogram of others": lambda s, **c: s.histogram("grade", where="car = 'yes'", **c),
}
BOUNDED = {
    "count": lambda s, where, of, **c: s.count(where=where, **c),
    "proportion": lambda s, where, of, **c: s.proportion(of, where=where, **c),
    "mean": lambda s, where, of, **c: s.mean("income", where=where, **c),
    "sum": lambda s, where, of, **c: s.sum("income", where=where, **c),
}
QUESTIONS |= {
    f"worst {name}": lambda s, options=options, **c: options(
        s, "car = 'yes'", "income > 2", uncertainty="worst-case", **c
    )
    for name, options in BOUNDED.items()
}
# A rule decides to which rows an income applies: its readers, and other sources.
OF_ALL = ("count of all", "worst count", *(name for name in QUESTIONS if "others" in name))
OF_INCOME = {name: options for name, options in QUESTIONS.items() if name not in OF_ALL} | {
    "proportion of not": lambda s, **c: s.proportion("not income > 2", **c),
    "proportion of two": lambda s, **c: s.proportion("income > 2 or car = 'yes'", **c),
}
RULED_QUESTIONS = (
    QUESTIONS
    | OF_INCOME
    | {"proportion of cars": lambda s, **c: s.proportion("car = 'yes'", where="work = 'yes'", **c)}
)

WAYS = {
    "epsilon": {"cost": {"epsilon": 1.0}},
    "rho": {"cost": {"rho": 0.5}},
}
_PROMISE = Guarantee.from_events([PureEvent(epsilon=1.0)])


def asking(table, imputation, way):
    """Statistics that pay in one of several ways, and the cost of each question."""
    how = dict(WAYS[way])
    cost, budget = how.pop("cost"), Filter(1e5, 1e-3 if "rho" in WAYS[way]["cost"] else 0.0)
    return ImputedStatistics(table, imputation, budget=budget, random_state=0, **how), cost


def behind(table, imputation, *, way="epsilon", asks=QUESTIONS):
    """Exact numbers of all answers to all questions, with answers that do not depend on them."""
    # The text of a guarantee is tested elsewhere, and takes long to compute.
    promised = mock.patch.object(Session, "promise", return_value=_PROMISE)
    with Same(0) as recording, promised:
        request, cost = asking(table, imputation, way)
        for question in asks.values():
            question(request, **cost)
    assert list(releases(request.budget.events)) == [answer.event for answer in recording.answers]
    return recording.answers
