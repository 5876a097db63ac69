"""Who counts: exact, private counts of many cliques in one pass. Sources never add noise."""

from missdp.sources.base import Clique, Counts, MarginalSource, Rows
from missdp.sources.duckdb import DuckDBSource
from missdp.sources.memory import MemorySource
from missdp.sources.open import is_source, open_source

__all__ = [
    "Clique",
    "Counts",
    "DuckDBSource",
    "MarginalSource",
    "MemorySource",
    "Rows",
    "is_source",
    "open_source",
]
