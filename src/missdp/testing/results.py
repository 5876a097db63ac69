"""What was checked, what came of it, and the one error that lists what failed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from missdp.errors import CheckFailedError, MissDPWarning

__all__ = ["Broken", "Caught", "Finding", "Report", "Unchecked", "examine", "expect", "refuses"]


class Broken(AssertionError):  # noqa: N818 - a promise, not a program, is broken
    """A promise is not kept; private to the kit, which turns it into a finding."""


class Unchecked(Exception):  # noqa: N818 - neither kept nor broken
    """A promise cannot be checked here, for the reason given; private to the kit."""


@dataclass(frozen=True)
class Finding:
    """One promise that was checked.

    Parameters
    ----------
    check : str
        Group of promises: "habits", say.
    what : str
        The promise.
    case : str
        What it was checked on: a strategy, a pair of tables.
    passed : bool
    detail : str
        What was seen; what to do, if it failed.
    checked : bool, default True
        False if it could not be checked, and why is in ``detail``: neither kept nor broken.

    Examples
    --------
    >>> Finding("habits", "saves and loads", "joint", True).passed
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


@dataclass(frozen=True)
class Report:
    """Everything that was checked on one subject; prints as a table.

    Parameters
    ----------
    subject : str
    findings : tuple of Finding

    Examples
    --------
    >>> report = Report("MyFamily", (Finding("habits", "saves and loads", "joint", True),))
    >>> print(report)
    MyFamily: 1 promise checked, all kept
    ok     habits: saves and loads [joint]
    """

    subject: str
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Promises that are not kept."""
        return tuple(found for found in self.findings if found.checked and not found.passed)

    @property
    def unchecked(self) -> tuple[Finding, ...]:
        """Promises that could not be checked: prove them otherwise."""
        return tuple(found for found in self.findings if not found.checked)

    @property
    def passed(self) -> bool:
        """Whether every promise that could be checked is kept; see ``unchecked`` for others."""
        return not self.failures

    def __str__(self) -> str:
        number, broken = len(self.findings) - len(self.unchecked), len(self.failures)
        kept = f"{broken} not kept" if broken else "all kept"
        if self.unchecked:
            kept += f"; {len(self.unchecked)} not checked"
        head = f"{self.subject}: {number} promise{'s' * (number != 1)} checked, {kept}"
        return "\n".join([head, *map(str, self.findings)])

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready values."""
        return {
            "subject": self.subject,
            "passed": self.passed,
            "findings": [asdict(found) for found in self.findings],
        }

    def checked(self) -> Report:
        """Return the report if every promise is kept.

        Raises
        ------
        CheckFailedError
            Otherwise; it lists what failed and what to do.
        """
        if self.passed:
            return self
        lines = "\n".join(f"- {found}" for found in self.failures)
        raise CheckFailedError(
            f"{self.subject} does not keep {len(self.failures)} of {len(self.findings)} "
            f"promises:\n{lines}"
        )


class Caught(AbstractContextManager["Caught"]):
    """Keep whatever error is raised inside; interruptions pass through."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Keep an error."""
        self.error = error if isinstance(error, Exception) else None
        return self.error is not None

    @property
    def shown(self) -> str:
        """The error as anyone would see it."""
        return "" if self.error is None else f"{type(self.error).__name__}: {self.error}"


class refuses(AbstractContextManager[None]):  # noqa: N801 - reads as a statement
    """Expect an error of a kind, whose message contains some text."""

    def __init__(self, kind: type[Exception], what: str, *, containing: str = "") -> None:
        self._kind, self._what, self._containing = kind, what, containing

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Take the expected error, and complain of any other outcome."""
        expect(error is not None, f"{self._what} must be refused with {self._kind.__name__}")
        if not isinstance(error, self._kind):
            return False
        expect(
            self._containing in str(error),
            f"the refusal of {self._what} should mention {self._containing!r}",
        )
        return True


def expect(kept: object, otherwise: str) -> None:
    """Complain if a promise is not kept."""
    if not kept:
        raise Broken(otherwise)


def examine(check: str, what: str, case: str, run: Callable[[], str | None]) -> Finding:
    """Return the finding of one promise; ``run`` may return what was seen."""
    seen: list[str | None] = []
    with warnings.catch_warnings(), Caught() as caught:
        warnings.simplefilter("ignore", MissDPWarning)  # tables of the kit are small
        seen.append(run())
    if caught.error is None:
        return Finding(check, what, case, True, seen[0] or "")
    if isinstance(caught.error, Unchecked):
        return Finding(check, what, case, False, str(caught.error), checked=False)
    broken = isinstance(caught.error, Broken)
    return Finding(check, what, case, False, str(caught.error) if broken else caught.shown)


def joined(subject: str, reports: Iterable[Report]) -> Report:
    """Return one report of several."""
    return Report(subject, tuple(f for report in reports for f in report.findings))
