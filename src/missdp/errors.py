"""Typed errors that carry public facts only, and checks of public parameters that raise them.

Every message says what was expected and what to do about it. No message quotes a private value,
a private count or a row number: an error is an output like any other, and it is not noised. So the
checks raise these errors in place of whatever Python would raise, and `replacing` puts one of them
in the place of another library's.
"""

from __future__ import annotations

import contextlib
import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from itertools import islice
from numbers import Integral, Real
from types import TracebackType
from typing import Any

__all__ = [
    "BudgetExceededError",
    "CheckFailedError",
    "DataError",
    "LedgerError",
    "MissDPError",
    "MissDPWarning",
    "MissingDependencyError",
    "NotFittedError",
    "OutputError",
    "ParameterError",
    "SchemaError",
    "SchemaWarning",
    "UnprovenError",
    "WeakGuaranteeWarning",
    "check_epsilon",
    "did_you_mean",
    "import_optional",
    "names_of",
    "number",
    "replacing",
    "whole",
]


class MissDPError(Exception):
    """Base class of every error this library raises on purpose.

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


class LedgerError(MissDPError):
    """The ledger cannot be used, was changed, or refuses the request: nothing is released."""


class NotFittedError(MissDPError, ValueError, AttributeError):
    """The estimator has not been fitted yet."""


class OutputError(MissDPError, OSError):
    """An output file cannot be written; no partial file is left behind."""


class CheckFailedError(MissDPError, AssertionError):
    """What was checked by `missdp.testing` does not keep a promise; lists what, and what to do."""


class MissDPWarning(UserWarning):
    """Base class of every warning of this library. Public facts only, like its errors."""


class SchemaWarning(MissDPWarning):
    """The public facts of a schema are valid, and probably not what was meant."""


class WeakGuaranteeWarning(MissDPWarning):
    """The numbers of a guarantee are too large to mean much."""


class MissingDependencyError(MissDPError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""


class replacing(AbstractContextManager[None]):  # noqa: N801 - reads as a statement: with replacing(...)
    """Replace errors of other libraries, which may quote private values, by one of ours.

    The new error has neither ``__cause__`` nor ``__context__``: ``raise ... from None`` would only
    hide the original from a printed traceback, and a logger or debugger would still show it.

    Parameters
    ----------
    *kinds : type of exception
        What to replace; anything else passes through.
    by : MissDPError or callable
        The error to raise instead, or a function from the original error to it, which may use
        public facts only (for example ``strerror`` of an ``OSError``).

    Examples
    --------
    >>> try:
    ...     with replacing(ValueError, by=DataError("a cell is not a number")):
    ...         float("a private value")
    ... except DataError as error:
    ...     print(error, error.__context__, error.__cause__)
    a cell is not a number None None
    """

    def __init__(
        self, *kinds: type[BaseException], by: MissDPError | Callable[[BaseException], MissDPError]
    ) -> None:
        self._kinds = kinds
        self._by = by

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise the replacement, with no trace of the original."""
        del kind, traceback
        if error is None or not isinstance(error, self._kinds):
            return
        fresh = self._by if isinstance(self._by, MissDPError) else self._by(error)
        try:
            raise fresh
        except MissDPError:
            fresh.__cause__ = fresh.__context__ = None
            raise


EXTRA_OF: Mapping[str, str] = {
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "plot",
    "opacus": "neural",
    "polars": "polars",
    "psycopg": "ledger",
    "pyreadstat": "stat",
    "pyspark": "spark",
    "python_calamine": "excel",
    "sklearn": "learners",
    "torch": "neural",
    "xlsxwriter": "excel",
}
"""Optional packages by the name of their module, each with the extra that installs it."""


def import_optional(name: str, *, purpose: str) -> Any:
    """Import a module of an optional package, or name the extra that installs the package.

    Every import of an optional package goes through this function. A missing package is then a
    typed error with a remedy, for every command and every extra.

    Parameters
    ----------
    name : str
        Full name of the module. Its package is listed in ``EXTRA_OF``.
    purpose : str
        The feature that needs the package, in the plural. It begins the message.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    MissingDependencyError
        If the package cannot be imported.

    Examples
    --------
    >>> EXTRA_OF["matplotlib"]
    'plot'
    >>> import_optional("matplotlib", purpose="pictures").__name__  # doctest: +SKIP
    'matplotlib'
    """
    package = name.partition(".")[0]
    absent = MissingDependencyError(
        f"{purpose} need the optional package {package}, which is not installed; "
        f"run pip install 'missdp[{EXTRA_OF[package]}]'"
    )
    with replacing(ImportError, by=absent):
        return import_module(name)


