"""Who counts: exact, private counts of many cliques in one pass. Sources never add noise."""

from missdp.sources.base import Clique, Counts, MarginalSource, Rows
from missdp.sources.duckdb import DuckDBSource
from missdp.sources.memory import MemorySource
from missdp.sources.open import is_source, open_source
from missdp.sources.strategies import STRATEGIES, Strategy, strategy_named

__all__ = [
    "STRATEGIES",
    "Clique",
    "Counts",
    "DuckDBSource",
    "MarginalSource",
    "MemorySource",
    "Rows",
    "Strategy",
    "is_source",
    "open_source",
    "strategy_named",
]
