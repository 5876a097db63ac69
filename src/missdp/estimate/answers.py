"""Estimates from released tables: values, standard errors in three parts, intervals, flags."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.estimate.formula import Question, parse_formula, parse_question
from missdp.estimate.inside import Beyond, Inside, counted, numbers, reach
from missdp.estimate.released import Released, Tables, released_by, released_of_one
from missdp.estimate.rows import answer_of, line_of, rows_of
from missdp.record import Record
from missdp.schema import Date, Numeric
from missdp.schema.dates import UNIT_NAMES
from missdp.synth import AllPairs
from missdp.synth.base import Synthesizer
from missdp.synth.coordinates import Coordinate
from missdp.table import Table
from missdp.threads import one_blas_thread
from missdp.types import Floats

if TYPE_CHECKING:
    import pandas as pd

_Found = tuple[Floats, Floats]  # values, and the share of rows that each is about
_Part = tuple[
    "_Column", float, Floats
]  # a column, the factor of its z, and the rest of its features

_COARSE, _TAIL = 0.3, 0.1  # noise of a count, as a share of a tail, from which it is hardly known
_UNSURE = 0.25  # relative error of the rows of a group, beyond which it is too small
_DOUBT = 0.35  # of what is corrected for values that are missing selectively
_MOST = 0.95  # of draws of the noise, which the error is to reach to: they may be skewed
_CONTRADICTED = 2.0  # times as far as nearly all draws of the noise reach
_WILD = 5.0  # times the median distance from the middle: further out draws are cut off
_LEAST = 1e-9
_STEADY = 0.05  # standard deviations by which lines move a mean, where they are not bent to meet it


@dataclass(frozen=True)
class Estimates(Record):
    """Estimates with their errors; released values only.

    Parameters
    ----------
    question : str
    labels : tuple of str
        Groups, or terms of a regression.
    estimate : tuple of float
    noise, sampling, missing : tuple of float
        Parts of the standard error: of the privacy noise, of the sampling of rows, and what missing
        values add. The whole is the root of the sum of their squares.
    rows : tuple of float
        Rows that each estimate is about, as released: those in which it is applicable.
    confidence : float
        Of the intervals.
    flags : tuple of str
        What the intervals cannot cover.
    possible : tuple of float
        Least and greatest number that an estimate can be, by public bounds; empty if there are
        none. Estimates and intervals stay within.
    dates : str
        If estimates are dates, the unit since 1970 that they count.
    """

    question: str
    labels: tuple[str, ...]
    estimate: tuple[float, ...]
    noise: tuple[float, ...]
    sampling: tuple[float, ...]
    missing: tuple[float, ...]
    rows: tuple[float, ...]
    confidence: float
    flags: tuple[str, ...]
    possible: tuple[float, ...] = ()
    dates: str = ""

    derived = ("errors", "intervals", "missing_information")

    def _coheres(self) -> bool:
        parts = (self.estimate, self.noise, self.sampling, self.missing, self.rows)
        lengths = {len(part) for part in parts}
        bounds = not self.possible or self.possible[0] <= self.possible[1]
        return lengths == {len(self.labels)} and 0 < self.confidence < 1 and bounds

    @property
    def errors(self) -> tuple[float, ...]:
        """Standard errors, of all parts together."""
        parts = np.square([self.noise, self.sampling, self.missing])
        return tuple(np.sqrt(parts.sum(axis=0)).tolist())

    @property
    def intervals(self) -> tuple[tuple[float, float], ...]:
        """Intervals at the confidence, within what is possible."""
        times = NormalDist().inv_cdf((1 + self.confidence) / 2)
        half = times * np.asarray(self.errors)
        ends = np.stack([self.estimate - half, self.estimate + half], axis=1)
        least, most = self.possible or (-math.inf, math.inf)
        return tuple((low, high) for low, high in np.clip(ends, least, most).tolist())

    @property
    def missing_information(self) -> tuple[float, ...]:
        """Share of the variance without noise that missing values make up."""
        some, all_ = np.square(self.missing), np.square(self.missing) + np.square(self.sampling)
        return tuple(np.divide(some, all_, out=np.zeros_like(some), where=all_ > 0).tolist())

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each estimate."""
        import pandas as pd

        low, high = zip(*self.intervals, strict=True)
        columns = {
            "estimate": self.estimate,
            "error": self.errors,
            "low": low,
            "high": high,
            "noise": self.noise,
            "sampling": self.sampling,
            "missing": self.missing,
            "missing information": self.missing_information,
            "rows": self.rows,
        }
        return pd.DataFrame(columns, index=pd.Index(self.labels, name=self.question))

    def shown(self) -> pd.DataFrame:
        """Return `to_frame` as people write numbers: two digits of each error, and whole rows."""
        frame = self.to_frame()
        digits = [_decimals(error) for error in self.errors]
        for name in frame.columns[:-2]:
            pairs = zip(frame[name], digits, strict=True)
            moment = self.dates if name in ("estimate", "low", "high") else ""
            frame[name] = [_shown(value, digit, moment) for value, digit in pairs]
        frame["missing information"] = [f"{share:.0%}" for share in self.missing_information]
        return frame.assign(rows=[f"{rows:,.0f}" for rows in self.rows])

    def __str__(self) -> str:
        """Return a table for people, and what it does not cover."""
        shown = self.shown().to_string()
        about = f"Intervals have confidence {self.confidence:.0%}; they cover noise and sampling."
        unit: Any = self.dates
        more = [f"Errors are in {UNIT_NAMES[unit]}s."] if unit else []
        return "\n".join([shown, about, *more, *self.flags])

    def _repr_html_(self) -> str:
        flags = "".join(f"<li>{html.escape(flag)}</li>" for flag in self.flags)
        return f"{self.shown().to_html()}<ul>{flags}</ul>"


