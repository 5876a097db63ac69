"""Reading of files and frames into private rows, and writing of rows.

* `read_files` (CSV, Parquet, Feather), `packages` (SPSS, Stata, SAS, Excel) and `frames` (pandas,
  polars, Arrow) read cells. `rows` presents all inputs as batches of rows.
* `cells` makes one text of a cell, `encode` its code by the schema, and `decode` a cell of a code.
  `follow` applies rules to rows. `units` samples and weights rows by unit.
* `table` holds rows in memory. ``written`` writes files. ``draft`` proposes a first schema.
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
    """Import the names of drafts at their first use. No release needs them."""
    if name in _DRAFTS:
        return getattr(importlib.import_module("missdp.table.draft"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
