"""The door to rows: charged first, answered once, clipped inside, and only plain functions run."""

from __future__ import annotations

import copy
import dataclasses
import os
import tracemalloc
import warnings
from fractions import Fraction
from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.witness import Keeper, strange
from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import ApproximateEvent, Budget, Cost, GaussianEvent, LaplaceEvent, PureEvent
from missdp.errors import BudgetExceededError, DataError, MissDPError, ParameterError, UnprovenError
from missdp.mechanisms import (
    Ask,
    Counts,
    Filled,
    Noise,
    Preparation,
    Prepared,
    Query,
    RowDoor,
    SeededNoise,
    Sums,
    questions,
)
from missdp.mechanisms.exact_noise import SecureNoise
from missdp.mechanisms.questions import QUANTA, Rows, Ways
from missdp.mechanisms.row_door import Charged, _PrivateRows
from missdp.mechanisms.session import _unquoted, read_only
from missdp.mechanisms.smooth import Bounded, ReleasedScale, ScaleRelease, plan_smooth
from missdp.table.encode import Column
from refusing import refuses

SCHEMA = Schema((
    Ordinal(name="age", levels=tuple(range(5)), nullable=True),
    Categorical(name="sex", levels=("f", "m")),
    Numeric(name="income", lower=-5, upper=10, nullable=True),
))  # fmt: skip
PURE = Cost(currency="pure", amount=1.0)
SCALE = ReleasedScale(4.0, failure=1e-9)
QUIET = Noise("laplace", 1e-6)


def table(size=40, seed=0):
    rng = np.random.default_rng(seed)
    codes = {"age": rng.integers(0, 6, size), "sex": rng.integers(0, 2, size),
             "income": rng.integers(0, SCHEMA["income"].size + 1, size)}  # fmt: skip
    return Table.from_codes(SCHEMA, codes).with_values(rng)


def door(rows=None, **more):
    more = {"budget": Budget(1e12), "random_state": 0, **more}
    return RowDoor(table() if rows is None else rows, **more)


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


COUNT = Counts(function=ages, reads={"age"}, cells=5)
SIZE = Query(function=size, sensitivity=1)


def test_answers_are_those_of_the_rows():
    """Missing cells are not counted; sums are clipped; a warning is an error in these tests."""
    rows = table()
    counts = np.bincount(rows.codes("age"), minlength=6)[:5]
    assert door(rows).ask(COUNT, QUIET, label="ages").values.tolist() == counts.tolist()
    question = Sums(function=incomes, reads={"income"}, given=(1.0,), bound=10.0)
    found = door(rows).ask(question, Noise("laplace", 1.0), label="sum").values[0]
    assert found == pytest.approx(np.clip(rows.values("income"), -10, 10).sum(), abs=1e-3)
    nobody = Query(function=of_nobody, reads={"age", "income"}, sensitivity=1)
    assert door(rows).ask(nobody, QUIET, label="mean of an empty slice").values == [0]
    large = Query(function=big, sensitivity=1)  # too large to be signed: it must not wrap around
    assert large.exact(rows)[0] == large.exact(rows.take(np.arange(19)))[0] > 0


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=8), st.data())
@settings(deadline=None)
def test_whatever_a_function_returns_a_row_adds_at_most_the_bound(weights, data):
    bound = data.draw(st.floats(1e-3, 1e6))
    question = Sums(
        function=shares if len(weights) > 1 else incomes, reads={"income"}, bound=bound,
        given=(np.array(weights),) if len(weights) > 1 else (weights[0],), numbers=len(weights),
    )  # fmt: skip
    rows = table(6, data.draw(st.integers(0, 99)))
    all_but_one = rows.take(np.arange(6) != data.draw(st.integers(0, 5)))
    change = np.abs(question.exact(rows) - question.exact(all_but_one)).sum()
    assert change <= question.own == QUANTA


@pytest.mark.filterwarnings("error")
def test_no_warning_tells_of_the_rows_when_another_thread_is_done():
    before, (here, there) = list(warnings.filters), (Event(), Event())

    def first():
        here.set()
        there.wait(10)

    def second():
        there.set()
        other.join(10)
        warnings.warn("40 rows", stacklevel=1)

    other = Thread(target=_unquoted(first))
    other.start()
    here.wait(10)
    _unquoted(second)()  # which a warning would make fail
    assert list(warnings.filters) == before


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_charge_is_not_answered_again_in_a_fork():
    asked = door()
    (charged,) = asked.begin(Ask(label="rows", cost=PURE))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asked.answer(charged, SIZE)
        except BudgetExceededError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    asked.answer(charged, SIZE)