def _shown(value: float, digits: int, unit: Any) -> str:
    """Return a number with so many digits, or the date it stands for."""
    if unit and math.isfinite(value):
        return Date.written(round(value), unit)
    return f"{value:,.{digits}f}"


def _decimals(error: float) -> int:
    """Return how many decimals an error of two significant digits has."""
    return min(max(0, 1 - math.floor(math.log10(error))), 12) if 0 < error < math.inf else 4


@dataclass(frozen=True, eq=False)
class Asked:
    """A question about a model, ready to be answered from tables."""

    text: str
    columns: Sequence[_Column]
    cliques: Sequence[tuple[str, ...]]  # attributes whose tables are read
    labels: Sequence[str]
    each: Callable[..., _Found]
    contrast: bool  # whether 0 means that there is nothing: differences, coefficients, ...
    possible: tuple[float, ...] = ()  # as of `Estimates`
    dates: str = ""  # likewise
    level: float | None = None  # of a quantile
    most: Callable[[Tables], _Found] | None = None  # had all that lie near a value that it names it
    apart: Callable[[Tables], _Found] | None = None  # of each group, before they are compared
    of_holes: bool = False  # whether it is about what is missing, not about complete rows
    in_rows: Callable[[Table], Floats] | None = None  # what rows of the model show


def estimate(
    model: Synthesizer, question: str, *, by: str | Sequence[str] = (), confidence: float = 0.95
) -> Estimates:
    """Return what `Synthesizer.estimate` returns."""
    return answered_by(model, asked_about(model, question, by=by), confidence)


@one_blas_thread()
def estimate_of_one(model: Synthesizer, question: str, *, draws: int) -> Estimates:
    """Return an estimate about one attribute from fewer draws of tables, for a plan.

    It stays at what was released: margins of rows hardly differ from that, and are slow to draw.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    question : str
        As `Synthesizer.estimate` takes it, about one attribute.
    draws : int
        How many draws of the tables show the errors.

    Returns
    -------
    Estimates
        With intervals of confidence 0.95.
    """
    asked = asked_about(model, question, by=())
    (name,) = {name for clique in asked.cliques for name in clique}
    released = released_of_one(model, name, draws=draws)
    unmoved = np.zeros_like(asked.each(released.point)[0])
    return answered(model, asked, released, 0.95, moved=unmoved)


def regress(model: Synthesizer, formula: str, *, confidence: float = 0.95) -> Estimates:
    """Return what `Synthesizer.regress` returns."""
    return answered_by(model, asked_by(model, formula), confidence)


