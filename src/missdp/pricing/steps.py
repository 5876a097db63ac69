"""Steps of preprocessing: what each must prove, and the two that are free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from missdp.accounting import Condition
from missdp.errors import DataError, NotFittedError, ParameterError, UnprovenError, number, whole
from missdp.pricing.assumptions import IncompleteRows
from missdp.pricing.domain import FloatArray, RowDomain, Rows, as_rows, clip_rows
from missdp.pricing.fillable import check_fillable
from missdp.pricing.maps import TableDistance

__all__ = [
    "ConstantImputer",
    "Imputer",
    "PrivateState",
    "Response",
    "RowClipper",
    "StableTransformer",
    "require",
]


def require(truth: bool, message: str) -> None:
    """Raise ParameterError with ``message`` unless ``truth``."""
    if not truth:
        raise ParameterError(message)


class Response(NamedTuple):
    """How far a step can move rows whose fellow rows have changed.

    Fitted on two tables, a step maps a row x by f and its counterpart x' by f'; then
    |f(x) - f'(x')| <= lipschitz |x - x'| + shift, with a shift of 0 for all but ``hit`` rows. No
    two output rows are farther apart than ``diameter``.
    """

    lipschitz: float = 1.0
    shift: float = 0.0
    hit: int = 0
    diameter: float = math.inf


class PrivateState:
    """Un-noised statistics of a private table: usable by the step, shown to nobody.

    Examples
    --------
    >>> PrivateState({"means": [1.0, 2.0]})
    <private statistics, not shown>
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __repr__(self) -> str:
        return "<private statistics, not shown>"

    def __reduce__(self) -> NoReturn:
        raise DataError("private statistics are not written to a file; fit the step again")


class StableTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base class: row functions fitted on a table, with a proven bound on how neighbours part.

    A step is fitted without noise, so what it has learned is as private as the table: it is kept
    out of the object's public attributes, its repr and its pickle, and the *transformed table is
    private too*. Only a private mechanism at the end of the pipeline makes an output, whose
    guarantee `missdp.pricing.price` computes from `stability`.

    Subclasses are dataclasses of their parameters (keyword-only, compared by identity). They
    implement ``_learn`` and ``_apply``, and state public facts: `response`, `output_domain` and
    `conditions`. Conditions are never checked against the table (failing would reveal something):
    a fit raises for no table of its declared shape and domain. Propose-test-release checks
    conditions privately, with `failure_margin`.

    Notes
    -----
    After Hu, Sanyal & Schölkopf 2024, §4.1.
    """

    _needs_complete: ClassVar[bool] = True
    _fills: ClassVar[bool] = False
    # False: a small movement can change which rows go together, so moved rows count as replaced.
    _continuous: ClassVar[bool] = True

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return a bound on the distance of the transformed tables.

        Parameters
        ----------
        distance : TableDistance
            Bound on the distance of two tables in ``domain`` that satisfy `conditions`.
        domain : RowDomain
            Public facts about both tables.

        Returns
        -------
        TableDistance

        Raises
        ------
        UnprovenError
            If no bound is proven for this input.
        """
        start = distance if self._continuous else distance.forget_movement()
        found = self.response(start, domain)
        if not self._continuous and start.replaced >= domain.rows:
            raise UnprovenError(
                f"{type(self).__name__} is not continuous in the values: after a step that moves "
                "every row, no bound is proven; put it first"
            )
        widest = min(found.diameter, self.output_domain(domain).diameter)
        return start.after(rows=domain.rows, **found._replace(diameter=widest)._asdict())

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return how the rows of two tables at ``distance`` respond."""
        raise NotImplementedError

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return public facts about the transformed table.

        Raises
        ------
        ParameterError
            If the step cannot take tables of this domain.
        """
        raise NotImplementedError

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return what `stability` assumes of both tables; empty if nothing."""
        raise NotImplementedError

    def failure_margin(
        self, values: FloatArray, incoming: TableDistance, domain: RowDomain
    ) -> float:
        """Return a lower bound on the row replacements before `conditions` fail.

        The bound is 1-Lipschitz: it changes by at most 1 between tables at distance ``incoming``,
        and it is 0 where the conditions fail. It is private; propose-test-release releases it
        only through a noisy test.

        Raises
        ------
        UnprovenError
            If the step has conditions and no such bound is known.
        """
        del values, incoming
        if not self.conditions(domain):
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
            NaN is a missing cell, and so is whatever is not a finite number.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            If a parameter is out of range; public facts only.
        DataError
            If the input is no table with a row, or has missing cells where the step takes complete
            rows (`PricedPipeline` fills them before; on its own a step releases nothing).
        SchemaError
            If the step fills a table with an attribute that is not applicable to some rows.
        """
        table = self._checked(X)
        self.n_features_in_ = table.shape[1]
        self._private = PrivateState(self._learn(table))
        return self

    def transform(self, X: Rows) -> FloatArray:
        """Apply the fitted row function. The result is private.

        Parameters
        ----------
        X : array_like of shape (m, d), or Table

        Returns
        -------
        ndarray
            With as many rows as ``X``.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        """
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"{type(self).__name__} is not fitted yet; call fit first")
        table = self._checked(X)
        if table.shape[1] != self.n_features_in_:
            raise DataError(f"expected {self.n_features_in_} columns")
        return self._apply(table, self._private)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the output columns, from public facts only."""
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"{type(self).__name__} is not fitted yet; call fit first")
        count = self.output_domain(RowDomain(rows=2, columns=self.n_features_in_)).columns
        if input_features is not None and count == self.n_features_in_:
            return np.asarray(input_features, dtype=object)
        return np.asarray([f"x{i}" for i in range(count)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_private")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what was learned from the private table."""
        state = dict(super().__getstate__())
        state.pop("_private", None)
        return state

    def _checked(self, X: Rows) -> FloatArray:
        if self._fills:
            check_fillable(X)
        table = as_rows(X)
        if not len(table):
            raise DataError("expected a table with at least one row")
        if self._needs_complete and np.isnan(table).any():
            raise DataError(f"{type(self).__name__} takes complete rows; impute first")
        return table

    def _learn(self, table: FloatArray) -> Mapping[str, Any]:
        del table
        return {}

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        raise NotImplementedError

    def _require_complete(self, domain: RowDomain) -> None:
        if not domain.complete:
            raise ParameterError(
                f"{type(self).__name__} takes complete rows; put an imputation before it"
            )


