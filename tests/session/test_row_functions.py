"""The contract of row functions, for every registered type: one row in, the same row out.

Tested, not proven: a function is called with generated tables, in parts, in other orders, and with
one row changed. Functions that break one clause each must be found.
"""

import contextlib
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import missdp.session.row_kernel as kernel
from missdp import AIM, Categorical, Date, Numeric, Ordinal, Schema
from missdp.accounting import (
    CountedOutsideTheKernel,
    Filter,
    RefusalsNotPrivate,
    RowFunctionsTested,
)
from missdp.errors import DataError, ParameterError, SchemaError
from missdp.inference.conditionals import fit_conditionals
from missdp.schema import Always, Determined, NotApplicable, SurveyWeight, Unit
from missdp.schema.layout import STEPS
from missdp.schema.modelled import ModelView, complete_schema
from missdp.session import CountedRows, LevelMerge, Marginal, Noise, SecureNoise, Session
from missdp.session.counting import Counter
from missdp.session.merged_rows import MergedRow
from missdp.session.modelled_rows import ModelledRow
from missdp.session.observed_rows import ObservedRow, rows_where
from missdp.session.row_kernel import Range, RowFunction, map_rows, row_function
from missdp.sources import MemorySource, strategy_named
from missdp.sources.filling import CompletedRow, MarginallyFilledRow
from missdp.table import Table
from missdp.table.row_functions import CodedRow, RecodedRow, WeightedRow
from missdp.table.units import _row_weights, sample_rows_per_unit, unit_sums
from refusing import refuses
from schema.rule_books import books, domain

# Random rules may leave hardly any row, which is warned of.
pytestmark = pytest.mark.filterwarnings("ignore::missdp.errors.SchemaWarning")

LOOSE = {"nullable": True, "outside": "missing"}
SURVEY = Schema(
    (
        Categorical(name="work", levels=("no", "yes"), refused=(-7,), unknown=(-8,), **LOOSE),
        Numeric(name="age", lower=0, upper=99, integer=True, bins=5, refused=(-7,), **LOOSE),
        Numeric(name="born", lower=1925, upper=2024, integer=True, bins=4, **LOOSE),
        Numeric(name="hours", lower=0, upper=80, bins=4, not_applicable=(-1,), **LOOSE),
        Ordinal(name="stage", levels=("a", "b", "c"), unknown=(-8,), **LOOSE),
        Categorical(name="short", levels=("k", "l"), **LOOSE),
        Date(name="day", lower="2019-01-01", upper="2020-12-31", **LOOSE),
    ),
    rules=(
        NotApplicable("hours", unless="work = 'yes'"),
        Always("age + born = 2024"),
        Determined("short", by=("stage",), map=(("a", "k"), ("b", "k"), ("c", "l"))),
    ),
)
CELLS = {
    "work": ["no", "yes", -7, -8, None, "else"],
    "age": [0, 17, 52, 99, -7, None, 1e9, "x"],
    "born": [1925, 1972, 2007, 2024, None],
    "hours": [0, 20.5, 80, -1, None, b"\xff"],
    "stage": ["a", "b", "c", -8, None],
    "short": ["k", "l", None],
    "day": ["2019-01-01", "2020-02-29", "2020-02-30", None],
}
MISSING = {
    name: [c for c in cells if c is None or c == -7 or c == -8] for name, cells in CELLS.items()
}
WEIGHT = SurveyWeight("wt", upper=4.0)


class Given:
    """Stands in for a generator: hands out the random numbers that belong to rows."""

    def __init__(self, numbers):
        self._numbers = numbers

    def random(self, shape):
        found, self._numbers = self._numbers[: shape[0]], self._numbers[shape[0] :]
        return found


@st.composite
def surveys(draw):
    """A schema, the cells of some rows, and as many other rows, half of them with missing cells."""
    n = draw(st.integers(1, 7))
    cells = {
        k: draw(st.lists(st.sampled_from(v), min_size=n, max_size=n)) for k, v in CELLS.items()
    }
    other = {
        k: draw(st.lists(st.sampled_from(v), min_size=n, max_size=n)) for k, v in CELLS.items()
    }
    if draw(st.booleans()):  # which differ in missing cells alone
        lost = draw(st.lists(st.booleans(), min_size=n * len(CELLS), max_size=n * len(CELLS)))
        lost = iter(lost)
        other = {
            k: [draw(st.sampled_from(MISSING[k])) if next(lost) else cell for cell in column]
            for k, column in cells.items()
        }
    return SURVEY, cells, other


