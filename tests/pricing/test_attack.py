"""A membership test on preprocessed data: it beats the naive claim, and never the price."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta

from missdp import pricing as mp
from missdp.mechanisms.noise import SeededNoise
from missdp.pricing import price
from missdp.pricing.replace_one import ReplaceOneDoor

# Statistics by brute force; other tests cover the code, and tracing it would double the time.
pytestmark = pytest.mark.no_cover

DELTA, RUNS = 1e-2, 15_000


def shown_epsilon(pipeline, x, y):
    """A lower confidence bound on epsilon at DELTA from outputs on two neighbouring tables.

    The attacker picks a threshold on the released mean on the first half of the runs; the second
    half bounds both error rates (Clopper-Pearson, 1 - 1e-4 each).
    """
    assert (np.nan_to_num(x) != np.nan_to_num(y)).any(axis=1).sum() <= 1
    facts, noise, outputs = pipeline.facts(), SeededNoise(3), []
    question = pipeline.estimator.question(facts.domain)
    for table in (x, y):
        with ReplaceOneDoor(table, facts, budget=None, noise=noise) as door:
            outputs.append(np.array([door.ask(question)[0] for _ in range(RUNS)]))
    if outputs[0].mean() > outputs[1].mean():
        outputs = [-o for o in outputs]
    half = RUNS // 2
    candidates = np.quantile(np.concatenate(outputs), np.linspace(0.02, 0.98, 60))
    rates = [((o[:half, None] > candidates).mean(axis=0)) for o in outputs]
    score = np.log(np.maximum(rates[1] - DELTA, 1e-12) / np.maximum(rates[0], 2e-3))
    threshold = candidates[int(np.argmax(score))]
    hits = [int((o[half:] > threshold).sum()) for o in outputs]
    rest = RUNS - half
    low = beta.ppf(1e-4, hits[1], rest - hits[1] + 1)
    high = beta.ppf(1 - 1e-4, hits[0] + 1, rest - hits[0])
    return math.log((low - DELTA) / high)


def imputed():
    """Most cells are missing: every imputed cell follows the one replaced value."""
    x = np.full((200, 1), 0.0)
    x[50:] = np.nan
    y = x.copy()
    x[0], y[0] = 1.0, -1.0
    return [("impute", mp.MeanImputer(max_incomplete=150))], x, y, False


def clusters():
    """Copies at four places, and one row that hides two groups of them, or the other two."""
    copies = np.repeat([[-0.9], [-0.5], [0.5], [0.9]], 20, axis=0)
    x = np.vstack([[[-0.7]], copies, np.zeros((1, 1))])
    y = x.copy()
    y[0] = 0.7
    return x, y


def deduplicated():
    x, y = clusters()
    return [("dedup", mp.Deduplicator(eta=0.1, max_cluster=20))], x, y, True


@pytest.mark.parametrize("case", [imputed, deduplicated])
def test_the_attack_exceeds_the_naive_claim_but_not_the_price(case):
    steps, x, y, complete = case()
    pipeline = mp.PricedPipeline(
        steps, mp.PrivateMean(noise_multiplier=2.0), rows=len(x), columns=1, complete=complete,
        delta=DELTA,
    )  # fmt: skip
    result = price(pipeline)
    shown = shown_epsilon(pipeline, x, y)
    assert shown > 1.3 * result.naive_epsilon
    assert shown <= result.epsilon


def test_the_imputation_price_is_almost_reached():
    """The pair is the worst one, so an exact audit of the shift leaves no slack in the price."""
    steps, x, y, complete = imputed()
    pipeline = mp.PricedPipeline(
        steps, mp.PrivateMean(noise_multiplier=2.0), rows=200, columns=1, complete=complete,
        delta=DELTA,
    )  # fmt: skip
    facts, noise = pipeline.facts(), SeededNoise(0)
    doors = [ReplaceOneDoor(t, facts, budget=None, noise=noise) for t in (x, y)]
    finals = [door._rows().mean() for door in doors]
    sigma = 2.0 * 2 / 200
    assert abs(finals[0] - finals[1]) / sigma == pytest.approx(
        math.sqrt(2 * pipeline.bounds()[0].event.rho), rel=1e-4
    )


def test_without_preprocessing_the_claim_holds():
    """The same attack has no power against a claim that is right."""
    steps = [("round", mp.Quantizer(eta=1e-6, max_cluster=1, max_neighbours=1))]
    x = np.linspace(-1, 1, 200)[:, None]
    y = x.copy()
    y[0] = 1.0
    pipeline = mp.PricedPipeline(
        steps, mp.PrivateMean(noise_multiplier=2.0), rows=200, columns=1, delta=DELTA
    )
    assert shown_epsilon(pipeline, x, y) <= price(pipeline).naive_epsilon
