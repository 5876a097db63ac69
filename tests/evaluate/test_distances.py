"""Distances of marginals and of missingness follow their definitions, whatever the tables are."""

import dataclasses
import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import missdp.evaluate.distances as module
from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError, ParameterError, SchemaError
from missdp.evaluate import (
    MAR,
    MCAR,
    marginal_distance,
    missing_fidelity,
    missing_mask,
    missing_patterns,
    missingness_by_kind,
)
from missdp.evaluate.classifiers import _features
from missdp.schema import NotApplicable

SCHEMA = Schema(
    (
        Categorical(name="c", levels=("x", "y", "z"), nullable=True),
        Ordinal(name="o", levels=(1, 2), nullable=True),
        Numeric(name="n", lower=0, upper=100, bins=4, nullable=True),
        Numeric(name="i", lower=1, upper=8, integer=True, bins=2, nullable=True),
    )
)


def frame(n, seed, holes=0.0):
    rng = np.random.default_rng(seed)
    columns = {
        "c": pd.array(rng.choice(["x", "y", "z"], n, p=[0.6, 0.3, 0.1]), dtype="string"),
        "o": pd.array(rng.integers(1, 3, n), dtype="Int64"),
        "n": pd.array(rng.uniform(0, 100, n), dtype="Float64"),
        "i": pd.array(rng.integers(1, 9, n), dtype="Int64"),
    }
    data = pd.DataFrame(columns)
    return data.mask(rng.random(data.shape) < holes)


@pytest.mark.long
@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 3))
def test_it_is_a_distance_on_complete_tables(a, b, c, k):
    one, two, three = (frame(1 + seed % 40, seed) for seed in (a, b, c))

    def distance(x, y):
        return marginal_distance(x, y, k=k, schema=SCHEMA).per_marginal

    assert not any(distance(one, one).values())
    assert distance(one, two) == pytest.approx(distance(two, one))
    for names, direct in distance(one, two).items():
        assert 0 <= direct <= 1
        detour = distance(one, three)[names] + distance(three, two)[names]
        assert direct <= detour + 1e-12


