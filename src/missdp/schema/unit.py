"""Who is protected where several rows may belong together: a patient, a customer, a household."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from missdp.errors import SchemaError
from missdp.record import COUNT_FROM_1, Record

MissingUnit = Literal["drop", "refuse", "own"]
"""What becomes of rows without an identifier: left out, a reason to refuse, each on its own."""

UNIT_FACTS: Final = {
    "unit": "column", "max_rows": "max_rows",
    "missing_unit": "missing", "unit_missing_codes": "missing_codes",
}  # fmt: skip
"""What people write in a schema, and what a `Unit` calls it."""

_MOST_ROWS: Final = 1_000_000


@dataclass(frozen=True)
class Unit(Record):
    """The unit of protection: all rows that have the same identifier belong to one unit.

    The column of identifiers is read to know which rows belong together. It is never modelled, and
    no identifier leaves.

    Parameters
    ----------
    column : str
        Name of the column of identifiers. It is no attribute of the schema.
    max_rows : int, default 1
        How many rows of a unit take part at most, from 1 to 1,000,000. Of a unit with more, so many
        are chosen at random. The noise grows in proportion to it.
    missing : {"drop", "refuse", "own"}, default "drop"
        What becomes of rows without an identifier. ``"own"`` counts each as a unit of its own, and
        the guarantee then rests on the condition that no two of them belong together.
    missing_codes : tuple of str, default ()
        Identifiers that stand for none, such as ``"NA"``. Null and empty ones always do.

    Raises
    ------
    SchemaError
        If a parameter is none of these.

    Examples
    --------
    >>> from missdp.schema import Unit
    >>> Unit("patient_id", max_rows=5)
    Unit(column='patient_id', max_rows=5, missing='drop', missing_codes=())
    """

    column: str
    max_rows: int = field(default=1, metadata=COUNT_FROM_1)
    missing: MissingUnit = "drop"
    missing_codes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.column, str) and self.column):
            raise SchemaError("unit must be the name of a column")
        if self.max_rows > _MOST_ROWS:
            raise SchemaError(f"max_rows must be at most {_MOST_ROWS:,}")
        if self.missing not in get_args(MissingUnit):
            raise SchemaError(f"missing_unit must be one of {', '.join(get_args(MissingUnit))}")
        object.__setattr__(self, "missing_codes", tuple(self.missing_codes))
        if not all(isinstance(code, str) for code in self.missing_codes):
            raise SchemaError("unit_missing_codes must be texts")

    def said(self) -> dict[str, Any]:
        """Return the facts as people write them, without those that are as by default."""
        facts = {name: getattr(self, ours) for name, ours in UNIT_FACTS.items()}
        return {name: fact for name, fact in facts.items() if fact not in ((), "drop")}


def unit_said(data: Mapping[str, Any]) -> Unit | None:
    """Return the unit that a document of ours, or what people write, declares; None if none."""
    if isinstance(data.get("unit"), Mapping):
        return Unit.from_dict(data["unit"])
    given = {ours: data[name] for name, ours in UNIT_FACTS.items() if data.get(name) is not None}
    if given and "column" not in given:
        raise SchemaError(f"{', '.join([*UNIT_FACTS][1:])} are facts about a 'unit'")
    return Unit(**given) if given else None


def refuse_units(unit: Unit | None, what: str) -> None:
    """Refuse a unit where each row is taken by itself.

    Raises
    ------
    SchemaError
        It says what to do instead.
    """
    if unit is not None:
        raise SchemaError(
            f"{what} takes each row by itself, and the schema declares that all rows of one "
            f"{unit.column!r} belong together: fit AllPairs, AIM or MST, or leave the unit out of "
            "the schema if single rows are what is to be protected"
        )
