"""Which tables may have all their cells filled: those in which every attribute always applies."""

from __future__ import annotations

from typing import Any

from missdp.errors import SchemaError
from missdp.schema.bound import not_everywhere
from missdp.table import Table

__all__ = ["check_fillable"]


def check_fillable(values: Any) -> None:
    """Refuse a table with an attribute that is not applicable to some rows; reads no cell.

    Imputations, and estimators that count a missing cell as 0, give every cell a number. Where
    there is nothing to ask for, that number would be invented. What is no `Table` passes.

    Raises
    ------
    SchemaError
        The message says what to do.

    Examples
    --------
    >>> from missdp import Numeric, Schema
    >>> schema = Schema((Numeric(name="hours", lower=0, upper=80, not_applicable=(-1,)),))
    >>> check_fillable(Table.from_codes(schema, {"hours": [0, 1]}))
    Traceback (most recent call last):
        ...
    missdp.errors.SchemaError: 'hours' is not applicable to some rows, and preprocessing would fill...
    """  # noqa: E501
    if not isinstance(values, Table):
        return
    if names := not_everywhere(values.schema, values.schema.names):
        raise SchemaError(
            f"{', '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'} not applicable to "
            "some rows, and preprocessing would fill every cell that has no value. Leave such "
            "columns out (Table.subset), or take the fact 'not_applicable' and the rules that "
            "imply it out of the schema if they are to be filled like any hole"
        )
