"""Values inside bins: relations go on inside them, and each bin keeps what it has."""

from functools import partial

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Schema, Table
from missdp.inference.model import related
from missdp.synth.sampling import with_related_values

SCHEMA = Schema(
    (
        Numeric(name="x", lower=0, upper=100, bins=4, nullable=True),
        Numeric(name="y", lower=-50, upper=50, bins=3, spikes=(0.0,), integer=True),
        Numeric(name="z", lower=0, upper=1, bins=5),
        Categorical(name="a", levels=("no", "yes"), nullable=True),
    )
)


def coded(n, seed, strength):
    """Bins of numbers that depend on each other, holes too, and the numbers themselves."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal(n)
    latent = strength * shared[:, None] + np.sqrt(1 - strength**2) * rng.standard_normal((n, 3))
    place = np.argsort(np.argsort(latent, axis=0), axis=0) / n
    frame = pd.DataFrame(
        {"x": 100 * place[:, 0], "y": np.floor(100 * place[:, 1]) - 50, "z": place[:, 2]}
    )
    frame["x"] = frame["x"].where(rng.random(n) > 0.2)
    frame["a"] = rng.choice(["no", "yes"], n)
    table = Table.read(frame, SCHEMA)
    return frame, Table.from_codes(SCHEMA, {name: table.codes(name) for name in SCHEMA.names})


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(0, 400), st.floats(-0.99, 0.99))
def test_each_bin_keeps_its_values_and_no_cell_changes_bins(seed, n, strength):
    _, table = coded(n, seed, strength)
    plain = table.with_values(np.random.default_rng(seed)).to_arrow()
    linked = with_related_values(table, np.random.default_rng(seed)).to_arrow()
    for name in SCHEMA.names:
        codes = table.codes(name)
        one, other = (t[name].to_pandas().to_numpy() for t in (plain, linked))
        if name == "a":
            assert one.tolist() == other.tolist()
            continue
        for code in np.unique(codes):
            assert np.array_equal(
                np.sort(one[codes == code]), np.sort(other[codes == code]), equal_nan=True
            )


def test_correlations_lose_less_and_none_is_made_up():
    for strength, most in ((0.95, 0.6), (0.7, 0.75), (0.0, None)):
        truth, table = coded(20_000, 1, strength)
        ways = table.with_values, partial(with_related_values, table)
        drawn = [way(np.random.default_rng(2)).to_native("pandas")[["x", "y", "z"]] for way in ways]
        exact = truth[["x", "y", "z"]].corr("spearman").to_numpy()
        plain, linked = (
            np.abs(d.astype(float).corr("spearman").to_numpy() - exact).max() for d in drawn
        )
        if most is None:
            assert linked < plain + 0.01
        else:
            assert linked < most * plain


def test_slopes_of_long_tails_go_on_inside_their_outermost_bin():
    """A line in ranks would leave what a few rows far out make of a covariance to chance."""
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
    found = related(bins, free, sizes, rng, free=free)
    kept = np.corrcoef(found["x"], found["y"])[0, 1]
    assert 0.7 < kept / frame.corr().loc["x", "y"] < 1.3
