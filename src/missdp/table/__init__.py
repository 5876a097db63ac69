"""Private rows as codes and masks, and the one door through which data comes in."""

from missdp.table.decode import Holes, check_holes
from missdp.table.draft import Draft, draft_columns, draft_schema
from missdp.table.frames import FrameKind
from missdp.table.table import Table

__all__ = ["Draft", "FrameKind", "Holes", "Table", "check_holes", "draft_columns", "draft_schema"]
