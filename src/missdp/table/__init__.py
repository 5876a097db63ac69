"""How files and frames are read into private rows, and how rows are written.

* `read_files` (CSV, Parquet, Feather), `packages` (SPSS, Stata, SAS, Excel), `frames` (pandas,
  polars, Arrow): what holds cells. `rows`: all of them as batches of rows.
* `cells`: a cell as one text; `encode`: its code, by the schema; `decode`: a cell again. `follow`:
  rules applied to a row. `units`: rows chosen and weighed by unit.
* `table`: rows in memory. ``written``: rows as files and frames. `draft`: a first schema.
"""

import importlib
import typing

from missdp.exports import exported_names
from missdp.table.decode import MissingForm as MissingForm
from missdp.table.decode import Values as Values
from missdp.table.decode import check_missing_form as check_missing_form
from missdp.table.memory import memory_limit as memory_limit
from missdp.table.rows import Rows as Rows
from missdp.table.table import Table as Table
from missdp.types import FrameKind as FrameKind

if typing.TYPE_CHECKING:
    from missdp.table.draft import Draft as Draft
    from missdp.table.draft import draft_columns as draft_columns
    from missdp.table.draft import draft_schema as draft_schema

_DRAFTS = ("Draft", "draft_columns", "draft_schema")
__all__ = [*exported_names(globals()), *_DRAFTS]


def __getattr__(name: str) -> typing.Any:
    """Import the names of drafts when they are first asked for: no release needs them."""
    if name in _DRAFTS:
        return getattr(importlib.import_module("missdp.table.draft"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
