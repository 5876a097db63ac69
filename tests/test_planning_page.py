"""The small tables of docs/planning.md are computed from the library."""

import math
from dataclasses import replace
from pathlib import Path

from missdp.accounting import Cost, Guarantee

PAGE = (Path(__file__).parents[1] / "docs" / "planning.md").read_text(encoding="utf-8")


def row(*cells):
    return "| " + " | ".join(cells) + " |"


def test_chances_of_a_right_guess_match_the_page():
    chances = [math.exp(e) / (1 + math.exp(e)) for e in (0.1, 0.3, 1, 3)]
    shown = [f"{chance:.1%}".replace("%", " %") for chance in chances]
    most = f"{math.exp(10) / (1 + math.exp(10)):.3%}".replace("%", " %")
    assert row("chance at most", *shown, most) in PAGE


def test_noise_by_delta_matches_the_page():
    noise = [Cost.worth("gdp", 1.0, delta).amount ** -0.5 for delta in (1e-5, 1e-6, 1e-9, 1e-12)]
    assert row("rows", *(f"{std:.1f}" for std in noise)) in PAGE


def test_totals_of_several_releases_match_the_page():
    one = Cost.worth("gdp", 1.0, 1e-6)
    totals = [
        Guarantee.from_events(replace(one, amount=n * one.amount).event(), delta=1e-6).epsilon
        for n in (1, 2, 4, 10)
    ]
    first, *others, last = (f"{total:.3g}" for total in totals)
    text = " ".join(PAGE.split())
    assert f"a total epsilon of {first}, {', '.join(others)} and {last}." in text
