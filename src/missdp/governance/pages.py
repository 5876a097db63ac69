"""Pages for people: the report and the pages beside it, made by Jinja from templates.

Templates make inert what they show. Here is what takes computing: scales of charts, and texts.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from missdp.accounting import Condition, DeclaredRowCount, ExplicitSeed, PublicDomain
from missdp.errors import UnprovenError
from missdp.estimate import SensitivityAnalysis
from missdp.governance.facts import ModelSummary, OneWay
from missdp.governance.measurements import KINDS
from missdp.governance.rendering import (
    TEMPLATES,
    half_width,
    markup,
    plain,
    share,
    short,
    template,
)
from missdp.words import format_number, sentences

_LONG = 600  # characters of what people say of a release
_MOST_LEVELS = 24  # of an attribute; the others are added up
_PAIRS = 15  # that are listed
_TIMES = 1.96  # standard deviations, of a 95 % interval
_SHADES = 6
_LEAST = 1e-12


def pages(
    facts: ModelSummary,
    about: Mapping[str, str],
    *,
    analyses: Iterable[SensitivityAnalysis],
    **said: Any,
) -> dict[str, bytes]:
    """Return the pages of a release, by their names.

    Parameters
    ----------
    facts : ModelSummary
    about : mapping of str to str
        Texts of people about the release.
    analyses : iterable of SensitivityAnalysis
        Which show where conclusions turn.
    **said
        For all pages: the id of the release in words, the line of the ledger, our version.

    Returns
    -------
    dict of str to bytes
    """
    common = _common(facts) | said | {"about": about}
    own = {"report.html": _report(facts, about, analyses), "registry.yaml": _registry(facts, about)}
    names = ("report.html", "registry.yaml", "answers.md", "how-to-use.md")
    rendered = {name: template(name).render({**common, **own.get(name, {})}) for name in names}
    return {name: text.encode("utf-8") for name, text in rendered.items()}


def _common(facts: ModelSummary) -> dict[str, Any]:
    """Return what all pages show."""
    model, guarantee = facts.model, facts.model.guarantee_
    kinds = {type(c) for c in guarantee.conditions}
    size = model.fitted_.size
    try:
        risk = str(guarantee.explain())
    except UnprovenError:  # delta is too large for exceptions that seldom
        risk = sentences(guarantee)[2]
    return {
        "facts": facts,
        "guarantee": guarantee,
        "epsilon": format_number(guarantee.epsilon),
        "delta": format_number(guarantee.delta),
        "sentences": sentences(guarantee),
        "conditions": [_labelled(c, facts).statement() for c in guarantee.conditions],
        "seeded": ExplicitSeed in kinds,
        "declared_rows": DeclaredRowCount in kinds,
        "public_domain": PublicDomain in kinds,
        "size": size,
        # With weights the number of rows is not released: an effective size stands for it.
        "effective": (effective := size is not None and size.weight is not None),
        "estimates": facts.measured and not model.applied_strategy.fills,
        "cell_noise": _cell_noise(facts, "effective rows" if effective else "rows"),
        "family": type(model).__name__,
        "risk": risk,
        "kinds": KINDS,
    }


def _cell_noise(facts: ModelSummary, rows: str) -> str:
    """Return how far a cell of two attributes is off, in the median pair."""
    noise = [one.std for one in facts.pairs.values() if one.std is not None]
    std = float(np.median(noise or [0.0]))
    if not std:
        return "a size not kept"
    return f"{short(float(f'{std * facts.rows:.2g}'))} {rows} ({share(std, std)} of all)"


def _labelled(condition: Condition, facts: ModelSummary) -> Condition:
    """Return a condition that calls attributes by their labels."""
    named = {}
    for field in fields(condition):
        names = getattr(condition, field.name)
        if type(names) is tuple and names and all(name in facts.labels for name in names):
            named[field.name] = tuple(facts.labels[name] for name in names)
    return replace(condition, **named) if named else condition


def _registry(facts: ModelSummary, about: Mapping[str, str]) -> dict[str, Any]:
    """Return what a draft of an entry in the registry of deployments shows besides."""
    # Its fields are those of github.com/opendp/deployments-registry-data.
    events = facts.model.guarantee_.events
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in about["title"].lower())
    privacy_measure = (
        getattr(getattr(events[0], "cost", None), "privacy_measure", "") if events else ""
    )
    return {"slug": "-".join(words.split())[:80] or "todo", "privacy_measure": privacy_measure}


def _report(
    facts: ModelSummary, about: Mapping[str, str], analyses: Iterable[SensitivityAnalysis]
) -> dict[str, Any]:
    """Return what the report shows besides: one file, which loads nothing."""
    script, style = (
        (TEMPLATES / f"report.{kind}").read_text(encoding="utf-8") for kind in ("js", "css")
    )
    std = float(facts.model.n_rows_std_)
    digits = max(0, math.floor(math.log10(std))) if std > 0 else 0  # that noise does not hide
    nullable = sorted((c for c in facts.columns if c.nullable), key=lambda c: -c.missing)
    nullable = nullable if facts.keeps_gaps else []
    measured = sum(one.how == "measured" for one in facts.pairs.values())
    return {
        "about": {key: plain(text, _LONG) for key, text in about.items()},
        "script": markup(script),
        "style": markup(style),
        "hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "row_count": f"{int(round(facts.rows, -digits)):,}",
        "row_noise": f"± {math.ceil(_TIMES * std):,}, noise" if std else "declared public",
        "pairs_measured": f"{measured:,}",
        "pairs": f"{len(facts.pairs):,}",
        "all_measured": measured == len(facts.pairs),
        "rates": _bars(
            [c.label for c in nullable],
            [c.missing for c in nullable],
            [c.missing_std for c in nullable],
        ),
        "together": facts.together[:_PAIRS],
        "cards": [_card(column) for column in facts.columns],
        "rules": [_rule(r.rule, facts.labels) for r in facts.relations if r.rule],
        "matrix": _matrix(facts),
        "strongest": _strongest(facts),
        "unclear": sum(one.clear is False for one in facts.pairs.values()),
        "widths": [_widths(facts, column) for column in facts.columns if column.stds is not None],
        "departures": [_departures(analysis) for analysis in analyses],
    }


_WORDS = re.compile(r"('(?:[^'\\]|\\.)*')|`([^`]*)`|(\w+)")


def _rule(text: str, labels: Mapping[str, str]) -> str:
    """Return a rule that calls attributes by their labels, in quotes; values stay as they are.

    >>> _rule("age < 20 and smk = 'smk'", {"age": "age", "smk": "Smokes daily"})
    "age < 20 and “Smokes daily” = 'smk'"
    """

    def word(found: re.Match[str]) -> str:
        name = found[2] or found[3]
        label = labels.get(name, name)
        return found[0] if found[1] or label == name else f"“{label}”"

    return _WORDS.sub(word, text)


def _bars(
    names: Sequence[str], values: Sequence[float], stds: Sequence[float | None]
) -> list[dict[str, Any]]:
    """Return the rows of a chart: bars of 100 units at most on one scale, their intervals, text."""
    ends = [v + _TIMES * (s or 0.0) for v, s in zip(values, stds, strict=True)]
    most, like = 1.02 * max([_LEAST, *ends]), float(np.median([s for s in stds if s] or [0.0]))
    found = []
    for name, value, std in zip(names, values, stds, strict=True):
        half = _TIMES * (std or 0.0)
        low, high, width = (
            round(min(100.0, 100 * max(0.0, end) / most), 1)
            for end in (value - half, value + half, value)
        )
        found.append(
            {
                "name": name,
                "ends": (low, high),
                "width": width,
                "text": share(max(0.0, value), None if std is None else like),
                "noise": "noise not kept" if std is None else half_width(std, like),
            }
        )
    return found


def _departures(found: SensitivityAnalysis) -> dict[str, Any]:
    """Return where conclusions turn if values are missing because of what they are."""
    start = found.estimates[found.shifts.index(0.0)]
    shown = start.shown()
    held = f"holds from {min(found.shifts):g} to {max(found.shifts):g}"
    turns = (held if turn is None else f"{turn:+.2g}" for turn in found.tipping)
    columns = (shown[column] for column in ("estimate", "low", "high"))
    return {"of": found, "start": start, "rows": [*zip(shown.index, *columns, turns, strict=True)]}


def _card(column: OneWay) -> dict[str, Any]:
    """Return the picture of one attribute."""
    shares, size = np.maximum(column.shares, 0.0), len(column.levels)
    kept = np.sort(np.argsort(-shares, kind="stable")[:_MOST_LEVELS])
    stds = [None] * size if column.stds is None else column.stds.tolist()
    rest = float(shares.sum() - shares[kept].sum())
    has_units = column.units and column.units.lower() not in column.label.lower()
    known = [f"column {plain(column.name)}"] * (column.label != column.name)
    known += [f"in {plain(column.units)}"] * bool(has_units)
    return {
        "name": column.label,
        "caption": ", ".join(known),
        "bars": _bars(
            [column.levels[i] for i in kept], shares[kept].tolist(), [stds[i] for i in kept]
        ),
        "rest": f"{size - len(kept)} more levels: {share(rest)}" if len(kept) < size else "",
    }


def _matrix(facts: ModelSummary) -> list[dict[str, Any]]:
    """Return rows of cells: strength in hundredths, shade, and whether it was measured.

    What does not stand out from noise has an asterisk, and no shade.
    """
    rows, strengths = [], facts.strengths
    for a, name in enumerate(facts.names):
        cells = []
        for b in range(len(facts.names)):
            if a == b:
                cells.append(("", "d"))
                continue
            pair = facts.pairs[min(a, b), max(a, b)]
            shade = min(_SHADES - 1, int(strengths[a, b] * _SHADES * 1.5))
            kind = "n" if pair.clear is False else f"s{shade}"
            kind += " h" if pair.how == "modelled" else ""
            mark = "*" if pair.clear is False else ""
            cells.append((f"{100 * strengths[a, b]:.0f}{mark}", kind))
        total = round(float(strengths[a].sum()), 3)
        rows.append({"name": facts.labels[name], "total": total, "cells": cells})
    return rows


def _strongest(facts: ModelSummary) -> list[dict[str, Any]]:
    """Return the strongest pairs, of those that stand out from noise as far as it is known."""
    pairs = [pair for pair, one in facts.pairs.items() if one.clear is not False]
    pairs = sorted(pairs, key=lambda p: -facts.strengths[p])[:_PAIRS]
    relations = [facts.pairs[pair] for pair in pairs]
    like = float(np.median([one.std for one in relations if one.std] or [0.0]))
    return [
        {"pair": pair, "relation": one, "like": like}
        for pair, one in zip(pairs, relations, strict=True)
    ]


def _widths(facts: ModelSummary, column: OneWay) -> dict[str, Any]:
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
        "name": column.label,
        "level": column.levels[at],
        "half": half_width(math.sqrt(total)),
        "ends": [0.0, *ends.tolist()],
        "parts": [f"{100 * part / total:.0f} %" for part in parts],
    }
