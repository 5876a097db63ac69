"""Scores that are not worked out again are those that would be."""

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Schema, Table
from missdp.inference.estimate import Estimate
from missdp.synth import AIM
from missdp.synth import learn_graphical as learning
from missdp.synth.learn_graphical import Expectations

D = 12


def rows(n, *, holes, seed=0):
    """Rows in groups of four attributes that depend on each other."""
    rng = np.random.default_rng(seed)
    columns = {}
    for a in range(D):
        if a % 4 == 0:
            group = rng.integers(0, 3, n)
        columns[f"a{a}"] = np.where(rng.random(n) < 0.5, group, rng.integers(0, 3, n)).astype(str)
    frame = pd.DataFrame(columns)
    if holes:
        frame = frame.mask(rng.random(frame.shape) < 0.2)
        frame["a1"] = frame["a1"].mask((frame["a0"] == "1") & (rng.random(n) < 0.6))
    return Table.read(
        frame,
        Schema(tuple(Categorical(name=k, levels=tuple("012"), nullable=holes) for k in columns)),
    )


class Fresh(Expectations):
    """Keeps nothing from round to round."""

    def renew(self, estimate, *, error, epsilon):
        self._kept.clear()
        self._cells = 0
        super().renew(estimate, error=error, epsilon=epsilon)


class Compared(Expectations):
    """Says how many expectations were kept, and how far off they are, in units of the noise."""

    kept = 0
    asked = 0

    def of(self, clique, estimate):
        type(self).asked += 1
        old = clique in self._kept
        type(self).kept += old
        expected, possible, bias, weight = facts = super().of(clique, estimate)
        if old:
            now = estimate.predict(clique)
            assert np.abs(now - expected).sum() <= 0.5 * self.noise
            assert np.array_equal(possible, estimate.possible(clique))
            assert bias == pytest.approx(self._error * possible.sum())
            assert weight == self._weights[clique]
        return facts

    def renew(self, estimate, *, error, epsilon):
        self.noise = 2 / epsilon
        super().renew(estimate, error=error, epsilon=epsilon)


def test_what_is_kept_is_what_the_model_expects(monkeypatch):
    monkeypatch.setattr(learning, "Expectations", Compared)
    Compared.kept = Compared.asked = 0
    AIM(epsilon=3.0, delta=1e-6, random_state=0, rounds=12).fit(rows(2000, holes=True))
    assert Compared.kept > 0.05 * Compared.asked


def test_the_same_marginals_are_selected(monkeypatch):
    private = rows(5000, holes=True)
    ours = AIM(epsilon=4.0, delta=1e-6, random_state=3, rounds=12).fit(private)
    monkeypatch.setattr(learning, "Expectations", Fresh)
    afresh = AIM(epsilon=4.0, delta=1e-6, random_state=3, rounds=12).fit(private)
    assert ours.measured_[:8] == afresh.measured_[:8]


def test_no_more_is_kept_than_fits(monkeypatch):
    monkeypatch.setattr("missdp.synth.learn_graphical._CELLS", 90)
    monkeypatch.setattr(learning, "Expectations", Small)
    Small.most = 0
    AIM(epsilon=1.0, delta=1e-6, random_state=0, rounds=6).fit(rows(2000, holes=False))
    assert 0 < Small.most <= 90


class Small(Expectations):
    """Notes how many cells are kept."""

    most = 0

    def of(self, clique, estimate: Estimate):
        facts = super().of(clique, estimate)
        cells = sum(kept[0].size for kept in self._kept.values())
        assert cells == self._cells
        type(self).most = max(self.most, cells)
        return facts
