"""Whatever a statistic shows was released: answers of one table, repeated for another one.

The answers of the door are kept while every question is asked, and repeated, in their order, for
another table. What anyone sees must be the same, bit by bit: what differs came from the rows by
another way. And what holds the rows, the noise and the bounds is the door alone.
"""

import copy
import pickle
import warnings

import numpy as np
import pytest
from knn_oracles import CARS, GRADES, INCOMES, RULED, WORKS, Row, as_table
from knn_witness import QUESTIONS, RULED_QUESTIONS, WAYS, Tape, interferes, nothing_is_read, shown
from test_sensitivity import IMPUTATIONS, RULED_IMPUTATIONS

from missdp import Table
from missdp.accounting import Budget, Cost
from missdp.errors import DataError, ParameterError
from missdp.mechanisms import Ask, Counts, Prepared, SecureNoise, SeededNoise
from missdp.mechanisms.questions import Rows
from missdp.mechanisms.row_door import _PrivateRows
from missdp.mechanisms.session import Session
from missdp.statistics import ImputedStatistics
from missdp.statistics.imputation import _Profile
from missdp.testing.findings import Repeater

SURVEY = [
    Row(
        (0, 1, 2, None)[i % 4], "fm"[i % 2], (0, 3, 8, None)[i * i % 7 % 4],
        ("yes", "no", None)[i % 3], i,
    )
    for i in range(60)
]  # fmt: skip
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
    "all not applicable": [Row(2, "f", None, "yes", i, "no") for i in range(9)],
    "all holes": [Row(-8, "f", -7, "X", i, "R") for i in range(9)],
}

EVERY = [(name, way) for name in IMPUTATIONS for way in WAYS]
CASES = [
    pytest.param(
        name, way, id=f"{name}-{way}",
        marks=[] if name == "nearest" or way == "error bars" else pytest.mark.slow,
    )
    for name, way in EVERY
]  # fmt: skip


@pytest.mark.parametrize(("name", "way"), CASES)
def test_what_a_statistic_shows_was_released(name, way):
    assert not interferes(ONE, TWO, IMPUTATIONS[name], way, QUESTIONS)


@pytest.mark.parametrize(
    ("name", "way", "other"),
    [
        ("one", "gaussian", "all holes"),
        ("nearest", "error bars", "all not applicable"),
        ("none", "gaussian", "all holes"),
    ],
)
def test_so_it_was_where_rules_say_what_applies(name, way, other):
    table = as_table(OTHERS[other], RULED)
    assert not interferes(WHOLE, table, RULED_IMPUTATIONS[name], way, RULED_QUESTIONS)


@pytest.mark.parametrize(("name", "way"), [("nearest", "gaussian"), ("none", "epsilon")])
def test_repeated_answers_read_nothing(name, way):
    shown(ONE, IMPUTATIONS[name], way, tape := Tape(0), QUESTIONS)
    again = Repeater(tape, reads=False)
    with nothing_is_read():
        shown(TWO, IMPUTATIONS[name], way, again, QUESTIONS)
    assert len(again.kept) == len(tape.kept)


# Statistics that leak
def counting(asked, **cost):
    """Publish an exact count."""
    door = asked._door
    return asked.count(**cost).value + len(door._table)


def telling(asked, **cost):
    """Warn of an attribute that is constant in the private rows."""
    if len(set(asked._door._rows.cells.codes("income").tolist())) > 2:
        warnings.warn("incomes vary", stacklevel=1)
    return asked.count(**cost)


def choosing(asked, *, epsilon):
    """Choose the noise by the private number of rows."""
    return asked.count(epsilon=epsilon / len(asked._door._table))


SEEN = []


def noting(rows):
    SEEN.append(len(rows))
    return np.ones(len(rows), dtype=bool)


def question(asked, function, epsilon):
    cost = Cost(currency="pure", amount=epsilon)
    (charged,) = asked._door.begin(Ask(label="rows", cost=cost))
    return asked._door.answer(charged, Counts(function=function))


def carrying(asked, *, epsilon):
    """Carry a count out of a function that the door runs."""
    question(asked, noting, epsilon)
    return SEEN[-1]


def quoting(rows):
    raise KeyError(len(rows))


def failing(asked, *, epsilon):
    return question(asked, quoting, epsilon)


@pytest.mark.parametrize("leaky", [counting, telling, choosing, carrying])
def test_a_statistic_that_leaks_is_found(leaky):
    assert interferes(ONE, TWO, IMPUTATIONS["nearest"], "epsilon", {"": leaky})


def test_a_function_that_fails_says_nothing():
    assert not interferes(ONE, TWO, IMPUTATIONS["nearest"], "epsilon", {"": failing})
    asked = ImputedStatistics(ONE, IMPUTATIONS["nearest"], budget=Budget(1.0))
    with pytest.raises(DataError) as caught:
        failing(asked, epsilon=1.0)
    assert str(len(SURVEY)) not in str(caught.value)
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)
    assert asked.budget.remaining_epsilon == 0  # charged all the same


# Who holds what
def held(thing):
    """Everything that can be reached from an object without going through a door."""
    found, todo, known = [], [thing], set()
    while todo:
        here = todo.pop()
        if id(here) in known or isinstance(here, (type, str, bytes, int, float)):
            continue
        known.add(id(here))
        found.append(here)
        if isinstance(here, (Session, Budget)):
            continue
        if isinstance(here, dict):
            todo += [*here.keys(), *here.values()]
        elif isinstance(here, (list, tuple, set, frozenset)):
            todo += here
        todo += list(getattr(here, "__dict__", {}).values())
        todo += [getattr(here, s) for s in getattr(type(here), "__slots__", ()) if hasattr(here, s)]
        for part in ("__closure__", "__defaults__"):
            todo += [getattr(c, "cell_contents", c) for c in getattr(here, part, None) or ()]
        todo += [here.__self__] if hasattr(here, "__self__") else []
    return found


PRIVATE = (
    Table, np.ndarray, np.random.Generator, SecureNoise, SeededNoise, _Profile, Rows, _PrivateRows,
    Prepared,
)  # fmt: skip


def private(thing):
    """What is held that only a door may hold."""
    return [type(here).__name__ for here in held(thing) if isinstance(here, PRIVATE)]


@pytest.mark.parametrize("name", ["nearest", "group", "none"])
def test_a_statistic_holds_a_door_and_public_facts(name):
    asked = ImputedStatistics(ONE, IMPUTATIONS[name], budget=Budget(1e3), random_state=0)
    answers = [ask(asked, epsilon=1.0) for ask in QUESTIONS.values()]
    assert any(isinstance(here, Session) for here in held(asked))
    assert private([asked, answers]) == []


@pytest.mark.parametrize(
    "hide",
    [
        lambda asked: setattr(asked, "rows", ONE),
        lambda asked: setattr(asked, "note", {"n": np.arange(3)}),
        lambda asked: asked.__dict__.update(later=(lambda rows: lambda: rows)(ONE)),
        lambda asked: setattr(asked, "draw", np.random.default_rng(0).random),
    ],
)
def test_what_is_hidden_is_found(hide):
    asked = ImputedStatistics(ONE, IMPUTATIONS["nearest"], budget=Budget(1.0))
    hide(asked)
    assert private(asked)


def test_statistics_do_not_leave_with_their_rows():
    asked = ImputedStatistics(ONE, IMPUTATIONS["nearest"], budget=Budget(1.0))
    for leave in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ParameterError):
            leave(asked)
