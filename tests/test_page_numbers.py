"""Numbers in the text of user pages are computed from the library."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from missdp import MST, Categorical, PrivBayes, Schema
from missdp.accounting import Cost, Filter, Guarantee, MissingCompletelyAtRandom
from missdp.ground_truth import planned_ground_truth

DOCS = Path(__file__).parents[1] / "docs"
PLANNING, GUARANTEE, GROUND_TRUTH = (
    " ".join((DOCS / f"{name}.md").read_text(encoding="utf-8").split())
    for name in ("planning", "guarantee", "ground-truth")
)


def row(*cells):
    return "| " + " | ".join(cells) + " |"


def test_chances_of_a_right_guess_match_the_page():
    chances = [math.exp(e) / (1 + math.exp(e)) for e in (0.1, 0.3, 1, 3)]
    shown = [f"{chance:.1%}".replace("%", " %") for chance in chances]
    most = f"{math.exp(10) / (1 + math.exp(10)):.3%}".replace("%", " %")
    assert row("chance at most", *shown, most) in PLANNING


def test_noise_by_delta_matches_the_page():
    noise = [Cost.worth("gdp", 1.0, delta).amount ** -0.5 for delta in (1e-5, 1e-6, 1e-9, 1e-12)]
    assert row("rows", *(f"{std:.1f}" for std in noise)) in PLANNING


def test_totals_of_several_releases_match_the_page():
    one = Cost.worth("gdp", 1.0, 1e-6)
    totals = [
        Guarantee.from_events(replace(one, amount=n * one.amount).event(), delta=1e-6).epsilon
        for n in (1, 2, 4, 10)
    ]
    first, *others, last = (f"{total:.3g}" for total in totals)
    assert f"a total epsilon of {first}, {', '.join(others)} and {last}." in PLANNING


def test_epsilon_of_eight_fits_in_a_filter_matches_the_page():
    shared = Filter(3.0, 1e-5)
    for _ in range(8):
        shared.reserve(Filter(1.0, 1e-6))
    used = 3.0 - shared.remaining_epsilon
    text = f"Eight fits of epsilon 1 and delta 1e-6 use an epsilon of {used:.1f} of"
    assert f"{text} `Filter(3.0, 1e-5)`." in GUARANTEE


@pytest.mark.slow
def test_columns_that_are_never_missing_match_the_page():
    names = [f"q{i}" for i in range(14)]
    planned = {MST: [], PrivBayes: []}
    for never in (0, 1, 2):
        columns = [
            Categorical(name=name, levels=("x", "y"), nullable=i >= never)
            for i, name in enumerate(names)
        ]
        known = MissingCompletelyAtRandom(dict.fromkeys(names[never:], 0.5))
        for family, delta in ((MST, 1e-6), (PrivBayes, 0.0)):
            model = family(epsilon=1.0, delta=delta, missing="observed")
            epsilon = planned_ground_truth(model, Schema(tuple(columns)), known).epsilon
            planned[family].append(f"{epsilon:.2f}".removesuffix(".00"))
    mst, network = planned[MST], planned[PrivBayes]
    assert f"MST has {mst[0]}, {mst[1]} and {mst[2]} if" in GROUND_TRUTH
    assert f"PrivBayes has {network[0]}, {network[1]} and {network[2]}." in GROUND_TRUTH
