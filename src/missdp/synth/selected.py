"""Rows that were asked for: a model is conditioned on the levels they may have, others are dropped.

A row that is kept has the model's law given that it is asked for, whatever the family; none is a
copy of another. How many are dropped follows from the released model alone.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, TypeAlias

import numpy as np
from numpy.random import Generator

from missdp.errors import ParameterError
from missdp.inference.conditioned import conditioned
from missdp.inference.graphical import GraphicalModel
from missdp.inference.pair_model import PairModel
from missdp.schema import Categorical, Schema
from missdp.schema.conditions import Join, Known, Predicate, decided
from missdp.schema.language import attribute_named, compare, parse_where, reading
from missdp.table import Table
from missdp.types import Flags

Where: TypeAlias = str | Mapping[str, Any]
_Model: TypeAlias = Any  # a fitted synthesizer: what draws its rows knows no door

FIRST = 2_000  # rows that are drawn to see how many are asked for
MOST_BLOCK = 200_000
TRIES = 1000  # rows that are drawn for each that is asked for, at most
LEAST_TRIES = 1_000_000
FEW = 0.2  # share of rows below which a model is conditioned


_IS_MISSING = re.compile(
    r"(?:(?P<rest>.*)\band\s+|\s*)(?P<name>`[^`]+`|[^\W\d]\w*)\s+is\s+missing\s*",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


def _without_missing(where: str) -> tuple[str, list[str]]:
    """Return a condition without the ``and name is missing`` at its end, and these names."""
    names: list[str] = []
    while found := _IS_MISSING.fullmatch(where):
        names.append(found["name"].strip("`"))
        where = found["rest"] or ""
    if names and re.search(r"\bor\b", _QUOTED.sub("", where), re.IGNORECASE):
        raise ParameterError("where: 'is missing' and 'or' cannot be asked for together")
    return where, names


class Selection:
    """Which rows are asked for, and how many of those drawn were such.

    Parameters
    ----------
    where : str or mapping
        A condition such as ``"age >= 60 and sex = 'f'"``, at whose end ``and name is missing`` may
        stand, or by name a value, a list of values, a pair of bounds (both belong to it), or None
        for cells that are missing.
    schema : Schema
    """

    def __init__(self, where: Where, schema: Schema) -> None:
        self.drawn = self.kept = 0
        self._within = 1.0  # the share of the model's rows that those drawn last are among
        missing: Iterable[str]
        with reading("", schema.names, lambda why: ParameterError(f"where: {why}")):
            if isinstance(where, str):
                rest, missing = _without_missing(where)
                self._predicate = parse_where(rest, schema)
            elif isinstance(where, Mapping):
                asked = {attribute_named(schema.columns, n).name: v for n, v in where.items()}
                missing = [name for name, value in asked.items() if value is None]
                parts = (_compared(schema, n, v) for n, v in asked.items() if v is not None)
                self._predicate = Join(tuple(parts), all_of=True)
            else:
                raise ParameterError("where must be a condition in text, or a mapping of names")
            self.missing = tuple(attribute_named(schema.columns, n).name for n in missing)

    @property
    def share(self) -> float:
        """The share of the model's rows that are asked for, as far as rows were drawn."""
        return self._within * self.kept / max(1, self.drawn)

    def codes(self, schema: Schema, modelled: Schema) -> dict[str, Flags]:
        """Return, by modelled attribute, which of its codes a row may have that is asked for.

        Only of attributes that are restricted, and whatever the other cells of the row are.
        """
        found: dict[str, Flags] = {}
        for name in sorted(self._predicate.names & {*modelled.names}):
            attribute, n = schema[name], modelled[name].size
            unknown = np.full(n, True)
            open_ = Known(np.full(n, -np.inf), np.full(n, np.inf), unknown, ~unknown)
            cells = dict.fromkeys(self._predicate.names, open_)
            cells[name] = Known.of(attribute, np.arange(n), None)
            maybe = decided(self._predicate, cells, n)[1]
            # A cell may be lost on the way, and what has none may be as well.
            lost = decided(self._predicate, cells | {name: open_.without_holes()}, n)[1]
            if not (maybe | lost).all():
                found[name] = maybe | lost
        return found

    def of(self, table: Table) -> Flags:
        """Return which rows of a table are asked for, and count them."""
        found = self._predicate.select(table)
        for name in self.missing:
            attribute = table.schema[name]
            found = found & (table.codes(name) >= attribute.missing_code)
        self.drawn, self.kept = self.drawn + len(table), self.kept + int(np.count_nonzero(found))
        return found

    def _given(self, model: _Model, n: int, rng: Generator) -> tuple[_Model, float]:
        """Return a model of the rows with levels that may be asked for, and how common they are.

        Of AllPairs, AIM, MST and what draws rows as they do; other models come back as they are.
        """
        released = model.__dict__.get("model_")
        codes = self.codes(model.schema_, model.modelled_)
        if not codes or not isinstance(released, (GraphicalModel, PairModel)):
            return model, 1.0
        self.drawn = self.kept = 0
        place = {name: i for i, name in enumerate(model.modelled_.names)}
        wanted = {place[name]: found for name, found in codes.items()}
        another: Any = copy.copy(model)
        another.model_, share = conditioned(released, wanted, n, rng)
        return another, share

    def blocks(self, model: _Model, missing_values: str, n: int, rng: Generator) -> Iterator[Table]:
        """Yield exactly ``n`` rows of a model: the first among all that it draws.

        Where few of these are asked for, further ones are drawn with levels that may be.

        Raises
        ------
        ParameterError
            If they are not found among a public number of rows.
        """
        left, tries = n, max(LEAST_TRIES, TRIES * n)
        size, tried, given = FIRST if n else 0, 0, False
        while True:
            table = model._block(missing_values, size, rng)
            tried += len(table)
            rows = np.flatnonzero(self.of(table))[:left]
            left -= rows.size
            yield table.take(rows)
            if not left:
                return
            if tried >= tries:
                break
            if not given and self.share < FEW:
                given = True
                model, self._within = self._given(model, left, rng)
                if not self._within:
                    break
            kept = (self.kept + 1) / (self.drawn + 1)  # before any is drawn, all may be kept
            size = min(int(1.1 * left / kept) + 100, MOST_BLOCK)
        raise ParameterError(
            f"of {tried:,} rows that the model drew {n - left:,} are as 'where' asks, and "
            f"{n:,} were wanted: ask for fewer rows, or for more common ones"
        )


def _compared(schema: Schema, name: str, value: Any) -> Predicate:
    """Return the condition that one item of a mapping stands for."""
    attribute = schema[name]
    several = isinstance(value, (list, tuple, Set, np.ndarray))
    values = [v.item() if isinstance(v, np.generic) else v for v in (value if several else [value])]
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(attribute, Categorical):
        ends = zip((">=", "<="), values, strict=True)
        return Join(tuple(compare(attribute, sign, v) for sign, v in ends), all_of=True)
    return Join(tuple(compare(attribute, "==", v) for v in values), all_of=False)
