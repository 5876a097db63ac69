"""Missing cells filled from released distributions. A filled row is a function of three things.

They are the row itself, the laws, and random numbers of its own. So adding or removing a row still
adds or removes one filled row, and whatever is proven of counts of rows holds of counts of filled
ones; see `fill_codes` for the proof. Laws are plain numbers, fixed when they come in: nothing that
fills a row can look at another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from missdp.inference.conditionals import Conditionals
from missdp.schema import Schema
from missdp.sources.counts import MarginalSource, MemorySource, offers
from missdp.sources.modelled import Modelled
from missdp.sources.streamed import CodeBlock, CodeStore
from missdp.table import Table
from missdp.types import Floats, Ints

Filling: TypeAlias = Literal["random", "likely", "mean"]

#: How often each hole of a row with several is drawn: all but the first time given all others.
SWEEPS = 4

#: Random numbers of each row for each attribute.
DRAWS = SWEEPS + 1

ROWS_AT_ONCE = 4096


def fill_codes(
    laws: Conditionals,
    codes: Ints,
    uniforms: Floats,
    *,
    never: Mapping[int, int] | None = None,
    filling: Filling = "random",
) -> Ints:
    """Fill the missing cells of rows, each row by itself, from released laws.

    A missing cell alone is drawn from its law given all other cells. Of several missing cells in a
    row each is first drawn given what is known by then, and then, in turns, given all other cells
    (Gibbs sampling).

    Notes
    -----
    Row i becomes f(row i, uniforms i), with one f that is fixed by the laws: nothing is added up
    over rows, and products, quotients and running sums of doubles are rounded in each row as if it
    stood alone. So tables that differ by one added or removed row become, for equal uniforms of the
    common rows, tables that differ by one added or removed row. The uniforms of different rows are
    independent and have the same law, so whichever row is added, they can be taken to be equal; a
    mechanism that bounds what one row changes does so for every value of the uniforms, and so on
    average over them (differential privacy is preserved by mixing with weights that do not depend
    on the table). The laws were released before: that is paid for, and this costs nothing.
    """
    filled = codes.copy()
    holes = codes >= np.array(laws.sizes, dtype=np.int64)
    several = holes.sum(axis=1) > 1
    never = never or {}
    for a in laws.order:
        for given, chosen in ((laws.given_all, ~several), (laws.given_some, several)):
            rows = np.flatnonzero(holes[:, a] & chosen)
            known = filled if filling == "random" else codes
            law = _without(given.of(a, known[rows]), never.get(a))
            likeliest = filling != "random"
            filled[rows, a] = law.argmax(axis=1) if likeliest else _drawn(law, uniforms[rows, 0, a])
    for sweep in range(1, SWEEPS) if filling == "random" else ():
        for a in laws.order:
            rows = np.flatnonzero(holes[:, a] & several)
            law = _without(laws.given_all.of(a, filled[rows]), never.get(a))
            filled[rows, a] = _drawn(law, uniforms[rows, sweep, a])
    return filled


def _without(law: Floats, level: int | None) -> Floats:
    """Return the laws without a level; uniform on the others if it had all the mass."""
    if level is None:
        return law
    law[:, level] = 0.0
    lost = ~(law > 0).any(axis=1)
    law[lost] = 1.0
    law[lost, level] = 0.0
    return law


def _drawn(law: Floats, uniforms: Floats) -> Ints:
    """Draw a level of each row's law, which need not add up to one."""
    ends = np.cumsum(law, axis=1)
    last = ends[:, -1]
    place = np.minimum(uniforms * last, np.nextafter(last, 0.0))
    found: Ints = (ends > place[:, None]).argmax(axis=1)
    return found


