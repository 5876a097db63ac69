"""Plan a release before the table is looked at: what each epsilon buys, from public facts only.

The family's own fit is rehearsed on made-up rows that have what a person declares: so many rows,
such missing rates, such margins. What it splits, measures and estimates is what it will do.
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
from missdp.progress import Progress, reported
from missdp.schema import Numeric, Schema
from missdp.serialization import Record

__all__ = ["Marginals", "Plan", "Planned", "plan"]

Marginals: TypeAlias = Literal["uniform", "zipf"]
"""How often the levels or bins of an attribute are taken to occur: evenly, or as 1, 1/2, 1/3..."""
_FITS = 3  # whose mean width is told: noise moves where bins end, and widths with it
# Seconds that a fit and its estimate take on one processor, from the number of columns: a rule of
# thumb, not a measurement, so that equal declarations are always rehearsed alike.
_SECONDS, _SECONDS_OF_A_FIT, _SECONDS_OF_A_PAIR = 6.5, 0.8, 0.04


@dataclass(frozen=True, kw_only=True)
class Planned(Record):
    """What one epsilon buys.

    Parameters
    ----------
    epsilon, delta : float
    one_way, two_way : float
        Standard deviation of the noise of a count of rows in a one-way and, in the median, in a
        two-way table that is measured; NaN where a family measures none, or does not tell.
    fitted : float
        Mean total variation distance of the two-way tables of synthetic rows to those of the rows
        that were fitted; NaN for a single attribute.
    clear : float
        Cramér's V from which on a relation between two columns stands out from noise, in the
        median pair; 0 for a single attribute.
    swamped : dict of str to float
        By margins, the share of the cells of two-way tables that hold fewer rows than twice the
        noise.
    widths : dict of str to float
        By number, the width of the 95 % interval of its mean; the mean of three fits.
    ground_truth : float or None
        Epsilon for the table before values went missing, if they do so completely at random at the
        declared rates; None where nothing is proven.
    seconds : float
        That fitting and drawing as many rows took on this machine; reading rows comes on top.
    rehearsed : bool
        Whether a fit with this epsilon was rehearsed. If not, its numbers follow from the fits
        with the nearest epsilons, by how much noise each epsilon needs.
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
    """What each epsilon of a grid buys, from public facts and what a person declares.

    Parameters
    ----------
    method : str
        The family.
    rows : int
        As declared.
    rehearsed_rows : int
        That were made up: a million of more than that, whose noise hardly differs, and whose
        seconds and memory are smaller.
    missing, spreads, means : dict of str to float
        As declared.
    margins : {"uniform", "zipf"}
        As declared.
    counted : float
        How much of the largest weight a row counts on average, as declared.
    bound : int
        Most rows of one unit that count.
    remedies : tuple of str
        What makes relations stand out from noise.
    memory : float or None
        Most megabytes that this process had needed after the fits; None where the system does not
        tell. In a process that does nothing else, that of a run.
    planned : tuple of Planned
        One for each epsilon.
    """

    method: str
    rows: int
    rehearsed_rows: int
    missing: dict[str, float] = field(default_factory=dict)
    spreads: dict[str, float] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    margins: Marginals = "uniform"
    counted: float = 1.0
    bound: int = 1
    remedies: tuple[str, ...] = ()
    memory: float | None = None
    planned: tuple[Planned, ...] = ()

    def __str__(self) -> str:
        from missdp.evaluate.align import column_lines  # its room takes a second to import

        def line(name: str, form: str, numbers: Iterable[float | None]) -> tuple[str, ...]:
            return name, *("-" if n is None or math.isnan(n) else format(n, form) for n in numbers)

        of = self.planned
        lines = [
            line("epsilon", "g", (p.epsilon for p in of)),
            line("delta", "g", (p.delta for p in of)),
            line("noise of a count, one-way (± rows)", ",.1f", (p.one_way for p in of)),
            line("noise of a count, two-way (± rows)", ",.1f", (p.two_way for p in of)),
        ]
        lines.append(line("distance of synthetic two-way tables", ".3f", (p.fitted for p in of)))
        clears = [f"{p.clear:.2f}" if p.clear < 1 else "none" for p in of]
        if any(p.clear for p in of):
            lines.append(("Cramér's V that stands out from noise", *clears))
        for m in get_args(Marginals):
            said = f"two-way cells below twice the noise, {m}"
            lines.append(line(said, ".0%", (p.swamped[m] for p in of)))
        for name in of[0].widths:
            said = f"width of the 95 % interval of mean({name})"
            lines.append(line(said, ".3g", (p.widths[name] for p in of)))
        if self.missing:
            lines.append(line("epsilon for the ground truth", ".3g", (p.ground_truth for p in of)))
        lines.append(line("seconds", ".1f", (p.seconds for p in of)))
        return "\n".join([*self._head(), *column_lines(lines), *self._foot()])

    def _head(self) -> list[str]:
        holes = ", ".join(f"{name} {rate:.0%}" for name, rate in self.missing.items()) or "none"
        return [
            f"Plan for {self.method} and {self.rows:,} rows, as you declared: margins "
            f"{self.margins}, missing: {holes}. Nothing private was read."
        ]

    @property
    def mostly_noise(self) -> str | None:
        """One line on the largest epsilon with which most relations are noise, if there is one."""
        from missdp.synth.relation_noise import mostly_noise  # families take a second to import

        for planned in sorted(self.planned, key=lambda p: -p.epsilon):
            effective = self.rows * self.counted / self.bound * planned.epsilon
            said = mostly_noise(planned.clear, effective=effective, remedies=self.remedies)
            if said is not None:
                return f"With epsilon {planned.epsilon:g} or less: {said[0].lower()}{said[1:]}"
        return None

    def _foot(self) -> list[str]:
        lines = [self.mostly_noise] if self.mostly_noise else []
        lines += [] if self.memory is None else [f"Memory: {self.memory:,.0f} MB."]
        if self.counted < 1:
            lines.append(
                f"A row counts {self.counted:.1%} of the largest weight on average: so much "
                "of each count is left, and the noise stays. A smaller upper in [weight] leaves "
                "more, and cuts more weights."
            )
        if self.rehearsed_rows < self.rows:
            lines.append(f"Rehearsed on {self.rehearsed_rows:,} rows; a run needs more.")
        fitted = [f"{p.epsilon:g}" for p in self.planned if p.rehearsed]
        if 0 < len(fitted) < len(self.planned):
            lines.append(
                f"Rehearsed: epsilon {' and '.join(fitted)}. The schema has many columns, so the "
                "numbers of other epsilons follow from the noise that each epsilon needs."
            )
        lines.append(
            "Rehearsed on made-up rows whose attributes are all related alike: noise hardly "
            "depends on that; distances depend on how closely real ones are related, intervals on "
            "how far numbers really spread."
        )
        return lines


