"""The modelled attributes of a row follow from this row alone. Every source counts them alike."""

import duckdb
import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Schema, Table
from missdp.schema import Always, Determined, Never, NotApplicable
from missdp.schema.modelled import ModelView
from missdp.session import CountedRows
from missdp.session.modelled_rows import modelled_source
from missdp.sources import DuckDBSource, MemorySource, strategy_named


def whole(name, lower, upper, **facts):
    return Numeric(name=name, lower=lower, upper=upper, integer=True, **facts)


SCHEMA = Schema(
    (
        Categorical(name="work", levels=("no", "yes"), nullable=True, refused=("R",)),
        whole("hours", 1, 60, bins=3, nullable=True, unknown=(-8,)),
        whole("age", 0, 100, bins=5, nullable=True),
        whole("born", 1924, 2024, bins=5, nullable=True),
        whole("start", 0, 9, bins=3),
        whole("end", 0, 9, bins=3, nullable=True),
        Categorical(name="degree", levels=("a", "b")),
        whole("years", 0, 20),
        Categorical(name="rent", levels=("low", "high"), not_applicable=("owner",)),
    ),
    (
        NotApplicable("hours", unless="work = 'yes'"),
        Always("age + born = 2024"),
        Always("start <= end"),
        Determined("years", by="degree", map=(("a", 9), ("b", 13))),
        Never("age < 15 and work = 'yes'"),
    ),
)
CELLS = {
    "work": ("no", "yes", "R", None),
    "hours": (1, 25, 60, -8, None),
    "age": (0, 14, 15, 50, 100, None),
    "born": (1924, 1974, 2024, None),
    "start": (0, 4, 9),
    "end": (0, 4, 9, None),
    "degree": ("a", "b"),
    "years": (9, 13),
    "rent": ("low", "high", "owner"),
}
rows = st.tuples(*(st.sampled_from(cells) for cells in CELLS.values()))


def frame(given_rows):
    found = pd.DataFrame(given_rows, columns=list(CELLS), dtype=object)
    kinds = {"work": "string", "degree": "string", "rent": "string"}
    return found.astype({name: kinds.get(name, "Float64") for name in CELLS})


def test_derived_attributes_are_omitted_from_the_model():
    modelled = ModelView(SCHEMA)
    assert modelled.schema.names == ("work", "hours", "age", "start", "end", "degree", "rent")
    assert modelled.schema["hours"].size == SCHEMA["hours"].size + 1
    assert modelled.schema["hours"].nullable
    assert not modelled.schema["rent"].nullable
    assert modelled.schema["work"].extended_size == 3
    assert modelled.kinds == {"work": (2, 3), "hours": (4, 5)}
    assert modelled.rule_filled == {"hours", "age", "born", "years", "rent"}
    assert not modelled.is_identity


def test_a_schema_without_kinds_and_rules_is_modelled_as_it_is():
    plain = Schema((Categorical(name="a", levels=("x",), nullable=True, missing_codes=("?",)),))
    assert ModelView(plain).schema is plain
    source = MemorySource(Table.from_codes(plain, {"a": [0, 1]}))
    assert CountedRows.from_source(source, strategy_named("joint")).source is source


@settings(max_examples=15)
@given(st.lists(rows, max_size=12))
def test_memory_and_streams_count_alike(given_rows):
    data, modelled = frame(given_rows), ModelView(SCHEMA)
    names = modelled.schema.names
    cliques = [(), *((n,) for n in names), ("work", "hours"), ("hours", "age", "end"), names[:4]]
    memory = modelled_source(MemorySource(Table.read(data, SCHEMA)), modelled)
    relation = duckdb.connect().from_df(data)
    stream = modelled_source(DuckDBSource(relation, SCHEMA, n_jobs=1), modelled)
    for over in ("extended", "observed"):
        one, two = memory.counts(cliques, rows=over), stream.counts(cliques, rows=over)
        for clique in cliques:
            np.testing.assert_array_equal(one[clique], two[clique])
            shape = modelled.schema.extended_shape if over == "extended" else modelled.schema.shape
            assert one[clique].shape == two[clique].shape == shape(clique)
    assert int(memory.counts([("age",)], rows="extended")[("age",)].sum()) == len(data)


