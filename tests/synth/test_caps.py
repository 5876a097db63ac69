"""Caps of the parts of a fit: known beforehand, kept by every fit, and base of guarantees."""

import json
import math
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from missdp import AIM, MST, AllPairs, Kamino, PrivBayes
from missdp.accounting import (
    BoundedObservation,
    Cost,
    FixedSchedule,
    GaussianEvent,
    Guarantee,
    MissingCompletelyAtRandom,
    SelectionEvent,
    epsilon_of,
    releases,
)
from missdp.errors import BudgetExceededError, DataError
from missdp.ground_truth import (
    ChosenRequirements,
    FixedRequirements,
    ground_truth_guarantee,
    planned_ground_truth,
)
from missdp.ground_truth.replicas import _chosen_curve, chosen_costs
from missdp.schema import NotApplicable
from missdp.serialization import seal, unseal
from missdp.session import Marginal, Noise
from missdp.synth import adaptive, fitting, shared_steps
from missdp.synth.adaptive import AdaptiveFit
from missdp.synth.family import Request
from missdp.synth.split import CHOICES, MASKS, BudgetPlan, Spending, ground_truth_parts
from refusing import refuses
from synth.tables import chosen_caps, rows_of, schema_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning"),
    pytest.mark.usefixtures("one_turn"),
]

SEVEN = schema_of(dict.fromkeys("abcdefg", 3))
QUICK = {AIM: {"rounds": 5}}


def fitted(family, missing, schema=SEVEN, n=2000, seed=0, dependent=True, **options):
    options = {"epsilon": 1.0, "delta": 1e-6, **QUICK.get(family, {}), **options}
    return family(missing=missing, **options).fit(rows_of(schema, n, seed, common=0.8 * dependent))


@cache
def known(family, missing, **options):
    """The same, fitted once for all tests that do not change it."""
    return fitted(family, missing, **options)


def rates(p, schema=SEVEN):
    return MissingCompletelyAtRandom(dict.fromkeys(schema.nullable, p))


COMPLETE = [(family, "complete-rows") for family in (AIM, MST, AllPairs, Kamino, PrivBayes)]


@pytest.mark.long
@pytest.mark.parametrize(("family", "missing"), [*COMPLETE, (AIM, "observed"), (MST, "observed")])
def test_complete_rows_and_marginals_that_were_chosen_are_amplified(family, missing):
    model = known(family, missing)
    caps = model.fitted_.limits
    found = {p: model.ground_truth_guarantee(rates(p)) for p in (1.0, 0.95, 0.8, 0.5)}
    values = [guarantee.epsilon for guarantee in found.values()]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(1.0)
    assert FixedSchedule() not in found[0.8].conditions
    assert Guarantee.from_json(found[0.8].to_json()) == found[0.8]
    if missing == "observed":
        assert epsilon_of(caps.events, 1e-6) == pytest.approx(1.0, rel=1e-9)
        assert values[-1] < 0.65
        assert any(isinstance(c, ChosenRequirements) for c in found[0.5].conditions)
        return
    assert caps.structure == FixedRequirements()
    most = math.log1p(0.95**7 * math.expm1(1.0))
    assert 0.8 * most < found[0.95].epsilon < most + 0.02  # the number of rows is not behind
    assert found[0.8].epsilon < 0.55
    bounded = model.ground_truth_guarantee(BoundedObservation(0.8**7))
    assert bounded.epsilon == pytest.approx(found[0.8].epsilon, rel=1e-6)


@pytest.mark.parametrize(
    ("family", "holed"),
    [
        *((family, "abcdefg") for family in (AIM, AllPairs, PrivBayes)),
        *((family, "abc") for family in (AllPairs, PrivBayes)),
        pytest.param(MST, "abcdefg", marks=pytest.mark.slow),  # chooses as AIM does
        *(pytest.param(Kamino, h, marks=pytest.mark.slow) for h in ("abc", "abcdefg")),
    ],
)
def test_nothing_that_was_released_decides_the_figure(family, holed):
    """Other rows, other noise, other sets, pairs measured or not: the same guarantee."""
    schema, found = schema_of(dict.fromkeys("abcdefg", 3), holed), []
    for seed, (n, dependent) in enumerate([(300, True), (4000, False)]):
        model = fitted(family, "observed", schema, n=n, seed=seed, dependent=dependent)
        assert model.fitted_.limits.cover(model.guarantee_.events[0])
        found.append([model.ground_truth_guarantee(rates(p, schema)) for p in (0.6, 0.3)])
        assert model.ground_truth_guarantee(rates(1.0, schema)).epsilon == pytest.approx(1.0)
    if holed != "abcdefg":  # nothing is amplified, perhaps: then releases are listed as they are
        found = [[(g.epsilon, g.conditions) for g in each] for each in found]
    assert found[0] == found[1]
    # Every table of every network requires at least one attribute.
    epsilon = model.ground_truth_guarantee(rates(0.3, schema)).epsilon
    assert family is not PrivBayes or (epsilon < 0.9) == (holed == "abcdefg")


