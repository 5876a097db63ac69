"""Distances of two tables: of k-way marginals, and of missing cells and their kinds."""

from __future__ import annotations

import itertools
import math
from collections import Counter as CountOf
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from missdp.errors import DataError, ParameterError, check_integer
from missdp.evaluate.align import column_lines, reader, schema_of, to_text
from missdp.progress import Progress, progress_callback
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema
from missdp.schema.cliques import batches, check_cliques
from missdp.schema.numeric import code_dtype
from missdp.serialization import Record
from missdp.session.counting import CHUNK_ROWS, Counter
from missdp.sources import Counts, Rows
from missdp.table import Table
from missdp.table.encode import CodedColumn

MissingAs: TypeAlias = Literal["unobserved", "level"]
_BATCH_CELLS = 10_000_000  # cells of marginals that one pass counts
_WORST = 5  # number of pairs that are reported
_CLEAR = 4.0  # smallest reported difference, in standard deviations of two samples
_FAR = 0.02  # smallest reported difference, as a share of the rows


class _ByClique(Record, abstract=True):
    """A record with a number for each of many cliques, written as rows that any language reads."""

    _written: ClassVar[dict[str, str]]  # field, and the name of its rows in files

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        document = super().to_dict()
        for name, called in self._written.items():
            numbers = getattr(self, name).items()
            del document[name]
            document[called] = [{"clique": list(c), "distance": float(d)} for c, d in numbers]
        return document

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Self:
        read = {key: value for key, value in data.items() if key not in cls._written.values()}
        for name, called in cls._written.items():
            read[name] = {tuple(row["clique"]): row["distance"] for row in data[called]}
        return super()._read(read)


@dataclass(frozen=True)
class MarginalDistance(_ByClique):
    """Distances between the k-way marginals of a true table and a synthetic table.

    A k-way marginal is the table of counts over k attributes. The distance is the total variation
    distance in [0, 1]: 0 for equal shares of all cells, 1 for tables without a common cell.
    `marginal_distance` returns it. **Private**: computed from the truth without noise.

    Parameters
    ----------
    k : int
        Number of attributes per marginal, at least 1.
    per_marginal : dict of tuple of str to float
        Total variation distance in [0, 1] for every set of k attributes, by attribute names.
    rows : int, optional
        Number of rows of the shorter table, which decides how many digits are printed. None prints
        four.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.evaluate import MarginalDistance
    >>> found = MarginalDistance(1, {("a",): 0.1, ("b",): 0.3})
    >>> found.mean, found.max
    (0.2, 0.3)
    >>> print(found)
    1-way marginals, total variation distance: mean 0.2000, max 0.3000 (2 marginals)
      b  0.3000
      a  0.1000
    """

    k: int
    per_marginal: dict[tuple[str, ...], float]
    rows: int | None = None

    derived: ClassVar[tuple[str, ...]] = ("mean", "max")
    _written: ClassVar[dict[str, str]] = {"per_marginal": "marginals"}

    @property
    def mean(self) -> float:
        """Return the mean total variation distance over all marginals of the two tables.

        Returns
        -------
        float
            In [0, 1]. Private.
        """
        return float(np.mean(list(self.per_marginal.values())))

    @property
    def max(self) -> float:
        """Return the largest total variation distance of any marginal of the two tables.

        Returns
        -------
        float
            In [0, 1]. Private.
        """
        return max(self.per_marginal.values())

    def worst(self, count: int = 5) -> dict[tuple[str, ...], float]:
        """Return the marginals in which the synthetic table is farthest from the true table.

        Parameters
        ----------
        count : int, default 5
            Largest number of marginals, at least 0.

        Returns
        -------
        dict of tuple of str to float
            Total variation distances in [0, 1] by attribute names, largest distance first. Private.
        """
        ranked = sorted(self.per_marginal.items(), key=lambda item: -item[1])
        return dict(ranked[:count])

    def __str__(self) -> str:
        lines = [
            f"{self.k}-way marginals, total variation distance: mean "
            f"{to_text(self.mean, self.rows)}, max {to_text(self.max, self.rows)} "
            f"({len(self.per_marginal)} marginals)"
        ]
        worst = self.worst().items()
        rows = [(" × ".join(clique), to_text(d, self.rows)) for clique, d in worst]
        return "\n".join([*lines, *column_lines(rows)])


