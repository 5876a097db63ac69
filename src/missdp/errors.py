"""Typed errors with public facts only, and checks of public parameters that raise them.

Every message states the problem and a remedy. An error is an output without noise. So no message
quotes a private value, a private count or a row number. The checks raise these errors in place of
Python's errors, and `replacing` replaces errors of other libraries by these errors.
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
    "check_integer",
    "check_number",
    "did_you_mean",
    "import_optional",
    "names_of",
    "replacing",
]


class MissDPError(Exception):
    """Base class of all errors that this library raises on purpose.

    Catch it to handle every typed error of the library. Messages quote public facts only.

    Examples
    --------
    >>> from missdp.errors import MissDPError, SchemaError
    >>> issubclass(SchemaError, MissDPError)
    True
    """


class SchemaError(MissDPError, ValueError):
    """Error of a schema (public facts about columns) that is invalid, incomplete or not public.

    It is also a ``ValueError``. Functions that read a schema, or a table by a schema, raise it.

    Examples
    --------
    >>> from missdp.errors import SchemaError
    >>> from missdp import Categorical
    >>> try:
    ...     Categorical(name="sex", levels=("f", "f"))
    ... except SchemaError as error:
    ...     print(error)
    attribute 'sex': levels must be distinct
    """


class DataError(MissDPError, ValueError):
    """Error of a table that does not fit its schema, or of a file that cannot be read.

    It is also a ``ValueError``. The message never quotes a private value. The guarantee does not
    cover this error, since its cause may be a private row.

    Examples
    --------
    >>> from missdp.errors import DataError
    >>> from missdp import Categorical, Schema, Table
    >>> schema = Schema((Categorical(name="sex", levels=("f", "m")),))
    >>> try:
    ...     Table.read({"age": [31]}, schema)
    ... except DataError:
    ...     print("the table has other columns than the schema")
    the table has other columns than the schema
    """


class ParameterError(MissDPError, ValueError):
    """Error of a parameter of a function, estimator or command that is invalid or out of range.

    It is also a ``ValueError``. The message quotes public parameters only.

    Examples
    --------
    >>> from missdp.errors import check_integer
    >>> check_integer("rows", 0)
    Traceback (most recent call last):
        ...
    missdp.errors.ParameterError: rows must be a whole number of at least 1
    """


class UnprovenError(MissDPError, ValueError):
    """Error of a combination of releases or facts for which no privacy bound is proven.

    It is also a ``ValueError``. The library states no guarantee in this case.

    Examples
    --------
    >>> from missdp.errors import UnprovenError
    >>> from missdp.accounting import PureEvent, epsilon_of
    >>> events = [PureEvent(epsilon=1.0), PureEvent(epsilon=1.0, adjacency="replace-one")]
    >>> try:
    ...     epsilon_of(events, 0.0)
    ... except UnprovenError:
    ...     print("the events mix adjacencies")
    the events mix adjacencies
    """


class BudgetExceededError(MissDPError):
    """Error of a release that the remaining privacy budget cannot pay for.

    Nothing was computed from private rows for the release, and nothing was charged.

    Examples
    --------
    >>> from missdp.errors import BudgetExceededError
    >>> from missdp.accounting import Filter, PureEvent
    >>> try:
    ...     Filter(1.0).charge(PureEvent(epsilon=2.0))
    ... except BudgetExceededError:
    ...     print("nothing was charged")
    nothing was charged
    """


class LedgerError(MissDPError):
    """Error of a ledger (a database of privacy budgets) that cannot be used or was changed.

    It is also raised for a request that the ledger does not accept. Nothing is released.

    Examples
    --------
    >>> from missdp.errors import LedgerError
    >>> import tempfile
    >>> from missdp.governance import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db", who="ada")
    >>> try:
    ...     ledger.abandon("0" * 32)
    ... except LedgerError:
    ...     print("the ledger has no such request")
    the ledger has no such request
    """


class NotFittedError(MissDPError, ValueError, AttributeError):
    """Error of using an estimator or synthesizer before it was fitted.

    It is also a ``ValueError`` and an ``AttributeError``, as scikit-learn expects.

    Examples
    --------
    >>> from missdp.errors import NotFittedError
    >>> from missdp import AllPairs
    >>> try:
    ...     AllPairs(epsilon=1.0).sample(10)
    ... except NotFittedError:
    ...     print("call fit first")
    call fit first
    """


class OutputError(MissDPError, OSError):
    """Error of an output file that cannot be written. No partial file remains.

    It is also an ``OSError``. Commands raise it before any budget is charged where this is
    possible.

    Examples
    --------
    >>> from missdp.errors import OutputError
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((Categorical(name="sex", levels=("f", "m")),))
    >>> try:
    ...     schema.to_toml("/no-such-folder/schema.toml")
    ... except OutputError:
    ...     print("no file was written")
    no file was written
    """


class CheckFailedError(MissDPError, AssertionError):
    """Error of a synthesizer or mechanism that fails a check of `missdp.testing`.

    It is also an ``AssertionError``. The message lists the broken promises and remedies.

    Examples
    --------
    >>> from missdp.errors import CheckFailedError
    >>> issubclass(CheckFailedError, AssertionError)
    True
    """


class MissDPWarning(UserWarning):
    """Base class of all warnings of this library.

    It is a ``UserWarning``. Messages quote public facts only.

    Examples
    --------
    >>> from missdp.errors import MissDPWarning, SchemaWarning
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", MissDPWarning)  # warnings of this library become errors
    >>> issubclass(SchemaWarning, MissDPWarning)
    True
    """


class SchemaWarning(MissDPWarning):
    """Warning that the public facts of a schema are valid, but probably not intended.

    An example is a set of rules that hardly any row can obey. The message quotes public facts only.

    Examples
    --------
    >>> import warnings
    >>> from missdp import Numeric, Schema
    >>> from missdp.schema import Always
    >>> columns = tuple(Numeric(name=n, lower=0, upper=99, integer=True) for n in "abcdefgh")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     schema = Schema(columns, (Always("a < b and b < c and c < d and d < e and e < f"),))
    >>> caught[0].category.__name__
    'SchemaWarning'
    """


class WeakGuaranteeWarning(MissDPWarning):
    """Warning that the epsilon or delta of a guarantee is too large for useful protection.

    `missdp.words.warn_if_weak` states the limits.

    Examples
    --------
    >>> import warnings
    >>> from missdp.words import warn_if_weak
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_if_weak(20.0)
    >>> caught[0].category.__name__
    'WeakGuaranteeWarning'
    """


class MissingDependencyError(MissDPError, ImportError):
    """Error of a feature whose optional package is not installed.

    It is also an ``ImportError``. The message names the extra of ``pip install`` that installs the
    package.

    Examples
    --------
    >>> from missdp.errors import MissingDependencyError
    >>> try:
    ...     raise MissingDependencyError("Excel files need pip install 'missdp[excel]'")
    ... except ImportError as error:
    ...     print(error)
    Excel files need pip install 'missdp[excel]'
    """


class replacing(AbstractContextManager[None]):  # noqa: N801 - reads as a statement: with replacing(...)
    """Context manager that replaces errors of other libraries by a typed error of this library.

    Errors of other libraries may quote private values. The new error has neither ``__cause__`` nor
    ``__context__``. ``raise ... from None`` would only hide the original error from a printed
    traceback. A logger or debugger would still show it.

    Parameters
    ----------
    *kinds : type of exception
        The types to replace. Other errors pass unchanged.
    by : MissDPError or callable
        The new error, or a function from the original error to the new error. It may use public
        facts only, such as ``strerror`` of an ``OSError``.

    Raises
    ------
    MissDPError
        The error ``by``, at the end of the ``with`` block, if the block raised an error of
        ``kinds``.

    Examples
    --------
    >>> from missdp.errors import DataError, replacing
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
        """Raise the replacement, without a reference to the original error."""
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
    "starlette": "app",
    "tomlkit": "app",
    "torch": "neural",
    "uvicorn": "app",
    "xlsxwriter": "excel",
}
"""Map from the module of an optional package to the extra that installs the package."""


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
        If the module cannot be imported.
    ParameterError
        If the package is not listed in ``EXTRA_OF``.

    Examples
    --------
    >>> from missdp.errors import EXTRA_OF, import_optional
    >>> EXTRA_OF["matplotlib"]
    'plot'
    >>> import_optional("matplotlib", purpose="pictures").__name__  # doctest: +SKIP
    'matplotlib'
    """
    package = name.partition(".")[0]
    if package not in EXTRA_OF:
        raise ParameterError(f"no extra installs the package {package!r}. Add it to EXTRA_OF")
    absent = MissingDependencyError(
        f"{purpose} need the optional package {package}, which is not installed; "
        f"run pip install 'missdp[{EXTRA_OF[package]}]'"
    )
    with replacing(ImportError, by=absent):
        return import_module(name)


def did_you_mean(
    name: object, valid: Iterable[object], *, synonyms: Mapping[str, object] | None = None
) -> str:
    """Return the end of an error message, which proposes the valid name closest to a wrong name.

    Parameters
    ----------
    name : object
        The invalid name.
    valid : iterable
        **Public** names only, such as attributes, declared levels and parameters. Names from the
        data are private: a file without a header has private cells in its first line.
    synonyms : mapping of str to object, optional
        Other words for a valid name: ``{"average": "mean"}``.

    Returns
    -------
    str
        The sentence with the full stop before it. It ends the message. The text is empty if no
        valid name is similar.

    Notes
    -----
    A message is an output without noise. So names from private data must never be passed as
    ``valid``.

    Examples
    --------
    >>> from missdp.errors import did_you_mean
    >>> did_you_mean("agee", ["sex", "age"]), did_you_mean("town", ["sex", "age"])
    (". Did you mean 'age'?", '')
    >>> did_you_mean("averge", ["mean", "sd"], synonyms={"average": "mean"})
    ". Did you mean 'mean'?"
    """
    names = {str(option).casefold(): option for option in islice(valid, MAX_COMPARED_NAMES)}
    names = {**(synonyms or {}), **names}
    similar = difflib.get_close_matches(str(name).casefold(), names, n=1)
    return f". Did you mean {names[similar[0]]!r}?" if similar else ""


# Names that are compared with an invalid one. Each comparison takes time.
MAX_COMPARED_NAMES = 10_000


def check_integer(name: str, value: Any, *, min_value: int = 1) -> int:
    """Return an integer parameter as an ``int``, or raise an error if it is out of range.

    Parameters
    ----------
    name : str
        Name of the parameter in the message.
    value : int or float
        Value of the parameter. A float must be a whole number, such as 3.0. True and false are not
        valid.
    min_value : int, default 1
        The smallest valid value, included.

    Returns
    -------
    int
        The value.

    Raises
    ------
    ParameterError
        If the value is not an integer, or is below ``min_value``.

    Examples
    --------
    >>> from missdp.errors import check_integer
    >>> check_integer("rows", 3.0)
    3
    """
    if isinstance(value, bool) or not (isinstance(value, Integral) or _finite(value) is not None):
        raise ParameterError(f"{name} must be a whole number")
    integer = int(value)
    if value != integer or integer < min_value:
        raise ParameterError(f"{name} must be a whole number of at least {min_value}")
    return integer


def check_bounded_integer(name: str, value: object, *, min_value: int = 1) -> int:
    """Return an integer parameter that is within the range of floating-point numbers.

    Parameters
    ----------
    name : str
        Name of the parameter in the message.
    value : int
        Value of the parameter.
    min_value : int, default 1
        The smallest valid value.

    Returns
    -------
    int
        The value.

    Raises
    ------
    ParameterError
        If the value is not an integer, is below ``min_value``, or exceeds the largest float.
    """
    check_number(name, value, max_value=math.inf)
    return check_integer(name, value, min_value=min_value)


MIN_EPSILON = 1e-6  # a smaller epsilon needs noise beyond the range that is drawn exactly
MAX_EPSILON = 1e4  # with a larger epsilon, noise protects nobody


def check_epsilon(epsilon: Any, name: str = "epsilon") -> None:
    """Raise an error unless an epsilon is within the limits of fits and queries.

    Parameters
    ----------
    epsilon : float
        The privacy budget of one fit or query, from 1e-6 to 10,000. True and false are not valid.
    name : str, default "epsilon"
        Name of the parameter in the message.

    Raises
    ------
    ParameterError
        If the value is not a number between 1e-6 and 10,000.

    Examples
    --------
    >>> from missdp.errors import check_epsilon
    >>> check_epsilon(1.0)
    """
    value = _finite(epsilon)
    if value is None:
        raise ParameterError(f"{name} must be a finite number. Values around 1 are typical.")
    if not MIN_EPSILON <= value <= MAX_EPSILON:
        raise ParameterError(
            f"{name} must be between 1e-6 and {MAX_EPSILON:,.0f}; got {value:g}. "
            "Values around 1 are typical."
        )


def check_choice(name: str, value: Any, choices: Iterable[object]) -> Any:
    """Return a parameter that must be one of a few values.

    Parameters
    ----------
    name : str
        Name of the parameter in the message.
    value : object
        Value of the parameter.
    choices : iterable
        The valid values. All of them are public.

    Returns
    -------
    object
        ``value``.

    Raises
    ------
    ParameterError
        If ``value`` is not one of ``choices``.
    """
    valid = tuple(choices)
    if value not in valid:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, valid))}, got {value!r}")
    return value


def names_of(what: str, names: str | Iterable[str]) -> tuple[str, ...]:
    """Return attribute names as a tuple of text, whether a single name or several names are given.

    Parameters
    ----------
    what : str
        Name of the parameter in the message, in the plural.
    names : str or iterable of str
        One name or several names.

    Returns
    -------
    tuple of str
        The names in the given order.

    Raises
    ------
    ParameterError
        If ``names`` is not iterable, or an element is not a text.

    Examples
    --------
    >>> from missdp.errors import names_of
    >>> names_of("attributes", "age"), names_of("attributes", ["age", "sex"])
    (('age',), ('age', 'sex'))
    """
    wrong = ParameterError(f"{what} are given by name")
    result: tuple[str, ...] = ()
    with replacing(TypeError, by=wrong):
        result = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in result):
        raise wrong
    return result


def check_number(
    name: str,
    value: Any,
    *,
    min_value: float = 0.0,
    max_value: float = 1e100,
    exclude_min: bool = False,
    exclude_max: bool = False,
) -> float:
    """Return a finite numeric parameter as a float, or raise an error if it is out of range.

    Parameters
    ----------
    name : str
        Name of the parameter in the message.
    value : int or float
        Value of the parameter. True and false are not valid.
    min_value, max_value : float, default 0 and 1e100
        The smallest and the largest valid value. ``max_value`` may be infinite.
    exclude_min, exclude_max : bool, default False
        True if the end of the range is itself invalid.

    Returns
    -------
    float
        The value.

    Raises
    ------
    ParameterError
        If the value is not a finite number within the range.

    Examples
    --------
    >>> from missdp.errors import check_number
    >>> check_number("share", 0.5, max_value=1.0)
    0.5
    """
    result = _finite(value)
    if result is None:
        raise ParameterError(f"{name} must be a finite number")
    if exclude_min and result <= min_value:
        raise ParameterError(f"{name} must be above {min_value:g}")
    if exclude_max and not min_value <= result < max_value:
        raise ParameterError(f"{name} must be at least {min_value:g} and below {max_value:g}")
    if not min_value <= result <= max_value:
        bounded = f"between {min_value:g} and {max_value:g}"
        limits = bounded if max_value < math.inf else f"at least {min_value:g}"
        raise ParameterError(f"{name} must be {limits}")
    return result


def _finite(value: Any) -> float | None:
    """Return a real number as a finite float, or None if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, (float, Real)):  # float first: it is quick
        return None
    with contextlib.suppress(OverflowError):
        result = float(value)
        return result if math.isfinite(result) else None
    return None


# Each returns a parameter as a float, or raises an error if it is not finite or out of range.
check_positive = partial(check_number, max_value=math.inf, exclude_min=True)
check_nonnegative = partial(check_number, max_value=math.inf)
check_fraction = partial(check_number, max_value=1.0)
check_delta = partial(check_number, max_value=1.0, exclude_max=True)