@pytest.mark.parametrize("family", [AllPairs, Kamino])
def test_of_all_pairs_the_margins_are_amplified(family):
    """All pairs are one answer that every row enters. A claim of half the share is not enough."""
    schema = schema_of(dict.fromkeys("abcdefg", 3), "abc")
    model = fitted(family, "observed", schema, n=300, first_share=0.5)
    caps = model.fitted_.limits
    gated = sum(e.cost.amount for e in caps.events if e.required)
    spent = [caps.total.price(e) for e in releases(model.guarantee_.events[0]) if e.required]
    assert gated == pytest.approx(float(sum(spent)), rel=1e-9)
    found = [model.ground_truth_guarantee(rates(p, schema)) for p in (1.0, 0.5, 0.0)]
    values = [g.epsilon for g in found]
    assert values == sorted(values, reverse=True)
    # Of rows without a cell, everything but the margins is still read.
    rest = [e for e in releases(model.guarantee_.events[0]) if not e.required]
    assert values[-1] == pytest.approx(epsilon_of(rest, 1e-6), rel=1e-4)
    assert values[1] < values[0] - 0.05 * 3 / 7
    assert FixedSchedule() not in found[1].conditions
    planned = planned_ground_truth(model, schema, rates(0.5, schema))
    assert planned.epsilon == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("family", [AIM, MST])
@pytest.mark.parametrize(("holed", "n"), [("abcdefg", 200), ("abc", 30_000)])
def test_every_fit_keeps_to_its_caps(family, holed, n):
    schema = schema_of(dict.fromkeys("abcdefg", 3), holed)
    model = fitted(family, "observed", schema, n=n)
    caps, whole = model.fitted_.limits, model.guarantee_.events[0]
    assert caps.cover(whole)
    selected, alone = 0.0, Counter()
    for event in releases(whole):
        cost = float(whole.cost.price(event))
        if isinstance(event, SelectionEvent):
            selected += cost
        elif event.label.startswith("marginal") and " x " in event.label:
            alone[event.label] += cost
    labelled = {part.label: part.cost.amount for part in caps.events if not part.required}
    assert selected <= labelled[ChosenRequirements.selections]
    chosen = caps.events[-1].cost.amount
    share = caps.structure.largest_share
    # Marginals may spend the rest of the selections' part, which is a rounding error here.
    assert max(alone.values()) <= share * chosen * (1 + 1e-6)
    if family is MST:
        assert share < 0.25


@pytest.mark.parametrize("family", [AIM, MST])
def test_selections_keep_to_their_part_where_no_masks_are_released(family, monkeypatch):
    started, start = [], adaptive._start_rounds

    def noting(session, plan, *rest):
        fit = start(session, plan, *rest)
        started.append((plan, fit, fit.selection_budget))
        return fit

    monkeypatch.setattr(adaptive, "_start_rounds", noting)
    fitted(family, "joint", n=100, epsilon=0.2)
    ((plan, fit, most),) = started
    assert MASKS in plan
    assert not fit.marginals.masks
    assert not fit.reserve
    assert most <= plan.cost(CHOICES).amount
    assert fit.selection_budget >= -1e-9 * most


def test_pairs_outside_a_small_tree_may_get_more_than_its_edges():
    """Of three pairs one is left for all that is kept back."""
    model = fitted(MST, "observed", schema_of(dict.fromkeys("abc", 3)), n=60_000)
    caps, log = model.fitted_.limits, releases(model.guarantee_.events[0])
    pairs = [float(caps.total.price(e)) for e in log if " x " in e.label]
    assert len(pairs) == 3
    most = caps.structure.largest_share * caps.events[-1].cost.amount
    assert 1.1 * pairs[0] < max(pairs) <= most * (1 + 1e-6)
    assert caps.structure.largest_share < 0.8


def test_a_tree_of_some_pairs_may_not_be_whole():
    """Edges then get the budget of the missing edges, so their share is not known beforehand."""
    model = MST(epsilon=1.0, delta=1e-6, missing="observed")
    schema = schema_of({"a": 1100, "b": 1100, "c": 1})
    structure = Request(model, schema, schema).plan().limits.structure
    assert ("a", "b") not in structure.among  # more than a million cells
    assert structure.largest_share == 1.0