def did_you_mean(
    name: object, known: Iterable[object], *, synonyms: Mapping[str, object] | None = None
) -> str:
    """Return a sentence that proposes the known name most like an unknown one, or empty text.

    Parameters
    ----------
    name : object
        What was written.
    known : iterable
        **Public** names only: of attributes, declared levels, parameters. Never names from the
        data: a file without a header has private cells in its first line.
    synonyms : mapping of str to object, optional
        Other words for a known name: ``{"average": "mean"}``.

    Returns
    -------
    str
        The sentence with the full stop before it. It ends the message.

    Examples
    --------
    >>> did_you_mean("agee", ["sex", "age"]), did_you_mean("town", ["sex", "age"])
    (". Did you mean 'age'?", '')
    >>> did_you_mean("averge", ["mean", "sd"], synonyms={"average": "mean"})
    ". Did you mean 'mean'?"
    """
    among = {str(one).casefold(): one for one in islice(known, _MOST_NAMES)}
    among = {**(synonyms or {}), **among}
    near = difflib.get_close_matches(str(name).casefold(), among, n=1)
    return f". Did you mean {among[near[0]]!r}?" if near else ""


_MOST_NAMES = 10_000  # that are compared, each with time that grows with its length


def whole(name: str, value: Any, *, least: int = 1) -> int:
    """Return a parameter that must be a whole number of at least ``least``.

    >>> whole("rows", 3.0)
    3
    """
    if isinstance(value, bool) or not (isinstance(value, Integral) or _finite(value) is not None):
        raise ParameterError(f"{name} must be a whole number")
    found = int(value)
    if value != found or found < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}")
    return found


def check_bounded_integer(name: str, value: object, *, least: int = 1) -> int:
    """Return a whole number, which is no larger than floating-point numbers are.

    Parameters
    ----------
    name : str
        How the message names it.
    value : int
        What was given.
    least : int, default 1
        The smallest number that is valid.

    Returns
    -------
    int

    Raises
    ------
    ParameterError
        If the value is not a whole number, or too small or too large.
    """
    number(name, value, most=math.inf)
    return whole(name, value, least=least)


MIN_EPSILON = 1e-6  # below it, the noise of a fit leaves the range that is drawn exactly
MAX_EPSILON = 1e4  # above it, noise no longer protects anybody


def check_epsilon(epsilon: Any, name: str = "epsilon") -> None:
    """Raise an error unless an epsilon is within the limits of fits and queries.

    Parameters
    ----------
    epsilon : float
        The privacy budget of one fit or query.
    name : str, default "epsilon"
        How the message names it.

    Raises
    ------
    ParameterError
        If it is not a number between 1e-6 and 10,000.

    Examples
    --------
    >>> check_epsilon(1.0)
    """
    found = _finite(epsilon)
    if found is None:
        raise ParameterError(f"{name} must be a finite number. Values around 1 are typical.")
    if not MIN_EPSILON <= found <= MAX_EPSILON:
        raise ParameterError(
            f"{name} must be between 1e-6 and {MAX_EPSILON:,.0f}; got {found:g}. "
            "Values around 1 are typical."
        )


def one_of(name: str, value: Any, known: Iterable[object]) -> Any:
    """Return a parameter that must be one of a few values."""
    among = tuple(known)
    if value not in among:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, among))}, got {value!r}")
    return value


def names_of(what: str, names: str | Iterable[str]) -> tuple[str, ...]:
    """Return one name, or several, as a tuple.

    >>> names_of("attributes", "age"), names_of("attributes", ["age", "sex"])
    (('age',), ('age', 'sex'))
    """
    wrong = ParameterError(f"{what} are given by name")
    given: tuple[str, ...] = ()
    with replacing(TypeError, by=wrong):
        given = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in given):
        raise wrong
    return given


def number(
    name: str,
    value: Any,
    *,
    least: float = 0.0,
    most: float = 1e100,
    open_end: bool = False,
    below: bool = False,
) -> float:
    """Return a parameter that must be a number in ``[least, most]``.

    It must be above ``least`` if that is an ``open_end``, and ``below`` the most if that is said.

    >>> number("share", 0.5, most=1.0)
    0.5
    """
    found = _finite(value)
    if found is None:
        raise ParameterError(f"{name} must be a finite number")
    if open_end and found <= least:
        raise ParameterError(f"{name} must be above {least:g}")
    if below and not least <= found < most:
        raise ParameterError(f"{name} must be at least {least:g} and below {most:g}")
    if not least <= found <= most:
        within = f"between {least:g} and {most:g}" if most < math.inf else f"at least {least:g}"
        raise ParameterError(f"{name} must be {within}")
    return found


def _finite(value: Any) -> float | None:
    """Return a real number as a float; None for anything else, and for what is too large."""
    if isinstance(value, bool) or not isinstance(value, (float, Real)):  # float first: it is quick
        return None
    with contextlib.suppress(OverflowError):
        found = float(value)
        return found if math.isfinite(found) else None
    return None


# Each returns the value of a name as a float, and refuses what is not finite or not in the range.
check_positive = partial(number, most=math.inf, open_end=True)
check_nonnegative = partial(number, most=math.inf)
check_fraction = partial(number, most=1.0)
check_delta = partial(number, most=1.0, below=True)
