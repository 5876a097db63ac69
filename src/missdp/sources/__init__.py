"""Sources: exact, private counts of many cliques in one pass. They never add noise."""

from missdp.aliases import moved_from
from missdp.sources.counts import (
    Clique,
    Counts,
    MarginalSource,
    MemorySource,
    Reads,
    Rows,
    RowWeight,
    readable,
    weighing,
)
from missdp.sources.strategies import STRATEGIES, Strategy, is_source, open_source, strategy_named
from missdp.sources.streamed import DuckDBSource

__all__ = [
    "STRATEGIES",
    "Clique",
    "Counts",
    "DuckDBSource",
    "MarginalSource",
    "MemorySource",
    "Reads",
    "RowWeight",
    "Rows",
    "Strategy",
    "is_source",
    "open_source",
    "readable",
    "strategy_named",
    "weighing",
]

__getattr__ = moved_from(__name__)
