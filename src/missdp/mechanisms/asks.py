"""Releases to come, before anything is computed, and released numbers. All of it is public.

A released upper bound of the noise scale: what honest error bars and Gaussian noise need.

The smooth bound S is private, and so is the noise scale. But the logarithm of
``T = max_j exp(-beta j) A_j`` (the smooth bound with weights own = 0, donee = 1) changes by at most
``beta`` between neighbours (`log_moves` says how far its rounding does), so it can be released with
ordinary noise; adding a quantile of that noise gives an upper bound that fails with a chosen
probability. ``own + donee * T`` bounds every query's S at this or a larger beta, so one release
serves all queries.

With Gaussian noise on log T and a tiny failure probability delta, later queries may use plain
Gaussian noise at the released scale. *Proof.* Couple the output under D with one whose later
queries are replaced by their value on D' whenever the released bound is below M_0(D): the two
differ with probability at most delta, and the second is zCDP with respect to D' (each later query
then moves by at most own + donee * bound). So the total is (epsilon, delta' + delta)-DP for every
(epsilon, delta') that the zCDP parts give. ∎

What a release has to say about where its domain comes from: one rule for every family.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from missdp.accounting import Condition, Cost, DataDependentDomain, PublicDomain
from missdp.errors import ParameterError, SchemaError, number
from missdp.mechanisms.answers import Noise
from missdp.mechanisms.smooth import reference_bound
from missdp.schema import Schema

__all__ = [
    "Ask",
    "Noisy",
    "Released",
    "ReleasedScale",
    "ScaleRelease",
    "Undeclared",
    "check_real",
    "domain_conditions",
    "log_moves",
    "log_steps",
]


_MOST = 1e9


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A release to come, as far as it is public before anything is computed.

    Parameters
    ----------
    label : str
        For reports.
    cost : Cost or Noise
        What it may spend, in pure epsilon or rho; or the noise itself, for a question that reads no
        cell filled from other rows.
    reads : frozenset of str
        Attributes that the question may read.
    own : float, default 1
        How far one row of its own moves the result.
    moves : int, default 1
        How far one other row moves it, in units of ``own``, at most.
    dimension : int, default 1
        How many numbers the result has.
    observed : bool, default False
        Whether it is asked of the rows as they came, with their holes.
    gate : frozenset of str, default empty
        Rows are read only if all these attributes are observed in them; for ``observed`` ones.
    delta : float, default 0
        Probability that what is deduced from the answer is wrong, if that costs.
    """

    label: str
    cost: Cost | Noise
    reads: frozenset[str] = frozenset()
    own: float = 1
    moves: int = 1
    dimension: int = 1
    observed: bool = False
    gate: frozenset[str] = frozenset()
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", frozenset(self.reads))
        object.__setattr__(self, "gate", frozenset(self.gate))
        if isinstance(self.cost, Cost) and self.cost.currency == "renyi":
            raise ParameterError("a question is paid for in pure epsilon or rho")
        if self.gate and not self.observed:
            raise ParameterError("a gate is for questions of the rows as they came")

    @property
    def epsilon(self) -> float:
        """Pure epsilon that fits into the cost: rho-zCDP follows from sqrt(2 rho)-DP."""
        assert isinstance(self.cost, Cost)
        return self.cost.amount if self.cost.currency == "pure" else math.sqrt(2 * self.cost.amount)

    @property
    def rho(self) -> float | None:
        """The cost if it is a rho."""
        zcdp = isinstance(self.cost, Cost) and self.cost.currency == "zcdp"
        return self.cost.amount if zcdp else None  # type: ignore[union-attr]


@dataclass(frozen=True)
class Noisy:
    """A released number and a function from a level to the half-width that holds its error."""

    value: float
    radius: Callable[[float], float] | None

    def within(self, level: float) -> tuple[float, float] | None:
        """Interval of the noiseless number."""
        if self.radius is None:
            return None
        width = self.radius(level)
        return self.value - width, self.value + width


@dataclass(frozen=True, eq=False)
class Released:
    """Released numbers.

    Parameters
    ----------
    values : ndarray of float
    radius : callable or None
        From a level to the half-width that holds the error of one number with that probability;
        None if the noise scale is private.
    """

    values: NDArray[np.float64]
    radius: Callable[[float], float] | None

    def each(self) -> list[Noisy]:
        """Return the numbers one by one."""
        return [Noisy(value, self.radius) for value in self.values.tolist()]


def check_real(name: str, value: Any, *, least: float = 0.0, most: float = _MOST) -> float:
    """Return a public parameter that must be a number above ``least`` and at most ``most``.

    Raises
    ------
    ParameterError
        If it is not.

    Examples
    --------
    >>> check_real("epsilon", 1)
    1.0
    """
    return number(name, value, least=least, most=most, open_end=True)


_STEPS = 1 << 20
_LABEL = "upper bound of the noise scale"


