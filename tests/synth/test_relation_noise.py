"""One line warns when noise hides most relations between columns.

Independent columns are no reason for the warning.
"""

import math
import re

import numpy as np
import pandas as pd
import pytest

from missdp import MST, AllPairs, Categorical, Schema, load
from missdp.inference.completion import PairTables
from missdp.schema import SurveyWeight, Unit
from missdp.synth import SmallTableWarning
from missdp.synth.relation_noise import MOSTLY_NOISE, PairNoise, enough_epsilon, mostly_noise
from missdp.synth.relations import mostly_noise_of

pytestmark = [
    pytest.mark.usefixtures("one_turn"),
    pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning"),
]
COLUMNS = tuple(Categorical(name=f"c{i}", levels=tuple("abcdefgh")) for i in range(8))


def independent(rows, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({a.name: rng.choice([*a.levels], rows) for a in COLUMNS})


def related(rows, seed=0):
    """Columns of which each is that before it, three times in four."""
    frame, rng = independent(rows, seed), np.random.default_rng(seed + 1)
    for one, other in zip(frame.columns, frame.columns[1:], strict=False):
        frame[other] = frame[other].where(rng.random(rows) < 0.25, frame[one])
    return frame


def test_clear_strength_of_even_tables_is_that_of_the_formula():
    noise = PairNoise.of_counts([(8, 8), (8, 8), (2, 3)], 10.0, 1000.0)
    variance = 64 * 0.01**2 + 1 / 1000
    assert noise.clear == pytest.approx(math.sqrt(3 * variance * math.sqrt(2 * 49) / 7))
    assert noise.larger(1e-9).clear == pytest.approx(math.sqrt(3e-3 * math.sqrt(2 * 49) / 7))


def test_clear_v_stands_out_by_three_sd():
    """The sum of squares of coefficients, of independent and of related columns."""
    rng, noise = np.random.default_rng(0), PairNoise.of_counts([(5, 5)], 4.0, 1e6)
    std = 5 * 4e-6
    apart, related = 1.0 * np.zeros(16), np.full(16, noise.clear * math.sqrt(4 / 16))
    squares = [
        np.square(true + rng.normal(0, math.hypot(std, 1e-3), (20_000, 16))).sum(axis=1)
        for true in (apart, related)
    ]
    gap = (squares[1].mean() - squares[0].mean()) / squares[0].std()
    assert gap == pytest.approx(3.0, abs=0.1)


def test_noise_of_rare_levels_does_not_hide_common_ones():
    margins = np.array([0.4995, 0.4995, 0.001])
    even = np.full(3, 1 / 3)

    def clear(margin):
        cells = np.full((3, 3), 1e-6)
        return PairNoise.of_tables(
            PairTables((3, 3), (margin, margin), {(0, 1): cells}, {(0, 1): cells}, 1e5)
        ).clear

    assert clear(margins) < 1.5 * clear(even)


def test_missing_values_leave_fewer_rows_to_stand_out():
    cells = np.full((2, 2), 1e-6)
    whole, half = np.full(2, 0.5), np.full(2, 0.25)
    clears = [
        PairNoise.of_tables(
            PairTables((2, 2), (one, one), {(0, 1): cells}, {(0, 1): cells}, 1e5)
        ).clear
        for one in (whole, half)
    ]
    wanted = math.sqrt((1e-6 / 0.25**3 + 4e-5) / (1e-6 / 0.25 + 1e-5))
    assert clears[1] / clears[0] == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("make", "rows", "noisy"),
    [(independent, 600, True), (independent, 20_000, False), (related, 600, True)],
)
def test_all_pairs_warns_by_noise_and_not_by_independence(make, rows, noisy):
    model = AllPairs(epsilon=1.0, delta=1e-6, random_state=0)
    model.fit(make(rows), schema=Schema(COLUMNS))
    assert (mostly_noise_of(model) is not None) == noisy


def test_fit_warns_once_with_number_and_remedies():
    model = AllPairs(epsilon=0.8, delta=1e-6, random_state=0)
    with pytest.warns(SmallTableWarning, match=MOSTLY_NOISE) as caught:
        model.fit(related(1500), schema=Schema(COLUMNS))
    (said,) = (str(one.message) for one in caught)
    assert re.fullmatch(
        rf"About {0.8 * model.n_rows_:,.0f} effective rows × epsilon: most relations between "
        r"columns are noise\. In the median pair a relation exceeds the noise only if its "
        r"Cramér's V is above 0\.\d\d\. Use fewer columns, a larger epsilon \(about [\d.]+\), or "
        r"AIM \(--method aim\)\.",
        said,
    )


def test_saved_model_says_the_same_as_its_fit(tmp_path):
    model = MST(epsilon=0.3, delta=1e-6, random_state=0).fit(related(600), schema=Schema(COLUMNS))
    model.save(tmp_path / "m.json")
    assert mostly_noise_of(load(tmp_path / "m.json")) == mostly_noise_of(model)
    assert "AIM" not in mostly_noise_of(model)


def test_units_and_weights_are_counted_and_are_remedies():
    people = related(4000).assign(id=np.arange(4000) // 2, w=1.0)
    whose = {"unit": Unit("id", max_rows=2), "weight": SurveyWeight("w", upper=4.0)}
    model = AllPairs(epsilon=1.0, delta=1e-6, random_state=0)
    said = mostly_noise_of(model.fit(people, schema=Schema(COLUMNS, **whose)))
    effective = float(re.match(r"About ([\d,]+) effective rows", said)[1].replace(",", ""))
    assert effective == pytest.approx(4000 / 4 / 2, abs=150)
    assert "a smaller weight upper bound, a smaller max_rows, or AIM (--method aim)." in said


def test_table_of_two_columns_is_not_to_have_fewer():
    said = mostly_noise_of(
        MST(epsilon=0.3, delta=1e-6, random_state=0).fit(
            related(600)[["c0", "c1"]], schema=Schema(COLUMNS[:2])
        )
    )
    assert re.search(r"Use a larger epsilon( \(about [\d.]+\))?\.$", said)


def test_line_is_absent_up_to_a_moderate_strength():
    assert mostly_noise(0.3, effective=100.0, remedies=["a"]) is None
    assert "however strong it is" in mostly_noise(1.2, effective=100.0, remedies=["a"])


def test_enough_epsilon_is_none_if_rows_alone_are_too_few():
    assert enough_epsilon(PairNoise.of_counts([(8, 8)], 1.0, 20.0), 1.0) is None


@pytest.mark.long
def test_more_rows_are_the_remedy_if_no_epsilon_helps():
    levels = tuple("abcdefgh")
    schema = Schema(tuple(Categorical(name=f"c{k}", levels=levels) for k in range(3)))
    rows = np.random.default_rng(0).choice(levels, (40, 3))
    frame = pd.DataFrame(rows, columns=list(schema.names))
    said = mostly_noise_of(
        AllPairs(epsilon=9.0, delta=1e-3, random_state=0).fit(frame, schema=schema)
    )
    assert "more rows" in said
    assert "larger epsilon" not in said
