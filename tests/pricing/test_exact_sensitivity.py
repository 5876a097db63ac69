"""Exact numbers behind each charge move between neighbours by at most the declared sensitivity.

The kit repeats the answers of one table for its neighbour, so that both are asked the same.
"""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from missdp import pricing as mp
from missdp.accounting import Composition, RDPEvent, ZCDPEvent
from missdp.errors import CheckFailedError, ParameterError, UnprovenError
from missdp.pricing import chains as prices
from missdp.pricing import propose_test_release
from missdp.pricing.privacy_maps import Bound
from missdp.session.session import Session
from missdp.testing import check_sensitivity
from pricing import stability_cases as cases
from pricing.cases import ESTIMATORS

SEEDS = st.integers(0, 2**32 - 1)
DOMAIN = mp.RowDomain(rows=9, columns=2)


def replaced_row(seed, rows=9, columns=2):
    """Two tables and targets that differ in one row. Half of the time in its missing cells."""
    rng = np.random.default_rng(seed)
    corners = rng.random() < 0.5
    shape = (rows, columns)
    x = rng.choice([-1.0, 0.0, 1.0], shape) if corners else rng.normal(size=shape)
    x[rng.random(shape) < 0.2] = np.nan
    z, place = x.copy(), rng.integers(rows)
    z[place] = rng.choice([-1.0, 1.0, 1e9], columns) * (1 if corners else rng.random())
    if rng.random() < 0.5:
        z[place, rng.random(columns) < 0.5] = np.nan
    elif rng.random() < 0.5:
        x[place] = -z[place]
    y = rng.choice(np.array([0, 1, -1, 7, "odd"], object), rows)
    w = y.copy()
    w[place] = rng.choice(np.array([0, 1, -1, None], object))
    return (x, y), (z, w)


def worst_pair():
    """A row at one end of the ball, or at the other one. The rest are zeros."""
    x, z = np.zeros((2, 9, 2))
    x[0, 0], z[0, 0] = 1.0, -1.0
    y = np.array([1] + [0] * 8)
    return (x, y), (z, y)


def unpriced(*_, label):
    """Prices take long, and are tested elsewhere: every query is charged with this."""
    event = RDPEvent(orders=(2.0,), epsilons=(1.0,), label=label, adjacency="replace-one")
    return (Bound("none", 1.0, event),)


def check(run, *pairs):
    with mock.patch.object(prices, "bounds", unpriced):
        return check_sensitivity(run, pairs=pairs)


def paying(charges):
    return Composition(charges, delta=0.5, adjacency="replace-one")


def single(estimator):
    def fit(rows):
        budget = paying([unpriced(label="")[0].event])
        clone(estimator).set_params(random_state=0, budget=budget, delta=0.01).fit(*rows)
        return budget

    return fit


def piped(steps, estimator, domain, tested=None):
    def fit(rows):
        more = {"random_state": 0, "delta": 0.01}
        total = mp.PricedPipeline(steps, clone(estimator), **vars(domain), **more)
        charges = [total.bounds()[0].event]
        if tested is not None:
            charges = mp.plan_test(total, test_epsilon=tested).charges
        budget = paying(charges)
        total.set_params(budget=budget)
        if tested is None:
            total.fit(*rows)
        else:
            propose_test_release(total, *rows, test_epsilon=tested)
        return budget

    return fit


@given(seed=SEEDS, epsilon=st.sampled_from([0.1, 5.0]))
@settings(max_examples=12, deadline=None)
def test_distance_to_failure_changes_by_at_most_one(seed, epsilon):
    pair = cases.incomplete_pair(seed, d=2)
    steps = [
        ("impute", mp.MeanImputer(max_incomplete=6)),
        ("scale", mp.StandardScaler(min_std=0.05)),
        ("clip", mp.RowClipper(radius=1.0)),
        ("pca", mp.PCARankReducer(n_components=1, min_gap=0.01)),
    ]
    domain = cases._domain(pair, complete=False)
    fit = piped(steps, ESTIMATORS["mean"], domain, tested=epsilon)
    assert check(fit, tuple((table, None) for table in pair))


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("chain", [[], [("scale", mp.StandardScaler(min_std=0.2))]])
def test_charge_covers_the_privacy_loss_of_the_noise(name, chain):
    """Closed forms: zCDP of Gaussian answers, pure DP of Laplace answers."""
    total = mp.PricedPipeline(chain, ESTIMATORS[name], rows=40, columns=2, delta=0.01)
    facts = total.facts_and_query()[0]
    question, event = total.estimator.question(facts.domain), total.bounds()[0].event
    if isinstance(event, RDPEvent):
        return
    mechanism = question.noise_for(facts.distance)
    ratio = mechanism.sensitivity / mechanism.scale + mechanism.slack(question.size)
    if isinstance(event, ZCDPEvent):
        assert event.rho == pytest.approx(getattr(question, "steps", 1) * ratio**2 / 2, rel=1e-9)
    else:
        assert event.epsilon == pytest.approx(ratio, rel=1e-9)


