"""Witnesses, which keep the answers of a door or repeat them, and rows that are watched."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from missdp.accounting import Event
from missdp.errors import ParameterError
from missdp.mechanisms import Witness
from missdp.mechanisms.session import Mechanism
from missdp.mechanisms.smooth import Bounded
from missdp.sources import MemorySource
from missdp.table import Table
from missdp.testing.findings import Broken

UNANSWERED = "nothing was answered: hand the witness on, as random_state, to what draws the noise"
_CHOOSE = "Choose what to ask, and with how much noise, from public facts and released values only"


class Differs(Broken):
    """The rows are asked another question than was kept: it depends on more than answers."""

    def __init__(self, how: str) -> None:
        super().__init__(f"questions depend on more than answers: {how}. {_CHOOSE}")


class Enough(BaseException):
    """The last answer that is of interest was given: the rest is post-processing."""


@dataclass(frozen=True)
class Answer:
    """What left through a door, and what was behind it."""

    event: Event
    law: Mechanism
    exact: Any
    released: Any


class Recorder(Witness):
    """Keep every answer with the exact numbers behind it.

    Parameters
    ----------
    seed : int
    scale : float, default 1.0
        Draw the noise with so many times its scale: a bug that an audit must find.
    stop_after : int, optional
        Stop whatever asks, by raising ``Enough``, once so many answers were kept.
    """

    def __init__(self, seed: int, *, scale: float = 1.0, stop_after: int | None = None) -> None:
        super().__init__(seed)
        self.seed, self.scale, self.stop_after = seed, scale, stop_after
        self.kept: list[Answer] = []
        self.generators = 0
        self.scaled = self.computing = False
        self.read_beside = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Recorder:
        return self

    def __sklearn_clone__(self) -> Recorder:
        return self

    def answer(self, event: Event, law: Mechanism, exact: Callable[[], Any]) -> Any:
        """Return the answer of a law, and keep it."""
        behind = self._computed(exact)
        return self._keep(Answer(event, law, behind, self.drawn(law, copy.deepcopy(behind))))

    def watched(self, table: Table) -> Guarded:
        """Return rows; how often they are read outside of an answer is then in ``read_beside``."""
        return Guarded(table, self._notice)

    def _notice(self) -> None:
        self.read_beside += not self.computing

    def _computed(self, exact: Callable[[], Any]) -> Any:
        """Return a copy of exact numbers, for which rows may be read."""
        self.computing = True
        try:
            return copy.deepcopy(exact())
        finally:
            self.computing = False

    def _keep(self, answer: Answer) -> Any:
        """Keep an answer, and return a copy of what was released."""
        self.kept.append(answer)
        if len(self.kept) == self.stop_after:
            raise Enough
        return copy.deepcopy(answer.released)

    def drawn(self, law: Mechanism, behind: Any) -> Any:
        """Draw an answer, with noise of the scale that was asked for or a false one."""
        self.scaled = self.scale == 1
        released = law.draw(behind, self)
        if self.scaled:
            return released
        if isinstance(behind, Bounded):  # whose noise is made of random bits
            more, pairs = Fraction(self.scale), zip(behind.totals, released, strict=True)
            return tuple(total + more * (value - total) for total, value in pairs)
        raise ParameterError(
            f"the noise of {type(law).__name__} cannot be scaled: audit it with scale=1, or "
            "let it draw by discrete_laplace, discrete_gaussian or noisy_max of the witness"
        )

    def _scaled(self, scale: float) -> float:
        self.scaled = True
        return scale * self.scale

    def discrete_laplace(self, scale: float, size: Any) -> Any:
        """Draw Laplace noise, with the scale that was asked for or a false one."""
        return super().discrete_laplace(self._scaled(scale), size)

    def discrete_gaussian(self, sigma: float, size: Any) -> Any:
        """Draw Gaussian noise, with the scale that was asked for or a false one."""
        return super().discrete_gaussian(self._scaled(sigma), size)

    def noisy_max(self, scores: Any, scale: float, **more: Any) -> int:
        """Select with the scale that was asked for or a false one."""
        return super().noisy_max(scores, self._scaled(scale), **more)

    def generator(self) -> np.random.Generator:
        """Return a generator for post-processing: the same one for all who repeat the answers."""
        self.generators += 1
        return _PerCall(self.seed, self.generators)


class Repeater(Recorder):
    """Repeat the answers that were kept, and keep what is behind them here.

    Parameters
    ----------
    kept : Recorder
    reads : bool, default True
        Whether exact numbers are computed.
    """

    def __init__(self, kept: Recorder, *, reads: bool = True) -> None:
        super().__init__(kept.seed, stop_after=kept.stop_after)
        self.tape, self.reads = kept.kept, reads

    def answer(self, event: Event, law: Mechanism, exact: Callable[[], Any]) -> Any:
        """Return the answer that was kept, if the question is the same.

        Raises
        ------
        Differs
            If it is not.
        """
        position = len(self.kept)
        behind = self._computed(exact) if self.reads else None
        if position == len(self.tape):
            raise Differs(f"answer {position + 1} ({event.label}) was not asked for before")
        before = self.tape[position]
        if not (same(before.event, event) and same(before.law, law)):
            raise Differs(
                f"answer {position + 1} was {before.event.label!r} and is {event.label!r}, or has "
                "other parameters"
            )
        return self._keep(Answer(event, law, behind, before.released))


class _PerCall(np.random.Generator):
    """A generator with a stream of its own for each call.

    A row more lengthens a draw, and moves no other one: rows that are filled one by one are filled
    alike in both of two neighbouring tables.
    """

    def __init__(self, seed: int, number: int) -> None:
        super().__init__(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(number,))))
        self._seed, self._number, self._calls = seed, number, 0

    def __reduce__(self) -> Any:
        return _PerCall, (self._seed, self._number)


def _drawing(name: str) -> Callable[..., Any]:
    def drawing(self: _PerCall, *given: Any, **more: Any) -> Any:
        self._calls += 1
        key = (self._number, self._calls)
        fresh = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=key))
        return getattr(fresh, name)(*given, **more)

    return drawing


for _name in ("choice", "random", "integers", "normal", "standard_normal", "uniform", "binomial"):
    setattr(_PerCall, _name, _drawing(_name))


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, bit by bit.

    Examples
    --------
    >>> same({"a": np.arange(2)}, {"a": np.arange(2)}), same(1, 1.0)
    (True, False)
    """
    if type(one) is not type(other):
        return False
    if is_dataclass(one):
        names = [f.name for f in fields(one)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        if one.dtype == object:
            return one.shape == other.shape and same(one.tolist(), other.tolist())
        kinds = (one.dtype, one.shape) == (other.dtype, other.shape)
        return kinds and one.tobytes() == other.tobytes()
    return bool(one == other or (one != one and other != other))


class Guarded(MemorySource):
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
