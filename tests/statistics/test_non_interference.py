"""Every visible result of a statistic was released: answers of one table, repeated for another.

The answers of the session are kept while every question is asked, and repeated, in their order, for
another table. Visible results must be equal, bit by bit: a difference came from the rows by another
way. Only the session holds the rows, the noise and the bounds.
"""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from knn_oracles import CARS, GRADES, INCOMES, RULED, WORKS, Row, as_table
from knn_recordings import QUESTIONS, RULED_QUESTIONS, WAYS, asking
from test_sensitivity import IMPUTATIONS, RULED_IMPUTATIONS

from missdp import Table
from missdp.accounting import Cost, Filter
from missdp.errors import DataError, MissDPError, ParameterError
from missdp.session import SecureNoise, SeededNoise, Session
from missdp.statistics import ImputedStatistics, RowCounts
from missdp.statistics.imputation import NearestNeighbours, _Profile
from missdp.statistics.imputed_rows import ImputedRows, RowView, Ways
from missdp.statistics.table_rows import ChosenRows, TableRows
from missdp.testing import check_non_interference
from refusing import refuses

SURVEY = [
    Row((*GRADES, None)[i % 4], "fm"[i % 2], (*INCOMES, None)[i * i % 7 % 4], CARS[i % 2], i)
    for i in range(60)
]
OTHER = [Row(1, "f", None, "no", i) for i in range(9)] + [Row(2, "m", 8, "yes", 20)]
ONE, TWO = as_table(SURVEY), as_table(OTHER)
WHOLE = as_table(
    [
        Row(
            (*GRADES, None, -1, -8)[i % 6], "fm"[i % 2], (*INCOMES, None, -7, -1)[i % 5],
            (*CARS, None, "X")[i * i % 7 % 4], i, (*WORKS, "R", None)[i % 4],
        )
        for i in range(60)
    ],
    RULED,
)  # fmt: skip
OTHERS = {
    "all not applicable": as_table([Row(2, "f", None, "yes", i, "no") for i in range(9)], RULED),
    "all holes": as_table([Row(-8, "f", -7, "X", i, "R") for i in range(9)], RULED),
}


def marks(name, way):
    return () if name == "nearest" or way == "epsilon" else pytest.mark.slow


CASES = [pytest.param(n, way, marks=marks(n, way)) for n in IMPUTATIONS for way in WAYS]


def asks(imputation, way, questions, table):
    """Ask every question, and return everything that anyone sees."""
    question, cost = asking(table, imputation, way)
    observed = [repr(question), repr(question._session), question.budget]
    for options in questions.values():
        try:
            observed.append(options(question, **cost))
        except MissDPError as error:
            observed.append(f"{error!r} {error.__context__} {error.__cause__}")
    return observed


@pytest.mark.long
@pytest.mark.parametrize(("name", "way"), CASES)
def test_statistic_shows_only_released_values(name, way):
    run = partial(asks, IMPUTATIONS[name], way, QUESTIONS)
    assert check_non_interference(run, tables={"": (ONE, TWO)})


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "way", "other"),
    [
        ("one", "rho", "all holes"),
        ("nearest", "epsilon", "all not applicable"),
        ("none", "rho", "all holes"),
    ],
)
def test_statistic_with_rules_shows_only_released_values(name, way, other):
    run = partial(asks, RULED_IMPUTATIONS[name], way, RULED_QUESTIONS)
    assert check_non_interference(run, tables={other: (WHOLE, OTHERS[other])})


def quoting(rows):
    raise KeyError(len(rows))


def test_a_function_that_fails_says_nothing():
    question = ImputedStatistics(ONE, IMPUTATIONS["nearest"], budget=Filter(1.0))
    with refuses(DataError) as caught:
        question._session.measure(
            RowCounts(function=quoting), Cost(privacy_measure="pure", amount=1.0)
        )
    assert str(len(SURVEY)) not in str(caught.value)
    assert question.budget.remaining_epsilon == 0  # charged all the same


def held(thing):
    """Everything that can be reached from an object without going through a session."""
    result, todo, reference = [], [thing], set()
    while todo:
        here = todo.pop()
        if id(here) in reference or isinstance(here, (type, str, bytes, int, float)):
            continue
        reference.add(id(here))
        result.append(here)
        if isinstance(here, dict):
            todo += [*here.keys(), *here.values()]
        elif isinstance(here, (list, tuple, set, frozenset)):
            todo += here
        elif not isinstance(here, (Session, Filter, NearestNeighbours)):
            slots = [s for s in getattr(type(here), "__slots__", ()) if hasattr(here, s)]
            todo += [*getattr(here, "__dict__", {}).values(), *(getattr(here, s) for s in slots)]
            cells = [*(getattr(here, "__closure__", None) or ())]
            todo += [c.cell_contents for c in cells] + [getattr(here, "__self__", None)]
            todo += getattr(here, "__defaults__", None) or ()
    return result


PRIVATE = (Table, np.ndarray, np.random.Generator, SecureNoise, SeededNoise)
PRIVATE += (_Profile, RowView, TableRows, ChosenRows, ImputedRows, Ways)


def private(thing):
    return [type(here).__name__ for here in held(thing) if isinstance(here, PRIVATE)]


@pytest.mark.parametrize("name", ["nearest", "group", "none"])
def test_statistic_holds_a_session_and_public_facts(name):
    question = ImputedStatistics(ONE, IMPUTATIONS[name], budget=Filter(1e3), random_state=0)
    answers = [options(question, epsilon=1.0) for options in QUESTIONS.values()]
    assert any(isinstance(here, Session) for here in held(question))
    assert private([question, answers]) == []


def test_hidden_private_values_are_detected():
    for name, hidden in (
        ("rows", ONE),
        ("note", {"n": np.arange(3)}),
        ("later", (lambda rows: lambda: rows)(ONE)),
        ("draw", np.random.default_rng(0).random),
    ):
        question = ImputedStatistics(ONE, IMPUTATIONS["nearest"], budget=Filter(1.0))
        setattr(question, name, hidden)
        assert private(question)


def test_statistics_do_not_leave_with_their_rows():
    question = ImputedStatistics(ONE, IMPUTATIONS["nearest"], budget=Filter(1.0))
    for leave in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ParameterError):
            leave(question)