def marginal_distance(
    truth: Any,
    synthetic: Any,
    *,
    k: int = 2,
    schema: Schema | None = None,
    attributes: Sequence[str] | None = None,
    bins: int | None = None,
    missing: MissingAs = "unobserved",
    progress: Progress | bool | None = None,
) -> MarginalDistance:
    """Compare all k-way marginals of a true table and a synthetic table.

    A k-way marginal is the table of counts over k attributes. The distance of shares p and q of
    cells is the total variation distance ½·Σ|p − q|. Curator only: the result is exact, not
    private. Do not publish it without a mechanism (noise that is charged to a budget).

    Parameters
    ----------
    truth : Table, or any table or file that Table.read takes
        The private table. A frame or a file needs ``schema``, or a Table on the other side.
    synthetic : Table, or any table or file that Table.read takes
        The synthetic table, with the attributes of the private table.
    k : int, default 2
        Number of attributes per marginal, from 1 to the number of attributes.
    schema : Schema, optional
        The declared domain of both tables. By default the schema of the first Table. Needed if
        neither is a Table.
    attributes : sequence of str, optional
        Attributes whose marginals are compared. By default all.
    bins : int, optional
        Rebin numeric attributes to this many bins of equal width (at least 1), finer than the
        declared bins. Attributes with more bins keep them. Both tables must then hold values,
        not only bins. The default compares the declared bins.
    missing : {"unobserved", "level"}, default "unobserved"
        With ``"unobserved"``, a marginal counts the rows that are observed on all of its
        attributes, and each table has its own total. With ``"level"``, all rows count, with missing
        of all kinds as one more level. "Not applicable" is a level in both cases.
    progress : callable or bool, optional
        Called with the name of a stage and the share that is done, in [0, 1]. True shows a bar.

    Returns
    -------
    MarginalDistance
        A distance in [0, 1] for each set of k attributes. A table without rows to count is at
        distance 1 from a table with rows. Private.

    Raises
    ------
    ParameterError
        If ``k``, ``bins`` or ``missing`` has no valid value, or no table states a schema.
    DataError, SchemaError
        If a table cannot be read under the schema, or the tables have different attributes or
        domains, or the schema lacks one of ``attributes``.

    Notes
    -----
    Distances on different bins do not compare: decoding to bin centres alone costs 0.2 on 16 finer
    bins of Adult.

    Examples
    --------
    >>> from missdp.evaluate import marginal_distance
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((Categorical(name="a", levels=("x", "y")),))
    >>> one, two = pd.DataFrame({"a": ["x", "y"]}), pd.DataFrame({"a": ["x", "x"]})
    >>> marginal_distance(one, two, k=1, schema=schema).mean
    0.5
    """
    declared = schema_of(truth, synthetic, schema=schema)
    names = declared.names if attributes is None else attributes
    wanted = {declared[name].name for name in names}
    chosen = tuple(name for name in declared.names if name in wanted)
    if isinstance(k, bool) or not isinstance(k, Integral) or not 1 <= k <= len(chosen):
        raise ParameterError(f"k must be from 1 to {len(chosen)}, not {k!r}")
    if missing not in ("unobserved", "level"):
        raise ParameterError(f"missing must be 'unobserved' or 'level', not {missing!r}")
    bins = None if bins is None else check_integer("bins", bins)
    both = [reader(data, declared) for data in (truth, synthetic)]
    rows: Rows = "observed" if missing == "unobserved" else "extended"
    distances: dict[tuple[str, ...], float] = {}
    total, fewest = math.comb(len(chosen), k), 0
    with progress_callback(progress) as shown:
        compared = _plain(next(both[0]()), bins).schema
        for batch in batches(compared, itertools.combinations(chosen, k), _BATCH_CELLS):
            (one, n_one), (two, n_two) = (_counted(blocks(), batch, rows, bins) for blocks in both)
            fewest = min(n_one, n_two)
            distances |= {clique: total_variation(one[clique], two[clique]) for clique in batch}
            if shown is not None:
                shown(f"{k}-way marginals", len(distances) / total)
    return MarginalDistance(k, distances, fewest)


