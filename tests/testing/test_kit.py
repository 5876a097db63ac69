"""The kit fails what it must fail, by the right check, and passes what keeps its promises."""

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
    made_up,
)
from missdp.testing.findings import Subject, same
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
    assert {found.check for found in report.findings} == checks
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


def counted_with_holes(session, name, noise):
    event = replace(examples.laplace(noise.scale, name), required=frozenset({name}))
    return examples.released(session, event, noise, lambda: examples.exact(session, name))


class ForgettingTheGate(examples.Histograms):
    """Counts holes as a level, behind a gate that says it does not read them."""

    family = examples.histograms(counted_with_holes)


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
def test_a_family_that_leaks_is_found_by_what_ours_are_checked_with_daily(leaky, seen):
    on = Subject(leaky, "joint")
    found = [str(finding) for finding in answers_of(on, FEW_PAIRS, FEW_TRIALS, 0)]
    assert any("FAILED" in finding and seen in finding for finding in found)


class Both(examples.Histograms):
    """Breaks two promises at once: reads twice, and carries a count out of a score."""

    family = examples.histograms(examples.read_twice, before=examples.carry, after=examples.carried)


def test_what_leaks_is_an_error_with_all_that_differs():
    assert {MissDPError, AssertionError} <= {*CheckFailedError.__mro__}
    message = failures(check_non_interference, examples.ExactCounts, pairs=["two tables"])
    assert "differs with the rows: " in message


def test_two_reads_for_one_charge_are_found():
    message = failures(check_sensitivity, examples.ReadingTwice, trials=2)
    answered, charged = map(int, re.search(r"(\d+) answers .* and (\d+) were", message).groups())
    assert answered == charged + 4  # of four attributes each is read twice


@pytest.mark.long
def test_everything_that_failed_is_listed_at_once():
    message = failures(check_synthesizer, Both, schema=TINY, audit_trials=0, trials=4)
    assert "differs with the rows: " in message
    assert "charge for each" in message


@pytest.mark.long
def test_too_little_noise_is_found_by_the_audit():
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


def test_what_is_no_family_is_refused():
    for bad in (MemorySource, examples.Histograms(epsilon=1.0), "AIM"):
        with pytest.raises(ParameterError, match="Synthesizer"):
            check_synthesizer(bad)
    with pytest.raises(ParameterError, match="strategies"):
        check_synthesizer(examples.Histograms, strategies=["guess"])
    assert issubclass(examples.Histograms, Synthesizer)


class LeavingOutTheLastOnly(sources.InBlocks):
    """Forgets what was to be left out before."""

    def __init__(self, table):
        super().__init__(table)
        self._all = self._table

    def observed_on(self, names):
        whole = copy.copy(self)
        whole._table = self._all
        return sources.InBlocks.observed_on(whole, names)


def in_parts(tables):
    cells = [table.to_arrow(holes="codes") for table in tables]
    return MemorySource(Table.read(pa.concat_tables(cells), tables[0].schema))


class Quoting(sources.InBlocks):
    """Refuses with what refused."""

    def __init__(self, table):
        try:
            super().__init__(table)
        except DataError as error:
            last = table.to_arrow().slice(len(table) - 1).to_pylist()
            raise DataError(f"refused: {last}") from error


class Clamping(sources.InBlocks):
    """Takes what it cannot read for the first level."""

    def __init__(self, table):
        try:
            super().__init__(table)
        except DataError:
            super().__init__(made_up(table.schema, 5))


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
def test_a_wrong_source_is_found(source, message):
    with pytest.raises(CheckFailedError, match=message):
        check_source(source, trials=2, most_rows=6000)


@pytest.mark.long
def test_what_happens_in_parts_and_to_what_is_read_twice_is_found():
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


def test_facts_go_as_deep_as_values_do_and_a_longer_draw_moves_no_later_one():
    rng, held = np.random.default_rng(0), np.arange(2)
    one = {"a": [np.arange(3), {"b": lambda: held}], "rng": rng}
    before = _facts_of(one, "it")
    assert before == _facts_of(one, "it")
    held[0] = 7
    rng.random()
    changed = [name for name, value in _facts_of(one, "it").items() if before.get(name) != value]
    assert any("closure" in name for name in changed)
    assert any("state" in name for name in changed)
    assert same(np.array([np.nan]), np.array([np.nan]))
    assert not same([1], (1,))
    # What is made on the way, as the list of what a function carries, is gone right after: its
    # identity is then another thing's, which must not be passed over as seen already.
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