@st.composite
def ruled(draw):
    """Rows of a schema with random rules, and others."""
    attributes, rules = draw(books())
    loose = []
    for a in attributes:
        facts = {f: getattr(a, f) for f in a.__dataclass_fields__ if f in vars(a)}
        outside = "missing" if a.nullable else "clamp" if isinstance(a, Numeric) else "error"
        loose.append(type(a)(**{**facts, "outside": outside, "not_applicable": ("none",)}))
    schema = Schema(tuple(loose))
    with contextlib.suppress(SchemaError):  # rules may contradict each other
        schema = Schema(tuple(loose), tuple(rule for rule, _ in rules))
    n, found = draw(st.integers(1, 5)), []
    for _ in range(2):
        columns = {}
        for a in schema:
            cells = [*domain(a), "none", *([None] if a.nullable else [])]
            columns[a.name] = draw(st.lists(st.sampled_from(cells), min_size=n, max_size=n))
        found.append(columns)
    return schema, *found


def as_cells(columns):
    return {k: np.fromiter(cells, dtype=object, count=len(cells)) for k, cells in columns.items()}


def length(block):
    return len(next(iter(block.values())))


def coded(schema, cells):
    """Return the rows with codes and numbers."""
    return map_rows(CodedRow(schema, schema.names, schema.names), cells, length(cells))


def valued(schema):
    return tuple(a.name for a in schema if isinstance(a, Numeric))


def modelled(schema, cells):
    return map_rows(ModelledRow(schema), coded(schema, cells), length(cells))


@cache
def laws(schema, seed):
    """Return a released model of each attribute given all others."""
    sizes = [a.size for a in ModelView(schema).schema]
    rng = np.random.default_rng(seed)
    return fit_conditionals(np.stack([rng.integers(0, s, 300) for s in sizes], axis=1), sizes)


def marginal_laws(schema, rng):
    plain = ModelView(schema).schema
    return {n: rng.dirichlet(np.full(plain[n].size, 0.5)) for n in plain.nullable}


def other_bins(schema):
    plain = (replace(a, bins=2, spikes=()) if type(a) is Numeric else a for a in schema)
    return Schema(tuple(plain), schema.rules)


def groups(schema, rng):
    found = {}
    for a in schema:
        raw = rng.integers(0, a.size, a.size)
        found[a.name] = np.unique(raw, return_inverse=True)[1].astype(np.int64)
    return found


def complete_codes(schema, cells):
    """Return modelled rows as merging sees them: missing is one code after all levels."""
    return modelled(schema, cells)


def weights_of(schema, cells):
    """Return cells of a column of weights, some of which cannot be read."""
    first = cells[schema.names[0]]
    known = {None: None, "no": 0.0, "yes": 2.5, -7: "x", -8: -3.0, "else": 1e9}
    return {"wt": np.array([known.get(c, 0.7) for c in first], dtype=object)}


def share(schema, rng):
    names = rng.permutation(schema.names)[: rng.integers(0, len(schema) + 1)]
    return tuple(names.tolist())


# For each type, two functions. The first function makes a row function from a schema and public
# numbers. The second function makes its input rows from cells.
CASES = {
    CodedRow: (
        lambda s, r: CodedRow(s, s.names, s.names, bool(r.integers(2))),
        lambda s, cells: cells,
    ),
    RecodedRow: (lambda s, r: RecodedRow(s, other_bins(s), valued(s)), coded),
    WeightedRow: (lambda s, r: WeightedRow(WEIGHT), weights_of),
    ModelledRow: (lambda s, r: ModelledRow(s), coded),
    ObservedRow: (lambda s, r: ObservedRow(s, share(s, r)), coded),
    MergedRow: (lambda s, r: MergedRow(groups(ModelView(s).schema, r)), complete_codes),
    MarginallyFilledRow: (lambda s, r: MarginallyFilledRow(s, marginal_laws(s, r)), modelled),
    CompletedRow: (
        lambda s, r: CompletedRow(
            s, valued(s), laws(s, int(r.integers(2))), str(r.choice(["random", "likely", "mean"]))
        ),
        coded,
    ),
}


def test_every_registered_row_function_is_tested_here():
    ours = {kind for kind in kernel.registered_types() if kind.__module__.startswith("missdp.")}
    assert ours == CASES.keys()