def plan(
    schema: Schema,
    *,
    rows: int,
    missing: Mapping[str, float] | None = None,
    spreads: Mapping[str, float] | None = None,
    margins: Marginals = "uniform",
    mean_weight: float | None = None,
    epsilons: Iterable[float] = (0.5, 1.0, 2.0),
    method: str | None = None,
    means: Iterable[str] | Mapping[str, float] | None = None,
    progress: Progress | bool | None = None,
    **parameters: Any,
) -> Plan:
    """Say what each epsilon buys before the table is looked at, from public facts only.

    Parameters
    ----------
    schema : Schema
    rows : int
        How many rows there will be, as you declare: roughly will do.
    missing : mapping of str to float, optional
        Share of missing cells by attribute, as you declare.
    spreads : mapping of str to float, optional
        Standard deviation of numbers, as you declare. They are then taken to have a beta
        distribution, nearly a normal one in the middle of far bounds.
    margins : {"uniform", "zipf"}, default "uniform"
        How often levels, and bins of other numbers, occur.
    mean_weight : float, optional
        Mean of the survey weights, as you declare; by default all are as large as any that count.
    epsilons : iterable of float, default (0.5, 1, 2)
    method : str, optional
        The family; by default that of ``missdp synthesize``.
    means : iterable of str, or mapping of str to float, optional
        Numbers whose means are planned; by default the first one. A mapping says what each is, as
        you declare, for a number with a spread; by default the middle of its bounds.
    progress : callable or bool, optional
        Called with what is going on and the share that is done. True shows a bar.
    **parameters
        Of the family, such as ``delta`` or ``missing="observed"``, written ``strategy="observed"``.

    Returns
    -------
    Plan

    Raises
    ------
    ParameterError
        If something that is declared is not of the schema.

    Examples
    --------
    >>> from missdp import Categorical, Numeric, Schema
    >>> from missdp.governance import plan
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Numeric(name="age", lower=18, upper=98, integer=True, bins=8),
    ... ))
    >>> found = plan(schema, rows=2000, missing={"smoker": 0.2}, epsilons=(0.5, 2.0))
    >>> less, more = found.planned
    >>> less.one_way > more.one_way, less.widths["age"] > more.widths["age"]
    (True, True)
    """
    from missdp.governance.rehearsal import Declared, Rehearsal  # families take a second to import
    from missdp.synth.registry import default_synthesizer, synthesizer_named
    from missdp.synth.relations import remedies_of

    declared = Declared(
        schema=schema,
        rows=rows,
        missing=dict(missing or {}),
        spreads=dict(spreads or {}),
        means=dict(means) if isinstance(means, Mapping) else {},
        margins=margins,
        mean_weight=mean_weight,
    )
    grid = tuple(epsilons)
    if not grid:
        raise ParameterError("epsilons must contain at least one value")
    if "strategy" in parameters:
        parameters["missing"] = parameters.pop("strategy")
    chosen = method or default_synthesizer(schema, delta=parameters.get("delta"))
    wanted = _numbers(schema, means)
    family = partial(synthesizer_named(chosen), **parameters)
    with reported(progress) as shown:
        rehearsal = Rehearsal(family, declared, wanted, shown)
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
        margins=margins,
        counted=declared.counted,
        bound=1 if schema.unit is None else schema.unit.bound,
        remedies=tuple(remedies_of(schema, synthesizer_named(chosen).family)),
    )


def fits_of(columns: int, epsilons: int) -> tuple[int, int]:
    """Return for how many epsilons a fit is rehearsed, and how many fits for each of these.

    >>> fits_of(4, 3), fits_of(8, 3), fits_of(10, 3), fits_of(16, 3), fits_of(4, 1)
    ((3, 2), (3, 1), (2, 1), (1, 1), (1, 3))
    """
    pairs = columns * (columns - 1) / 2
    fits = max(1, int(_SECONDS / (_SECONDS_OF_A_FIT + _SECONDS_OF_A_PAIR * pairs)))
    rehearsed = min(epsilons, fits)
    return rehearsed, min(_FITS, fits // rehearsed)


def _numbers(schema: Schema, means: Iterable[str] | None) -> list[str]:
    numbers = [a.name for a in schema if isinstance(a, Numeric)]
    wanted = numbers[:1] if means is None else list(means)
    for name in wanted:
        if name not in numbers:
            near = did_you_mean(name, numbers)
            raise ParameterError(f"{name!r} is not a numeric attribute of the schema{near}")
    return wanted


def peak_memory() -> float | None:
    """Return the most memory that this process has had, in megabytes."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1e6 if sys.platform == "darwin" else 1e3)
