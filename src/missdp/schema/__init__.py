"""Public facts about columns."""

from missdp.schema.attributes import Attribute, Categorical, Level, Ordinal
from missdp.schema.numeric import Numeric
from missdp.schema.schema import AnyAttribute, Schema

__all__ = ["AnyAttribute", "Attribute", "Categorical", "Level", "Numeric", "Ordinal", "Schema"]