def test_what_a_donee_moves_has_room_for_rounding_at_both_ends():
    """Halves are rounded to even numbers: 0.5 and 1.5 units, one unit apart, to 0 and 2."""
    codes = {"age": [0], "sex": [0], "income": SCHEMA["income"].encode_values(np.ones(1))}
    known = Table.from_codes(SCHEMA, codes)
    columns = {name: known.column(name) for name in SCHEMA.names}
    columns["income"] = Column(known.codes("income"), np.ones(1))
    one, ask = Table(SCHEMA, columns), {"function": incomes, "reads": {"income"}, "bound": 1.0}
    before, after = (
        Sums(given=(units / QUANTA,), change=1 / QUANTA, **ask) for units in (0.5, 1.5)
    )
    assert after.exact(one) - before.exact(one) == 2 <= after.donee


def test_a_query_is_charged_with_what_was_declared():
    asked = door(budget=Budget(1e12, 0.01))
    answer = asked.ask(SIZE, Noise("gaussian", 0.05), label="rows")
    assert (answer.values.tolist(), answer.mechanism) == ([40], Noise("gaussian", 0.05))
    event = GaussianEvent(sensitivity=1, sigma=0.05, label="rows")
    assert answer.event == asked.budget.events[-1] == event
    asked.ask(Query(function=size, sensitivity=3), QUIET, label="rows")
    assert asked.budget.events[-1] == LaplaceEvent(sensitivity=3, scale=1e-6, label="rows")


def test_all_is_charged_before_anything_is_read(monkeypatch):
    def refuse(self):
        raise AssertionError("read")

    monkeypatch.setattr(_PrivateRows, "cells", property(refuse))
    asks = [Ask(label=label, cost=PURE, reads={"age"}, dimension=5) for label in "ab"]
    asked = door(budget=Budget(1.9))
    with pytest.raises(BudgetExceededError):
        asked.begin(*asks)
    assert asked.budget.events == ()
    asked = door(budget=Budget(2.0))
    charged = asked.begin(*asks)
    assert [event.label for event in asked.budget.events] == ["a", "b"]
    with pytest.raises(DataError, match="could not be computed"):
        asked.answer(charged[0], COUNT)


def test_a_charge_is_answered_once_by_its_own_door_and_for_what_it_was():
    ask = Ask(label="ages", cost=PURE, reads={"age"}, dimension=5)
    asked = door()
    (charged,) = asked.begin(ask)
    asked.answer(charged, COUNT)
    (again,) = asked.begin(ask)
    forged = Charged(again.events, ask=ask)
    other = asked.prepared(Preparation(function=unchanged))
    for bad_door, bad in ((asked, charged), (asked, forged), (door(), again), (other, again)):
        with pytest.raises(ParameterError, match="answered once"):
            bad_door.answer(bad, COUNT)
    for bad in (SIZE, Counts(function=ages, reads={"age", "sex"}, cells=5)):
        with pytest.raises(ParameterError, match="not the one"):
            asked.answer(again, bad)
    asked.answer(again, COUNT)
    (charged,) = asked.begin(Ask(label="x", cost=PURE))
    with pytest.raises(UnprovenError, match="more sensitive"):
        asked.answer(charged, Query(function=size, sensitivity=2))
    for name, value in {"cost": QUIET, "own": 9, "label": "y"}.items():
        (charged,) = asked.begin(Ask(label="x", cost=Noise("laplace", 50.0)))
        object.__setattr__(charged.ask, name, value)
        with pytest.raises(ParameterError, match="not what was charged for"):
            asked.answer(charged, SIZE)


def failing(rows):
    raise ValueError(f"{len(rows)} rows")