def test_fine_bins_show_differences_inside_declared_bins():
    spread = frame(4000, 0)
    centred = spread.assign(n=pd.array((spread["n"] // 25) * 25 + 12.5, dtype="Float64"))
    far = [marginal_distance(spread, centred, k=1, schema=SCHEMA, bins=b) for b in (None, 2, 20)]
    same, coarser, finer = (result.per_marginal for result in far)
    assert same == coarser
    assert same["n",] == finer["i",] == 0.0  # whole numbers stay as they are
    assert finer["n",] == pytest.approx(0.8, abs=0.03)  # 4 of 20 bins are hit
    table = Table.read(spread, SCHEMA)
    bare = Table.from_codes(SCHEMA, {name: table.codes(name) for name in SCHEMA.names})
    assert marginal_distance(table, bare).max == 0.0
    with pytest.raises(DataError, match="with_values"):
        marginal_distance(table, bare, bins=20)
    marginal_distance(table, bare.with_values(np.random.default_rng(0)), bins=20)


def test_any_kind_of_table_compares_with_any_other():
    data = frame(80, 3, holes=0.3)
    table = Table.read(data, SCHEMA)
    strict = Schema(tuple(replace(a, nullable=False) for a in SCHEMA))
    complete = Table.read(frame(80, 4), strict)
    expected = marginal_distance(data, frame(80, 4), schema=SCHEMA).per_marginal
    assert marginal_distance(table, complete).per_marginal == expected
    assert marginal_distance(pl.from_pandas(data), complete).per_marginal == expected
    assert marginal_distance(table, table.to_arrow()).max == 0.0


OTHERS = [
    Categorical(name="c", levels=("x", "y", "w"), nullable=True),
    Categorical(name="o", levels=(1, 2), nullable=True),
    Numeric(name="n", lower=0, upper=99, bins=4, nullable=True),
    Numeric(name="i", lower=1, upper=8, bins=2, nullable=True),
]


def test_marginals_of_chosen_attributes_are_those_of_the_whole_tables():
    one, two = frame(60, 1), frame(60, 2)
    everything = marginal_distance(one, two, schema=SCHEMA).per_marginal
    some = marginal_distance(one, two, schema=SCHEMA, attributes=["i", "c", "o"]).per_marginal
    assert some == {pair: far for pair, far in everything.items() if "n" not in pair}
    with pytest.raises(SchemaError, match="no attribute 'nobody'"):
        marginal_distance(one, two, schema=SCHEMA, attributes=["c", "nobody"])
    with pytest.raises(ParameterError, match="k must be from 1 to 1"):
        marginal_distance(one, two, schema=SCHEMA, attributes=["c"])


def test_tables_that_do_not_compare_and_bad_options_are_refused():
    table = Table.read(frame(10, 0), SCHEMA)
    refused = [(SchemaError, "different attributes", table.subset(["c", "o"]), {})]
    for other in OTHERS:
        schema = Schema(tuple(other if a.name == other.name else a for a in SCHEMA))
        codes = Table.from_codes(schema, {a.name: [0] for a in schema})
        refused.append((SchemaError, f"different domains for '{other.name}'", codes, {}))
    bad = [{"k": k} for k in (0, 5, True, 1.5)]
    bad += [{"bins": 0}, {"bins": 2.5}, {"missing": "ignore"}]
    refused += [(ParameterError, None, table, options) for options in bad]
    for error, reported, other, options in refused:
        with pytest.raises(error, match=reported):
            marginal_distance(table, other, **options)
    with pytest.raises(ParameterError, match="schema"):
        marginal_distance(frame(10, 0), frame(10, 1))


def test_batches_do_not_change_the_result(monkeypatch):
    one, two, steps = frame(100, 0), frame(100, 1), []
    total = marginal_distance(one, two, schema=SCHEMA)
    monkeypatch.setattr(module, "_BATCH_CELLS", 1)
    parts = marginal_distance(one, two, schema=SCHEMA, progress=lambda *done: steps.append(done))
    assert parts == total
    assert steps == [("2-way marginals", i / 6) for i in range(1, 7)]


ABC = ("a", "b", "c")
THREE = Schema(tuple(Categorical(name=n, levels=(0, 1, 2)) for n in ABC))


def complete(n, seed):
    rng = np.random.default_rng(seed)
    return Table.from_codes(THREE, {name: rng.integers(0, 3, n) for name in ABC})


def naive_patterns(one, two, columns):
    distance = 0.0
    for pattern in itertools.product([False, True], repeat=len(columns)):
        share = [np.mean(np.all(m[:, columns] == pattern, axis=1)) for m in (one, two)]
        distance += abs(share[0] - share[1]) / 2
    return distance


def test_rates_and_patterns_follow_their_definitions():
    one = MCAR(rate={"a": 0.3, "b": 0.1}).apply(complete(400, 0), random_state=0)
    two = MAR(rate=0.4, drivers=("a",), strength=3.0).apply(complete(300, 1), random_state=1)
    result = missing_fidelity(one, two)
    p, q = missing_mask(one), missing_mask(two)
    assert list(result.truth_rates.values()) == pytest.approx(p.mean(axis=0))
    assert list(result.synthetic_rates.values()) == pytest.approx(q.mean(axis=0))
    for i, j in itertools.combinations(range(3), 2):
        assert result.pairs[ABC[i], ABC[j]] == pytest.approx(naive_patterns(p, q, (i, j)))
    assert result.patterns == pytest.approx(naive_patterns(p, q, (0, 1, 2)))
    gap = np.abs(q.mean(axis=0) - p.mean(axis=0))
    assert result.mean_rate_difference == pytest.approx(gap.mean())
    assert result.max_rate_difference == pytest.approx(gap.max())


def test_verdict_names_a_pair_missing_together_above_chance():
    def holes(together, seed):
        rng, n = np.random.default_rng(seed), 2000
        gone = rng.random(n) < 0.169
        apart = gone if together else rng.random(n) < 0.169
        columns = {"a": gone, "b": apart, "c": rng.random(n) < 0.5}
        schema = Schema(tuple(Categorical(name=k, levels=(0,), nullable=True) for k in columns))
        return Table.from_codes(schema, {k: v.astype(int) for k, v in columns.items()})

    result = missing_fidelity(holes(True, 0), holes(False, 1))
    true, made = result.together["a × b"]
    assert next(iter(result.together)) == "a × b"
    assert (true, made) == pytest.approx((0.169, 0.169**2), abs=0.02)
    assert result.verdict == (
        f"a × b are both missing in {true:.1%} of the real rows, and in {made:.1%} of the "
        "synthetic ones."
    )
    assert f"a × b  {true:.2f} → {made:.2f}" in str(result)
    assert missing_fidelity(holes(True, 0), holes(True, 1)).verdict == ""
    assert dataclasses.replace(result, synthetic_rates=dict.fromkeys("abc", 0.0)).verdict == ""


def test_equal_rates_with_another_dependence_have_a_distance():
    """Missing cells that come together, against single ones: only the patterns differ."""
    schema = Schema(tuple(Categorical(name=n, levels=(0,), nullable=True) for n in "ab"))
    together = Table.from_codes(schema, {"a": [1, 1, 0, 0], "b": [1, 1, 0, 0]})
    single = Table.from_codes(schema, {"a": [1, 1, 0, 0], "b": [0, 0, 1, 1]})
    result = missing_fidelity(together, single)
    assert result.max_rate_difference == 0.0
    assert result.pairs["a", "b"] == result.patterns == 1.0
    empty = single.take(np.arange(0))
    some = complete(5, 0)
    assert missing_fidelity(single, empty).patterns == 1.0
    assert marginal_distance(some, some.take(np.arange(0))).mean == 1.0
    assert missing_fidelity(empty, empty).mean_pair_distance == 0.0
    assert marginal_distance(empty, empty).mean == 0.0


HOLED = Schema(
    (
        Categorical(name="a", levels=("x", "y"), nullable=True),
        Numeric(name="n", lower=0, upper=10, nullable=True),
        Categorical(name="b", levels=("u", "v")),
    )
)
COLUMNS = {"a": ["x", None, "y", None, None], "n": [1.0, 2.0, np.nan, np.nan, 9.0]}
WITH_HOLES = pd.DataFrame({**COLUMNS, "b": ["u", "v", "u", "v", "u"]})


def test_mask_and_patterns_match_pandas():
    table = Table.read(WITH_HOLES, HOLED)
    np.testing.assert_array_equal(missing_mask(table), WITH_HOLES.isna().to_numpy())
    patterns = missing_patterns(table)
    assert patterns == {("a",): 2, (): 1, ("n",): 1, ("a", "n"): 1}
    assert next(iter(patterns)) == ("a",)
    empty = Table.read(WITH_HOLES.iloc[:0], HOLED)
    assert missing_mask(empty).shape == (0, 3)
    assert missing_patterns(empty) == {}


def test_removed_cells_hide_their_value_only():
    rows = Table.read(WITH_HOLES.iloc[:1], HOLED).take(np.zeros(200, dtype=int))
    incomplete = MCAR(rate=0.5, columns=("n",)).apply(rows, random_state=1)
    mask = incomplete.mask("n")
    assert 0 < mask.sum() < 200
    assert set(incomplete.values("n")[~mask]) == {1.0}
    assert set(incomplete.values("n")[mask]) == {0.0}  # the lower bound, not the hidden value
    np.testing.assert_array_equal(incomplete.codes("a"), rows.codes("a"))
    bare = Table.from_codes(HOLED, {"a": [0] * 50, "n": [3] * 50, "b": [1] * 50})
    assert {*MCAR(rate=0.5).apply(bare, random_state=0).codes("n")} == {3, 10}


# Kinds of missing: their shares, and their role as a level or as missing in comparisons.
KINDS = Schema(
    (
        Categorical(name="work", levels=("no", "yes"), nullable=True, refused=(-7,)),
        Numeric(name="hours", lower=0, upper=80, bins=4, nullable=True, refused=(-7,)),
        Ordinal(name="mood", levels=(1, 2, 3), nullable=True, unknown=("?",), not_asked=(9,)),
        Categorical(name="plain", levels=("x", "y"), nullable=True),
        Categorical(name="whole", levels=("x", "y")),
    ),
    (NotApplicable("hours", unless="work = 'yes'"),),
)


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    codes = {a.name: rng.integers(0, a.extended_size, n) for a in KINDS}
    return Table.from_codes(KINDS, codes).with_values(rng)


ONE, TWO = drawn(400, 0), drawn(300, 1)


def test_shares_are_those_of_the_cells():
    result = missingness_by_kind(ONE, TWO)
    assert {name: [*shares] for name, shares in result.truth_shares.items()} == {
        "work": ["missing", "refused"],
        "hours": ["not_applicable", "missing", "refused"],
        "mood": ["missing", "unknown", "not_asked"],
        "plain": ["missing"],
        "whole": [],
    }
    gaps = []
    for (name, kind), gap in result.differences.items():
        shares = [float(table.mask(name, kind).mean()) for table in (ONE, TWO)]
        assert result.truth_shares[name][kind] == shares[0]
        assert result.synthetic_shares[name][kind] == shares[1]
        assert gap == pytest.approx(shares[1] - shares[0])
        gaps.append(abs(gap))
    assert result.mean_difference == pytest.approx(np.mean(gaps))
    assert result.max_difference == pytest.approx(np.max(gaps))


def test_the_same_table_has_the_same_shares_and_no_rows_have_none():
    assert missingness_by_kind(ONE, ONE).max_difference == 0.0
    empty = ONE.take(np.arange(0))
    result = missingness_by_kind(ONE, empty)
    assert result.synthetic_shares["hours"] == {"not_applicable": 0, "missing": 0, "refused": 0}
    none = Table.from_codes(Schema((Categorical(name="a", levels=("x",)),)), {"a": [0]})
    for table in (empty, none):
        result = missingness_by_kind(table, table)
        assert result.mean_difference == result.max_difference == 0.0


def test_kinds_survive_files_that_hold_codes_and_not_those_that_hold_nulls():
    schema = replace(KINDS, rules=()).subset(("work", "mood", "plain"))
    table = ONE.subset(schema.names)
    table = Table(schema, {name: table.column(name) for name in schema.names})
    coded = table.to_native("pandas", missing_as="codes")
    nulls = table.to_native("pandas")
    assert missingness_by_kind(table, coded).max_difference == 0.0
    result = missingness_by_kind(table, nulls).synthetic_shares
    assert result["work"]["refused"] == result["mood"]["not_asked"] == 0.0
    assert result["work"]["missing"] == table.mask("work").mean()


def test_nulls_become_not_applicable_by_the_rules():
    columns = {"work": ["yes", "no", None, "no"], "hours": [None, None, None, 40]}
    columns |= {"mood": [1, 2, 3, "?"], "plain": ["x"] * 4, "whole": ["x"] * 4}
    result = missingness_by_kind(pd.DataFrame(columns), ONE, schema=KINDS).truth_shares["hours"]
    assert result == {"not_applicable": 0.5, "missing": 0.5, "refused": 0.0}


def test_undeclared_missing_cells_are_listed():
    frame = pd.DataFrame({name: ["x", None] for name in ("plain", "whole")})
    schema = KINDS.subset(("plain", "whole"))
    full = ONE.subset(schema.names)
    assert missingness_by_kind(full, frame).synthetic_shares["whole"] == {"missing": 0.5}
    assert missingness_by_kind(full, full).synthetic_shares["whole"] == {}


def test_where_only_not_applicable_is_declared_a_null_is_that():
    """As in `Table.read`: missing cells that are not declared change nothing about it."""
    hours = Numeric(name="hours", lower=0, upper=80)
    schema = Schema((KINDS["work"], hours), KINDS.rules)
    frame = pd.DataFrame({"work": ["yes", None, "no"], "hours": [3, None, None]})
    table = Table.read(frame, schema)
    for data in (frame, table):
        result = missingness_by_kind(data, table).truth_shares["hours"]
        assert result == {"not_applicable": 2 / 3}


def seen(table, name):
    """Numbers of levels, "na", and "?" for every other kind."""
    attribute, codes = table.schema[name], table.codes(name)
    cells = codes.astype(object)
    cells[codes >= attribute.size] = "?"
    cells[table.mask(name, "not_applicable")] = "na"
    return cells


def naive(one, two, names, missing):
    rows = []
    for table in (one, two):
        cells = [*zip(*(seen(table, name) for name in names), strict=True)]
        rows.append([r for r in cells if missing == "level" or "?" not in r])
    return sum(
        abs(rows[0].count(cell) / len(rows[0]) - rows[1].count(cell) / len(rows[1])) / 2
        for cell in {*rows[0], *rows[1]}
    )


@pytest.mark.parametrize("missing", ["unobserved", "level"])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_distances_follow_the_definition(missing, k):
    """Not applicable is a level, and all other kinds are one."""
    result = marginal_distance(ONE, TWO, k=k, missing=missing)
    assert list(result.per_marginal) == list(itertools.combinations(KINDS.names, k))
    for names, distance in result.per_marginal.items():
        assert distance == pytest.approx(naive(ONE, TWO, names, missing))
    values = list(result.per_marginal.values())
    assert (result.mean, result.max) == (pytest.approx(np.mean(values)), max(values))


def test_finer_bins_keep_kinds_apart():
    table = ONE.subset(("hours",))
    shifted = Table(
        table.schema, {"hours": replace(table.column("hours"), values=table.values("hours"))}
    )
    assert marginal_distance(table, shifted, k=1, bins=40, missing="level").mean == 0.0
    only = table.take(table.mask("hours", "not_applicable"))
    others = table.take(table.mask("hours", "refused"))
    assert marginal_distance(only, others, k=1, bins=40, missing="level").mean == 1.0
    # Refused is not observed, not applicable is: a table without rows against one with.
    assert marginal_distance(others, others, k=1, bins=40).mean == 0.0
    assert marginal_distance(only, others, k=1, bins=40).mean == 1.0


def test_missing_rates_count_missing_cells_only():
    result = missing_fidelity(ONE, TWO)
    for name in KINDS.names:
        holes = ONE.mask(name) & ~ONE.mask(name, "not_applicable")
        assert result.truth_rates[name] == pytest.approx(holes.mean())
    skipped = ONE.take(ONE.mask("hours", "not_applicable")).subset(("hours",))
    assert missing_fidelity(skipped, skipped).truth_rates["hours"] == 0.0


def test_tables_that_declare_other_kinds_are_compared():
    """Kinds that the first table does not have are plainly missing."""
    fewer = Schema(tuple(replace(a, refused=None) for a in KINDS.attributes), KINDS.rules)
    codes = {name: [0, 1] for name in KINDS.names} | {"work": [0, 2]}
    plain = Table.from_codes(fewer, codes)
    refused = Table.from_codes(KINDS, codes | {"work": [0, 3]})
    assert missingness_by_kind(plain, refused).max_difference == 0.0
    assert missingness_by_kind(refused, plain).synthetic_shares["work"]["missing"] == 0.5
    without = Schema(tuple(replace(a, not_applicable=None) for a in KINDS.attributes))
    with pytest.raises(SchemaError, match="different domains"):
        marginal_distance(Table.from_codes(without, codes), plain)
    assert marginal_distance(plain, Table.from_codes(without, codes), k=1).max < 1.0


def test_learners_see_not_applicable_and_missing_apart():
    schema = KINDS.subset(("work", "hours"))
    hours = schema["hours"]
    codes = np.arange(hours.extended_size)
    table = Table.from_codes(schema, {"work": np.zeros(len(codes), int), "hours": codes})
    encoded = _features(table, ["hours"])
    np.testing.assert_array_equal(encoded[:, 1], table.mask("hours", "not_applicable"))
    np.testing.assert_array_equal(encoded[:, 2], codes >= hours.missing_code)
    assert (encoded[hours.size :, 0] == 0).all()
    skipped = Categorical(name="c", levels=("x", "y"), nullable=True, refused=(), not_applicable=())
    table = Table.from_codes(Schema((skipped,)), {"c": [0, 1, 2, 3, 4]})
    np.testing.assert_array_equal(_features(table, ["c"]), np.eye(4)[[0, 1, 2, 3, 3]])
