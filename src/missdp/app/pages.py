"""The HTML page of each step."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from missdp.app.jobs import shown
from missdp.app.schema_rows import FILE_ROW, Row, facts_of
from missdp.app.workspace import GRID, STEPS, Workspace
from missdp.errors import MissDPError, import_optional
from missdp.session.strategies import STRATEGIES

_TITLES = dict(zip(STEPS, ("Data", "Schema", "Plan", "Release", "Look"), strict=True))
_KINDS = {
    "categorical": "levels without an order",
    "ordinal": "levels in an order",
    "numeric": "numbers",
    "date": "dates",
    "datetime": "dates with a time",
    "open": "text, with levels that the release finds",
    "difference": "time between two dates",
    "unit": "identifier of a person with several rows",
    "weight": "survey weight",
    "key": "identifier of a row: never read",
    "ignore": "never read",
}
"""Kinds of columns in words."""
_SHOWN = 5  # levels that the summary of a column shows
_METHODS = ("all-pairs", "aim", "mst", "privbayes", "kamino")


@lru_cache(maxsize=1)
def _environment() -> Any:
    jinja2 = import_optional("jinja2", purpose="pages in the browser")
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {"digits": _digits, "shown": shown, "pair": lambda name: (name, name)}
    # Lines that were wrapped for a terminal are joined.
    made.filters["prose"] = lambda text: re.sub(r"(?<![.:])\n(?!- )\s*", " ", text)
    made.filters["names"] = lambda text: re.findall("'([^']+)'", text)
    made.filters["summary"] = _summary
    return made


def page(space: Workspace, step: str) -> str:
    """Return the HTML of a step."""
    space.refresh()
    context: dict[str, Any] = {"space": space, "step": step, "steps": _TITLES, "kinds": _KINDS}
    context |= {"methods": _METHODS, "strategies": [*STRATEGIES], "grid": GRID}
    context |= {"facts_of": facts_of, "file_row": FILE_ROW, "folder": Path.cwd()}
    context["obstacles"] = space.obstacles() if step in ("schema", "release") else []
    if step == "schema" and space.schema is not None:
        rows = sorted(space.schema.rows, key=lambda row: space.places[row.name])
        context["rows"] = [_typed(row, space.typed.get(row.name, {})) for row in rows]
    if step == "plan" and space.plan:
        from missdp.governance import Plan  # slow to import

        facts = {name: fact for name, fact in space.plan.items() if name != "warnings"}
        context |= {"planned": _planned(space), "noise": Plan.from_dict(facts).mostly_noise}
    if step == "look" and space.guarantee:
        context["promise"] = _promise(space)
        context["pictures"] = [_picture(answer) for answer in space.answers]
    with space.lock:
        return str(_environment().get_template("page.html").render(context))


def _typed(row: Row, form: Any) -> tuple[Row, dict[str, str]]:
    """Return a row with the texts of its form, as typed or as stored."""
    kind = form.get("kind", row.kind)
    texts = {name: row.text(name) if kind == row.kind else "" for name in facts_of(kind)}
    texts |= {name: form.get(name, "") for name in facts_of(kind)} if "text" in form else {}
    return row, {**texts, "kind": kind, "public": form.get("public", row.public)}


def _planned(space: Workspace) -> list[dict[str, Any]]:
    """Return the numbers of each planned budget, with the meaning for one person."""
    largest = dict.fromkeys(("one_way", "fitted", "clear"), 1e-09)
    for one in space.plan["planned"]:
        for key in largest:
            largest[key] = max(largest[key], one[key] or 0.0)
    rows = space.plan["rows"]
    result = []
    for one in space.plan["planned"]:
        bars = {k: 100 * (one[k] or 0.0) / top for k, top in largest.items()}
        noise = None if one["one_way"] is None else 200 * one["one_way"] / rows
        result.append({**one, "bars": bars, "noise": noise, "risk": _risk(space, one["epsilon"])})
    return result


def _risk(space: Workspace, epsilon: float) -> str:
    """Return the meaning of a planned budget for one person, in words."""
    if space.schema is None:
        return ""
    given = {name: space.form("plan", name).strip() for name in ("method", "delta")}
    return _risk_in_words(space.schema.toml, epsilon, space.plan["method"], given["delta"])


@lru_cache(maxsize=64)
def _risk_in_words(toml: str, epsilon: float, method: str, delta: str) -> str:
    from missdp.schema import Schema
    from missdp.synth.registry import synthesizer_named

    more: dict[str, Any] = {"delta": float(delta)} if delta else {}
    try:
        model = synthesizer_named(method)(epsilon=epsilon, **more)
        return str(model.planned_parts(Schema.from_toml_text(toml))[0].explain())
    except MissDPError as error:
        return str(error)


def _promise(space: Workspace) -> str:
    """Return the guarantee of the release in words."""
    from missdp.accounting import Guarantee

    return Guarantee.from_dict(space.guarantee).in_words()


def _picture(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the estimates of an answer with the places of their intervals in a picture."""
    ends = [end for pair in answer["intervals"] for end in pair if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    width = (high - low) or 1.0

    def place(value: float | None) -> float:
        return 0.0 if value is None else 4 + 92 * (value - low) / width

    rows = zip(answer["labels"], answer["estimate"], answer["intervals"], strict=True)
    lines = [
        {"label": label or answer["question"], "estimate": e, "low": lo, "high": hi}
        | {"at": place(e), "from": place(lo), "to": place(hi)}
        for label, e, (lo, hi) in rows
    ]
    return {**answer, "lines": lines}


def _digits(value: float | None) -> str:
    """Return a number with three digits, or a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _summary(row: Row) -> str:
    """Return the domain of a column in a few words."""
    levels = row.facts.get("levels")
    parts = []
    if isinstance(levels, list):
        more = f" and {len(levels) - _SHOWN} more" if len(levels) > _SHOWN else ""
        parts.append(", ".join(map(str, levels[:_SHOWN])) + more)
    elif "lower" in row.facts and "upper" in row.facts:
        parts.append(f"{row.text('lower')} to {row.text('upper')}")
    if row.facts.get("nullable"):
        parts.append("may be missing")
    return ". ".join(parts)
