"""Differential privacy for the tables people really have: the ones with holes."""

from missdp.schema import Categorical, Numeric, Ordinal, Schema
from missdp.table import Table

__all__ = ["Categorical", "Numeric", "Ordinal", "Schema", "Table"]
