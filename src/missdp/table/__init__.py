"""Private rows as codes and masks, and the one door through which data comes in."""

from missdp.aliases import moved_from
from missdp.table.draft import Draft, draft_columns, draft_schema
from missdp.table.encode import Holes, check_holes
from missdp.table.frames import FrameKind
from missdp.table.memory import memory_limit
from missdp.table.streams import FileRows, PartRows, RelationRows, RowStream
from missdp.table.table import Table

__all__ = [
    "Draft",
    "FileRows",
    "FrameKind",
    "Holes",
    "PartRows",
    "RelationRows",
    "RowStream",
    "Table",
    "check_holes",
    "draft_columns",
    "draft_schema",
    "memory_limit",
]

__getattr__ = moved_from(__name__)
