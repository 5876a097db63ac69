"""A fit, from its parameters and data to what it leaves behind, and the file that keeps that.

A released model is kept in a file: JSON, readable by anyone, executed by no one. Synthetic rows
never come from the stream of numbers that the noise came from.
"""

from __future__ import annotations

import json
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import (
    ApproximateEvent,
    Budget,
    Condition,
    CutsFromRelease,
    DeclaredRowCount,
    Event,
    ExplicitSeed,
    FilterEvent,
    Guarantee,
    LevelsFromRelease,
    RowsWithoutUnit,
    WeightsOfRows,
)
from missdp.accounting.budget import check_paid
from missdp.accounting.filters import ROW, counted_as_one
from missdp.accounting.gates import ChosenGates, DataChosenGates, FixedGates
from missdp.accounting.guarantee import warn_if_weak
from missdp.errors import (
    BudgetExceededError,
    DataError,
    ParameterError,
    SchemaError,
    UnprovenError,
    replacing,
)
from missdp.inference.model import finite
from missdp.mechanisms import Door, Noise, Total, Witness, domain_conditions, noise_source
from missdp.mechanisms.open_levels import RowsAsTheyCame
from missdp.record import WRONG, Record, read_json
from missdp.schema import Numeric, OpenCategorical, Schema, Unit
from missdp.schema.layout import STEPS
from missdp.schema.open_domains import at_most, found, is_pending, on_grid, open_attributes
from missdp.schema.schema import check_schema
from missdp.sources import MarginalSource, Reads, is_source, open_source, readable
from missdp.sources.counts import recodable
from missdp.sources.modelled import Modelled
from missdp.synth.coordinates import finely
from missdp.synth.first_parts import (
    EffectiveSize,
    KindShares,
    check_open,
    failures,
    release_cuts,
    release_kinds,
    release_levels,
    release_sizes,
    with_failure,
)
from missdp.synth.noisy_counts import warn_if_hardly_complete, warn_if_noise, whole_rows
from missdp.synth.split import Caps
from missdp.table import FrameKind, Table
from missdp.table.frames import engine_of, frame_kind
from missdp.table.streams import rows_of
from missdp.table.units import UnitRows, rows_of_units
from missdp.types import Ints

if TYPE_CHECKING:
    from missdp.synth.base import Synthesizer

Model = TypeVar("Model", bound="Synthesizer")

_SAMPLING = (7, 1, 3)  # any stream but those that SeededNoise spawns


def sampling_generator(seed: Any) -> np.random.Generator:
    """Return a generator of its own for a seed, a generator or None."""
    if seed is None:
        return np.random.default_rng()
    if isinstance(seed, Witness):
        return seed.generator()
    if isinstance(seed, np.random.Generator):  # repeatable, but not the generator's own stream
        entropy = seed.integers(2**32, size=8).tolist()
        return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=_SAMPLING))
    if not (is_whole(seed) and seed >= 0):
        raise ParameterError("random_state must be None or a whole number, at least 0")
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=_SAMPLING))


def _as_rows(
    data: Any, schema: Schema | None, opened: Sequence[OpenCategorical]
) -> tuple[Any, Schema | None, FrameKind, Ints | None]:
    """Return data, a schema of rows that stand for themselves, and the kind of frame it was.

    Where levels are open it can be read again. Where a schema declares a unit, of each as many rows
    as take part have been chosen, and it is known how much units count; else that is None.
    """
    if schema is not None and schema.of_rows is not schema:
        if (engine := engine_of(data)) is not None:
            frame, sums = engine.of_units(data, schema)
            return frame, schema.of_rows, frame_kind(data), sums
        if not isinstance(data, Table) and not schema.weighs:
            rows = rows_of_units(data, schema)
            sums = rows.sums if isinstance(rows, UnitRows) else None
            return rows, schema.of_rows, frame_kind(data), sums
        read = Table.read(data, schema)
        return read._of_rows(), schema.of_rows, read.kind, read._sums
    coded = isinstance(data, Table) or is_source(data)
    known = data.schema if coded and schema is None else schema
    if known is None:
        raise SchemaError(
            "a schema is needed: pass fit(data, schema=...), or read the data with Table.read"
        )
    opened = opened or (open_attributes(data.schema) if coded else ())
    if opened and coded:
        raise SchemaError(
            f"the levels of {opened[0].name!r} are open, and are found in rows as they come: pass "
            "a frame, a DuckDB relation or the path of a file, with schema=..."
        )
    if coded:
        return data, schema, data.kind if isinstance(data, Table) else "pandas", None
    again = bool(opened) and engine_of(data) is None
    return (rows_of(data, known) if again else data), schema, frame_kind(data), None


