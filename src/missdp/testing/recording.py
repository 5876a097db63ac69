"""Noise that records or repeats every answer, for tests.

A session charges, computes an exact answer and draws a released one. For the duration of a ``with``
block, `RecordingNoise` takes the place of the noise source of all sessions that are opened inside.
It sees each of their answers with the exact numbers behind it. `ReplayedNoise` repeats the answers
of a recording. No production module uses them. Both replace two functions while they are installed,
and restore them afterwards.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import Any, Self

import numpy as np

from missdp.accounting import Event
from missdp.errors import MissDPError, ParameterError, check_integer, check_number
from missdp.session.noise import NoiseSource, SeededNoise
from missdp.session.session import Mechanism, Session
from missdp.session.training import RowGradients, SampledSum
from missdp.statistics.groups import ParallelGroups
from missdp.statistics.smooth_sensitivity import Bounded
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.testing.findings import BrokenPromise, Subject, WatchedRows, is_same
from missdp.types import Floats, Ints

UNANSWERED = (
    "nothing was answered: open the session, or fit the model, inside the function. Let the "
    "session have its noise from NoiseSource.from_seed"
)
_CHOOSE = "Choose what to ask, and with how much noise, from public facts and released values only"
_GRADIENT_TOLERANCE = 1e-10  # rounding of a sum of gradients per row, in clip norms


class QuestionDiffersError(BrokenPromise, MissDPError):
    """A question differs from the recorded question, so it depends on more than answers.

    Sessions raise errors of this library unchanged, and replace all others.
    """

    def __init__(self, how: str) -> None:
        super().__init__(f"questions depend on more than answers: {how}. {_CHOOSE}")


class StopRecording(BaseException):
    """The last answer of interest was released. The rest is post-processing."""


@dataclass(frozen=True)
class Answer:
    """One released answer of a session, with the exact numbers behind it, as a test records it.

    `RecordingNoise` keeps one for each answer. The exact numbers are those of an example table.

    Parameters
    ----------
    event : Event
        Accounting event that the answer was charged with.
    mechanism : Mechanism
        The mechanism that drew the answer.
    exact : object
        The exact numbers, of a type that depends on the mechanism. None if they were not computed.
    released : object
        The released value.

    Notes
    -----
    The object holds exact numbers, so make it from example tables only.

    Examples
    --------
    >>> from missdp.testing import RecordingNoise
    >>> from missdp import PrivBayes
    >>> from missdp.datasets import yrbss
    >>> with RecordingNoise(0) as recording:
    ...     model = PrivBayes(epsilon=1.0).fit(yrbss().table())
    >>> type(recording.answers[0]).__name__
    'Answer'
    """

    event: Event
    mechanism: Mechanism
    exact: Any
    released: Any


@dataclass(frozen=True, eq=False)
class GradientsOfEachRow:
    """The clipped gradient of each row at the weights of one step, for checks."""

    each: Floats

    @classmethod
    def of(cls, gradients: RowGradients) -> GradientsOfEachRow:
        """Return the gradients of single rows, which are sums over one row.

        The gradient of a row is set to NaN if it depends on the other rows of a sum.
        """
        rows = np.arange(len(gradients))
        total = gradients.sum(rows)
        each = np.zeros((len(rows), total.size))
        for i in rows:
            each[i] = gradients.sum(rows[i : i + 1])
            off = np.abs(total - gradients.sum(np.delete(rows, i)) - each[i]).max(initial=0.0)
            each[i] += np.nan if off > _GRADIENT_TOLERANCE * max(1, len(rows)) else 0.0
        return cls(each)

    def __len__(self) -> int:
        return len(self.each)

    def sum(self, rows: Ints) -> Floats:
        """Return the sum over some rows, all parameters in one vector."""
        return np.asarray(self.each[rows].sum(axis=0))


@singledispatch
def snapshot(mechanism: Mechanism, exact: Any) -> Any:
    """Return a copy of the exact numbers behind an answer, which can be compared later."""
    del mechanism
    return copy.deepcopy(exact)


@snapshot.register(SampledSum)
def _(mechanism: SampledSum, exact: RowGradients) -> GradientsOfEachRow:
    """Read gradients now, since weights change later."""
    del mechanism
    return GradientsOfEachRow.of(exact)


# Installation of a recording

_INSIDE: ContextVar[tuple[RecordingNoise, ...]] = ContextVar("recordings", default=())
"""The recordings that are installed in this thread, the innermost last."""


@dataclass(frozen=True)
class _Recorded:
    """Stands for a mechanism, so that a recording gives the answer."""

    event: Event
    mechanism: Mechanism

    def draw(self, exact: Callable[[], Any], source: NoiseSource) -> Any:
        """Return the answer of the recording. It decides whether ``exact`` is computed."""
        assert isinstance(source, RecordingNoise)
        return source.answer(self.event, self.mechanism, exact)


_REPLACED: tuple[tuple[type, str], ...] = (
    (Session, "_release"),
    (NoiseSource, "from_seed"),
)
"""The functions that are replaced: a session's charge, computation and draw, and its source."""