def _plain(table: Table, bins: int | None) -> Table:
    """Return a table under the levels, bins and missing cells that are compared."""
    return _levels_and_missing(table if bins is None else _rebin(table, bins))


def _rebin(table: Table, bins: int) -> Table:
    """Rebin numeric attributes to ``bins`` equal bins, or to more if more are declared."""
    attributes: dict[str, AnyAttribute] = {a.name: a for a in table.schema}
    columns = {name: table.column(name) for name in attributes}
    for name, attribute in attributes.items():
        if isinstance(attribute, Numeric):
            attributes[name], columns[name] = _rebin_column(attribute, columns[name], bins)
    return Table(Schema(tuple(attributes.values())), columns, kind=table.kind)


def _rebin_column(
    attribute: Numeric, column: CodedColumn, bins: int
) -> tuple[Numeric, CodedColumn]:
    if column.values is None:
        raise DataError(
            f"attribute {attribute.name!r} has bins only, so no finer bins can be compared. "
            "Draw values with with_values() first"
        )
    finest = int(attribute.upper - attribute.lower) if attribute.integer else bins
    n_bins = min(bins, finest)
    if n_bins <= attribute.size:
        return attribute, column
    rebinned = replace(attribute, bins=n_bins, edges=None, spikes=attribute.binning.spikes)
    codes = rebinned.encode_values(column.values)
    is_missing = column.codes >= attribute.size
    codes[is_missing] = column.codes[is_missing].astype(np.int64) + rebinned.size - attribute.size
    return rebinned, CodedColumn(codes.astype(code_dtype(rebinned)), column.values)


def _levels_and_missing(table: Table) -> Table:
    """Return the table with "not applicable" as one more level, and one kind of missing."""
    attributes, columns = [], {}
    for attribute in table.schema:
        column = table.column(attribute.name)
        if attribute.kinds not in ((), ("missing",)):
            levels = tuple(range(attribute.missing_code))
            codes = np.minimum(column.codes, attribute.missing_code)
            attribute = Categorical(name=attribute.name, levels=levels, nullable=True)
            column = CodedColumn(codes.astype(code_dtype(attribute)))
        attributes.append(attribute)
        columns[attribute.name] = column
    return Table(Schema(tuple(attributes)), columns, kind=table.kind)


def _counted(
    blocks: Iterator[Table], cliques: list[tuple[str, ...]], rows: Rows, bins: int | None
) -> tuple[Counts, int]:
    """Count the rows in every cell of every clique in one pass, and all rows."""
    counter, total = None, 0
    for block in blocks:
        plain = _plain(block, bins)
        if counter is None:
            counter = Counter(plain.schema, check_cliques(plain.schema, cliques, rows))
        total += len(plain)
        codes = {name: plain.codes(name) for name in counter.names}
        for start in range(0, len(plain), CHUNK_ROWS):
            part = {name: column[start : start + CHUNK_ROWS] for name, column in codes.items()}
            counter.add(part, min(CHUNK_ROWS, len(plain) - start))
    assert counter is not None  # a table without rows is a block, too
    return counter.result(rows), total


def total_variation(one: NDArray[np.int64], two: NDArray[np.int64]) -> float:
    """Return the total variation distance of two tables of counts."""
    n_one, n_two = int(one.sum()), int(two.sum())
    if n_one == 0 or n_two == 0:
        return float(n_one != n_two)
    return float(min(1.0, 0.5 * np.abs(one / n_one - two / n_two).sum()))


