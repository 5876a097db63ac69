"""Fidelity of a synthetic table: its numbers, and the relations of its columns.

Pictures compare the columns with the real ones, and need the extra ``plot``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from missdp.errors import check_integer
from missdp.evaluate.align import column_lines, reader, schema_of, to_text
from missdp.evaluate.distances import total_variation
from missdp.files import new_figure, picture_format, write_picture
from missdp.schema import AnyAttribute, Date, Numeric, Schema
from missdp.serialization import Record
from missdp.table import Table
from missdp.types import Floats

_Coded: TypeAlias = dict[str, tuple[NDArray[np.int64], int]]  # codes (or -1), number of levels

_POINTS = (0.05, 0.25, 0.5, 0.75, 0.95)  # levels of the compared quantiles
_MIN_GROUP = 100  # smallest number of rows of the truth in a subgroup
_STRONG = 0.1  # smallest true rank correlation that enters the slope
_MAX_CELLS = 2**22  # largest number of cells of a table that is counted in full
_MAX_LEVELS = 12  # largest number of levels in a picture: the most frequent levels of the truth
_CURVE = 501  # number of points of a distribution function
_WIDE = 4  # columns of panels in the picture
_COLOURS = {"real": "#7a8793", "synthetic": "#1f77b4"}
SCORES = {
    "two_way_equal": "two-way tables, numbers in ten equal bins: mean distance",
    "two_way_deciles": "two-way tables, numbers cut at the real deciles: mean distance",
    "two_way_worst": "two-way tables, numbers cut at the real deciles: worst distance",
    "ks": "Kolmogorov-Smirnov distance of the numbers, mean",
    "ks_worst": "Kolmogorov-Smirnov distance of the numbers, worst",
    "mean": "means, off by (in real standard deviations)",
    "sd": "standard deviations, off by (in real ones)",
    "quantiles": "quantiles, off by (in real standard deviations)",
    "rank_corr": "rank correlations, off by",
    "corr": "linear correlations, off by",
    "slope": "share of real rank correlations that is kept (1 is best)",
    "subgroup_means": "means of subgroups, off by (in real standard deviations)",
}


@dataclass(frozen=True)
class Fidelity(Record):
    """Comparison of the numbers and column relations of a true and a synthetic table.

    `fidelity` returns it. **Private**: computed from the truth without noise. A two-way table has
    the counts of two columns. Its total variation distance is in [0, 1].

    Parameters
    ----------
    scores : dict of str to float
        Scores by name. 0 is best, except for ``slope``. Scores that do not apply to the columns are
        left out.

        * ``two_way_equal``: mean total variation distance of the two-way tables, numbers in ten
          equal bins.
        * ``two_way_deciles``, ``two_way_worst``: mean and largest distance with bins at the deciles
          of the truth.
        * ``ks``, ``ks_worst``: mean and largest Kolmogorov-Smirnov distance of the numeric columns,
          in [0, 1].
        * ``mean``, ``sd``, ``quantiles``: mean absolute differences in standard deviations of the
          truth. Quantiles are at 5, 25, 50, 75 and 95 %.
        * ``rank_corr``, ``corr``: mean absolute error of the rank and linear correlations of
          numeric columns.
        * ``slope``: the preserved share of true rank correlations above .1 (1 is best).
        * ``subgroup_means``: differences of means by level of each other column, weighted by rows,
          in standard deviations, where the truth has at least 100 rows.
    ks : dict of str to float
        By numeric column, the Kolmogorov-Smirnov distance in [0, 1].
    truth, synthetic : dict of str to tuple of float
        By numeric column the mean, the standard deviation and the five quantiles, in the unit of
        the column. NaN if there is no value.
    by_chance : float
        Expected ``two_way_deciles`` of two samples of the truth of these sizes, drawn with
        replacement. In [0, 1].
    rows : int
        Number of rows of the shorter table.
    without_values : tuple of str, default ()
        Columns without a value in the truth. They are not compared, and have no two-way table.
    dates : dict of str to str
        Columns of dates, and the units since 1970 that their numbers count.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.evaluate import Fidelity
    >>> scores = {"two_way_deciles": 0.04}
    >>> found = Fidelity(scores, ks={}, truth={}, synthetic={}, by_chance=0.02, rows=500)
    >>> found.verdict.endswith("2.0 times as far.")
    True
    """

    scores: dict[str, float]
    ks: dict[str, float]
    truth: dict[str, tuple[float, ...]]
    synthetic: dict[str, tuple[float, ...]]
    by_chance: float
    rows: int
    without_values: tuple[str, ...] = ()
    dates: dict[str, str] = field(default_factory=dict)

    derived: ClassVar[tuple[str, ...]] = ("verdict",)

    @property
    def verdict(self) -> str:
        """Return a sentence that compares the distance of two tables with the distance by chance.

        The distance by chance is the distance of two samples of the true table. The distance is the
        mean total variation distance of two-way tables, with numbers cut at deciles of the truth.

        Returns
        -------
        str
            One or two sentences. Private.
        """
        far = self.scores["two_way_deciles"]
        ratio = far / self.by_chance if self.by_chance else math.inf * far
        so = "no further than by chance"
        if not ratio <= 1.05:
            so = f"{ratio:.1f} times as far" if math.isfinite(ratio) else "further than by chance"
        without_values = f" Without a value in the real table: {', '.join(self.without_values)}."
        return (
            "Verdict: two-way tables of the synthetic and the real rows are "
            f"{to_text(far, self.rows)} apart (mean distance, numbers cut at deciles); those of "
            "two samples of the real table of this size would be "
            f"{to_text(self.by_chance, self.rows)} apart: {so}."
            + without_values
            * bool(self.without_values)
        )

    def __str__(self) -> str:
        scores = [(SCORES[name], to_text(score, self.rows)) for name, score in self.scores.items()]
        titles = ["", "", "KS", "mean", "SD", *(f"{p:.0%}" for p in _POINTS)]
        cells = [titles] if self.ks else []
        for name, ks in self.ks.items():
            error, unit = self.truth[name][1] / max(self.rows, 1) ** 0.5, self.dates.get(name)
            real, made = (
                [_text(x, error, None if i == 1 else unit) for i, x in enumerate(d[name])]
                for d in (self.truth, self.synthetic)
            )
            cells.append([name, "real", "", *real])
            cells.append(["", "synthetic", to_text(ks, self.rows), *made])
        title = "numbers and relations of the synthetic rows, compared with the real ones"
        return "\n".join([title, *column_lines(scores), *column_lines(cells)])


def _text(number: float, error: float, unit: Any) -> str:
    """Return a number with the digits that a standard error leaves, or the date it stands for."""
    if unit and math.isfinite(number):
        return Date.date_text(round(number), unit)
    if not math.isfinite(number) or not error > 0:
        return f"{number:g}"
    digits = -math.floor(math.log10(error))
    return f"{round(number, digits) + 0.0:,.{max(digits, 0)}f}"


def fidelity(
    truth: Any, synthetic: Any, *, schema: Schema | None = None, max_rows: int = 200_000
) -> Fidelity:
    """Compare the numbers and the column relations of a true and a synthetic table.

    It compares distributions, means and quantiles of numbers, two-way tables, correlations and
    means of subgroups. Each distance is over the cells that have a value. "Not applicable" counts
    as a level. Curator only: the result is exact, not private. Do not publish it without a
    mechanism (noise that is charged to a budget).

    Parameters
    ----------
    truth : Table, or any table or file that Table.read takes
        The private table. A frame or a file needs ``schema``, or a Table on the other side.
    synthetic : Table, or any table or file that Table.read takes
        The synthetic table, with the attributes of the private table.
    schema : Schema, optional
        The declared domain of both tables. By default the schema of the first Table. Needed if
        neither is a Table. Its bins make no difference.
    max_rows : int, default 200000
        A longer table is represented by a random sample of this number of rows, at least 1. The
        sample is always the same.

    Returns
    -------
    Fidelity
        Scores and summaries of columns. Private.

    Raises
    ------
    ParameterError
        If ``max_rows`` is not an integer of at least 1, or no table states a schema.
    DataError, SchemaError
        If a table cannot be read under the schema, or the tables have different attributes or
        domains.

    Examples
    --------
    >>> from missdp import Numeric, Schema
    >>> from missdp.evaluate import fidelity
    >>> import pandas as pd
    >>> schema = Schema((Numeric(name="pay", lower=0, upper=100),))
    >>> one, two = pd.DataFrame({"pay": [1, 2, 3, 4]}), pd.DataFrame({"pay": [1, 2, 3, 40]})
    >>> found = fidelity(one, two, schema=schema)
    >>> found.ks["pay"], found.truth["pay"][0], found.synthetic["pay"][0]
    (0.25, 2.5, 11.5)
    """
    declared = schema_of(truth, synthetic, schema=schema)
    limit = check_integer("max_rows", max_rows)
    one, two = (_sampled(reader(data, declared)(), limit) for data in (truth, synthetic))
    x, y = _values_of(one), _values_of(two)
    numeric = [a for a in declared if isinstance(a, Numeric)]
    equal = {a.name: np.linspace(a.lower, a.upper, 11)[1:-1] for a in numeric}
    tenths = np.linspace(0.1, 0.9, 9)
    deciles = {
        n: np.unique(np.quantile(k, tenths)) if len(k := _drop_nan(v)) else k for n, v in x.items()
    }
    coded = [_coded(t, v, deciles) for t, v in ((one, x), (two, y))]
    valued = [name for name, (codes, _) in coded[0].items() if (codes >= 0).any()]
    names = valued or declared.names
    distances, chances = _two_way(coded[0], coded[1], names)
    rough = [_coded(t, v, equal) for t, v in ((one, x), (two, y))]
    pairs = {pair for pair in distances if {*pair} & x.keys()}
    equally = distances | _two_way(rough[0], rough[1], names, only=pairs)[0]
    scores = {
        "two_way_equal": float(np.mean([*equally.values()])),
        "two_way_deciles": float(np.mean([*distances.values()])),
        "two_way_worst": max(distances.values()),
    }
    ks = {n: _ks(_drop_nan(x[n]), _drop_nan(y[n])) for n in x if len(_drop_nan(x[n]))}
    true, made = ({name: _summary(_drop_nan(v[name])) for name in ks} for v in (x, y))
    scores |= _of_columns(ks, true, made) | _correlations(x, y)
    scores |= _subgroups(
        x, y, {n: (coded[0][n], coded[1][n]) for n in declared.names if n not in x}
    )
    chance = float(np.mean(chances))
    without = tuple(name for name in declared.names if name not in names)
    dates: dict[str, str] = {a.name: a.unit for a in declared if isinstance(a, Date)}
    return Fidelity(scores, ks, true, made, chance, min(len(one), len(two)), without, dates)


def _sampled(blocks: Iterator[Table], limit: int) -> Table:
    """Return at most ``limit`` rows, the same rows for any division into blocks."""
    rng, sample, keys = np.random.default_rng(0), next(blocks), np.zeros(0)
    keys = rng.random(len(sample))
    for block in itertools.chain(blocks, [None]):
        if len(sample) > limit:
            chosen = np.sort(np.argpartition(keys, limit)[:limit])
            sample, keys = sample.take(chosen), keys[chosen]
        if block is not None:
            sample = Table.concatenate([sample, block])
            keys = np.append(keys, rng.random(len(block)))
    return sample


def _values_of(table: Table) -> dict[str, Floats]:
    """Return the values of each numeric column, with NaN for cells without a value."""
    names = [a.name for a in table.schema if isinstance(a, Numeric)]
    return {name: np.where(table.mask(name), np.nan, table.values(name)) for name in names}


def _drop_nan(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _coded(table: Table, values: Mapping[str, Floats], bin_edges: Mapping[str, Floats]) -> _Coded:
    coded: _Coded = {}
    for a in table.schema:
        size = len(bin_edges[a.name]) + 1 if a.name in bin_edges else a.size
        codes = table.codes(a.name).astype(np.int64)
        if a.name in bin_edges:
            codes = np.searchsorted(bin_edges[a.name], values[a.name], side="right")
        codes = np.where(table.mask(a.name), -1, codes)
        if a.not_applicable is not None:
            codes[table.mask(a.name, "not_applicable")] = size
            size += 1
        coded[a.name] = codes, size
    return coded


def _two_way(
    one: _Coded, two: _Coded, names: Sequence[str], *, only: set[tuple[str, ...]] | None = None
) -> tuple[dict[tuple[str, ...], float], list[float]]:
    """Return the distance of every two-way table (one-way, if there is one column), and chance."""
    distances, chances = dict[tuple[str, ...], float](), list[float]()
    for clique in itertools.combinations(names, min(2, len(names))):
        if only is not None and clique not in only:
            continue
        size = math.prod(one[name][1] for name in clique)
        cells = [_cells(coded, clique) for coded in (one, two)]
        if size > _MAX_CELLS:
            distinct, places = np.unique(np.concatenate(cells), return_inverse=True)
            cells, size = np.split(places.reshape(-1), [len(cells[0])]), len(distinct)
        real, made = (np.bincount(part, minlength=size) for part in cells)
        distances[clique] = total_variation(real, made)
        chances.append(_by_chance(real, int(made.sum())))
    return distances, chances


def _cells(coded: _Coded, clique: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the cell of every row that has a value of all the columns."""
    cells, is_complete = np.zeros(1, dtype=np.int64), np.ones(1, dtype=bool)
    for name in clique:
        codes, size = coded[name]
        cells, is_complete = cells * size + codes, is_complete & (codes >= 0)
    return cells[is_complete]