def check_unit(
    model: Synthesizer, schema: Schema | None, *, opened: Sequence[OpenCategorical] = ()
) -> int:
    """Refuse a fit of which nothing is proven for units or weights; return the steps of a row."""
    unit, weight = (None, None) if schema is None else (schema.unit, schema.weight)
    if unit is not None:
        who = f"each {unit.column!r}, with up to {unit.max_rows} rows"
    elif weight is not None:
        who = f"rows that count by their {weight.column!r}"
    else:
        return 1
    if not model.protects_units:
        raise UnprovenError(
            f"{type(model).__name__} is proven to protect single rows, not {who}: use AllPairs, "
            f"AIM or MST, or leave the {'weight' if unit is None else 'unit'} out of the schema"
        )
    if opened:
        raise UnprovenError(
            f"finding the levels of {opened[0].name!r} is proven to protect single rows, not {who}:"
            " declare its levels"
        )
    declared = is_declared(model.n_rows)
    if declared and unit is not None and unit.max_rows > 1:
        raise ParameterError(
            f"how many rows take part is private where a {unit.column!r} may have several: leave "
            "n_rows out"
        )
    if declared and weight is not None:
        raise ParameterError(f"what rows count by {weight.column!r} is private: leave n_rows out")
    return STEPS if schema is not None and schema.weighs else 1


def as_declared(model: Synthesizer, schema: Schema) -> Schema:
    """Return a schema with the unit and the weight by which a model's rows were read."""
    guarantee, unit = model.guarantee_, None
    if guarantee.unit != ROW:
        unit = Unit(guarantee.unit, max_rows=guarantee.max_rows)
        unit = replace(unit, counts="unit") if counted_as_one(guarantee.events) else unit
    weight = None if model._size is None else model._size.weight
    return replace(schema, unit=unit, weight=weight)


def _open_data(
    data: Any, schema: Schema | None, reads: Callable[[Schema], Reads]
) -> MarginalSource:
    """Return a source for any input, as a family reads it."""
    known = data.schema if schema is None else schema
    return open_source(data, known, reads=reads(known))