def looking(rows, draws):
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
        Counts(function=one_code, reads={"age"}, cells=5),
        Counts(function=short, reads={"age"}, cells=5),
        Counts(function=writing, reads={"age"}, cells=5),
        Sums(function=short, reads={"age"}, bound=1.0, numbers=5),
        Query(function=lambda rows: len(rows) / 2, reads={"age"}, sensitivity=1, shape=(5,)),
        Query(function=failing, reads={"age"}, sensitivity=1, shape=(5,)),
    ],
)
def test_a_function_that_fails_says_nothing_and_stays_charged(bad):
    asked = door()
    with refuses(DataError, "^the function of a question failed$"):
        asked.ask(bad, PURE, label="x")
    assert len(asked.budget.events) == 1


def test_closures_methods_and_mutable_things_are_refused():
    kept = []

    class Method:
        def run(self, rows):
            kept.append(rows)

    for bad in (lambda rows: kept.append(rows), Method().run, len, with_default):
        for make in (Counts, Preparation):
            with pytest.raises(ParameterError, match="plain function"):
                make(function=bad)
    frozen, writable = read_only((np.arange(3),))[0], np.arange(3)
    good = (1, "a", None, Fraction(1, 2), writable, (2.0, frozenset({"b"})), SCHEMA, Held(frozen))
    assert len(Counts(function=ages, given=good).given) == len(good)
    holder = np.array([kept, None], dtype=object)
    holder.flags.writeable = False
    loose = (Text("a"), (Text("a"),), [1], {"a": 1}, (1, [2]), Method(), kept, Loose(1), holder)
    for bad in (*loose, Held(writable), Held([1]), Held(holder)):
        with pytest.raises(ParameterError, match="can be given"):
            Counts(function=ages, given=(bad,))
    with pytest.raises(ValueError, match="read-only"):
        frozen[0] = 1


def with_default(rows, kept=[]):  # noqa: B006
    return kept


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

    def smooth_bound(self, *, own, donee, beta):
        return own + donee * 3


def unchanged(rows, draws):
    return Prepared()


def shared_ages(rows, draws, profile):
    return Prepared({"age": Filled(np.arange(len(rows)), np.full(len(rows), 2))}, profile=profile)


def filling(rows, draws, places, codes):
    """Fill the ages of these rows, counted from the last one, with these codes."""
    return Prepared({"age": Filled(len(rows) - 1 - places, codes)}, profile=Known())


def in_ways(rows, draws, places, lists, start, keep):
    """Fill the ages of these rows in one of two lists of ways."""
    ways = {"age": Filled(np.arange(4), np.arange(4))}
    return Prepared(profile=Known(), keep=keep, ways=Ways(places, lists, start, ways))


WRONG = {
    "no bound": {"given": (None,)},
    "an error": {"function": looking, "given": ()},
    "no cells": {"function": lambda rows, _: Prepared({"age": (1, None)}, profile=Known())},
    **{
        name: {"function": filling, "given": (np.array(places), np.array(codes))}
        for name, places, codes in (
            ("other lengths", [3, 2], [0, 0, 0]),
            ("a row twice", [3, 3], [0, 0]),
            ("no such row", [-1], [0]),
            ("a row from the end", [40], [0]),
            ("far before the first", [30, np.iinfo(np.int64).max], [0, 0]),
            ("no such code", [3], [99]),
            ("no whole code", [3], [0.0]),
        )
    },
    **{
        f"{name}, in several ways": {
            "function": in_ways,
            "averaged": True,
            "given": (*map(np.array, ways), keep),
        }
        for name, ways, keep in (
            ("a row twice", ([3, 3], [0, 1], [0, 2, 4]), None),
            ("a row from the end", ([-1, 3], [0, 1], [0, 2, 4]), None),
            ("no such row", ([3, 40], [0, 1], [0, 2, 4]), None),
            ("no such list", ([3, 4], [0, 2], [0, 2, 4]), None),
            ("no way", ([3, 4], [0, 1], [0, 4, 4]), None),
            ("lists out of order", ([3, 4], [0, 1], [0, 3, 2]), None),
            ("fewer rows", ([3, 4], [0, 1], [0, 2, 4]), np.arange(40) > 2),
        )
    },
}


def shared(function=shared_ages, given=(Known(),), **more):
    return Preparation(function=function, shared=frozenset({"age"}), given=given, **more)