def _ks(one: Floats, two: Floats) -> float:
    if not len(two):
        return 1.0
    one, two, grid = np.sort(one), np.sort(two), np.unique(np.concatenate([one, two]))
    below = [np.searchsorted(part, grid, side="right") / len(part) for part in (one, two)]
    return float(np.abs(below[0] - below[1]).max())


def _summary(values: Floats) -> tuple[float, ...]:
    if not len(values):
        return (math.nan,) * (2 + len(_POINTS))
    return tuple(map(float, (values.mean(), values.std(), *np.quantile(values, _POINTS))))


def _of_columns(
    ks: Mapping[str, float],
    truth: Mapping[str, tuple[float, ...]],
    synthetic: Mapping[str, tuple[float, ...]],
) -> dict[str, float]:
    if not ks:
        return {}
    true, made = (np.array([numbers[name] for name in ks]) for numbers in (truth, synthetic))
    spread = np.where(true[:, 1] > 0, true[:, 1], 1.0)
    off = np.abs(made - true) / spread[:, None]
    off[:, 1] = np.abs(made[:, 1] / spread - 1)
    off[np.isnan(off)] = 1.0  # a column without a value has error 1
    mean, sd, quantiles = off[:, 0].mean(), off[:, 1].mean(), off[:, 2:].mean()
    scores = np.mean([*ks.values()]), max(ks.values()), mean, sd, quantiles
    return dict(zip(("ks", "ks_worst", "mean", "sd", "quantiles"), map(float, scores), strict=True))


