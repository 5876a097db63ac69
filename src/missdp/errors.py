"""Typed errors that carry public facts only.

Every message says what was expected and what to do about it. No message quotes a private value,
a private count or a row number: an error is an output like any other, and it is not noised.
"""

from __future__ import annotations

__all__ = [
    "BudgetExceededError",
    "DataError",
    "MissDPError",
    "MissingDependencyError",
    "NotFittedError",
    "OutputError",
    "ParameterError",
    "SchemaError",
    "UnprovenError",
]


class MissDPError(Exception):
    """Base class of every error this library raises on purpose.

    Examples
    --------
    >>> from missdp.errors import MissDPError, SchemaError
    >>> issubclass(SchemaError, MissDPError)
    True
    """


class SchemaError(MissDPError, ValueError):
    """The schema (public facts about columns) is invalid, incomplete or not declared public."""


class DataError(MissDPError, ValueError):
    """The table does not fit its schema, or a file cannot be read. Never quotes a value."""


class ParameterError(MissDPError, ValueError):
    """A parameter of a mechanism, estimator or command is out of its range."""


class UnprovenError(MissDPError, ValueError):
    """No bound is proven for this combination, so the library refuses to state one."""


class BudgetExceededError(MissDPError):
    """The privacy budget cannot afford the release; nothing was computed or recorded."""


class NotFittedError(MissDPError, ValueError, AttributeError):
    """The estimator has not been fitted yet."""


class OutputError(MissDPError, OSError):
    """An output file cannot be written; no partial file is left behind."""


class MissingDependencyError(MissDPError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""
