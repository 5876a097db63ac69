"""Steps of preprocessing: their base class, their conditions, and the step that clips rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass, replace
from string import Formatter
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import pydantic.dataclasses
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import Condition
from missdp.errors import DataError, UnprovenError
from missdp.pricing.domain import (
    Parameters,
    RowDomain,
    Rows,
    TableDistance,
    as_rows,
    check_fillable,
    clip_rows,
    real,
    require,
)
from missdp.types import Floats

try:
    from sklearn.base import TransformerMixin
except ImportError:
    from missdp.estimator import Transformer as TransformerMixin


@pydantic.dataclasses.dataclass(frozen=True)
class StepCondition(Condition, abstract=True):
    """A condition of a stability map on every table.

    Attributes
    ----------
    about_rows : bool
        Class attribute: whether it is about the table, so that a private test can stand in for it.

    Examples
    --------
    >>> print(IncompleteRows(10, 1))
    At most 10 rows have a missing cell, and none has more than 1.
    """

    about_rows: ClassVar[bool] = True


def _condition(name: str, sentence: str) -> Any:
    """Return the class of a condition. Fields with a format are floats, and others integers."""
    named = {at[2:]: form for _, at, form, _ in Formatter().parse(sentence) if at}
    fields = [(at, float if form else int) for at, form in named.items()]
    docstring = re.sub(r"\{0\.(\w+)[^}]*\}", r"``\1``", sentence)
    facts = {"sentence": sentence, "__doc__": docstring, "__module__": __name__}
    return make_dataclass(name, fields, bases=(StepCondition,), namespace=facts, frozen=True)


NotFittedOnThisTable = _condition(
    "NotFittedOnThisTable", "No preprocessing of these rows was fitted on the same table."
)
ModelPaidApart = _condition(
    "ModelPaidApart",
    "The imputer's model was not fitted to these rows, or its own guarantee is composed with this "
    "one.",
)
ModelPaidApart.about_rows = False
SeededFilling = _condition(
    "SeededFilling",
    "WARNING: missing cells were filled with seeded random numbers in the order of rows. Nothing "
    "is proven against anyone who knows the seed.",
)
SeededFilling.about_rows = False
IncompleteRows = _condition(
    "IncompleteRows",
    "At most {0.at_most} rows have a missing cell, and none has more than {0.cells_per_row}.",
)
CentralGaps = _condition(
    "CentralGaps",
    "In every column, consecutive observed values differ by at most {0.at_most:.6g} within "
    "{0.ranks} ranks of the median.",
)
TrimmedRange = _condition(
    "TrimmedRange",
    "In every column, the {0.trim}-th smallest and {0.trim}-th largest observed values differ by "
    "at most {0.at_most:.6g}.",
)
MinEigenvalue = _condition(
    "MinEigenvalue",
    "The second-moment matrix of the regression's predictors, summed over the rows with an "
    "observed target and divided by n, has no eigenvalue below {0.at_least:.6g}.",
)
BoundedDonations = _condition(
    "BoundedDonations", "No row is a donor of more than {0.at_most} incomplete rows."
)
# The number of clusters that meet has a packing bound, unless it is declared.
LargestCluster = _condition(
    "LargestCluster",
    "No good cluster of radius {0.radius:.6g} has more than {0.at_most} rows, and no point is "
    "within three such radii of the centres of more than {0.neighbours} good clusters, whichever "
    "rows are removed.",
)
ExtremeGaps = _condition(
    "ExtremeGaps",
    "In every column, consecutive values differ by at most {0.at_most:.6g} in each of the "
    "{0.ranks} outermost gaps, at either end.",
)
MinRange = _condition(
    "MinRange", "In every column, maximum and minimum differ by at least {0.at_least:.6g}."
)
MinStandardDeviation = _condition(
    "MinStandardDeviation",
    "Every column that is scaled has a standard deviation of at least {0.at_least:.6g}.",
)
CovarianceGap = _condition(
    "CovarianceGap",
    "The gap between the {0.k} largest eigenvalues and all others of the covariance matrix that "
    "PCA sees is at least {0.at_least:.6g}.",
)
FrameOverlap = _condition(
    "FrameOverlap",
    "Every direction of the public reference frame has a cosine of at least {0.at_least:.6g} with "
    "the principal subspace.",
)

RowFunction: TypeAlias = Callable[[Floats], Floats]


class Response(NamedTuple):
    """Largest movement of rows after a step, when other rows of the table change.

    A step that is fitted on two tables maps a row x by f, and its counterpart x' by f'. Then |f(x)
    - f'(x')| <= lipschitz |x - x'| + shift. The shift is 0 for all rows but ``shifted_rows``. No
    two output rows are farther apart than ``diameter``.
    """

    lipschitz: float = 1.0
    shift: float = 0.0
    shifted_rows: int = 0
    diameter: float = math.inf


class StableTransformer(TransformerMixin, Parameters):  # type: ignore[misc]
    """Base class of steps: row functions fitted on a table, with a proven bound on neighbours.

    A step is fitted without noise, so the fitted step is as private as the table. It is kept
    out of the object's public attributes, its repr and its pickle, and the *transformed table is
    private too*. Only a private mechanism at the end of the pipeline makes an output, whose
    guarantee `missdp.pricing.price` computes from `stability`.

    Subclasses are dataclasses of their parameters (keyword-only, compared by identity). They
    implement ``_learn``, which returns the row function that a table leads to, and state public
    facts: `response`, `radius_after` and `assumed`. Conditions are never checked against the
    table (failing would reveal something): a fit raises for no table of its declared shape and
    domain. Propose-test-release checks conditions privately, with `distance_to_failure`.

    Notes
    -----
    After Hu, Sanyal & Schölkopf 2024, §4.1.
    """

    _needs_complete: ClassVar[bool] = True
    # Every missing cell gets a value: rows of a complete domain stay, nothing is assumed of them.
    _fills: ClassVar[bool] = False
    # The output of a row does not depend on other rows, and is no further from its counterpart.
    _each_by_itself: ClassVar[bool] = False
    # False: a small movement can change which rows go together, so moved rows count as replaced.
    _continuous: ClassVar[bool] = True

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return a bound on the distance of the transformed tables.

        The two tables are in ``domain``, satisfy `conditions`, and are at most ``distance`` apart.
        Raises `UnprovenError` if no bound is proven.

        Parameters
        ----------
        distance : TableDistance
            Distance of the tables that reach the step.
        domain : RowDomain
            Public facts about these tables.

        Returns
        -------
        TableDistance
            Distance of the tables after the step.

        Raises
        ------
        UnprovenError
            If no bound is proven.
        """
        if self._fills and domain.complete:
            return distance
        start = distance if self._continuous else distance.forget_movement()
        response = self.response(start, domain)
        if not self._continuous and start.replaced >= domain.rows:
            raise UnprovenError(
                f"{type(self).__name__} is not continuous in the values: after a step that moves "
                "every row, no bound is proven. Put it first"
            )
        widest = min(response.diameter, self.output_domain(domain).diameter)
        return start.after(rows=domain.rows, **response._replace(diameter=widest)._asdict())

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:  # noqa: ARG002
        """Return the movement of the rows of two tables at ``distance``.

        Parameters
        ----------
        distance : TableDistance
            Distance of the tables that reach the step.
        domain : RowDomain
            Public facts about these tables.

        Returns
        -------
        Response
            The bound of a subclass.
        """
        if self._each_by_itself:
            return Response()
        raise NotImplementedError

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return public facts about the transformed table, or raise if the step cannot take it.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step.

        Returns
        -------
        RowDomain
            Public.

        Raises
        ------
        ParameterError
            If the step cannot take such tables.
        """
        if self._fills and domain.complete:
            return domain
        takes = f"{type(self).__name__} takes complete rows. Put an imputation before it"
        require(domain.complete or not self._needs_complete, takes)
        complete = domain.complete or self._fills
        return replace(domain, radius=self.radius_after(domain), complete=complete)

    def radius_after(self, domain: RowDomain) -> float:
        """Return a bound on the norm of a transformed row.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step.

        Returns
        -------
        float
            A Euclidean norm.
        """
        return domain.radius

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the conditions of `stability` on both tables.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step.

        Returns
        -------
        tuple of Condition
            Empty if the step changes nothing.
        """
        return () if self._fills and domain.complete else self.assumed(domain)

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the conditions where the step does anything.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step.

        Returns
        -------
        tuple of Condition
            The conditions of a subclass.
        """
        if self._each_by_itself:
            return ()
        raise NotImplementedError

    def distance_to_failure(
        self, values: Floats, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return a private lower bound on the row replacements before `conditions` fail.

        It changes by at most 1 between tables at distance ``incoming``, and is 0 where the
        conditions fail. Raises `UnprovenError` if no such bound is known.

        Parameters
        ----------
        values : ndarray, shape (n_rows, n_columns)
            Private rows that reach the step.
        incoming : TableDistance
            Distance of the tables that reach the step.
        domain : RowDomain
            Public facts about these tables.

        Returns
        -------
        float
            A number of row replacements. Private.
        """
        del values, incoming
        if not any(getattr(c, "about_rows", True) for c in self.conditions(domain)):
            return math.inf
        raise UnprovenError(
            f"{type(self).__name__} has no known distance to failure of its conditions, so "
            "propose-test-release cannot make them unconditional"
        )

    def fit(self, X: Rows, y: object = None) -> Self:  # noqa: ARG002
        """Learn the row function from a private table.

        Parameters
        ----------
        X : array_like of shape (n, d), or Table
            A cell that is not a finite number is missing.
        y : ignored

        Returns
        -------
        StableTransformer
            The step itself.

        Raises
        ------
        ParameterError
            If a parameter is out of range. Only public facts are checked.
        DataError
            If the input is not a table with a row, or has missing cells although the step takes
            complete rows. A `PricedPipeline` fills them before, and a step on its own releases
            nothing.
        SchemaError
            If the step fills a table with an attribute that is not applicable to some rows.
        """
        table = self._checked(X)
        self.n_features_in_ = table.shape[1]
        self._private = self._learn(table)
        return self

    def transform(self, X: Rows) -> Floats:
        """Apply the fitted row function to the rows of a table. The result is private.

        Parameters
        ----------
        X : array_like, shape (n_rows, n_columns), or Table
            Private rows.

        Returns
        -------
        ndarray, shape (n_rows, n_output_columns)
            Private rows.

        Raises
        ------
        DataError
            If the table has another number of columns than the fitted table.
        """
        columns, table = self.n_features_in_, self._checked(X)
        if table.shape[1] != columns:
            raise DataError(f"expected {columns} columns")
        return np.asarray(self._private(table))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the output columns, from public facts only."""
        before = RowDomain(rows=2, columns=self.n_features_in_)
        columns = self.output_domain(before).columns
        if input_features is not None and columns == before.columns:
            return np.asarray(input_features, dtype=object)
        return np.asarray([f"x{i}" for i in range(columns)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_private")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the fitted row function, which is private."""
        learned = ("_private", "n_features_in_")
        return {k: v for k, v in super().__getstate__().items() if k not in learned}

    def _checked(self, X: Rows) -> Floats:
        if self._fills:
            check_fillable(X)
        table = as_rows(X)
        if not len(table):
            raise DataError("expected a table with at least one row")
        if self._needs_complete and np.isnan(table).any():
            raise DataError(f"{type(self).__name__} takes complete rows. Impute first")
        return table

    def _learn(self, table: Floats) -> RowFunction:
        """Return the row function, which is private."""
        raise NotImplementedError


@dataclass(kw_only=True, eq=False, repr=False)
class RowClipper(StableTransformer):
    """Scale every row down to a declared norm.

    Parameters
    ----------
    radius : float, default 1.0
        Largest Euclidean norm of a row's observed part. Public, not read from the data.

    Notes
    -----
    Stability: distances do not grow, since the projection on a ball is 1-Lipschitz and each row
    is mapped on its own. No condition.

    Examples
    --------
    >>> RowClipper(radius=1.0).fit_transform([[3.0, 4.0], [0.0, 0.5]])
    array([[0.6, 0.8],
           [0. , 0.5]])
    """

    radius: float = real(1.0, low=1e-100)

    _needs_complete, _each_by_itself = False, True

    def radius_after(self, domain: RowDomain) -> float:
        """Return the smaller radius."""
        return min(domain.radius, self.radius)

    def _learn(self, table: Floats) -> RowFunction:
        del table
        return lambda rows: clip_rows(rows, self.radius)
