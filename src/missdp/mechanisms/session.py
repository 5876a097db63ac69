"""The session: the one way by which numbers that depend on private rows leave.

A *query* says what is asked of rows, what it reads and how far one row moves it; a *mechanism* how
its exact answer becomes a released one, and what that costs. `Session` charges, computes and draws,
in this order and in one place. A `Witness` in the place of the noise sees all of it, for tests.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from types import FunctionType
from typing import Any, ClassVar, NoReturn, Protocol, Self, TypeAlias

import numpy as np

from missdp.accounting import Budget, Condition, Cost, Event
from missdp.errors import DataError, MissDPError, ParameterError, number, replacing
from missdp.files import noise_is_drawn
from missdp.mechanisms.exact_noise import NoiseSource, SeededNoise
from missdp.mechanisms.noise import Noise
from missdp.record import Record
from missdp.types import Floats


@dataclass(frozen=True)
class Total(Record):
    """A released number of rows with the variance of its noise (0: declared public)."""

    value: float
    variance: float

    @property
    def std(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(self.variance)


class Mechanism(Protocol):
    """How an exact answer becomes a released one; public.

    Beside `draw`, which a session calls, mechanisms tell the checks of `missdp.testing` what they
    do. One may also have ``log_ratio(answer, exact, other)``, the log of how much likelier an
    answer is given one than given the other, which audits use.
    """

    def draw(self, exact: Any, source: NoiseSource) -> Any:
        """Draw the answer, given what is exact."""

    def exceeds(self, event: Event, exact: Any, other: Any) -> str | None:
        """Return why an event does not pay for the answer, or None if it does.

        In words, with numbers: how far two neighbours (``exact`` and ``other``) are apart and how
        far they may be, or that the event is none that pays for this mechanism. It must cover all
        that the mechanism reads, and raise `UnprovenError` if the two do not tell.
        """


Radius: TypeAlias = Callable[[float], float]


@dataclass(frozen=True, eq=False)
class Measurement:
    """What left: a released value, the mechanism that drew it, and the event that paid for it.

    Nothing exact is in it.

    ``radius`` is as in ``Noisy``, for each number.
    """

    value: Any
    mechanism: Mechanism
    event: Event
    radius: Radius | None = None

    @property
    def values(self) -> Floats:
        """The released numbers."""
        return np.asarray(self.value, dtype=np.float64)

    def each(self) -> list[Noisy]:
        """Return the numbers one by one."""
        return [Noisy(value, self.radius) for value in self.values.tolist()]


@dataclass(frozen=True)
class Noisy:
    """A released number, and what is publicly known of its error.

    ``radius`` is from a level to the half-width that holds the noise with that probability; None if
    the scale of the noise is private.
    """

    value: float
    radius: Radius | None

    def within(self, level: float, *, times: float = 1.0) -> tuple[float, float] | None:
        """Interval of the noiseless number, or what it were if noise were that many times less."""
        if self.radius is None:
            return None
        width = self.radius(level) / times
        return self.value - width, self.value + width


@contextmanager
def no_warnings() -> Iterator[None]:
    """Keep warnings of what reads private rows from telling of them, also where they are errors."""
    with np.errstate(all="ignore"), _SILENCE:
        yield


class _Silence:
    """No warnings as long as any thread is inside: all threads of a process share the filters."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.Lock(), 0, warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
            self._inside += 1
            warnings.simplefilter("ignore")

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._before.__exit__(None, None, None)


_SILENCE = _Silence()


def _unquoted(compute: Callable[[], Any]) -> Callable[[], Any]:
    """Return what computes the same; its warnings, and errors of others, tell nothing of rows."""

    def computed() -> Any:
        with replacing(Exception, by=_untold), no_warnings():
            return compute()

    return computed


def _untold(error: BaseException) -> MissDPError:
    failed = DataError("what was asked of the private rows could not be computed")
    return error if isinstance(error, MissDPError) else failed


def exactly(kind: type, value: Any) -> None:
    """Refuse what is of another type, or of one made from it: it could carry numbers away."""
    if type(value) is not kind:
        raise ParameterError(f"this takes a {kind.__name__}, and nothing made from it")


def plain_function(function: Any, what: str) -> None:
    """Refuse what could carry private numbers away: closures, defaults, methods, objects."""
    if not isinstance(function, FunctionType) or (
        function.__closure__ or function.__defaults__ or function.__kwdefaults__
    ):
        raise ParameterError(
            f"{what} must be a plain function, without a closure or defaults: hand released "
            "values over with 'given'"
        )


def read_only(value: Any) -> Any:
    """Return a public value in a form that whoever is given it cannot write to.

    Numbers, text, arrays (as views), and tuples, sets and frozen objects made of those, in which
    arrays must be read-only already.
    """
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, tuple):
        return tuple(map(read_only, value))
    if not _is_frozen(value):
        raise ParameterError("only arrays, numbers, text and frozen objects of those can be given")
    return value


def _is_frozen(value: Any) -> bool:
    """Whether a value cannot be written to, nor anything that it holds."""
    if value is None or isinstance(value, (bool, int, float, str, Fraction, np.generic)):
        return not hasattr(value, "__dict__")  # in which one of a stranger's type could keep rows
    if isinstance(value, np.ndarray):
        return not (value.flags.writeable or value.dtype.hasobject)
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_frozen, value))
    if is_dataclass(value) and not isinstance(value, type):
        frozen = value.__dataclass_params__.frozen  # type: ignore[attr-defined]
        return frozen and all(_is_frozen(getattr(value, f.name)) for f in fields(value))
    return False