def asked_about(model: Synthesizer, question: str, *, by: str | Sequence[str]) -> Asked:
    """Return a question of a model; refuse what cannot be read."""
    asked = parse_question(question, model.schema_, (by,) if isinstance(by, str) else tuple(by))
    columns = [_Column(model, name) for name in (*asked.of, *asked.by)]
    answer = _ANSWERS[asked.what]
    first, *others = columns
    if asked.what == "missing":
        first.check_holes(model)
        if not isinstance(model, AllPairs) or len(asked.by) > 1:
            raise ParameterError(
                "share(x is missing) is answered by AllPairs, for all rows or by one attribute"
            )

    def each(tables: Tables, **otherwise: Any) -> _Found:
        values, share = answer(tables, replace(asked, **otherwise), first, others)
        if asked.contrast:  # as little is known of both as of the smaller group
            return values[1:] - values[0], np.minimum(share[1:], share[0])
        return values, share

    groups = product(*(column.labels for column in columns[len(asked.of) :]))
    labels = [", ".join(group) for group in groups] if asked.by else ["all"]
    if asked.contrast:
        labels = [f"{label} - {labels[0]}" for label in labels[1:]]
    together = [tuple(column.attribute.name for column in columns)]
    contrast = asked.contrast or asked.what == "correlation"
    possible = _possible(asked, first)
    level = asked.level if asked.what == "quantile" else None
    most = partial(each, whole=True) if asked.what == "share" else None
    apart = (lambda tables: answer(tables, asked, first, others)) if asked.contrast else None
    is_date = asked.what in ("mean", "quantile") and not asked.contrast
    dates = first.attribute.unit if is_date and isinstance(first.attribute, Date) else ""
    found = question, columns, together, labels, each, contrast, possible, dates, level, most, apart
    # How values lie inside bins, which deviations, quantiles and shares ask, rows know less well.
    inside = asked.what == "share" and isinstance(first.attribute, Numeric)
    among_rows = asked.what in ("mean", "share", "correlation") and not inside
    in_rows = partial(answer_of, asked=asked) if among_rows else None
    return Asked(*found, asked.what == "missing", in_rows)


def _possible(asked: Question, first: _Column) -> tuple[float, ...]:
    """Return the least and the greatest number that an answer can be; public."""
    if asked.what == "correlation":
        return (-1.0, 1.0)
    if asked.what in ("share", "missing"):
        least, most = 0.0, 1.0
    elif isinstance(first.attribute, Numeric):
        least, most = first.attribute.lower, first.attribute.upper
    elif first.points is not None:
        least, most = float(first.points.min()), float(first.points.max())
    else:
        return ()
    if asked.what == "sd":
        return (0.0, (most - least) / 2)
    return (least - most, most - least) if asked.contrast else (least, most)


def asked_by(model: Synthesizer, formula: str) -> Asked:
    """Return the regression that a formula asks for; refuse a formula that cannot be read."""
    asked = parse_formula(formula, model.schema_)
    columns = [_Column(model, asked.outcome)]
    for name, by_levels in asked.terms:
        column = _Column(model, name)
        if by_levels and column.points is not None and isinstance(column.attribute, Numeric):
            raise ParameterError(f"formula: C() takes levels, and {name!r} is a number")
        column.by_levels = by_levels or column.points is None
        columns.append(column)
    if len(columns) > 2 and any(column.skipped for column in columns):
        raise ParameterError(
            "formula: who has what is applicable, given two others, is a relation of three; leave "
            f"out {', '.join(c.attribute.name for c in columns if c.skipped)}, or use one term"
        )
    labels = ["intercept"]
    for column in columns[1:]:
        name = column.attribute.name
        labels += [f"{name}={x}" for x in column.labels[1:]] if column.by_levels else [name]
    pairs = [*combinations((column.attribute.name for column in columns), 2)]
    each = partial(_least_squares, columns=columns)
    terms = [(column.attribute.name, column.by_levels) for column in columns[1:]]
    in_rows = partial(line_of, outcome=asked.outcome, terms=terms)
    return Asked(formula, columns, pairs, labels, each, True, in_rows=in_rows)


