"""Subjects of checks, promises, findings and reports."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pydantic.dataclasses

from missdp.errors import CheckFailedError, MissDPWarning, ParameterError
from missdp.schema import Schema
from missdp.serialization import Record
from missdp.sources import MemorySource
from missdp.synth import Synthesizer
from missdp.synth.parameters import chosen_delta
from missdp.table import Table
from missdp.testing.example_tables import SCHEMA, example_table, has_kinds_or_rules

Run: TypeAlias = Callable[[Any], Any]
"""A function ``run(table)`` that opens a session on a table and lets it answer."""


@dataclass(frozen=True)
class Subject:
    """A family with one strategy, on example tables."""

    family: type[Synthesizer]
    strategy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema = SCHEMA

    @property
    def case(self) -> str:
        """Name of the subject in findings."""
        return f"{self.strategy}, with rules" if has_kinds_or_rules(self.schema) else self.strategy

    @property
    def delta(self) -> float:
        """The delta that the family is run with."""
        model = self.build()
        return chosen_delta(model.delta, model.n_rows)

    @property
    def epsilon(self) -> float:
        """The epsilon that the family is run with."""
        return float(self.parameters.get("epsilon", 1.0))

    def build(self, **more: Any) -> Synthesizer:
        """Return an unfitted model, with a seed by default."""
        defaults = {"epsilon": self.epsilon, "missing": self.strategy, "random_state": 0}
        return self.family(**{**defaults, **self.parameters, **more})

    def table(self, n: int = 300, seed: int = 0) -> Table:
        """Return an example table."""
        return example_table(self.schema, n, seed)


def is_run(subject: Any, **more: Any) -> bool:
    """Return whether the subject is a function of a table. Raise if it has options of families."""
    if isinstance(subject, type) or not callable(subject) or isinstance(subject, Synthesizer):
        return False
    named = [name for name, value in more.items() if value is not None]
    if named:
        raise ParameterError(f"{', '.join(named)} are options of families, and not of functions")
    return True


def name_of(run: Callable[..., Any]) -> str:
    """Return a public name for a function."""
    return str(getattr(run, "__name__", type(run).__name__))


def list_subjects(
    family: type[Synthesizer],
    parameters: Mapping[str, Any] | None,
    strategies: Iterable[str] | None,
    schema: Schema | None = None,
) -> list[Subject]:
    """Return the family with each of its strategies, or with the named strategies.

    Parameters
    ----------
    family : type of Synthesizer
        The family.
    parameters : mapping, optional
        Parameters of the family except the strategy.
    strategies : iterable of str, optional
        By default all strategies of the family.
    schema : Schema, optional
        Schema of the example tables.

    Returns
    -------
    list of Subject
        One for each strategy.

    Raises
    ------
    ParameterError
        If the family is not a class of synthesizers, or lacks a strategy.
    """
    if not (isinstance(family, type) and issubclass(family, Synthesizer)):
        raise ParameterError(
            "a family is a class that inherits from missdp.synth.Synthesizer. For other code "
            "give the check a function, run(table)"
        )
    named = tuple(family.family.strategies if strategies is None else strategies)
    if not named or not set(named) <= set(family.family.strategies):
        raise ParameterError(f"strategies must be some of {list(family.family.strategies)}")
    return [Subject(family, name, dict(parameters or {}), schema or SCHEMA) for name in named]


class BrokenPromise(AssertionError):  # noqa: N818 - a promise, not a program, is broken
    """A promise is not kept. The checks turn this error into a finding."""


class UncheckedPromise(Exception):  # noqa: N818 - neither kept nor broken
    """A promise cannot be checked here, for the reason given."""


@pydantic.dataclasses.dataclass(frozen=True)
class Finding(Record):
    """Result of one check of a promise that private code makes, such as a declared sensitivity.

    `Report` collects findings. They are about example tables and are not private.

    Parameters
    ----------
    check : str
        Group of promises, such as "sensitivity".
    what : str
        The promise, such as "each charge pays for one read".
    case : str
        The case of the check: a strategy, a pair of tables.
    passed : bool
        True if the promise was checked and is kept.
    detail : str, default ""
        The observation, and the remedy after a failure.
    checked : bool, default True
        False if the promise could not be checked, for the reason in ``detail``.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.testing import Finding
    >>> Finding("sensitivity", "each charge pays for one read", "joint", True).passed
    True
    """

    check: str
    what: str
    case: str
    passed: bool
    detail: str = ""
    checked: bool = True

    def __str__(self) -> str:
        verdict = "ok    " if self.passed else "FAILED" if self.checked else "NOT CHECKED"
        return f"{verdict} {self.check}: {self.what} [{self.case}]" + (
            f": {self.detail}" if self.detail else ""
        )


@pydantic.dataclasses.dataclass(frozen=True)
class Report(Record):
    """Findings of all checks of a synthesizer or function, which print as a table.

    `check_synthesizer`, `check_sensitivity` and `check_non_interference` return it. Findings are
    about example tables and are not private.

    Parameters
    ----------
    subject : str
        Name of the checked code.
    findings : tuple of Finding
        One finding for each promise and case, in the order of the checks.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.testing import Finding, Report
    >>> paid = Finding("sensitivity", "each charge pays for one read", "joint", True)
    >>> report = Report("MyFamily", (paid,))
    >>> print(report)
    MyFamily: 1 promise checked, all kept
    ok     sensitivity: each charge pays for one read [joint]
    """

    subject: str
    findings: tuple[Finding, ...]

    derived: ClassVar[tuple[str, ...]] = ("passed",)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Return the findings of promises that were checked and are not kept.

        Returns
        -------
        tuple of Finding
            In the order of the checks. Empty if all checked promises are kept.
        """
        return tuple(finding for finding in self.findings if finding.checked and not finding.passed)

    @property
    def unchecked(self) -> tuple[Finding, ...]:
        """Return the findings of promises that could not be checked, and need another proof.

        Returns
        -------
        tuple of Finding
            In the order of the checks, with the reason in ``detail``.
        """
        return tuple(finding for finding in self.findings if not finding.checked)

    @property
    def passed(self) -> bool:
        """Return whether every promise that could be checked is kept.

        Returns
        -------
        bool
            True if no checked promise fails. Promises of `unchecked` do not count.
        """
        return not self.failures

    def __str__(self) -> str:
        number, broken = len(self.findings) - len(self.unchecked), len(self.failures)
        outcome = f"{broken} not kept" if broken else "all kept"
        if self.unchecked:
            outcome += f"; {len(self.unchecked)} not checked"
        title = f"{self.subject}: {number} promise{'s' * (number != 1)} checked, {outcome}"
        return "\n".join([title, *map(str, self.findings)])

    def checked(self) -> Report:
        """Return the report if every checked promise is kept, and raise an error otherwise.

        Returns
        -------
        Report
            The report itself.

        Raises
        ------
        CheckFailedError
            If a promise is not kept. The message lists the failures with remedies.
        """
        if self.passed:
            return self
        lines = "\n".join(f"- {finding}" for finding in self.failures)
        raise CheckFailedError(
            f"{self.subject} does not keep {len(self.failures)} of {len(self.findings)} "
            f"promises:\n{lines}"
        )


