"""All checks of a synthesizer in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from missdp.schema import Schema
from missdp.synth import Synthesizer
from missdp.testing.claims import audit_subject
from missdp.testing.example_tables import RULED, TINY
from missdp.testing.findings import Finding, Report, Subject, examine, expect, list_subjects
from missdp.testing.sensitivity import answers_of

_RULED_PAIRS = ("one missing cell", "unprocessed rows", "kinds of missing")


def check_synthesizer(
    family: type[Synthesizer],
    *,
    parameters: Mapping[str, Any] | None = None,
    strategies: Iterable[str] | None = None,
    schema: Schema | None = None,
    trials: int = 12,
    audit_trials: int = 100,
    seed: int = 0,
) -> Report:
    """Check that a synthesizer keeps its privacy promises on example tables, or raise an error.

    It runs all checks for each missing-data strategy. Non-interference: a fit depends on the rows
    only through charged answers. Sensitivity: one row changes exact numbers by at most the charged
    amount. Audit: an attacker does not refute the claim. Reports show exact numbers, so never run
    it on private rows.

    Parameters
    ----------
    family : type of Synthesizer
        Class of the synthesizer.
    parameters : mapping of str to object, optional
        Parameters of the synthesizer except the strategy, chosen so that its fits are quick.
    strategies : iterable of str, optional
        Missing-data strategies to check. By default all strategies of the synthesizer.
    schema : Schema, optional
        Schema of the example tables. At least one attribute must be nullable. There are two
        default schemas: ``SCHEMA``, and ``RULED`` with kinds of missing and rules.
    trials : int, default 12
        Number of pairs of neighbours for the check of sensitivities, at least 1.
    audit_trials : int, default 100
        Runs of the audit on each of two tables, at least 20. 0 leaves the audit out. More runs
        find smaller mistakes.
    seed : int, default 0
        Seed of tables and noise, at least 0.

    Returns
    -------
    Report
        One finding for each promise and case. Promises that could not be checked are marked.

    Raises
    ------
    CheckFailedError
        If any promise is not kept. The message lists all of them, with remedies.
    ParameterError
        If ``family`` is not a class of synthesizers, or lacks a strategy.

    Notes
    -----
    A report without failures is no proof: other tables may show a difference.

    Examples
    --------
    >>> from missdp.synth import Synthesizer
    >>> from missdp.testing import check_synthesizer
    >>> from missdp.errors import CheckFailedError
    >>> from missdp.synth import Family
    >>> def unfinished(*given):
    ...     raise NotImplementedError
    >>> class Unfinished(Synthesizer):
    ...     family = Family(strategies=("joint",), fit=unfinished, sample=unfinished)
    >>> try:
    ...     check_synthesizer(Unfinished, audit_trials=0)
    ... except CheckFailedError as error:
    ...     print(error)
    Unfinished does not keep ... promises:
    - FAILED sensitivity: one row moves what is behind a charge by at most its sensitivity...
    """
    findings = []
    for on in list_subjects(family, parameters, strategies, schema):
        findings += answers_of(on, None, trials, seed)
        if audit_trials:
            findings.append(_audited(on, audit_trials, seed))
        if schema is None:
            ruled = replace(on, schema=RULED)
            findings += answers_of(ruled, _RULED_PAIRS, max(4, trials // 2), seed)
    return Report(family.__name__, tuple(findings)).checked()


def _audited(on: Subject, trials: int, seed: int) -> Finding:
    """Return the finding of an audit, at an epsilon with power."""
    parameters = {k: v for k, v in on.parameters.items() if k != "epsilon"}
    tiny = replace(on, parameters=parameters, schema=TINY)

    def run() -> str:
        verdict = audit_subject(tiny, None, trials, seed=seed)
        expect(not verdict.flagged, f"{verdict}. Charge for what is released, or add more noise")
        return str(verdict).partition(": ")[2]

    return examine("audit", "an attacker finds no more than was charged for", on.strategy, run)