def _correlations(one: dict[str, Floats], two: dict[str, Floats]) -> dict[str, float]:
    import pandas as pd

    scores = dict[str, float]()
    upper = np.triu_indices(len(one), 1)
    if not len(upper[0]):
        return scores
    for name, method in (("rank_corr", "spearman"), ("corr", "pearson")):
        frames = (pd.DataFrame(values) for values in (one, two))
        t, s = (f.corr(method=method).fillna(0.0).to_numpy()[upper] for f in frames)  # type: ignore[arg-type]
        scores[name] = float(np.abs(t - s).mean())
        strong = np.abs(t) > _STRONG
        if method == "spearman" and strong.any():
            scores["slope"] = float((t * s)[strong].sum() / (t * t)[strong].sum())
    return scores


def _subgroups(
    one: Mapping[str, Floats],
    two: Mapping[str, Floats],
    groups: Mapping[str, tuple[tuple[NDArray[np.int64], int], tuple[NDArray[np.int64], int]]],
) -> dict[str, float]:
    errors, weights = list[Floats](), list[Floats]()
    for (name, x), (in_one, in_two) in itertools.product(one.items(), groups.values()):
        values = _drop_nan(x)
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        rows, true = _means(x, *in_one)
        gap = np.abs(true - _means(two[name], *in_two)[1]) / (spread or 1.0)
        large = rows >= _MIN_GROUP
        errors.append(np.where(np.isnan(gap), 1.0, gap)[large])
        weights.append(rows[large])
    weight = np.concatenate([np.zeros(0), *weights])
    if not weight.sum():
        return {}
    return {"subgroup_means": float(np.average(np.concatenate(errors), weights=weight))}


