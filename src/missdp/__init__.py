"""Differential privacy for the tables people really have: the ones with holes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from missdp import aliases as _aliases  # noqa: F401 - the rooms of the last release

if TYPE_CHECKING:
    from missdp.accounting import Budget, Guarantee
    from missdp.baselines import DPCTGAN, DPAutoGAN, DPMisGAN, Kamino, PrivBayes
    from missdp.pricing import DPImputer
    from missdp.schema import Categorical, Numeric, Ordinal, Schema
    from missdp.synth import AIM, MST, AllPairs, load, synthesizers
    from missdp.table import Table

__version__ = "0.2.0"

__all__ = [
    "AIM",
    "DPCTGAN",
    "MST",
    "AllPairs",
    "Budget",
    "Categorical",
    "DPAutoGAN",
    "DPImputer",
    "DPMisGAN",
    "Guarantee",
    "Kamino",
    "Numeric",
    "Ordinal",
    "PrivBayes",
    "Schema",
    "Table",
    "__version__",
    "load",
    "synthesizers",
]

# Where the names above live. They are imported when they are first asked for, so that the command
# can be stopped quietly, and shows its help, before anything heavy is read.
_HOMES = {
    "AIM": "synth",
    "MST": "synth",
    "AllPairs": "synth",
    "Budget": "accounting",
    "Categorical": "schema",
    "DPAutoGAN": "baselines",
    "DPCTGAN": "baselines",
    "DPImputer": "pricing",
    "DPMisGAN": "baselines",
    "Guarantee": "accounting",
    "Kamino": "baselines",
    "Numeric": "schema",
    "Ordinal": "schema",
    "PrivBayes": "baselines",
    "Schema": "schema",
    "Table": "table",
    "load": "synth",
    "synthesizers": "synth",
}
_ROOMS = frozenset(
    {
        "accounting",
        "baselines",
        "datasets",
        "engines",
        "errors",
        "evaluate",
        "ground_truth",
        "inference",
        "mechanisms",
        "missingness",
        "preprocess",  # as `pricing` was called
        "pricing",
        "schema",
        "sources",
        "statistics",
        "synth",
        "table",
        "testing",
    }
)


def __getattr__(name: str) -> Any:
    """Import a name, or a room of the house (e.g. ``missdp.evaluate``), when first asked for."""
    if name in _HOMES:
        found = getattr(import_module(f"missdp.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    if name in _ROOMS:
        return import_module(f"missdp.{name}")
    raise AttributeError(f"module 'missdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS})
