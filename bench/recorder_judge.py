"""Let dp-recorder, which is not ours, record fits on one table and replay them on its neighbours.

    git clone https://github.com/ObliviousAI/dp-recorder
    python bench/recorder_judge.py --recorder dp-recorder/src

dp-recorder (arXiv 2602.17454) audits from inside: it records the answers of all mechanisms on a
table, repeats these answers on a neighbour, and finds every question that changes although no
answer did. It also measures how far the exact numbers of the two tables are apart, and compares
this with the declared sensitivity. Every released number of missdp is drawn in
`Session._release`, so this script replaces that one function by dp-recorder's decorator. Nothing in
the package knows of it.

The declared sensitivity is that of the event that was charged. Its norm is that of the mechanism:
L1 for Laplace, L2 for Gaussian noise, the largest change of a score for selections. Where an event
states none (smooth sensitivity, propose-test-release), the questions alone are compared.

Half of the neighbours differ in missing cells. Each line names a run and a neighbour, with the
number of mechanism calls that were compared and of distances that were measured.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from missdp import AIM, MST, AllPairs, Filter, Schema, Table
from missdp.baselines import Kamino, PrivBayes
from missdp.datasets import yrbss
from missdp.pricing import (
    ConstantImputer,
    PricedPipeline,
    PrivateCovariance,
    PrivateLogisticRegression,
    PrivateMean,
    RowClipper,
)
from missdp.session.session import Session
from missdp.statistics import ImputedStatistics, KNNImputation

ROWS, SEED = 400, 7
Pair: TypeAlias = tuple[str, pd.DataFrame, pd.DataFrame]
Run: TypeAlias = Callable[[pd.DataFrame], None]


# --- Tables ------------------------------------------------------------------------------------


def survey(rows: int) -> tuple[pd.DataFrame, Schema]:
    """Return rows of the bundled survey, which has missing answers, and its public facts."""
    table = yrbss().table().to_native("pandas")
    return table.sample(rows, random_state=SEED).reset_index(drop=True), yrbss().schema()


def neighbours(table: pd.DataFrame, *, replaced: bool) -> Iterator[Pair]:
    """Yield named pairs of neighbours: by rows that are complete, partly or wholly missing.

    Neighbours differ by one row more or less. With ``replaced`` one row differs instead.
    """
    gaps = table.isna().sum(axis=1)
    chosen = {
        "a complete row": int(np.flatnonzero(gaps == gaps.min())[0]),
        "the row with most missing cells": int(gaps.argmax()),
        "the last row": len(table) - 1,
    }
    blank = pd.DataFrame([dict.fromkeys(table.columns)])
    for name, row in chosen.items():
        # The row stands last, so that random numbers of the other rows are the same in both runs.
        rest = table.drop(index=row).reset_index(drop=True)
        complete = pd.concat([rest, table.iloc[[row]]], ignore_index=True)
        if replaced:
            other = pd.concat([rest, blank], ignore_index=True)
            yield f"a row of missing cells for {name}", complete, other
        else:
            yield f"without {name}", complete, rest
            yield f"{name} added", rest, complete
    if not replaced:
        yield "a row of missing cells added", table, pd.concat([table, blank], ignore_index=True)


# --- Instruments -------------------------------------------------------------------------------


BOUNDED = 0.0  # in place of a norm: the private answer comes with its own bound
UNMEASURED = -1.0  # in place of a norm: the answer is no vector, or states no sensitivity


def measured(event: Any, mechanism: Any, exact: Any) -> tuple[np.ndarray, float]:
    """Return the norm and the exact numbers as one vector, and the declared sensitivity."""
    if hasattr(exact, "totals"):  # smooth sensitivity: a bound for the neighbours of this table
        return np.array([BOUNDED, exact.bound, *exact.totals]), 1.0
    norm = getattr(mechanism, "norm", None)
    if norm is None and hasattr(mechanism, "kind"):
        norm = 2.0 if mechanism.kind == "gaussian" else 1.0
    limit = getattr(event, "sensitivity", None) or getattr(mechanism, "sensitivity", None)
    try:
        vector = np.asarray(exact, dtype=float).ravel()
    except (TypeError, ValueError):
        vector = None
    if vector is None or norm is None or limit is None:
        return np.array([UNMEASURED]), 0.0
    return np.concatenate([[norm], vector]), float(limit)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Return the distance of two exact answers in the norm that stands in front of each."""
    norm, first, second = one[0], one[1:], other[1:]
    if first.shape != second.shape or norm != other[0]:
        return math.inf
    if norm == BOUNDED:
        change = float(np.abs(first[1:] - second[1:]).max(initial=0.0))
        return change / min(first[0], second[0]) if change else 0.0
    return float(np.linalg.norm(first - second, ord=norm)) if first.size else 0.0


