"""What is behind every answer moves between neighbours by at most what was charged for."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from knn_oracles import Row, as_table, labels_of, neighbours, tables
from knn_witness import Behind, Recorder, filled, moves_too_far, prepared, questions

from missdp.accounting import ApproximateEvent, Budget, Guarantee, PureEvent
from missdp.mechanisms import Counts, Noise, Sums
from missdp.mechanisms.smooth import plan_smooth
from missdp.mechanisms.smooth_laws import SmoothLaw
from missdp.statistics import (
    CappedKNN,
    CompleteRows,
    ImputedStatistics,
    KNNImputation,
    ReleasedModel,
    ScaleRelease,
)
from missdp.statistics.answers import _product_change, square_change
from missdp.statistics.donors import Profile
from missdp.statistics.parts import Parts

FILLED = {"impute": ("income", "car"), "match_on": ("grade", "sex")}
IMPUTATIONS: dict[str, Any] = {
    "nearest": KNNImputation(**FILLED),
    "two": KNNImputation(**FILLED, k=2),
    "three": KNNImputation(**FILLED, k=3),
    "group": KNNImputation(impute=("income", "car"), match_on="grade", group="sex"),
    "blocks": KNNImputation(**FILLED, partition={"grade": 2}),
    "capped": CappedKNN(knn=KNNImputation(**FILLED), max_donees=8),  # more than there are rows
    "complete": CompleteRows(impute=("income", "car")),
    "model": ReleasedModel(**FILLED, enough=0.5),
}
WAYS: dict[str, dict[str, Any]] = {
    "epsilon": {"cost": {"epsilon": 1.0}},
    "error bars": {"cost": {"epsilon": 1.0}, "scale": ScaleRelease(epsilon=0.5)},
    "rho": {"cost": {"rho": 0.5}},
    "gaussian": {"cost": {"rho": 0.05}, "scale": ScaleRelease(rho=0.5, delta=1e-6)},
}


PROMISE = Guarantee.from_events([PureEvent(epsilon=1.0)])


def behind(rows: list[Row], imputation: Any, way: str = "epsilon") -> list[Behind]:
    """What is behind all answers to all questions, with answers that do not depend on it."""
    how = dict(WAYS[way])
    cost, recorder = how.pop("cost"), Recorder(labels_of(rows))
    budget = Budget(1e4, 1e-3) if "rho" in cost else Budget(1e5)
    asked = ImputedStatistics(
        as_table(rows), imputation, budget=budget, random_state=recorder, **how
    )
    # What a guarantee says is tested elsewhere, and takes long to compute.
    asked._parts.door.__dict__["guarantee"] = lambda *asks: PROMISE
    for question in questions().values():
        question(asked, **cost)
    charged = [event for event in budget.events if not isinstance(event, ApproximateEvent)]
    assert charged == [answer.event for answer in recorder.kept]
    return recorder.kept


anything = given(
    tables(6),
    st.sampled_from(sorted(IMPUTATIONS)),
    st.sampled_from(sorted(WAYS)),
    st.randoms(use_true_random=False),
)
QUICK = settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)  # fmt: skip


def check_neighbours(rows: list[Row], name: str, way: str, chance: Any, each: int) -> None:
    here = behind(rows, IMPUTATIONS[name], way)
    everyone = neighbours(rows)
    fewer = [other for other in everyone if len(other) < len(rows)]
    more = [other for other in everyone if len(other) > len(rows)]
    with_holes = [other for other in more if not other[-1].complete or other[-1].grade is None]
    for some in (fewer, more, with_holes):
        for other in chance.sample(some, min(each, len(some))):
            there = behind(other, IMPUTATIONS[name], way)
            for a, b in zip(here, there, strict=True):
                assert not moves_too_far(a, b), a.event.label


@QUICK
@anything
def test_what_is_behind_an_answer_moves_no_further_than_was_charged_for(rows, name, way, chance):
    check_neighbours(rows, name, way, chance, 1)


@pytest.mark.slow
@settings(QUICK, max_examples=60)
@anything
def test_what_is_behind_many_answers_moves_no_further(rows, name, way, chance):
    check_neighbours(rows, name, way, chance, 4)


def one_donor(k: int) -> list[Row]:
    donors = [Row(0, "f", 8, "yes", 2 + 2 * i) for i in range(k)]
    return [*donors, *(Row(0, "f", None, None, 20 + 2 * i) for i in range(4))]


def labelled(label: str, kept: list[Behind]) -> Behind:
    return next(answer for answer in kept if answer.event.label == label)


def most_donees(rows: list[Row], k: int) -> int:
    knn = KNNImputation(**FILLED, k=k)
    return prepared(knn, as_table(rows), labels_of(rows)).profile.most()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_bound_is_attained(k: int) -> None:
    # Removing a donor moves every donee: neither a smaller weight nor a smaller M_0 would do.
    knn = KNNImputation(**FILLED, k=k)
    full, less = (
        labelled("centred sum of income", behind(rows, knn))
        for rows in (one_donor(k), one_donor(k)[1:])
    )
    assert most_donees(one_donor(k), k) == 4
    change = abs(full.totals[0] - less.totals[0])
    # The donor (8) is worth +1 after centring; each donee exchanges 8 for the default 4, out of
    # a range of 8: half of the donee weight.
    assert change == pytest.approx(full.law.own + full.law.donee * 4 / 2, rel=1e-4)


LEAVING = [
    *(Row(0, "f", 8, car, 2 + 2 * i) for i, car in enumerate(("yes", "yes", "no"))),
    *(Row(0, "f", 8, None, 20 + 2 * i) for i in range(12)),
]
PAIRS = [
    (one_donor(3), one_donor(3)[1:]),
    (LEAVING, LEAVING[1:]),
]


def caught(ways: tuple[str, ...] = ("epsilon",)) -> set[str]:
    """Labels of the answers that move further than they should, on pairs that move far."""
    found = set()
    for way, (rows, other) in itertools.product(ways, PAIRS):
        pair = (behind(table, IMPUTATIONS["three"], way) for table in (rows, other))
        for a, b in zip(*pair, strict=True):
            if moves_too_far(a, b):
                found.add(a.event.label)
    return found


def test_pairs_that_move_far_move_within_the_bounds() -> None:
    assert caught(("epsilon", "rho", "error bars")) == set()


MUTANTS: dict[str, tuple[Any, str, Any, str]] = {
    "donees of counts": (Counts, "donee", property(lambda self: 0), "count"),
    "donees of sums": (Sums, "donee", property(lambda self: 0), "centred sum of income"),
    "rows of sums": (Sums, "own", property(lambda self: 1), "sum of income"),
    "leaving": (Parts, "change", lambda self, name, *_: self.moved(name), "centred sum of income"),
    "moving": (Parts, "moved", lambda self, name: 0.0, "squares of income"),
    "bound": (Profile, "smooth_bound", lambda self, *, own, donee, beta: own + donee, "count"),
    "profile": (Profile, "_sweep", lambda self, j: 0, "count"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_bound_is_caught(name, monkeypatch) -> None:
    owner, attribute, wrong, label = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, wrong)
    assert label in caught()


def test_a_row_that_is_counted_twice_is_caught(monkeypatch) -> None:
    def twice(self, found, size):
        return [2 * np.count_nonzero(found)] if self.cells == 1 else [0] * self.cells

    monkeypatch.setattr(Counts, "_totals", twice)
    assert {"count", "rows"} <= caught()


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
    found = prepared(knn, as_table(rows), labels_of(rows))
    value = int((filled(knn, as_table(rows), labels_of(rows))["income"] > 4).sum())
    return value, found.profile.smooth_bound(own=own, donee=donee, beta=beta)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("size", [1, 50])
def test_audit_on_neighbouring_tables(epsilon: float, size: int) -> None:
    noise = plan_smooth(epsilon)
    answers = [count_and_bound(rows, 1, 1, noise.beta) for rows in split_circle(size)]
    (q, here), (r, there) = answers
    assert abs(q - r) == size

    def law(x: np.ndarray) -> np.ndarray:
        return -(noise.shape + 1) * np.log1p(np.abs(x))

    scales = [(q, here / noise.alpha), (r, there / noise.alpha)]
    assert released_loss(law, *scales) <= epsilon
    # With noise for the first table's local sensitivity alone, the audit fails.
    naive = [(q, 1.0 / noise.alpha), (r, 1.0 / noise.alpha)]
    assert size == 1 or released_loss(law, *naive) > epsilon


def test_audit_catches_the_published_mechanism_on_tables() -> None:
    answers = []
    for rows in split_circle(200):
        knn = KNNImputation(impute=("income", "car"), match_on=("grade", "sex"))
        found = prepared(knn, as_table(rows), labels_of(rows))
        value = int((filled(knn, as_table(rows), labels_of(rows))["income"] > 4).sum())
        answers.append((value, (1 + found.profile.exact(0)) / np.log(2)))
    assert answers[1][1] / answers[0][1] > 1.98

    def published(epsilon: float) -> float:
        gamma = 1 + epsilon / (2 * np.log(2))
        law = lambda x: -np.logaddexp(0, gamma * np.log(np.maximum(np.abs(x), 1e-300)))  # noqa: E731
        return released_loss(law, *answers)

    assert published(0.5) > 0.7
    assert published(4.0) <= 4.0


def test_a_mean_of_k_donors_divides_the_donee_weight() -> None:
    for k in (1, 2, 4):
        centred = labelled(
            "centred sum of income", behind(one_donor(2), KNNImputation(**FILLED, k=k))
        )
        assert centred.law.donee == pytest.approx(2 * centred.law.own / k, abs=2)


@pytest.mark.parametrize("name", ["complete", "model"])
def test_rows_that_do_not_depend_on_others_get_plain_noise(name) -> None:
    for answer in behind(one_donor(1), IMPUTATIONS[name]):
        assert isinstance(answer.law, Noise)
        assert answer.event.sensitivity in (1, 1 << 20)


@pytest.mark.parametrize("income", [0, 8])
def test_donees_that_leave_a_subpopulation_take_their_whole_value(income: int) -> None:
    # Two of three donors say yes; without one of them all donees, whose income is known, leave.
    donors = [Row(0, "f", income, car, 2 + 2 * i) for i, car in enumerate(("yes", "yes", "no"))]
    donees = [Row(0, "f", income, None, 20 + 2 * i) for i in range(30)]
    three = KNNImputation(**FILLED, k=3)
    here = behind([*donors, *donees], three)
    there = behind([*donors[1:], *donees], three)
    assert most_donees([*donors, *donees], 3) == len(donees)
    # The counts and moments on a subpopulation that imputed values decide.
    left = [
        a.event.label
        for a, b in zip(here, there, strict=True)
        if isinstance(a.law, SmoothLaw) and np.abs(a.totals - b.totals).sum() > 25 * a.law.own
    ]
    assert len(left) >= 4


def test_moments_of_known_values_move_with_donees_that_leave_a_subpopulation() -> None:
    """No value is filled, only who belongs: a donee takes its whole square with it."""
    who = KNNImputation(impute="car", match_on=("grade", "sex"), k=3)
    here, there = (behind(rows, who) for rows in (LEAVING, LEAVING[1:]))
    moved = {
        a.event.label
        for a, b in zip(here, there, strict=True)
        if isinstance(a.law, SmoothLaw) and np.abs(a.totals - b.totals).sum() > 2 * a.law.own
    }
    assert "squares of income" in moved
    for a, b in zip(here, there, strict=True):
        assert not moves_too_far(a, b), a.event.label


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