class _Patches:
    """The replaced functions, as long as any recording is installed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._installed: list[RecordingNoise] = []
        self._before: list[Any] = []

    def install(self, recording: RecordingNoise) -> None:
        """Replace the functions, if no recording has done so."""
        with self._lock:
            if recording in self._installed:
                raise ParameterError("this recording is installed already. Make another one")
            if not self._installed:
                self._before = [vars(kind)[name] for kind, name in _REPLACED]
                for kind, name in _REPLACED:
                    replacing = self._source if kind is NoiseSource else self._release
                    setattr(kind, name, replacing(getattr(kind, name)))
            self._installed.append(recording)

    def remove(self, recording: RecordingNoise) -> None:
        """Restore the functions, if this was the only recording."""
        with self._lock:
            self._installed.remove(recording)
            if not self._installed:
                for (kind, name), before in zip(_REPLACED, self._before, strict=True):
                    setattr(kind, name, before)

    def _release(self, release: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that releases, and lets a recording answer in sessions of its own.

        The session's own function charges as ever, and calls ``draw`` in place of the mechanism.
        """

        def recorded(
            session: Any, charge: Any, events: Any, mechanism: Mechanism, exact: Any
        ) -> Any:
            if session._noise not in self._installed:
                return release(session, charge, events, mechanism, exact)
            return release(session, charge, events, _Recorded(events[0], mechanism), lambda: exact)

        return recorded

    def _source(self, source: Callable[..., NoiseSource]) -> Any:
        """Return a function that checks its argument, and returns the innermost recording."""

        def recorded(random_state: int | None = None) -> NoiseSource:
            usual, inside = source(random_state), _INSIDE.get()
            return inside[-1] if inside else usual

        return staticmethod(recorded)


_PATCHES = _Patches()


# Installed noise sources


