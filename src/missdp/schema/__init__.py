"""Public facts about columns and rows."""

from missdp.schema.attributes import Attribute, Categorical, Level, Ordinal
from missdp.schema.numeric import Numeric
from missdp.schema.rules import Determined, Equation, Impossible, NotApplicable, Order, Rule
from missdp.schema.schema import AnyAttribute, Schema

__all__ = [
    "AnyAttribute",
    "Attribute",
    "Categorical",
    "Determined",
    "Equation",
    "Impossible",
    "Level",
    "NotApplicable",
    "Numeric",
    "Order",
    "Ordinal",
    "Rule",
    "Schema",
]
