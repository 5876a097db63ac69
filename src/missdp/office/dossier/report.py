"""The numbers of the public report, as its template shows them: rounded, scaled, in order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from missdp.estimate.sensitivity import SensitivityAnalysis
from missdp.office.dossier.facts import Coincidence, Facts, Gaps, OneWay
from missdp.office.dossier.words import half_width, plain, share, short

_MOST_LEVELS = 24  # of an attribute; the others are added up
_LIKELY = 1e-3  # from here on nothing speaks against chance
_PAIRS = 15  # that are listed
_TIMES = 1.96  # standard deviations, of a 95 % interval
_SHADES = 6
_LEAST = 1e-12


@dataclass(frozen=True)
class Bar:
    """One row of a chart, which is a table: a name, a bar of 100 units at most, a number.

    Parameters
    ----------
    name : str
    width, low, high : float
        Of the bar, and the ends of its interval.
    text : str
    noise : str
        Half width of the interval, or what is known instead.
    """

    name: str
    width: float
    low: float
    high: float
    text: str
    noise: str

    @classmethod
    def of(cls, name: str, value: float, std: float | None, most: float, like: float) -> Bar:
        """Return the bar of a share, with ``most`` as 100 units, and the noise of those beside."""
        ends = np.clip([value - _TIMES * (std or 0.0), value + _TIMES * (std or 0.0)], 0.0, None)
        low, high = (round(min(100.0, 100 * float(end) / most), 1) for end in ends)
        width = round(min(100.0, 100 * max(0.0, value) / most), 1)
        noise = "noise not kept" if std is None else half_width(std, like)
        text = share(max(0.0, value), None if std is None else like)
        return cls(plain(name), width, low, high, text, noise)


def _bars(names: tuple[str, ...], values: Any, stds: Any) -> list[Bar]:
    """Return a bar for each share, on one scale."""
    ends = [v + _TIMES * (s or 0.0) for v, s in zip(values, stds, strict=True)]
    most = 1.02 * max([*ends, _LEAST])
    like = float(np.median([s for s in stds if s] or [0.0]))
    triples = zip(names, values, stds, strict=True)
    return [Bar.of(n, float(v), None if s is None else float(s), most, like) for n, v, s in triples]


def numbers(facts: Facts) -> dict[str, Any]:
    """Return what the template of the report shows beside what all pages do.

    Parameters
    ----------
    facts : Facts
    """
    measured = sum(r.how == "measured" for r in facts.relations if len(r.names) == 2)
    pairs = math.comb(len(facts.names), 2)
    std = float(facts.model.n_rows_std_)
    return {
        "tiles": {
            "row_count": f"{round_to(facts.rows, std):,}",
            "row_noise": f"± {math.ceil(_TIMES * std):,}, noise" if std else "declared public",
            "nullable": len(facts.schema.nullable),
            "measured": f"{measured:,}",
            "pairs": f"{pairs:,}",
            "all": measured == pairs,
        },
        "rates": _rates(facts),
        "keeps_gaps": facts.keeps_gaps,
        "gaps": [_gaps(facts, one) for one in facts.gaps],
        "together": [_together(facts, one) for one in facts.together[:_PAIRS]],
        "cards": [_card(column) for column in facts.columns],
        "follows": [plain(n) for n in facts.schema.names if n not in facts.names],
        "rules": [plain(r.rule, 200) for r in facts.relations if r.rule],
        "matrix": _matrix(facts),
        "strongest": _strongest(facts),
        "widths": [_widths(facts, column) for column in facts.columns if column.stds is not None],
        "completes": facts.measured and not facts.counts_observed,
    }


def departures(found: SensitivityAnalysis) -> dict[str, Any]:
    """Return where conclusions turn if values are missing because of what they are.

    Parameters
    ----------
    found : SensitivityAnalysis
    """
    shown = found.estimates[found.shifts.index(0.0)].shown()
    rows = zip(shown.index, *(shown[c] for c in ("estimate", "low", "high")), strict=True)
    held = f"holds from {min(found.shifts):g} to {max(found.shifts):g}"
    turns = ((held if turn is None else f"{turn:+.2g}") for turn in found.tipping)
    return {
        "question": plain(found.estimates[0].question, 200),
        "attribute": plain(found.attribute),
        "deviation": short(found.deviation),
        "rows": [
            (plain(label), value, f"{low} to {high}", turn)
            for (label, value, low, high), turn in zip(rows, turns, strict=True)
        ],
        "flags": [plain(flag, None) for flag in found.estimates[0].flags],
    }


def round_to(value: float, std: float) -> int:
    """Return a count without the digits that its noise hides.

    Examples
    --------
    >>> round_to(13567.0, 12.0), round_to(13567.0, 0.0)
    (13570, 13567)
    """
    digits = max(0, math.floor(math.log10(std))) if std > 0 else 0
    return int(round(value, -digits))


def _rates(facts: Facts) -> list[Bar]:
    found = sorted((c for c in facts.columns if c.nullable), key=lambda c: -c.missing)
    found = found if facts.keeps_gaps else []
    names = tuple(c.label for c in found)
    return _bars(names, [c.missing for c in found], [c.missing_std for c in found])


def _gaps(facts: Facts, one: Gaps) -> dict[str, Any]:
    """Return at which levels of another attribute a value is missing least, and most."""

    def end(level: str, rate: float, std: float | None) -> str:
        noise = "" if std is None else f" {half_width(std)}"
        return f"{share(rate, std)}{noise} where it is {plain(level, 40)}"

    chance = "none is clear"
    if one.chance is None:
        chance = "modelled" if one.low[2] is None else "not worked out: rows belong together"
    if one.chance is not None and one.chance < _LIKELY:
        chance = f"strong: p < 1e{max(math.ceil(math.log10(one.chance + 1e-12)), -12)}"
    labels = {c.name: c.label for c in facts.columns}
    names = plain(labels[one.name]), plain(labels[one.by])
    return {"name": names[0], "by": names[1], "ends": (end(*one.low), end(*one.high)), "p": chance}


def _together(facts: Facts, one: Coincidence) -> dict[str, str]:
    labels = {c.name: c.label for c in facts.columns}
    return {
        "names": " and ".join(plain(labels[name]) for name in one.names),
        "rate": share(one.rate, one.std),
        "noise": "modelled" if one.std is None else half_width(one.std),
        "alone": share(one.alone, one.std),
    }


def _card(column: OneWay) -> dict[str, Any]:
    """Return the picture of one attribute."""
    shares, size = np.maximum(column.shares, 0.0), len(column.levels)
    kept = np.arange(size)
    if size > _MOST_LEVELS:
        kept = np.sort(np.argsort(-shares, kind="stable")[:_MOST_LEVELS])
    stds = [None] * size if column.stds is None else column.stds.tolist()
    names = tuple(column.levels[i] for i in kept)
    rest = float(shares.sum() - shares[kept].sum())
    return {
        "name": plain(column.name),
        "label": plain(column.label) if column.label != column.name else "",
        "bars": _bars(names, shares[kept].tolist(), [stds[i] for i in kept]),
        "rest": f"{size - len(kept)} more levels: {share(rest)}" if len(kept) < size else "",
    }


def _matrix(facts: Facts) -> list[dict[str, Any]]:
    """Return rows of cells: strength in hundredths, shade, and whether it was measured."""
    how = {r.names: r.how for r in facts.relations if len(r.names) == 2 and not r.rule}
    rows = []
    total = facts.strengths.sum(axis=1)
    for a, name in enumerate(facts.names):
        cells = []
        for b, other in enumerate(facts.names):
            pair = (name, other) if a < b else (other, name)
            strength = float(facts.strengths[a, b])
            shade = min(_SHADES - 1, int(strength * _SHADES * 1.5))
            kind = f"s{shade}" + (" h" if how.get(pair) == "modelled" else "")
            cells.append(("", "d") if a == b else (f"{100 * strength:.0f}", kind))
        rows.append({"name": plain(name), "total": round(float(total[a]), 3), "cells": cells})
    return rows


def _strongest(facts: Facts) -> list[dict[str, str]]:
    """Return the strongest pairs."""
    labels = [plain(c.label) for c in facts.columns]
    pairs = sorted(combinations(range(len(labels)), 2), key=lambda p: -facts.strengths[p])
    known = {r.names: r for r in facts.relations if len(r.names) == 2 and not r.rule}
    found = []
    for a, b in pairs[:_PAIRS]:
        one = known[facts.names[a], facts.names[b]]
        found.append(
            {
                "names": f"{labels[a]} and {labels[b]}",
                "strength": f"{facts.strengths[a, b]:.2f}",
                "how": one.how,
                "noise": "not kept" if one.std is None else half_width(one.std),
            }
        )
    return found


def _widths(facts: Facts, column: OneWay) -> dict[str, Any]:
    """Return what makes the interval of the share of an attribute's largest level wide."""
    assert column.stds is not None
    at = int(np.argmax(column.shares))
    chance = float(np.clip(column.shares[at], 0.0, 1.0))
    rows = chance * (1 - chance) / facts.rows
    gone = min(max(column.missing, 0.0), 0.999)
    parts = np.array([float(column.stds[at]) ** 2, rows, rows * gone / (1 - gone)])
    total = max(float(parts.sum()), _LEAST**2)
    ends = np.round(100 * np.cumsum(parts) / total, 1)
    return {
        "name": plain(column.label),
        "level": plain(column.levels[at], 40),
        "half": half_width(math.sqrt(total)),
        "ends": [0.0, *ends.tolist()],
        "parts": [f"{100 * part / total:.0f} %" for part in parts],
    }