def same(one, two):
    """Whether two blocks hold the same cells, bit for bit."""
    return one.keys() == two.keys() and all(np.array_equal(one[key], two[key]) for key in one)


def taken(block, rows):
    return {key: column[rows] for key, column in block.items()}


def put_together(*blocks):
    return {key: np.concatenate([b[key] for b in blocks]) for key in blocks[0]}


def check_contract(function, rows, other, rng):
    """Assert that each row has the same result by itself and among other rows."""
    n = length(rows)
    uniforms = rng.random((n, function.draws))
    uniforms[rng.random(uniforms.shape) < 0.1] = np.nextafter(1.0, 0.0)
    uniforms[rng.random(uniforms.shape) < 0.1] = 0.0

    def mapped(some, at):
        return map_rows(function, some, len(at), Given(uniforms[at]))

    every = np.arange(n)
    whole = mapped(rows, every)
    assert all(len(column) == n for column in whole.values())
    assert same(mapped(rows, every), whole)  # no state
    for cut in range(n + 1):  # f(a ++ b) == f(a) ++ f(b)
        parts = [mapped(taken(rows, at), at) for at in (every[:cut], every[cut:])]
        assert same(put_together(*parts), whole)
    order = rng.permutation(n)
    assert same(mapped(taken(rows, order), order), taken(whole, order))
    one = int(rng.integers(n))
    changed = {key: column.copy() for key, column in rows.items()}
    for key in changed:
        changed[key][one] = other[key][one]
    rest = np.delete(every, one)
    assert same(taken(mapped(changed, every), rest), taken(whole, rest))
    lone = np.array([one])  # a row has the same result among others and by itself
    assert same(taken(mapped(changed, every), lone), mapped(taken(changed, lone), lone))


def check_case(kind, table, seed):
    schema, cells, other = table
    make, prepare = CASES[kind]
    function = make(schema, np.random.default_rng(seed))
    rows, others = (prepare(schema, as_cells(c)) for c in (cells, other))
    check_contract(function, rows, others, np.random.default_rng(seed))


SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
@settings(max_examples=8)
@given(surveys(), SEEDS)
def test_a_row_becomes_the_same_whatever_stands_beside_it(kind, table, seed):
    check_case(kind, table, seed)


@pytest.mark.long
@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(surveys() | ruled(), SEEDS)
def test_no_rules_make_a_row_depend_on_others(kind, table, seed):
    check_case(kind, table, seed)


@settings(max_examples=10)
@given(surveys(), SEEDS)
def test_blocks_of_the_kernel_change_no_row(table, seed):
    schema, cells, _ = table
    rows = modelled(schema, as_cells(cells))
    function = MarginallyFilledRow(schema, marginal_laws(schema, np.random.default_rng(seed)))
    found = []
    for at_once in (1, 3, kernel.ROWS_AT_ONCE):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(kernel, "ROWS_AT_ONCE", at_once)
            found.append(map_rows(function, rows, length(rows), np.random.default_rng(seed)))
    assert same(found[0], found[1])
    assert same(found[0], found[2])


@settings(max_examples=10)
@given(surveys(), SEEDS)
def test_merged_counts_are_the_counts_of_merged_rows(table, seed):
    schema, cells, _ = table
    held = MemorySource(Table.of_block(schema, coded(schema, as_cells(cells))))
    rows = CountedRows.from_source(held, strategy_named("joint"))
    facts = rows.facts.schema
    merging = groups(facts, np.random.default_rng(seed))
    merged = rows.changed(LevelMerge(merging), lambda: None)
    codes = map_rows(MergedRow(merging), modelled(schema, as_cells(cells)), length(as_cells(cells)))
    for pair in (facts.names[:2], facts.names[1:3]):
        wanted = np.zeros(merged.facts.shape(pair), dtype=np.int64)
        np.add.at(wanted, tuple(codes[name] for name in pair), 1)
        assert np.array_equal(merged.counts_of(pair), wanted)