@dataclass(frozen=True, kw_only=True)
class ScaleRelease:
    """How to pay for the released upper bound of the noise scale.

    Parameters
    ----------
    epsilon : float, optional
        Pure DP: for error bars.
    rho, delta : float, optional
        zCDP with failure probability ``delta``: for error bars and Gaussian noise.

    Raises
    ------
    ParameterError
        If neither or both are given, or out of range.

    Examples
    --------
    >>> from missdp.statistics import ScaleRelease
    >>> ScaleRelease(epsilon=0.1).gaussian
    False
    """

    epsilon: float | None = None
    rho: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None) or (self.rho is None) != (
            self.delta is None
        ):
            raise ParameterError("pay for the scale with epsilon, or with rho and delta")
        check_real("epsilon or rho", self.epsilon if self.rho is None else self.rho, least=1e-9)
        if self.delta is not None:
            check_real("delta", self.delta, least=1e-100, most=0.1)

    @property
    def gaussian(self) -> bool:
        """Whether the bound may calibrate Gaussian noise."""
        return self.rho is not None

    def failure(self, confidence: float) -> float:
        """Probability that the bound is too low."""
        return self.delta if self.delta is not None else (1 - confidence) / 2

    def beta(self, confidence: float) -> float:
        """Smoothness of the released bound, by the public rule."""
        return _best_beta(self.epsilon, self.rho, self.failure(confidence))

    def ask(self, confidence: float) -> Ask:
        """Return what is asked: the rounded logarithm of the bound, in public steps."""
        if self.epsilon is not None:
            cost = Cost(currency="pure", amount=self.epsilon)
        else:
            cost = Cost(currency="zcdp", amount=self.rho or 0.0)
        moves = log_moves(self.beta(confidence))
        return Ask(label=_LABEL, cost=cost, own=moves, delta=self.delta or 0.0)

    def released(self, steps: float, confidence: float) -> ReleasedScale:
        """Return the upper bound that a noisy logarithm, in steps, stands for."""
        beta, failure = self.beta(confidence), self.failure(confidence)
        margin = _margin(beta, self.epsilon, self.rho, failure)
        level = math.exp(min(steps / _STEPS + margin + 2.0**-16, 700.0))
        return ReleasedScale(max(level, _least(beta)), beta, self.gaussian, failure)


@dataclass(frozen=True)
class ReleasedScale:
    """A released upper bound of T at ``beta``, too low with probability ``failure``; public."""

    donees: float
    beta: float
    gaussian: bool
    failure: float


def log_steps(bound: float) -> int:
    """Return the logarithm of a bound, rounded up to whole steps; private."""
    return math.ceil(math.log(bound) * _STEPS)


def log_moves(beta: float) -> int:
    """Return how far the rounded logarithm of a beta-smooth bound moves, in steps."""
    return math.ceil((beta + 2.0**-36) * _STEPS) + 1


def _least(beta: float) -> float:
    """What T is at least, on any table: A_j >= j."""
    return max(j * math.exp(-beta * j) for j in (math.floor(1 / beta), math.ceil(1 / beta)))


def _margin(beta: float, epsilon: float | None, rho: float | None, failure: float) -> float:
    if epsilon is not None:
        return log_moves(beta) / _STEPS / epsilon * math.log(1 / (2 * failure))
    assert rho is not None
    quantile = float(norm.isf(failure * (1 - 2.0**-10)))
    return log_moves(beta) / _STEPS / math.sqrt(2 * rho) * quantile


@lru_cache(maxsize=128)
def _best_beta(epsilon: float | None, rho: float | None, failure: float) -> float:
    """The beta whose released bound is smallest on the public reference profile.

    At most an eighth of what the release costs, so that small shares of later queries, whose own
    beta must not be below it, can use the bound, too; that costs little.
    """
    most = (epsilon if epsilon is not None else math.sqrt(2 * (rho or 0.0))) / 8
    grid = np.geomspace(min(2.0**-12, most), most, 200).tolist()
    return float(
        min(
            grid,
            key=lambda beta: (
                math.log(reference_bound(beta, 0.0, 1.0)) + _margin(beta, epsilon, rho, failure)
            ),
        )
    )


Undeclared = Literal["refuse", "accept"]


def domain_conditions(schema: Schema, undeclared: str = "refuse") -> tuple[Condition, ...]:
    """Return the conditions that a schema puts on every release that uses it.

    Levels and bounds shape the output, so a guarantee always rests on their being public:
    `PublicDomain`, or `DataDependentDomain` for the attributes that are marked as read from the
    private cells (with `PublicDomain` for the others).

    Parameters
    ----------
    schema : Schema
        Public facts.
    undeclared : {"refuse", "accept"}
        What to do about facts that were read from the data and not declared public.

    Raises
    ------
    ParameterError
        If ``undeclared`` is neither.
    SchemaError
        If some facts are not declared public, and that is refused.

    Examples
    --------
    >>> from missdp import Categorical, Schema
    >>> read = Categorical(name="a", levels=("x",), undeclared=("levels",))
    >>> for condition in domain_conditions(Schema((read, Categorical(name="b", levels=("y",)))),
    ...                                    undeclared="accept"):
    ...     print(condition)
    WARNING: categories or bounds were read from the private table, which the stated guarantee
    does not cover, for: a.
    Columns, categories and bounds were declared without the private table (of: b).
    """
    if undeclared not in ("refuse", "accept"):
        raise ParameterError("undeclared must be 'refuse' or 'accept'")
    marked = schema.undeclared
    if not marked:
        return (PublicDomain(),)
    if undeclared == "refuse":
        raise SchemaError(
            "the schema marks facts read from the private data as not yet declared public, for "
            f"attributes {sorted(marked)}; check them and delete the 'undeclared' marks, or pass "
            "undeclared='accept', which then becomes a condition of the guarantee"
        )
    declared = [name for name in schema.names if name not in marked]
    warning = DataDependentDomain(tuple(sorted(marked)))
    return (warning, PublicDomain(f"of: {', '.join(declared)}")) if declared else (warning,)
