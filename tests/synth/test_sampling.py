"""Synthetic rows obey every rule, with the model's law given that, and relations inside bins."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from missdp import AllPairs, Categorical, Numeric, Schema, Table
from missdp.baselines.network import Network, Node
from missdp.errors import DataError, SchemaWarning
from missdp.inference.model import relate_within_bins
from missdp.schema import Always, Determined, Never, NotApplicable
from missdp.schema.modelled import ModelView
from missdp.synth import AIM
from missdp.synth.sampling import restore_rows, with_related_values
from refusing import refuses


def bins(name, size, **facts):
    return Numeric(name=name, lower=0, upper=size, edges=tuple(range(size + 1)), **facts)


def law_of(weights, rng):
    """A model that draws independent attributes, one law each."""

    def draw(n):
        return {name: rng.choice(len(p), size=n, p=p) for name, p in weights.items()}

    return draw


def test_an_order_holds_inside_bins_and_the_law_is_the_models_given_the_order():
    schema = Schema((bins("a", 3), bins("b", 3)), (Always("a <= b"),))
    rng = np.random.default_rng(1)
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    n = 40_000
    table = restore_rows(ModelView(schema), law_of({"a": p, "b": q}, rng), n, rng, shares={})
    assert (table.values("a") <= table.values("b")).all()
    # Rows in different bins are kept or dropped. In the same bin, values are drawn until they obey
    # the rule.
    expected = np.triu(np.outer(p, q))
    counts = np.histogram2d(table.values("a"), table.values("b"), bins=[np.arange(4)] * 2)[0]
    expected = expected / expected.sum() * n
    above = np.triu_indices(3)
    assert stats.chisquare(counts[above], expected[above]).pvalue > 1e-4
    same = table.codes("a") == table.codes("b")
    # The smaller of two uniform numbers: mean 1/3.
    part = table.values("a")[same] - table.codes("a")[same]
    assert part.mean() == pytest.approx(1 / 3, abs=0.02)


def test_not_applicable_follows_and_leaves_the_condition_its_law():
    schema = Schema(
        (Categorical(name="work", levels=("no", "yes")), bins("hours", 2)),
        (NotApplicable("hours", unless="work = 'yes'"),),
    )
    rng = np.random.default_rng(3)
    # A model that knows the rule already, as ours do.
    laws = {"work": np.array([0.3, 0.7]), "hours": np.array([0.4, 0.3, 0.3])}
    network = Network((Node("work", ()), Node("hours", ())), laws)
    network = network.restricted(ModelView(schema).impossible_cells, rng)
    table = restore_rows(
        ModelView(schema), lambda n: network.sample(n, rng), 30_000, rng, shares={}
    )
    assert (table.mask("hours") == (table.codes("work") == 0)).all()
    assert (table.codes("work") == 1).mean() == pytest.approx(0.7, abs=0.01)
    assert (table.codes("hours") == 0).mean() == pytest.approx(0.4, abs=0.01)


def test_an_order_holds_through_a_hole_between():
    schema = Schema(
        (bins("a", 5), bins("b", 5, nullable=True), bins("c", 5)),
        (Always("a <= b"), Always("b < c")),
    )
    assert "a <= b and b < c" in [rule.text for rule in schema.rule_set.forbidden]
    rng = np.random.default_rng(12)
    even = np.full(5, 0.2)
    weights = {"a": even, "b": np.array([*even * 0.5, 0.5]), "c": even}
    table = restore_rows(ModelView(schema), law_of(weights, rng), 5000, rng, shares={})
    assert table.mask("b").mean() > 0.1
    assert (table.values("a") < table.values("c")).all()


def test_what_follows_is_computed_from_values_and_stays_in_its_domain():
    schema = Schema(
        (
            Numeric(name="a", lower=0, upper=9, integer=True, bins=2),
            Numeric(name="b", lower=0, upper=9, integer=True, bins=2),
            Numeric(name="c", lower=0, upper=12, integer=True, bins=4),
            Categorical(name="grade", levels=("x", "y")),
            Categorical(name="passed", levels=(False, True)),
        ),
        (Always("a + b = c"), Determined("passed", by="grade", map=(("x", False), ("y", True)))),
    )
    rng = np.random.default_rng(4)
    half = np.array([0.5, 0.5])
    draw = law_of({"a": half, "b": half, "grade": half}, rng)
    table = restore_rows(ModelView(schema), draw, 5000, rng, shares={})
    sums = table.values("a") + table.values("b")
    np.testing.assert_array_equal(sums, table.values("c"))
    assert sums.max() == 12
    np.testing.assert_array_equal(table.codes("grade"), table.codes("passed"))
    np.testing.assert_array_equal(table.codes("c"), schema["c"].encode_values(table.values("c")))


def test_a_model_that_never_obeys_gives_rows_that_are_like_it_where_they_can_be():
    """Such a model is all noise: with too small a budget for its rows."""
    names = "abcdefgh"
    schema = Schema(
        tuple(Categorical(name=name, levels=("x", "y", "z")) for name in names),
        (Never("a = 'x' and b = 'x'"),),
    )
    never = {name: np.array([1.0, 0.0, 0.0]) for name in names}
    rng = np.random.default_rng(6)
    table = restore_rows(ModelView(schema), law_of(never, rng), 1000, rng, shares={})
    assert not ((table.codes("a") == 0) & (table.codes("b") == 0)).any()
    assert np.mean([(table.codes(name) == 0).mean() for name in "cdefgh"]) > 0.8
    assert len(restore_rows(ModelView(schema), law_of(never, rng), 0, rng, shares={})) == 0


@pytest.mark.long
def test_rules_that_no_row_was_found_for_are_one_clear_error():
    # Neither rule alone forbids anything, so the schema is accepted, with a warning.
    with pytest.warns(SchemaWarning, match="rules contradict each other"):
        schema = Schema(
            (
                Numeric(name="a", lower=0, upper=1, bins=1),
                Numeric(name="b", lower=0.1, upper=1, bins=1),
                Numeric(name="c", lower=0, upper=1, bins=1),
            ),
            (Always("a + b = c"), Always("c <= a")),
        )
    rng = np.random.default_rng(6)
    one = {name: np.array([1.0]) for name in "ab"}
    with refuses(DataError, "no row drawn from the model obeys"):
        restore_rows(ModelView(schema), law_of(one, rng), 100, rng, shares={})


# Rows of which a rule cannot tell whether an attribute is not applicable, or was lost
def survey():
    """Men smoke more often, and do not say so more often."""
    rng, n = np.random.default_rng(0), 10_000
    male, told = rng.random(n) < 0.5, rng.random(n)
    smokes = rng.random(n) < np.where(male, 0.34, 0.13)
    said = np.where(told < np.where(male, 0.3, 0.05), None, np.where(smokes, "yes", "no"))
    many = np.where(smokes, rng.integers(1, 31, n).astype(object), None)
    rows = pd.DataFrame({"sex": np.where(male, "m", "f"), "smokes": said, "cigarettes": many})
    rows.loc[rng.random(n) < 0.03, "cigarettes"] = -9
    edges = {"lower": 1, "upper": 40, "edges": (1, 11, 21, 40)}
    schema = Schema(
        (
            Categorical(name="sex", levels=("f", "m")),
            Categorical(name="smokes", levels=("no", "yes"), nullable=True),
            Numeric(name="cigarettes", **edges, nullable=True, missing_codes=(-9,)),
        ),
        (NotApplicable("cigarettes", unless="smokes = 'yes'"),),
    )
    return Table.read(rows, schema), smokes.mean(), smokes[male].mean()


@pytest.mark.long
@pytest.mark.parametrize("family", [AllPairs, pytest.param(AIM, marks=pytest.mark.slow)])
def test_blanks_under_a_missing_condition_make_nobody_a_smoker(family):
    table, *truth = survey()
    model = family(epsilon=10, delta=1e-6, random_state=3).fit(table)
    drawn = model.sample(20_000)
    smokes = drawn["smokes"] == "yes"
    found = smokes.mean(), smokes[drawn["sex"] == "m"].mean(), drawn["cigarettes"].notna().mean()
    assert found == pytest.approx((*truth, truth[0]), abs=0.04)
    if family is AIM:
        return
    # With missing values kept, the synthetic rows leave as much unknown as the private rows.
    drawn = model.sample_table(20_000, missing_values="keep", random_state=2)
    lost, hole = drawn.mask("smokes", "missing"), drawn.mask("cigarettes", "missing")
    assert lost.mean() == pytest.approx(table.mask("smokes", "missing").mean(), abs=0.01)
    assert hole.mean() == pytest.approx(table.mask("cigarettes", "missing").mean(), abs=0.02)
    assert not drawn.mask("cigarettes", "not_applicable")[lost].any()
    expected = table.mask("cigarettes", "missing")[table.mask("smokes", "missing")].mean()
    assert hole[lost].mean() == pytest.approx(expected, abs=0.05)


# Values inside bins. Relations continue inside the bins, and each bin keeps its share.
BINNED = Schema(
    (
        Numeric(name="x", lower=0, upper=100, bins=4, nullable=True),
        Numeric(name="y", lower=-50, upper=50, bins=3, spikes=(0.0,), integer=True),
        Numeric(name="z", lower=0, upper=1, bins=5),
        Categorical(name="a", levels=("no", "yes"), nullable=True),
    )
)


def coded(n, seed, strength):
    """Return bins of dependent numbers, some of them missing, and the numbers themselves."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal(n)
    latent = strength * shared[:, None] + np.sqrt(1 - strength**2) * rng.standard_normal((n, 3))
    place = np.argsort(np.argsort(latent, axis=0), axis=0) / n
    frame = pd.DataFrame(
        {"x": 100 * place[:, 0], "y": np.floor(100 * place[:, 1]) - 50, "z": place[:, 2]}
    )
    frame["x"] = frame["x"].where(rng.random(n) > 0.2)
    frame["a"] = rng.choice(["no", "yes"], n)
    table = Table.read(frame, BINNED)
    return frame, Table.from_codes(BINNED, {name: table.codes(name) for name in BINNED.names})


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(0, 400), st.floats(-0.99, 0.99))
def test_each_bin_keeps_its_values_and_no_cell_changes_bins(seed, n, strength):
    _, table = coded(n, seed, strength)
    plain = table.with_values(np.random.default_rng(seed)).to_arrow()
    linked = with_related_values(table, np.random.default_rng(seed)).to_arrow()
    for name in BINNED.names:
        codes = table.codes(name)
        one, other = (t[name].to_pandas().to_numpy() for t in (plain, linked))
        if name == "a":
            assert one.tolist() == other.tolist()
            continue
        for code in np.unique(codes):
            assert np.array_equal(
                np.sort(one[codes == code]), np.sort(other[codes == code]), equal_nan=True
            )


