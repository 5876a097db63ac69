"""Families that break one promise each; `Histograms` breaks none."""

from dataclasses import dataclass

import numpy as np

from missdp.accounting import Filter, LaplaceEvent, SelectionEvent
from missdp.session import Marginal, Noise, NoiseSource, Selection, Session
from missdp.session.session import Release
from missdp.session.training import PaidSteps
from missdp.synth.impute_first import impute
from missdp.synth.noisy_counts import row_count
from synth.worked_example import Independent


@dataclass(kw_only=True, eq=False, repr=False)
class Histograms(Independent):
    """The family of CONTRIBUTING.md, in pure epsilon, with one place where it counts."""

    delta: float | None = 0.0

    def _fit(self, session):
        total = row_count(session, Noise.worth(session.share(0.05)))
        session = impute(session, cost=session.share(0.1))
        names = session.facts.schema.names
        session.expect(Marginal((name,)) for name in names)
        noise = Noise.worth(session.share(1 / len(names)))
        self.counts_ = {name: self._counted(session, name, noise) for name in names}
        return total

    def _counted(self, session, name, noise):
        return session.measure(Marginal((name,)), noise).value


def exact(session, *names):
    """Counts that nobody was charged for."""
    return session._rows.counts_of(names)


def released(session, event, law, behind):
    """What a session answers, whatever the event says of the law."""
    return session._release(session._charge, (event,), law, behind)


class ExactCounts(Histograms):
    """Publishes exact counts, which it takes from behind the session."""

    def _counted(self, session, name, noise):
        session.measure(Marginal((name,)), noise)
        return exact(session, name)


class Telltale(Histograms):
    """Keeps private shares of the kinds of missing, which it takes from behind the session."""

    def _fit(self, session):
        total = super()._fit(session)
        for name, codes in session.facts.modelled.kinds.items():
            rows = session._rows.came.counts([(name,)], rows="extended")[name,]
            self.counts_[f"kinds of {name}"] = rows[codes[0] :]
        return total


class UnderNoised(Histograms):
    """Adds less noise than it pays for."""

    def _counted(self, session, name, noise):
        event, law = laplace(noise.scale, name), Noise("laplace", 0.7 * noise.scale)
        return np.asarray(released(session, event, law, lambda: exact(session, name)))


class ReadingTwice(Histograms):
    """Pays once for two answers, and averages them."""

    def _counted(self, session, name, noise):
        event = laplace(noise.scale, name)
        session._charge(event)
        unpaid, behind = PaidSteps(2).charge, lambda: exact(session, name)
        read = (session._release(unpaid, (event,), noise, behind) for _ in range(2))
        return np.asarray(sum(read) // 2)


_CARRIED = []


class CarryingScore(Histograms):
    """Carries a count out of what is computed, through a list that is global."""

    def _fit(self, session):
        name, epsilon = session.facts.schema.names[-1], 0.01 * self.epsilon

        def scores():
            _CARRIED.append(float(exact(session, name).max()))
            return np.zeros(2)

        released(session, SelectionEvent(epsilon=epsilon), Selection(epsilon, 1.0), scores)
        total = super()._fit(session)
        self.counts_[name] = np.append(np.int64(_CARRIED[-1]), self.counts_[name][1:])
        return total


class WideScore(Histograms):
    """Declares a third of the sensitivity that its score has."""

    def _fit(self, session):
        names, epsilon = session.facts.schema.names, 0.01 * self.epsilon

        def scores():
            return np.array([3.0 * float(exact(session, name).max()) for name in names])

        released(session, SelectionEvent(epsilon=epsilon), Selection(epsilon, 1.0), scores)
        return super()._fit(session)


class TellingShape(Histograms):
    """Refuses tables that have few rows: the refusal is an answer that nobody paid for."""

    def _fit(self, session):
        if exact(session) < 10:
            raise ValueError("there are too few rows")
        return super()._fit(session)


def laplace(scale, name):
    return LaplaceEvent(sensitivity=1, scale=scale, label=f"marginal {name}")


@dataclass
class OneCount:
    """The smallest rows: a number, asked for once."""

    rows: object
    event: LaplaceEvent
    facts, ledger, adjacency, conditions = None, "", "add-remove", ()

    def plan(self, query, mechanism):
        return Release(self.event, mechanism, lambda: np.array([len(self.rows)]))


def counted(law, event=None):
    """Return a run that is answered the number of rows."""
    event = event or LaplaceEvent(sensitivity=1, scale=2.0)

    def run(rows):
        budget = Filter(1000.0, 0.1)
        session = Session(OneCount(rows, event), budget=budget, noise=NoiseSource.of(0))
        session.measure("how many", law)
        return budget

    return run


@dataclass(frozen=True)
class Unknown:
    """A law that says nothing of itself, and draws in its own way."""

    def draw(self, exact, source):
        return exact + source.generator().integers(0, 9, 1)
