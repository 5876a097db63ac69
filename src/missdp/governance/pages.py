"""Pages of a dossier: the report and other pages, made by Jinja from templates.

Templates escape their values. This module computes the values: scales of charts, and texts.
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
    percent,
    plain_text,
    short,
    template,
)
from missdp.words import format_number, sentences

_LONG = 600  # characters of a text about a release
_MAX_LEVELS = 24  # shown levels of an attribute; the others are added up
_MAX_PAIRS = 15  # pairs of attributes that are listed
_TIMES = 1.96  # standard errors in half of a 95 % interval
_SHADES = 6  # shades of strengths in the matrix
_MIN_SCALE = 1e-12  # avoids a division by zero


def pages(
    facts: ModelSummary,
    about: Mapping[str, str],
    *,
    analyses: Iterable[SensitivityAnalysis],
    **texts: Any,
) -> dict[str, bytes]:
    """Return the pages of a release, by their names.

    Parameters
    ----------
    facts : ModelSummary
        Summary of the released model.
    about : mapping of str to str
        Texts about the release.
    analyses : iterable of SensitivityAnalysis
        Analyses of conclusions under values missing not at random.
    **texts
        Values for all pages: the id of the release, the line of the ledger, the software version.

    Returns
    -------
    dict of str to bytes
        The content of each page.
    """
    common = _common(facts) | texts | {"about": about}
    special = {
        "report.html": _report(facts, about, analyses),
        "registry.yaml": _registry(facts, about),
    }
    names = ("report.html", "registry.yaml", "answers.md", "how-to-use.md")
    rendered = {name: template(name).render({**common, **special.get(name, {})}) for name in names}
    return {name: text.encode("utf-8") for name, text in rendered.items()}


def _common(facts: ModelSummary) -> dict[str, Any]:
    """Return the values of all pages."""
    model, guarantee = facts.model, facts.model.guarantee_
    kinds = {type(c) for c in guarantee.conditions}
    size = model.fitted_.size
    try:
        risk = str(guarantee.explain())
    except UnprovenError:  # delta exceeds the probability of an exception
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
        # With weights, an effective size is released in place of the number of rows.
        "effective": (effective := size is not None and size.weight is not None),
        "estimates": facts.measured and not model.applied_strategy.fills,
        "cell_noise": _cell_noise(facts, "effective rows" if effective else "rows"),
        "family": type(model).__name__,
        "risk": risk,
        "kinds": KINDS,
    }


def _cell_noise(facts: ModelSummary, rows: str) -> str:
    """Return the noise of a cell of two attributes, in the median pair, as text."""
    noise = [pair.std for pair in facts.pairs.values() if pair.std is not None]
    std = float(np.median(noise or [0.0]))
    if not std:
        return "a size not kept"
    return f"{short(float(f'{std * facts.rows:.2g}'))} {rows} ({percent(std, std)} of all)"


def _labelled(condition: Condition, facts: ModelSummary) -> Condition:
    """Return a condition that names attributes by their labels."""
    labelled = {}
    for field in fields(condition):
        names = getattr(condition, field.name)
        if type(names) is tuple and names and all(name in facts.labels for name in names):
            labelled[field.name] = tuple(facts.labels[name] for name in names)
    return replace(condition, **labelled) if labelled else condition


def _registry(facts: ModelSummary, about: Mapping[str, str]) -> dict[str, Any]:
    """Return further values for a draft of an entry in the registry of deployments."""
    # The fields follow github.com/opendp/deployments-registry-data.
    events = facts.model.guarantee_.events
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in about["title"].lower())
    cost = getattr(events[0], "cost", None) if events else None
    measure = getattr(cost, "privacy_measure", "")
    return {"slug": "-".join(words.split())[:80] or "todo", "privacy_measure": measure}


def _report(
    facts: ModelSummary, about: Mapping[str, str], analyses: Iterable[SensitivityAnalysis]
) -> dict[str, Any]:
    """Return further values for the report, which is one file that loads no other."""
    script, style = (
        (TEMPLATES / f"report.{kind}").read_text(encoding="utf-8") for kind in ("js", "css")
    )
    std = float(facts.model.n_rows_std_)
    digits = max(0, math.floor(math.log10(std))) if std > 0 else 0  # digits hidden by noise
    nullable = sorted((c for c in facts.columns if c.nullable), key=lambda c: -c.missing)
    nullable = nullable if facts.keeps_gaps else []
    measured = sum(pair.how == "measured" for pair in facts.pairs.values())
    return {
        "about": {key: plain_text(text, _LONG) for key, text in about.items()},
        "script": markup(script),
        "style": markup(style),
        "hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "row_count": f"{int(round(facts.rows, -digits)):,}",
        "row_noise": f"± {math.ceil(_TIMES * std):,}, noise" if std else "declared public",
        "pairs_measured": f"{measured:,}",
        "pairs": f"{math.comb(len(facts.names), 2):,}",
        "all_measured": measured == math.comb(len(facts.names), 2),
        "rates": _bars(
            [c.label for c in nullable],
            [c.missing for c in nullable],
            [c.missing_std for c in nullable],
        ),
        "together": facts.together[:_MAX_PAIRS],
        "cards": [_card(column) for column in facts.columns],
        "rules": [_rule(r.rule, facts.labels) for r in facts.relations if r.rule],
        "matrix": _matrix(facts),
        "strongest": _strongest(facts),
        "unclear": sum(pair.clear is False for pair in facts.pairs.values()),
        "widths": [_widths(facts, column) for column in facts.columns if column.stds is not None],
        "departures": [_departures(analysis) for analysis in analyses],
    }


_WORDS = re.compile(r"('(?:[^'\\]|\\.)*')|`([^`]*)`|(\w+)")


def _rule(text: str, labels: Mapping[str, str]) -> str:
    """Return a rule with attributes as quoted labels and unchanged values.

    >>> from missdp.governance.pages import _rule
    >>> _rule("age < 20 and smk = 'smk'", {"age": "age", "smk": "Smokes daily"})
    "age < 20 and “Smokes daily” = 'smk'"
    """

    def word(match: re.Match[str]) -> str:
        name = match[2] or match[3]
        label = labels.get(name, name)
        return match[0] if match[1] or label == name else f"“{label}”"

    return _WORDS.sub(word, text)


def _bars(
    names: Sequence[str], values: Sequence[float], stds: Sequence[float | None]
) -> list[dict[str, Any]]:
    """Return the rows of a chart: bars of at most 100 units with intervals and text."""
    ends = [v + _TIMES * (s or 0.0) for v, s in zip(values, stds, strict=True)]
    scale, like = 1.02 * max([_MIN_SCALE, *ends]), float(np.median([s for s in stds if s] or [0.0]))
    bars = []
    for name, value, std in zip(names, values, stds, strict=True):
        half = _TIMES * (std or 0.0)
        low, high, width = (
            round(min(100.0, 100 * max(0.0, end) / scale), 1)
            for end in (value - half, value + half, value)
        )
        bars.append(
            {
                "name": name,
                "ends": (low, high),
                "width": width,
                "text": percent(max(0.0, value), None if std is None else like),
                "noise": "noise not kept" if std is None else half_width(std, like),
            }
        )
    return bars


def _departures(analysis: SensitivityAnalysis) -> dict[str, Any]:
    """Return the shifts of values missing not at random at which conclusions change."""
    start = analysis.estimates[analysis.shifts.index(0.0)]
    shown = start.shown()
    stable = f"holds from {min(analysis.shifts):g} to {max(analysis.shifts):g}"
    turns = (stable if turn is None else f"{turn:+.2g}" for turn in analysis.tipping)
    columns = (shown[column] for column in ("estimate", "low", "high"))
    rows = [*zip(shown.index, *columns, turns, strict=True)]
    return {"of": analysis, "start": start, "rows": rows}


def _card(column: OneWay) -> dict[str, Any]:
    """Return the chart of one attribute."""
    shares, size = np.maximum(column.shares, 0.0), len(column.levels)
    shown = np.sort(np.argsort(-shares, kind="stable")[:_MAX_LEVELS])
    stds = [None] * size if column.stds is None else column.stds.tolist()
    rest = float(shares.sum() - shares[shown].sum())
    has_units = column.units and column.units.lower() not in column.label.lower()
    caption = [f"column {plain_text(column.name)}"] * (column.label != column.name)
    caption += [f"in {plain_text(column.units)}"] * bool(has_units)
    return {
        "name": column.label,
        "caption": ", ".join(caption),
        "bars": _bars(
            [column.levels[i] for i in shown], shares[shown].tolist(), [stds[i] for i in shown]
        ),
        "rest": f"{size - len(shown)} more levels: {percent(rest)}" if len(shown) < size else "",
    }


def _matrix(facts: ModelSummary) -> list[dict[str, Any]]:
    """Return rows of cells: strength in hundredths, shade, and whether it was measured.

    A relation that does not stand out from noise has an asterisk and no shade. A wide table has no
    matrix.
    """
    rows, strengths = [], facts.strengths
    if facts.is_wide:
        return []
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
    """Return the strongest pairs that stand out from noise, or whose noise is unknown."""
    pairs = [pair for pair, relation in facts.pairs.items() if relation.clear is not False]
    pairs = sorted(pairs, key=lambda p: -facts.strengths[p])[:_MAX_PAIRS]
    relations = [facts.pairs[pair] for pair in pairs]
    like = float(np.median([relation.std for relation in relations if relation.std] or [0.0]))
    return [
        {"pair": pair, "relation": relation, "like": like}
        for pair, relation in zip(pairs, relations, strict=True)
    ]


def _widths(facts: ModelSummary, column: OneWay) -> dict[str, Any]:
    """Return the parts of the interval of the share of an attribute's largest level."""
    assert column.stds is not None
    at = int(np.argmax(column.shares))
    chance = float(np.clip(column.shares[at], 0.0, 1.0))
    rows = chance * (1 - chance) / facts.rows
    missing = min(max(column.missing, 0.0), 0.999)
    parts = np.array([float(column.stds[at]) ** 2, rows, rows * missing / (1 - missing)])
    total = max(float(parts.sum()), _MIN_SCALE**2)
    ends = np.round(100 * np.cumsum(parts) / total, 1)
    return {
        "name": column.label,
        "level": column.levels[at],
        "half": half_width(math.sqrt(total)),
        "ends": [0.0, *ends.tolist()],
        "parts": [f"{100 * part / total:.0f} %" for part in parts],
    }