class Instruments:
    """Counts the calls of mechanisms, and puts dp-recorder between a session and its noise."""

    def __init__(self, audit_spec: Callable[..., Any]) -> None:
        self.calls = self.measured = self.generators = 0
        spec = audit_spec("release", "numbers", "sensitivity", distance)
        self.answer = spec(self._answer)
        self._now: Callable[[], Any]

    def _answer(self, numbers: Any, sensitivity: float, public: str) -> Any:  # noqa: ARG002
        return self._now()

    @contextlib.contextmanager
    def installed(self) -> Iterator[Instruments]:
        """Replace the function in which all sessions charge, compute and draw."""
        usual = Session._release, Session.generator
        instruments = self

        def release(session: Any, charge: Any, events: Any, mechanism: Any, exact: Any) -> Any:
            charge(*events)
            numbers = exact()
            vector, limit = measured(events[0], mechanism, numbers)
            instruments.calls += 1
            instruments.measured += vector[0] != UNMEASURED
            instruments._now = lambda: mechanism.draw(numbers, session._noise)
            return instruments.answer(vector, limit * (1 + 1e-9), f"{events} {mechanism}")

        def generator(session: Any) -> np.random.Generator:
            """The seeds of post-processing are the same in both runs: they are not from rows."""
            del session
            instruments.generators += 1
            return np.random.default_rng((SEED, instruments.generators))

        Session._release, Session.generator = release, generator  # type: ignore[method-assign]
        try:
            yield self
        finally:
            Session._release, Session.generator = usual  # type: ignore[method-assign]


# --- Runs --------------------------------------------------------------------------------------


def families(schema: Schema) -> dict[str, Run]:
    """Return fits of the families whose answers all leave through sessions, by name."""
    made: dict[str, Any] = {
        f"{family.__name__}, {strategy}": (family, strategy)
        for family in (AllPairs, AIM, MST, PrivBayes, Kamino)
        for strategy in family.family.strategies
    }

    def fit(table: pd.DataFrame, family: Any, strategy: str) -> None:
        model = family(epsilon=1.0, delta=1e-6, missing=strategy, random_state=SEED)
        model.fit(table, schema=schema).sample(20, random_state=SEED)

    return {name: partial(fit, family=f, strategy=s) for name, (f, s) in made.items()}


def statistics(schema: Schema) -> dict[str, Run]:
    """Return statistics on imputed rows, with smooth sensitivity and with worst-case intervals."""

    def ask(table: pd.DataFrame) -> None:
        imputation = KNNImputation(
            impute="strength_training_7d", match_on=("age", "gender", "grade")
        )
        rows = Table.read(table, schema)
        asked = ImputedStatistics(rows, imputation, budget=Filter(4.0), random_state=SEED)
        asked.mean("strength_training_7d", where="gender = 'female'", epsilon=1.0)
        asked.proportion("strength_training_7d >= 3", epsilon=1.0)
        asked.proportion("strength_training_7d >= 3", epsilon=1.0, uncertainty="worst-case")

    return {"statistics on imputed rows": ask}


def estimators() -> dict[str, Run]:
    """Return private estimators behind an imputer, on rows of two numbers with missing cells."""

    def fit(table: pd.DataFrame, estimator: Any) -> None:
        rows = table.to_numpy(dtype=float)
        steps = [("impute", ConstantImputer()), ("clip", RowClipper(radius=1.0))]
        facts = {"rows": len(rows), "columns": 2, "complete": False, "delta": 1e-6}
        labels = (rows[:, 0] > 0).astype(int)  # missing: 0
        made = PricedPipeline(steps, estimator(noise_multiplier=20.0), **facts)
        made.fit(rows, labels if estimator is PrivateLogisticRegression else None)

    chosen = (PrivateMean, PrivateCovariance, PrivateLogisticRegression)
    return {e.__name__: partial(fit, estimator=e) for e in chosen}


def judge(auditing: Any, run: Run, pair: Pair) -> tuple[str, int, int]:
    """Record on one table and replay on the other. Return the verdict, calls and distances."""
    _, table, other = pair
    auditor, instruments = auditing.Auditor(), Instruments(auditing.audit_spec)
    with instruments.installed(), auditor, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(table)
        calls, measured = instruments.calls, instruments.measured
        auditor.set_replay()
        instruments.generators = 0
        try:
            run(other)
            if auditor._cursor != len(auditor.log):
                return f"only {auditor._cursor} of {len(auditor.log)} answers were asked for", 0, 0
            auditor.validate_records()
        except AssertionError as error:
            return str(error), calls, measured
    return "passed", calls, measured


def main() -> None:
    """Print a line for every run and pair, and the number of failures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--recorder", type=Path, required=True, help="folder of dp_recorder")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", default="", help="run what has this in its name")
    options = parser.parse_args()
    sys.path.insert(0, str(options.recorder))
    from dp_recorder.auditing import audit_primitives as auditing

    table, schema = survey(options.rows)
    rng = np.random.default_rng(SEED)
    numbers = pd.DataFrame(rng.normal(0, 0.5, (options.rows, 2))).mask(
        rng.random((options.rows, 2)) < 0.1
    )
    runs = {
        name: (run, table, False) for name, run in (families(schema) | statistics(schema)).items()
    }
    runs |= {name: (run, numbers, True) for name, run in estimators().items()}
    failures = total = 0
    for name, (run, rows, replaced) in runs.items():
        for pair in neighbours(rows, replaced=replaced) if options.only in name else ():
            verdict, calls, distances = judge(auditing, run, pair)
            total += 1
            failures += verdict != "passed"
            print(
                f"{name}: {pair[0]}: {verdict} ({calls} calls, {distances} distances)", flush=True
            )
    print(f"{total} pairs of runs, {failures} failures")


if __name__ == "__main__":
    main()
