"""Random denial constraints and tables with ties and missing cells, and their conflicts by hand."""

import operator

import numpy as np
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.baselines.denial_constraints import read_constraints
from missdp.table.encode import CodedColumn, code_dtype

SIGNS = {"EQ": operator.eq, "IQ": operator.ne, "LT": operator.lt, "LTE": operator.le,
         "GT": operator.gt, "GTE": operator.ge}  # fmt: skip
NUMBER = {"lower": 0, "upper": 9, "nullable": True, "not_applicable": (-1,), "refused": (-2,)}
SCHEMA = Schema(
    (
        Numeric(name="x", bins=2, **NUMBER),
        Numeric(name="y", bins=3, spikes=(0,), **NUMBER),
        Ordinal(name="o", levels=("a", "b", "c"), nullable=True),
        Ordinal(name="p", levels=("a", "b", "c"), nullable=True, refused=("R",)),
        Categorical(name="c", levels=("u", "v"), nullable=True),
    )
)
ALIKE = {"x": ("x", "y"), "y": ("x", "y"), "o": ("o", "p"), "p": ("o", "p"), "c": ("c",)}
CONSTANTS = {"x": ("3", "0", "4.5"), "o": ("'a'", "'b'"), "c": ("'u'",)}


@st.composite
def parts(draw, *, between):
    if not between and draw(st.booleans()):
        name = draw(st.sampled_from(list(CONSTANTS)))
        value, row = draw(st.sampled_from(CONSTANTS[name])), draw(st.sampled_from([1, 2]))
        signs = ("EQ", "IQ") if name == "c" else tuple(SIGNS)
        return f"{draw(st.sampled_from(signs))}(t{row}.{name},{value})"
    one = draw(st.sampled_from(["x", "y", "o", "p", "c"] if between else ["x", "o"]))
    two = draw(st.sampled_from(ALIKE[one]))
    if not between:
        two = {"x": "y", "o": "p"}[one]
    rows = draw(st.sampled_from([(1, 2), (2, 1)] if between else [(1, 1), (2, 2)]))
    sign = draw(st.sampled_from(["EQ", "IQ"] if one == "c" else list(SIGNS)))
    return f"{sign}(t{rows[0]}.{one},t{rows[1]}.{two})"


@st.composite
def constraints(draw):
    found = draw(st.lists(parts(between=True), min_size=1, max_size=4))
    found += draw(st.lists(parts(between=False), max_size=2))
    (constraint,) = read_constraints(["t1&t2&" + "&".join(found)], SCHEMA)
    return constraint


@st.composite
def tables(draw, most=25):
    n, seed = draw(st.integers(0, most)), draw(st.integers(0, 2**32))
    values, holes = draw(st.sampled_from([1, 3, 10])), draw(st.sampled_from([0, 0.3]))
    return made(n, seed, values=values, holes=holes)


def made(n, seed, *, values, holes):
    rng = np.random.default_rng(seed)
    columns = {}
    for attribute in SCHEMA:
        if isinstance(attribute, Numeric):
            cells = rng.integers(0, values, n).astype(float) + 0.5 * (rng.random(n) < 0.2)
            cells = np.minimum(cells, 9.0)
            codes = attribute.encode_values(cells)
        else:
            cells, codes = None, rng.integers(0, min(values, attribute.size), n)
        hole = rng.random(n) < holes
        codes = np.where(hole, rng.integers(attribute.size, attribute.extended_size, n), codes)
        values_ = None if cells is None else np.where(hole, 0.0, cells)
        columns[attribute.name] = CodedColumn(codes.astype(code_dtype(attribute)), values_)
    return Table(SCHEMA, columns)


def violates(constraint, first, second):
    """Whether t1 of the first and t2 of the second table violate it, by a look at every pair."""

    def cells(table, name):
        numeric = isinstance(table.schema[name], Numeric)
        values = table.values(name) if numeric else table.codes(name).astype(float)
        return values, table.codes(name) < table.schema[name].size

    found = np.ones((len(first), len(second)), dtype=bool)
    names = {"==": "EQ", "!=": "IQ", "<": "LT", "<=": "LTE", ">": "GT", ">=": "GTE"}
    for sign, one, two in constraint.between:
        (a, known), (b, also) = cells(first, one), cells(second, two)
        found &= SIGNS[names[sign]](a[:, None], b[None]) & known[:, None] & also[None]
    sides = ((first, constraint.first, (-1, 1)), (second, constraint.second, (1, -1)))
    for table, singles, shape in sides:
        for part in singles:
            (a, known), b, also = cells(table, part.left.name), part.right, True
            if not isinstance(b, float):
                b, also = cells(table, b.name)
            holds = SIGNS[names[part.operator]](a, b) & known & also
            found &= holds.reshape(shape)
    return found


def conflicts(constraint, rows):
    """The ordered pairs with each row that violate it, by a look at every pair."""
    pairs = violates(constraint, rows, rows)
    np.fill_diagonal(pairs, False)
    return pairs.sum(axis=0) + pairs.sum(axis=1)
