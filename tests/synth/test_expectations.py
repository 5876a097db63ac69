"""Scores that are not worked out again are those that would be."""

import numpy as np
import pytest

from missdp.inference.estimate import Estimate
from missdp.synth import AIM
from missdp.synth import learn_graphical as learning
from missdp.synth.learn_graphical import _Expectations
from synth.tables import rows_of, schema_of


def rows(n, *, holes):
    """Attributes that depend on each other, and one that goes missing by another."""
    names = [f"a{i}" for i in range(12)]
    return rows_of(schema_of(dict.fromkeys(names, 3), holes), n, common=0.6)


class Compared(_Expectations):
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
    monkeypatch.setattr(learning, "_Expectations", Compared)
    Compared.kept = Compared.asked = 0
    AIM(epsilon=3.0, delta=1e-6, random_state=0, rounds=12).fit(rows(2000, holes=True))
    assert Compared.kept > 0.05 * Compared.asked


def test_no_more_is_kept_than_fits(monkeypatch):
    monkeypatch.setattr("missdp.synth.learn_graphical._CELLS", 90)
    monkeypatch.setattr(learning, "_Expectations", Small)
    Small.most = 0
    AIM(epsilon=1.0, delta=1e-6, random_state=0, rounds=6).fit(rows(2000, holes=False))
    assert 0 < Small.most <= 90


class Small(_Expectations):
    """Notes how many cells are kept."""

    most = 0

    def of(self, clique, estimate: Estimate):
        facts = super().of(clique, estimate)
        cells = sum(kept[0].size for kept in self._kept.values())
        assert cells == self._cells
        type(self).most = max(self.most, cells)
        return facts
