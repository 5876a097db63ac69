"""Independent columns stay independent in rows that are drawn, whatever a row counts."""

import numpy as np
import pytest

from missdp import AllPairs
from synth.independent import KINDS, SIZES, corrected_v, dependence_of, independent_table

pytestmark = [
    pytest.mark.filterwarnings("ignore::missdp.synth.noisy_counts.SmallTableWarning"),
    pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning"),
]
DRAWN, MEAN, LARGEST = 200_000, 0.015, 0.10


def drawn_dependence(kind, rows, seed):
    frame, schema = independent_table(kind, rows, seed)
    model = AllPairs(epsilon=1.0, delta=1e-6, random_state=seed).fit(frame, schema=schema)
    return dependence_of(model.sample(DRAWN, random_state=seed))


@pytest.mark.long
@pytest.mark.parametrize("rows", [300, 1300])
@pytest.mark.parametrize("kind", ["rows", "weights"])
def test_independent_columns_stay_so(kind, rows):
    found = drawn_dependence(kind, rows, 0)
    assert np.mean(list(found.values())) <= MEAN
    assert max(found.values()) <= LARGEST


@pytest.mark.slow
@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_independent_columns_stay_so_for_ten_seeds(kind, rows):
    means, largest = [], {}
    for seed in range(10):
        found = drawn_dependence(kind, rows, seed)
        means.append(np.mean(list(found.values())))
        largest[seed] = max(zip(found.values(), found, strict=True))
    assert max(means) <= MEAN, means
    assert max(largest.values())[0] <= LARGEST, largest


def test_corrected_v_is_that_of_the_law_and_0_by_chance():
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 5, (2, 20_000))
    assert corrected_v(one, other) < 0.02
    assert corrected_v(one[:60], other[:60]) < 0.2  # about .25 uncorrected
    assert corrected_v(one, one) == pytest.approx(1.0)
    mixed = np.where(rng.random(20_000) < 0.3, one, other)
    assert corrected_v(one, mixed) == pytest.approx(0.3, abs=0.02)


def test_independent_tables_have_chance_relations_alone():
    for kind in KINDS:
        frame, schema = independent_table(kind, 300, 1)
        found = dependence_of(frame[[attribute.name for attribute in schema]])
        assert len(found) == 45
        assert np.mean(list(found.values())) < 0.06
        assert (schema.weight is not None) == (kind in ("weights", "both"))
        assert (schema.unit is not None) == (kind in ("units", "both"))
