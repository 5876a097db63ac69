"""What is behind each charge moves between neighbours by at most what was declared, read once.

The answers of one table are repeated for its neighbour, so that both are asked the same questions.
"""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from missdp import pricing as mp
from missdp.accounting import Budget, PureEvent, RDPEvent, ZCDPEvent
from missdp.errors import ParameterError, UnprovenError
from missdp.mechanisms.session import Charged
from missdp.pricing import propose_test_release
from missdp.pricing import replace_one as prices
from missdp.pricing.privacy_maps import Bound
from missdp.pricing.questions import VectorNoise
from missdp.pricing.replace_one import ReplaceOneDoor
from pricing import stability_cases as cases
from pricing.cases import ESTIMATORS
from pricing.witnesses import Tape

SEEDS = st.integers(0, 2**32 - 1)
ROUNDING = 1 + 1e-9


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


def norm(law, gap):
    return np.abs(gap).sum() if law.kind == "laplace" else np.sqrt((gap**2).sum())


def share(law, one, other, distance):
    """How much of the declared sensitivity two neighbours use up."""
    if isinstance(law, VectorNoise):
        return norm(law, np.asarray(one, float) - np.asarray(other, float)) / law.sensitivity
    assert isinstance(law, mp.SecretStop)
    shares, rows = [0.0], [np.array([row]) for row in range(law.domain.rows)]
    for seed in range(5):
        point = np.random.default_rng(seed).normal(size=law.domain.columns)
        point *= law.loss.coefficient_norm / np.linalg.norm(point) * (seed > 0)
        moves = np.sort([np.linalg.norm(one(point, row) - other(point, row)) for row in rows])
        drift = law.loss.smoothness * distance.moved_frobenius
        rest = float(np.sqrt((moves[:-1] ** 2).sum()))
        shares += [moves[-1] / law.sensitivity, rest / drift if drift else float(rest > 1e-12)]
    return max(shares)


def unpriced(*_, label):
    return (Bound("none", 1.0, PureEvent(epsilon=1.0, label=label, adjacency="replace-one")),)


@mock.patch.object(prices, "bounds", unpriced)  # they take long, and are tested elsewhere
def tapes(fit, pair):
    """Fit both tables, the second with the answers of the first; check reads against charges."""
    first = None
    for table in pair:
        budget = Budget(1e12, 0.5, adjacency="replace-one")
        tape = Tape(repeat=first, budget=budget)
        steps = fit(tape, budget, *table)
        counted = tape.answered()
        assert [event for event, _ in counted] == list(budget.events)[: len(counted)]
        assert [times for _, times in counted] == [1] * (len(counted) - 1) + [steps]
        if first is not None:
            return first, tape
        first = tape
    raise AssertionError


def most_used(fit, pair, distance=mp.TableDistance(replaced=1)):  # noqa: B008
    """Return the largest share of its sensitivity that any answer uses up."""
    one, other = tapes(fit, pair)
    assert len(one.kept) == len(other.kept)
    both = zip(one.kept, other.kept, strict=True)
    return max(share(p.law, p.exact, q.exact, distance) for p, q in both)


def alone(estimator):
    def fit(tape, budget, x, y):
        model = clone(estimator).set_params(random_state=tape, budget=budget, delta=0.01)
        model.fit(x, y)
        return getattr(model, "n_iter", 1) if getattr(model, "method", "") in ("gd", "sgd") else 1

    return fit


