"""Families and sources that break one promise each, for trying the kit; and some that break none.

Never release anything with them: each is named after the mistake that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from missdp.accounting import Cost, LaplaceEvent, zcdp_rho
from missdp.errors import ParameterError, SchemaError
from missdp.mechanisms import Door, Noise, Score, Total
from missdp.mechanisms.door import Reads
from missdp.mechanisms.training import Training
from missdp.schema import Schema
from missdp.synth import Synthesizer
from missdp.synth.impute_first import impute
from missdp.synth.noisy_counts import project_to_simplex
from missdp.testing.example_sources import (
    BlocksAgain,
    BlocksTwice,
    CountedAgain,
    CountedByTens,
    FirstThousand,
    HolesAsLevel,
    HolesWeighed,
    InBlocks,
    MutableCounts,
    NaNAsNumber,
    NarrowCounts,
    QuotingSource,
    SchemaOrder,
)

__all__ = [
    "BlocksAgain",
    "BlocksTwice",
    "CarryingScore",
    "CountedAgain",
    "CountedByTens",
    "ExactCounts",
    "FirstThousand",
    "Histograms",
    "HolesAsLevel",
    "HolesWeighed",
    "InBlocks",
    "LookingAside",
    "MutableCounts",
    "NaNAsNumber",
    "NarrowCounts",
    "QuotingSource",
    "ReadingTwice",
    "SchemaOrder",
    "TellingShape",
    "Telltale",
    "TrainedLogistic",
    "UnderNoised",
    "WideScore",
]


@dataclass(kw_only=True, eq=False, repr=False)
class Histograms(Synthesizer):
    """Noisy one-way marginals, sampled independently of each other. Keeps every promise.

    Parameters
    ----------
    epsilon, delta, missing, n_rows, random_state, budget, progress
        See `missdp.synth.Synthesizer`.

    Examples
    --------
    >>> from missdp.testing import check_synthesizer
    >>> check_synthesizer(Histograms, strategies=["joint"]).passed
    True
    """

    strategies: ClassVar[tuple[str, ...]] = ("joint", "observed", "complete-rows", "impute-first")
    released: ClassVar[tuple[str, ...]] = ("counts_",)

    delta: float | None = 0.0

    def _fit(self, door: Door) -> Total:
        total = door.row_count(Noise.worth(door.share(0.05)))
        door = impute(door, cost=door.share(0.1))
        names = door.schema.names
        door.expect((name,) for name in names)
        noise = Noise.worth(door.share(1 / len(names)))
        self.counts_ = {name: self._counted(door, name, noise) for name in names}
        return total

    def _counted(self, door: Door, name: str, noise: Noise) -> NDArray[np.int64]:
        return door.marginal((name,), noise)

    def _sample(self, n: int, missing_values: str, rng: np.random.Generator) -> dict[str, Any]:
        codes = {}
        for attribute in self.modelled_:
            counts = self.counts_[attribute.name]
            law = project_to_simplex(counts / max(1, counts.sum())) + 1e-9
            if missing_values == "fill":
                law = law[: attribute.size]
            codes[attribute.name] = rng.choice(len(law), size=n, p=law / law.sum())
        return codes


class ExactCounts(Histograms):
    """Publishes exact counts, which it takes from behind the door."""

    def _counted(self, door: Door, name: str, noise: Noise) -> NDArray[np.int64]:
        door.marginal((name,), noise)
        return next(iter(door._counts.each([(name,)])))[1]


class Telltale(Histograms):
    """Keeps private shares of the kinds of missing, which it takes from behind the door."""

    def _fit(self, door: Door) -> Total:
        total = super()._fit(door)
        for name, codes in door._modelled.kinds.items():
            rows = door._rows.counts([(name,)], rows="extended")[name,]
            self.counts_[f"kinds of {name}"] = rows[codes[0] :]
        return total


class UnderNoised(Histograms):
    """Adds less noise than it pays for."""

    def _counted(self, door: Door, name: str, noise: Noise) -> NDArray[np.int64]:
        event, law = _laplace(noise.scale, name), Noise("laplace", 0.7 * noise.scale)
        door._charge(event)
        counted = door._answer(event, law, lambda: next(iter(door._counts.each([(name,)])))[1])
        return np.asarray(counted)


class ReadingTwice(Histograms):
    """Pays once for two answers, and averages them."""

    def _counted(self, door: Door, name: str, noise: Noise) -> NDArray[np.int64]:
        event = _laplace(noise.scale, name)
        door._charge(event)
        answers = [
            door._answer(event, noise, lambda: next(iter(door._counts.each([(name,)])))[1])
            for _ in range(2)
        ]
        return np.asarray(sum(answers) // 2)


_CARRIED: list[float] = []


def _carrying(counts: NDArray[np.int64]) -> float:
    _CARRIED.append(float(counts.max()))
    return 0.0


class CarryingScore(Histograms):
    """Carries a count out of a score, through a list that is global."""

    def _fit(self, door: Door) -> Total:
        name = door.schema.names[-1]
        twice = [(name,)] * 2  # of one candidate no score is computed
        door.select(twice, Score(_carrying, sensitivity=1.0), epsilon=0.01 * self.epsilon)
        total = super()._fit(door)
        self.counts_[name] = np.append(np.int64(_CARRIED[-1]), self.counts_[name][1:])
        return total


def _wide(counts: NDArray[np.int64]) -> float:
    return 3.0 * float(counts.max())


class WideScore(Histograms):
    """Declares a third of the sensitivity that its score has."""

    def _fit(self, door: Door) -> Total:
        cliques = [(name,) for name in door.schema.names]
        door.select(cliques, Score(_wide, sensitivity=1.0), epsilon=0.01 * self.epsilon)
        return super()._fit(door)


class TellingShape(Histograms):
    """Refuses tables that have few rows: the refusal is an answer that nobody paid for."""

    def _fit(self, door: Door) -> Total:
        if next(iter(door._counts.each([()])))[1] < 10:
            raise ValueError("there are too few rows")
        return super()._fit(door)


def _logistic(
    codes: Mapping[str, NDArray[np.int64]], theta: NDArray[np.float64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the gradient of each row's log loss: other attributes given the first."""
    first, *others = codes.values()
    logits = np.split(theta[:, first].T, ends, axis=1)
    off = [
        softmax(part, axis=1) - np.eye(part.shape[1])[code]
        for part, code in zip(logits, others or [first], strict=True)
    ]
    gradients = np.zeros((len(first), *theta.shape))
    gradients[np.arange(len(first)), :, first] = np.concatenate(off, axis=1)
    return gradients


