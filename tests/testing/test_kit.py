"""The checks fail wrong families, by the right check, and pass correct ones."""

import copy
import inspect
import json
import re
import warnings
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from missdp import Table
from missdp.engines import databases
from missdp.errors import CheckFailedError, DataError, MissDPError, ParameterError
from missdp.session import Marginal
from missdp.session.counting import CHUNK_ROWS
from missdp.sources import MemorySource
from missdp.synth import Synthesizer
from missdp.table import read_files
from missdp.testing import (
    TINY,
    audit_synthesizer,
    check_non_interference,
    check_sensitivity,
    check_synthesizer,
    example_table,
)
from missdp.testing.findings import Subject, is_same
from missdp.testing.interference import _facts_of
from missdp.testing.recording import _PerCall
from missdp.testing.sensitivity import answers_of
from synth.conformance import FEW_PAIRS, FEW_TRIALS
from synth.conformance_checks import check_conformance
from synth.worked_example import Independent
from testing import example_sources as sources
from testing import examples
from testing.source_checks import check_source


@pytest.mark.slow
def test_the_worked_example_of_the_page_passes():
    report = check_synthesizer(Independent, strategies=["observed"], audit_trials=20, trials=4)
    assert report.passed
    assert {"observed", "observed, with rules"} <= {f.case for f in report.findings}
    checks = {"non-interference", "sensitivity", "audit"}
    assert {result.check for result in report.findings} == checks
    assert json.loads(json.dumps(report.to_dict()))["passed"]
    assert "all kept" in str(report)


def failures(check, family, **more):
    with pytest.raises(CheckFailedError) as caught:
        check(family, strategies=["joint"], **more)
    return str(caught.value)


def warn_of_constants(session):
    if np.count_nonzero(examples.exact(session, "score")) == 1:
        warnings.warn("the attribute is constant", stacklevel=1)


class Telling(examples.Histograms):
    """Warns of an attribute that is constant in the private rows."""

    family = examples.histograms(before=warn_of_constants)


def chosen_noise(session, name, noise):
    scale = 40.0 + float(examples.exact(session))
    return session.measure(Marginal((name,)), replace(noise, scale=scale)).value


class Choosing(examples.Histograms):
    """Chooses its noise by the private number of rows."""

    family = examples.histograms(chosen_noise)


def hidden(session, name, noise):
    Hiding.kept = [examples.exact(session, name)]
    return session.measure(Marginal((name,)), noise).value


class Hiding(examples.Histograms):
    """Keeps exact counts where no test of outputs looks: in its class, and in a closure."""

    kept: ClassVar[list] = []
    family = examples.histograms(hidden)


def refusing(fitted, n, rng, keep_missing):
    if fitted.model["empty"]:
        raise ValueError("nothing to draw from")
    return Independent.family.sample(fitted, n, rng, keep_missing)


class Refusing(examples.Histograms):
    """Refuses to draw if there were no rows."""

    family = replace(examples.histograms(after=examples.is_empty), sample=refusing)


class Peeking(examples.Histograms):
    """Reads rows before it is answered anything."""

    family = examples.histograms(before=lambda session: examples.exact(session) and None)


def counted_with_missing(session, name, noise):
    event = replace(examples.laplace(noise.scale, name), required=frozenset({name}))
    return examples.released(session, event, noise, lambda: examples.exact(session, name))


class ForgettingTheGate(examples.Histograms):
    """Counts missing cells as a level, and requires the attribute to be observed."""

    family = examples.histograms(counted_with_missing)


@pytest.mark.parametrize(
    ("leaky", "seen"),
    [
        (examples.ExactCounts, "saved file"),
        (examples.CarryingScore, "_CARRIED"),
        (examples.TellingShape, "refusal"),
        (Telling, "warnings"),
        (Choosing, "questions depend"),
        (Hiding, "class attribute Hiding.kept"),
        (Refusing, "refusal of sample"),
        (examples.ReadingTwice, "were charged for"),
        (examples.WideScore, "one row moves"),
        (Peeking, "outside of an answer"),
        (ForgettingTheGate, "a row where one is missing"),
    ],
)
def test_leaking_family_fails_the_daily_checks(leaky, seen):
    on = Subject(leaky, "joint")
    result = [str(finding) for finding in answers_of(on, FEW_PAIRS, FEW_TRIALS, 0)]
    assert any("FAILED" in finding and seen in finding for finding in result)


class Both(examples.Histograms):
    """Breaks two promises at once: reads twice, and carries a count out of a score."""

    family = examples.histograms(examples.read_twice, before=examples.carry, after=examples.carried)


def test_leak_raises_an_error_with_all_differences():
    assert {MissDPError, AssertionError} <= {*CheckFailedError.__mro__}
    message = failures(check_non_interference, examples.ExactCounts, pairs=["two tables"])
    assert "differs with the rows: " in message


def test_two_reads_for_one_charge_are_detected():
    message = failures(check_sensitivity, examples.ReadingTwice, trials=2)
    answered, charged = map(int, re.search(r"(\d+) answers .* and (\d+) were", message).groups())
    assert answered == charged + 4  # of four attributes each is read twice


@pytest.mark.long
def test_everything_that_failed_is_listed_at_once():
    message = failures(check_synthesizer, Both, schema=TINY, audit_trials=0, trials=4)
    assert "differs with the rows: " in message
    assert "Charge for each" in message