# The noise of every part of a fit then stays in the range that is drawn exactly.
_LEAST_EPSILON = 1e-6
_MOST_EPSILON = 1e4  # far beyond any protection
_MOST_ROWS = 2**53


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse parameters of a synthesizer that are out of range or of the wrong type."""
    for name in ("epsilon", "delta"):
        value = settings[name]
        if name == "delta" and value is None:
            continue
        if not is_number(value):
            raise ParameterError(f"{name} must be a number, not {type(value).__name__}")
        if value != value:
            raise ParameterError(f"{name} must be a number, not nan")
    if 0 < settings["epsilon"] < _LEAST_EPSILON:
        raise ParameterError(f"epsilon must be at least {_LEAST_EPSILON:g}: all else is noise")
    if not settings["epsilon"] <= _MOST_EPSILON:
        raise ParameterError(f"epsilon must be at most {_MOST_EPSILON:g}: it protects nothing")
    declared = settings["n_rows"]
    if not (is_whole(declared) and 1 <= declared <= _MOST_ROWS) and not _is_noisy(declared):
        raise ParameterError("n_rows must be 'noisy' or a whole number from 1 to 2**53")
    seeded = is_whole(settings["random_state"]) or isinstance(settings["random_state"], Witness)
    if settings["random_state"] is not None and not seeded:
        raise ParameterError("random_state must be None or a whole number, at least 0")
    if settings["progress"] is not None and not callable(settings["progress"]):
        raise ParameterError("progress must be callable or None")
    if settings["budget"] is not None and not isinstance(settings["budget"], Budget):
        raise ParameterError("budget must be a missdp.Budget or None")


def chosen_delta(delta: float | None, n_rows: str | int) -> float:
    """Return the delta of a fit: what was asked for, else 1e-6, or 1 / (100 n) for a large known n.

    >>> chosen_delta(None, "noisy"), chosen_delta(None, 10**6), chosen_delta(0.0, 10**6)
    (1e-06, 1e-08, 0.0)
    """
    if delta is not None:
        return delta
    return min(1e-6, 1 / (100 * n_rows)) if is_declared(n_rows) and n_rows > 0 else 1e-6


def _cut_conditions(schema: Schema) -> list[Condition]:
    """Return which bins and levels were found by other releases."""
    found: dict[str, list[str]] = {}
    for a in schema:
        if isinstance(a, Numeric) and a.cuts_from is not None and a.edges is not None:
            found.setdefault(a.cuts_from, []).append(a.name)
    cuts = [CutsFromRelease(tuple(names), release) for release, names in found.items()]
    levels = tuple(a.name for a in schema if isinstance(a, OpenCategorical) and a.found)
    return [*cuts, *([LevelsFromRelease(levels)] if levels else [])]


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a parameter is a whole number."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a parameter is a real number."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_noisy(n_rows: Any) -> TypeGuard[str]:
    """Whether the number of rows is to be released."""
    return isinstance(n_rows, str) and n_rows == "noisy"


def is_declared(n_rows: str | int) -> TypeGuard[int]:
    """Whether the number of rows was declared public."""
    return not _is_noisy(n_rows)


def learn(model: Synthesizer, data: Any, schema: Schema | None, undeclared: str) -> None:
    """Fit a synthesizer within its own budget, which is charged before anything is computed."""
    noise = noise_source(model.random_state)
    if undeclared not in ("refuse", "accept"):
        raise ParameterError("undeclared must be 'refuse' or 'accept'")
    if schema is None and isinstance(data, Table):
        schema = data.schema
    if schema is not None:
        check_paid(check_schema(schema).ledger, model.budget)
        schema = schema.without_ledger()
    unit, weight = (None, None) if schema is None else (schema.unit, schema.weight)
    opened = () if schema is None else open_attributes(schema)
    steps = check_unit(model, schema, opened=opened)
    if schema is not None and (engine := engine_of(data)) is not None:
        engine.check(schema)
    fresh = type(model)(**model.get_params(deep=False))
    fresh._fitted_with = model._public_parameters()
    fresh._open_names = tuple(attribute.name for attribute in opened)
    fresh._unit, fresh._weight = unit, weight
    check_open(fresh, fresh._open_names)
    own = fresh._of_rows
    rare = failures(fresh._delta, fresh._open_names)
    if model.budget is not None and not model.budget.can_afford(own.filter(), *rare):
        raise BudgetExceededError(
            f"the fit does not fit into {model.budget!r}; nothing was read or recorded. "
            + _remedy(model.budget, model._delta, rare)
        )
    declared = is_declared(model.n_rows)
    rows = int(model.n_rows) if declared else None
    warn_if_weak(model.epsilon, model._delta, n=rows)
    whole = schema
    reserve = partial(_reserve, model, own, whole=whole, undeclared=undeclared, beside=rare)
    unread = not isinstance(data, Table) and not is_source(data)
    first = unread and schema is not None and getattr(model.budget, "charged_first", False)
    if first and schema is not None:
        model.planned_parts(schema)  # what is refused by public facts is not charged
        reserve(schema)
    data, schema, kind, sums = _as_rows(data, schema, opened)
    # As many levels are planned with as a fit may find; which they are, is found below.
    source = _open_data(data, at_most(schema) if opened and schema else schema, model._reads)
    facts = schema if opened and schema else source.schema
    check_paid(facts.ledger, model.budget)
    conditions = fit_conditions(facts, undeclared, model.random_state, model.n_rows, whole)
    model._strategy.check(readable(source, model._reads(source.schema)))
    fresh.schema_, fresh.kind_ = (
        fresh._to_be_cut(source.schema.without_ledger(), recodable(source)),
        kind,
    )
    grid = on_grid(fresh.schema_)  # refused now, if it cannot be
    fresh._check_schema(fresh.modelled_)
    fresh._split = fresh._planned_split()
    fresh._split.check(steps=steps)
    if not first:
        reserve(facts)
    # Learned on a fresh model and taken over whole: neither what was learned before, nor half of
    # this fit, should it fail, must be taken for this model.
    model._forget()
    fresh._beyond = {}
    if opened:
        fresh._report("finding levels", 0.0)
        session = RowsAsTheyCame(data, opened, budget=own, noise=noise)
        closed = release_levels(session, facts, opened, fresh._split, delta=fresh._delta)
        source = _open_data(data, closed, model._reads)
        fresh._settle(fresh._to_be_cut(closed, recodable(source)))
        grid = on_grid(fresh.schema_)
    facts_of_rows = {"declared_rows": rows, "sums": sums}
    door = _door(fresh, source, grid, budget=own, noise=noise, **facts_of_rows)
    fresh._size = release_sizes(door, fresh._split, unit, weight)
    fresh._kind_shares = release_kinds(door, fresh._modelled.kinds, fresh._split)
    total = fresh._fit(door)
    if rows is not None:
        total = Total(rows, 0.0)
    counted = _settle_rows(fresh, total)
    fresh._settle(found(fresh.schema_))
    spent = with_failure(own.spent, fresh._delta, fresh._open_names)
    fresh.guarantee_ = spent.with_conditions(*conditions)
    fresh.release_ = None
    del fresh._split, fresh._open_names, fresh._unit, fresh._weight
    model._adopt(fresh)
    if not declared:  # released by now, so it may be spoken about
        warn_if_weak(0.0, model._delta, n=model.n_rows_)
    warn_if_hardly_complete(door.complete_rows, rows=counted)
    if total.value >= 3 * total.std:  # else it was said already
        sizes = [attribute.extended_size for attribute in model.modelled_]
        warn_if_noise(counted, sizes, partial(_noise, model, unit), epsilon=model.epsilon)


def _settle_rows(fresh: Synthesizer, total: Total) -> int:
    """Set how many rows come out, and return what all rows count together."""
    counted = fresh.n_rows_ = whole_rows(total, epsilon=fresh.epsilon)
    fresh.n_rows_std_ = total.std
    if fresh._size is not None:
        if total.std <= fresh._size.std:  # else what units count tells it better
            fresh._size = replace(fresh._size, total=total.value)
        if fresh._size.weight is not None:  # as many rows as tell as much
            fresh.n_rows_ = round(fresh._size.units)
    return counted


def _reserve(
    model: Synthesizer,
    own: Budget,
    facts: Schema,
    *,
    whole: Schema | None,
    undeclared: str,
    beside: Iterable[Event],
) -> None:
    """Charge the shared budget, if there is one, for a fit to rows of a schema."""
    if model.budget is not None:
        label = f"{type(model).__name__}({model.missing})"
        conditions = fit_conditions(facts, undeclared, model.random_state, model.n_rows, whole)
        model.budget.reserve(own, label=label, conditions=conditions, beside=beside)


def _noise(model: Synthesizer, unit: Unit | None, epsilon: float, tables: int) -> float:
    """Return the noise of each of so many counts that share the budget of a fit; public."""
    like = type(model)(**model._public_parameters() | {"epsilon": epsilon})
    like._unit = unit
    left = like._of_rows.left
    return Noise.worth(replace(left, amount=left.amount / tables)).std


def _remedy(budget: Budget, delta: float, rare: Sequence[ApproximateEvent]) -> str:
    """Return what may be done about a budget that a fit does not fit into."""
    if rare and not budget.can_afford(*rare):
        return (
            f"A rare level may leave with probability {rare[0].delta:g}, so that the fit may fail: "
            "use a budget with a larger delta, of a ledger with a larger failure, or declare levels"
        )
    if budget.delta == 0 < delta:
        return (
            f"This fit needs a delta of {delta:g}, and the budget has none: give it a larger one, "
            "or fit with delta=0, as AIM, MST and PrivBayes can"
        )
    return "Ask for a smaller epsilon, or use a larger budget"


def _door(fresh: Synthesizer, source: MarginalSource, grid: Schema, **facts: Any) -> Door:
    """Return a door to the rows, in the bins that are declared or, for a charge, found."""
    admit = fresh._kept_within()
    if not any(map(is_pending, fresh.schema_)):
        if fresh.schema_ is not source.schema and recodable(source):
            source = source.coded_as(fresh.schema_)  # type: ignore[attr-defined]
        return Door(source, fresh._strategy, **facts).admitting(admit)
    door = Door(source.coded_as(grid), fresh._strategy, **facts).admitting(admit)  # type: ignore[attr-defined]
    fresh._report("finding bins", 0.0)
    cut, fresh._beyond = release_cuts(door, grid, fresh.schema_, fresh._split)
    fresh._settle(cut)
    cells = {
        a.name: a.encode_values(old.reach[0])
        for a, old in zip(fresh.schema_, grid, strict=True)
        if isinstance(a, Numeric) and isinstance(old, Numeric) and a != old
    }
    fine = finely(fresh.schema_)
    finer = None if fine is fresh.schema_ else source.coded_as(fine)  # type: ignore[attr-defined]
    return door.recut(source.coded_as(fresh.schema_), cells, finer=finer)  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True)
class StoredModel(Record):
    """What a model file holds: public facts and released values only."""

    family: str
    parameters: dict[str, Any]
    schema: Schema
    frame: FrameKind
    n_rows: int
    n_rows_std: float
    guarantee: Guarantee
    released: dict[str, Any]


def model_text(model: Synthesizer) -> bytes:
    """Return what a released model's file holds."""
    stored = StoredModel(
        family=type(model).__name__,
        parameters=model._fitted_with,
        schema=model.schema_,
        frame=model.kind_,
        n_rows=model.n_rows_,
        n_rows_std=model.n_rows_std_,
        guarantee=model.guarantee_,
        released=model._released() | _common_facts(model),
    )
    document = stored.to_document(release=model.__dict__.get("release_"))
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8")


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the parsed text of a model file, whose family is not known yet."""
    broken = DataError(f"{str(path)!r} is not a missdp model file")
    document = parsed(path, broken)
    if not (isinstance(document, Mapping) and isinstance(document.get("family"), str)):
        raise broken
    return document


def parsed(path: Path, broken: DataError) -> Any:
    """Return the value of a JSON file; raise ``broken`` if it is none."""

    def unreadable(error: BaseException) -> DataError:
        return DataError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None)}")

    with replacing(OSError, by=unreadable), replacing(ValueError, by=broken):
        return read_json(path.read_bytes().decode("utf-8"))


def opened(family: type[Model], document: Mapping[str, Any], path: Path) -> Model:
    """Return the model of a parsed file, if it is undamaged, and of this family."""
    broken = DataError(f"{str(path)!r} is not a missdp model file")
    if document["family"] != family.__name__:
        raise DataError(f"{str(path)!r} holds a model of another family; use missdp.load")
    with replacing(*WRONG, by=lambda error: error if isinstance(error, DataError) else broken):
        stored = StoredModel.from_document(document)
    with replacing(Exception, by=broken), np.errstate(all="ignore"):
        known = {n: v for n, v in stored.parameters.items() if n not in family.retired}
        model = family(**known)
        model._fitted_with = known
        model.schema_, model.kind_ = stored.schema, stored.frame
        model.n_rows_, model.n_rows_std_ = stored.n_rows, stored.n_rows_std
        model._restore(stored.released)
        model.guarantee_ = stored.guarantee
        model._kind_shares, model._kept = _read_facts(stored, model._modelled)
        model._beyond = _read_beyond(stored)
        model._size = _read_size(stored)
        release = document.get("release")
        model.release_ = release if isinstance(release, str) else None
        if model.missing not in family.strategies or not model._draws_schema():
            raise broken
        agrees = model._agrees_with(stored.guarantee)
    if not agrees:
        raise DataError(
            "the guarantee of the model is not that of its parameters: the file was edited"
        )
    model._adopt(model)
    return model


# Where a saved model keeps facts that families have in common.
_KINDS = "kinds of missing"
_BEYOND = "counts beyond what stood out"
_SIZE = "effective size"
_CAPS, _PARTS, _WHO = "caps of the fit", "parts", "who chose"


def _common_facts(model: Synthesizer) -> dict[str, Any]:
    """Return what a file holds of every family, beside what the family released."""
    shares, caps, hidden = model._kind_shares, model._caps_of_fit(), model._beyond
    found: dict[str, Any] = {_KINDS: shares} if shares else {}
    found |= {_BEYOND: hidden} if hidden else {}
    found |= {} if model._size is None else {_SIZE: model._size}
    return found if caps is None else found | {_CAPS: {_PARTS: caps.events, _WHO: caps.structure}}


def _read_facts(stored: StoredModel, modelled: Modelled) -> tuple[KindShares, Caps | None]:
    """Return the shares of kinds of missing, and the caps of the fit, if a file has any."""
    shares = stored.released.get(_KINDS, {})
    kinds = {name: (len(modelled.kinds[name]),) for name in shares}
    laws = finite(shares.values(), least=0.0) and all(law.any() for law in shares.values())
    if not laws or kinds != {name: law.shape for name, law in shares.items()}:
        raise DataError("shares of kinds of missing must be those of the schema")
    caps = stored.released.get(_CAPS)
    if caps is None:
        return shares, None
    whole, parts, structure = stored.guarantee.events[0], caps[_PARTS], caps[_WHO]
    known = isinstance(structure, FixedGates | DataChosenGates | ChosenGates)
    capped = parts and all(isinstance(part, FilterEvent) for part in parts)
    if not (known and capped and isinstance(whole, FilterEvent)):
        raise DataError("the caps of the parts of the fit are of the wrong type")
    return shares, Caps(whole=whole.cost, events=parts, structure=structure)


def _read_beyond(stored: StoredModel) -> dict[str, NDArray[np.float64]]:
    """Return what was counted where no rows stood out; nothing if a file is from before that."""
    found: dict[str, NDArray[np.float64]] = stored.released.get(_BEYOND, {})
    shaped = all(a.ndim == 2 and a.shape[1] == 4 for a in found.values())
    if not (found.keys() <= {*stored.schema.names} and shaped and finite(found.values())):
        raise DataError("counts beyond what stood out must be those of the schema")
    return found


def _read_size(stored: StoredModel) -> EffectiveSize | None:
    """Return what was released of how much units count, if it was."""
    size: EffectiveSize | None = stored.released.get(_SIZE)
    if not isinstance(size, EffectiveSize | None):
        raise DataError("the effective size is of the wrong type")
    return size


def fit_conditions(
    schema: Schema,
    undeclared: str,
    random_state: int | None,
    n_rows: int | Literal["noisy"],
    whole: Schema | None = None,
) -> list[Condition]:
    """Return what the guarantee of a fit rests on; ``whole`` has the unit and the weight."""
    conditions = [*domain_conditions(schema, undeclared), *_cut_conditions(schema)]
    if random_state is not None:
        conditions.append(ExplicitSeed())
    if is_declared(n_rows):
        conditions.append(DeclaredRowCount(n=int(n_rows)))
    unit, weight = (None, None) if whole is None else (whole.unit, whole.weight)
    if unit is not None and unit.missing == "own":
        conditions.append(RowsWithoutUnit(unit.column))
    if weight is not None:
        conditions.append(WeightsOfRows(weight.column))
    return conditions
