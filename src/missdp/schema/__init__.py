"""Public facts about columns and rows."""

from missdp.schema.attributes import Attribute, Categorical, Level, Ordinal
from missdp.schema.denial import Denial, PairDenial, read_denials
from missdp.schema.numeric import AnyAttribute, Numeric
from missdp.schema.rules import Determined, Equation, Impossible, NotApplicable, Order, Rule
from missdp.schema.schema import Schema

__all__ = [
    "AnyAttribute",
    "Attribute",
    "Categorical",
    "Denial",
    "Determined",
    "Equation",
    "Impossible",
    "Level",
    "NotApplicable",
    "Numeric",
    "Order",
    "Ordinal",
    "PairDenial",
    "Rule",
    "Schema",
    "read_denials",
]