def test_slopes_of_long_tails_go_on_inside_their_outermost_bin():
    """With a line in ranks, the effect of a few outlying rows on a covariance would be random."""
    rng = np.random.default_rng(4)
    shared, own = rng.standard_normal((2, 20_000))
    frame = pd.DataFrame({"x": np.exp(shared), "y": np.exp(0.6 * shared + 0.8 * own)})
    edges = {name: (0.0, *np.quantile(frame[name], [0.5, 0.9]), 500.0) for name in frame}
    schema = Schema(tuple(Numeric(name=n, lower=0, upper=500, edges=e) for n, e in edges.items()))
    table = Table.read(frame, schema)
    bins, free = {name: table.codes(name) for name in schema.names}, {}
    for name in schema.names:  # the same values, in no order inside bins
        codes, values = table.codes(name), np.empty(len(frame))
        shuffled = np.lexsort((rng.random(len(frame)), codes))
        values[np.argsort(codes, kind="stable")] = table.values(name)[shuffled]
        free[name] = values
    sizes = {a.name: a.size for a in schema}
    found = relate_within_bins(bins, free, sizes, rng, free=free)
    kept = np.corrcoef(found["x"], found["y"])[0, 1]
    assert 0.7 < kept / frame.corr().loc["x", "y"] < 1.3