class Witness(SeededNoise):
    """Noise for tests that is also shown every answer, with the exact numbers behind it.

    Pass one as ``random_state`` to whatever answers through a door, and override `answer` to keep
    what is shown, or to repeat what was kept. As with every seed, the guarantee then states the
    condition `ExplicitSeed`.

    >>> from missdp import PrivBayes
    >>> from missdp.datasets import yrbss
    >>> class Counter(Witness):
    ...     answers = 0
    ...     def answer(self, event, mechanism, exact):
    ...         self.answers += 1
    ...         return super().answer(event, mechanism, exact)
    >>> witness = Counter(0)
    >>> model = PrivBayes(epsilon=1.0, random_state=witness).fit(yrbss().table())
    >>> witness.answers > 13
    True
    """

    def answer(self, event: Event, mechanism: Mechanism, exact: Callable[[], Any]) -> Any:
        """Return the answer of a mechanism; the event was charged, ``exact`` computes numbers."""
        del event
        return mechanism.draw(exact(), self)


@dataclass(frozen=True, eq=False, repr=False)
class Charged:
    """Releases that were charged for, and can be answered so often by the session that charged."""

    events: tuple[Event, ...]
    answers: int = 1
    ask: Any = None

    def __repr__(self) -> str:
        return f"Charged({self.events[0].label!r})"


class Session:
    """A budget and a source of noise; private rows are added by those who inherit from it.

    Whatever leaves goes through `_release`. A session cannot be copied or pickled.

    Parameters
    ----------
    budget, noise
        What is charged, and what is drawn from.
    conditions : iterable of Condition
        What every release rests on, beside the noise.
    """

    _queries: ClassVar[tuple[type, ...]] = ()
    _rows: Any  # what queries compute their exact answers from; private

    def __init__(
        self, *, budget: Budget, noise: NoiseSource, conditions: Iterable[Condition] = ()
    ) -> None:
        self._budget, self._noise = budget, noise
        self._conditions = (*conditions, *noise.conditions)
        self._admit: Callable[[Event], None] | None = None
        self._left: dict[Charged, int] = {}  # charged for, and not answered so often
        self._lock = threading.Lock()

    @property
    def left(self) -> Cost:
        """What can still be spent."""
        return self._budget.left

    def share(self, part: float) -> Cost:
        """Return a share, above 0 and at most 1, of what can still be spent."""
        part = number("a share", part, most=1.0, open_end=True)
        return replace(self.left, amount=self.left.amount * part)

    def generator(self) -> np.random.Generator:
        """Return a generator for post-processing; its draws protect nothing."""
        return self._noise.generator()

    def measure(self, query: Any, how: Any) -> Measurement:
        """Charge for a query, compute its exact answer, and release it with noise.

        Parameters
        ----------
        query : query
            Of a type of this library, which knows its exact answer, its sensitivity and what it
            reads.
        how : Noise, Selection or Cost
            The mechanism, of which the query knows the type; or what to spend on noise.
        """
        self._check(query)
        query.check(self._rows)
        if isinstance(how, Cost):
            how = Noise.worth(how, sensitivity=query.moves(1 if how.currency == "pure" else 2))
        exactly(query.answered_by, how)
        return self._measured(query, how)

    def _check(self, query: Any) -> None:
        if type(query) not in self._queries:  # another one could carry exact numbers away
            known = ", ".join(kind.__name__ for kind in self._queries)
            raise ParameterError(f"a query must be one of {known}, and no other type")

    def _measured(self, query: Any, how: Any) -> Measurement:
        gate = self._gate(query.reads) or None
        event = how.event(query.moves(how.norm), gate=gate, label=query.label)
        value = self._release(event, how, lambda: query.exact(self._rows))
        return Measurement(value, how, event, getattr(how, "radius", None))

    def _gate(self, reads: tuple[str, ...] | None) -> frozenset[str]:
        """Return what a row must have had observed to be read, public; None reads every row."""
        return frozenset(reads or ())

    def _release(
        self,
        event: Event,
        mechanism: Mechanism,
        exact: Callable[[], Any],
        *,
        paid: Charged | None = None,
    ) -> Any:
        """Charge (unless ``paid``), compute, draw: the one place where numbers leave."""
        if paid is None:
            self._charge(paid := Charged((event,)))
        self._take(paid)
        if isinstance(self._noise, Witness):
            return self._noise.answer(event, mechanism, _unquoted(exact))

        def answer() -> Any:
            numbers = exact()
            noise_is_drawn()
            return mechanism.draw(numbers, self._noise)

        return _unquoted(answer)()

    def _charge(self, *charged: Charged, conditions: Iterable[Condition] = ()) -> None:
        """Charge for all of these, or for none, before anything is read."""
        events = [event for each in charged for event in each.events]
        if (admit := self._admit) is not None:
            for event in events:
                admit(event)
        if self._budget is not None:
            self._budget.charge(*events, conditions=(*conditions, *self._conditions))
        self._left.update({each: each.answers for each in charged})

    def _take(self, charged: Charged) -> None:
        """Let a charge be answered once more, if it was made here and pays for it."""
        if self._budget is not None:  # a fork holds a second copy of what was charged for once
            self._budget.check_process()
        with self._lock:
            left = self._left.pop(charged, 0)
            if not left:
                raise ParameterError("a release is answered once, by the door that charged for it")
            if left > 1:
                self._left[charged] = left - 1

    def _with(self, **changes: Any) -> Self:
        """Return another session on the same rows, with the same noise."""
        another = object.__new__(type(self))
        another.__dict__.update(self.__dict__ | changes)
        return another

    def __reduce__(self) -> NoReturn:
        raise ParameterError(
            "a door cannot be copied or pickled: private rows are behind it. Keep what it answered"
        )