class _Column:
    """An attribute of a question: its place, and the numbers that its codes stand for."""

    def __init__(self, model: Synthesizer, name: str) -> None:
        modelled = model.modelled_
        if name not in modelled:
            rule = model.schema_.rule_set.derived.get(name)
            of = ", ".join(x for x in (rule.reads if rule else ()) if x in modelled)
            raise ParameterError(
                f"{name!r} follows from other attributes by a rule, and is not modelled itself: "
                f"ask for {of or 'those'}"
            )
        self.attribute = model.schema_[name]
        self.at = modelled.names.index(name)
        self.size = self.attribute.size
        self.skipped = modelled[name].size > self.size
        self.by_levels = False
        self.shift: float | None = None  # of rows in which it is missing, if these are apart
        self.home = np.arange(self.size)  # of rows that may be hidden far out, their bin
        self.points: Floats | None = None
        self.number: Coordinate | None = None
        if isinstance(self.attribute, Numeric):
            self.number = _number_of(model, name)
            self.attribute = counted(model, name)
            beyond = Beyond.of(model, self.attribute)
            self.points = np.concatenate([numbers(self.attribute), beyond.points])
            self.home = np.append(self.home, beyond.home)
            if self.number is not None:
                self.rest = self.number.rest(self.points)
            self.labels = self.attribute.interval_names
        else:
            levels = self.attribute.levels
            named = self.attribute.labels
            self.labels = self.attribute.level_labels if named else tuple(map(str, levels))
            if levels and not isinstance(levels[0], str):
                self.points = np.array(levels, dtype=np.float64)[:, None]

    def check_holes(self, model: Synthesizer) -> None:
        """Refuse a model that knows of none."""
        if not model._applied_strategy.models_holes:
            raise ParameterError(
                f"missing={model.missing!r} does not model what is missing; fit with "
                "missing='joint'"
            )
        if not model.modelled_[self.attribute.name].nullable:
            raise ParameterError(f"{self.attribute.name!r} is never missing, by the schema")

    @property
    def width(self) -> int:
        """Number of codes, those of hidden rows and of missing values included."""
        return len(self.home) * (1 if self.shift is None else 2)

    def together(self, sums: Floats) -> Floats:
        """Return sums by level, given those by code: hidden rows are in their bins."""
        whole = np.zeros((self.size, *sums.shape[1:]))
        np.add.at(whole, self.home, sums[: len(self.home)])
        return whole

    def mean(self, tables: Tables, of: Callable[[Floats], Any] = lambda x: x) -> Floats:
        """Return the mean of a function of the numbers, code by code."""
        found = self._mean(tables, of)
        if self.shift is None:
            return found
        shift = self.shift
        return np.append(found, self._mean(tables, lambda x: of(x + shift)))

    def _mean(self, tables: Tables, of: Callable[[Floats], Any]) -> Floats:
        if self.points is None:
            raise ParameterError(
                f"{self.attribute.name!r} is categorical. Only share(...) is available for it."
            )
        found = np.asarray(of(self.points), dtype=np.float64)
        inside = tables.inside.get(self.at)
        return found.mean(axis=1) if inside is None else np.asarray((inside * found).sum(axis=1))

    def values(self, tables: Tables) -> tuple[Floats, Floats]:
        """Return values of each code, and their weights."""
        self._mean(tables, lambda x: x)  # refuses what is no number
        assert self.points is not None
        points, inside = self.points, tables.inside.get(self.at, np.ones(self.points.shape))
        if self.shift is None:
            return points, inside
        return np.concatenate([points, points + self.shift]), np.concatenate([inside, inside])

    def beside(self, tables: Tables) -> tuple[float, Floats]:
        """Return what counts in a relation to another attribute: a factor of ``z``, and a rest.

        The rest is what each code counts, a column for each feature: the number, or levels but the
        first. Products with ``z`` were released, if a number has one; then the rest is what ``z``
        does not tell of the number: where it was clipped.
        """
        if self.by_levels:
            return 0.0, np.eye(self.size)[:, 1:]
        if self.number is None or self.at not in tables.products.mean:
            return 0.0, self.across(tables)[:, None]
        return self.number.scale, self.across(tables, self.rest)[:, None]

    def across(self, tables: Tables, values: Floats | None = None) -> Floats:
        """Return what each code counts in a relation to another attribute; see ``Lines``.

        ``values`` are a function of the number, if not itself, at the points of each code.
        """
        means = self._mean(tables, lambda x: x if values is None else values)
        inside = tables.inside.get(self.at)
        if inside is not None and self.points is not None:
            law = tables.of(self.at)[: self.width].reshape(-1, len(self.home)).sum(axis=0)
            values = self.points if values is None else values
            means = tables.lines[self.at].along(values, inside, law, lean=tables.lean)
        return means if self.shift is None else np.append(means, means + self.shift)


def _number_of(model: Synthesizer, name: str) -> Coordinate | None:
    """Return the number of an attribute whose products were released."""
    pairs = getattr(model, "tables_", None)
    return None if pairs is None else pairs.numbered.get(model.modelled_.names.index(name))


def _cells(tables: Tables, first: _Column, others: Sequence[_Column]) -> Floats:
    """Return shares by the codes of an attribute, one column for each group."""
    table = tables.of(first.at, *(other.at for other in others))
    for axis, other in enumerate(others, start=1):
        table = np.moveaxis(other.together(np.moveaxis(table, axis, 0)), 0, axis)
    return table[: first.width].reshape(first.width, -1)


def _joint(tables: Tables, one: _Column, other: _Column) -> Floats:
    """Return shares by the codes of two attributes, those of hidden rows included."""
    return tables.of(one.at, other.at)[: one.width, : other.width]


def _ratio(top: Floats, cells: Floats) -> _Found:
    share = cells.sum(axis=0)
    return top / np.maximum(share, _LEAST), share


def _mean(tables: Tables, asked: Question, first: _Column, others: list[_Column]) -> _Found:
    cells = _cells(tables, first, others)
    if asked.where is not None and first.points is None:
        return _ratio(_belonging(asked, first) @ cells, cells)
    if asked.where is not None:
        values, lying = _lying(tables, first, others, cells)
        chosen = _belonging(asked, first, values, whole=asked.whole)
        return _ratio(np.einsum("cp,cpg->g", chosen, lying), cells)
    return _means(tables, first, others, cells)