class Steep(mp.PrivateLogisticRegression):
    """States half of its Lipschitz constant: gradients beyond it are clipped."""

    def loss(self, radius):
        honest = super().loss(radius)
        return replace(honest, lipschitz=honest.lipschitz / 2)


STEEP = {
    method: Steep(noise_multiplier=30.0, method=method, n_iter=3, batch_size=3)
    for method in ("gd", "sgd")
}


@pytest.mark.parametrize("name", [*ESTIMATORS, *STEEP])
@given(seed=SEEDS)
@example(seed=None)
@settings(max_examples=6, deadline=None)
def test_an_estimator_stays_within_its_sensitivity(name, seed):
    pair = worst_pair() if seed is None else replaced_row(seed)
    assert check(single((ESTIMATORS | STEEP)[name]), pair)


INCOMPLETE = (
    *(cases.mean_case, cases.median_case, cases.trimmed_case, cases.regression_case),
    cases.neighbours_case,
)
STEPS = (
    *(*INCOMPLETE, cases.standard_case, cases.min_max_case, cases.pca_case),
    *(cases.deduplicate_case, cases.quantize_case),
)


@pytest.mark.long
@given(seed=SEEDS, case=st.sampled_from(STEPS), name=st.sampled_from(sorted(ESTIMATORS)))
@settings(max_examples=40, deadline=None)
def test_pipeline_stays_within_the_sensitivity_of_its_chain(case, seed, name):
    make = cases.incomplete_pair if case in INCOMPLETE else cases.complete_pair
    pair = make(seed, d=2, **({"target": True} if case is cases.regression_case else {}))
    y = np.random.default_rng(seed).integers(0, 2, len(pair[0]))
    try:
        step, domain = case(pair)
        total = mp.PricedPipeline([("step", step)], ESTIMATORS[name], **vars(domain))
        total.facts_and_query()
    except (ParameterError, UnprovenError):
        assume(False)
    assert check(piped(total.steps, ESTIMATORS[name], domain), tuple((t, y) for t in pair))


@pytest.mark.parametrize("name", ["mean", "histogram", "histogram, Laplace", "covariance"])
def test_worst_neighbours_attain_the_sensitivity(name):
    """The check has power: a smaller sensitivity would be exceeded."""
    request = ESTIMATORS[name].question(DOMAIN)
    tables = [table[:, :: -1 if "Laplace" in name else 1] for table, _ in worst_pair()]
    if name == "covariance":  # all rows at one point of the sphere but the first
        others = np.tile([[1.0, 0.0]], (8, 1))
        tables = [np.vstack([[[end, 0.0]], others]) for end in (1.0, -1.0, -0.999)]
        shift = np.linalg.norm(request.exact(tables[1]) - request.exact(tables[2]))
        assert 0.999 <= shift / (0.001 * request.sensitivity.l12) <= 1.0
    gap = request.exact(tables[0]) - request.exact(tables[1])
    mechanism = request.noise_for(mp.NEIGHBOURS)
    shift = np.abs(gap).sum() if mechanism.kind == "laplace" else np.linalg.norm(gap)
    assert shift == pytest.approx(mechanism.sensitivity, rel=1e-9)


@pytest.mark.parametrize("tested", [None, 1.0])
@pytest.mark.parametrize("method", ["gd", "sgd"])
def test_gradients_unclipped_are_detected(method, tested, monkeypatch):
    def unclipped(loss, rows, target):
        def mean(point, sample):
            x, y = (rows, target) if sample is None else (rows[sample], target[sample])
            return x.T @ loss.slope(x @ point, y) / len(x)

        return mean

    fit = piped([], STEEP[method].set_params(fit_intercept=False), DOMAIN, tested)
    assert check(fit, worst_pair())
    monkeypatch.setattr(mp.Loss, "exact", unclipped)
    with pytest.raises(CheckFailedError, match="one row moves"):
        check(fit, worst_pair())


def test_distance_to_failure_moving_too_far_is_detected(monkeypatch):
    fit = piped([("scale", mp.StandardScaler(min_std=0.05))], ESTIMATORS["mean"], DOMAIN, 5.0)
    assert check(fit, worst_pair())
    monkeypatch.setattr(
        mp.StandardScaler, "distance_to_failure", lambda _, table, *__: 3 * table[0, 0]
    )
    with pytest.raises(CheckFailedError, match=r"the answer reveals|one row moves"):
        check(fit, worst_pair())


def test_answers_without_charge_are_detected():
    with (
        mock.patch.object(Session, "_charge", return_value=None),
        pytest.raises(CheckFailedError, match="were charged for"),
    ):
        check(single(ESTIMATORS["mean"]), worst_pair())
