"""The meaning of a guarantee for one person, beside the best tests between two tables."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import norm

from missdp import MST, Numeric, Ordinal, Schema, Table
from missdp import accounting as acc
from missdp.errors import MissDPWarning, ParameterError, UnprovenError, WeakGuaranteeWarning
from missdp.pricing import PricedPipeline, PrivateMean
from missdp.session import Noise
from missdp.statistics import ImputedStatistics, KNNImputation
from missdp.testing import RecordingNoise
from missdp.words import Risk, warn_if_weak

CHANCES = (0.3, 1e-3, 1e-6, 1e-9)


def gaussian(mu, delta=1e-6):
    event = acc.GaussianEvent(sensitivity=mu, sigma=1.0, discrete=False)
    return acc.Guarantee.from_events(event, delta=delta)


@pytest.mark.long
@pytest.mark.parametrize("mu", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("chance", CHANCES)
def test_gaussian_noise_is_bounded_by_its_best_test_and_hardly_more(mu, chance):
    """A threshold is the best test.

    Among all outcomes of probability c with the row, it is the most unlikely without the row.
    """
    best = math.log(chance) - log_ndtr(norm.ppf(chance) - mu)
    loss = gaussian(mu).explain(chance=chance).loss
    assert best <= loss <= 1.01 * best + 1e-3


def test_the_tail_of_the_loss_alone_is_exceeded_by_a_coarse_view():
    """Outcomes above a threshold are one outcome, for which the tail P(L > t) is too small."""
    mu, chance = 0.3, 1e-4
    best = math.log(chance) - log_ndtr(norm.ppf(chance) - mu)
    tail = norm.cdf(mu / 2 - best / mu)
    assert tail < chance / 2
    assert gaussian(mu).explain(chance=tail).loss > best


@pytest.mark.long
@pytest.mark.parametrize("chance", [1e-2, 1e-5])
def test_both_directions_of_a_mechanism_that_is_not_symmetric(chance):
    """Reading a row with probability q: the row shows far more than its absence does."""
    q, sigma = 0.1, 0.7
    event = acc.SampledGaussianEvent(rate=q, noise_multiplier=sigma, steps=1)
    loss = acc.Guarantee.from_events(event, delta=1e-7).explain(chance=chance).loss

    def absent(x, sign):
        return norm.cdf(sign * x, 0, sigma)

    def present(x, sign):
        return (1 - q) * absent(x, sign) + q * norm.cdf(sign * (x - 1), 0, sigma)

    above = brentq(lambda x: present(x, -1) - chance, -20, 20)
    below = brentq(lambda x: absent(x, 1) - chance, -20, 20)
    raised = math.log(chance / absent(above, -1))
    lowered = math.log(chance / present(below, 1))
    assert lowered < raised  # the worse direction counts for both
    assert raised <= loss <= 1.02 * raised


def test_pure_privacy_has_no_exception_and_randomised_response_attains_it():
    event = acc.LaplaceEvent(sensitivity=1, scale=0.5)
    risk = acc.Guarantee.from_events(event).explain(prior=0.2)
    revealed = math.exp(2) / (1 + math.exp(2))  # the truth, with this probability
    assert risk.highest == pytest.approx(0.2 * revealed / (0.2 * revealed + 0.8 * (1 - revealed)))
    assert risk.lowest == pytest.approx(
        0.2 * (1 - revealed) / (0.2 * (1 - revealed) + 0.8 * revealed)
    )
    assert (risk.loss, risk.chance) == (2.0, 0.0)
    assert "except" not in str(risk)


def test_with_a_delta_the_stated_epsilon_has_exceptions_that_are_not_delta():
    """If all is revealed with probability d, merging this with the likelier answer is worse."""
    event = acc.ApproximateEvent(epsilon=1.0, delta=1e-4)
    guarantee = acc.Guarantee.from_events(event, delta=1e-4)
    risk = guarantee.explain(chance=1e-3)
    truth = (1 - 1e-4) * math.e / (1 + math.e)  # of which the part that makes up c is merged
    revealed = 1e-3 - 1e-4
    assert revealed < truth
    assert risk.loss == pytest.approx(math.log(1e-3 / (revealed / math.e)), rel=1e-3)
    with pytest.raises(UnprovenError, match="larger chance"):
        guarantee.explain(chance=5e-5)


def test_nothing_is_rounded_to_the_rosier_side():
    words = str(acc.Guarantee(1.0).explain(prior=0.5))
    for said in (
        "at most 2.719, so to at most 73.11 %",  # 2.71828, 73.1059
        "at least 26.89 %",  # 26.8941
        "about ± 1.4 ",  # 1.4142
    ):
        assert said in words
    assert "about ± 4.1 " in str(gaussian(0.2386).explain())  # 4.19


def test_a_risk_is_read_back_and_its_parameters_are_checked():
    risk = gaussian(0.2).explain(prior=0.01)
    assert Risk.from_dict(risk.to_dict()) == risk
    assert risk.to_dict()["highest"] == risk.highest > risk.prior > risk.lowest
    assert acc.Guarantee(2000.0).explain(prior=1e-300).lowest == 0.0
    for bad in (0.0, 1.0, math.nan, -1.0, "many"):
        for name in ("prior", "chance"):
            with pytest.raises(ParameterError, match=name):
                gaussian(0.2).explain(**{name: bad})


def test_risk_is_that_of_whoever_is_protected():
    event = acc.UnitEvent(unit="house", rows=3, capacity=acc.PureEvent(epsilon=0.1))
    said = " ".join(str(acc.Guarantee.from_events(event).explain()).split())
    assert "A count in which each house counts once and that is released with noise" in said
    assert said.endswith("to this house all the same, with its rows or without them.")
    assert "person" not in said


# Guarantees that mean next to nothing warn, on declared and released facts only
SCHEMA = Schema(
    (
        Ordinal(name="grade", levels=(1, 2, 3)),
        Numeric(name="income", lower=0, upper=100, bins=4, nullable=True),
    )
)


def table(rows=60):
    rng = np.random.default_rng(0)
    codes = {a.name: rng.integers(0, a.extended_size, rows) for a in SCHEMA}
    return Table.from_codes(SCHEMA, codes).with_values(rng)


def heard(act):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", WeakGuaranteeWarning)
        act()
    assert issubclass(WeakGuaranteeWarning, MissDPWarning)
    return [str(w.message).split(" = ")[0] for w in caught if w.category is WeakGuaranteeWarning]


@given(st.floats(0, 100), st.floats(0, 1), st.none() | st.integers(0, 10**9))
def test_exactly_the_weak_guarantees_warn(epsilon, delta, n):
    weak = {"epsilon": epsilon > 10, "delta": n is not None and delta > 0 and delta * n >= 1}
    found = heard(lambda: warn_if_weak(epsilon, delta, n=n))
    assert found == [name for name, said in weak.items() if said]


class Seeming(RecordingNoise):
    """Answers of a table that seems to have so many times as many rows."""

    def __init__(self, times):
        super().__init__(0)
        self.times = times

    def answer(self, event, law, exact):
        found = super().answer(event, law, exact)
        return np.asarray(found) * self.times if isinstance(law, Noise) else found


@pytest.mark.parametrize(
    ("epsilon", "n", "released"), [(11.0, 40, True), (1.0, 4000, True), (1.0, 4000, False)]
)
def test_a_fit_warns_by_what_is_declared_or_released(epsilon, n, released):
    """The private table has 60 rows. The declared or released number of rows may be any number."""
    model = MST(epsilon=epsilon, delta=1e-3, n_rows="noisy" if released else n)
    expected = ["epsilon"] * (epsilon > 10) + ["delta"] * (n >= 1000)
    with Seeming(n / 60 if released else 1):
        assert heard(lambda: model.fit(table())) == expected


@pytest.mark.parametrize(
    ("delta", "noise", "expected"),
    [(1e-6, 20.0, []), (0.02, 20.0, ["delta"]), (1e-6, 0.1, ["epsilon"])],
)
def test_a_private_estimator_warns_alone_and_in_a_pipeline(delta, noise, expected):
    estimator = PrivateMean(noise_multiplier=noise, delta=delta)
    for fitted in (PricedPipeline([], estimator, rows=50, columns=2, delta=delta), estimator):
        assert heard(lambda: fitted.fit(np.random.default_rng(0).random((50, 2)))) == expected  # noqa: B023


@pytest.mark.filterwarnings("error::missdp.errors.WeakGuaranteeWarning")
def test_a_warning_made_an_error_loses_no_release():
    budget = acc.Filter(30.0, 0.1)
    with pytest.raises(WeakGuaranteeWarning, match="epsilon"):
        MST(epsilon=11.0, delta=1e-3, budget=budget).fit(table())
    assert not budget.events
    model = MST(epsilon=1.0, delta=1e-3, budget=budget)
    with Seeming(70), pytest.raises(WeakGuaranteeWarning, match="delta"):
        model.fit(table())
    assert len(model.sample(5)) == 5  # paid for, and there
    imputed = KNNImputation(impute="income", match_on="grade")
    asked = ImputedStatistics(table(), imputed, budget=acc.Filter(20.0))
    with pytest.raises(WeakGuaranteeWarning):
        asked.count(where="income > 5", epsilon=12.0)
    assert not asked.budget.events