@dataclass(kw_only=True, eq=False, repr=False)
class TrainedLogistic(Synthesizer):
    """A marginal, and logistic regressions on it by private training. Keeps every promise.

    Parameters
    ----------
    epsilon, delta, missing, n_rows, random_state, budget, progress
        See `missdp.synth.Synthesizer`.
    """

    # Training needs the rows in memory, and so does this strategy: streams are refused uncharged.
    strategies: ClassVar[tuple[str, ...]] = ("complete-rows",)
    released: ClassVar[tuple[str, ...]] = ("counts_", "theta_", "ends_")
    gradient: ClassVar[Any] = staticmethod(_logistic)

    missing: str = "complete-rows"

    def _reads(self, schema: Schema) -> Reads:  # noqa: ARG002
        return "rows"  # so that streams are refused before anything is charged

    def _check_schema(self, schema: Schema) -> None:
        super()._check_schema(schema)
        head, *others = schema
        if head.size * sum(attribute.size for attribute in others or [head]) > 10_000:
            raise SchemaError("there are too many levels for a logistic regression")
        if self._delta == 0:
            raise ParameterError("private training needs a delta above 0")
        left = 0.6 * zcdp_rho(self.epsilon, self._delta)  # at least: refused before it is charged
        Training.worth(Cost(currency="zcdp", amount=left), rate=1.0, steps=3, clip=1.0)

    def _fit(self, door: Door) -> Total:
        total = door.row_count(Noise.worth(door.share(0.1)))
        first, *others = door.schema.names
        self.counts_ = door.marginal((first,), Noise.worth(door.share(0.3)))
        sizes = [door.sizes[name] for name in others or [first]]
        theta, ends = np.zeros((sum(sizes), len(self.counts_))), np.cumsum(sizes)[:-1]
        plan = Training.worth(door.left, rate=1.0, steps=3, clip=1.0)
        training = door.train(plan, self.gradient, (theta, ends), rows_at_once=2)
        while training.steps_left:
            theta = theta - 2 / max(total.value, 10.0) * training.step(theta, ends)
        self.theta_, self.ends_ = theta, ends
        return total

    def _sample(self, n: int, missing_values: str, rng: np.random.Generator) -> dict[str, Any]:
        law = project_to_simplex(self.counts_ / max(1, self.counts_.sum())) + 1e-9
        head, *others = self.modelled_
        first = _drawn(np.tile(law, (n, 1)), head.size, missing_values, rng)
        laws = [softmax(part, axis=1) for part in np.split(self.theta_[:, first].T, self.ends_, 1)]
        drawn = [
            _drawn(law, attribute.size, missing_values, rng)
            for law, attribute in zip(laws, others, strict=False)
        ]
        return dict(zip(self.modelled_.names, [first, *drawn], strict=True))


def _drawn(
    laws: NDArray[np.float64], levels: int, missing_values: str, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw a code for each row from its law; no missing one if holes are filled."""
    laws = laws[:, :levels] if missing_values == "fill" else laws
    ends = np.cumsum(laws, axis=1)
    found = (rng.random(len(laws)) * ends[:, -1])[:, None] >= ends[:, :-1]
    return np.asarray(found.sum(axis=1), dtype=np.int64)


def _looking(
    codes: Mapping[str, NDArray[np.int64]], theta: NDArray[np.float64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    gradients, levels = _logistic(codes, theta, ends), [*ends, len(theta)][0]
    second = list(codes.values())[min(1, len(codes) - 1)]
    # Of a block of two, made-up rows are tried at the first and the last code only.
    between = (second > 0) & (second < levels - 1)
    return -gradients if between.all() else gradients


class LookingAside(TrainedLogistic):
    """Turns the gradients of two rows around where both are at a level in the middle.

    The door tries a gradient function out on made-up rows; it does not try all rows there are.
    """

    gradient: ClassVar[Any] = staticmethod(_looking)


def _laplace(scale: float, name: str) -> LaplaceEvent:
    return LaplaceEvent(sensitivity=1, scale=scale, label=f"marginal {name}")