def test_tables_of_a_network_read_rows_that_rules_settle_and_names_may_look_like_pairs():
    schema = schema_of(dict.fromkeys("abc", 3), rules=(NotApplicable("c", unless="a = 0"),))
    model = fitted(PrivBayes, "observed", schema)
    assert () in model.fitted_.limits.structure.among
    assert model.ground_truth_guarantee(rates(0.5, schema)).epsilon == pytest.approx(1.0)
    schema = schema_of(dict.fromkeys(["a x b", "c", "b x c", "a"], 3))
    for family in (AIM, MST):
        model = fitted(family, "observed", schema)
        assert model.ground_truth_guarantee(rates(0.5, schema)).epsilon < 0.8


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "known"), [(8.0, True), (12.0, False)])
def test_one_way_marginals_that_leave_something_to_others_have_no_caps(epsilon, known):
    """At such low noise, a count may cost less than its share.

    Chosen marginals get the difference.
    """
    schema = schema_of(dict.fromkeys("abc", 3), "a")
    model = fitted(AIM, "observed", schema, epsilon=epsilon, n_rows=2000, first_share=0.7, rounds=2)
    whole, caps = model.guarantee_.events[0], model.fitted_.limits
    ones = [float(whole.cost.price(e)) for e in releases(whole) if e.label == "marginal a"]
    nominal = 0.7 * whole.cost.amount / 3
    assert (sum(ones) > nominal * (1 - 1e-6)) == known
    assert (caps is not None) == known


@pytest.mark.long
@pytest.mark.parametrize("family", [AIM, MST, AllPairs, Kamino, PrivBayes])
def test_before_imputation_only_margins_are_amplified(family):
    model = fitted(family, "impute-first", imputer_share=0.25, epsilon=2.0)
    caps, whole = model.fitted_.limits, model.guarantee_.events[0]
    assert caps.cover(whole)
    spent = sum(caps.total.price(e) for e in releases(whole) if not e.required)
    assert float(spent) == pytest.approx(0.75 * caps.total.amount, rel=1e-6)
    found = [model.ground_truth_guarantee(rates(p)).epsilon for p in (1.0, 0.5, 0.0)]
    assert found == sorted(found, reverse=True)
    rest = GaussianEvent(sensitivity=math.sqrt(spent), sigma=1.0, discrete=False)
    assert found[-1] == pytest.approx(epsilon_of([rest], 1e-6), rel=1e-4)
    assert found[1] < 0.95 * found[0]


def test_another_release_than_the_caps_are_of_is_not_amplified():
    """As an edited file could say: other parameters, or another strategy."""
    model = known(AIM, "observed")
    for caps in (
        known(AIM, "complete-rows").fitted_.limits,
        fitted(AIM, "observed", selection_share=0.01).fitted_.limits,
        replace(model.fitted_.limits, amount=9.0),
    ):
        assert not caps.cover(model.guarantee_.events[0])
        parts = ground_truth_parts(
            model.guarantee_,
            strategy=model.applied_strategy,
            modelled=model.fitted_.modelled,
            limits=caps,
        )
        found = ground_truth_guarantee(parts[0], rates(0.5), structure=parts[1])
        assert found.epsilon == pytest.approx(1.0)


def test_a_file_keeps_the_caps_that_its_fit_was_kept_within(tmp_path, monkeypatch):
    """A loaded model has the caps of its own fit, and not the caps of today's code.

    A file with caps of a wrong type is not a model.
    """
    model, path = known(MST, "observed"), tmp_path / "m.json"
    stated = model.ground_truth_guarantee(rates(0.5))
    model.save(path)
    monkeypatch.setattr(BudgetPlan, "limits", None)
    again = MST.load(path)
    assert again.ground_truth_guarantee(rates(0.5)) == stated
    assert again.fitted_.limits == model.fitted_.limits
    document = unseal(json.loads(path.read_text(encoding="utf-8")))
    limits = document["limits"]
    for wrong in ({"events": ["a"], "structure": 1}, {"events": []}, {"amount": -1.0}, 5):
        wrong = limits | wrong if isinstance(wrong, dict) else wrong
        path.write_text(json.dumps(seal(document | {"limits": wrong})), encoding="utf-8")
        with refuses(DataError, "is not a missdp model. Expected"):
            MST.load(path)