@pytest.mark.parametrize(
    ("fact", "value"),
    [("unit", Unit("p", max_rows=2)), ("weight", WEIGHT), ("ledger", "#office")],
)
def test_changed_rows_keep_their_unit_weight_and_ledger(fact, value):
    """Noise and charges follow from these facts of the rows that came."""
    schema = Schema((Numeric(name="n", lower=0, upper=8, bins=4),))
    held = MemorySource(Table.from_codes(schema, {"n": np.zeros(3, dtype=np.int64)}))
    finer = other_bins(schema)
    recoded = RecodedRow(schema, finer, ("n",))
    assert held.mapped(recoded, finer).schema == finer
    with pytest.raises(SchemaError, match=f"another {fact}"):
        held.mapped(recoded, replace(finer, **{fact: value}))


# -- units: the equation for tables that share no unit ---------------------------------------------
UNITS = st.lists(st.integers(0, 3), max_size=12)


@given(UNITS, UNITS, st.integers(1, 3), st.sampled_from(["rows", "one"]))
def test_units_of_one_table_change_nothing_for_those_of_another(one, two, most, counts):
    unit = Unit("p", max_rows=most, counts_as=counts)

    def released(units, shares):
        kept = sample_rows_per_unit(units, unit)
        numbers = np.unique(units[kept], return_inverse=True)[1].astype(np.int64)
        weights = _row_weights(numbers, unit, shares[kept])
        each = np.bincount(units[kept], minlength=8)
        return each, weights, unit_sums(numbers, weights, unit.bound)

    one, two = np.array(one, dtype=np.int64), np.array(two, dtype=np.int64) + 4
    # Rows of a unit have one share: which of them are chosen is random.
    shares = np.array([7, STEPS // 3, STEPS, 0, 1, STEPS // 2, STEPS, STEPS - 1])
    tables = (one, two, np.concatenate([one, two]))
    first, second, both = (released(table, shares[table]) for table in tables)
    assert (both[0] == first[0] + second[0]).all()
    assert (both[0] <= most).all()
    assert sorted(both[1]) == sorted([*first[1], *second[1]])
    assert (both[2] == first[2] + second[2]).all()


# -- functions that break a clause -----------------------------------------------------------------
PLAIN = Schema((Categorical(name="a", levels=("x", "y", "z"), **LOOSE),))
CODES = Range(np.dtype(np.uint8), 0, 3)
ROWS = {"a": np.array([0, 3, 1, 2, 0, 1], dtype=np.uint8)}
OTHERS = {"a": np.array([3, 0, 3, 3, 2, 3], dtype=np.uint8)}
CALLS = []


def planted(returned, draws=0):
    """Return a registered function whose codes are given by a plain function."""

    @row_function
    @dataclass(frozen=True, eq=False)
    class Planted(RowFunction):
        @property
        def columns(self):
            return {"a": CODES}

        @property
        def draws(self):
            return draws

        def apply(self, rows, uniforms):
            return {"a": returned(rows["a"], uniforms)}

    return Planted()


def counted_calls(a):
    CALLS.append(1)
    return (a + len(CALLS)) % 3


def as_codes(values):
    return np.asarray(values).astype(np.uint8)


BREAKS = {
    "every row twice": lambda a, u: np.repeat(a, 2),
    "drops a row": lambda a, u: a[1:],
    "drops a missing cell": lambda a, u: a[a < 3],
    "mean of the block": lambda a, u: as_codes(np.full(len(a), a.mean())),
    "one number for all rows": lambda a, u: a[:1],
    "no array of rows": lambda a, u: a[0],
    "index of the row": lambda a, u: as_codes(np.arange(len(a)) % 4),
    "neighbour": lambda a, u: np.roll(a, 1),
    "sorted": lambda a, u: np.sort(a),
    "rank": lambda a, u: as_codes(np.argsort(np.argsort(a)) % 4),
    "running sum": lambda a, u: as_codes(np.array([*accumulate(a.tolist())]) % 4),
    "missing filled by the first row": lambda a, u: np.where(a == 3, a[:1], a),
    "missing filled if another row is missing": lambda a, u: as_codes(
        np.where((a == 3) & ((a == 3).sum() > 1), 0, a)
    ),
    "state between calls": lambda a, u: as_codes(counted_calls(a)),
    "random numbers of another row": lambda a, u: as_codes(np.roll(u[:, 0], 1) * 4),
    "random numbers of its own": lambda a, u: as_codes(
        np.random.default_rng().integers(0, 4, len(a))
    ),
    "a code out of range": lambda a, u: a + np.uint8(1),
    "another type": lambda a, u: a.astype(np.int64),
    "floating point": lambda a, u: a.astype(float),
    "a list": lambda a, u: a.tolist(),
    "two columns": lambda a, u: np.column_stack([a, a]),
    "writes into the rows": lambda a, u: np.put(a, 0, 2) or a,
}


def check_often(function):
    for seed in range(20):
        rows, others = ({"a": block["a"].copy()} for block in (ROWS, OTHERS))
        check_contract(function, rows, others, np.random.default_rng(seed))
        assert same(rows, ROWS)


@pytest.mark.parametrize("name", BREAKS)
def test_a_function_that_breaks_the_contract_is_found(name, monkeypatch):
    monkeypatch.setattr(kernel, "_REGISTERED", set(kernel._REGISTERED))
    function = planted(BREAKS[name], draws=1)
    with pytest.raises((AssertionError, DataError)):
        check_often(function)


WRONG = ("every row twice", "drops a row", "one number for all rows", "no array of rows")
WRONG += ("a code out of range", "another type", "floating point", "a list", "two columns")


@pytest.mark.parametrize("name", WRONG)
def test_map_rows_wrong_result_raises(name, monkeypatch):
    monkeypatch.setattr(kernel, "_REGISTERED", set(kernel._REGISTERED))
    with pytest.raises(DataError) as raised:
        map_rows(planted(BREAKS[name]), ROWS, 6)
    assert str(raised.value) == kernel.FAILED
    assert raised.value.__context__ is None


def test_a_function_that_keeps_the_contract_passes(monkeypatch):
    monkeypatch.setattr(kernel, "_REGISTERED", set(kernel._REGISTERED))
    function = planted(lambda a, u: as_codes(np.where(a == 3, u[:, 0] * 3, a)), draws=1)
    check_often(function)


def test_map_rows_not_a_number_raises(monkeypatch):
    limits = Range(np.dtype(float), 0.0, 1.0)
    assert limits.holds(np.array([0.0, 1.0]), 2)
    for cells in ([0.5, np.nan], [0.5, 1.5], [-0.5, 0.5]):
        assert not limits.holds(np.array(cells), 2)


def test_map_rows_unregistered_raises():
    class More(ObservedRow):
        pass

    for function in (More(PLAIN, ()), lambda a: a, ObservedRow):
        with refuses(ParameterError, "registered row functions only"):
            map_rows(function, ROWS, 6)
    with refuses(ParameterError, "frozen dataclass"):
        row_function(dict)


def test_map_rows_failing_function_shows_nothing(monkeypatch):
    monkeypatch.setattr(kernel, "_REGISTERED", set(kernel._REGISTERED))

    def fails(a, u):
        raise ValueError(f"SECRET {a}")

    with pytest.raises(DataError) as raised:
        map_rows(planted(fails), ROWS, 6)
    assert str(raised.value) == kernel.FAILED
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("names", [{}, {"b": 1}, {"a": 1, "b": 1}], ids=str)
def test_map_rows_other_columns_raise(names, monkeypatch):
    monkeypatch.setattr(kernel, "_REGISTERED", set(kernel._REGISTERED))
    function = planted(lambda a, u: a)
    monkeypatch.setattr(
        type(function), "apply", lambda self, rows, u: dict.fromkeys(names, ROWS["a"])
    )
    with refuses(DataError, kernel.FAILED):
        map_rows(function, ROWS, 6)


def test_map_rows_columns_of_other_lengths_raise():
    for n_rows in (5, 7):
        with refuses(DataError, kernel.FAILED):
            map_rows(ObservedRow(PLAIN, ("a",)), ROWS, n_rows)
    with refuses(DataError, kernel.FAILED):
        map_rows(ObservedRow(PLAIN, ("a",)), ROWS | {"b": ROWS["a"][1:]}, 6)


def test_map_rows_draws_random_numbers_for_each_row(monkeypatch):
    monkeypatch.setattr(kernel, "_REGISTERED", set(kernel._REGISTERED))
    seen = []
    function = planted(lambda a, u: seen.append(u) or a, draws=2)
    map_rows(function, ROWS, 6, np.random.default_rng(0))
    (uniforms,) = seen
    assert uniforms.shape == (6, 2)
    assert len({*uniforms.ravel()}) == 12
    with refuses(ParameterError, "needs random numbers"):
        map_rows(function, ROWS, 6)


def test_map_rows_rows_cannot_be_written(monkeypatch):
    monkeypatch.setattr(kernel, "_REGISTERED", set(kernel._REGISTERED))
    with refuses(DataError, kernel.FAILED):
        map_rows(planted(BREAKS["writes into the rows"]), ROWS, 6)
    assert ROWS["a"].tolist() == [0, 3, 1, 2, 0, 1]


def test_row_function_changeable_value_raises():
    for value in ({1, 2}, bytearray(2), object(), [np.sort, {"a": {3}}]):
        with refuses(ParameterError, "public or released values only"):
            MergedRow({"a": value})


def test_row_function_released_values_are_copied():
    law = np.array([0.2, 0.3, 0.5])
    function = MarginallyFilledRow(PLAIN, {"a": law})
    law[:] = [1.0, 0.0, 0.0]
    assert function.distributions["a"].tolist() == [0.2, 0.3, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        function.distributions["a"][0] = 1.0
    with pytest.raises(TypeError):
        function.distributions["a"] = law
    groups = np.array([0, 1, 1])
    merged = MergedRow({"a": groups})
    groups[:] = 0
    assert merged.groups["a"].tolist() == [0, 1, 1]


def test_rows_where_keeps_marked_rows():
    rows, n = rows_where(ObservedRow(PLAIN, ("a",)), ROWS, 6)
    assert (rows["a"].tolist(), n) == ([0, 1, 2, 0, 1], 5)


def test_session_on_other_callable_raises():

    table = Table.of_block(PLAIN, ROWS)
    rows = CountedRows.from_source(MemorySource(table), strategy_named("impute-first"))
    session = Session(rows, budget=Filter(1.0), noise=SecureNoise())
    for change in (lambda a: a, np.sort, planted, MarginallyFilledRow):
        with refuses(ParameterError, "registered"):
            session.apply(change)
    with refuses(ParameterError, "codes of complete rows"):
        session.apply(ModelledRow(PLAIN))
    filled = session.apply(MarginallyFilledRow(PLAIN, {"a": [0.0, 0.0, 1.0]}))
    assert filled.facts.schema == complete_schema(PLAIN)
    assert filled.measure(Marginal(("a",)), Noise("laplace", 4.0)).value.shape == (3,)


def test_counter_codes_outside_the_schema_raise():
    for codes in (
        np.array([0, 4], dtype=np.uint8),
        np.array([-1, 0]),
        np.array([0.0, 1.0]),
        np.array([0], dtype=np.uint8),
        np.zeros((2, 1), dtype=np.uint8),
    ):
        with refuses(DataError, "nothing was counted"):
            Counter(PLAIN, [("a",)]).add({"a": codes}, 2)
    good = np.array([0, 3], dtype=np.uint8)
    for weights in (np.array([1, -1]), np.array([1, 2**32]), np.array([1.0, 2.0]), np.array([1])):
        with refuses(DataError, "nothing was counted"):
            Counter(PLAIN, [("a",)]).add({"a": good}, 2, weights)


# -- the claims of the guarantee of a fit ----------------------------------------------------------
class Elsewhere:
    """A custom source, which counts by itself."""

    def __init__(self, table):
        self.schema, self._source = table.schema, MemorySource(table)

    def counts(self, cliques, *, rows):
        return self._source.counts(cliques, rows=rows)


class Overriding(MemorySource):
    def counts(self, cliques, *, rows):
        return super().counts(cliques, rows=rows)


def test_fit_conditions_name_what_counts_outside_the_kernel():
    table = Table.of_block(PLAIN, {"a": np.tile(ROWS["a"], 50)})
    engines = {
        "": (table, MemorySource(table)),
        "Elsewhere": (Elsewhere(table),),
        "Overriding": (Overriding(table),),
    }
    for engine, inputs in engines.items():
        for data in inputs:
            fitted = AIM(epsilon=100.0, missing="joint").fit(data, schema=PLAIN)
            conditions = fitted.guarantee_.conditions
            named = [c.engine for c in conditions if isinstance(c, CountedOutsideTheKernel)]
            assert named == ([engine] if engine else [])
            assert RowFunctionsTested() in conditions
            assert RefusalsNotPrivate() not in conditions


def test_fit_conditions_refusing_schema_states_refusals():
    strict = Schema((replace(PLAIN["a"], outside="error"),))
    fitted = AIM(epsilon=100.0, missing="joint").fit(
        Table.of_block(strict, {"a": np.tile(ROWS["a"], 50)})
    )
    assert RefusalsNotPrivate() in fitted.guarantee_.conditions
