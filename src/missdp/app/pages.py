"""The HTML page of each step."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from missdp.app.schema_rows import FIELDS, KINDS, LATER, RULES, TICKS, form_part, texts
from missdp.app.workspace import STEPS, Workspace
from missdp.schema.edits import FileTable, SchemaText

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
    from missdp.governance.rendering import environment

    made = environment(Path(__file__).parent / "templates")
    # Drafts advise to edit the file.
    advice = r"(To protect all|If this column has survey).*"
    made.filters["advice"] = lambda text: re.sub(advice, "Choose its kind below.", text)
    # Lines that were wrapped for a terminal are joined.
    made.filters["prose"] = lambda text: re.sub(r"(?<![.:])\n(?!- )\s*", " ", text)
    made.filters["fact"] = lambda name: FIELDS[name].label.lower() if name in FIELDS else name
    made.globals |= {"steps": STEPS, "kinds": KINDS, "fields": FIELDS, "ticks": TICKS}
    made.globals["words"] = {kind: facts[0] for kind, facts in KINDS.items() if kind != "file"}
    made.globals |= {"rules": RULES, "later": LATER, "strategies": _STRATEGIES}
    made.globals["methods"] = {"": "automatic"} | {one: one for one in _METHODS}
    return made


def page(space: Workspace, step: str) -> str:
    """Return the HTML of a step."""
    space.refresh()
    with space.lock:
        context: dict[str, Any] = {"space": space, "step": step, "folder": Path.cwd()}
        context["results"] = defaultdict(dict, space.results)
        lines = [line for key, line in space.commands.items() if key.startswith(f"{step}/")]
        context["commands"] = list(dict.fromkeys(lines))
        if step == "schema":
            context["rows"] = _rows(space)
            context["obstacles"] = _obstacles(space.schema)
        return str(_environment().get_template("page.html").render(context))


def _rows(space: Workspace) -> list[tuple[int, FileTable, dict[str, str], bool]]:
    """Return the place, table and texts of each row of the schema, and whether it is unfinished.

    Facts from the data and unsaved changes are unfinished. Unfinished rows come first.
    """
    rows = []
    for place, table in enumerate(space.schema.tables):
        form = texts(table, form_part(space.typed, place))
        rows.append((place, table, form, bool(table.marks) or form != texts(table, {})))
    return sorted(rows, key=lambda row: not row[-1])


@lru_cache(maxsize=2)
def _obstacles(text: SchemaText) -> list[str]:
    """Return the reasons why a schema would stop a release. The last schemas are remembered."""
    from missdp.governance.obstacles import release_obstacles

    return list(release_obstacles(text.checked[0])) if text.toml else []
