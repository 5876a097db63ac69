"""The price of a pipeline, as a table."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pydantic.dataclasses import dataclass

from missdp.accounting import Guarantee
from missdp.accounting.events import Adjacency
from missdp.errors import ParameterError, UnprovenError
from missdp.pricing import imputers, transforms
from missdp.pricing.chains import Stage
from missdp.pricing.domain import NEIGHBOURS, require
from missdp.pricing.pipeline import PricedPipeline
from missdp.pricing.privacy_maps import bounds
from missdp.serialization import Record


@dataclass(frozen=True)
class PriceStep(Record):
    """Effect of one preprocessing step on two neighbouring tables, as one line of a price table.

    `price` returns one for each step, in `Price`. The two tables differ in one replaced row before
    the first step. All values are public.

    Parameters
    ----------
    name : str
        Name of the step in the pipeline.
    transformer : str
        Name of the step's class.
    shifted_rows : int
        Number of other rows that the step alone changes when one row is replaced, at least 0.
    movement : float
        Largest Euclidean distance by which the step alone changes one of these rows. At least 0, in
        the units of the output columns.
    shifted_rows_so_far : int
        Number of other rows that differ after all steps up to and including this step, at least 0.
    summed_so_far : float
        Largest sum of the Euclidean distances by which these rows differ, at least 0. In the units
        of the output columns.
    frobenius_so_far : float
        Largest root of the sum of squares of these distances, at least 0.
    radius : float
        Bound on the Euclidean norm of a row after the step, in the units of the output columns.
        Above 0.
    conditions : tuple of str
        Sentences of the step's conditions. They are stated with the guarantee and are not
        checked against the table.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.pricing import MeanImputer, PricedPipeline, PrivateMean, price
    >>> steps = [("impute", MeanImputer(max_incomplete=20, cells_per_row=1))]
    >>> end = PrivateMean(noise_multiplier=5.0)
    >>> pipeline = PricedPipeline(steps, end, rows=1000, columns=2, complete=False)
    >>> (step,) = price(pipeline, suggest=False).steps
    >>> step.name, step.shifted_rows, round(step.movement, 4)
    ('impute', 20, 0.002)
    """

    name: str
    transformer: str
    shifted_rows: int
    movement: float
    shifted_rows_so_far: int
    summed_so_far: float
    frobenius_so_far: float
    radius: float
    conditions: tuple[str, ...]


@dataclass(frozen=True)
class CheaperChange(Record):
    """One change of a preprocessing pipeline that lowers its epsilon, as `price` suggests it.

    Parameters
    ----------
    change : str
        The change as a sentence fragment, as "leave out step 'scale'".
    epsilon : float
        Epsilon of the whole pipeline after the change, at least 0, at the delta of the price.
        Public.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.pricing import CheaperChange
    >>> CheaperChange("leave out step 'scale'", 0.9).epsilon
    0.9
    """

    change: str
    epsilon: float


@dataclass(frozen=True)
class Price(Record):
    """Privacy price of a pipeline: epsilon with and without preprocessing, and effects of steps.

    `price` computes it from public facts alone. Printing it shows a table. It can be saved as a
    record.

    Parameters
    ----------
    steps : tuple of PriceStep
        Effects of the preprocessing steps, in order.
    mechanism : str
        Class name of the private estimator.
    delta : float
        The delta of every epsilon, in [0, 1).
    naive_epsilon : float
        Epsilon of the estimator on raw rows, at least 0. It is not a guarantee of a pipeline whose
        steps change rows.
    epsilon : float
        Epsilon of the whole pipeline, by the best bound. At least 0.
    bound : {"direct", "theorem 2", "group privacy"}
        Name of the best bound, see `Bound`.
    alternatives : tuple of (str, float)
        Name and epsilon of every bound that applies, the smallest epsilon first.
    guarantee : Guarantee
        The guarantee of the pipeline with its conditions, under replace-one adjacency.
    cheapest_change : CheaperChange or None
        The single change with the smallest epsilon among those that were tried. Each step is
        left out or replaced by a step that learns less. If no change of a step lowers epsilon
        by 1 %, the change is to double the noise. None if nothing lowers it or the search was
        off.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.pricing import PricedPipeline, PrivateMean, price, Quantizer
    >>> result = price(PricedPipeline([("round", Quantizer(eta=0.01, max_cluster=10))],
    ...                               PrivateMean(noise_multiplier=5.0), rows=1000, columns=2))
    >>> result.bound, round(result.naive_epsilon, 3), round(result.epsilon, 3)
    ('direct', 0.9, 1.897)
    """

    steps: tuple[PriceStep, ...]
    mechanism: str
    delta: float
    naive_epsilon: float
    epsilon: float
    bound: str
    alternatives: tuple[tuple[str, float], ...]
    guarantee: Guarantee
    cheapest_change: CheaperChange | None = None

    derived: ClassVar[tuple[str, ...]] = ("adjacency", "group_epsilon")

    @property
    def adjacency(self) -> Adjacency:
        """Neighbouring relation of tables under which every epsilon of a price is stated. Public.

        Returns
        -------
        {"replace-one"}
            One row is replaced, and the number of rows is public.
        """
        return self.guarantee.adjacency

    @property
    def group_epsilon(self) -> float:
        """Epsilon of the pipeline if every row that preprocessing changes counted as replaced.

        Returns
        -------
        float
            Public, at ``delta``. It is infinite if this bound is not finite. Without shifted
            rows it is the epsilon of the price.
        """
        if not self.steps or self.steps[-1].shifted_rows_so_far == 0:
            return self.epsilon
        return dict(self.alternatives).get("group privacy", math.inf)

    def __str__(self) -> str:
        lines = ["no preprocessing"]
        if self.steps:
            shown = [[form.format(step) for form in _SHOWN.values()] for step in self.steps]
            lines = _table([list(_SHOWN), *shown])
        lines += ["", f"mechanism: {self.mechanism}, delta = {self.delta:g}, replace-one adjacency"]
        wrong = self.naive_epsilon < self.epsilon
        claims = {"naive claim (wrong here)" if wrong else "claim": self.naive_epsilon}
        claims[f"whole pipeline, by {self.bound}"] = self.epsilon
        claims |= {f"  (by {name})": e for name, e in self.alternatives if name != self.bound}
        width = max(map(len, claims))
        lines += [f"{name:<{width}}  epsilon = {epsilon:.4g}" for name, epsilon in claims.items()]
        if (best := self.cheapest_change) is not None:
            lines += ["", f"cheapest change: {best.change} (epsilon = {best.epsilon:.4g})"]
        lines += ["", "conditions:"]
        lines += [f"- {condition.statement()}" for condition in self.guarantee.conditions]
        return "\n".join(lines)


_SHOWN = {
    "step": "{0.name}",
    "kind": "{0.transformer}",
    "rows moved": "{0.shifted_rows}",
    "each by": "{0.movement:.4g}",
    "chain: rows": "{0.shifted_rows_so_far}",
    "summed": "{0.summed_so_far:.4g}",
    "Frobenius": "{0.frobenius_so_far:.4g}",
}


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def price(pipeline: PricedPipeline, *, delta: float | None = None, suggest: bool = True) -> Price:
    """Return the privacy price of a preprocessing pipeline, from public facts alone.

    No data is read, and nothing is charged. Use it to compare pipelines before a fit.

    Parameters
    ----------
    pipeline : PricedPipeline
        Preprocessing steps of this package, and a private estimator.
    delta : float or None, default None
        The delta at which epsilon is stated, in [0, 1). None: the delta of the pipeline.
    suggest : bool, default True
        Whether to search for the change that lowers epsilon most, which prices a few more
        pipelines.

    Returns
    -------
    Price
        Public. The price of the whole chain, the effect of each step, and the suggested change
        if there is one.

    Raises
    ------
    UnprovenError
        If no bound is proven for a step or the chain, or no bound is finite.
    ParameterError
        If ``pipeline`` is not a `PricedPipeline`, or a parameter is out of range.

    Examples
    --------
    >>> from missdp.pricing import price
    >>> from missdp.pricing import PricedPipeline, PrivateMean, PCARankReducer
    >>> steps = [("pca", PCARankReducer(n_components=2, min_gap=0.2))]
    >>> end = PrivateMean(noise_multiplier=5.0)
    >>> result = price(PricedPipeline(steps, end, rows=1000, columns=9))
    >>> result.bound, result.steps[0].shifted_rows, round(result.steps[0].movement, 3)
    ('direct', 999, 0.013)
    """
    require(isinstance(pipeline, PricedPipeline), "only a PricedPipeline has a price")
    stated = {} if delta is None else {"delta": delta}
    priced = PricedPipeline(**pipeline.get_params(deep=False) | stated)
    facts, query = priced.facts_and_query()
    proven = facts.bounds(query)
    naive = bounds(query.privacy_map, NEIGHBOURS, priced.delta)[0]
    guarantee = facts.guarantee(proven[0].event)
    return Price(
        steps=tuple(_step(stage) for stage in facts.steps),
        mechanism=type(priced.estimator).__name__,
        delta=priced.delta,
        naive_epsilon=naive.epsilon,
        epsilon=guarantee.epsilon,
        bound=proven[0].name,
        alternatives=tuple((bound.name, bound.epsilon) for bound in proven),
        guarantee=guarantee,
        cheapest_change=_cheapest_change(priced, guarantee.epsilon) if suggest else None,
    )


_LOWER = 0.99  # largest ratio of prices at which a change is named


def _cheapest_change(priced: PricedPipeline, epsilon: float) -> CheaperChange | None:
    """Return the change with the smallest price, from public facts only."""
    noise = float(priced.estimator.noise_multiplier)
    more = min(2 * noise, 1e10)  # the largest multiplier
    louder = [(f"use noise_multiplier = {more:g}", priced.with_noise(more))]
    for tried in (_changed_steps(priced), louder):
        changes = []
        for change, pipeline in tried:
            # A change after which nothing is proven does not count.
            with contextlib.suppress(UnprovenError, ParameterError):
                changes.append(CheaperChange(change, pipeline.guarantee().epsilon))
        best = min(changes, key=lambda change: change.epsilon, default=None)
        if best is not None and best.epsilon <= _LOWER * epsilon:
            return best
    return None


def _changed_steps(priced: PricedPipeline) -> Iterator[tuple[str, PricedPipeline]]:
    """Yield changes in words, each with the pipeline in which a step is replaced or left out."""
    parameters = priced.get_params(deep=False)
    for place, (name, step) in enumerate(priced.steps):
        before, after = priced.steps[:place], priced.steps[place + 1 :]
        for change, others in (*_replacements(name, step), (f"leave out step {name!r}", None)):
            chain = [*before, *([] if others is None else [(name, others)]), *after]
            yield change, PricedPipeline(**parameters | {"steps": chain})


def _replacements(name: str, step: Any) -> Iterator[tuple[str, Any]]:
    """Yield changes in words, each with a step that does the same work and learns less."""
    if isinstance(step, imputers.Imputer):
        yield f"use ConstantImputer as step {name!r}", imputers.ConstantImputer()
    if getattr(step, "moment", "second") != "second":
        facts = step.get_params(deep=False)
        yield f'use moment="second" in step {name!r}', type(step)(**facts | {"moment": "second"})
    if isinstance(step, transforms.StandardScaler | transforms.MinMaxScaler):
        yield f"scale by declared bounds in place of step {name!r}", None


def _step(stage: Stage) -> PriceStep:
    single, chain = stage.response, stage.distance_after
    return PriceStep(
        name=stage.name,
        transformer=type(stage.step).__name__,
        shifted_rows=single.shifted_rows,
        movement=single.max_shift,
        shifted_rows_so_far=chain.shifted_rows,
        summed_so_far=chain.shift_l12,
        frobenius_so_far=chain.shift_frobenius,
        radius=stage.domain_after.radius,
        conditions=tuple(condition.statement() for condition in stage.conditions),
    )
