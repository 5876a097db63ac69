"""Differential privacy for the tables people really have: the ones with holes."""

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
