"""Laws by which exact numbers become released ones, and what is common to all doors.

Whatever anyone learns about private rows is an answer: a `Law` drew it from exact numbers, after an
event was charged for it. A `Witness` in the place of the noise sees all of it, for tests. A
`Handle` is what every door has: a budget that is charged first, and one place of answers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from types import FunctionType
from typing import (
    Any,
    NoReturn,
    Protocol,
    Self,
)

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import (
    Budget,
    Condition,
    Cost,
    Event,
    GaussianEvent,
    LaplaceEvent,
    scale_for,
)
from missdp.accounting.costs import gdp_noise
from missdp.errors import DataError, ParameterError, replacing
from missdp.files import noise_is_drawn
from missdp.mechanisms.noise import (
    CountNoise,
    NoiseSource,
    SeededNoise,
    add_noise,
    check_scale,
    distance,
    gaussian_exceeds,
    laplace_exceeds,
)
from missdp.record import Record

# More noise than exact arithmetic asks for, so that shares of a budget that sum to 1 fit into it.
_ROOM = 1 + 1e-12


@dataclass(frozen=True)
class Total(Record):
    """A released number of rows with the variance of its noise (0: declared public).

    Examples
    --------
    >>> Total(180.0, 400.0).std
    20.0
    """

    value: float
    variance: float

    @property
    def std(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(self.variance)


class Law(Protocol):
    """How exact numbers become a released answer; public.

    Beside `draw`, which a door calls, laws tell the checks of `missdp.testing` what they do. A law
    may also have ``log_ratio(answer, exact, other)``, the log of how much likelier an answer is
    given one than given the other, which audits use.
    """

    def draw(self, exact: Any, source: NoiseSource) -> Any:
        """Draw the answer, given what is exact."""

    def exceeds(self, event: Event, exact: Any, other: Any) -> str | None:
        """Return why an event does not pay for the answer, or None if it does.

        In words, with numbers: how far two neighbours (``exact`` and ``other``) are apart and how
        far they may be, or that the event is none that pays for this law. It must cover all that
        the law reads.

        Raises
        ------
        UnprovenError
            If the two do not tell. Then nothing is said to be checked.
        """


@dataclass(frozen=True)
class Noise:
    """How much noise each released count gets.

    Parameters
    ----------
    kind : {"laplace", "gaussian"}
        Laplace noise is pure DP; Gaussian noise is zCDP.
    scale : float
        The Laplace scale, or the Gaussian sigma; above 0.

    Examples
    --------
    >>> Noise("laplace", 2.0).variance
    8.0
    """

    kind: CountNoise
    scale: float

    def __post_init__(self) -> None:
        if self.kind not in ("laplace", "gaussian"):
            raise ParameterError(f"noise must be 'laplace' or 'gaussian', got {self.kind!r}")
        object.__setattr__(self, "scale", check_scale("scale", self.scale))

    @classmethod
    def worth(cls, cost: Cost, *, sensitivity: float = 1.0) -> Noise:
        """Return the noise with which whole numbers cost at most this.

        Parameters
        ----------
        cost : Cost
        sensitivity : float, default 1.0
            How far one row moves them: in L1 norm for a cost in pure epsilon, else in L2 norm.

        Examples
        --------
        >>> from missdp.accounting import Cost
        >>> Noise.worth(Cost(currency="zcdp", amount=0.125)).scale > 2
        True
        """
        if cost.currency == "pure":
            scale = scale_for(sensitivity, cost.amount) if cost.amount else math.inf
            return cls("laplace", scale * _ROOM)
        if cost.currency == "gdp":
            return cls("gaussian", gdp_noise(cost.amount, sensitivity=sensitivity) * _ROOM)
        # A Gaussian is rho = 1 / (2 sigma^2), and (order * rho) at a Rényi order.
        rho = cost.amount / (cost.order or 1.0)
        sigma = sensitivity * math.sqrt(1 / (2 * rho)) if rho else math.inf
        return cls("gaussian", sigma * _ROOM)

    @property
    def variance(self) -> float:
        """Variance of the noise of one count."""
        return 2 * self.scale**2 if self.kind == "laplace" else self.scale**2

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one count."""
        return math.sqrt(self.variance)

    @property
    def error(self) -> float:
        """Mean absolute noise of one count."""
        return self.scale if self.kind == "laplace" else math.sqrt(2 / math.pi) * self.scale

    def radius(self, level: float) -> float:
        """Return the half-width that holds the noise of one count with this probability."""
        from scipy.special import ndtri

        if self.kind == "laplace":
            return 1 - self.scale * math.log1p(-level)
        return 1 - self.scale * float(ndtri((1 - level) / 2))

    def draw(self, exact: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Return counts plus noise."""
        return add_noise(exact, self.kind, self.scale, source)

    def event(self, sensitivity: float, *, gate: Iterable[str] | None, label: str) -> Event:
        """Return the fact that numbers which a row moves so far are released with this noise."""
        facts: dict[str, Any] = {"sensitivity": sensitivity, "gate": gate, "label": label}
        if self.kind == "laplace":
            return LaplaceEvent(scale=self.scale, **facts)
        return GaussianEvent(sigma=self.scale, **facts)

    def exceeds(
        self, event: Event, exact: NDArray[np.int64], other: NDArray[np.int64]
    ) -> str | None:
        """Return why an event does not pay: counts move too far, or the noise is too small.

        Examples
        --------
        >>> from missdp.accounting import LaplaceEvent
        >>> charged = LaplaceEvent(sensitivity=1, scale=2.0)
        >>> Noise("laplace", 2.0).exceeds(charged, np.array([5, 0]), np.array([4, 1]))
        'one row moves what is behind it by 2, and 1 was charged for'
        """
        if self.kind == "laplace":
            return laplace_exceeds(event, distance(exact, other, 1), self.scale)
        return gaussian_exceeds(event, distance(exact, other, 2), self.scale)

    def log_ratio(
        self, answer: NDArray[np.int64], exact: NDArray[np.int64], other: NDArray[np.int64]
    ) -> float:
        """Return the log of how much likelier the answer is given ``exact`` than given ``other``.

        Examples
        --------
        >>> Noise("laplace", 2.0).log_ratio(np.array([7]), np.array([5]), np.array([4]))
        0.5
        """
        here, there = (np.asarray(answer, dtype=np.float64) - counts for counts in (exact, other))
        if self.kind == "laplace":
            return float((np.abs(there) - np.abs(here)).sum() / self.scale)
        return float(((there - here) * (there + here)).sum() / (2 * self.scale**2))


@contextmanager
def no_warnings() -> Iterator[None]:
    """Keep warnings of what reads private rows from telling of them, also where they are errors."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def unquoted(compute: Callable[[], Any], failed: str) -> Callable[[], Any]:
    """Return what computes the same, and whose errors and warnings tell nothing of the rows."""

    def computed() -> Any:
        with replacing(Exception, by=DataError(failed)), no_warnings():
            return compute()

    return computed


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
        return True
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

    Parameters
    ----------
    seed : int or numpy.random.Generator

    Examples
    --------
    >>> from missdp import PrivBayes
    >>> from missdp.datasets import yrbss
    >>> class Counter(Witness):
    ...     answers = 0
    ...     def answer(self, event, law, exact):
    ...         self.answers += 1
    ...         return super().answer(event, law, exact)
    >>> witness = Counter(0)
    >>> model = PrivBayes(epsilon=1.0, random_state=witness).fit(yrbss().table())
    >>> witness.answers > 13
    True
    """

    def answer(self, event: Event, law: Law, exact: Callable[[], Any]) -> Any:
        """Return the answer of a law.

        Parameters
        ----------
        event : Event
            What was charged for it.
        law : Law
        exact : callable
            Computes the exact numbers.
        """
        del event
        return law.draw(exact(), self)


class Handle:
    """A budget and a source of noise; private rows are added by those who inherit from it.

    Whatever leaves goes through `_release`, or through `_charge` and `_answer` in this order. A
    handle cannot be copied or pickled.

    Parameters
    ----------
    budget : Budget
    noise : NoiseSource
    conditions : iterable of Condition
        What every release rests on, beside the noise.
    """

    def __init__(
        self, *, budget: Budget, noise: NoiseSource, conditions: Iterable[Condition] = ()
    ) -> None:
        self._budget, self._noise = budget, noise
        self._conditions = (*conditions, *noise.conditions)

    @property
    def left(self) -> Cost:
        """What can still be spent."""
        return self._budget.left

    def share(self, part: float) -> Cost:
        """Return a share, above 0 and at most 1, of what can still be spent."""
        if isinstance(part, bool) or not 0 < part <= 1:
            raise ParameterError("a share must be above 0 and at most 1")
        return replace(self.left, amount=self.left.amount * part)

    def generator(self) -> np.random.Generator:
        """Return a generator for post-processing; its draws protect nothing."""
        return self._noise.generator()

    def _release(self, event: Event, law: Law, exact: Callable[[], Any]) -> Any:
        """Charge for an event, then compute what is exact and draw the answer."""
        self._charge(event)
        return self._answer(event, law, exact)

    def _charge(self, *events: Event) -> None:
        self._budget.charge(*events, conditions=self._conditions)

    def _answer(self, event: Event, law: Law, exact: Callable[[], Any]) -> Any:
        """Return the answer to what was charged. This is the one place where numbers leave."""
        if self._budget is not None:  # a fork holds a second copy of what was charged for once
            self._budget.check_process()
        if isinstance(self._noise, Witness):
            return self._noise.answer(event, law, exact)
        numbers = exact()
        noise_is_drawn()
        return law.draw(numbers, self._noise)

    def _with(self, **changes: Any) -> Self:
        """Return another handle on the same rows, with the same noise."""
        another = object.__new__(type(self))
        another.__dict__.update(self.__dict__ | changes)
        return another

    def __reduce__(self) -> NoReturn:
        raise ParameterError(
            "a door cannot be copied or pickled: private rows are behind it. Keep what it answered"
        )
