"""The HTML page of each step."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from missdp.app.jobs import shown
from missdp.app.schema_rows import FIELDS, KINDS, LATER, RULES, TICKS, form_part, texts
from missdp.app.workspace import GRID, STEPS, Workspace
from missdp.errors import import_optional
from missdp.schema.edits import SchemaText

_METHODS = ("all-pairs", "aim", "mst", "privbayes", "kamino")
_STRATEGIES = {
    "": "automatic: joint, if the method has it",
    "joint": "joint: synthetic cells can be missing, too",
    "observed": "observed: a table counts all rows that have its cells",
    "complete-rows": "complete-rows: rows with a missing cell are left out",
    "impute-first": "impute-first: missing cells are filled at a cost",
}


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
    made.filters |= {"digits": _digits, "shown": shown}
    # Drafts advise to edit the file.
    advice = r"(To protect all|If this column has survey).*"
    made.filters["advice"] = lambda text: re.sub(advice, "Choose its kind below.", text)
    # Lines that were wrapped for a terminal are joined.
    made.filters["prose"] = lambda text: re.sub(r"(?<![.:])\n(?!- )\s*", " ", text)
    made.globals |= {"steps": STEPS, "grid": GRID, "kinds": KINDS, "fields": FIELDS, "ticks": TICKS}
    made.globals["words"] = {kind: facts[0] for kind, facts in KINDS.items() if kind != "file"}
    made.globals |= {"rules": RULES, "later": LATER}
    made.globals["strategies"] = _STRATEGIES
    made.globals["methods"] = {"": "automatic"} | {one: one for one in _METHODS}
    return made


def page(space: Workspace, step: str) -> str:
    """Return the HTML of a step."""
    space.refresh()
    with space.lock:
        tables = space.schema.tables if step == "schema" else []
        parts = [(k, one, texts(one, form_part(space.typed, k))) for k, one in enumerate(tables)]
        context: dict[str, Any] = {"space": space, "step": step, "rows": parts}
        context |= {"folder": Path.cwd(), "results": defaultdict(dict, space.results)}
        if step in ("schema", "release"):
            context["obstacles"] = _obstacles(space.schema)
        return str(_environment().get_template("page.html").render(context))


@lru_cache(maxsize=2)
def _obstacles(text: SchemaText) -> list[str]:
    """Return the reasons why a schema would stop a release. The last schemas are remembered."""
    from missdp.governance.obstacles import release_obstacles

    return list(release_obstacles(text.checked[0])) if text.toml else []


def _digits(value: float | None) -> str:
    """Return a number with three digits, or a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