def missing_mask(table: Table) -> NDArray[np.bool_]:
    """Return the mask of a table: an array that is True where a cell is missing.

    All kinds of missing count. "Not applicable" is not missing.

    Parameters
    ----------
    table : Table
        A true or a synthetic table with n rows and d attributes.

    Returns
    -------
    ndarray of bool, shape (n, d)
        Rows in the order of the table, columns in schema order. Private if the table is private.

    Examples
    --------
    >>> from missdp.evaluate import missing_mask
    >>> from missdp import Categorical, Schema, Table
    >>> schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    >>> missing_mask(Table.from_codes(schema, {"a": [0, 2]})).tolist()
    [[False], [True]]
    """
    return np.column_stack([table.codes(a.name) >= a.missing_code for a in table.schema])


def missing_patterns(table: Table) -> dict[tuple[str, ...], int]:
    """Count the rows of a table by the set of attributes that are missing in a row.

    All kinds of missing count. "Not applicable" is not missing. Curator only: the counts are exact,
    and private if the table is private.

    Parameters
    ----------
    table : Table
        A true or a synthetic table.

    Returns
    -------
    dict of tuple of str to int
        Number of rows by the names of the missing attributes, most frequent set first. The
        empty tuple stands for complete rows. Sets without rows are left out. Private if the
        table is private.

    Examples
    --------
    >>> from missdp.evaluate import missing_patterns
    >>> from missdp import Categorical, Schema, Table
    >>> schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    >>> missing_patterns(Table.from_codes(schema, {"a": [0, 2, 1]}))
    {(): 2, ('a',): 1}
    """
    patterns, counts = np.unique(missing_mask(table), axis=0, return_counts=True)
    names = np.array(table.schema.names, dtype=object)
    order = np.argsort(-counts, kind="stable")
    return {tuple(names[patterns[i]]): int(counts[i]) for i in order}


@dataclass(frozen=True)
class MissingFidelity(_ByClique):
    """Comparison of the missing cells of a true table and a synthetic table.

    `missing_fidelity` returns it. **Private**: computed from the truth without noise. A mask
    pattern is the set of attributes that are missing in a row.

    Parameters
    ----------
    truth_rates, synthetic_rates : dict of str to float
        Share of missing cells of each attribute, in [0, 1] (0 for a table without rows).
    pairs : dict of tuple of str to float
        For each pair of attributes, the total variation distance in [0, 1] of its four mask
        patterns. These are: both missing, only the first, only the second, none.
    patterns : float
        Total variation distance in [0, 1] of the mask patterns of all attributes together.
    rows : int, optional
        Number of rows of the shorter table, which decides how many digits are printed. None prints
        four.
    together : dict of str to tuple of float
        Shares of rows, true and synthetic, in which both of two attributes are missing, for the
        five pairs with the largest differences. Keys are texts such as ``"a × b"``.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.evaluate import MissingFidelity
    >>> found = MissingFidelity({"a": 0.2}, {"a": 0.3}, {}, 0.1)
    >>> round(found.max_rate_difference, 3)
    0.1
    """

    truth_rates: dict[str, float]
    synthetic_rates: dict[str, float]
    pairs: dict[tuple[str, str], float]
    patterns: float
    rows: int | None = None
    together: dict[str, tuple[float, ...]] = field(default_factory=dict)

    derived: ClassVar[tuple[str, ...]] = (
        "mean_rate_difference",
        "max_rate_difference",
        "mean_pair_distance",
        "verdict",
    )
    _written: ClassVar[dict[str, str]] = {"pairs": "pairs"}

    @property
    def rate_differences(self) -> dict[str, float]:
        """Return the difference of the shares of missing cells of each attribute in two tables.

        Returns
        -------
        dict of str to float
            Synthetic minus true share, in [-1, 1], by the name of the attribute. Private.
        """
        return {a: self.synthetic_rates[a] - rate for a, rate in self.truth_rates.items()}

    @property
    def mean_rate_difference(self) -> float:
        """Return the mean absolute difference of the shares of missing cells over all attributes.

        Returns
        -------
        float
            In [0, 1]. Private.
        """
        return float(np.mean(np.abs(list(self.rate_differences.values()))))

    @property
    def max_rate_difference(self) -> float:
        """Return the largest absolute difference of the shares of missing cells of an attribute.

        Returns
        -------
        float
            In [0, 1]. Private.
        """
        return float(np.max(np.abs(list(self.rate_differences.values()))))

    @property
    def mean_pair_distance(self) -> float:
        """Return the mean distance of joint missingness in two tables, over all attribute pairs.

        For each pair, it is the total variation distance between the two tables' shares of rows
        with each of the four patterns of observed and missing cells.

        Returns
        -------
        float
            In [0, 1]. 0 if there is one attribute. Private.
        """
        return float(np.mean(list(self.pairs.values()))) if self.pairs else 0.0

    @property
    def verdict(self) -> str:
        """Return a sentence on two attributes that are missing together too often or too rarely.

        It compares synthetic rows with true rows. It names the first pair of ``together`` whose
        shares differ by more than 2 percentage points. The difference must also exceed four
        standard deviations of two samples.

        Returns
        -------
        str
            Empty if no pair differs that much, or if no synthetic cell is missing. Private.
        """
        compared = self.together.items() if any(self.synthetic_rates.values()) else ()
        for names, (true, made) in compared:
            mean = (true + made) / 2
            chance = math.sqrt(2 * mean * (1 - mean) / max(self.rows or 1, 1))
            if abs(true - made) > max(_FAR, _CLEAR * chance):
                return (
                    f"{names} are both missing in {true:.1%} of the real rows, and in {made:.1%} "
                    "of the synthetic ones."
                )
        return ""

    def __str__(self) -> str:
        def text(share: float) -> str:
            return to_text(share, self.rows)

        lines = [
            f"missing rates: mean difference {text(self.mean_rate_difference)}, "
            f"max {text(self.max_rate_difference)}; mask patterns, total variation distance: "
            f"pairs {text(self.mean_pair_distance)}, whole rows {text(self.patterns)}"
        ]
        both = ((n, rate, self.synthetic_rates[n]) for n, rate in self.truth_rates.items())
        rows = [(name, f"{text(one)} → {text(two)}") for name, one, two in both]
        if any(self.truth_rates.values()) and not any(self.synthetic_rates.values()):
            lines.append(
                "  The synthetic rows have no missing cells, which counts as a distance above;\n"
                "  --keep-missing makes rows that have them."
            )
        pairs = [(names, " → ".join(map(text, both))) for names, both in self.together.items()]
        more = ["both missing, furthest apart:", *column_lines(pairs)] if pairs else []
        return "\n".join([*lines, *column_lines(rows), *more])


