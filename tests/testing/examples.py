"""Families that break one promise each; `Histograms` and `Trained` break none."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from missdp.accounting import Budget, Cost, LaplaceEvent, zcdp_rho
from missdp.errors import ParameterError, SchemaError
from missdp.mechanisms import Noise, Score
from missdp.mechanisms.session import Charged, Session
from missdp.mechanisms.training import Training
from missdp.synth.impute_first import impute
from synth.worked_example import Independent


@dataclass(kw_only=True, eq=False, repr=False)
class Histograms(Independent):
    """The family of CONTRIBUTING.md, in pure epsilon, with one place where it counts."""

    delta: float | None = 0.0

    def _fit(self, door):
        total = door.row_count(Noise.worth(door.share(0.05)))
        door = impute(door, cost=door.share(0.1))
        names = door.schema.names
        door.expect((name,) for name in names)
        noise = Noise.worth(door.share(1 / len(names)))
        self.counts_ = {name: self._counted(door, name, noise) for name in names}
        return total

    def _counted(self, door, name, noise):
        return door.marginal((name,), noise)


def exact(door, *names):
    """Counts that nobody was charged for."""
    return door._rows.of(names)


class ExactCounts(Histograms):
    """Publishes exact counts, which it takes from behind the door."""

    def _counted(self, door, name, noise):
        door.marginal((name,), noise)
        return exact(door, name)


class Telltale(Histograms):
    """Keeps private shares of the kinds of missing, which it takes from behind the door."""

    def _fit(self, door):
        total = super()._fit(door)
        for name, codes in door._modelled.kinds.items():
            rows = door._rows.came.counts([(name,)], rows="extended")[name,]
            self.counts_[f"kinds of {name}"] = rows[codes[0] :]
        return total


class UnderNoised(Histograms):
    """Adds less noise than it pays for."""

    def _counted(self, door, name, noise):
        event, law = laplace(noise.scale, name), Noise("laplace", 0.7 * noise.scale)
        return np.asarray(door._release(event, law, lambda: exact(door, name)))


class ReadingTwice(Histograms):
    """Pays once for two answers, and averages them."""

    def _counted(self, door, name, noise):
        event = laplace(noise.scale, name)
        door._charge(paid := Charged((event,), answers=2))
        read = (door._release(event, noise, lambda: exact(door, name), paid=paid) for _ in range(2))
        return np.asarray(sum(read) // 2)


_CARRIED = []


def _carrying(counts):
    _CARRIED.append(float(counts.max()))
    return 0.0


class CarryingScore(Histograms):
    """Carries a count out of a score, through a list that is global."""

    def _fit(self, door):
        name = door.schema.names[-1]
        twice = [(name,)] * 2  # of one candidate no score is computed
        door.select(twice, Score(_carrying, sensitivity=1.0), epsilon=0.01 * self.epsilon)
        total = super()._fit(door)
        self.counts_[name] = np.append(np.int64(_CARRIED[-1]), self.counts_[name][1:])
        return total


def _wide(counts):
    return 3.0 * float(counts.max())


class WideScore(Histograms):
    """Declares a third of the sensitivity that its score has."""

    def _fit(self, door):
        cliques = [(name,) for name in door.schema.names]
        door.select(cliques, Score(_wide, sensitivity=1.0), epsilon=0.01 * self.epsilon)
        return super()._fit(door)


class TellingShape(Histograms):
    """Refuses tables that have few rows: the refusal is an answer that nobody paid for."""

    def _fit(self, door):
        if exact(door) < 10:
            raise ValueError("there are too few rows")
        return super()._fit(door)


def _towards(codes, *theta):
    """Return the gradients of half the squared distance from a row's indicators to theta."""
    levels = zip(theta, codes.values(), strict=True)
    return tuple(law - np.eye(len(law))[column] for law, column in levels)


@dataclass(kw_only=True, eq=False, repr=False)
class Trained(Histograms):
    """Marginals by private training. Keeps every promise."""

    # Training needs the rows in memory, and so does this strategy: streams are refused uncharged.
    strategies: ClassVar[tuple[str, ...]] = ("complete-rows",)
    gradient: ClassVar[Any] = staticmethod(_towards)

    delta: float | None = None
    missing: str = "complete-rows"

    def _reads(self, schema):
        return "rows"  # so that streams are refused before anything is charged

    def _check_schema(self, schema):
        super()._check_schema(schema)
        if sum(attribute.size for attribute in schema) > 5_000:
            raise SchemaError("there are too many levels to be trained together")
        if self._delta == 0:
            raise ParameterError("private training needs a delta above 0")
        left = 0.6 * zcdp_rho(self.epsilon, self._delta)  # at least: refused before it is charged
        Training.worth(Cost(currency="zcdp", amount=left), rate=1.0, steps=3, clip=1.0)

    def _fit(self, door):
        total = door.row_count(Noise.worth(door.share(0.1)))
        theta = tuple(np.zeros(door.sizes[name]) for name in door.schema.names)
        plan = Training.worth(door.left, rate=1.0, steps=3, clip=1.0)
        training = door.train(plan, self.gradient, theta, rows_at_once=2)
        while training.steps_left:
            found = zip(theta, training.step(*theta), strict=True)
            theta = tuple(law - step / max(total.value, 10.0) for law, step in found)
        self.counts_ = dict(zip(door.schema.names, theta, strict=True))
        return total


def _looking(codes, *theta):
    second = list(codes.values())[min(1, len(codes) - 1)]
    levels = len(theta[min(1, len(codes) - 1)])
    # Of a block of two, made-up rows are tried at the first and the last code only.
    between = (second > 0) & (second < levels - 1)
    sign = -1 if between.all() else 1
    return tuple(sign * part for part in _towards(codes, *theta))


class LookingAside(Trained):
    """Turns the gradients of two rows around where both are at a level in the middle.

    The door tries a gradient function out on made-up rows; it does not try all rows there are.
    """

    gradient: ClassVar[Any] = staticmethod(_looking)


def laplace(scale, name):
    return LaplaceEvent(sensitivity=1, scale=scale, label=f"marginal {name}")


class OneCount(Session):
    """The smallest door: a number, asked for once."""

    def count(self, rows, law, event):
        return self._release(event, law, lambda: np.array([len(rows)]))


def counted(law, event=None):
    """Return a run that is answered the number of rows."""
    event = event or LaplaceEvent(sensitivity=1, scale=2.0)

    def run(witness, rows):
        budget = Budget(1000.0, 0.1, schedule="adaptive")
        OneCount(budget=budget, noise=witness).count(rows, law, event)
        return budget

    return run


@dataclass(frozen=True)
class Unknown:
    """A law that says nothing of itself, and draws in its own way."""

    def draw(self, exact, source):
        return exact + source.generator().integers(0, 9, 1)