class RecordingNoise(SeededNoise):
    """Seeded noise source for tests that keeps every answer with the exact numbers behind it.

    Use it as a context manager, on example tables only. All sessions that this thread opens inside
    have their noise from it, for any ``random_state``. So have fits, statistics and private
    estimators. As with every seed, their guarantees state the condition `ExplicitSeed`. Recordings
    may be nested: a session belongs to the innermost recording that was installed when the session
    was opened. A subclass overrides `answer` for answers of another kind.

    Parameters
    ----------
    seed : int
        Seed of the noise, at least 0.
    scale : float, default 1.0
        Draw the noise with so many times its scale, above 0. A factor other than 1 is a bug
        that an audit must find.
    stop_after : int, optional
        Stop the caller after so many answers, at least 1, by raising ``StopRecording``.

    Attributes
    ----------
    answers : list of Answer
        The answers, in order.
    outside_reads : int
        Number of times that watched rows were read outside of an answer.
    generators : int
        Number of random generators that were handed out for post-processing.

    Raises
    ------
    ParameterError
        If a parameter is out of range, or the recording is installed already.

    Notes
    -----
    A recording holds exact numbers and gives no privacy. Never use it on private rows.

    Examples
    --------
    >>> from missdp.testing import RecordingNoise
    >>> from missdp import PrivBayes
    >>> from missdp.datasets import yrbss
    >>> with RecordingNoise(0) as recording:
    ...     model = PrivBayes(epsilon=1.0).fit(yrbss().table())
    >>> len(recording.answers) > 13
    True
    """

    def __init__(self, seed: int, *, scale: float = 1.0, stop_after: int | None = None) -> None:
        check_integer("seed", seed, min_value=0)
        check_number("scale", scale, exclude_min=True)
        if stop_after is not None:
            check_integer("stop_after", stop_after, min_value=1)
        super().__init__(seed)
        self.seed, self.scale, self.stop_after = seed, scale, stop_after
        self.answers: list[Answer] = []
        self.generators = 0
        self.scaled = self.computing = False
        self.outside_reads = 0

    def __enter__(self) -> Self:
        _PATCHES.install(self)
        _INSIDE.set((*_INSIDE.get(), self))
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        _INSIDE.set(tuple(one for one in _INSIDE.get() if one is not self))
        _PATCHES.remove(self)

    def answer(self, event: Event, mechanism: Mechanism, exact: Callable[[], Any]) -> Any:
        """Compute the exact numbers of a query, draw the released answer, and keep both.

        A session calls it in place of the mechanism.

        Parameters
        ----------
        event : Event
            Accounting event that the answer was charged with.
        mechanism : Mechanism
            The mechanism that draws the answer.
        exact : callable
            Function without arguments that returns the exact numbers.

        Returns
        -------
        object
            The released value, of a type that depends on the mechanism.

        Raises
        ------
        ParameterError
            If the scale of the mechanism's noise cannot be changed.
        StopRecording
            If ``stop_after`` answers were given.
        """
        behind = self._computed(mechanism, exact)
        released = self.drawn(mechanism, copy.deepcopy(behind))
        return self._keep(Answer(event, mechanism, behind, released))

    def watched(self, table: Table) -> WatchedRows:
        """Return rows of an example table whose reads outside of an answer are counted.

        The attribute ``outside_reads`` counts them.

        A fit must read rows in answers only, so that each read is charged.

        Parameters
        ----------
        table : Table
            An example table.

        Returns
        -------
        WatchedRows
            The rows, for a fit.
        """
        return WatchedRows(table, self._notice)

    def _notice(self) -> None:
        self.outside_reads += not self.computing

    def _computed(self, mechanism: Mechanism, exact: Callable[[], Any]) -> Any:
        """Return a copy of exact numbers, for which rows may be read."""
        self.computing = True
        try:
            return snapshot(mechanism, exact())
        finally:
            self.computing = False

    def _keep(self, answer: Answer) -> Any:
        """Keep an answer, and return a copy of the released value."""
        self.answers.append(answer)
        if len(self.answers) == self.stop_after:
            raise StopRecording
        return copy.deepcopy(answer.released)

    def drawn(self, mechanism: Mechanism, behind: Any) -> Any:
        """Draw a released answer, with noise of the requested scale or of a false scale.

        Parameters
        ----------
        mechanism : Mechanism
            The mechanism that draws the answer.
        behind : object
            The exact numbers.

        Returns
        -------
        object
            The released value, of a type that depends on the mechanism.

        Raises
        ------
        ParameterError
            If the scale of the mechanism's noise cannot be changed.
        """
        self.scaled = self.scale == 1
        released = mechanism.draw(behind, self)
        if self.scaled:
            return released
        if isinstance(mechanism, ParallelGroups):
            return tuple(self.drawn(mechanism.mechanism, each) for each in behind)
        if isinstance(behind, Bounded):  # whose noise is made of random bits
            more, pairs = Fraction(self.scale), zip(behind.totals, released, strict=True)
            return tuple(total + more * (value - total) for total, value in pairs)
        raise ParameterError(
            f"the noise of {type(mechanism).__name__} cannot be scaled. Audit it with scale=1, or "
            "let it draw by discrete_laplace, discrete_gaussian or noisy_max of the noise source"
        )

    def _scaled(self, scale: float) -> float:
        self.scaled = True
        return scale * self.scale

    def discrete_laplace(self, scale: float, size: Any) -> Any:
        """Draw discrete Laplace noise, with the requested scale times the factor of the recording.

        Parameters
        ----------
        scale : float
            Requested scale of the noise, above 0, at most 2**40.
        size : int or tuple of int
            Shape of the result.

        Returns
        -------
        ndarray of int64, shape ``size``
            Independent draws from a seed, which give no privacy. They read no rows.

        Raises
        ------
        ParameterError
            If the scale, or the scale times the factor, is out of range.
        """
        return super().discrete_laplace(self._scaled(scale), size)

    def discrete_gaussian(self, sigma: float, size: Any) -> Any:
        """Draw discrete Gaussian noise, with the requested scale times the factor of the recording.

        Parameters
        ----------
        sigma : float
            Requested scale of the noise, about its standard deviation. Above 0, at most 2**40.
        size : int or tuple of int
            Shape of the result.

        Returns
        -------
        ndarray of int64, shape ``size``
            Independent draws from a seed, which give no privacy. They read no rows.

        Raises
        ------
        ParameterError
            If sigma, or sigma times the factor, is out of range.
        """
        return super().discrete_gaussian(self._scaled(sigma), size)

    def noisy_max(self, scores: Any, scale: float, **more: Any) -> int:
        """Select a candidate by noisy scores, with noise scaled by the recording's factor.

        Parameters
        ----------
        scores : array_like of float, shape (n_candidates,)
            Exact scores.
        scale : float
            Requested scale of the noise, above 0.
        **more : object
            Further options, as ``SeededNoise.noisy_max`` takes them.

        Returns
        -------
        int
            Number of the selected candidate, from 0.

        Raises
        ------
        ParameterError
            If there is no score, or the scale is out of range.
        DataError
            If a score is not finite.
        """
        return super().noisy_max(scores, self._scaled(scale), **more)

    def generator(self) -> np.random.Generator:
        """Return a random generator for post-processing, equal in a recording and its repetitions.

        Returns
        -------
        numpy.random.Generator
            A generator with a separate stream for each call. Its draws give no privacy.
        """
        self.generators += 1
        return _PerCall(self.seed, self.generators)


