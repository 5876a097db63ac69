"""Pages for people: the report and what stands beside it, made by Jinja from templates.

Names and other text that missdp did not write are escaped, for HTML or for Markdown.
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
from missdp.accounting.events import ROW
from missdp.errors import UnprovenError, import_optional
from missdp.estimate import SensitivityAnalysis
from missdp.governance.facts import (
    TEMPLATES,
    Facts,
    Gaps,
    OneWay,
    half_width,
    plain,
    share,
    short,
    template,
)
from missdp.governance.measurements import KINDS
from missdp.words import printed, sentences

_LONG = 600  # characters of what people say of a release
_MOST_LEVELS = 24  # of an attribute; the others are added up
_LIKELY = 1e-3  # from here on nothing speaks against chance
_PAIRS = 15  # that are listed
_TIMES = 1.96  # standard deviations, of a 95 % interval
_SHADES = 6
_LEAST = 1e-12


def pages(
    facts: Facts,
    about: Mapping[str, str],
    *,
    analyses: Iterable[SensitivityAnalysis],
    **said: Any,
) -> dict[str, bytes]:
    """Return the pages of a release, by their names; ``about`` is what people say of it.

    What is ``said`` goes to all of them: its id in words, the ledger's line, our version.
    """
    common = _common(facts) | said
    return {
        "report.html": _page("report.html", common, _report(facts, about, analyses)),
        "registry.yaml": _page("registry.yaml", common, _registry(facts, about)),
        "answers.md": _page("answers.md", common, _escaped(common, about)),
        "how-to-use.md": _page("how-to-use.md", common, _escaped(common, about)),
    }


def _page(name: str, common: Mapping[str, Any], own: Mapping[str, Any]) -> bytes:
    text: str = template(name).render({**common, **own})
    return text.encode("utf-8")


def _common(facts: Facts) -> dict[str, Any]:
    """Return what all pages show."""
    model, guarantee = facts.model, facts.model.guarantee_
    kinds = {type(c) for c in guarantee.conditions}
    noise = [one.std for one in facts.relations if one.std is not None and len(one.names) == 2]
    std = float(np.median(noise or [0.0]))
    # With weights the number of rows is not released: an effective size stands for it.
    effective = model.fitted_.size is not None and model.fitted_.size.weight is not None
    rows = "effective rows" if effective else "rows"
    try:
        risk = plain(" ".join(str(guarantee.explain()).split()), None)
    except UnprovenError:  # delta is too large for exceptions that seldom
        risk = sentences(guarantee)[2]
    return {
        "guarantee": guarantee,
        "unit": plain(guarantee.unit),
        "epsilon": printed(guarantee.epsilon),
        "delta": printed(guarantee.delta),
        "delta_rows": f"{guarantee.delta * facts.rows:.1g}",
        "sentences": [plain(sentence, None) for sentence in sentences(guarantee)],
        "conditions": [plain(_labelled(c, facts).statement(), None) for c in guarantee.conditions],
        "seeded": ExplicitSeed in kinds,
        "declared_rows": DeclaredRowCount in kinds,
        "public_domain": PublicDomain in kinds,
        "rows": facts.rows,
        "effective": effective,
        "columns": len(facts.schema),
        "measured": facts.measured,
        "estimates": facts.measured and not model.applied_strategy.fills,
        "size": model.fitted_.size,
        "left_out": plain(model.left_out_, None),
        "mostly_noise": facts.mostly_noise,
        "cell_noise": f"{short(float(f'{std * facts.rows:.2g}'))} {rows} ({share(std, std)} of all)"
        if std
        else "a size not kept",
        "family": type(model).__name__,
        "strategy": model.fitted_.parameters["missing"],
        "risk": risk,
        "kinds": KINDS,
    }


def _labelled(condition: Condition, facts: Facts) -> Condition:
    """Return a condition that calls attributes by their labels."""
    named = {}
    for field in fields(condition):
        names = getattr(condition, field.name)
        if type(names) is tuple and names and all(name in facts.labels for name in names):
            named[field.name] = tuple(facts.labels[name] for name in names)
    return replace(condition, **named) if named else condition


def _registry(facts: Facts, about: Mapping[str, str]) -> dict[str, Any]:
    """Return what a draft of an entry in the registry of deployments shows."""
    # Its fields are those of github.com/opendp/deployments-registry-data.
    events = facts.model.guarantee_.events
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in about["title"].lower())
    currency = getattr(getattr(events[0], "cost", None), "currency", "") if events else ""
    return {
        "about": about,
        "slug": "-".join(words.split())[:80] or "todo",
        "currency": currency,
    }


def _escaped(common: Mapping[str, Any], about: Mapping[str, str]) -> dict[str, Any]:
    """Return what others wrote, as Markdown shows it."""
    names = ["conditions", "release"]
    if common["unit"] != ROW:  # whose name is somebody's, and stands in what is said of it
        names += ["unit", "risk", "left_out", "sentences"]
    found: dict[str, Any] = {"about": {key: _in_markdown(text) for key, text in about.items()}}
    for name in names:
        one = common[name]
        found[name] = _in_markdown(one) if isinstance(one, str) else [*map(_in_markdown, one)]
    return found


# Dots between words, as in addresses, become links in some dialects; those of numbers do not.
_MARKDOWN = re.compile(
    r"([\\`*_{}\[\]<>|~&$@]|:(?=//)|(?<=[^\W\d])\.(?=[\w-])|(?<=\w)\.(?=[^\W\d]|-))"
)


def _in_markdown(text: object) -> str:
    r"""Return a text that Markdown shows as it is, without links.

    >>> print(_in_markdown("<b>[0.5](http://www.1x) www.-y.de"))
    \<b\>\[0.5\](http\://www\.1x) www\.-y\.de
    """
    return _MARKDOWN.sub(r"\\\1", plain(text, None))


def _report(
    facts: Facts, about: Mapping[str, str], analyses: Iterable[SensitivityAnalysis]
) -> dict[str, Any]:
    """Return what the report shows beside what all pages do: one file, which loads nothing."""
    markup = import_optional("markupsafe", purpose="reports and dossiers").Markup
    script, style = (
        (TEMPLATES / f"report.{kind}").read_text(encoding="utf-8") for kind in ("js", "css")
    )
    size = facts.model.fitted_.size
    measured = sum(r.how == "measured" for r in facts.relations if len(r.names) == 2)
    pairs, std = math.comb(len(facts.names), 2), float(facts.model.n_rows_std_)
    digits = max(0, math.floor(math.log10(std))) if std > 0 else 0  # that noise does not hide
    nullable = sorted((c for c in facts.columns if c.nullable), key=lambda c: -c.missing)
    nullable = nullable if facts.keeps_gaps else []
    return {
        "about": {key: plain(text, _LONG) for key, text in about.items()},
        "script": markup(script),
        "style": markup(style),
        "hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "tiles": {
            "row_count": f"{int(round(facts.rows, -digits)):,}",
            "row_noise": f"± {math.ceil(_TIMES * std):,}, noise" if std else "declared public",
            "effective": "" if size is None else f"{round(size.units):,}",
            "nullable": len(facts.schema.nullable),
            "measured": f"{measured:,}",
            "pairs": f"{pairs:,}",
            "all": measured == pairs,
        },
        "rates": _bars(
            [c.label for c in nullable],
            [c.missing for c in nullable],
            [c.missing_std for c in nullable],
        ),
        "keeps_gaps": facts.keeps_gaps,
        "gaps": [_gaps(facts, one) for one in facts.gaps],
        "together": [
            {
                "names": _labels(facts, a, b),
                "rate": share(rate, noise),
                "noise": "modelled" if noise is None else half_width(noise),
                "alone": share(alone, noise),
            }
            for a, b, rate, alone, noise in facts.together[:_PAIRS]
        ],
        "cards": [_card(column) for column in facts.columns],
        "follows": [plain(facts.labels[n]) for n in facts.schema.names if n not in facts.names],
        "rules": [plain(_rule(r.rule, facts.labels), 200) for r in facts.relations if r.rule],
        "matrix": _matrix(facts),
        "strongest": _strongest(facts),
        "unclear": sum(one.clear is False for one in facts.pairs.values()),
        "widths": [_widths(facts, column) for column in facts.columns if column.stds is not None],
        "departures": [_departures(analysis, facts.labels) for analysis in analyses],
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


def _labels(facts: Facts, a: int, b: int) -> str:
    return " and ".join(plain(facts.columns[at].label) for at in (a, b))


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
        noise = "noise not kept" if std is None else half_width(std, like)
        text = share(max(0.0, value), None if std is None else like)
        found.append(
            {"name": plain(name), "width": width, "low": low, "high": high, "text": text}
            | {"noise": noise}
        )
    return found


def _departures(found: SensitivityAnalysis, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return where conclusions turn if values are missing because of what they are."""
    start = found.estimates[found.shifts.index(0.0)]
    shown = start.shown()
    rows = zip(shown.index, *(shown[c] for c in ("estimate", "low", "high")), strict=True)
    held = f"holds from {min(found.shifts):g} to {max(found.shifts):g}"
    turns = (held if turn is None else f"{turn:+.2g}" for turn in found.tipping)
    return {
        "question": plain(start.question, 200),
        "attribute": plain(labels[found.attribute]),
        "deviation": short(found.deviation),
        "rows": [
            (plain(label), value, f"{low} to {high}", turn)
            for (label, value, low, high), turn in zip(rows, turns, strict=True)
        ],
        "flags": [plain(flag, None) for flag in found.estimates[0].flags],
    }


def _gaps(facts: Facts, one: Gaps) -> dict[str, Any]:
    """Return at which levels of another attribute a value is missing least, and most."""

    def end(level: str, rate: float, std: float | None) -> str:
        noise = "" if std is None else f" {half_width(std)}"
        return f"{share(rate, std)}{noise} where it is {plain(level, 40)}"

    chance = "none is clear"
    if one.chance is None:
        chance = "modelled" if one.low[2] is None else "not worked out: rows belong together"
    elif one.chance < _LIKELY:
        chance = f"strong: p < 1e{max(math.ceil(math.log10(one.chance + 1e-12)), -12)}"
    name, by = (plain(facts.columns[at].label) for at in (one.at, one.by))
    return {"name": name, "by": by, "ends": (end(*one.low), end(*one.high)), "p": chance}


def _card(column: OneWay) -> dict[str, Any]:
    """Return the picture of one attribute."""
    shares, size = np.maximum(column.shares, 0.0), len(column.levels)
    kept = np.sort(np.argsort(-shares, kind="stable")[:_MOST_LEVELS])
    stds = [None] * size if column.stds is None else column.stds.tolist()
    rest = float(shares.sum() - shares[kept].sum())
    own = column.label != column.name
    told = not column.units or column.units.lower() in column.label.lower()
    known = (f"column {column.name}" if own else "", "" if told else f"in {column.units}")
    return {
        "name": plain(column.label),
        "caption": ", ".join(plain(part) for part in known if part),
        "bars": _bars(
            [column.levels[i] for i in kept], shares[kept].tolist(), [stds[i] for i in kept]
        ),
        "rest": f"{size - len(kept)} more levels: {share(rest)}" if len(kept) < size else "",
    }


def _matrix(facts: Facts) -> list[dict[str, Any]]:
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
        label = plain(facts.labels[name])
        rows.append({"name": label, "total": total, "cells": cells})
    return rows


def _strongest(facts: Facts) -> list[dict[str, str]]:
    """Return the strongest pairs, of those that stand out from noise as far as it is known."""
    pairs = [pair for pair, one in facts.pairs.items() if one.clear is not False]
    pairs = sorted(pairs, key=lambda p: -facts.strengths[p])[:_PAIRS]
    shown = [facts.pairs[pair] for pair in pairs]
    like = float(np.median([one.std for one in shown if one.std] or [0.0]))
    return [
        {
            "names": _labels(facts, *pair),
            "strength": f"{facts.strengths[pair]:.2f}",
            "how": one.how,
            "noise": "not kept" if one.std is None else half_width(one.std, like),
        }
        for pair, one in zip(pairs, shown, strict=True)
    ]


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
