"""Sources: exact, private counts of many cliques in one pass. They never add noise."""

from missdp.sources.counts import (
    Clique,
    Counts,
    MarginalSource,
    MemorySource,
    Reads,
    Rows,
    readable,
    weighing,
)
from missdp.sources.duckdb import DuckDBSource
from missdp.sources.spark import SparkSource
from missdp.sources.strategies import STRATEGIES, Strategy, is_source, open_source, strategy_named

__all__ = [
    "STRATEGIES",
    "Clique",
    "Counts",
    "DuckDBSource",
    "MarginalSource",
    "MemorySource",
    "Reads",
    "Rows",
    "SparkSource",
    "Strategy",
    "is_source",
    "open_source",
    "readable",
    "strategy_named",
    "weighing",
]
