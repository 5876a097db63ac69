"""Private rows as codes and masks, and the one door through which data comes in."""

from missdp.table.draft import draft_schema
from missdp.table.frames import FrameKind
from missdp.table.table import Table

__all__ = ["FrameKind", "Table", "draft_schema"]
