"""The questions a survey statistician asks of a table with holes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from missdp.accounting import Budget, Cost
from missdp.errors import DataError, ParameterError
from missdp.knn.costs import cost_of
from missdp.knn.counts import count, histogram, proportion, total
from missdp.knn.estimates import Estimate, Histogram
from missdp.knn.imputers import Imputation
from missdp.knn.moments import correlation, mean, variance
from missdp.knn.parts import Parts
from missdp.knn.predicates import Predicate
from missdp.knn.worst_case import MissingCells, Uncertainty
from missdp.mechanisms.asks import check_real
from missdp.mechanisms.row_door import RandomState, RowDoor, SmoothKind
from missdp.mechanisms.smooth_scale import ScaleRelease
from missdp.schema import Numeric

if TYPE_CHECKING:
    from missdp.table import Table

__all__ = ["ImputedStatistics"]


class ImputedStatistics:
    """Differentially private statistics on an imputed table, sharing one profile and one budget.

    Every query charges the budget before it computes, and answers with an `Estimate` (or a
    `Histogram`): value, error bar, guarantee.

    Parameters
    ----------
    table : Table
        Private rows.
    imputation : KNNImputation, ReleasedModel, CompleteRows or CappedKNN
        How holes are filled; its attributes are those with ``impute``.
    budget : Budget
        What may be spent, shared with whatever else uses it.
    scale : ScaleRelease, optional
        Pays, once and now, for error bars: the noise scale depends on the table, so an error bar is
        a release. With ``rho`` and ``delta`` it also allows Gaussian noise (queries with ``rho``).
        Without it, numbers that depend on imputed values come without error bars.
    noise : {"lomax", "cauchy", "paper"}, default "lomax"
        The law of the noise for pure DP; "paper" refuses epsilon below 2 ln 2.
    confidence : float, default 0.95
        Of the error bars.
    undeclared : {"refuse", "accept"}, default "refuse"
        What to do with a schema some of whose facts nobody has declared public.
    random_state : int, Generator, NoiseSource or None
        None (the default) for releases. Anything else is for tests and becomes a condition.

    Notes
    -----
    Guarantee: add-remove, for the incomplete table. The number of rows is private: proportions
    and means divide by a released count. Weights (own, donee) of a sum of a row function f in
    [-L, L]: own = L; donee = 0 if f reads no imputed value, at most the range of f otherwise, and
    range / k if f is the k-NN mean itself on a subpopulation fixed by other attributes. Means use
    values centred at the middle of their bounds, which halves the own weight.

    Counts, proportions, means and sums take ``uncertainty="worst-case"``: a tenth of their cost
    then pays for `Estimate.imputation_interval`, which holds whatever the missing cells are.

    Source: Clifton et al. (2022).

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Numeric, Ordinal, Schema, Table
    >>> from missdp.accounting import Budget
    >>> from missdp.knn import ImputedStatistics, KNNImputation
    >>> schema = Schema((
    ...     Ordinal(name="grade", levels=(1, 2, 3)),
    ...     Numeric(name="income", lower=0, upper=100, nullable=True),
    ... ))
    >>> frame = pd.DataFrame({"grade": [1, 2, 3] * 200, "income": [10.0, 20.0, None] * 200})
    >>> statistics = ImputedStatistics(
    ...     Table.read(frame, schema), KNNImputation(impute="income", match_on="grade"),
    ...     budget=Budget(2.0),
    ... )
    >>> answer = statistics.count(where="income > 15", epsilon=1.0)
    >>> answer.guarantee.epsilon
    1.0
    """

    def __init__(
        self,
        table: Table,
        imputation: Imputation,
        *,
        budget: Budget,
        scale: ScaleRelease | None = None,
        noise: SmoothKind = "lomax",
        confidence: float = 0.95,
        undeclared: str = "refuse",
        random_state: RandomState = None,
    ) -> None:
        if not hasattr(imputation, "preparation"):
            raise ParameterError(
                "imputation must be one of missdp.knn, for example a KNNImputation"
            )
        if not isinstance(scale, ScaleRelease | None):
            raise ParameterError("scale must be a ScaleRelease or None")
        if check_real("confidence", confidence, most=1.0) < 0.5 or confidence == 1:
            raise ParameterError("confidence must be at least 0.5 and below 1")
        door = RowDoor(
            table, budget=budget, random_state=random_state, undeclared=undeclared, noise=noise
        )
        self._parts = Parts(_prepared(door, imputation, scale, confidence), imputation, confidence)

    def __repr__(self) -> str:
        return f"ImputedStatistics({', '.join(self._parts.schema.names)})"

    @property
    def budget(self) -> Budget:
        """The shared budget."""
        return self._parts.door.budget

    def count(
        self,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
        uncertainty: Uncertainty = "noise",
    ) -> Estimate:
        """Count the rows of a subpopulation.

        Parameters
        ----------
        where : str, optional
            The subpopulation, see `parse_where`; everyone by default.
        epsilon : float, optional
            What to spend (pure DP).
        rho : float, optional
            What to spend instead (zCDP).
        uncertainty : {"noise", "worst-case"}, default "noise"
            "worst-case" spends a tenth of the cost on `Estimate.imputation_interval`: where the
            answer could be, whatever the missing cells hold.
        """
        chosen, cost = self._parts.where(where), cost_of(epsilon, rho)
        return count(self._parts, where or "", self._missing(uncertainty, cost, chosen))

    def proportion(
        self,
        of: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
        uncertainty: Uncertainty = "noise",
    ) -> Estimate:
        """Proportion of a subpopulation that satisfies ``of``: two released counts divided."""
        chosen, cost = self._parts.where(where), cost_of(epsilon, rho)
        missing = self._missing(uncertainty, cost, chosen, self._parts.where(of))
        return proportion(self._parts, of, missing)

    def mean(
        self,
        name: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
        uncertainty: Uncertainty = "noise",
    ) -> Estimate:
        """Mean of a numeric attribute over a subpopulation, of the rows where it is known."""
        chosen, cost = self._parts.where(where), cost_of(epsilon, rho)
        missing = self._missing(uncertainty, cost, chosen, self._parts.numeric(name))
        return mean(self._parts, name, missing)

    def sum(
        self,
        name: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
        uncertainty: Uncertainty = "noise",
    ) -> Estimate:
        """Sum of a numeric attribute over a subpopulation."""
        chosen, cost = self._parts.where(where), cost_of(epsilon, rho)
        missing = self._missing(uncertainty, cost, chosen, self._parts.numeric(name))
        return total(self._parts, name, missing)

    def _missing(
        self,
        uncertainty: Uncertainty,
        cost: Cost,
        where: Predicate,
        of: Numeric | Predicate | None = None,
    ) -> MissingCells:
        return MissingCells(
            schema=self._parts.schema, uncertainty=uncertainty, cost=cost, where=where, of=of
        )

    def variance(
        self,
        name: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
    ) -> Estimate:
        """Sample variance of a numeric attribute, around a released mean."""
        chosen, cost = self._parts.where(where), cost_of(epsilon, rho)
        return variance(self._parts, name, chosen, cost, root=False)

    def standard_deviation(
        self,
        name: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
    ) -> Estimate:
        """Square root of the released variance."""
        chosen, cost = self._parts.where(where), cost_of(epsilon, rho)
        return variance(self._parts, name, chosen, cost, root=True)

    def correlation(
        self,
        first: str,
        second: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
    ) -> Estimate:
        """Pearson correlation of two numeric attributes, from released means and moments."""
        cost = cost_of(epsilon, rho)
        return correlation(self._parts, first, second, self._parts.where(where), cost)

    def histogram(
        self,
        name: str,
        *,
        where: str | None = None,
        epsilon: float | None = None,
        rho: float | None = None,
    ) -> Histogram:
        """Counts per level (or bin) of an attribute; rows where it is missing are not counted."""
        chosen, cost = self._parts.where(where), cost_of(epsilon, rho)
        return histogram(self._parts, name, chosen, cost)


def _prepared(
    door: RowDoor, imputation: Imputation, scale: ScaleRelease | None, confidence: float
) -> RowDoor:
    """Return a door to imputed rows, with the released scale; all charged before it is read."""
    schema = door.schema
    imputation.check(schema)
    for name in imputation.fills():
        if isinstance(schema[name], Numeric) and name not in door.valued:
            raise DataError(f"attribute {name!r} has no numeric values in this table")
    releases = imputation.releases(schema)
    charged = door.begin(*(ask for ask, _ in releases))
    released = [
        door.answer(token, question).values
        for token, (_, question) in zip(charged, releases, strict=True)
    ]
    prepared = door.prepared(imputation.preparation(schema, released), using=charged)
    # Where how many rows a row can move is public, error bars cost nothing.
    if scale is None or not prepared.needs_scale:
        return prepared
    return prepared.scaled(scale, confidence=confidence)