@settings(max_examples=15)
@given(st.lists(rows, min_size=1, max_size=8), st.data())
def test_one_row_moves_one_count_by_one(given_rows, data):
    """The row may break rules, have any kind of missing value, or be not applicable."""
    modelled = ModelView(SCHEMA)
    at = data.draw(st.integers(0, len(given_rows) - 1))
    fewer = given_rows[:at] + given_rows[at + 1 :]
    clique = data.draw(st.sampled_from([("work", "hours"), ("age", "end"), ("rent",), ()]))
    tables = (Table.read(frame(r), SCHEMA) for r in (given_rows, fewer))
    counts = [modelled_source(MemorySource(table), modelled) for table in tables]
    for over in ("extended", "observed"):
        one, two = (c.counts([clique], rows=over)[clique] for c in counts)
        moved = np.abs(one - two)
        assert moved.sum() <= 1
        assert moved.sum() == 1 or over == "observed"


def test_rows_that_were_filled_are_settled_by_the_rules():
    modelled = ModelView(SCHEMA)
    absent = SCHEMA["hours"].size
    codes = {name: np.zeros(4, dtype=np.int64) for name in modelled.schema.names}
    codes |= {"work": np.array([0, 1, 0, 1]), "hours": np.array([0, 1, absent, 2])}
    assert modelled.apply_routing(codes)["hours"].tolist() == [absent, 1, absent, 2]
    law = modelled.without_not_applicable("hours", np.array([0.1, 0.1, 0.2, 0.6]))
    np.testing.assert_allclose(law, [0.25, 0.25, 0.5, 0.0])
    np.testing.assert_allclose(
        modelled.without_not_applicable("rent", np.eye(3)[2]), [1.0, 1.0, 0.0]
    )
    only = np.array([0.5, 0.5])
    assert modelled.without_not_applicable("degree", only) is only


def routed(unless, *, hours=(), **holes):
    """Facts about hours that are routed, of people whose work and age may be missing."""
    schema = Schema(
        (
            Categorical(name="work", levels=("no", "yes"), nullable=holes.get("work", True)),
            whole("age", 0, 99, nullable=holes.get("age", True)),
            whole("born", 1925, 2024, nullable=True),
            Numeric(name="hours", lower=1, upper=60, nullable=True, not_applicable=hours),
            Numeric(name="extra", lower=0, upper=60, nullable=True),
        ),
        (
            NotApplicable("hours", unless=unless),
            NotApplicable("extra", unless="hours > 30"),
            Always("age + born = 2024"),
        ),
    )
    modelled = ModelView(schema)
    names = modelled.schema.names
    told = {names[a]: tuple(names[b] for b in by) for a, by in modelled.implied_by.items()}
    return told, {names[a] for a in modelled.never_missing}


def test_determinants_of_not_applicable_without_codes():
    both = {"hours", "extra"}
    assert routed("work = 'yes'") == ({"hours": ("work",), "extra": ("hours",)}, both)
    assert routed("work = 'yes'", hours=(-1,)) == ({"extra": ("hours",)}, both)
    assert routed("work = 'yes'", work=False) == ({"extra": ("hours",)}, both)
    # An attribute that follows from another attribute is not modelled. The other attribute implies
    # its value.
    assert routed("born < 2009") == ({"hours": ("age",), "extra": ("hours",)}, both)
    # Of two, one may do: then "not applicable" is missing in some rows, and not in others.
    two = "work = 'yes' and age > 14"
    assert routed(two) == ({"hours": ("work", "age"), "extra": ("hours",)}, {"extra"})
    assert routed(two, age=False) == ({"hours": ("work",), "extra": ("hours",)}, {"extra"})
    assert routed(two, age=False, work=False) == ({"extra": ("hours",)}, both)