def _means(values: Floats, codes: NDArray[np.int64], size: int) -> tuple[Floats, Floats]:
    """Return the rows of each group, and the mean of their values."""
    is_present = (codes >= 0) & ~np.isnan(values)
    sums = np.bincount(codes[is_present], values[is_present], size)
    with np.errstate(invalid="ignore"):
        means = sums / np.bincount(codes[is_present], minlength=size)
    return np.bincount(codes[codes >= 0], minlength=size).astype(np.float64), means


def _by_chance(truth: NDArray[np.int64], rows: int) -> float:
    """Return the mean distance of two samples of a table, drawn with replacement.

    A cell of share p counts ``X`` and ``Y`` in samples of n rows each. If they were Poisson with
    mean λ = np, then ``E|X − Y| = 2λ e^(−2λ) (I0(2λ) + I1(2λ))``. The factor √(1 − p) makes it the
    expectation of binomials in large samples. For unequal sizes n is their harmonic mean.
    """
    from scipy.special import ive

    total = int(truth.sum())
    if not total or not rows:
        return 0.0
    shares = truth[truth > 0] / total
    n = 2.0 * total * rows / (total + rows)
    means = n * shares
    gaps = 2 * means * (ive(0, 2 * means) + ive(1, 2 * means)) * np.sqrt(1 - shares)
    return float(0.5 * gaps.sum() / n)


