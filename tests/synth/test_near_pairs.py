"""Pairs of near attributes, which stand for all pairs of a wide table."""

import itertools

import numpy as np
import pytest

from missdp import AllPairs, Categorical, Schema, Table
from missdp.inference.product_sums import RowVectors, clipped_away, clipped_share
from missdp.schema import NotApplicable
from missdp.schema.modelled import ModelView
from missdp.synth import workload
from missdp.synth.registry import default_synthesizer
from missdp.synth.workload import near_pairs


def schema_of(d, rules=()):
    levels = "xyz"
    return Schema(
        tuple(Categorical(name=f"c{k}", levels=tuple(levels), nullable=True) for k in range(d)),
        rules,
    )


def test_up_to_100_attributes_have_all_pairs():
    assert near_pairs(ModelView(schema_of(100))) is None


@pytest.mark.parametrize(
    ("d", "reach"), [(101, 12), (842, 9), pytest.param(9000, 1, marks=pytest.mark.long)]
)
def test_more_attributes_have_pairs_within_reach(d, reach):
    pairs = near_pairs(ModelView(schema_of(d)))
    assert {b - a for a, b in pairs} == set(range(1, reach + 1))
    assert len(pairs) == reach * d - reach * (reach + 1) // 2
    assert len(pairs) <= max(8_000, d)


def test_pairs_of_rules_are_measured_however_far():
    rule = NotApplicable("c90", unless="c3 = 'x'")
    pairs = near_pairs(ModelView(schema_of(101, (rule,))))
    assert (3, 90) in pairs
    assert pairs == sorted(set(pairs))


def test_default_family_follows_delta_and_the_number_of_cells():
    chosen = {default_synthesizer(schema_of(d), delta=None) for d in (1, 40, 41, 100, 101, 842)}
    assert chosen == {"all-pairs"}
    assert default_synthesizer(schema_of(101), delta=0.0) == "aim"
    large = tuple(Categorical(name=f"c{k}", levels=tuple(range(400))) for k in range(30))
    assert default_synthesizer(Schema(large), delta=None) == "aim"  # 70 million cells


@pytest.fixture
def vectors():
    rng = np.random.default_rng(0)
    blocks = [rng.normal(size=(3, k)) for k in (3, 2, 4, 1)]
    return RowVectors(blocks, 1.5, {1: rng.normal(size=(3, 1))})


ROWS = np.random.default_rng(1).integers(0, 3, (500, 4))


def test_norms_of_some_pairs_are_those_of_the_vectors(vectors):
    some = vectors._replace(pairs=((0, 2), (1, 2)))
    blocks = [block[ROWS[:, a]] for a, block in enumerate(vectors.blocks)]
    parts = [1.5 * block for block in blocks] + [1.5 * vectors.extra_features[1][ROWS[:, 1]]]
    parts += [(blocks[a][:, :, None] * blocks[b][:, None]).reshape(500, -1) for a, b in some.pairs]
    assert some.norms(ROWS) == pytest.approx(np.linalg.norm(np.hstack(parts), axis=1))


def test_pairs_that_are_all_pairs_change_no_number(vectors):
    listed = vectors._replace(pairs=tuple(itertools.combinations(range(4), 2)))
    assert listed.norms(ROWS) == pytest.approx(vectors.norms(ROWS))
    one, other = (clipped_away(ROWS, v, 3.0) for v in (vectors, listed))
    assert one.pairs.keys() == other.pairs.keys()
    assert all(one.pairs[p] == pytest.approx(other.pairs[p]) for p in one.pairs)
    assert all(a == pytest.approx(b) for a, b in zip(one.single, other.single, strict=True))
    assert clipped_share(ROWS, vectors, 3.0)[1] == pytest.approx(
        clipped_share(ROWS, listed, 3.0)[1]
    )


def wide_rows(d, rows, rng):
    """Columns of which each follows the column before in 70 % of the rows."""
    codes = rng.integers(0, 3, (rows, d))
    for k in range(1, d):
        codes[:, k] = np.where(rng.random(rows) < 0.7, codes[:, k - 1], codes[:, k])
    return codes


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(workload, "_MAX_ALL", 5)
    monkeypatch.setattr(workload, "_REACH", 2)


@pytest.mark.usefixtures("few")
def test_named_pairs_are_measured_in_addition():
    codes = wide_rows(8, 2000, np.random.default_rng(0))
    schema = schema_of(8)
    table = Table.from_codes(schema, {f"c{k}": codes[:, k] for k in range(8)})
    told = {"epsilon": 5.0, "random_state": 0}
    plain, named = (
        AllPairs(workload=w, **told).fit(table).tables_.products.pairs for w in (2, [("c7", "c0")])
    )
    assert len(plain) == 7 + 6
    assert named.keys() - plain.keys() == {("c0", "c7")}