@pytest.mark.long
def test_too_little_noise_is_detected_by_the_audit():
    facts = {"strategies": ["joint"], "parameters": {"epsilon": 4.0}}
    assert audit_synthesizer(examples.UnderNoised, trials=80, **facts)["joint"].flagged
    sound = audit_synthesizer(examples.Histograms, trials=100, **facts)["joint"]
    assert not sound.flagged
    assert sound.ratio > 0.8


def test_conformance_checks_are_chosen_and_find_broken_promises():
    class Forgetful(examples.Histograms):
        @classmethod
        def opened(cls, document, path):
            model = super().opened(document, path)
            ones = {n: np.ones_like(np.array(c)) for n, c in model.model_.items()}
            model.adopt(replace(model.fitted_, model=ones))
            return model

    message = failures(check_conformance, Forgetful, checks=["save_and_load"])
    assert "draws other rows" in message
    assert check_conformance(Forgetful, strategies=["joint"], checks=["repeatable"]).passed


def test_argument_that_is_not_a_family_raises():
    for bad in (MemorySource, examples.Histograms(epsilon=1.0), "AIM"):
        with pytest.raises(ParameterError, match="Synthesizer"):
            check_synthesizer(bad)
    with pytest.raises(ParameterError, match="strategies"):
        check_synthesizer(examples.Histograms, strategies=["guess"])
    assert issubclass(examples.Histograms, Synthesizer)


class LeavingOutTheLastOnly(sources.InBlocks):
    """Forgets the rows that were to be left out before."""

    def __init__(self, table):
        super().__init__(table)
        self._all = self._table

    def observed_on(self, names):
        total = copy.copy(self)
        total._table = self._all
        return sources.InBlocks.observed_on(total, names)


def in_parts(tables):
    cells = [table.to_arrow(missing_as="codes") for table in tables]
    return MemorySource(Table.read(pa.concat_tables(cells), tables[0].schema))


class Quoting(sources.InBlocks):
    """Raises with the original error."""

    def __init__(self, table):
        try:
            super().__init__(table)
        except DataError as error:
            last = table.to_arrow().slice(len(table) - 1).to_pylist()
            raise DataError(f"refused: {last}") from error


class Clamping(sources.InBlocks):
    """Takes unreadable cells for the first level."""

    def __init__(self, table):
        try:
            super().__init__(table)
        except DataError:
            super().__init__(example_table(table.schema, 5))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (sources.HolesAsLevel, "counts are wrong"),
        (sources.MutableCounts, "hand out copies"),
        (sources.QuotingSource, "differ with the rows"),
        (sources.NaNAsNumber, "of cells written in several ways"),
        (sources.BlocksTwice, "rows of code_blocks are wrong"),
        (sources.HolesWeighed, "sums of weights, of rows observed on some attributes"),
        (sources.FirstThousand, "counts are wrong .with 4096 rows"),
        (LeavingOutTheLastOnly, "counts are wrong .of rows observed on some attributes"),
        (Quoting, "an error quotes a cell"),
        (Clamping, "refuse with a DataError"),
    ],
)
def test_wrong_source_is_detected(source, message):
    with pytest.raises(CheckFailedError, match=message):
        check_source(source, trials=2, most_rows=6000)


@pytest.mark.long
def test_errors_in_parts_and_second_reads_are_detected():
    right, once = sources.InBlocks, {"trials": 1, "most_rows": 50}
    report = check_source(right, **once, in_parts=in_parts, retried=partial(right, fails=True))
    assert report.passed
    assert not report.unchecked
    assert check_source(sources.CountedAgain, **once).passed  # nothing is read twice there
    for message, factory in {
        "in 2 parts": {"in_parts": lambda tables: in_parts(tables[:-1] or tables)},
        r"each once \(in 1 parts": {"in_parts": lambda t: sources.BlocksTwice(in_parts(t).table)},
        "rows that were read twice": {"retried": partial(sources.CountedAgain, fails=True)},
        r"each once \(of rows that were": {"retried": partial(sources.BlocksAgain, fails=True)},
    }.items():
        with pytest.raises(CheckFailedError, match=message):
            check_source(right, **once, **factory)
    largest = inspect.signature(check_source).parameters["most_rows"].default
    assert largest > 2 * max(CHUNK_ROWS, read_files.BATCH_ROWS, databases._BATCH_ROWS)


def test_facts_are_nested_and_draws_are_independent():
    rng, held = np.random.default_rng(0), np.arange(2)
    one = {"a": [np.arange(3), {"b": lambda: held}], "rng": rng}
    before = _facts_of(one, "it")
    assert before == _facts_of(one, "it")
    held[0] = 7
    rng.random()
    changed = [name for name, value in _facts_of(one, "it").items() if before.get(name) != value]
    assert any("closure" in name for name in changed)
    assert any("state" in name for name in changed)
    assert is_same(np.array([np.nan]), np.array([np.nan]))
    assert not is_same([1], (1,))
    # A temporary object, such as the list of a function's closure, is deleted right after. Its
    # identity is then another object's, which must not count as visited.
    facts = _facts_of([carrying(k) for k in range(100)], "it")
    assert [facts[f"it[{k}].closure[0][0]"] for k in range(100)] == [str(k) for k in range(100)]
    assert _facts_of([held, held], "it")["it[1]"] == "as it[0]"
    short, long = _PerCall(0, 1), _PerCall(0, 1)
    few, more = (rng.choice(3, n, p=[0.2, 0.3, 0.5]) for rng, n in ((short, 4), (long, 5)))
    assert np.array_equal(few, more[:4])
    assert np.array_equal(short.random(5), long.random(5))


def carrying(number):
    held = [number]
    return lambda: held
