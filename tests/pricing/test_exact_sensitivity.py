"""What is behind each charge moves between neighbours by at most what was declared, read once.

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
from missdp.accounting import Budget, RDPEvent, ZCDPEvent
from missdp.errors import CheckFailedError, ParameterError, UnprovenError
from missdp.mechanisms import SeededNoise
from missdp.mechanisms.session import Charged
from missdp.pricing import propose_test_release
from missdp.pricing import replace_one as prices
from missdp.pricing.privacy_maps import Bound
from missdp.pricing.replace_one import ReplaceOneDoor
from missdp.testing import check_sensitivity
from pricing import stability_cases as cases
from pricing.cases import ESTIMATORS

SEEDS = st.integers(0, 2**32 - 1)
DOMAIN = mp.RowDomain(rows=9, columns=2)


def replaced_row(seed, rows=9, columns=2):
    """Two tables and targets that differ in one row; half of the time in its holes."""
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
    """A row at one end of the ball, or at the other one; the rest are zeros."""
    x, z = np.zeros((2, 9, 2))
    x[0, 0], z[0, 0] = 1.0, -1.0
    y = np.array([1] + [0] * 8)
    return (x, y), (z, y)


def unpriced(*_, label):
    """Prices take long, and are tested elsewhere: whatever is asked for is charged with this."""
    event = RDPEvent(orders=(2.0,), epsilons=(1.0,), label=label, adjacency="replace-one")
    return (Bound("none", 1.0, event),)


def check(run, *pairs):
    with mock.patch.object(prices, "bounds", unpriced):
        return check_sensitivity(run, pairs=pairs)


def rich():
    return Budget(1e12, 0.5, adjacency="replace-one")


def alone(estimator):
    def fit(witness, rows):
        budget = rich()
        clone(estimator).set_params(random_state=witness, budget=budget, delta=0.01).fit(*rows)
        return budget

    return fit


def piped(steps, estimator, domain, tested=None):
    def fit(witness, rows):
        more = {"random_state": witness, "budget": (budget := rich()), "delta": 0.01}
        whole = mp.PricedPipeline(steps, clone(estimator), **vars(domain), **more)
        if tested is None:
            whole.fit(*rows)
        else:
            propose_test_release(whole, *rows, test_epsilon=tested)
        return budget

    return fit


@given(seed=SEEDS, epsilon=st.sampled_from([0.1, 5.0]))
@settings(max_examples=12, deadline=None)
def test_a_distance_to_failure_moves_by_at_most_one(seed, epsilon):
    pair = cases.holey_pair(seed, d=2)
    steps = [
        ("impute", mp.MeanImputer(max_incomplete=6)),
        ("scale", mp.StandardScaler(least_std=0.05)),
        ("clip", mp.RowClipper(radius=1.0)),
        ("pca", mp.PCARankReducer(n_components=1, least_gap=0.01)),
    ]
    domain = cases._domain(pair, complete=False)
    fit = piped(steps, ESTIMATORS["mean"], domain, tested=epsilon)
    assert check(fit, tuple((table, None) for table in pair))


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("chain", [[], [("scale", mp.StandardScaler(least_std=0.2))]])
def test_what_is_charged_covers_what_the_law_reveals(name, chain):
    """Closed forms: zCDP of Gaussian answers, pure DP of Laplace answers."""
    if "iteration" in name:
        return
    whole = mp.PricedPipeline(chain, ESTIMATORS[name], rows=40, columns=2, delta=0.01)
    facts = whole.asked()[0]
    question, event = whole.estimator.question(facts.domain), whole.bounds()[0].event
    if isinstance(event, RDPEvent):
        return
    law = question.law(facts.distance)
    size = question.size if isinstance(question, mp.VectorQuery) else question.domain.columns
    ratio = law.sensitivity / law.scale + law.slack(size)
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
    for method in ("gd", "sgd", "iteration")
}


def moves_of_a_hidden_run(asked, pair, distance):
    """How far gradients of single rows move, the longest apart, in units of what is declared."""
    (x, y), (z, w) = ((t, asked.loss.read(target)) for t, target in pair)
    one, other = asked.loss.exact(x, y), asked.loss.exact(z, w)
    for seed in range(5):
        point = np.random.default_rng(seed).normal(size=asked.domain.columns)
        point *= asked.loss.coefficient_norm / np.linalg.norm(point) * (seed > 0)
        rows = [np.array([row]) for row in range(asked.domain.rows)]
        moves = np.sort([np.linalg.norm(one(point, row) - other(point, row)) for row in rows])
        drift = asked.loss.smoothness * distance.moved_frobenius
        yield moves[-1] / asked.sensitivity
        yield np.sqrt((moves[:-1] ** 2).sum()) / max(drift, 1e-12)


@pytest.mark.parametrize("name", [*ESTIMATORS, *STEEP])
@given(seed=SEEDS)
@example(seed=None)
@settings(max_examples=6, deadline=None)
def test_an_estimator_stays_within_its_sensitivity(name, seed):
    pair, estimator = (
        worst_pair() if seed is None else replaced_row(seed),
        (ESTIMATORS | STEEP)[name],
    )
    assert check(alone(estimator), pair)
    asked = estimator.question(DOMAIN)
    if isinstance(asked, mp.SecretStop):  # of which the kit sees the last iterate alone
        enforced = [(DOMAIN.enforce(table), target) for table, target in pair]
        assert max(moves_of_a_hidden_run(asked, enforced, mp.NEIGHBOURS)) <= 1 + 1e-9


HOLEY = (
    *(cases.mean_case, cases.median_case, cases.trimmed_case, cases.regression_case),
    cases.neighbours_case,
)
STEPS = (
    *(*HOLEY, cases.standard_case, cases.min_max_case, cases.pca_case),
    *(cases.deduplicate_case, cases.quantize_case),
)


@given(seed=SEEDS, case=st.sampled_from(STEPS), name=st.sampled_from(sorted(ESTIMATORS)))
@settings(max_examples=40, deadline=None)
def test_a_pipeline_stays_within_the_sensitivity_of_the_whole_chain(case, seed, name):
    make = cases.holey_pair if case in HOLEY else cases.complete_pair
    pair = make(seed, d=2, **({"target": True} if case is cases.regression_case else {}))
    y = np.random.default_rng(seed).integers(0, 2, len(pair[0]))
    try:
        step, domain = case(pair)
        whole = mp.PricedPipeline([("step", step)], ESTIMATORS[name], **vars(domain))
        facts, asked = whole.asked()
        distance = facts.distance
    except (ParameterError, UnprovenError):
        assume(False)
    assert check(piped(whole.steps, ESTIMATORS[name], domain), tuple((t, y) for t in pair))
    if isinstance(asked, mp.SecretStop):
        filled = [(facts.domain.enforce(clone(step).fit_transform(t)), y) for t in pair]
        assert max(moves_of_a_hidden_run(asked, filled, distance)) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["mean", "histogram", "histogram, Laplace", "covariance"])
def test_the_worst_neighbours_use_up_the_whole_sensitivity(name):
    """The check has power: a smaller sensitivity would be exceeded."""
    asked = ESTIMATORS[name].question(DOMAIN)
    tables = [table[:, :: -1 if "Laplace" in name else 1] for table, _ in worst_pair()]
    if name == "covariance":  # all rows at one point of the sphere but the first
        others = np.tile([[1.0, 0.0]], (8, 1))
        tables = [np.vstack([[[end, 0.0]], others]) for end in (1.0, -1.0, -0.999)]
        moved = np.linalg.norm(asked.exact(tables[1], None) - asked.exact(tables[2], None))
        assert 0.999 <= moved / (0.001 * asked.sensitivity.l12) <= 1.0
    gap = asked.exact(tables[0], None) - asked.exact(tables[1], None)
    law = asked.law(mp.NEIGHBOURS)
    moved = np.abs(gap).sum() if law.kind == "laplace" else np.linalg.norm(gap)
    assert moved == pytest.approx(law.sensitivity, rel=1e-9)


def test_gradients_that_are_not_clipped_and_answers_that_are_not_charged_are_found(monkeypatch):
    def unclipped(loss, rows, target):
        return lambda point, sample: rows.T @ loss.slope(rows @ point, target) / len(rows)

    def twice(door, question, plan=None):
        charged = Charged((door.price(question).event,))
        door._charge(charged)
        door._pose(question, charged)
        return door._pose(question, charged)

    for name, wrong in (("ask", twice), ("_charge", lambda *_, **__: None)):
        with (
            mock.patch.object(ReplaceOneDoor, name, wrong),
            pytest.raises(ParameterError, match="answered once"),
        ):
            alone(ESTIMATORS["mean"])(SeededNoise(0), worst_pair()[0])
    monkeypatch.setattr(mp.Loss, "exact", unclipped)
    with pytest.raises(CheckFailedError):
        check(alone(STEEP["gd"]), worst_pair())