def missing_fidelity(
    truth: Any, synthetic: Any, *, schema: Schema | None = None
) -> MissingFidelity:
    """Compare the missing cells of a true table and a synthetic table.

    It compares the shares of missing cells, and the sets of attributes that are missing together.
    Curator only: the result is exact, not private. Do not publish it without a mechanism (noise
    that is charged to a budget).

    Parameters
    ----------
    truth : Table, or any table or file that Table.read takes
        The private table. A frame or a file needs ``schema``, or a Table on the other side.
    synthetic : Table, or any table or file that Table.read takes
        The synthetic table, with the attributes of the private table. It should have kept its
        missing cells. A cell that is not applicable is not missing.
    schema : Schema, optional
        The declared domain of both tables. By default the schema of the first Table. Needed if
        neither is a Table.

    Returns
    -------
    MissingFidelity
        Shares and total variation distances in [0, 1]. Private.

    Raises
    ------
    ParameterError
        If no table states a schema.
    DataError, SchemaError
        If a table cannot be read under the schema, or the tables have different attributes or
        domains.

    Examples
    --------
    >>> from missdp.evaluate import missing_fidelity
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    >>> one, two = pd.DataFrame({"a": ["x", None]}), pd.DataFrame({"a": ["x", "y"]})
    >>> missing_fidelity(one, two, schema=schema).rate_differences
    {'a': -0.5}
    """
    declared = schema_of(truth, synthetic, schema=schema)
    one, two = (_patterns(reader(data, declared)()) for data in (truth, synthetic))
    rows, names = (one.total(), two.total()), declared.names
    shares = [_pair_shares(counts, len(names)) for counts in (one, two)]
    rates = [{name: float(share[0, i, i]) for i, name in enumerate(names)} for share in shares]
    if all(rows):
        gaps = np.abs(shares[0] - shares[1]).sum(axis=0) / 2
        every = sorted(one.keys() | two.keys())
        apart = math.fsum(abs(one[p] / rows[0] - two[p] / rows[1]) for p in every) / 2
    else:
        apart = float(rows[0] != rows[1])
        gaps = np.full(2 * (len(names),), apart)
    places = [*itertools.combinations(range(len(names)), 2)]
    pairs = {(names[i], names[j]): float(gaps[i, j]) for i, j in places}
    both = {f"{names[i]} × {names[j]}": (*(float(s[0, i, j]) for s in shares),) for i, j in places}
    worst = sorted((k for k in both if any(both[k])), key=lambda k: -abs(both[k][0] - both[k][1]))
    together = {k: both[k] for k in worst[:_WORST]}
    return MissingFidelity(rates[0], rates[1], pairs, apart, min(rows), together)


