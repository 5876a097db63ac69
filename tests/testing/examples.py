"""Families that break one promise each; `Histograms` breaks none."""

from dataclasses import dataclass, replace

import numpy as np

from missdp.accounting import Filter, LaplaceEvent, SelectionEvent
from missdp.session import Marginal, Noise, NoiseSource, Selection, Session
from missdp.session.session import Release
from missdp.session.training import PaidSteps
from missdp.synth import Learned
from missdp.synth.impute_first import impute
from missdp.synth.noisy_counts import row_count
from synth.worked_example import Independent


def answered(session, name, noise):
    return session.measure(Marginal((name,)), noise).value


def histograms(counted=answered, before=None, after=None):
    """The family of docs/developers/extending.md, with places where others of its kind go wrong.

    ``counted`` counts an attribute. ``before`` sees the session first, and ``after`` sees it last,
    and returns what is added to the counts.
    """

    def fit(session, plan, request):
        if before is not None:
            before(session)
        total = row_count(session, Noise.worth(session.share(0.05)))
        filled = impute(session, cost=session.share(0.1))
        names = filled.facts.schema.names
        filled.expect(Marginal((name,)) for name in names)
        noise = Noise.worth(filled.share(1 / len(names)))
        counts = {name: counted(filled, name, noise) for name in names}
        return Learned(counts | ({} if after is None else after(session, counts)), total)

    return replace(Independent.family, fit=fit)


@dataclass(kw_only=True, eq=False, repr=False)
class Histograms(Independent):
    """The family of docs/developers/extending.md, in pure epsilon."""

    family = histograms()
    delta: float | None = 0.0


def exact(session, *names):
    """Counts that nobody was charged for."""
    return session._rows.counts_of(names)


def released(session, event, law, behind):
    """What a session answers, whatever the event says of the law."""
    return session._release(session._charge, (event,), law, behind)


def exactly(session, name, noise):
    session.measure(Marginal((name,)), noise)
    return exact(session, name)


class ExactCounts(Histograms):
    """Publishes exact counts, which it takes from behind the session."""

    family = histograms(exactly)


def kinds_of(session, counts):
    return {
        f"kinds of {name}": session._rows.came.counts([(name,)], rows="extended")[name,][codes[0] :]
        for name, codes in session.facts.modelled.kinds.items()
    }


class Telltale(Histograms):
    """Keeps private shares of the kinds of missing, which it takes from behind the session."""

    family = histograms(after=kinds_of)


def under_noised(session, name, noise):
    event, law = laplace(noise.scale, name), Noise("laplace", 0.7 * noise.scale)
    return np.asarray(released(session, event, law, lambda: exact(session, name)))


class UnderNoised(Histograms):
    """Adds less noise than it pays for."""

    family = histograms(under_noised)


def read_twice(session, name, noise):
    event = laplace(noise.scale, name)
    session._charge(event)
    unpaid, behind = PaidSteps(2).charge, lambda: exact(session, name)
    read = (session._release(unpaid, (event,), noise, behind) for _ in range(2))
    return np.asarray(sum(read) // 2)


class ReadingTwice(Histograms):
    """Pays once for two answers, and averages them."""

    family = histograms(read_twice)


_CARRIED = []
_SELECTED = 0.01  # epsilon of a selection


def carry(session):
    name = session.facts.schema.names[-1]

    def scores():
        _CARRIED.append(float(exact(session, name).max()))
        return np.zeros(2)

    released(session, SelectionEvent(epsilon=_SELECTED), Selection(_SELECTED, 1.0), scores)


def carried(session, counts):
    name = session.facts.schema.names[-1]
    return {name: np.append(np.int64(_CARRIED[-1]), counts[name][1:])}


class CarryingScore(Histograms):
    """Carries a count out of what is computed, through a list that is global."""

    family = histograms(before=carry, after=carried)


def select_widely(session):
    names = session.facts.schema.names

    def scores():
        return np.array([3.0 * float(exact(session, name).max()) for name in names])

    released(session, SelectionEvent(epsilon=_SELECTED), Selection(_SELECTED, 1.0), scores)


class WideScore(Histograms):
    """Declares a third of the sensitivity that its score has."""

    family = histograms(before=select_widely)


def refuse_few(session):
    if exact(session) < 10:
        raise ValueError("there are too few rows")


def is_empty(session, counts):
    return {"empty": bool(exact(session) == 0)}


class TellingShape(Histograms):
    """Refuses tables that have few rows: the refusal is an answer that nobody paid for."""

    family = histograms(before=refuse_few)


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