def test_shared_cells_get_noise_by_the_private_bound_and_others_plain_noise():
    witness = Keeper()
    asked = door(random_state=witness).prepared(shared())
    asked.ask(COUNT, PURE, label="ages")
    asked.ask(Counts(function=one_code, reads={"sex"}, cells=2), PURE, label="sexes")
    (first, law, exact), (second, noise, _) = witness.kept
    assert first == PureEvent(epsilon=1.0, label="ages")
    assert (law.own, law.donee, law.dimension) == (1, 2, 5)
    assert exact == Bounded((0, 0, 40, 0, 0), 7)
    assert second == LaplaceEvent(sensitivity=1, scale=1.0, label="sexes")
    assert noise == Noise("laplace", 1.0)


def oldest(rows):
    return int(rows.codes("age").max(initial=0))


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("at_once", [1, 2**20])
def test_a_preparation_that_fails_says_nothing(name, at_once, monkeypatch):
    monkeypatch.setattr(questions, "PART_ROWS", at_once)
    asked = door().prepared(shared(**WRONG[name]))
    with refuses(DataError, "^the preparation of the rows failed$"):
        asked.ask(COUNT, PURE, label="ages")


@pytest.mark.parametrize("kind", [np.uint8, np.uint32, np.int64])
def test_cells_of_some_rows_are_found_without_a_copy_of_all_row_numbers(kind):
    rows = np.arange(0, 250, 5, dtype=kind)
    filled = Filled(rows, np.arange(50))
    for start, stop in ((0, 256), (7, 31), (5, 10), (6, 9), (246, 10**6), (0, 0)):
        inside = (rows >= start) & (rows < stop)
        part = filled.between(start, stop)
        assert part.rows.tolist() == (rows[inside].astype(int) - start).tolist()
        assert part.codes.tolist() == np.flatnonzero(inside).tolist()
    many = Filled(np.arange(10**6, dtype=np.uint32), np.zeros(10**6, dtype=np.uint8))
    tracemalloc.start()
    many.between(10, 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**5


def out_of_bounds(rows, draws, odd):
    holes = np.flatnonzero(rows.mask("income"))
    values = np.full(len(holes), odd)
    return Prepared({"income": Filled(holes, np.zeros(len(holes), dtype=int), values)})


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e300, 10.5, -5.5])
def test_filled_values_keep_to_the_bounds_whatever_a_preparation_gives(odd):
    rows, reads = table().with_missing({"income": np.arange(40) % 3 == 0}), frozenset({"income"})
    how = Preparation(function=out_of_bounds, reads=reads, given=(odd,))
    cells = _PrivateRows(rows, how, SeededNoise(0)).cells
    wanted = np.where(rows.mask("income"), 10 if odd > 0 else -5, rows.values("income"))
    for some, part in ((slice(None), cells), (slice(7, 31), cells.part(7, 31))):
        assert Rows(part, reads).values("income").tolist() == wanted[some].tolist()


def test_a_released_scale_allows_gaussian_noise_only_where_it_was_charged():
    paid = ScaleRelease(rho=0.5, delta=1e-6)
    budget = Budget(100.0, 1e-3)
    asked = door(budget=budget).prepared(shared())
    scaled = asked.scaled(paid)
    kinds = [type(event) for event in budget.events]
    assert kinds == [GaussianEvent, ApproximateEvent]
    assert scaled.scale.donees >= 3
    assert asked.scale is None
    ask = Ask(label="x", cost=Cost(currency="zcdp", amount=0.1), reads={"age"}, dimension=5)
    (charged,) = asked.begin(ask)
    with pytest.raises(ParameterError, match="answered once"):
        scaled.answer(charged, COUNT)
    assert len(scaled.guarantee().events) == 2
    with pytest.raises(ParameterError, match="public"):
        door().scaled(paid)


