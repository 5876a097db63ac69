"""MST: a spanning tree is measured, the right one, and nothing more is charged."""

import numpy as np
import pytest

from missdp import Table
from missdp.accounting import releases
from missdp.accounting.costs import gdp_cost
from missdp.accounting.exact import mu_worth
from missdp.synth import MST
from synth.tables import rows_of, schema_of

NAMES = ("a", "b", "c", "d", "e")
SCHEMA = schema_of(dict.fromkeys(NAMES, 3))


def chain(n=20_000):
    """a - b - c - d - e, with a fifth of all cells missing."""
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 3, n)]
    for _ in NAMES[1:]:
        columns.append(np.where(rng.random(n) < 0.8, columns[-1], rng.integers(0, 3, n)))
    return {k: np.where(rng.random(n) < 0.2, 3, c) for k, c in zip(NAMES, columns, strict=True)}


@pytest.mark.parametrize("missing", ["joint", "impute-first"])
def test_the_tree_is_found_and_paid_for(missing):
    model = MST(epsilon=3.0, delta=1e-6, missing=missing, random_state=0, model_rows=2000)
    model.fit(Table.from_codes(SCHEMA, chain()))
    assert set(model.measured_) == {("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")} or (
        missing == "impute-first" and len(model.measured_) == 4
    )
    spent = float(sum(gdp_cost(e) for e in releases(model.guarantee_.events)))
    assert spent == pytest.approx(mu_worth(3.0, 1e-6) ** 2, rel=1e-6)


def test_no_cycle_is_ever_measured():
    for seed in range(2):
        model = MST(epsilon=0.5, delta=1e-6, random_state=seed, model_rows=200)
        edges = model.fit(rows_of(SCHEMA, 300, 1)).measured_
        roots = {n: n for n in NAMES}
        for a, b in edges:
            assert roots[a] != roots[b]
            roots = {n: roots[a] if r == roots[b] else r for n, r in roots.items()}
        assert len(edges) == 4
