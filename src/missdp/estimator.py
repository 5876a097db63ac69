"""Base classes with the parameters of scikit-learn's estimators, without importing scikit-learn."""

from __future__ import annotations

import copy
import html
from contextlib import suppress
from inspect import Parameter, signature
from typing import Any, Self

from missdp.errors import ParameterError, did_you_mean

__all__ = ["Estimator", "Transformer", "clone"]


def clone(value: Any) -> Any:
    """Return an unfitted copy of an estimator with equal parameters, like ``sklearn.base.clone``.

    A budget in the parameters is not copied: both estimators share it.

    Parameters
    ----------
    value : object
        An estimator, or a list or tuple of estimators. Other values are copied deeply.

    Returns
    -------
    object
        The copy. Fitted attributes and released values are left out.

    Notes
    -----
    Nothing is read or charged. A fit of the copy charges the shared budget again.

    Examples
    --------
    >>> from missdp.estimator import clone
    >>> from missdp import AllPairs
    >>> from missdp.accounting import Filter
    >>> model = AllPairs(epsilon=1.0, delta=1e-6, budget=Filter(2.0, 1e-5))
    >>> copied = clone(model)
    >>> copied is model, copied.epsilon, copied.budget is model.budget
    (False, 1.0, True)
    """
    if isinstance(value, (list, tuple)):
        return type(value)(map(clone, value))
    if isinstance(value, type):
        return value
    if hasattr(value, "__sklearn_clone__"):
        return value.__sklearn_clone__()
    if not hasattr(value, "get_params"):
        return copy.deepcopy(value)
    parameters = value.get_params(deep=False).items()
    return type(value)(**{name: clone(parameter) for name, parameter in parameters})


class Estimator:
    """Base class of estimators, with the parameter methods of scikit-learn.

    A subclass stores each parameter of its constructor in an attribute of the same name.
    The package scikit-learn is not needed, since its base class takes half a second to import.

    Notes
    -----
    The class holds public parameters only. It reads no rows and charges nothing.

    Examples
    --------
    >>> from missdp.estimator import Estimator
    >>> class Doubler(Estimator):
    ...     def __init__(self, times=2):
    ...         self.times = times
    >>> Doubler().set_params(times=4).get_params()
    {'times': 4}
    """

    @classmethod
    def _parameters(cls) -> dict[str, Parameter]:
        """Return the parameters of the constructor, in alphabetical order."""
        parameters = signature(cls.__init__).parameters
        return {name: parameters[name] for name in sorted(parameters) if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the estimator by name, as scikit-learn expects.

        Parameters
        ----------
        deep : bool, default True
            Without effect. It exists for scikit-learn.

        Returns
        -------
        dict of str to object
            The values of all constructor parameters, sorted by name. A seed (``random_state``)
            must not be published: see `Synthesizer.public_parameters`.
        """
        del deep
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters of the estimator by name, as scikit-learn expects.

        Parameters
        ----------
        **params : object
            The new values by name. They are checked when the estimator is fitted.

        Returns
        -------
        Estimator
            The estimator itself.

        Raises
        ------
        ParameterError
            If a name is unknown. No parameter is changed.

        Examples
        --------
        >>> from missdp import AllPairs
        >>> AllPairs(epsilon=1.0).set_params(epsilon=0.5).epsilon
        0.5
        """
        names = self._parameters()
        for name in params:
            if name not in names:
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {name!r}{did_you_mean(name, names)}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Show the parameters that differ from their defaults."""
        shown = (
            f"{name}={value!r}"
            for name, parameter in self._parameters().items()
            if repr(value := getattr(self, name)) != repr(parameter.default)
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        with suppress(ImportError):  # scikit-learn is an extra
            from sklearn.utils import estimator_html_repr

            return str(estimator_html_repr(self))
        return f"<pre>{html.escape(repr(self))}</pre>"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)


class Transformer:
    """Base class of preprocessing steps, which add ``fit_transform`` to ``fit`` and ``transform``.

    It replaces scikit-learn's mixin. A subclass defines ``fit`` and ``transform``.

    Notes
    -----
    The class reads no rows and charges nothing. The budget of a subclass pays in ``fit``.

    Examples
    --------
    >>> from missdp.estimator import Transformer
    >>> class Adder(Transformer):
    ...     def fit(self, X, y=None):
    ...         return self
    ...     def transform(self, X):
    ...         return [x + 1 for x in X]
    >>> Adder().fit_transform([1, 2])
    [2, 3]
    """

    def fit_transform(self: Any, X: Any, y: object = None) -> Any:
        """Fit this preprocessing step to a table, and return the transformed table.

        Parameters
        ----------
        X : array of float, shape (n_rows, n_columns)
            The table. Private, if the step is fitted with a budget.
        y : object, optional
            Passed to ``fit``.

        Returns
        -------
        ndarray of float, shape (n_rows, n_new_columns)
            The transformed table, with one row for each row of ``X``. As private as ``X``.
        """
        return self.fit(X, y).transform(X)