def filled_given_all(
    source: MarginalSource, laws: Conditionals, rng: np.random.Generator, modelled: Modelled
) -> MarginalSource:
    """Return the rows with missing cells drawn given the rest of the row, and rules settled again.

    See `fill_codes`.
    """
    names = source.schema.names

    def filled(block: CodeBlock) -> dict[str, Ints]:
        codes = np.stack([block[name].astype(np.int64) for name in names], axis=1)
        for start in range(0, len(codes), ROWS_AT_ONCE):
            part = codes[start : start + ROWS_AT_ONCE]
            uniforms = rng.random((len(part), DRAWS, codes.shape[1]))
            codes[start : start + ROWS_AT_ONCE] = fill_modelled(laws, part, uniforms, modelled)
        return dict(zip(names, codes.T, strict=True))

    return _settled(source, filled, modelled)


def modelled_codes(table: Table) -> Ints:
    """Return the codes of a table, one column for each attribute."""
    found = np.empty((len(table), len(table.schema)), dtype=np.int64)
    for place, name in enumerate(table.schema.names):
        found[:, place] = table.codes(name)
    return found


def fill_modelled(
    laws: Conditionals,
    codes: Ints,
    uniforms: Floats,
    modelled: Modelled,
    *,
    filling: Filling = "random",
) -> Ints:
    """Fill missing cells of modelled rows; what is not applicable is so where rules say.

    While missing cells are drawn, "not applicable" is a level like any other where rules say when
    it holds: or an attribute could never become what makes another one not applicable.
    """
    filled = fill_codes(laws, codes, uniforms, never=modelled.never_filled, filling=filling)
    names = modelled.schema.names
    lacking = modelled.lacking(dict(zip(names, filled.T, strict=True)))
    for place, name in enumerate(names):
        if name not in lacking:
            continue
        rows = np.flatnonzero(lacking[name] & (codes[:, place] != filled[:, place]))
        law = _without(laws.given_all.of(place, filled[rows]), modelled.absent[place])
        filled[rows, place] = _drawn(law, uniforms[rows, SWEEPS, place])
    return filled


def filled_rows(
    source: MarginalSource,
    laws: Mapping[str, Floats],
    rng: np.random.Generator,
    modelled: Modelled,
) -> MarginalSource:
    """Return the rows with missing cells drawn from released margins, and rules settled again.

    Each row is filled by itself, so adding or removing one row still changes one filled row.
    """
    schema = source.schema

    def filled(block: CodeBlock) -> dict[str, Ints]:
        codes = {}
        # Row by row, so that rows are filled alike however many come at once.
        uniforms = rng.random((len(block[schema.names[0]]), len(schema)))
        for place, attribute in enumerate(schema):
            cells = block[attribute.name].astype(np.int64)
            if attribute.nullable:
                hole, law = cells >= attribute.size, laws[attribute.name]
                ends = np.cumsum(law) / np.sum(law)
                drawn = np.searchsorted(ends, uniforms[hole, place], side="right")
                cells[hole] = np.minimum(drawn, np.flatnonzero(law)[-1])
            codes[attribute.name] = cells
        return codes

    return _settled(source, filled, modelled)


def _settled(
    source: MarginalSource,
    filled: Callable[[CodeBlock], dict[str, Ints]],
    modelled: Modelled,
) -> MarginalSource:
    """Return the rows filled, and settled by rules: at once, or block by block as they stream."""
    complete = complete_schema(source.schema)
    if isinstance(source, MemorySource):

        def whole(table: Table) -> Table:
            cells = {name: table.codes(name) for name in table.schema.names}
            return Table.from_codes(complete, modelled.settled(filled(cells)), kind=table.kind)

        return source.later(complete, whole)
    assert offers(source, "code_blocks")  # checked before anything was charged
    blocks = source.code_blocks()  # type: ignore[attr-defined]
    return CodeStore(complete, (modelled.settled(filled(block)) for block in blocks))


def complete_schema(schema: Schema) -> Schema:
    """Return the schema of a table whose holes have been filled."""
    facts: dict[str, Any] = {"nullable": False, "missing_codes": (), "outside": "error"}
    return Schema(tuple(replace(a, **facts, labels=()) for a in schema))