# Pictures


def plot_columns(
    truth: Any,
    synthetic: Any,
    path: str | Path,
    *,
    schema: Schema | None = None,
    max_rows: int = 200_000,
) -> None:
    """Draw the distribution of every column of a true table and a synthetic table into a file.

    A number has the distribution function of both tables. Other columns have the shares of the 12
    most frequent true levels. Curator only: the picture is exact, not private. Do not publish it.

    Parameters
    ----------
    truth : Table, or any table or file that Table.read takes
        The private table. A frame or a file needs ``schema``, or a Table on the other side.
    synthetic : Table, or any table or file that Table.read takes
        The synthetic table, with the attributes of the private table.
    path : str or Path
        File to write. The suffix decides the format (``.svg``, ``.png``, ``.pdf``). An existing
        file is replaced.
    schema : Schema, optional
        The declared domain of both tables. By default the schema of the first Table. Needed if
        neither is a Table.
    max_rows : int, default 200000
        A longer table is represented by a random sample of this number of rows, at least 1. The
        sample is always the same.

    Raises
    ------
    ParameterError
        If the path has another suffix, ``max_rows`` is not an integer of at least 1, or no table
        states a schema.
    DataError, SchemaError
        If a table cannot be read under the schema, or the tables have different attributes or
        domains.
    MissingDependencyError
        If matplotlib is not installed.
    OutputError
        If the file cannot be written.

    Examples
    --------
    >>> from missdp import Schema
    >>> from missdp.evaluate import plot_columns
    >>> from pathlib import Path
    >>> import tempfile
    >>> import pandas as pd
    >>> from missdp import Categorical
    >>> schema = Schema((Categorical(name="sex", levels=("f", "m")),))
    >>> one, two = pd.DataFrame({"sex": ["f", "m"]}), pd.DataFrame({"sex": ["f", "f"]})
    >>> path = Path(tempfile.mkdtemp()) / "columns.svg"
    >>> plot_columns(one, two, path, schema=schema)
    >>> path.exists()
    True
    """
    picture_format(path)
    write_picture(columns_figure(truth, synthetic, schema=schema, max_rows=max_rows), path)


