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
    """Return an unfitted estimator with equal parameters. A budget is not copied."""
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
    """Base class of estimators. The class of scikit-learn takes half a second to import."""

    @classmethod
    def _parameters(cls) -> dict[str, Parameter]:
        """Return the parameters of the constructor, in alphabetical order."""
        parameters = signature(cls.__init__).parameters
        return {name: parameters[name] for name in sorted(parameters) if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name. ``deep`` has no effect and is for scikit-learn."""
        del deep
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name, or raise an error and change none if a name is unknown."""
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
    """Base class of steps, in place of scikit-learn's mixin if scikit-learn is not installed."""

    def fit_transform(self: Any, X: Any, y: object = None) -> Any:
        """Fit to a table, and transform the table."""
        return self.fit(X, y).transform(X)
