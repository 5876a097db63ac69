"""Audits of adversarial families, and of what was published under their names."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from baselines.test_adversarial import FAMILIES
from missdp.accounting import SampledGaussianEvent, releases
from missdp.baselines import adversarial
from missdp.baselines.dp_ctgan import DPCTGAN
from missdp.errors import CheckFailedError
from missdp.mechanisms import SeededNoise, training
from missdp.mechanisms.training import SampledSum
from missdp.testing import TINY, Claim, canary, check_sensitivity
from missdp.testing.claims import judge
from missdp.testing.findings import Recorder, Repeater

torch = pytest.importorskip("torch")

PUBLIC = {"epsilon": 8.0, "delta": 1e-3, "n_rows": 12}


def trained(family, parameters, tables):
    """The laws of all steps of a fit, with what is behind them on either table, and the charges."""
    kept = Recorder(3)
    model = family(**parameters, random_state=kept).fit(tables[0])
    again = Repeater(kept)
    family(**parameters, random_state=again).fit(tables[1])
    pairs = zip(kept.kept, again.kept, strict=True)
    steps = [(a.law, a.exact, b.exact) for a, b in pairs if isinstance(a.law, SampledSum)]
    events = releases(model.guarantee_.events)
    return steps, [e for e in events if isinstance(e, SampledGaussianEvent)]


def likelihoods(steps, runs):
    """Log-likelihood ratios of answers drawn with the row, and without it."""
    noise = SeededNoise(0)

    def ratios(side):
        return np.array(
            [
                sum(
                    law.log_ratio(law.draw(exact[side], noise), exact[1], exact[0])
                    for law, *exact in steps
                )
                for _ in range(runs)
            ]
        )

    return ratios(1), ratios(0)


@pytest.fixture
def clipped(monkeypatch):
    """Every gradient is as long as it may be."""
    monkeypatch.setattr(adversarial, "_CLIP", 2.0**-8)


@pytest.mark.usefixtures("clipped")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_canary_whose_gradients_are_clipped_is_found_as_well_as_was_charged_and_no_better(name):
    family, own = FAMILIES[name]
    parameters = {**PUBLIC, **own, "steps": 4, "batch": 100}
    steps, events = trained(family, parameters, canary(TINY, 12))
    # The autoencoder takes half as many steps as the critic.
    assert len(steps) == (6 if name == "autogan" else 4)
    assert all(event.rate == 1 for event in events)
    claimed = math.sqrt(sum(e.steps / e.noise_multiplier**2 for e in events))
    found = judge(*likelihoods(steps, runs=400), Claim((), mu=claimed))
    assert not found.flagged
    assert found.ratio >= 0.9
    moved = math.sqrt(sum(law.shift(one, other) ** 2 for law, one, other in steps))
    assert 0.95 * claimed <= moved <= claimed


class CategoryFirst(SampledSum):
    """A level is drawn first, by noisy counts, and then a row that has it, as published.

    Noise has made every level as frequent as any other. A row is read as often as its levels are
    asked for, shared by the rows that have them; charged is the same rate for all rows.
    """

    def inclusion(self, exact):
        columns = list(exact._codes.values())
        batch, share = self.rate * len(exact), np.zeros(len(exact))
        for column in columns:
            levels, at, counts = np.unique(column, return_inverse=True, return_counts=True)
            share += 1 / (len(levels) * counts[at] * len(columns))
        return np.minimum(1.0, batch * share)

    def draw(self, exact, source):
        chosen = source.generator().random(len(exact)) < self.inclusion(exact)
        total = exact.sum(np.flatnonzero(chosen))
        return np.asarray(total + source.discrete_gaussian(self.sigma, total.shape))

    def exceeds(self, event, exact, other):
        most = max(self.inclusion(rows).max(initial=0.0) for rows in (exact, other))
        return SampledSum(float(most), self.sigma).exceeds(event, exact, other)

    def _log_likelihood(self, answer, exact):
        each = exact.each
        active = each.any(axis=1)
        rows, odds = each[active] / self.sigma, self.inclusion(exact)[active]
        odds = np.clip(odds, 1e-12, 1 - 1e-12)
        noisy, terms = np.asarray(answer) / self.sigma, []
        for sampled in product((0.0, 1.0), repeat=len(rows)):
            read = np.array(sampled)
            weight = (read * np.log(odds) + (1 - read) * np.log1p(-odds)).sum()
            terms.append(weight - np.square(noisy - read @ rows).sum() / 2)
        return float(logsumexp(terms))


PUBLISHED = {"delta": 1e-3, "steps": 12, "batch": 1, "n_rows": 9}


def test_sensitivities_flag_rows_that_are_sampled_by_their_levels(monkeypatch):
    monkeypatch.setattr(training, "SampledSum", CategoryFirst)
    with pytest.raises(CheckFailedError, match="at least its rate"):
        check_sensitivity(
            DPCTGAN,
            parameters=PUBLISHED | {"epsilon": 1.0, "steps": 4},
            strategies=["observed"],
            trials=4,
        )


def audited():
    """All steps of training of one fit, each drawn again and again."""
    parameters = PUBLISHED | {"epsilon": 2.0}
    steps, events = trained(DPCTGAN, parameters, canary(TINY, 8))
    return judge(*likelihoods(steps, runs=150), Claim.of(events))


@pytest.mark.slow
@pytest.mark.usefixtures("clipped")
def test_an_audit_flags_rows_that_are_sampled_by_their_levels_and_not_alike(monkeypatch):
    assert not audited().flagged
    monkeypatch.setattr(training, "SampledSum", CategoryFirst)
    assert audited().flagged
