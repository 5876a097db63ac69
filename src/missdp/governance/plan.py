"""Plan a release before the table is read: the accuracy of each epsilon, from public facts only.

The fit of the synthesizer is rehearsed on simulated rows with the declared number of rows, missing
rates and marginals. The rehearsed fit splits, measures and estimates as the real fit will.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from pydantic.dataclasses import dataclass

from missdp.errors import ParameterError, did_you_mean
from missdp.progress import Progress, progress_callback
from missdp.schema import Numeric, Schema
from missdp.serialization import Record

__all__ = ["Marginals", "Plan", "Planned", "plan"]

Marginals: TypeAlias = Literal["uniform", "zipf"]
"""Assumed frequencies of the levels or bins of an attribute: equal, or as 1, 1/2, 1/3..."""
_FITS = 3  # fits whose mean width is stated, since widths vary with the noise of bin ends
# Seconds of all rehearsals, of a fit with its estimate, and of each pair of columns. They are
# fixed, not measured, so that equal declarations always give equal rehearsals.
_TOTAL_SECONDS, _FIT_SECONDS, _PAIR_SECONDS = 6.5, 0.8, 0.04


@dataclass(frozen=True, kw_only=True)
class Planned(Record):
    """Expected accuracy of a planned fit with one epsilon, before any private row is read.

    `Plan` contains one object for each epsilon. All values follow from public facts and
    declarations.

    Parameters
    ----------
    epsilon, delta : float
        Privacy parameters of the fit: epsilon above 0, and delta in [0, 1).
    one_way, two_way : float
        Standard deviation, in rows, of the noise of a count in a one-way table and in the median
        two-way table. NaN if the synthesizer measures no such table, or does not state its noise.
    fitted : float
        Mean total variation distance of the two-way tables of synthetic rows from the tables of the
        fitted rows, between 0 and 1. NaN for a single attribute.
    clear : float
        Smallest Cramér's V (strength of the relation of two attributes, from 0 to 1) that stands
        out from noise, in the median pair. 0 for a single attribute.
    swamped : dict of str to float
        For each kind of marginals (assumed frequencies of levels), the share of the cells of
        two-way tables with fewer rows than twice the noise.
    widths : dict of str to float
        For each numeric attribute, the width of the 95 % interval of its mean, in its unit,
        averaged over three fits.
    ground_truth : float or None
        Epsilon for the table before values went missing, if they are missing completely at random
        at the declared rates. None if nothing is proven.
    seconds : float
        Seconds of fitting and drawing equally many rows on this machine, without reading rows.
    rehearsed : bool, default True
        Whether a fit with this epsilon was rehearsed on simulated rows. If not, its values follow
        from the fits with the nearest epsilons and from the noise of each epsilon.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Notes
    -----
    The object is public: it depends on no private row.

    Examples
    --------
    >>> from missdp.governance import Planned
    >>> noise = {"one_way": 3.0, "two_way": 8.0, "fitted": 0.05, "clear": 0.1, "seconds": 2.0}
    >>> shares = {"swamped": {"uniform": 0.1}, "widths": {"age": 0.9}, "ground_truth": None}
    >>> Planned(epsilon=1.0, delta=1e-6, **noise, **shares).widths["age"]
    0.9
    """

    epsilon: float
    delta: float
    one_way: float
    two_way: float
    fitted: float
    clear: float
    swamped: dict[str, float]
    widths: dict[str, float]
    ground_truth: float | None
    seconds: float
    rehearsed: bool = True


@dataclass(frozen=True, kw_only=True)
class Plan(Record):
    """Expected accuracy of a planned fit for each epsilon of a grid, from public facts.

    `plan` returns it from public facts and declarations. No private row is read. ``print`` shows it
    as a table.

    Parameters
    ----------
    method : str
        Name of the synthesizer.
    rows : int
        The declared number of rows.
    rehearsed_rows : int
        Number of simulated rows of the rehearsed fits, at most a million. Noise hardly depends on
        it, but seconds and memory grow with the number of rows.
    missing, spreads, means : dict of str to float
        The declared missing rates (from 0 to 1), standard deviations and means, by attribute.
    marginals : {"uniform", "zipf"}, default "uniform"
        The declared frequencies of levels or bins: equal, or as 1, 1/2, 1/3 and so on.
    counted : float, default 1.0
        Declared mean survey weight, as a share of the largest weight.
    bound : int, default 1
        Largest number of rows of one unit of protection, such as a person, that count.
    remedies : tuple of str, default ()
        Sentences on changes that make relations stand out from noise.
    memory : float or None, default None
        Largest memory of this process after the fits, in megabytes. None if the system does not
        report it.
    planned : tuple of Planned, default ()
        The expected accuracy of each epsilon, in the order of the grid.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Notes
    -----
    The object is public: it depends on no private row.

    Examples
    --------
    >>> from missdp.governance import Plan
    >>> Plan(method="mst", rows=2000, rehearsed_rows=2000).bound
    1
    """

    method: str
    rows: int
    rehearsed_rows: int
    missing: dict[str, float] = field(default_factory=dict)
    spreads: dict[str, float] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    marginals: Marginals = "uniform"
    counted: float = 1.0
    bound: int = 1
    remedies: tuple[str, ...] = ()
    memory: float | None = None
    planned: tuple[Planned, ...] = ()

    def __str__(self) -> str:
        from missdp.evaluate.align import column_lines  # the package takes a second to import

        def line(name: str, form: str, numbers: Iterable[float | None]) -> tuple[str, ...]:
            return name, *("-" if n is None or math.isnan(n) else format(n, form) for n in numbers)

        planned = self.planned
        lines = [
            line("epsilon", "g", (p.epsilon for p in planned)),
            line("delta", "g", (p.delta for p in planned)),
            line("noise of a count, one-way (± rows)", ",.1f", (p.one_way for p in planned)),
            line("noise of a count, two-way (± rows)", ",.1f", (p.two_way for p in planned)),
            line("distance of synthetic two-way tables", ".3f", (p.fitted for p in planned)),
        ]
        clears = [f"{p.clear:.2f}" if p.clear < 1 else "none" for p in planned]
        if any(p.clear for p in planned):
            lines.append(("Cramér's V that stands out from noise", *clears))
        for m in get_args(Marginals):
            label = f"two-way cells below twice the noise, {m}"
            lines.append(line(label, ".0%", (p.swamped[m] for p in planned)))
        for name in planned[0].widths if planned else ():
            label = f"width of the 95 % interval of mean({name})"
            lines.append(line(label, ".3g", (p.widths[name] for p in planned)))
        if self.missing:
            truth = (p.ground_truth for p in planned)
            lines.append(line("epsilon for the ground truth", ".3g", truth))
        lines.append(line("seconds", ".1f", (p.seconds for p in planned)))
        return "\n".join([*self._header(), *column_lines(lines), *self._notes()])

    def _header(self) -> list[str]:
        missing = ", ".join(f"{name} {rate:.0%}" for name, rate in self.missing.items()) or "none"
        return [
            f"Plan for {self.method} and {self.rows:,} rows, as you declared: marginals "
            f"{self.marginals}, missing: {missing}. Nothing private was read."
        ]

    @property
    def mostly_noise(self) -> str | None:
        """Return a warning with the largest epsilon at which noise hides most associations.

        Returns
        -------
        str or None
            None if relations stand out from noise at every epsilon of the plan. Public.
        """
        from missdp.synth.relation_noise import mostly_noise  # families take a second to import

        for planned in sorted(self.planned, key=lambda p: -p.epsilon):
            effective = self.rows * self.counted / self.bound * planned.epsilon
            text = mostly_noise(planned.clear, effective=effective, remedies=self.remedies)
            if text is not None:
                return f"With epsilon {planned.epsilon:g} or less: {text[0].lower()}{text[1:]}"
        return None

    def _notes(self) -> list[str]:
        lines = [self.mostly_noise] if self.mostly_noise else []
        lines += [] if self.memory is None else [f"Memory: {self.memory:,.0f} MB."]
        if self.counted < 1:
            lines.append(
                f"A row counts {self.counted:.1%} of the largest weight on average. This reduces "
                "each count, and not the noise. A smaller upper in [weight] reduces counts less, "
                "and clips more weights."
            )
        if self.rehearsed_rows < self.rows:
            lines.append(
                f"Rehearsed on {self.rehearsed_rows:,} rows. A run needs more time and memory."
            )
        fitted = [f"{p.epsilon:g}" for p in self.planned if p.rehearsed]
        if 0 < len(fitted) < len(self.planned):
            lines.append(
                f"Rehearsed: epsilon {' and '.join(fitted)}. The schema has many columns, so the "
                "numbers of other epsilons follow from the noise that each epsilon needs."
            )
        lines.append(
            "Rehearsed on simulated rows whose attributes have equal correlations. Noise hardly "
            "depends on correlations. Distances depend on the correlations of the real attributes, "
            "and intervals on the standard deviations of the real numbers."
        )
        return lines


def plan(
    schema: Schema,
    *,
    rows: int,
    missing: Mapping[str, float] | None = None,
    spreads: Mapping[str, float] | None = None,
    marginals: Marginals = "uniform",
    mean_weight: float | None = None,
    epsilons: Iterable[float] = (0.5, 1.0, 2.0),
    method: str | None = None,
    means: Iterable[str] | Mapping[str, float] | None = None,
    progress: Progress | bool | None = None,
    **parameters: Any,
) -> Plan:
    """Return the expected accuracy of a fit for each epsilon, before private rows are read.

    The fit is rehearsed on simulated rows that follow the public facts and declarations. Nothing is
    charged.

    Parameters
    ----------
    schema : Schema
        Public facts about the columns.
    rows : int
        Declared number of rows, at least 1. A rough number is enough.
    missing : mapping of str to float, optional
        Declared share of missing cells by attribute, from 0 and below 1. By default no cell is
        missing.
    spreads : mapping of str to float, optional
        Declared standard deviations of numeric attributes, above 0, in their units. The
        attribute gets a beta distribution, which is nearly normal if its bounds are far from
        its mean.
    marginals : {"uniform", "zipf"}, default "uniform"
        Assumed frequencies of levels, and of bins of other numeric attributes: equal, or as 1, 1/2,
        1/3 and so on.
    mean_weight : float, optional
        Declared mean of the survey weights, for a schema with a weight. Above 0.
    epsilons : iterable of float, default (0.5, 1, 2)
        The grid of epsilons, at least one, each above 0.
    method : str, optional
        Name of the synthesizer, by default the default of ``missdp synthesize``.
    means : iterable of str, or mapping of str to float, optional
        Numeric attributes whose means are planned, by default the first. A mapping declares the
        mean of each attribute with a spread. By default a mean is the middle of the bounds.
    progress : callable or bool, optional
        Function that gets the present stage and the share that is done. True shows a bar.
    **parameters
        Parameters of the synthesizer, such as ``delta``. Its parameter ``missing`` is passed as
        ``strategy="observed"``.

    Returns
    -------
    Plan
        The expected accuracy of each epsilon. Public.

    Raises
    ------
    ParameterError
        If a declaration does not fit the schema, or the grid is empty.

    Examples
    --------
    >>> from missdp import Categorical, Numeric, Schema
    >>> from missdp.governance import plan
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Numeric(name="age", lower=18, upper=98, integer=True, bins=8),
    ... ))
    >>> result = plan(schema, rows=2000, missing={"smoker": 0.2}, epsilons=(0.5, 2.0))
    >>> less, more = result.planned
    >>> less.one_way > more.one_way, less.widths["age"] > more.widths["age"]
    (True, True)
    """
    from missdp.governance.rehearsal import (  # synthesizers take a second to import
        Declared,
        Rehearsal,
    )
    from missdp.synth.registry import default_synthesizer, synthesizer_named
    from missdp.synth.relations import remedies_of

    declared = Declared(
        schema=schema,
        rows=rows,
        missing=dict(missing or {}),
        spreads=dict(spreads or {}),
        means=dict(means) if isinstance(means, Mapping) else {},
        marginals=marginals,
        mean_weight=mean_weight,
    )
    grid = tuple(epsilons)
    if not grid:
        raise ParameterError("epsilons must contain at least one value")
    if "strategy" in parameters:
        parameters["missing"] = parameters.pop("strategy")
    chosen = method or default_synthesizer(schema, delta=parameters.get("delta"))
    numbers = _numbers(schema, means)
    family = partial(synthesizer_named(chosen), **parameters)
    with progress_callback(progress) as shown:
        rehearsal = Rehearsal(family, declared, numbers, shown)
        planned = rehearsal.planned(grid)
    return Plan(
        method=chosen,
        rows=rows,
        rehearsed_rows=rehearsal.rows,
        memory=rehearsal.memory,
        planned=planned,
        missing=dict(declared.missing),
        spreads=dict(declared.spreads),
        means=dict(declared.means),
        marginals=marginals,
        counted=declared.counted,
        bound=1 if schema.unit is None else schema.unit.bound,
        remedies=tuple(remedies_of(schema, synthesizer_named(chosen).family)),
    )


def number_of_fits(columns: int, epsilons: int) -> tuple[int, int]:
    """Return the number of epsilons with a rehearsed fit, and the number of fits for each.

    >>> from missdp.governance.plan import number_of_fits
    >>> [number_of_fits(columns, 3) for columns in (4, 8, 10, 16)] + [number_of_fits(4, 1)]
    [(3, 2), (3, 1), (2, 1), (1, 1), (1, 3)]
    """
    pairs = columns * (columns - 1) / 2
    fits = max(1, int(_TOTAL_SECONDS / (_FIT_SECONDS + _PAIR_SECONDS * pairs)))
    rehearsed = min(epsilons, fits)
    return rehearsed, min(_FITS, fits // rehearsed)


def _numbers(schema: Schema, means: Iterable[str] | None) -> list[str]:
    numbers = [a.name for a in schema if isinstance(a, Numeric)]
    requested = numbers[:1] if means is None else list(means)
    for name in requested:
        if name not in numbers:
            similar = did_you_mean(name, numbers)
            raise ParameterError(f"{name!r} is not a numeric attribute of the schema{similar}")
    return requested


def peak_memory() -> float | None:
    """Return the largest memory of this process so far, in megabytes, or None if unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (1e6 if sys.platform == "darwin" else 1e3)