@pytest.mark.usefixtures("few")
@pytest.mark.long
def test_near_pairs_hold_and_far_pairs_follow_from_them():
    codes = wide_rows(8, 5000, np.random.default_rng(0))
    schema = schema_of(8)
    model = AllPairs(epsilon=20.0, random_state=0).fit(
        Table.from_codes(schema, {f"c{k}": codes[:, k] for k in range(8)})
    )
    made = model.sample_table(5000, random_state=0)
    drawn = np.stack([np.asarray(made.codes(name)) for name in schema.names], axis=1)
    for a, b in ((0, 1), (2, 4), (0, 4)):
        same, truth = (np.mean(c[:, a] == c[:, b]) for c in (drawn, codes))
        assert same == pytest.approx(truth, abs=0.04)


@pytest.mark.usefixtures("few")
@pytest.mark.long
def test_estimates_of_a_wide_table_agree_with_those_of_all_attributes(monkeypatch):
    from missdp.estimate import intervals, released, replicates

    rng = np.random.default_rng(0)
    codes = wide_rows(8, 5000, rng)
    codes[rng.random(codes.shape) < 0.1] = 3  # missing
    schema = schema_of(8)
    model = AllPairs(epsilon=5.0, random_state=0).fit(
        Table.from_codes(schema, {f"c{k}": codes[:, k] for k in range(8)})
    )
    cliques = [("c0", "c1"), ("c5", "c6")]
    tables = []
    for limit in (100, 5):
        monkeypatch.setattr(replicates, "_MAX_TOGETHER", limit)
        released._CACHE.clear()
        of = released.released_tables(model, cliques, draws=5)
        tables.append([of.point.of(0, 1), of.point.of(5, 6)])
    for together, alone in zip(*tables, strict=True):
        assert np.abs(together - alone).sum() / 2 < 0.05  # 3,000 rows or 20,000
    # Rows of a wide table take minutes, so estimates are the released values.
    monkeypatch.setattr(intervals, "rows_of_model", None)
    assert model.estimate("share(c0 = 'x')").estimate[0] == pytest.approx(
        float(tables[1][0].sum(axis=1)[0]), abs=0.01
    )


@pytest.mark.usefixtures("few")
@pytest.mark.long
def test_report_of_a_wide_table_lists_measured_pairs_without_a_matrix(monkeypatch, tmp_path):
    from missdp.governance import facts
    from missdp.governance.dossier import write_dossier

    codes = wide_rows(8, 2000, np.random.default_rng(0))
    schema = schema_of(8)
    model = AllPairs(epsilon=5.0, random_state=0).fit(
        Table.from_codes(schema, {f"c{k}": codes[:, k] for k in range(8)})
    )
    monkeypatch.setattr(facts, "_MAX_COMPARED", 5)
    assert list(facts.ModelSummary(model).pairs) == near_pairs(ModelView(schema))
    write_dossier(model, tmp_path / "dossier", overwrite=False)
    page = (tmp_path / "dossier" / "report.html").read_text("utf-8")
    assert "Only measured pairs of this wide table are listed" in page
    assert 'id="matrix"' not in page


@pytest.mark.usefixtures("few")
@pytest.mark.long
def test_estimates_of_a_wide_table_correct_missing_values_and_refuse_far_pairs(monkeypatch):
    """An interval was .26 to .28 when the neighbour that decides the missing cells was left out."""
    from missdp.errors import ParameterError
    from missdp.estimate import released, replicates

    monkeypatch.setattr(replicates, "_MAX_TOGETHER", 5)
    released._CACHE.clear()
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (6000, 8))
    codes[:, 5] = np.where(rng.random(6000) < 0.85, codes[:, 4], codes[:, 5])
    truth = (codes[:, 5] == 2).mean()
    codes[rng.random(6000) < np.where(codes[:, 4] == 2, 0.8, 0.05), 5] = 3  # missing
    observed = (codes[:, 5] == 2).sum() / (codes[:, 5] < 3).sum()
    schema = schema_of(8)
    table = Table.from_codes(schema, {f"c{k}": codes[:, k] for k in range(8)})
    model = AllPairs(epsilon=20.0, random_state=0).fit(table)
    result = model.estimate("share(c5 = 'z')")
    assert abs(result.estimate[0] - truth) < 0.25 * abs(observed - truth)
    low, high = result.intervals[0]
    assert low < truth < high
    with pytest.raises(ParameterError, match="Name them in workload="):
        model.estimate("share(c7 = 'x') by c0")