def _means(tables: Tables, first: _Column, others: list[_Column], cells: Floats) -> _Found:
    """Return the means of a number by groups, with products as far as released."""
    if len(others) != 1:
        return _ratio((first.across if others else first.mean)(tables) @ cells, cells)
    factor, rest = first.beside(tables)
    sums = rest[:, 0] @ cells
    if factor:
        by_level = tables.products.by_level[first.at, others[0].at][: others[0].width]
        sums += factor * others[0].together(by_level)
    return _ratio(sums, cells)


@dataclass(frozen=True)
class _OneColumn:
    """What a condition on one attribute reads: its codes, and values if it is a number."""

    of_rows: NDArray[np.int64]
    numbers: Floats | None

    def __len__(self) -> int:
        return len(self.of_rows)

    def codes(self, _: str) -> NDArray[np.int64]:
        return self.of_rows

    def values(self, _: str) -> Floats | None:
        return self.numbers


def _belonging(
    asked: Question, first: _Column, values: Floats | None = None, *, whole: bool = False
) -> Floats:
    """Return which codes satisfy a condition; or which values, if these are stated by code."""
    assert asked.where is not None
    if first.shift is not None and not isinstance(first.attribute, Numeric):
        raise ParameterError(
            f"{first.attribute.name!r} has levels: nothing can be added to a share"
        )
    if values is None or not isinstance(first.attribute, Numeric):
        rows: Any = _OneColumn(first.home, None)
        found = np.asarray(asked.where.select(rows), dtype=np.float64)
        return found if values is None else np.broadcast_to(found[:, None], values.shape)
    codes = np.repeat(np.tile(first.home, len(values) // len(first.home)), values.shape[1])
    rows = _OneColumn(codes, _with_named(asked, first.attribute, values, whole=whole).ravel())
    return np.asarray(asked.where.select(rows), dtype=np.float64).reshape(values.shape)


def _with_named(asked: Question, number: Numeric, values: Floats, *, whole: bool) -> Floats:
    """Return values among which each that is asked for stands: for the next to it, or its piece."""
    values = values.copy()
    for part in asked.where.comparisons() if asked.where is not None else ():
        named = part.right
        if part.operator in ("==", "!=") and isinstance(named, float):
            lies = values[number.encode_values(np.clip([named], number.lower, number.upper))[0]]
            piece = np.searchsorted(number.pieces or (), np.append(lies, named), side="right")
            off = np.abs(lies - named)
            if off.min() > 0 and number.lower <= named <= number.upper:
                lies[(piece[:-1] == piece[-1]) if whole else off == off.min()] = named
    return values


def _lying(
    tables: Tables, first: _Column, others: list[_Column], cells: Floats
) -> tuple[Floats, Floats]:
    """Return values, and shares of rows by code, value and group: by lines that meet its means."""
    points, inside = first.values(tables)
    even = inside[:, :, None] * cells[:, None, :]
    if not others or first.at not in tables.lines:
        return points, even
    more = tables.lines[first.at].tilted(inside, cells)
    lean: Any = tables.lean
    if len(others) == 1 and first.beside(tables)[0]:
        told = _means(tables, first, others, cells)[0]
        known, gain = (_ratio(np.einsum("cp,cpg->g", points, x), cells)[0] for x in (even, more))
        law = even.sum(axis=2) / max(float(cells.sum()), _LEAST)
        spread = float((np.square(points) * law).sum() - np.square((points * law).sum()))
        lacking = told - known - lean * gain
        lean = lean + lacking * gain / (np.square(gain) + _STEADY**2 * max(spread, _LEAST))
    # Lines end where nobody is left, whether or not rows in which it is missing are apart: others
    # have less there, so that all together stay as they are, as does the size of each group.
    parts = cells.reshape(-1, len(first.home), 1, cells.shape[1])
    shape = (len(parts), len(first.home), *even.shape[1:])
    straight, flat = (x.reshape(shape).sum(axis=0) for x in (even + lean * more, even))
    whole = np.maximum(straight, np.minimum(flat, 0.0))
    above = np.maximum(whole, 0.0)
    excess = (whole - flat).sum(axis=2) / np.maximum(above.sum(axis=2), _LEAST)
    whole -= above * np.clip(excess, 0.0, 1.0)[:, :, None]
    total = parts.sum(axis=0)
    whole *= total.sum(axis=(0, 1)) / np.maximum(whole.sum(axis=(0, 1)), _LEAST)
    return points, (whole * (parts / np.where(total == 0, 1.0, total))).reshape(even.shape)


def _missing(tables: Tables, _: Question, first: _Column, others: list[_Column]) -> _Found:
    gone, whole = tables.gone[first.at, *(other.at for other in others)]
    cells = _cells(tables, first, others).sum(axis=0)  # rows as of any question
    return gone[: len(cells)] / np.maximum(whole[: len(cells)], _LEAST), cells


def _sd(tables: Tables, _: Question, first: _Column, others: list[_Column]) -> _Found:
    cells = _cells(tables, first, others)
    points, lying = _lying(tables, first, others, cells)
    mean, share = _ratio(np.einsum("cp,cpg->g", points, lying), cells)
    square = _ratio(np.einsum("cp,cpg->g", np.square(points), lying), cells)[0]
    variance = square - mean**2  # below 0 by noise; were that 0 in all draws, it would seem known
    return np.sign(variance) * np.sqrt(np.abs(variance)), share


def _quantile(tables: Tables, asked: Question, first: _Column, others: list[_Column]) -> _Found:
    cells = _cells(tables, first, others)
    values, lying = _lying(tables, first, others, np.maximum(cells, 0.0))
    points = values.ravel()
    order = np.argsort(points, kind="stable")
    # Noise makes this fall here and there. Were pieces cut at 0, what is left of them would add up.
    mass = np.cumsum(lying.reshape(len(points), -1)[order], axis=0)
    place = (mass < asked.level * mass[-1]).sum(axis=0)
    return points[order][np.minimum(place, len(order) - 1)], cells.sum(axis=0)


def _correlation(tables: Tables, _: Question, x: _Column, others: list[_Column]) -> _Found:
    spread, share = _moments(tables, [x, others[0]])[1:]
    scale = np.sqrt(np.maximum(np.diag(spread), _LEAST))
    return np.clip([spread[0, 1] / scale[0] / scale[1]], -1.0, 1.0), np.array([share])


_ANSWERS = {
    "mean": _mean,
    "share": _mean,
    "missing": _missing,
    "sd": _sd,
    "quantile": _quantile,
    "correlation": _correlation,
}


def _moments(tables: Tables, columns: Sequence[_Column]) -> tuple[Floats, Floats, float]:
    """Return means and covariances of the features of columns, and the share of rows."""
    if any(column.skipped for column in columns):  # of two: rows in which both are applicable
        cells = _joint(tables, *columns)
        share = float(cells.sum())
        laws = [cells.sum(axis=1) / share, cells.sum(axis=0) / share]
    else:
        share, laws = 1.0, [tables.of(c.at)[: c.width] for c in columns]
    alone = [_alone(tables, column, law) for column, law in zip(columns, laws, strict=True)]
    parts = [(column, *column.beside(tables)) for column in columns]
    blocks = [
        [
            alone[i][1] if i == j else _covariances(tables, one, other, share)
            for j, other in enumerate(parts)
        ]
        for i, one in enumerate(parts)
    ]
    return np.concatenate([mean for mean, _ in alone]), np.block(blocks), share


def _alone(tables: Tables, column: _Column, law: Floats) -> tuple[Floats, Floats]:
    """Return means and covariances of the features of one column."""
    if column.by_levels:
        means = law[1:]
        return means, np.diag(means) - np.outer(means, means)
    mean = float(law @ column.mean(tables))
    return np.array([mean]), np.array([[law @ column.mean(tables, np.square) - mean**2]])


def _covariances(tables: Tables, first: _Part, second: _Part, share: float) -> Floats:
    """Return covariances of the features of two columns; with products as far as released."""
    (one, left, rest), (other, right, other_rest) = first, second
    cells, products = _joint(tables, one, other) / share, tables.products
    found = rest.T @ cells @ other_rest
    means, other_means = rest.T @ cells.sum(axis=1), cells.sum(axis=0) @ other_rest
    if left:
        z = products.by_level[one.at, other.at][: other.width] / share
        found, means = found + left * (z @ other_rest), means + left * z.sum()
    if right:
        z = products.by_level[other.at, one.at][: one.width] / share
        found = found + right * (rest.T @ z)[:, None]
        other_means = other_means + right * z.sum()
    if left and right:
        pair = min(one.at, other.at), max(one.at, other.at)
        found = found + left * right * products.both[pair] / share
    return np.asarray(found - np.outer(means, other_means))


def _least_squares(tables: Tables, columns: list[_Column]) -> _Found:
    """Return the coefficients of the first column on the others, the intercept first."""
    means, spread, share = _moments(tables, columns)
    slopes = np.linalg.lstsq(spread[1:, 1:], spread[1:, 0], rcond=1e-10)[0]
    found = np.append(means[0] - slopes @ means[1:], slopes)
    return found, np.full(len(found), share)


@one_blas_thread()
def answered_by(model: Synthesizer, asked: Asked, confidence: float) -> Estimates:
    """Return estimates from what a model released."""
    if not 0 < confidence < 1:
        raise ParameterError("confidence must be strictly between 0 and 1")
    released = released_by(model, asked.cliques)
    moved = moved_by(model, asked, released)
    return answered(model, asked, released, confidence, moved=moved)


def moved_by(model: Synthesizer, asked: Asked, released: Released) -> Floats:
    """Return how far rows of the model are from what was released, for each estimate.

    Parameters
    ----------
    model : Synthesizer
        A fitted model, which draws the rows.
    asked : Asked
        The question.
    released : Released
        The tables that were released for it.

    Returns
    -------
    ndarray
        Zero for groups without rows, and for questions that rows do not answer.
    """
    direct = asked.each(released.point)[0]
    if asked.in_rows is None:
        return np.zeros_like(direct)
    # Where the model draws no rows of a group, the released value is used.
    return np.nan_to_num(asked.in_rows(rows_of(model)) - direct)


def answered(
    model: Synthesizer, asked: Asked, released: Released, confidence: float, *, moved: Floats
) -> Estimates:
    """Return estimates with the errors that draws of the tables show.

    Draws are around what was released, and estimates are ``moved`` from there to what rows of the
    model show. Errors reach from the estimates to the draws, so that the move counts as an error.
    Where noise cannot explain the move, what was released contradicts the rows, and stays.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    asked : Asked
        The question.
    released : Released
        The tables that were released for it, and draws of them.
    confidence : float
        Of the intervals, strictly between 0 and 1.
    moved : ndarray
        How far rows of the model are from what was released, for each estimate.

    Returns
    -------
    Estimates
        One estimate for each label of the question.
    """
    each, columns = asked.each, asked.columns
    direct, share = each(released.point)
    noisy = [each(tables) for tables in released.noise]
    usual = np.quantile(np.abs(np.stack([v for v, _ in noisy]) - direct), _MOST, axis=0)
    values = direct + np.where(np.abs(moved) <= _CONTRADICTED * usual, moved, 0.0)
    shifted = any(column.shift is not None for column in columns)  # out of the bounds, perhaps
    if asked.possible and not shifted:
        values = np.clip(values, asked.possible[0], asked.possible[1])

    off = np.abs(np.stack([v for v, _ in noisy]) - values)
    far = np.minimum(np.quantile(off, _MOST, axis=0), _furthest(asked, released, values))
    if asked.most is not None:  # heaps may lie anywhere in a piece
        far = np.maximum(far, np.abs(asked.most(released.point)[0] - values))
    noise = np.square(far / NormalDist().inv_cdf((1 + _MOST) / 2))
    unsure = _width([s for _, s in noisy])
    sampled, complete = (
        np.square(_width([each(tables)[0] for tables in draws]))
        for draws in (released.sampled, released.complete)
    )
    nullable = [x for c in columns if model.modelled_[x := c.attribute.name].nullable]
    holed = bool(nullable) and not asked.of_holes
    missing = np.maximum(sampled - complete, 0.0) if holed else np.zeros_like(sampled)
    if holed and len(asked.cliques) == 1:  # tables of different observed rows make no regression
        missing += np.square(_DOUBT * (direct - each(released.observed)[0]))
    if asked.possible and not shifted:  # nothing is further off
        most = np.square(asked.possible[1] - asked.possible[0])
        noise, complete, missing = (np.minimum(x, most) for x in (noise, complete, missing))
    parts = [tuple(np.sqrt(part).tolist()) for part in (noise, complete, missing)]
    apart = (asked.apart or each)(released.point)[1]
    both = share if asked.apart is None else apart[1:] + apart[0]
    half = np.sqrt(noise + complete + missing) * NormalDist().inv_cdf((1 + confidence) / 2)
    return Estimates(
        question=asked.text,
        labels=tuple(asked.labels),
        estimate=tuple(values.tolist()),
        noise=parts[0],
        sampling=parts[1],
        missing=parts[2],
        rows=tuple((both * released.n_rows).tolist()),
        confidence=float(confidence),
        flags=(
            *_small(asked.labels, share, unsure),
            *_coarse(asked, values, share, released.inside),
            *_hidden(asked, half, released),
            *released.flags,
            *_uncovered(model, asked, nullable),
        ),
        possible=() if shifted else asked.possible,
        dates=asked.dates,
    )


def _furthest(asked: Asked, released: Released, values: Floats) -> Floats | float:
    """Return how far noise may move a quantile: not beyond pieces that counts rule out."""
    column: Any = asked.columns[0]
    inside = released.inside.get(column.at)
    if asked.level is None or len(asked.columns) > 1 or inside is None or not inside.std:
        return math.inf
    low, high = (asked.each(released.point, level=asked.level + k * inside.std)[0] for k in (-1, 1))
    edges = np.array([-math.inf, *column.attribute.pieces, math.inf])
    least, most = edges[edges <= low][-1], edges[edges > high][0]
    return np.asarray(np.maximum(values - least, most - values))


def _width(draws: Sequence[Floats]) -> Floats:
    """Return standard deviations, which a few wild draws do not move."""
    off = np.asarray(draws) - np.median(draws, axis=0)
    half, nearly = np.quantile(np.abs(off), [0.5, 0.95], axis=0)
    most = np.maximum(_WILD * half, nearly)
    return np.asarray(np.clip(off, -most, most).std(axis=0))


def _small(labels: Sequence[str], share: Floats, unsure: Floats) -> Iterator[str]:
    few = [x for x, s, u in zip(labels, share, unsure, strict=True) if u > _UNSURE * s]
    if few:
        yield (
            f"Too small for the noise: {', '.join(few)}. Their numbers of rows are hardly known, "
            "and intervals need not hold."
        )


def _coarse(
    asked: Asked, values: Floats, share: Floats, insides: Mapping[int, Inside]
) -> Iterator[str]:
    """Name quantiles, and shares of a number, in tails that the noise of a count may be most of."""
    first = asked.columns[0]
    noise = insides[first.at].noise if first.at in insides else 0.0
    if asked.level is None and (asked.possible != (0.0, 1.0) or asked.of_holes):
        return
    level = values if asked.level is None else np.full(len(values), asked.level)
    tail = np.maximum(np.minimum(level, 1 - level), _TAIL)
    least = np.minimum(_COARSE * tail, share / 2)  # a group may be beyond as a whole
    unsure = [x for x, t in zip(asked.labels, least, strict=True) if noise > t]
    if unsure:
        yield (
            f"{first.attribute.name}: the noise of a count is {noise:.0%} of the rows. How values "
            f"lie in tails is hardly known; {', '.join(unsure)} may be off by more than intervals "
            "tell."
        )


def _hidden(asked: Asked, half: Floats, released: Released) -> Iterator[str]:
    """Say what rows that noise can hide beyond a number would move out of its interval."""
    for column in (column for column in asked.columns if column.at in released.hiding):
        most, attribute = released.inside[column.at].most, column.attribute
        each = asked.apart or asked.each
        moved, share = each(released.hiding[column.at])
        moved = np.abs(moved - each(released.point)[0])
        if asked.apart is not None:  # all of them may be in one group
            moved = (moved * share.sum() / np.maximum(share, _LEAST))[-len(half) :]
        if asked.possible:
            moved = np.minimum(moved, asked.possible[1] - asked.possible[0])
        out = [
            f"{x} by {_shown(m, _decimals(m), '')}"
            for x, m, h in zip(asked.labels, moved, half, strict=True)
            if m > h
        ]
        if out and most is not None and isinstance(attribute, Numeric):
            low, high, far = map(attribute.shown, (*reach(attribute), most[2]))
            yield (
                f"{attribute.name}: values were found from {low} to {high}. Noise may hide up to "
                f"{most[1]:,.0f} rows near {far}, which would move {', '.join(out)}: "
                "more than intervals tell."
            )


def _uncovered(model: Synthesizer, asked: Asked, nullable: Sequence[str]) -> Iterator[str]:
    """Say what no interval covers; of released and public facts."""
    columns = asked.columns[int(asked.of_holes) :]
    if asked.of_holes:
        yield from (f"Rates are those of rows in which {x} is observed." for x in nullable[1:])
    elif nullable and model._applied_strategy.models_holes:
        yield (
            "Missing values: what depends on observed attributes one by one is corrected for, and "
            "a third of that taken for doubtful; what values themselves, or combinations of "
            "attributes, decide is not."
        )
    elif nullable:
        yield (
            f"missing={model.missing!r}: intervals are for rows that are observed; they hold for "
            "all rows if values are missing completely at random."
        )
    fitted: Any = model
    levels = [fitted.model_.levels[column.at] for column in columns]
    merged = [
        column.attribute.name
        for column, level in zip(columns, levels, strict=True)
        if (len(asked.columns) > 1 or asked.level) and level.n_groups < len(level.groups)
    ]
    if merged:
        yield f"{', '.join(merged)}: rare levels were merged, and are taken to be related alike."
    for attribute in (column.attribute for column in columns):
        if not isinstance(attribute, Numeric):
            continue
        least, greatest = attribute.reach
        if attribute.pieces is None and (least < greatest).any():
            yield (
                f"{attribute.name}: values are taken to lie evenly in its declared bins; wide ones "
                "move means, deviations and slopes."
            )
