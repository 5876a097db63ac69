"""Steps of preprocessing: their base class, their conditions, and the step that clips rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass, replace
from string import Formatter
from types import SimpleNamespace
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
    """Base class of conditions under which the influence of one row on a step is bounded.

    A condition is a public sentence with numbers. It is stated with the guarantee and is not
    checked against the private table. Propose-test-release (`propose_test_release`) replaces some
    conditions by a private test.

    Attributes
    ----------
    about_rows : bool
        Class attribute. True if the condition is about the private table, so that a private test
        can replace it. False if it is about the circumstances of the release.

    Examples
    --------
    >>> from missdp.pricing import IncompleteRows
    >>> print(IncompleteRows(10, 1))
    At most 10 rows have a missing cell, and none has more than 1.
    """

    about_rows: ClassVar[bool] = True


def _condition(
    name: str, sentence: str, summary: str, stated_by: str, *example: float, **meaning: str
) -> Any:
    """Return the class of a condition. Fields with a format are floats, and others integers.

    Parameters
    ----------
    name : str
        Name of the class.
    sentence : str
        The condition, in which fields are named as in a format of text.
    summary : str
        The condition in few words, for the first sentence of the docstring.
    stated_by : str
        Sentence for the docstring with the steps or fits that state the condition.
    *example : float
        Values of the fields in the example of the docstring.
    **meaning : str
        Meaning of each field, with its unit and range.

    Returns
    -------
    type
        A subclass of `StepCondition`.
    """
    named = {at[2:]: form for _, at, form, _ in Formatter().parse(sentence) if at}
    fields = [(at, float if form else int) for at, form in named.items()]
    shown = re.sub(r"\{0\.(\w+)[^}]*\}", r"``\1``", sentence)
    lines = [f"Condition of a guarantee: {summary}.", "", f"Its text is: {shown}", "", stated_by]
    lines += ["It is stated with the guarantee and is not checked against the table."]
    if fields:
        lines += ["", "Parameters", "----------"]
        lines += [f"{at} : {kind.__name__}\n    {meaning[at]}" for at, kind in fields]
        lines += ["", "Raises", "------", "ParameterError\n    If a field has the wrong type."]
    printed = sentence.format(SimpleNamespace(**dict(zip(named, example, strict=True))))
    made = f"{name}({', '.join(map(repr, example))})"
    example_lines = f">>> from missdp.pricing import {name}\n>>> print({made})\n{printed}"
    lines += ["", "Examples", "--------", example_lines]
    facts = {"sentence": sentence, "__doc__": "\n".join(lines), "__module__": __name__}
    return make_dataclass(name, fields, bases=(StepCondition,), namespace=facts, frozen=True)


NotFittedOnThisTable = _condition(
    "NotFittedOnThisTable",
    "No preprocessing of these rows was fitted on the same table.",
    "no preprocessing was fitted to the same private table",
    "A private estimator that is fitted outside of a pipeline states it.",
)
ModelPaidApart = _condition(
    "ModelPaidApart",
    "The imputer's model was not fitted to these rows, or its own guarantee is composed with this "
    "one.",
    "the model of an imputer is accounted for separately",
    "`DPImputer` states it as a step of a pipeline.",
)
ModelPaidApart.about_rows = False
SeededFilling = _condition(
    "SeededFilling",
    "WARNING: missing cells were filled with seeded random numbers in the order of rows. Nothing "
    "is proven against anyone who knows the seed.",
    "missing cells were filled by a seed, which is for tests only",
    "`DPImputer` with a seed states it as a step of a pipeline.",
)
SeededFilling.about_rows = False
IncompleteRows = _condition(
    "IncompleteRows",
    "At most {0.at_most} rows have a missing cell, and none has more than {0.cells_per_row}.",
    "few rows have missing cells, and each row has few",
    "Imputations that are fitted to the table state it.",
    10,
    1,
    at_most="Largest number of rows with a missing cell, at least 1.",
    cells_per_row="Largest number of missing cells in one row, at least 1.",
)
CentralGaps = _condition(
    "CentralGaps",
    "In every column, consecutive observed values differ by at most {0.at_most:.6g} within "
    "{0.ranks} ranks of the median.",
    "values near the median of each column are close together",
    "`MedianImputer` states it.",
    0.1,
    2,
    at_most="Largest gap of consecutive observed values, at least 0, in the units of the column.",
    ranks="Number of ranks on either side of the median, at least 1.",
)
TrimmedRange = _condition(
    "TrimmedRange",
    "In every column, the {0.trim}-th smallest and {0.trim}-th largest observed values differ by "
    "at most {0.at_most:.6g}.",
    "the values that trimming retains in each column have a small range",
    "`TrimmedMeanImputer` states it.",
    20,
    0.5,
    trim="Number of observed values that are dropped at either end of a column, at least 1.",
    at_most="Largest difference of these two values, at least 0, in the units of the column.",
)
MinEigenvalue = _condition(
    "MinEigenvalue",
    "The second-moment matrix of the regression's predictors, summed over the rows with an "
    "observed target and divided by n, has no eigenvalue below {0.at_least:.6g}.",
    "predictors of a regression are not nearly dependent",
    "`RegressionImputer` states it.",
    0.01,
    at_least="Smallest eigenvalue, above 0, in squared units of the columns.",
)
BoundedDonations = _condition(
    "BoundedDonations",
    "No row is a donor of more than {0.at_most} incomplete rows.",
    "no row is a donor of many incomplete rows",
    "`NeighbourImputer` states it.",
    3,
    at_most="Largest number of incomplete rows that one row is a donor of, at least 0.",
)
# The number of clusters that meet has a packing bound, unless it is declared.
LargestCluster = _condition(
    "LargestCluster",
    "No good cluster of radius {0.radius:.6g} has more than {0.at_most} rows, and no point is "
    "within three such radii of the centres of more than {0.neighbours} good clusters, whichever "
    "rows are removed.",
    "isolated clusters of rows are small, and few are near a point",
    "`Quantizer` and `Deduplicator` state it, and define good clusters.",
    0.1,
    10,
    5,
    radius="Cluster radius, a Euclidean distance above 0 in the units of the columns.",
    at_most="Largest number of rows in a good cluster, at least 1.",
    neighbours="Largest number of good clusters near one point, at least 1.",
)
ExtremeGaps = _condition(
    "ExtremeGaps",
    "In every column, consecutive values differ by at most {0.at_most:.6g} in each of the "
    "{0.ranks} outermost gaps, at either end.",
    "the largest and smallest values of each column are close together",
    "`MinMaxScaler` states it.",
    0.05,
    1,
    at_most="Largest gap of consecutive values, at least 0, in the units of the column.",
    ranks="Number of gaps at either end of a column, at least 1.",
)
MinRange = _condition(
    "MinRange",
    "In every column, maximum and minimum differ by at least {0.at_least:.6g}.",
    "maximum and minimum of each column differ enough",
    "`MinMaxScaler` states it.",
    0.5,
    at_least="Smallest range of a column, above 0, in its units.",
)
MinStandardDeviation = _condition(
    "MinStandardDeviation",
    "Every column that is scaled has a standard deviation of at least {0.at_least:.6g}.",
    "no scaled column has a small standard deviation",
    "`StandardScaler` states it.",
    0.3,
    at_least="Smallest standard deviation, above 0, in the units of the column.",
)
CovarianceGap = _condition(
    "CovarianceGap",
    "The gap between the {0.k} largest eigenvalues and all others of the covariance matrix that "
    "PCA sees is at least {0.at_least:.6g}.",
    "two eigenvalues of the covariance matrix differ enough",
    "`PCARankReducer` and `PCADimensionReducer` state it.",
    2,
    0.1,
    k="Number of principal components, at least 1.",
    at_least="Smallest gap of eigenvalues, above 0, in squared units of the columns.",
)
FrameOverlap = _condition(
    "FrameOverlap",
    "Every direction of the public reference frame has a cosine of at least {0.at_least:.6g} with "
    "the principal subspace.",
    "principal components are near public reference directions",
    "`PCADimensionReducer` states it.",
    0.5,
    at_least="Smallest cosine, without unit, in (0, 1].",
)

RowFunction: TypeAlias = Callable[[Floats], Floats]


class Response(NamedTuple):
    """Public bound on the difference of output rows when a step is fitted on two different tables.

    The fitted step maps a row x to f(x). If it is fitted on a neighbouring table, it maps the
    corresponding row x' to f'(x'). For Euclidean norms, |f(x) - f'(x')| <= lipschitz |x - x'| +
    shift. `StableTransformer.response` returns this bound.

    Parameters
    ----------
    lipschitz : float, default 1.0
        Factor by which the step can stretch the distance between two rows, at least 0.
    shift : float, default 0.0
        Largest Euclidean distance that fitting on the other table adds to one row. At least 0, in
        the units of the output columns.
    shifted_rows : int, default 0
        Number of rows to which ``shift`` applies, at least 0. For all other rows the shift is 0.
    diameter : float, default infinity
        Largest Euclidean distance between any two output rows, at least 0.

    Examples
    --------
    >>> from missdp.pricing import Response
    >>> Response(shift=0.1, shifted_rows=5).lipschitz
    1.0
    """

    lipschitz: float = 1.0
    shift: float = 0.0
    shifted_rows: int = 0
    diameter: float = math.inf


class StableTransformer(TransformerMixin, Parameters):  # type: ignore[misc]
    """Base class of preprocessing steps with a proven bound on their effect on neighbouring tables.

    A step is fitted on a private table without noise, and then maps each row to a row. Two
    neighbouring tables differ in one replaced row. The bound limits how far the other rows of the
    transformed tables differ (`stability`). Use steps in a `PricedPipeline`, whose guarantee
    accounts for them. Only the private estimator at the end of the pipeline releases an output.

    The fitted step is private, and so is the transformed table. The fitted function is not a public
    attribute, and it is not in the repr or in the pickle of the step.

    Attributes
    ----------
    n_features_in_ : int
        After `fit`: number of columns of the fitted table. Public.

    Raises
    ------
    ParameterError
        If a parameter is out of range. It is checked whenever it is set.

    Notes
    -----
    A subclass is a dataclass of its parameters (keyword-only, compared by identity). It defines
    ``_learn``, which returns the private row function that is fitted to a table. It also defines
    `response`, `radius_after` and `assumed`, which read public facts alone. `assumed` returns the
    conditions of the bound. Conditions are not checked against the table, because an error would
    reveal something about it. So a fit raises no error for any complete table of the declared shape
    and domain. Propose-test-release checks conditions privately, by `distance_to_failure`.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), §4.1.

    Examples
    --------
    >>> from missdp.pricing import MeanImputer, NEIGHBOURS, RowDomain, StableTransformer
    >>> step = MeanImputer(max_incomplete=10)
    >>> isinstance(step, StableTransformer)
    True
    >>> domain = RowDomain(rows=1000, columns=1, complete=False)
    >>> step.stability(NEIGHBOURS, domain).shifted_rows
    10
    >>> step.fit_transform([[0.1], [float("nan")], [0.3]]).round(6).tolist()
    [[0.1], [0.2], [0.3]]
    """

    _needs_complete: ClassVar[bool] = True
    # Every missing cell gets a value: rows of a complete domain stay, nothing is assumed of them.
    _fills: ClassVar[bool] = False
    # The output of a row does not depend on other rows, and is no further from its counterpart.
    _each_by_itself: ClassVar[bool] = False
    # False: a small movement can change which rows go together, so moved rows count as replaced.
    _continuous: ClassVar[bool] = True

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return a bound on the difference of two tables after a preprocessing step.

        The bound holds if both tables are in ``domain``, satisfy `conditions`, and differ by at
        most ``distance``.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables that reach the step.
            `NEIGHBOURS` stands for one replaced row.
        domain : RowDomain
            Public facts about both tables: their shape, the largest row norm, and whether cells
            may be missing.

        Returns
        -------
        TableDistance
            Public upper bound on the difference of the two transformed tables.

        Raises
        ------
        UnprovenError
            If no bound is proven for these tables.
        ParameterError
            If the step does not accept tables of this domain.
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
        """Return a bound on the Euclidean distance of outputs, if a step is fitted on two tables.

        Subclasses define this method, unless each output row depends on its own input row alone.

        Parameters
        ----------
        distance : TableDistance
            Public upper bound on the difference between the two tables that reach the step.
            `NEIGHBOURS` stands for one replaced row.
        domain : RowDomain
            Public facts about both tables: their shape, the largest row norm, and whether cells
            may be missing.

        Returns
        -------
        Response
            Public. Its ``shift`` is a Euclidean norm in the units of the output columns, and
            its ``shifted_rows`` is a number of rows.

        Raises
        ------
        UnprovenError
            If no bound is proven for these tables.
        ParameterError
            If the step does not accept tables of this domain.
        NotImplementedError
            If the subclass defines no bound.
        """
        if self._each_by_itself:
            return Response()
        raise NotImplementedError

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return public facts about the table that a preprocessing step returns.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        RowDomain
            Public facts about the transformed table.

        Raises
        ------
        ParameterError
            If the step needs complete rows and cells may be missing. Other facts that the step
            does not accept raise the error, too.
        """
        if self._fills and domain.complete:
            return domain
        takes = f"{type(self).__name__} takes complete rows. Put an imputation before it"
        require(domain.complete or not self._needs_complete, takes)
        complete = domain.complete or self._fills
        return replace(domain, radius=self.radius_after(domain), complete=complete)

    def radius_after(self, domain: RowDomain) -> float:
        """Return a bound on the Euclidean norm of a row after a preprocessing step.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        float
            Public upper bound on the Euclidean norm of a row, in the units of the output columns.
            Above 0.

        Raises
        ------
        ParameterError
            If the step does not accept tables of this domain.
        """
        return domain.radius

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the conditions that a preprocessing step adds to a privacy guarantee.

        Both neighbouring tables must satisfy them.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        tuple of Condition
            Public. Empty for an imputation of complete rows, which changes nothing. The
            conditions are stated with the guarantee and are not checked against the table.

        Raises
        ------
        ParameterError
            If the step does not accept tables of this domain.
        """
        return () if self._fills and domain.complete else self.assumed(domain)

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:  # noqa: ARG002
        """Return the conditions of a guarantee under which the bound of a preprocessing step holds.

        Subclasses define this method, unless each output row depends on its own input row alone.
        `conditions` calls it.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        tuple of Condition
            Public. The conditions are stated with the guarantee and are not checked against the
            table.

        Raises
        ------
        ParameterError
            If the step does not accept tables of this domain.
        NotImplementedError
            If the subclass defines no conditions.
        """
        if self._each_by_itself:
            return ()
        raise NotImplementedError

    def distance_to_failure(
        self, values: Floats, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return how many rows must at least be replaced before the conditions of a step fail.

        The number is 0 where a condition fails. It changes by at most 1 between two tables that
        differ by at most ``incoming``. It is private: propose-test-release adds noise to it.

        Parameters
        ----------
        values : ndarray of float, shape (n_rows, n_columns)
            Private rows that reach the step.
        incoming : TableDistance
            Public upper bound on the difference between two neighbouring tables where they
            reach the step.
        domain : RowDomain
            Public facts about these tables: their shape, the largest row norm, and whether
            cells may be missing.

        Returns
        -------
        float
            A number of row replacements, at least 0. Private.

        Raises
        ------
        UnprovenError
            If the step has conditions on the table and no lower bound is known.
        """
        del values, incoming
        if not any(getattr(c, "about_rows", True) for c in self.conditions(domain)):
            return math.inf
        raise UnprovenError(
            f"{type(self).__name__} has no known distance to failure of its conditions, so "
            "propose-test-release cannot make them unconditional"
        )

    def fit(self, X: Rows, y: object = None) -> Self:  # noqa: ARG002
        """Fit a preprocessing step to a private table, without noise.

        Nothing is charged, because a step on its own releases nothing. The fitted step is private.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_columns), or Table
            Private rows. A cell that is not a finite number is missing. A `Table` is read by
            `rows_of`.
        y : object, optional
            Ignored.

        Returns
        -------
        StableTransformer
            The step itself. Private.

        Raises
        ------
        ParameterError
            If a parameter does not fit the public shape of the table.
        DataError
            If the input is not a table with at least one row and one column. Missing cells
            raise the error, too, if the step needs complete rows. A `PricedPipeline` fills
            missing cells before.
        SchemaError
            If the step fills missing cells of a `Table` with an attribute that is not applicable to
            some rows. A schema with a unit of protection, weights, or facts that are not declared
            public raises the error, too.
        """
        table = self._checked(X)
        self.n_features_in_ = table.shape[1]
        self._private = self._learn(table)
        return self

    def transform(self, X: Rows) -> Floats:
        """Apply a fitted preprocessing step to the private rows of a table.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_columns), or Table
            Private rows, with the columns of the fitted table in their order.

        Returns
        -------
        ndarray of float, shape (n_rows, n_output_columns)
            Private rows, in the order of ``X``.

        Raises
        ------
        NotFittedError
            If the step is not fitted.
        DataError
            If the table has another number of columns than the fitted table, or no row. Missing
            cells raise the error, too, if the step needs complete rows.
        SchemaError
            If a `Table` has facts that are not declared public, a unit of protection or weights. A
            step that fills missing cells also raises it for an attribute that is not applicable to
            some rows.
        """
        columns, table = self.n_features_in_, self._checked(X)
        if table.shape[1] != columns:
            raise DataError(f"expected {columns} columns")
        return np.asarray(self._private(table))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the columns that a fitted preprocessing step returns.

        Parameters
        ----------
        input_features : array_like of str, shape (n_columns,), optional
            Names of the columns of the fitted table. They are kept if the step keeps the number
            of columns.

        Returns
        -------
        ndarray of object, shape (n_output_columns,)
            Public names in column order, otherwise ``x0``, ``x1`` and so on.

        Raises
        ------
        NotFittedError
            If the step is not fitted.
        """
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
    """Preprocessing step that scales long rows down to a declared Euclidean norm.

    Use it before steps whose bounds grow with the norm of a row. Each row is mapped by itself, so
    the step adds nothing to the price of a pipeline and needs no condition.

    Parameters
    ----------
    radius : float, default 1.0
        Largest Euclidean norm of the observed cells of a row, at least 1e-100. Public. It is
        not read from the data. The unit is that of the columns.

    Raises
    ------
    ParameterError
        If the radius is out of range.

    Notes
    -----
    Missing cells stay missing. The projection on a ball is 1-Lipschitz, so distances between rows
    do not grow.

    Examples
    --------
    >>> from missdp.pricing import RowClipper
    >>> RowClipper(radius=1.0).fit_transform([[3.0, 4.0], [0.0, 0.5]])
    array([[0.6, 0.8],
           [0. , 0.5]])
    """

    radius: float = real(1.0, low=1e-100)

    _needs_complete, _each_by_itself = False, True

    def radius_after(self, domain: RowDomain) -> float:
        """Return the bound on a row's Euclidean norm after clipping.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        float
            The smaller of the domain's radius and the parameter ``radius``, in the units of the
            columns. Public.
        """
        return min(domain.radius, self.radius)

    def _learn(self, table: Floats) -> RowFunction:
        del table
        return lambda rows: clip_rows(rows, self.radius)
