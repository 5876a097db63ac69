"""Public facts about columns."""

from missdp.schema.attributes import AnyAttribute, Attribute, Categorical, Level, Numeric, Ordinal
from missdp.schema.schema import Schema

__all__ = ["AnyAttribute", "Attribute", "Categorical", "Level", "Numeric", "Ordinal", "Schema"]
