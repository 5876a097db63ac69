"""Made-up tables with holes, and neighbours of them. Nothing here is private.

What is checked: a family with parameters and a strategy, and the tables it is run on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError
from missdp.schema import Categorical, Numeric, Schema
from missdp.sources import MemorySource
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.table.encode import Column
from missdp.testing.record import Recorder

__all__ = [
    "SCHEMA",
    "TINY",
    "Guarded",
    "Run",
    "Subject",
    "appended",
    "canary",
    "constant",
    "frame_of",
    "is_run",
    "made_up",
    "name_of",
    "neighbours",
    "subjects",
    "with_a_hole",
]


# Names and levels of several kinds, one attribute without holes.
SCHEMA = Schema(
    (
        Categorical(name="größe", levels=("S", "M", "L"), nullable=True),
        Numeric(name="alter", lower=0, upper=99, integer=True, bins=5, nullable=True),
        Categorical(name="ok", levels=(False, True), nullable=True),
        Numeric(name="score", lower=0, upper=1, bins=4),
    )
)
# Two attributes, whose second level is rare: where audits look for one row.
TINY = Schema(
    tuple(Categorical(name=n, levels=("common", "rare"), nullable=True) for n in ("x", "y"))
)
Codes = dict[str, NDArray[np.int64]]


def made_up(schema: Schema, n: int, seed: int = 0, *, holes: float = 0.2) -> Table:
    """Return a table whose attributes depend on each other, with holes at random.

    Parameters
    ----------
    schema : Schema
    n : int
        Number of rows.
    seed : int, default 0
    holes : float, default 0.2
        Share of missing cells of each nullable attribute.

    Examples
    --------
    >>> len(made_up(SCHEMA, 7))
    7
    """
    rng = np.random.default_rng(seed)
    hidden = rng.random(n)
    codes: Codes = {}
    for attribute in schema:
        near = np.clip(hidden + 0.3 * rng.standard_normal(n), 0, 1 - 1e-9)
        cells = (near * attribute.size).astype(np.int64)
        if attribute.nullable:
            cells[rng.random(n) < holes] = attribute.missing_code
        codes[attribute.name] = cells
    return Table.from_codes(schema, codes).with_values(rng)


def constant(schema: Schema, n: int, *, missing: bool = False) -> Table:
    """Return a table of equal rows: all first levels, or nothing but holes where they may be."""
    codes = {
        a.name: np.full(n, a.missing_code if missing and a.nullable else 0, dtype=np.int64)
        for a in schema
    }
    return Table.from_codes(schema, codes).with_values(np.random.default_rng(0))


def canary(schema: Schema, n: int) -> tuple[Table, Table]:
    """Return a crowd of equal rows, and the crowd with one row that differs in every attribute.

    That row moves every count that reads it in a cell of its own, whatever is counted: what an
    attacker hopes for.
    """
    crowd = constant(schema, n)
    row = {a.name: np.array([a.size - 1]) for a in schema}
    return crowd, appended(crowd, row)


def appended(table: Table, row: Codes) -> Table:
    """Return the table with one row more, the last; the others keep their values, too."""
    one = Table.from_codes(table.schema, row).with_values(np.random.default_rng(0))
    columns = {name: _joined(table, one, name) for name in table.schema.names}
    return Table(table.schema, columns).with_values(np.random.default_rng(0))


def _joined(table: Table, one: Table, name: str) -> Column:
    codes = np.concatenate([table.codes(name), one.codes(name)])
    with contextlib.suppress(DataError):  # of attributes without values
        return Column(codes, np.concatenate([table.values(name), one.values(name)]))
    return Column(codes)


def with_a_hole(table: Table) -> Table:
    """Return the table with one more cell missing; it must have an observed nullable one."""
    name = table.schema.nullable[0]
    mask = {name: table.mask(name)}
    mask[name][int(np.flatnonzero(~mask[name])[0])] = True
    return table.with_missing(mask)


def neighbours(schema: Schema, trials: int, seed: int) -> Iterator[tuple[Table, Table, Codes]]:
    """Yield tables, each with one row more, and that row; it has holes in every other pair."""
    rng = np.random.default_rng(seed)
    for trial in range(trials):
        size = (0, 1, 3, 12, 30)[trial % 5]
        table = made_up(schema, size, int(rng.integers(2**32)), holes=float(rng.choice([0.1, 0.5])))
        row = {a.name: rng.integers(0, a.size, 1) for a in schema}
        if size and trial % 4 > 1:  # one that is there already
            row = {n: table.codes(n)[:1].astype(np.int64) for n in schema.names}
            row = {
                a.name: rng.integers(0, a.size, 1) if row[a.name] == a.missing_code else row[a.name]
                for a in schema
            }
        if trial % 2 and schema.nullable:
            chosen = rng.random(len(schema.nullable)) < 0.5
            chosen[rng.integers(len(chosen))] = True
            for name in np.array(schema.nullable, dtype=object)[chosen]:
                row[name] = np.array([schema[name].missing_code])
        yield table, appended(table, row), row


def frame_of(table: Table) -> Any:
    """Return the table as a pandas frame."""
    return table.to_native("pandas")


Run = Callable[[Any, Any], Any]
"""Whatever answers through a door: ``run(witness, table)``."""


@dataclass(frozen=True)
class Subject:
    """A family with one strategy.

    Parameters
    ----------
    family : type of Synthesizer
    strategy : str
    parameters : mapping
        Further parameters of the family.
    schema : Schema
        Of the tables that are made up for it.
    """

    family: type[Synthesizer]
    strategy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema = SCHEMA

    @property
    def delta(self) -> float:
        """The delta that the family is run with."""
        return self.build()._delta

    @property
    def epsilon(self) -> float:
        """The epsilon that the family is run with."""
        return float(self.parameters.get("epsilon", 1.0))

    def build(self, **more: Any) -> Synthesizer:
        """Return an unfitted model; seeded, unless told otherwise."""
        given = {"epsilon": self.epsilon, "missing": self.strategy, "random_state": 0}
        return self.family(**{**given, **self.parameters, **more})

    def table(self, n: int = 300, seed: int = 0) -> Table:
        """Return a made-up table."""
        return made_up(self.schema, n, seed)

    def frame(self, n: int = 300, seed: int = 0) -> Any:
        """Return a made-up pandas frame."""
        return frame_of(self.table(n, seed))

    def constant(self, n: int, *, missing: bool = False) -> Table:
        """Return a made-up table of equal rows."""
        return constant(self.schema, n, missing=missing)

    def with_parameters(self, **more: Any) -> Subject:
        """Return the subject with other parameters."""
        return replace(self, parameters={**self.parameters, **more})


def is_run(subject: Any, **more: Any) -> bool:
    """Whether the subject is a function of a witness and a table; such take none of the options."""
    if isinstance(subject, type) or not callable(subject) or isinstance(subject, Synthesizer):
        return False
    given = [name for name, value in more.items() if value is not None]
    if given:
        raise ParameterError(f"{', '.join(given)} are for families: a function takes no such thing")
    return True


def name_of(run: Run) -> str:
    """Return a public name for a function."""
    return str(getattr(run, "__name__", type(run).__name__))


def subjects(
    family: type[Synthesizer],
    parameters: Mapping[str, Any] | None,
    strategies: Iterable[str] | None,
    schema: Schema | None = None,
) -> Iterator[Subject]:
    """Yield the family with each of its strategies, or with those that are named."""
    if not (isinstance(family, type) and issubclass(family, Synthesizer)):
        raise ParameterError(
            "a family is a class that inherits from missdp.synth.Synthesizer; for anything else "
            "give the check a function, run(witness, table)"
        )
    named = tuple(family.strategies if strategies is None else strategies)
    if not named or not set(named) <= set(family.strategies):
        raise ParameterError(f"strategies must be some of {list(family.strategies)}")
    for strategy in named:
        yield Subject(family, strategy, dict(parameters or {}), schema or SCHEMA)


class Guarded(MemorySource):
    """Rows that note whether they were read while no answer was being computed.

    Parameters
    ----------
    table : Table
    witness : Recorder
    """

    def __init__(self, table: Table, witness: Recorder) -> None:
        super().__init__(table)
        self.witness, self.outside, self.reads = witness, 0, 0

    def _note(self) -> None:
        self.reads += 1
        self.outside += not self.witness.reading

    @property
    def table(self) -> Table:
        """The private rows."""
        self._note()
        return super().table

    def counts(self, cliques: Any, *, rows: Any) -> Any:
        """Count every clique."""
        self._note()
        return super().counts(cliques, rows=rows)
