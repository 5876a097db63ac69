"""Differential privacy for the tables people really have: the ones with holes."""

from importlib import import_module
from types import ModuleType

from missdp.accounting import Budget, Guarantee
from missdp.schema import Categorical, Numeric, Ordinal, Schema
from missdp.synth import AIM, MST, PrivBayes
from missdp.table import Table

__version__ = "0.1.0"

__all__ = [
    "AIM",
    "MST",
    "Budget",
    "Categorical",
    "Guarantee",
    "Numeric",
    "Ordinal",
    "PrivBayes",
    "Schema",
    "Table",
    "__version__",
]

_ROOMS = frozenset(
    {
        "accounting",
        "datasets",
        "evaluate",
        "knn",
        "mechanisms",
        "missingness",
        "pipelines",
        "sources",
        "synth",
        "transforms",
    }
)


def __getattr__(name: str) -> ModuleType:
    """Import a room of the house when it is first asked for, e.g. ``missdp.evaluate``."""
    if name in _ROOMS:
        return import_module(f"missdp.{name}")
    raise AttributeError(f"module 'missdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