def piped(steps, estimator, domain, tested=None):
    def fit(tape, budget, x, y):
        whole = mp.PricedPipeline(
            steps, clone(estimator), rows=domain.rows, columns=domain.columns,
            complete=domain.complete, random_state=tape, budget=budget, delta=0.01,
        )  # fmt: skip
        if tested is None:
            whole.fit(x, y)
        elif type(propose_test_release(whole, x, y, test_epsilon=tested)).__name__ == "Refused":
            return 1
        stepwise = getattr(estimator, "method", "") in ("gd", "sgd")
        return estimator.n_iter if stepwise else 1

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
    one, other = tapes(
        piped(steps, ESTIMATORS["mean"], domain, tested=epsilon), [(t, None) for t in pair]
    )
    assert one.kept[0].law.sensitivity == 1.0
    assert abs(one.kept[0].exact - other.kept[0].exact).item() <= ROUNDING


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("chain", [[], [("scale", mp.StandardScaler(least_std=0.2))]])
def test_what_is_charged_covers_what_the_law_reveals(name, chain):
    """Closed forms: zCDP of Gaussian answers, pure DP of Laplace answers."""
    whole = mp.PricedPipeline(chain, ESTIMATORS[name], rows=40, columns=2, delta=0.01)
    if "iteration" in name and chain:
        whole.set_params(steps=[*chain, ("clip", mp.RowClipper(radius=1.0))])
    facts = whole.asked()[0]
    question, event = whole.estimator.question(facts.domain), whole.bounds()[0].event
    law = question.law(facts.distance)
    if not isinstance(law, VectorNoise) or isinstance(event, RDPEvent):
        return
    size = question.size if isinstance(question, mp.VectorQuery) else question.domain.columns
    ratio = law.sensitivity / law.scale + law.slack(size)
    if isinstance(event, ZCDPEvent):
        assert event.rho == pytest.approx(getattr(question, "steps", 1) * ratio**2 / 2, rel=1e-9)
    else:
        assert event.epsilon == pytest.approx(ratio, rel=1e-9)


def worst_pair(rows=9, columns=2):
    """A row at one end of the ball, or at the other one; the rest are zeros."""
    x = np.zeros((rows, columns))
    z = x.copy()
    x[0, 0], z[0, 0] = 1.0, -1.0
    y = np.array([1] + [0] * (rows - 1))
    return (x, y), (z, y)


def far_from_all_others(end):
    """All rows at one point of the sphere but the first, which is at ``end``."""
    x = np.tile([[1.0, 0.0]], (9, 1))
    x[0] = end
    return x


class Steep(mp.PrivateLogisticRegression):
    """States half of its Lipschitz constant: gradients beyond it are clipped."""

    def loss(self, radius):
        honest = super().loss(radius)
        return replace(honest, lipschitz=honest.lipschitz / 2)


STEEP = {
    method: Steep(noise_multiplier=30.0, method=method, n_iter=3, batch_size=3)
    for method in ("gd", "sgd", "iteration")
}


@pytest.mark.parametrize("name", [*ESTIMATORS, *STEEP])
@given(seed=SEEDS)
@example(seed=None)
@settings(max_examples=6, deadline=None)
def test_an_estimator_stays_within_its_sensitivity(name, seed):
    pair = worst_pair() if seed is None else replaced_row(seed)
    assert most_used(alone((ESTIMATORS | STEEP)[name]), pair) <= ROUNDING


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
    try:
        step, domain = case(pair)
        fit = piped([("step", step)], ESTIMATORS[name], domain)
        distance = step.stability(mp.TableDistance(replaced=1), domain)
        y = np.random.default_rng(seed).integers(0, 2, domain.rows)
        found = most_used(fit, [(table, y) for table in pair], distance)
    except (ParameterError, UnprovenError):
        assume(False)
    assert found <= ROUNDING


@pytest.mark.parametrize("name", ["mean", "histogram", "histogram, Laplace", "covariance"])
def test_the_worst_neighbours_use_up_the_whole_sensitivity(name):
    """The check has power: a smaller sensitivity would be exceeded."""
    pair = worst_pair()
    if name == "covariance":
        pair = [(far_from_all_others(end), None) for end in ([1.0, 0.0], [-1.0, 0.0])]
        asked = ESTIMATORS[name].question(mp.RowDomain(rows=9, columns=2))
        one, other = (asked.exact(far_from_all_others([-x, 0.0]), None) for x in (1.0, 0.999))
        moved = np.linalg.norm(one - other) / (0.001 * asked.sensitivity.l12)
        assert 0.999 <= moved <= 1.0
    if "Laplace" in name:
        pair = tuple((x[:, ::-1], y) for x, y in pair)
    assert most_used(alone(ESTIMATORS[name]), pair) == pytest.approx(1.0, rel=1e-9)


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
            tapes(alone(ESTIMATORS["mean"]), worst_pair())
    monkeypatch.setattr(mp.Loss, "exact", unclipped)
    assert most_used(alone(STEEP["gd"]), worst_pair()) > 1.01