class ErrorCatcher(AbstractContextManager["ErrorCatcher"]):
    """Keep an error that is raised inside. Interruptions pass."""

    error: Exception | None = None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        """Keep an error."""
        self.error = error if isinstance(error, Exception) else None
        return self.error is not None

    @property
    def shown(self) -> str:
        """The error as anyone would see it."""
        return "" if self.error is None else f"{type(self.error).__name__}: {self.error}"


def expect(holds: object, problem: str) -> None:
    """Raise BrokenPromise if a promise is not kept."""
    if not holds:
        raise BrokenPromise(problem)


def examine(check: str, what: str, case: str, run: Callable[[], str | None]) -> Finding:
    """Return the finding of one promise. ``run`` may return an observation.

    Parameters
    ----------
    check, what, case : str
        The group, the promise and the case of the finding.
    run : callable
        Checks the promise, and raises BrokenPromise if it is not kept.

    Returns
    -------
    Finding
        Kept, broken or not checked.
    """
    details: list[str | None] = []
    with warnings.catch_warnings(), ErrorCatcher() as caught:
        warnings.simplefilter("ignore", MissDPWarning)  # example tables are small
        details.append(run())
    if caught.error is None:
        return Finding(check, what, case, True, details[0] or "")
    if isinstance(caught.error, UncheckedPromise):
        return Finding(check, what, case, False, str(caught.error), checked=False)
    broken = isinstance(caught.error, BrokenPromise)
    return Finding(check, what, case, False, str(caught.error) if broken else caught.shown)


# Comparison of values, and reads of rows


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, bit by bit."""
    if type(one) is not type(other):
        return False
    if is_dataclass(one):
        names = [f.name for f in fields(one)]
        return all(is_same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, np.ndarray):
        if one.dtype == object:
            return one.shape == other.shape and is_same(one.tolist(), other.tolist())
        kinds = (one.dtype, one.shape) == (other.dtype, other.shape)
        return kinds and one.tobytes() == other.tobytes()
    return bool(one == other or (one != one and other != other))


class WatchedRows(MemorySource):
    """Rows that call a function before each time that they are read."""

    def __init__(self, table: Table, on_read: Callable[[], object] = lambda: None) -> None:
        super().__init__(table)
        self._on_read = on_read

    @property
    def table(self) -> Table:
        """The private rows."""
        self._on_read()
        return super().table

    def counts(self, cliques: Any, *, rows: Any) -> Any:
        """Count every clique."""
        self._on_read()
        return super().counts(cliques, rows=rows)