@dataclass(kw_only=True, eq=False, repr=False)
class RowClipper(StableTransformer):
    """Scale every row down to a declared norm.

    Parameters
    ----------
    radius : float, default 1.0
        Largest Euclidean norm of a row's observed part; public, not read from the data.

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

    radius: float = 1.0

    _needs_complete = False

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return no condition."""
        del domain
        return ()

    def response(self, distance: TableDistance, domain: RowDomain) -> Response:
        """Return that nothing moves further than before."""
        del distance, domain
        return Response()

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return the domain with the smaller radius."""
        return replace(domain, radius=min(domain.radius, self._radius()))

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        del state
        return clip_rows(table, self._radius())

    def _radius(self) -> float:
        return number("radius", self.radius, least=1e-100)


@dataclass(kw_only=True, eq=False, repr=False)
class ConstantImputer(StableTransformer):
    """Fill every missing cell with a declared value.

    Parameters
    ----------
    value : float, default 0.0
        Public; not read from the data.

    Notes
    -----
    Stability: rows with the same missing cells keep their distance, and nothing is fitted. No
    condition, no price: the baseline every fitted imputation has to beat.

    Examples
    --------
    >>> ConstantImputer(value=0.5).fit_transform([[0.1, float("nan")]])
    array([[0.1, 0.5]])
    """

    value: float = 0.0

    _needs_complete, _fills = False, True

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return no condition."""
        del domain
        return ()

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return the distance unchanged."""
        del domain
        return distance

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return a complete domain whose radius allows for a row of imputed cells."""
        if domain.complete:
            return domain
        filled = abs(self._value()) * math.sqrt(domain.columns)
        return replace(domain, radius=math.hypot(domain.radius, filled), complete=True)

    def _apply(self, table: FloatArray, state: PrivateState) -> FloatArray:
        del state
        return np.where(np.isnan(table), self._value(), table)

    def _value(self) -> float:
        return number("value", self.value, least=-1e100)


@dataclass(kw_only=True, eq=False, repr=False)
class Imputer(StableTransformer):
    """Base class of steps that fill the missing cells of a few rows.

    Rows of a complete domain stay as they are: nothing is assumed of them, and nothing moves.

    Parameters
    ----------
    max_incomplete : int
        Condition: at most this many rows have a missing cell (p); at least 1.
    """

    max_incomplete: int

    _needs_complete, _fills = False, True

    def stability(self, distance: TableDistance, domain: RowDomain) -> TableDistance:
        """Return a bound on the distance of the transformed tables."""
        return distance if domain.complete else super().stability(distance, domain)

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the bound on incomplete rows, and what the step assumes besides."""
        besides = self.assumed()
        if domain.complete:
            return ()
        return (IncompleteRows(self._p(domain), self._cells(domain)), *besides)

    def assumed(self) -> tuple[Condition, ...]:
        """Return what the step assumes besides few incomplete rows."""
        return ()

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return a complete domain, with room for imputed cells in the norm of a row."""
        if domain.complete:
            return domain
        return replace(domain, radius=self.filled_radius(domain), complete=True)

    def filled_radius(self, domain: RowDomain) -> float:
        """Return a bound on the norm of a row whose missing cells are filled."""
        raise NotImplementedError

    def _p(self, domain: RowDomain) -> int:
        p = whole("max_incomplete", self.max_incomplete)
        require(p < domain.rows, "max_incomplete must be below the row count")
        return p

    def _cells(self, domain: RowDomain) -> int:
        """Bound on the missing cells of one row."""
        return domain.columns
