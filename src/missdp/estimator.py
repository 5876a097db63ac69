"""Parameters as scikit-learn's estimators have them, without importing scikit-learn first."""

from __future__ import annotations

import copy
import html
from contextlib import suppress
from inspect import Parameter, signature
from typing import Any, Self

from missdp.errors import ParameterError, did_you_mean

__all__ = ["Estimator", "Transformer", "clone"]


def clone(value: Any) -> Any:
    """Return an unfitted estimator with the same parameters; a budget stays the same one."""
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
    """What scikit-learn asks of an estimator; its own base class takes half a second to import."""

    @classmethod
    def _parameters(cls) -> dict[str, Parameter]:
        """Return the parameters of the constructor, in alphabetical order."""
        found = signature(cls.__init__).parameters
        return {name: found[name] for name in sorted(found) if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` is for scikit-learn, and changes nothing here."""
        del deep
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; if there is none of such a name nothing is changed."""
        known = self._parameters()
        for name in params:
            if name not in known:
                raise ParameterError(
                    f"{type(self).__name__} has no parameter {name!r}{did_you_mean(name, known)}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Show the parameters that are not those by default."""
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
    """What steps need of scikit-learn's class of a similar name where that is not installed."""

    def fit_transform(self: Any, X: Any, y: object = None) -> Any:
        """Learn from a table, and transform it."""
        return self.fit(X, y).transform(X)
