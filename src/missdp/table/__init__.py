"""How files and frames are read into private rows, and how rows are written.

* `read_files` (CSV, Parquet, Feather), `packages` (SPSS, Stata, SAS, Excel), `frames` (pandas,
  polars, Arrow): what holds cells. `streams`: all of them as batches of rows.
* `cells`: a cell as text, number, date, true or false, or missing; `encode`: its code, by the
  schema. `follow`: rules applied to a row. `units`: rows chosen and weighed by unit.
* `table`: rows in memory. ``written``: rows as files and frames. `draft`: a first schema.
"""

from missdp.exports import exported
from missdp.table.draft import Draft as Draft
from missdp.table.draft import draft_columns as draft_columns
from missdp.table.draft import draft_schema as draft_schema
from missdp.table.encode import Holes as Holes
from missdp.table.encode import Values as Values
from missdp.table.encode import check_holes as check_holes
from missdp.table.memory import memory_limit as memory_limit
from missdp.table.streams import FileRows as FileRows
from missdp.table.streams import PartRows as PartRows
from missdp.table.streams import RelationRows as RelationRows
from missdp.table.streams import RowStream as RowStream
from missdp.table.table import Table as Table
from missdp.types import FrameKind as FrameKind

__all__ = exported(globals())
