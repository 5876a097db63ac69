"""A mechanism the user declares: public weights and intercepts, one row at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from missdp.errors import ParameterError
from missdp.missingness.logistic import Scores, positions, sum_scores
from missdp.missingness.mechanism import MissingMechanism, Probabilities, check_names
from missdp.schema import AnyAttribute, Categorical, Level, Schema
from missdp.table import Table

__all__ = ["DeclaredMechanism", "Weight"]

Weight: TypeAlias = float | Mapping[Level, float]


@dataclass(frozen=True, kw_only=True)
class DeclaredMechanism(MissingMechanism):
    """Each cell goes missing with a declared logistic probability of its own row.

    ``P(column is missing | row) = 1 / (1 + exp(-(intercept + sum of weights)))``. Nothing is fitted
    to the table, so rows go missing independently of each other: with :class:`MCAR` the only
    mechanisms that carry the condition ``RowIndependentMissingness``.

    Parameters
    ----------
    intercepts : mapping of str to float
        One per column that gets holes; the logit of a row whose weights add up to 0.
    weights : mapping of str to mapping, optional
        Per column that gets holes, the weights of its drivers (its own name is allowed:
        self-masking). A number is the slope of an ordinal or numeric driver whose levels or bins
        are placed evenly on [-1, 1]. A mapping gives a weight per level of a categorical or
        ordinal driver; levels that are not named weigh 0.

    Raises
    ------
    ParameterError
        If a number is not finite or a column has weights but no intercept.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.missingness import DeclaredMechanism
    >>> schema = Schema((
    ...     Categorical(name="sex", levels=("female", "male")),
    ...     Categorical(name="smoker", levels=("no", "yes")),
    ... ))
    >>> mechanism = DeclaredMechanism(
    ...     intercepts={"smoker": -2.0}, weights={"smoker": {"sex": {"male": 1.0}}}
    ... )
    >>> {name: round(p, 3) for name, p in mechanism.observed_at_most(schema).items()}
    {'sex': 1.0, 'smoker': 0.881}
    >>> mechanism.row_independent
    True
    """

    intercepts: Mapping[str, float]
    weights: Mapping[str, Mapping[str, Weight]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.intercepts:
            raise ParameterError("name at least one attribute in intercepts")
        if lacking := [name for name in self.weights if name not in self.intercepts]:
            raise ParameterError(f"these columns have weights but no intercept: {lacking}")
        for number in self._numbers():
            if isinstance(number, bool) or not math.isfinite(number):
                raise ParameterError("intercepts and weights must be finite numbers")

    @property
    def row_independent(self) -> bool:
        """Whether a row's holes depend on that row alone: yes."""
        return True

    def observed_at_most(self, schema: Schema) -> dict[str, float]:
        """Bound each attribute's probability of being observed, over all rows of the domain."""
        bounds = dict.fromkeys(schema.names, 1.0)
        for name in check_names(schema, self.intercepts):
            lowest = sum(float(score.min()) for score in self._scores(schema, name).values())
            bounds[name] = float(expit(-(self.intercepts[name] + lowest)))
        return bounds

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        del rng  # nothing about the mechanism itself is drawn
        chances = {}
        for name in check_names(table.schema, self.intercepts):
            linear = self.intercepts[name] + sum_scores(table, self._scores(table.schema, name))
            chances[name] = np.asarray(expit(linear), dtype=np.float64)
        return chances

    def _scores(self, schema: Schema, name: str) -> Scores:
        drivers = self.weights.get(name, {})
        return {driver: _score(schema[driver], weight) for driver, weight in drivers.items()}

    def _numbers(self) -> list[float]:
        numbers = list(self.intercepts.values())
        for drivers in self.weights.values():
            for weight in drivers.values():
                numbers.extend(weight.values() if isinstance(weight, Mapping) else [weight])
        return numbers


def _score(attribute: AnyAttribute, weight: Weight) -> NDArray[np.float64]:
    """One number per level or bin."""
    if not isinstance(weight, Mapping):
        if isinstance(attribute, Categorical):
            raise ParameterError(
                f"attribute {attribute.name!r} has no order: give a weight per level"
            )
        return weight * positions(attribute)
    levels = getattr(attribute, "levels", None)
    if levels is None:
        raise ParameterError(f"attribute {attribute.name!r} is numeric: give one slope")
    if unknown := [level for level in weight if level not in levels]:
        raise ParameterError(f"attribute {attribute.name!r} has no levels {unknown}")
    return np.array([float(weight.get(level, 0.0)) for level in levels])