def fitted_inside(on: Subject, noise: RecordingNoise, rows: Table) -> Synthesizer:
    """Return a model of rows, whose reads an installed recording watches.

    Parameters
    ----------
    on : Subject
        The family and its strategy.
    noise : RecordingNoise
        The innermost recording that is installed.
    rows : Table
        Rows of units are chosen before they are read, and cannot be watched.

    Returns
    -------
    Synthesizer
        The fitted model.
    """
    return on.build().fit(rows if rows.schema.unit else noise.watched(rows))


class ReplayedNoise(RecordingNoise):
    """Noise source for tests that repeats the answers of a recording on another table.

    Use it as a context manager around the code that was recorded. The code then receives the
    recorded answers, so every visible difference came from the rows in another way. It records the
    exact numbers of the other table.

    Parameters
    ----------
    recording : RecordingNoise
        The recording whose answers are repeated.
    reads : bool, default True
        If True, exact numbers are computed. If False, ``exact`` of the answers is None.

    Attributes
    ----------
    answers : list of Answer
        The answers so far, with the exact numbers of the other table.
    difference : QuestionDiffersError or None
        The first question that differs from the recorded question.

    Raises
    ------
    QuestionDiffersError
        At the end of the ``with`` block, if a question differed from the recorded question.
    ParameterError
        If the recording is installed already.

    Notes
    -----
    A repetition holds exact numbers and gives no privacy. Never use it on private rows.

    Examples
    --------
    >>> from missdp.testing import RecordingNoise, ReplayedNoise
    >>> from missdp import PrivBayes
    >>> from missdp.testing import TINY, canary
    >>> few, more = canary(TINY, 500)
    >>> with RecordingNoise(0) as recording:
    ...     model = PrivBayes(epsilon=1.0).fit(few)
    >>> with ReplayedNoise(recording) as again:
    ...     model = PrivBayes(epsilon=1.0).fit(more)
    >>> len(again.answers) == len(recording.answers)
    True
    """

    def __init__(self, recording: RecordingNoise, *, reads: bool = True) -> None:
        super().__init__(recording.seed, stop_after=recording.stop_after)
        self.tape, self.reads = recording.answers, reads
        self.difference: QuestionDiffersError | None = None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        super().__exit__(kind, error, traceback)
        other = error is None or isinstance(error, Exception)
        if self.difference is not None and other and error is not self.difference:
            raise self.difference

    def answer(self, event: Event, mechanism: Mechanism, exact: Callable[[], Any]) -> Any:
        """Return the recorded answer to a question, and keep the exact numbers of the other table.

        A differing question raises the error again for every later question, and at the end of the
        ``with`` block. So code that catches it is found, too.

        Parameters
        ----------
        event : Event
            Accounting event that the answer was charged with.
        mechanism : Mechanism
            The mechanism of the answer.
        exact : callable
            Function without arguments that returns the exact numbers.

        Returns
        -------
        object
            The recorded value, of a type that depends on the mechanism.

        Raises
        ------
        QuestionDiffersError
            If the question differs from the recorded question.
        StopRecording
            If ``stop_after`` answers were given.
        """
        if self.difference is None and (how := self._difference(event, mechanism)):
            self.difference = QuestionDiffersError(how)
        if self.difference is not None:
            raise self.difference
        before = self.tape[len(self.answers)]
        behind = self._computed(mechanism, exact) if self.reads else None
        return self._keep(Answer(event, mechanism, behind, before.released))

    def _difference(self, event: Event, mechanism: Mechanism) -> str | None:
        """Return the difference of a question from the recorded question, or None."""
        position = len(self.answers)
        if position == len(self.tape):
            return f"answer {position + 1} ({event.label}) was not asked for before"
        before = self.tape[position]
        if is_same(before.event, event) and is_same(before.mechanism, mechanism):
            return None
        return (
            f"answer {position + 1} was {before.event.label!r} and is {event.label!r}, or has "
            "other parameters"
        )


class _PerCall(np.random.Generator):
    """A generator with a stream for each call, so that one more row moves no other draw."""

    def __init__(self, seed: int, number: int) -> None:
        super().__init__(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(number,))))
        self._seed, self._number, self._calls = seed, number, 0

    def __reduce__(self) -> Any:
        return _PerCall, (self._seed, self._number)


def _drawing(name: str) -> Callable[..., Any]:
    def drawing(self: _PerCall, *arguments: Any, **more: Any) -> Any:
        self._calls += 1
        key = (self._number, self._calls)
        fresh = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=key))
        return getattr(fresh, name)(*arguments, **more)

    return drawing


for _name in ("choice", "random", "integers", "normal", "standard_normal", "uniform", "binomial"):
    setattr(_PerCall, _name, _drawing(_name))
