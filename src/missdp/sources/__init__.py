"""Who counts: exact, private counts of many cliques in one pass. Sources never add noise."""

from missdp.sources.base import MarginalSource, Rows
from missdp.sources.duckdb import DuckDBSource
from missdp.sources.memory import MemorySource
from missdp.sources.open import open_source

__all__ = ["DuckDBSource", "MarginalSource", "MemorySource", "Rows", "open_source"]