def _patterns(tables: Iterator[Table]) -> CountOf[bytes]:
    """Count the rows of each pattern of missing cells, packed into bits."""
    patterns: CountOf[bytes] = CountOf()
    for table in tables:
        mask = missing_mask(table)
        for start in range(0, len(mask), CHUNK_ROWS):
            packed = np.packbits(mask[start : start + CHUNK_ROWS], axis=1)
            distinct, counts = np.unique(packed.view(f"V{packed.shape[1]}"), return_counts=True)
            packed_patterns = (pattern.tobytes() for pattern in distinct)
            patterns.update(dict(zip(packed_patterns, counts.tolist(), strict=True)))
    return patterns


def _pair_shares(patterns: CountOf[bytes], width: int) -> NDArray[np.float64]:
    """Return shares of rows with both missing, only the first, only the second, neither."""
    both = np.zeros((width, width))
    packed = np.frombuffer(b"".join(patterns), dtype=np.uint8).reshape(
        len(patterns), -(-width // 8)
    )
    counts = np.array([*patterns.values()], dtype=np.float64)
    for start in range(0, len(packed), CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        is_missing = np.unpackbits(packed[part], axis=1, count=width).astype(np.float64)
        both += (is_missing.T * counts[part]) @ is_missing
    both /= max(1, patterns.total())
    rate = np.diag(both)
    first, second = rate[:, None] - both, rate[None, :] - both
    return np.stack([both, first, second, 1.0 - both - first - second])


Shares: TypeAlias = dict[str, dict[str, float]]
"""Attribute, then kind of missing, then the share of the cells that are of this kind."""


@dataclass(frozen=True)
class MissingnessByKind(Record):
    """Comparison of the kinds of missing cells of a true table and a synthetic table.

    A cell without a value has a kind: not applicable, refused, unknown, not asked or missing.
    `missingness_by_kind` returns the comparison. **Private**: computed from the truth without
    noise.

    Parameters
    ----------
    truth_shares, synthetic_shares : dict of str to dict of str to float
        By attribute and kind, the share of the attribute's cells that are of this kind. In [0, 1],
        and 0 for a table without rows.
    rows : int, optional
        Number of rows of the shorter table, which decides how many digits are printed. None prints
        four.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.evaluate import MissingnessByKind
    >>> found = MissingnessByKind({"pay": {"refused": 0.25}}, {"pay": {"refused": 0.5}})
    >>> found.mean_difference
    0.25
    >>> print(found)
    cells without a value, by kind: mean difference 0.2500, max 0.2500
      pay, refused  0.2500 → 0.5000
    """

    truth_shares: Shares
    synthetic_shares: Shares
    rows: int | None = None

    derived: ClassVar[tuple[str, ...]] = ("mean_difference", "max_difference")

    @property
    def differences(self) -> dict[tuple[str, str], float]:
        """Return the difference of the shares of cells of each attribute and kind of missing.

        Returns
        -------
        dict of (str, str) to float
            Synthetic minus true share, in [-1, 1], by attribute name and kind. Private.
        """
        return {
            (name, kind): self.synthetic_shares[name][kind] - share
            for name, shares in self.truth_shares.items()
            for kind, share in shares.items()
        }

    @property
    def mean_difference(self) -> float:
        """Return the mean absolute difference of shares over all attributes and kinds of missing.

        Returns
        -------
        float
            In [0, 1]. 0 if no cell may be without a value. Private.
        """
        return float(np.mean([abs(gap) for gap in self.differences.values()] or [0.0]))

    @property
    def max_difference(self) -> float:
        """Return the largest absolute difference of shares of an attribute and kind of missing.

        Returns
        -------
        float
            In [0, 1]. 0 if no cell may be without a value. Private.
        """
        return max((abs(gap) for gap in self.differences.values()), default=0.0)

    def __str__(self) -> str:
        lines = [
            "cells without a value, by kind: mean difference "
            f"{to_text(self.mean_difference, self.rows)}, "
            f"max {to_text(self.max_difference, self.rows)}"
        ]
        rows = []
        for name, kind in self.differences:
            both = (self.truth_shares[name][kind], self.synthetic_shares[name][kind])
            shares = " → ".join(to_text(share, self.rows) for share in both)
            rows.append((f"{name}, {kind.replace('_', ' ')}", shares))
        return "\n".join([*lines, *column_lines(rows)])


def missingness_by_kind(
    truth: Any, synthetic: Any, *, schema: Schema | None = None
) -> MissingnessByKind:
    """Compare the kinds of missing cells of a true table and a synthetic table.

    Kinds are not applicable, refused, unknown, not asked and missing. Curator only: the result is
    exact, not private. Do not publish it without a mechanism (noise that is charged to a budget).

    Parameters
    ----------
    truth : Table, or any table or file that Table.read takes
        The private table. A frame or a file needs ``schema``, or a Table on the other side.
    synthetic : Table, or any table or file that Table.read takes
        The synthetic table, with the attributes of the private table. It should have kept its
        missing cells. If a file or frame has nulls instead of codes, kinds other than plain missing
        are unknown, except "not applicable" that follows from rules. Write codes with
        ``missing_as="codes"``.
    schema : Schema, optional
        The declared domain of both tables. By default the schema of the first Table. Needed if
        neither is a Table.

    Returns
    -------
    MissingnessByKind
        Shares of the cells in [0, 1], by attribute and kind. Private.

    Raises
    ------
    ParameterError
        If no table states a schema.
    DataError, SchemaError
        If a table cannot be read under the schema, or the tables have different attributes or
        domains.

    Examples
    --------
    >>> from missdp.evaluate import missingness_by_kind
    >>> import pandas as pd
    >>> from missdp import Numeric, Schema
    >>> pay = Numeric(name="pay", lower=0, upper=9, nullable=True, refused=(-7,))
    >>> one, two = pd.DataFrame({"pay": [1, -7]}), pd.DataFrame({"pay": [-7, None]})
    >>> missingness_by_kind(one, two, schema=Schema((pay,))).differences
    {('pay', 'missing'): 0.5, ('pay', 'refused'): 0.0}
    """
    declared = schema_of(truth, synthetic, schema=schema)
    both = [_kind_shares(reader(data, declared)(), declared) for data in (truth, synthetic)]
    (one, rows), (two, others) = both
    for a in declared:
        for kind in [*one[a.name]]:
            if kind not in a.kinds and not one[a.name][kind] and not two[a.name][kind]:
                del one[a.name][kind], two[a.name][kind]
    return MissingnessByKind(one, two, min(rows, others))


def _kind_shares(tables: Iterator[Table], declared: Schema) -> tuple[Shares, int]:
    rows = 0
    tally: dict[str, CountOf[str]] = {name: CountOf() for name in declared.names}
    for table in tables:
        rows += len(table)
        for a in table.schema:
            tally[a.name].update({kind: int(table.mask(a.name, kind).sum()) for kind in a.kinds})
    shares = {
        name: {kind: count / max(rows, 1) for kind, count in counts.items()}
        for name, counts in tally.items()
    }
    return shares, rows
