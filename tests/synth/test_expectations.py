"""Scores that are not worked out again are those that would be."""

import numpy as np
import pytest

from missdp.synth import AIM
from missdp.synth import learn_graphical as learning
from missdp.synth.learn_graphical import _Expectations
from synth.tables import rows_of, schema_of


def rows(n, *, holes):
    """Attributes that depend on each other, and one that goes missing by another."""
    names = [f"a{i}" for i in range(12)]
    return rows_of(schema_of(dict.fromkeys(names, 3), holes), n, common=0.6)


class Watched(_Expectations):
    """Counts what was kept, and how many cells; compares what is kept with what would be found."""

    asked = kept = most = 0

    def of(self, clique, estimate):
        kind, old = type(self), clique in self._kept
        expected, possible, bias, weight = facts = super().of(clique, estimate)
        cells = sum(kept[0].size for kept in self._kept.values())
        assert cells == self._cells
        kind.asked, kind.kept, kind.most = kind.asked + 1, kind.kept + old, max(kind.most, cells)
        if old:
            now = estimate.predict(clique)
            assert np.abs(now - expected).sum() <= 0.5 * self.noise  # half a unit of the noise
            assert np.array_equal(possible, estimate.possible(clique))
            assert bias == pytest.approx(self._error * possible.sum())
            assert weight == self._weights[clique]
        return facts

    def renew(self, estimate, *, error, epsilon):
        self.noise = 2 / epsilon
        super().renew(estimate, error=error, epsilon=epsilon)


@pytest.mark.parametrize(("most", "epsilon", "rounds"), [(10**9, 3.0, 12), (90, 1.0, 6)])
def test_what_is_kept_is_what_the_model_expects_and_no_more_than_fits(
    most, epsilon, rounds, monkeypatch
):
    monkeypatch.setattr(learning, "_CELLS", most)
    monkeypatch.setattr(learning, "_Expectations", Watched)
    Watched.asked = Watched.kept = Watched.most = 0
    private = rows(2000, holes=most > 90)
    AIM(epsilon=epsilon, delta=1e-6, random_state=0, rounds=rounds).fit(private)
    assert 0 < Watched.most <= most
    assert most == 90 or Watched.kept > 0.05 * Watched.asked
