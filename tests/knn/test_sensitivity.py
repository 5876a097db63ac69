"""The true change of every query between neighbours stays within own + donee * M_0."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knn.knn_oracles import Row, as_table, labels_of, neighbours, tables
from missdp.accounting import Budget
from missdp.knn import CompleteRows, ImputedStatistics, KNNImputation
from missdp.knn.bound import smooth_bound
from missdp.knn.estimates import Noisy
from missdp.knn.moments import _product_change, square_change
from missdp.knn.releases import Releaser
from missdp.knn.rows import RowSum
from missdp.mechanisms import SeededNoise
from missdp.mechanisms.smooth_plan import plan_smooth

QUERIES: dict[str, Callable[[ImputedStatistics], object]] = {
    "count": lambda s: s.count(epsilon=1),
    "count fixed": lambda s: s.count(where="grade >= 1", epsilon=1),
    "count imputed": lambda s: s.count(where="income > 2 or car = 'yes'", epsilon=1),
    "proportion": lambda s: s.proportion("income < 4", where="sex = 'f'", epsilon=1),
    "proportion of imputed": lambda s: s.proportion("sex = 'f'", where="car = 'yes'", epsilon=1),
    "mean": lambda s: s.mean("income", epsilon=1),
    "mean imputed": lambda s: s.mean("income", where="income >= 3", epsilon=1),
    "sum": lambda s: s.sum("income", where="sex = 'm'", epsilon=1),
    "sum other": lambda s: s.sum("income", where="car = 'yes'", epsilon=1),
    "variance": lambda s: s.variance("income", epsilon=1),
    "deviation imputed": lambda s: s.standard_deviation("income", where="car = 'no'", epsilon=1),
    "correlation": lambda s: s.correlation("income", "income", epsilon=1),
    "histogram": lambda s: s.histogram("income", epsilon=1),
    "histogram of other": lambda s: s.histogram("sex", where="car = 'no'", epsilon=1),
    "histogram both": lambda s: s.histogram("car", where="income > 2", epsilon=1),
    "histogram fixed": lambda s: s.histogram("grade", where="sex = 'f'", epsilon=1),
}


@contextmanager
def recorded(rows: list[Row]):
    """Run queries with fixed answers in the place of noise, and keep the exact private sums."""
    kept: list[RowSum] = []

    def release(self: Releaser, ask: object, answer: RowSum) -> list[Noisy]:
        kept.append(answer)
        fixed = 5.0 if answer.weights.unit == 1 else 1.7
        return [Noisy(fixed, None)] * len(answer.totals)

    labels = mock.patch("missdp.knn.imputation.draw_labels", return_value=labels_of(rows))
    with mock.patch.object(Releaser, "release", release), labels:
        yield kept


def private_sums(rows: list[Row], k: int) -> tuple[list[RowSum], int]:
    with recorded(rows) as kept:
        knn = KNNImputation(impute=("income", "car"), match_on=("grade", "sex"), k=k)
        statistics = ImputedStatistics(as_table(rows), knn, budget=Budget(1000.0))
        for query in QUERIES.values():
            query(statistics)
        return kept, statistics._parts.releaser._ready().profile.exact(0)


@settings(max_examples=14, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables(6), st.integers(1, 3), st.randoms(use_true_random=False))
def test_true_change_is_within_the_first_bound(rows, k, chance) -> None:
    here, most = private_sums(rows, k)
    everyone = neighbours(rows)
    fewer = [other for other in everyone if 0 < len(other) < len(rows)]
    more = [other for other in everyone if len(other) > len(rows)]
    for other in fewer + chance.sample(more, 12):
        there, most_there = private_sums(other, k)
        for a, b in zip(here, there, strict=True):
            assert a.weights == b.weights
            change = np.abs(np.subtract(a.totals, b.totals)).astype(float)
            weights = a.weights
            reach = min(most, most_there)
            assert change.sum() <= weights.own + weights.donee * reach
            assert np.linalg.norm(change) <= weights.own + weights.donee_l2 * reach + 1e-9


def one_donor(k: int) -> list[Row]:
    donors = [Row(0, "f", 8, "yes", 2 + 2 * i) for i in range(k)]
    return [*donors, *(Row(0, "f", None, None, 20 + 2 * i) for i in range(4))]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_bound_is_attained(k: int) -> None:
    # Removing a donor moves every donee: neither a smaller weight nor a smaller M_0 would do.
    full, most = private_sums(one_donor(k), k)
    less, _ = private_sums(one_donor(k)[1:], k)
    assert most == 4
    names = ["count", "count fixed", "count imputed", "part", "whole", "part", "whole", "mean"]
    at = names.index("mean")
    change = abs(full[at].totals[0] - less[at].totals[0])
    weights = full[at].weights
    # The donor (8) is worth +1 after centring; each donee exchanges 8 for the default 4, out of
    # a range of 8: half of the donee weight.
    assert change == pytest.approx(weights.own + weights.donee * most / 2, rel=1e-4)


def split_circle(size: int) -> tuple[list[Row], list[Row]]:
    """Neighbours between which the published bound nearly doubles: two donors, and one of them."""
    donees = [Row(0, "f", None, "no", 10 + 2 * i) for i in range(size)]
    later = [Row(0, "f", None, "no", 10_010 + 2 * i) for i in range(size)]
    donors = [Row(0, "f", 8, "no", 9_000), Row(0, "f", 0, "no", 20_000)]
    return [*donees, *later, *donors], [*donees, *later, donors[0]]


def released_loss(
    log_density: Callable[[np.ndarray], np.ndarray],
    here: tuple[float, float],
    there: tuple[float, float],
) -> float:
    """Largest |log-ratio| of the released density, at values and noise scales of two tables."""
    far = np.geomspace(1e-6, 1e9, 3001)
    x = np.concatenate([here[0] + far, here[0] - far, there[0] + far, there[0] - far])
    laws = [log_density((x - q) / scale) - np.log(scale) for q, scale in (here, there)]
    return float(np.max(np.abs(laws[0] - laws[1])))


def count_and_bound(rows: list[Row], own: int, donee: int, beta: float) -> tuple[float, float]:
    knn = KNNImputation(impute=("income", "car"), match_on=("grade", "sex"))
    prepared = knn.prepare(as_table(rows), SeededNoise(0), labels=labels_of(rows))
    value = int((prepared.filled.values("income") > 4).sum())
    return value, smooth_bound(prepared.profile, own=own, donee=donee, beta=beta)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("size", [1, 50])
def test_audit_on_neighbouring_tables(epsilon: float, size: int) -> None:
    noise = plan_smooth(epsilon)
    answers = [count_and_bound(rows, 1, 1, noise.beta) for rows in split_circle(size)]
    (q, here), (r, there) = answers
    assert abs(q - r) == size

    def law(x: np.ndarray) -> np.ndarray:
        return -(int(noise.exponent) + 1) * np.log1p(np.abs(x))

    scales = [(q, here / noise.alpha), (r, there / noise.alpha)]
    assert released_loss(law, *scales) <= epsilon
    # With noise for the first table's local sensitivity alone, the audit fails.
    naive = [(q, 1.0 / noise.alpha), (r, 1.0 / noise.alpha)]
    assert size == 1 or released_loss(law, *naive) > epsilon


def test_audit_catches_the_published_mechanism_on_tables() -> None:
    answers = []
    for rows in split_circle(200):
        knn = KNNImputation(impute=("income", "car"), match_on=("grade", "sex"))
        prepared = knn.prepare(as_table(rows), SeededNoise(0), labels=labels_of(rows))
        value = int((prepared.filled.values("income") > 4).sum())
        answers.append((value, (1 + prepared.profile.exact(0)) / np.log(2)))
    assert answers[1][1] / answers[0][1] > 1.98

    def published(epsilon: float) -> float:
        gamma = 1 + epsilon / (2 * np.log(2))
        law = lambda x: -np.logaddexp(0, gamma * np.log(np.maximum(np.abs(x), 1e-300)))  # noqa: E731
        return released_loss(law, *answers)

    assert published(0.5) > 0.7
    assert published(4.0) <= 4.0


def test_a_mean_of_k_donors_divides_the_donee_weight() -> None:
    for k in (1, 2, 4):
        sums, _ = private_sums(one_donor(2), k)
        names = ["count", "count fixed", "count imputed", *["proportion"] * 2]
        centred = sums[len(names) + 2]
        assert centred.weights.donee == pytest.approx(2 * centred.weights.own / k, abs=2)


def test_rows_that_do_not_depend_on_others_need_no_donee_weight() -> None:
    rows = one_donor(1)
    with recorded(rows) as kept:
        statistics = ImputedStatistics(
            as_table(rows), CompleteRows(impute=("income",)), budget=Budget(1000.0)
        )
        for query in QUERIES.values():
            query(statistics)
    assert {answer.weights.donee for answer in kept} == {0}


@pytest.mark.parametrize("income", [0, 8])
def test_donees_that_leave_a_subpopulation_take_their_whole_value(income: int) -> None:
    # Two of three donors say yes; without one of them all donees, whose income is known, leave.
    donors = [Row(0, "f", income, car, 2 + 2 * i) for i, car in enumerate(("yes", "yes", "no"))]
    donees = [Row(0, "f", income, None, 20 + 2 * i) for i in range(30)]
    here, most = private_sums([*donors, *donees], 3)
    there, _ = private_sums([*donors[1:], *donees], 3)
    assert most == len(donees)
    left = 0
    for a, b in zip(here, there, strict=True):
        change = np.abs(np.subtract(a.totals, b.totals)).sum()
        assert change <= a.weights.own + a.weights.donee * most
        left += change > 25 * a.weights.own
    # The sum, and a count or moment, on a subpopulation that imputed values decide.
    assert left >= 4


def test_changes_of_squares_and_products_are_exact() -> None:
    limits, widths = (3.0, 2.0), (0.5, 1.0, 2.5, 3.5, 6.0)
    a, b = (np.linspace(-limit, limit, 121) for limit in limits)
    for width in widths:
        near = np.abs(a[:, None] - a[None, :]) <= width + 1e-9
        exact = np.abs(a[:, None] ** 2 - a[None, :] ** 2)[near].max()
        assert exact <= square_change(limits[0], width) + 1e-9
        assert square_change(limits[0], width) == pytest.approx(exact, rel=0.02)
        for other in widths:
            reach = _product_change(list(limits), [width, other], same=False)
            for x, y in ((limits[0], limits[1]), (limits[0], -limits[1])):
                moved = np.array([x - width, max(x - width, -limits[0])]).max()
                sign = np.sign(y)
                ahead = sign * max(abs(y) - other, -limits[1])
                assert abs(x * y - moved * ahead) <= reach + 1e-9
        near_b = np.abs(b[:, None] - b[None, :]) <= width + 1e-9
        most = max(
            np.abs(np.multiply.outer(a, [p]) - np.multiply.outer(a, [q])).max()
            for p, q in zip(*(b[i] for i in np.nonzero(near_b)), strict=True)
        )
        assert most <= _product_change(list(limits), [0.0, width], same=False) + 1e-9
