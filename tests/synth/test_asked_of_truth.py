"""What is asked for the ground truth is what a fit then guarantees."""

import pytest

from missdp import AIM, MST, AllPairs, Kamino, PrivBayes
from missdp.accounting import (
    BoundedObservation,
    MissingCompletelyAtRandom,
    RowIndependentMissingness,
)
from missdp.errors import ParameterError, UnprovenError
from missdp.ground_truth import epsilon_for_ground_truth, planned_ground_truth
from synth.tables import rows_of, schema_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning"),
    pytest.mark.usefixtures("one_turn"),
]

SCHEMA = schema_of(dict.fromkeys("abcde", 3))
KNOWN = MissingCompletelyAtRandom(dict.fromkeys("abcde", 0.7))
QUICK = {AIM: {"rounds": 3, "model_rows": 500}}


CASES = [
    (PrivBayes, {"delta": 0.0, "missing": "observed"}),
    (PrivBayes, {"delta": 1e-6, "missing": "complete-rows"}),
    (AIM, {"missing": "observed"}),
    (MST, {"missing": "complete-rows"}),
    (AllPairs, {"missing": "observed"}),
    (AIM, {"missing": "impute-first"}),
    (PrivBayes, {"delta": 0.0, "missing": "impute-first"}),
    (Kamino, {"missing": "observed", "heads": "sequential", "steps": 2}),
]


@pytest.mark.parametrize(("family", "options"), CASES)
def test_what_is_planned_is_what_a_fit_states(family, options):
    model = family(epsilon=0.9, **options, **QUICK.get(family, {}))
    planned = planned_ground_truth(model, SCHEMA, KNOWN).epsilon
    stated = model.fit(rows_of(SCHEMA, 3000, holes=0.3)).ground_truth_guarantee(KNOWN).epsilon
    assert stated == pytest.approx(planned, rel=1e-9)
    assert stated < 0.9


@pytest.mark.parametrize(("family", "options"), CASES[:1])
def test_the_guarantee_that_was_asked_for_is_found(family, options):
    found = epsilon_for_ground_truth(0.7, family(epsilon=9.0, **options), SCHEMA, KNOWN)
    planned = planned_ground_truth(family(epsilon=found, **options), SCHEMA, KNOWN).epsilon
    assert found > 0.75
    assert 0.699 < planned <= 0.7 * (1 + 1e-12)


NOTHING = BoundedObservation(0.0)


@pytest.mark.parametrize(
    ("family", "options", "assumption", "found"),
    [
        (AllPairs, {"missing": "joint"}, KNOWN, 0.7),
        (AIM, {"missing": "impute-first", "imputer": "pairs"}, KNOWN, 0.7),
        (MST, {"missing": "complete-rows"}, RowIndependentMissingness(), 0.7),
        (MST, {"missing": "complete-rows"}, BoundedObservation(1.0), 0.7),
        (PrivBayes, {"delta": 0.0, "missing": "complete-rows", "n_rows": 3000}, NOTHING, 64),
    ],
)
def test_where_nothing_is_amplified_it_is_the_same_and_what_is_never_read_has_a_limit(
    family, options, assumption, found
):
    model = family(epsilon=1.0, **options)
    asked = epsilon_for_ground_truth(0.7, model, SCHEMA, assumption)
    assert asked == pytest.approx(found, rel=1e-4)


def test_refusals():
    model = MST(epsilon=1.0, missing="observed")
    for wrong in ((1.0, MissingCompletelyAtRandom({"nosuch": 0.5})), (0.0, KNOWN), (65.0, KNOWN)):
        with pytest.raises(ParameterError):
            epsilon_for_ground_truth(wrong[0], model, SCHEMA, wrong[1])
    with pytest.raises(UnprovenError):
        epsilon_for_ground_truth(1.0, model, SCHEMA, None)


def test_the_synthesizer_stays_as_it_is():
    model = MST(epsilon=1.0, missing="observed").fit(rows_of(SCHEMA, 500))
    before = model.ground_truth_guarantee(KNOWN)
    planned_ground_truth(model, SCHEMA, MissingCompletelyAtRandom(dict.fromkeys("abcde", 0.9)))
    assert model.epsilon == 1.0
    assert model.ground_truth_guarantee(KNOWN) == before
