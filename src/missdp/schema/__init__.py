"""Public facts about columns."""

from missdp.schema.attributes import Attribute, Categorical, Level, Ordinal
from missdp.schema.schema import AnyAttribute, Numeric, Schema

__all__ = ["AnyAttribute", "Attribute", "Categorical", "Level", "Numeric", "Ordinal", "Schema"]