def columns_figure(
    truth: Any, synthetic: Any, *, schema: Schema | None = None, max_rows: int = 200_000
) -> Any:
    """Return the figure of `plot_columns`, without writing a file. Private.

    Parameters
    ----------
    truth, synthetic, schema, max_rows
        As in `plot_columns`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    MissDPError
        As in `plot_columns`.
    """
    limit = check_integer("max_rows", max_rows)
    declared = schema_of(truth, synthetic, schema=schema)
    real, made = (_sampled(reader(d, declared)(), limit) for d in (truth, synthetic))
    wide, high = min(_WIDE, len(declared)), math.ceil(len(declared) / _WIDE)
    figure = new_figure(figsize=(3.2 * wide, 2.4 * high + 0.5), layout="constrained")
    panels = np.ravel(figure.subplots(high, wide, squeeze=False))
    for panel in panels[len(declared) :]:
        panel.set_axis_off()
    for attribute, panel in zip(declared, panels, strict=False):
        panel.set_xlabel(_plain(attribute.label or attribute.name), fontsize=9)
        panel.tick_params(labelsize=7)
        _draw(panel, attribute, {"real": real, "synthetic": made})
    named = panels[0].get_legend_handles_labels()
    figure.legend(*named, loc="outside upper right", ncols=2, fontsize=7, frameon=False)
    figure.suptitle("CURATOR ONLY: drawn from the private rows, without noise", fontsize=9)
    return figure


def _draw(panel: Any, attribute: AnyAttribute, tables: dict[str, Table]) -> None:
    if isinstance(attribute, Numeric):
        heights = np.linspace(0, 1, _CURVE)
        for which, table in tables.items():
            values = _values_of(table)[attribute.name]
            if len(present := values[~np.isnan(values)]):
                places = np.quantile(present, heights)
                width = 3 if which == "real" else 1  # visible behind the other line
                panel.plot(places, heights, color=_COLOURS[which], label=which, linewidth=width)
        if isinstance(attribute, Date):
            panel.xaxis.set_major_formatter(lambda value, _: attribute.format_value(value))
            panel.tick_params(axis="x", rotation=60)
        panel.set_ylabel("share of values up to this", fontsize=7)
        return
    shares = {
        which: _level_shares(table.codes(attribute.name), attribute.size)
        for which, table in tables.items()
    }
    shown = np.argsort(-shares["real"], kind="stable")[:_MAX_LEVELS]
    for place, (which, share) in enumerate(shares.items()):
        at = np.arange(len(shown)) + 0.4 * place
        panel.bar(at, share[shown], 0.4, color=_COLOURS[which], label=which)
    panel.set_ylabel("share of values", fontsize=7)
    levels = [_plain(attribute.level_labels[k][:14]) for k in shown]
    panel.set_xticks(np.arange(len(shown)) + 0.2, levels, rotation=60, ha="right")


def _level_shares(codes: NDArray[np.unsignedinteger], size: int) -> NDArray[np.float64]:
    counts = np.bincount(codes[codes < size], minlength=size)
    return np.asarray(counts / max(counts.sum(), 1))


def _plain(text: str) -> str:
    """Return text in which nothing is read as a formula."""
    return text.replace("$", r"\$")