# A fit that would exceed its caps raises an error. Tests show this, and not arguments alone.
def test_an_edge_that_gets_more_than_its_share_is_refused(monkeypatch):
    """The first edge of a tree is measured again, within the budget and beyond its share."""
    measure = AdaptiveFit.measure

    def again(self, clique, noise):
        for _ in range(1 if self.marginals.counts else 3):
            measure(self, clique, noise)

    monkeypatch.setattr(AdaptiveFit, "measure", again)
    with refuses(BudgetExceededError, "its part of the fit"):
        fitted(MST, "observed")
    fitted(AIM, "observed")  # of which no share is claimed
    monkeypatch.setattr(fitting, "limit_of", lambda limits: None)
    model = fitted(MST, "observed")  # within the budget as a whole
    assert not model.fitted_.limits.cover(model.guarantee_.events[0])
    assert model.ground_truth_guarantee(rates(0.5)).epsilon == pytest.approx(1.0)


def again(session, *arguments, measured=adaptive.release_one_way, **more):
    """Measure an attribute twice.

    If the second answer were charged to pairs, the claim would be half of the information of an
    attacker.
    """
    one_way = measured(session, *arguments, **more)
    most = replace(session.remaining, amount=0.8 * session.remaining.amount)
    session.measure(Marginal(("a",)), Noise.from_cost(most))
    return one_way


def twice(*arguments, counted=shared_steps.release_row_count):
    counted(*arguments)
    return counted(*arguments)


BEYOND = [  # selections beyond their cap, one attribute again, all rows counted twice
    *((family, adaptive, "selection_epsilon", lambda _: 0.4, "observed") for family in (AIM, MST)),
    (AIM, adaptive, "release_one_way", again, "observed"),
    (AIM, shared_steps, "release_row_count", twice, "observed"),
    *(  # of observed rows, all pairs get so much less: they read every row, too
        (family, shared_steps, "release_row_count", twice, "complete-rows")
        for family in (AIM, AllPairs, Kamino)
    ),
]


@pytest.mark.parametrize(("family", "owner", "name", "wrong", "missing"), BEYOND)
def test_what_is_beyond_its_cap_is_refused(family, owner, name, wrong, missing, monkeypatch):
    monkeypatch.setattr(owner, name, wrong)
    with refuses(BudgetExceededError, "its part of the fit"):
        fitted(family, missing)


WHOLE = Cost(privacy_measure="gdp", amount=0.06)


def one(amount, label="", required=None):
    facts = {"discrete": False, "label": label, "required": required}
    return GaussianEvent(sensitivity=1.0, sigma=amount**-0.5, **facts)


def keeper(share):
    caps = chosen_caps(
        WHOLE,
        ungated=0.01,
        selections=0.01,
        fixed={frozenset("a"): 0.01, frozenset("b"): 0.01},
        among=[frozenset("ab"), frozenset("bc")],
        largest=None if share is None else share * 0.02,
    )
    return Spending(caps)


PAIR = ("marginal a x b", {"a", "b"})


ROWS = "number of rows"
ONE = ("marginal a", {"a"})
OTHER = ("marginal c", {"c"})
NEXT = ("marginal b x c", {"b", "c"})
BOTH = [one(0.02, *PAIR), one(0.0199, *NEXT)]


# By the share of a marginal, answers that fit, and answers of which the last does not fit.
KEPT = {
    0.5: [
        ([one(0.01, ROWS)], [one(0.006, ROWS)] * 2),
        ([one(0.01, *ONE), one(0.01, *PAIR)], [one(0.011, *PAIR)]),
        ([one(0.01, *PAIR), one(0.01, *NEXT)], [one(0.01, *PAIR), one(0.012, *NEXT)]),
        ([one(0.006, *PAIR)], [one(0.006, *PAIR), one(0.006, "marginal b x a", {"a", "b"})]),
        # The rest of the part for single attributes is not available to others. The part for pairs
        # is not available to single attributes, since a single attribute is observed more often.
        ([one(0.015, *ONE)], [one(0.02, *ONE), one(0.006, ROWS)]),  # .005 as if it read every row
        ([one(0.02, *ONE)], [one(0.03, *ONE)]),
        # No marginal of the family requires this attribute. The answer is charged as if it read
        # every row.
        ([one(0.009, *OTHER)], [one(0.011, *OTHER)]),
        ([SelectionEvent(epsilon=0.1)], [SelectionEvent(epsilon=0.1)] * 3),
    ],
    None: [
        # A single attribute has its own cap and the cap of answers that read every row. It has no
        # part of the cap of pairs.
        ([one(0.02, *ONE), one(0.02, *PAIR)], [one(0.02, *ONE), one(0.001, *ONE)]),
        ([one(0.02, *NEXT)], [one(0.011, *OTHER)]),
        # All that was chosen together has a cap of its own, which selections and counts leave.
        (BOTH, [*BOTH, one(0.001, *PAIR)]),
        (BOTH, [*BOTH, one(0.01, ROWS)]),
    ],
}