LITTLE = Query(function=size, sensitivity=10**9)
OLDEST = {"function": oldest, "reads": {"age"}, "sensitivity": 5}
RENYI = Cost(currency="renyi", amount=1.0, order=2.0)
TINY = {name: Cost(currency=name, amount=1e-20) for name in ("pure", "zcdp")}
STRANGE = strange(ScaleRelease)(epsilon=1.0)
REFUSED = [
    ("asked of a Table", lambda _: door("x")),
    ("budget", lambda _: door(budget=None)),
    ("undeclared", lambda _: door(undeclared="perhaps")),
    ("bound", lambda _: Sums(function=ages, bound=0.0)),
    ("named", lambda _: Rows(table(), frozenset({"age"})).codes("income")),
    ("named", lambda _: Rows(table(), frozenset({"age"})).values("income")),
    ("named", lambda _: Rows(table(), frozenset({"age"})).mask("income")),
    ("how far a row moves", lambda _: Query(function=ages, sensitivity=0.5)),
    ("how far a row moves", lambda _: Query(function=ages, sensitivity=float("nan"))),
    ("pure epsilon or rho", lambda _: Ask(label="x", cost=RENYI)),
    ("gate", lambda _: Ask(label="x", cost=PURE, gate={"age"})),
    ("pure epsilon or rho", lambda asked: asked.measure(SIZE, RENYI)),
    ("pure epsilon or rho", lambda asked: asked.measure(SIZE, Cost(currency="gdp", amount=0.01))),
    ("epsilon 1e-20 is too little", lambda asked: asked.ask(LITTLE, TINY["pure"])),
    ("rho 1e-20 is too little", lambda asked: asked.ask(LITTLE, TINY["zcdp"])),
    ("one of Counts, Sums, Query", lambda asked: asked.measure(strange(Query)(**OLDEST), QUIET)),
    ("Noise, or for a Cost", lambda asked: asked.measure(SIZE, strange(Noise)("laplace", 1.0))),
    ("nothing made from it", lambda asked: asked.prepared(shared()).scaled(STRANGE)),
    ("private rows", copy.deepcopy),
    ("private bound", lambda asked: asked.prepared(shared()).ask(Query(**OLDEST, change=5), QUIET)),
]


@pytest.mark.parametrize(("words", "ask"), REFUSED)
def test_what_is_refused_is_told_in_one_line_and_charged_nothing(words, ask):
    asked = door()
    with refuses(MissDPError, words):
        ask(asked)
    assert asked.budget.events == ()


def test_a_query_of_shared_cells_needs_its_change():
    asked = door().prepared(shared())
    with pytest.raises(UnprovenError, match="nobody said"):
        asked.ask(Query(**OLDEST), PURE)
    assert np.isfinite(asked.ask(Query(**OLDEST, change=5), PURE).values[0])


def test_a_door_and_its_rows_show_public_facts_only():
    assert repr(door()) == "RowDoor(age, sex, income)"
    assert repr(Rows(table(), frozenset({"age"}))) == "Rows(private)"


@pytest.mark.parametrize(
    ("law", "exact", "other"),
    [
        (plan_smooth(1.0), Bounded((3,), 4.0), Bounded((7,), 4.4)),
        (plan_smooth(1.0, dimension=2), Bounded((3, 9), 4.0), Bounded((5, 8), 4.2)),
        (plan_smooth(1.0, tells=True), Bounded((3, 0), 4.0), Bounded((7, 0), 4.6)),
        (
            plan_smooth(1.0, dimension=2, tells=True),
            Bounded((3, 9, 0), 4.0),
            Bounded((5, 8, 0), 4.5),
        ),
        (SCALE.noise(0.5, own=1, donee=1), np.array([3, 8]), np.array([6, 4])),
    ],
)
def test_log_ratios_are_those_of_the_law(law, exact, other):
    source = SeededNoise(5)
    # A likelihood ratio has mean 1 under the law in its denominator, and so has its inverse.
    for one, two in ((exact, other), (other, exact)):
        draws = (law.draw(two, source) for _ in range(400))
        ratios = np.exp([law.log_ratio(draw, one, two) for draw in draws])
        assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))
        assert ratios.std() > 0.02


def two_numbers(rows, first):
    return np.stack([np.full(len(rows), first), np.ones(len(rows))], axis=1)


@pytest.mark.parametrize("first", [(0.4, 0.6), (0.0, 0.2), (0.9, 1.1)])
def test_several_numbers_that_fill_the_bound_move_no_further_than_stated(first):
    """One that grows leaves the later ones less room, so the row moves twice as far."""
    cells = _PrivateRows(table().take(np.arange(40) == 0), None, SecureNoise()).cells
    ask = {"function": two_numbers, "reads": {"age"}, "bound": 1.0, "numbers": 2, "change": 0.2}
    one, other = (Sums(given=(value,), **ask) for value in first)
    assert np.abs(one.exact(cells) - other.exact(cells)).sum() <= one.donee
