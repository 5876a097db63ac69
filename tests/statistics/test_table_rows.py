"""Single rows: charged first, answered once, clipped inside. Only plain functions are run."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import warnings
from fractions import Fraction
from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import (
    Cost,
    Filter,
    GaussianEvent,
    LaplaceEvent,
    PublicDomain,
    PureEvent,
)
from missdp.errors import BudgetExceededError, DataError, MissDPError, ParameterError, UnprovenError
from missdp.session import Noise, SeededNoise
from missdp.session.redaction import redacted
from missdp.session.session import Reservation
from missdp.statistics import (
    CustomQuery,
    EachLevel,
    KNNImputation,
    ObservedOn,
    RowCounts,
    RowSums,
    open_table,
)
from missdp.statistics.imputation import NearestNeighbours
from missdp.statistics.imputed_rows import ImputedCells, ImputedRows, RowView, Ways
from missdp.statistics.row_queries import QUANTA, freeze
from missdp.statistics.smooth_sensitivity import Bounded, calibrate_smooth_noise
from missdp.statistics.table_rows import ChosenRows, TableRows, smooth_epsilon
from missdp.table.encode import CodedColumn
from missdp.testing import RecordingNoise, log_ratio
from refusing import refuses
from session.recorded import strange

SCHEMA = Schema((
    Ordinal(name="age", levels=tuple(range(5)), nullable=True),
    Categorical(name="sex", levels=("f", "m")),
    Numeric(name="income", lower=-5, upper=10, nullable=True),
))  # fmt: skip
PURE = Cost(privacy_measure="pure", amount=1.0)
QUIET = Noise("laplace", 1e-6)


def table(size=40, seed=0):
    rng = np.random.default_rng(seed)
    codes = {"age": rng.integers(0, 6, size), "sex": rng.integers(0, 2, size),
             "income": rng.integers(0, SCHEMA["income"].size + 1, size)}  # fmt: skip
    return Table.from_codes(SCHEMA, codes).with_values(rng)


def opened(rows=None, **more):
    more = {"budget": Filter(1e12), "random_state": 0, **more}
    return open_table(table() if rows is None else rows, **more)


def as_they_came(rows=None):
    return ImputedRows(table() if rows is None else rows)


def ages(rows):
    return rows.codes("age")


def incomes(rows, factor):
    return rows.values("income") * factor


def size(rows):
    return len(rows)


def of_nobody(rows):
    return int(np.nan_to_num(rows.values("income")[rows.codes("age") > 9].mean()))


def big(rows):
    return np.uint64(2**63 - 20) + np.uint64(len(rows))


def shares(rows, weights):
    return np.outer(rows.values("income"), weights)


COUNT = RowCounts(function=ages, reads={"age"}, cells=5, label="ages")
SIZE = CustomQuery(function=size, sensitivity=1, label="rows")


def test_answers_are_those_of_the_rows():
    """Missing cells are not counted. Sums are clipped. A warning is an error in these tests."""
    rows = table()
    counts = np.bincount(rows.codes("age"), minlength=6)[:5]
    assert opened(rows).measure(COUNT, QUIET).values.tolist() == counts.tolist()
    question = RowSums(function=incomes, reads={"income"}, arguments=(1.0,), bound=10.0)
    result = opened(rows).measure(question, Noise("laplace", 1.0)).values[0]
    assert result == pytest.approx(np.clip(rows.values("income"), -10, 10).sum(), abs=1e-3)
    nobody = CustomQuery(function=of_nobody, reads={"age", "income"}, sensitivity=1)
    assert opened(rows).measure(nobody, QUIET).values == [0]
    large = CustomQuery(
        function=big, sensitivity=1
    )  # too large to be signed: it must not wrap around
    assert large.exact(rows)[0] == large.exact(rows.take(np.arange(19)))[0] > 0


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=8), st.data())
@settings(deadline=None)
def test_row_adds_at_most_the_bound_for_every_function(weights, data):
    bound = data.draw(st.floats(1e-3, 1e6))
    question = RowSums(
        function=shares if len(weights) > 1 else incomes, reads={"income"}, bound=bound,
        arguments=(np.array(weights),) if len(weights) > 1 else (weights[0],), numbers=len(weights),
    )  # fmt: skip
    rows = table(6, data.draw(st.integers(0, 99)))
    all_but_one = rows.take(np.arange(6) != data.draw(st.integers(0, 5)))
    change = np.abs(question.exact(rows) - question.exact(all_but_one)).sum()
    assert change <= question.row_sensitivity == QUANTA


@pytest.mark.filterwarnings("error")
def test_no_warning_quotes_rows_while_another_thread_ends():
    before, (here, there) = list(warnings.filters), (Event(), Event())

    def first():
        with redacted():
            here.set()
            there.wait(10)

    other = Thread(target=first)
    other.start()
    here.wait(10)
    with redacted():  # in which a warning would be an error
        there.set()
        other.join(10)
        warnings.warn("40 rows", stacklevel=1)
    assert list(warnings.filters) == before


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_part_is_not_answered_in_a_fork():
    part = opened().reserve(PURE, label="rows")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            part.measure(SIZE, PURE)
        except BudgetExceededError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    part.measure(SIZE, PURE)


def test_recipient_sensitivity_includes_rounding_at_both_ends():
    """Halves are rounded to even numbers: 0.5 and 1.5 units, one unit apart, to 0 and 2."""
    codes = {"age": [0], "sex": [0], "income": SCHEMA["income"].encode_values(np.ones(1))}
    reference = Table.from_codes(SCHEMA, codes)
    columns = {name: reference.column(name) for name in SCHEMA.names}
    columns["income"] = CodedColumn(reference.codes("income"), np.ones(1))
    one, ask = Table(SCHEMA, columns), {"function": incomes, "reads": {"income"}, "bound": 1.0}
    before, after = (
        RowSums(arguments=(units / QUANTA,), change=1 / QUANTA, **ask) for units in (0.5, 1.5)
    )
    assert after.exact(one) - before.exact(one) == 2 <= after.recipient_sensitivity


def test_query_is_charged_with_its_declared_sensitivity():
    budget = Filter(1e15, 0.01, measure="zcdp", failure=5e-3)
    asked = opened(budget=budget)
    answer = asked.measure(SIZE, Noise("gaussian", 0.05))
    assert (answer.values.tolist(), answer.mechanism) == ([40], Noise("gaussian", 0.05))
    event = GaussianEvent(sensitivity=1, sigma=0.05, label="rows")
    assert answer.event == budget.events[-1] == event
    asked.measure(CustomQuery(function=size, sensitivity=3, label="rows"), QUIET)
    assert budget.events[-1] == LaplaceEvent(sensitivity=3, scale=1e-6, label="rows")


PARTS = [Reservation(PURE, label) for label in "ab"]
CHANGES = {
    "as they came": lambda session: session,
    "imputed": lambda session: session.apply(shared()),
    "observed": lambda session: session.apply(ObservedOn({"income"})),
    "groups": lambda session: session.apply(EachLevel("sex")),
    "imputed groups": lambda session: session.apply(shared()).apply(EachLevel("sex")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_all_is_charged_before_anything_is_read(change, monkeypatch):
    """Plans, changes and reservations read nothing, and a reservation is all or nothing."""

    def refuse(*_):
        raise AssertionError("read")

    for name in ("cells", "table"):
        monkeypatch.setattr(ChosenRows, name, property(refuse))
    poor, enough = Filter(1.9), Filter(2.0)
    with pytest.raises(BudgetExceededError):
        change(opened(budget=poor)).reserve_each(*PARTS)
    assert poor.events == ()
    asked = change(opened(budget=enough))
    assert asked.preview(COUNT, PURE).event.label.startswith("ages")
    parts = asked.reserve_each(*PARTS)
    assert [event.label for event in enough.events] == ["a", "b"]
    with refuses(DataError, "could not be computed"):
        parts[0].measure(COUNT, PURE)


def test_reserved_part_answers_within_its_cap_only():
    """For every query, and for every change of its rows."""
    budget = Filter(2.0)
    first, second = opened(budget=budget).reserve_each(*PARTS)
    first.measure(COUNT, PURE)
    with pytest.raises(BudgetExceededError):
        first.apply(ObservedOn({"age"})).measure(SIZE, Cost(privacy_measure="pure", amount=1e-9))
    with pytest.raises(BudgetExceededError):
        second.measure(SIZE, Cost(privacy_measure="pure", amount=1.0001))
    # A query that is made from an earlier answer is charged to its own cap.
    centre = float(opened().measure(COUNT, PURE).values[0])
    query = RowSums(function=incomes, reads={"income"}, arguments=(centre,), bound=1e3)
    second.measure(query, PURE)
    assert budget.remaining.amount == 0
    assert [len(event.log) for event in budget.events] == [1, 1]


def test_reserved_parts_state_their_guarantee():
    budget = Filter(40.0, 1e-6, measure="zcdp", adjacency="replace-one")
    session = opened(budget=budget)
    gaussian = Reservation(Cost(privacy_measure="gdp", amount=0.02), "sum")
    promised = session.promise(PARTS[0].event, gaussian.event)
    session.reserve_each(PARTS[0], gaussian)
    reference = [dataclasses.replace(event, log=()) for event in budget.events]
    assert reference == [PARTS[0].event, gaussian.event] == list(promised.events)
    assert (promised.delta, promised.adjacency) == (1e-6, "replace-one")
    assert session.promise(PARTS[0].event).delta == 0


def test_part_of_a_replace_one_budget_answers_within_its_cap():
    """A cap is stated for one row more or less, and the budget converts it: twice the epsilon."""
    budget = Filter(2.0, adjacency="replace-one")
    (part,) = opened(budget=budget).reserve_each(PARTS[0])
    assert budget.remaining.amount == 0
    part.measure(COUNT, PURE)


def test_required_attributes_and_conditions_stay_after_changes():
    session = opened(budget=Filter(9.0))
    one = session.apply(ObservedOn({"age"})).apply(ObservedOn({"income"}))
    assert one.facts.observed == {"age", "income"}
    (part,) = one.reserve_each(PARTS[0])
    assert part.apply(EachLevel("sex")).facts.observed == {"age", "income"}
    assert part.measure(COUNT, PURE).event.required == {"age", "income"}
    retained = session.promise().conditions
    assert PublicDomain() in retained
    assert part.promise().conditions == one.promise().conditions == retained


def test_rows_with_a_value_are_read():
    rows = table()
    there = (rows.codes("age") < 5) & ~rows.mask("income")
    result = opened(rows).apply(ObservedOn({"age", "income"})).measure(SIZE, QUIET)
    assert result.values.tolist() == [there.sum()] != [40]


def test_a_change_is_computed_once_for_all_parts(monkeypatch):
    calls, usual = [], NearestNeighbours.fill
    monkeypatch.setattr(
        NearestNeighbours, "fill", lambda self, rows: calls.append(1) or usual(self, rows)
    )
    change, parts = shared(), opened().reserve_each(*PARTS)
    for part in parts:
        part.apply(change).measure(COUNT, PURE)
    assert len(calls) == 1


@pytest.mark.parametrize("rho", [1e-9, 0.0244, 0.1, 0.3, 0.5, 7.0, 1e5])
def test_pure_noise_for_rho_costs_at_most_rho(rho):
    """The square root is rounded down, or a cap of exactly rho would refuse its first release."""
    epsilon = smooth_epsilon(Cost(privacy_measure="zcdp", amount=rho))
    cost = Fraction(repr(epsilon)) ** 2 / 2
    assert 1 - 1e-14 < cost / Fraction(repr(rho)) <= 1
    Filter.from_cost(Cost(privacy_measure="zcdp", amount=rho), delta=1e-6).charge(
        PureEvent(epsilon=epsilon)
    )


def replaced(name):
    return dataclasses.replace(shared(), fills=((name, "nearest", 0.0),))


ORDERS = {
    "two imputations": (lambda: (shared(), shared()), ParameterError),
    "observed, then imputed": (lambda: (ObservedOn({"age"}), shared()), ParameterError),
    "imputed, then observed": (lambda: (shared(), ObservedOn({"age"})), ParameterError),
    "groups, then imputed": (lambda: (EachLevel("sex"), shared()), ParameterError),
    "groups, then observed": (lambda: (EachLevel("sex"), ObservedOn({"age"})), ParameterError),
    "groups twice": (lambda: (EachLevel("sex"), EachLevel("sex")), ParameterError),
    "imputed groups": (lambda: (shared(), EachLevel("age")), UnprovenError),
    "a function": (lambda: (lambda rows: rows,), ParameterError),
    "a subclass": (lambda: (strange(ObservedOn)(frozenset({"age"})),), ParameterError),
    "a subclass of an imputation": (
        lambda: (strange(NearestNeighbours)(**vars(shared())),),
        ParameterError,
    ),
    "an imputation of other attributes": (lambda: (replaced("hats"),), ParameterError),
    "observed on nothing": (lambda: (ObservedOn(()),), ParameterError),
    "an unknown attribute": (lambda: (ObservedOn({"hats"}),), ParameterError),
}


@pytest.mark.parametrize("name", ORDERS)
def test_changes_in_another_order_raise(name):
    changes, error = ORDERS[name]
    session = opened()
    *before, last = changes()
    for change in before:
        session = session.apply(change)
    with pytest.raises(error):
        session.apply(last)


def failing(rows):
    raise ValueError(f"{len(rows)} rows")


def looking(rows):
    raise ValueError(f"{len(rows)} rows")


def writing(rows):
    rows.codes("age")[0] = 0
    return rows.codes("age")


def one_code(rows):
    return rows.codes("sex")


def short(rows):
    return rows.codes("age")[1:]


@pytest.mark.parametrize(
    "bad",
    [
        RowCounts(function=one_code, reads={"age"}, cells=5),
        RowCounts(function=short, reads={"age"}, cells=5),
        RowCounts(function=writing, reads={"age"}, cells=5),
        RowSums(function=short, reads={"age"}, bound=1.0, numbers=5),
        CustomQuery(function=lambda rows: len(rows) / 2, reads={"age"}, sensitivity=1, shape=(5,)),
        CustomQuery(function=failing, reads={"age"}, sensitivity=1, shape=(5,)),
    ],
)
def test_a_function_that_fails_says_nothing_and_stays_charged(bad):
    budget = Filter(1e12)
    with refuses(DataError, "^the function of a query failed$"):
        opened(budget=budget).measure(bad, PURE)
    assert len(budget.events) == 1


def test_closures_methods_and_mutable_things_are_refused():
    retained = []

    class Method:
        def run(self, rows):
            retained.append(rows)

    for bad in (lambda rows: retained.append(rows), Method().run, len, with_default):
        with pytest.raises(ParameterError, match="plain function"):
            RowCounts(function=bad)
    fixed, writable = freeze((np.arange(3),))[0], np.arange(3)
    good = (1, "a", None, Fraction(1, 2), writable, (2.0, frozenset({"b"})), SCHEMA, Held(fixed))
    query = RowCounts(function=ages, arguments=good)
    assert len(query.arguments) == len(good)
    writable[0] = 7  # the query has a copy
    assert query.arguments[4].tolist() == [0, 1, 2]
    holder = np.array([retained, None], dtype=object)
    holder.flags.writeable = False
    loose = (Text("a"), (Text("a"),), [1], {"a": 1}, (1, [2]), Method(), retained, Loose(1), holder)
    for bad in (*loose, Held(writable), Held([1]), Held(holder)):
        with pytest.raises(ParameterError, match="arguments are arrays"):
            RowCounts(function=ages, arguments=(bad,))
    with pytest.raises(ValueError, match="read-only"):
        fixed[0] = 1


def with_default(rows, retained=[]):  # noqa: B006
    return retained


@dataclasses.dataclass(frozen=True, eq=False)
class Held:
    value: object


class Text(str):
    """Text to which something can be attached."""


@dataclasses.dataclass
class Loose:
    value: object


# Rows that depend on other rows
@dataclasses.dataclass(frozen=True)
class Known:
    """One row moves at most three others."""

    def smooth_bound(self, *, row_weight, recipient_weight, beta):
        return row_weight + recipient_weight * 3


def fills_in_ways(self, rows):
    """Fill the ages of two rows, in two ways each."""
    del self, rows
    ways = {"age": ImputedCells(np.arange(4), np.arange(4))}
    return Ways(*map(np.array, ([3, 4], [0, 1], [0, 2, 4])), ways, Known())


def looking_at(self, rows):
    del self
    looking(rows)


def shared():
    """Ages are filled from rows of the same sex."""
    return KNNImputation(impute="age", match_on="sex").change(SCHEMA)


def test_imputed_cells_get_noise_by_the_private_bound_and_others_plain_noise(monkeypatch):
    """A row moves an average by about a million units, and rounding each number by two more."""
    monkeypatch.setattr(NearestNeighbours, "fill", fills_in_ways)
    with RecordingNoise(0) as noise:
        asked = opened().apply(shared())
        asked.measure(COUNT, PURE)
        sexes = RowCounts(function=one_code, reads={"sex"}, cells=2, label="sexes")
        asked.measure(sexes, PURE)
    ages, sexes = noise.answers
    assert ages.event == PureEvent(epsilon=1.0, label="ages")
    row_weight, recipient_weight = QUANTA + 2 * 5, 2 * QUANTA
    assert (
        ages.mechanism.row_weight,
        ages.mechanism.recipient_weight,
        ages.mechanism.dimension,
    ) == (
        row_weight,
        recipient_weight,
        5,
    )
    rows = table()
    counts = np.bincount(np.delete(rows.codes("age"), [3, 4]), minlength=6)[:5] * QUANTA
    missing = [row for row in (3, 4) if rows.codes("age")[row] == 5]
    for row in (3, 4):
        if row in missing:
            counts[2 * (row - 3) : 2 * (row - 3) + 2] += QUANTA // 2
        else:
            counts[rows.codes("age")[row]] += QUANTA
    assert ages.exact == Bounded((*counts.tolist(), 0), row_weight + 3 * recipient_weight)
    assert sexes.event == LaplaceEvent(sensitivity=1, scale=1.0, label="sexes")
    assert sexes.mechanism == Noise("laplace", 1.0)


def test_queries_without_imputed_cells_do_not_impute(monkeypatch):
    monkeypatch.setattr(NearestNeighbours, "fill", looking_at)
    query = RowCounts(function=one_code, reads={"sex"}, cells=2)
    asked = opened().apply(shared())
    assert asked.measure(query, QUIET).values.sum() == 40


def oldest(rows):
    return int(rows.codes("age").max(initial=0))


def test_an_imputation_that_fails_says_nothing(monkeypatch):
    monkeypatch.setattr(NearestNeighbours, "fill", looking_at)
    asked = opened().apply(shared())
    with refuses(DataError, "^the imputation of the rows failed$"):
        asked.measure(COUNT, PURE)


def test_some_of_the_rows_have_their_filled_cells():
    rows = table().with_missing({"income": np.arange(40) % 3 == 0})
    is_missing, expected = np.flatnonzero(rows.mask("income")), rows.values("income").copy()
    expected[is_missing] = np.linspace(-5, 10, len(is_missing))
    codes = SCHEMA["income"].encode_values(expected)
    cells = ImputedRows(
        rows, {"income": ImputedCells(is_missing, codes[is_missing], expected[is_missing])}
    )
    for some, part in ((slice(None), cells), (slice(7, 31), cells.part(7, 31))):
        view = RowView(part, frozenset({"income"}))
        assert view.values("income").tolist() == expected[some].tolist()
        assert view.codes("income").tolist() == codes[some].tolist()


LITTLE = CustomQuery(function=size, sensitivity=10**9)
OLDEST = {"function": oldest, "reads": {"age"}, "sensitivity": 5}
GAUSSIAN = Cost(privacy_measure="gdp", amount=0.01)
TINY = {name: Cost(privacy_measure=name, amount=1e-20) for name in ("pure", "zcdp")}
REFUSED = [
    ("need a Table", lambda _: opened("x")),
    ("budget", lambda _: opened(budget=None)),
    ("undeclared", lambda _: opened(undeclared="perhaps")),
    ("bound", lambda _: RowSums(function=ages, bound=0.0)),
    ("its query names", lambda _: RowView(table(), frozenset({"age"})).codes("income")),
    ("its query names", lambda _: RowView(table(), frozenset({"age"})).values("income")),
    ("its query names", lambda _: RowView(table(), frozenset({"age"})).mask("income")),
    ("how far a row moves", lambda _: CustomQuery(function=ages, sensitivity=0.5)),
    ("how far a row moves", lambda _: CustomQuery(function=ages, sensitivity=float("nan"))),
    ("epsilon 1e-20 is too little", lambda asked: asked.measure(LITTLE, TINY["pure"])),
    ("rho 1e-20 is too little", lambda asked: asked.measure(LITTLE, TINY["zcdp"])),
    ("RowCounts, RowSums", lambda asked: asked.measure(strange(CustomQuery)(**OLDEST), QUIET)),
    ("Noise, or for a Cost", lambda asked: asked.measure(SIZE, strange(Noise)("laplace", 1.0))),
    ("private rows", copy.deepcopy),
    ("pure epsilon or rho", lambda asked: asked.apply(shared()).measure(COUNT, GAUSSIAN)),
    ("private bound", lambda asked: asked.apply(shared()).measure(COUNT, QUIET)),
]


@pytest.mark.parametrize(("words", "ask"), REFUSED)
def test_invalid_query_raises_one_line_without_a_charge(words, ask):
    budget = Filter(1e12)
    with refuses(MissDPError, words):
        ask(opened(budget=budget))
    assert budget.events == ()


def test_a_session_and_its_rows_show_public_facts_only():
    assert repr(opened()) == "Session(TableRows(age, sex, income))"
    assert repr(RowView(table(), frozenset({"age"}))) == "Rows(private)"


@pytest.mark.parametrize(
    ("law", "exact", "other"),
    [
        (calibrate_smooth_noise(1.0), Bounded((3, 0), 4.0), Bounded((7, 0), 4.6)),
        (
            calibrate_smooth_noise(1.0, dimension=2),
            Bounded((3, 9, 0), 4.0),
            Bounded((5, 8, 0), 4.5),
        ),
        (Noise("gaussian", 5.0), np.array([3, 8]), np.array([6, 4])),
    ],
)
def test_log_ratios_equal_those_of_the_distribution(law, exact, other):
    source = SeededNoise(5)
    # A likelihood ratio has mean 1 under the distribution in its denominator, and so has its
    # inverse.
    for one, two in ((exact, other), (other, exact)):
        draws = (law.draw(two, source) for _ in range(400))
        ratios = np.exp([log_ratio(law, draw, one, two) for draw in draws])
        assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))
        assert ratios.std() > 0.02


def two_numbers(rows, first):
    return np.stack([np.full(len(rows), first), np.ones(len(rows))], axis=1)


@pytest.mark.parametrize("first", [(0.4, 0.6), (0.0, 0.2), (0.9, 1.1)])
def test_several_numbers_that_fill_the_bound_move_no_further_than_stated(first):
    """A number that grows leaves less of the bound to later ones: the row moves twice as far."""
    cells = as_they_came(table().take(np.arange(40) == 0))
    ask = {"function": two_numbers, "reads": {"age"}, "bound": 1.0, "numbers": 2, "change": 0.2}
    one, other = (RowSums(arguments=(value,), **ask) for value in first)
    assert np.abs(one.exact(cells) - other.exact(cells)).sum() <= one.recipient_sensitivity


def test_changed_order_of_choice_and_imputation_is_stated_alike():
    rows, fill = TableRows.of(Table.without_rows(SCHEMA)), shared()
    chosen, filled = rows.changed(ObservedOn({"age"}), None), rows.changed(fill, None)
    with pytest.raises(ParameterError, match="imputed once, and not after they are chosen"):
        chosen.changed(fill, None)
    with pytest.raises(ParameterError, match="not chosen after they are imputed"):
        filled.changed(ObservedOn({"age"}), None)


@pytest.mark.parametrize(
    ("kind", "facts", "named"),
    [
        (RowCounts, {"cells": 0}, "cells"),
        (RowCounts, {"cells": 1.5}, "cells"),
        (RowSums, {"bound": 1.0, "numbers": 0}, "numbers"),
        (RowSums, {"bound": 1.0, "change": -1e-9}, "change"),
        (RowSums, {"bound": 1.0, "change": math.nan}, "change"),
    ],
)
def test_row_query_number_out_of_range_raises_error(kind, facts, named):
    with pytest.raises(ParameterError, match=f"^{named} must be"):
        kind(function=ages, reads={"age"}, **facts)