def test_what_a_keeper_has_room_for():
    for share, fits, too_much in ((s, *case) for s, cases in KEPT.items() for case in cases):
        kept, full = keeper(share), keeper(share)
        assert all(kept.fits(event) for event in fits)
        found = [full.fits(event) for event in too_much]
        assert found == [True] * (len(found) - 1) + [False]


# Admitted queries cost no more than the caps claim, for every caller: exact small worlds.
A, B, C, AB, AC, BC, ABC = (
    frozenset(names) for size in (1, 2, 3) for names in combinations("abc", size)
)
SETS = [A, B, C, AB, AC, BC, ABC]


def moment(spent, chances, n):
    """Return the Rényi divergence of order n of Gaussian answers that require attributes.

    The sum runs over n copies of every mask.
    """
    masks = [frozenset(), *SETS]
    p = [math.prod(chances[a] if a in m else 1 - chances[a] for a in "abc") for m in masks]
    found = 0.0
    for copies in product(range(len(masks)), repeat=n):
        k = {required: sum(required <= masks[i] for i in copies) for required in spent}
        power = math.exp(
            sum(rho * k[required] * (k[required] - 1) for required, rho in spent.items())
        )
        found += math.prod(p[i] for i in copies) * power
    return math.log(found) / (n - 1)


def admitted(caps, asked):
    """Return the admitted amount of the queries by their required attributes."""
    kept, spent = Spending(caps), Counter()
    for number, (required, rho) in enumerate(asked):
        sigma, label = (2 * rho) ** -0.5, f"marginal {number}"
        event = GaussianEvent(
            sensitivity=1, sigma=sigma, discrete=False, label=label, required=required
        )
        after = deepcopy(kept)
        if after.fits(event):
            kept = after
            spent[required] += rho
    return spent


@pytest.mark.long
@given(
    chances=st.tuples(*[st.sampled_from([0.02, 0.3, 0.9, 1.0])] * 3),
    among=st.lists(st.sampled_from(SETS), min_size=1, max_size=3),
    share=st.sampled_from([0.34, 0.5, 1.0]),
    others=st.tuples(*[st.sampled_from([0.0, 0.2])] * 2),
    asked=st.lists(
        st.tuples(st.sampled_from([frozenset(), *SETS]), st.sampled_from([0.08, 0.17, 0.25, 0.5])),
        max_size=8,
    ),
)
@example((0.5, 0.01, 1.0), [A, B], 0.5, (0.0, 0.0), [(A, 0.25), (AC, 0.25)])
@example((0.9, 0.02, 1.0), [AB, C], 0.5, (0.0, 0.2), [(AB, 0.25), (AB, 0.25), (ABC, 0.5)])
def test_what_is_admitted_is_within_the_claim(chances, among, share, others, asked):
    observed, (ungated, single) = dict(zip("abc", chances, strict=True)), others
    whole = Cost(privacy_measure="zcdp", amount=0.5 + ungated + single)
    caps = chosen_caps(
        whole, ungated=ungated, selections=0, fixed={A: single}, among=among, largest=share * 0.5
    )
    spent, costs = admitted(caps, asked), chosen_costs(caps.events, caps.structure, observed)
    orders = np.array([2, 3])
    for n, claim in zip(orders, _chosen_curve(costs, observed, orders=orders), strict=True):
        assert moment(spent, observed, int(n)) <= claim * (1 + 1e-7)


def test_two_shares_behind_one_set_are_not_a_share_of_each():
    """Of chances .5 and .01, at order 3: .697, where a share of each set claims .500."""
    whole, observed = Cost(privacy_measure="zcdp", amount=0.5), {"a": 0.5, "b": 0.01, "c": 1.0}
    caps = chosen_caps(whole, ungated=0, selections=0, fixed={}, among=[A, B], largest=0.25)
    claim = _chosen_curve(
        chosen_costs(caps.events, caps.structure, observed), observed, orders=np.array([3])
    )
    assert round(float(claim[0]), 3) == 0.5
    assert round(moment({A: 0.25, AC: 0.25}, observed, 3), 3) == 0.697
    assert admitted(caps, [(A, 0.25), (AC, 0.25)]) == {A: 0.25}
    assert admitted(caps, [(A, 0.25), (B, 0.25)]) == {A: 0.25, B: 0.25}
