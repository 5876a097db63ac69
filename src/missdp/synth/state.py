"""What a fit leaves behind, taken over whole or forgotten whole; copies and pickles of it."""

from __future__ import annotations

import copy
from typing import Any, Self

from sklearn.base import BaseEstimator

from missdp.accounting import Budget
from missdp.errors import NotFittedError, ParameterError

__all__ = ["FittedState"]


class FittedState(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """An estimator that is fitted or not, nothing in between."""

    budget: Budget | None
    _learned: tuple[str, ...]

    def _adopt(self, fitted: FittedState) -> None:
        parameters = set(self.get_params(deep=False))
        learned = {k: v for k, v in fitted.__dict__.items() if k not in parameters}
        self.__dict__.update(learned)
        self._learned = tuple(learned)

    def _forget(self) -> None:
        for name in (*self.__dict__.pop("_learned", ()), "_left_budget"):
            self.__dict__.pop(name, None)

    def _check_fit_again(self) -> None:
        if "_left_budget" in self.__dict__ and self.budget is None:
            raise ParameterError(
                "this model was fitted within a shared budget that did not travel with it; to fit "
                "it again, give it one with set_params(budget=...), or clone it to do without"
            )

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):  # what scikit-learn calls fitted
            raise NotFittedError(
                f"this {type(self).__name__} has no {name!r}: it is not fitted yet; call fit first"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        """State to pickle: of a fitted model everything but its budget."""
        state = dict(super().__getstate__())
        if "guarantee_" in state and state.get("budget") is not None:
            state |= {"budget": None, "_left_budget": True}
        return state

    def __copy__(self) -> Self:
        """Copy that shares everything, the budget included."""
        another = type(self).__new__(type(self))
        another.__dict__.update(self.__dict__)
        return another

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all but the budget, which is shared."""
        another = type(self).__new__(type(self))
        memo[id(self)] = another
        another.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return another

    def _check_fitted(self) -> None:
        if "guarantee_" not in self.__dict__:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
