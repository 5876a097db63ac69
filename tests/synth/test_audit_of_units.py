"""Audits by unit bound the knowledge about all rows of one person from all answers of a fit.

The person's rows are spread over the table, some with missing cells, and are more than take part.
"""

from dataclasses import replace

import numpy as np
import pytest

from missdp import AIM, MST, AllPairs, Categorical, Numeric, Schema
from missdp.schema import Unit
from missdp.synth.family import budget_of_counts
from missdp.testing import (
    TINY,
    Claim,
    RecordingNoise,
    ReplayedNoise,
    audit,
    audit_synthesizer,
    canary,
    check_sensitivity,
    log_ratio,
)
from missdp.testing.claims import judge
from synth.test_units import BY_THE_ROW, EVERY_ROW, ILL, SEX, broken, visits
from synth.worked_example import Independent

pytestmark = [
    pytest.mark.usefixtures("one_turn"),
    pytest.mark.filterwarnings("ignore::missdp.synth.noisy_counts.SmallTableWarning"),
]
AGE = Numeric(name="ill", lower=0, upper=100, nullable=True)  # bins, and so a tree, are found
OLD = Categorical(name="old", levels=("no", "yes"), nullable=True)


class Histograms(Independent):
    # It asks for marginals, and for nothing else.
    family = replace(Independent.family, budget=budget_of_counts, protects_units=True)


# With mu near 2, few runs refute a wrong claim.
GAUSSIAN = {"epsilon": 11.0, "delta": 1e-6}
CASES = {
    "pairs": (AllPairs, (SEX, ILL), GAUSSIAN),
    "trees": (AllPairs, (SEX, AGE), GAUSSIAN),
    "histograms": (Histograms, (SEX, ILL), {"epsilon": 3.0, "delta": 0.0}),
    "aim": (AIM, (SEX, ILL), GAUSSIAN),
    "mst": (MST, (SEX, ILL), GAUSSIAN),
}

CHOOSING = {case: (CASES[case][0], (SEX, ILL, OLD), CASES[case][2]) for case in ("aim", "mst")}
MIN_DIVISOR = (
    0.9,
    0.8,
)  # Shares of the claim. Selections of marginals cost more than their scores show.


def neighbours(case, most, *, holes=False, part=1.0, cases=CASES, **more):
    """Return a fit and two tables, the second with one unit more, of alike rows."""
    family, columns, given = cases[case]
    given = given | {"epsilon": part * given["epsilon"]} | more
    schema = Schema(columns, unit=Unit("person", max_rows=most))
    crowd = {"rows": 300, "each": min(most, 3)}
    tables = visits(**crowd), visits(**crowd, more=3 * most + 4, holes=holes)
    if case == "trees":
        cells = {"no": 20.0, "yes": 90.0}
        tables = tuple(table.assign(ill=table["ill"].map(cells)) for table in tables)

    if OLD in columns:
        tables = tuple(table.assign(old=table["ill"]) for table in tables)

    def fit(frame):
        return family(random_state=0, **given).fit(frame, schema=schema)

    return fit, tables


def audited(case, most, *, trials, scale=1.0, **facts):
    fit, tables = neighbours(case, most, **facts)
    claim = Claim.of(fit(tables[0]).guarantee_)
    return audit(fit, *tables, claim=claim, trials=trials, scale=scale)


def along_one_path(case, most, *, draws, scale=1.0):
    """Return an audit of all noise of one fit, drawn many times, with fixed queries.

    A fit consists of the answers of its session and of post-processing. So one run is kept and
    repeated on the other table. This gives the exact value behind each answer, on both tables. Then
    only noise is drawn, from the distributions of the answers, and judged by its likelihood ratio.
    These draws are cheap. Their number suffices to distinguish nine tenths of a claim from the
    whole claim.
    """
    # A mu near 1.2: noise is then so large that it matters little that it is of whole numbers.
    facts = {"delta": 1e-6, "epsilon": 6.0, "cases": CASES | CHOOSING}
    fit, (without, beside) = neighbours(case, most, **facts)
    with RecordingNoise(0) as kept:
        claim = Claim.of(fit(without).guarantee_)
    with ReplayedNoise(kept) as again:
        fit(beside)
    noise = RecordingNoise(1, scale=scale)
    pairs = [
        (a.mechanism, b.exact, a.exact) for a, b in zip(kept.answers, again.answers, strict=True)
    ]

    def ratios(side):
        return sum(log_ratio(law, noise.drawn(law, both[side]), *both) for law, *both in pairs)

    return judge(*(np.array([ratios(side) for _ in range(draws)]) for side in (0, 1)), claim)


@pytest.mark.long
def test_a_charge_by_the_row_is_flagged(monkeypatch):
    with broken(monkeypatch, BY_THE_ROW):
        assert audited("histograms", 10, trials=40, part=0.3).flagged


@pytest.mark.long
@pytest.mark.parametrize(
    "case", ["pairs", *(pytest.param(c, marks=pytest.mark.slow) for c in ("trees", "aim", "mst"))]
)
def test_the_claim_on_units_survives_and_what_is_wrong_does_not(case, monkeypatch):
    few = {"trials": 24, "part": 0.3}  # a mu near 0.7, which few runs refute if it is much more
    found = audited(case, 3, **few)
    assert not found.flagged
    assert not found.blind
    assert audited(case, 3, **few, scale=0.1).flagged
    with broken(monkeypatch, EVERY_ROW):
        assert audited(case, 3, **few).flagged


QUICK = [("pairs", 3), ("histograms", 10)]
ALL = [(case, most) for case in CASES for most in (1, 3, 10)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "most"), [p if p in QUICK else pytest.param(*p, marks=pytest.mark.slow) for p in ALL]
)
def test_noise_of_a_fit_tells_of_a_unit_what_is_claimed_and_hardly_less(case, most, monkeypatch):
    quick = (case, most) in QUICK
    found = along_one_path(case, most, draws=1500 if quick else 6000)
    assert not found.flagged
    assert found.ratio >= MIN_DIVISOR[case in CHOOSING]
    assert along_one_path(case, most, draws=1000 if quick else 3000, scale=0.7).flagged
    for wrong in (EVERY_ROW, BY_THE_ROW)[: 2 if most > 1 else 1]:
        with broken(monkeypatch, wrong):
            assert along_one_path(case, most, draws=300).flagged


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_audits_come_near_the_claim_on_units(case):
    found = audited(case, 3, trials=400)
    assert not found.flagged
    assert found.ratio >= 0.7
    assert not audited(case, 3, trials=100, holes=True).flagged
    if case != "histograms":  # pure epsilon is worth less than the mu that is claimed for it
        assert audited(case, 3, trials=400, scale=0.7).flagged


def of_persons(most):
    return Schema(TINY.attributes, unit=Unit("person", max_rows=most))


@pytest.mark.long
def test_the_kit_draws_neighbours_by_unit(monkeypatch):
    schema = of_persons(2)
    crowd, more = canary(schema, 12)
    assert (len(crowd), len(more), more.schema.unit) == (12, 14, schema.unit)
    found = audit_synthesizer(MST, strategies=["observed"], tables=(crowd, more), trials=20)
    assert not found["observed"].flagged
    for family in (AllPairs, MST):
        facts = {"strategies": ["joint", "observed"], "schema": schema, "trials": 6}
        assert check_sensitivity(family, **facts).passed
        with broken(monkeypatch, EVERY_ROW), pytest.raises(AssertionError, match="one row moves"):
            check_sensitivity(family, **facts)
