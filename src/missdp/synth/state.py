"""A fit, from its parameters and data to what it leaves behind, and the file that keeps that.

A released model is kept in a file: JSON, readable by anyone, executed by no one. Synthetic rows
never come from the stream of numbers that the noise came from.
"""

from __future__ import annotations

import json
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import (
    ApproximateEvent,
    Composition,
    Condition,
    Cost,
    CountedOutsideTheKernel,
    CutsFromRelease,
    DeclaredRowCount,
    ExplicitSeed,
    Filter,
    FilterEvent,
    Guarantee,
    LevelsFromRelease,
    RefusalsNotPrivate,
    RowFunctionsTested,
    RowsWithoutUnit,
    SampledGaussianEvent,
    WeightsOfRows,
)
from missdp.accounting.budget import check_paid
from missdp.accounting.events import ROW
from missdp.accounting.units import counted_as_one
from missdp.errors import (
    DataError,
    ParameterError,
    SchemaError,
    UnprovenError,
    check_epsilon,
    replacing,
)
from missdp.gates import ChosenGates, DataChosenGates, FixedGates
from missdp.inference.model import finite
from missdp.progress import Progress
from missdp.record import WRONG, Record, read_json
from missdp.schema import Numeric, OpenCategorical, Schema, Unit
from missdp.schema.layout import STEPS
from missdp.schema.modelled import Modelled
from missdp.schema.open_domains import at_most, found, is_pending, on_grid, open_attributes
from missdp.schema.schema import check_schema
from missdp.schema.undeclared import domain_conditions
from missdp.session import CountedRows, Noise, Recoded, Session, Total
from missdp.session.counting import offers
from missdp.session.fit import FitPlan, Opened, fit
from missdp.session.open_levels import OpenRows
from missdp.sources import (
    MarginalSource,
    Reads,
    counting_engine,
    is_source,
    open_source,
    readable,
)
from missdp.sources.memory import recodable
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
)
from missdp.synth.noisy_counts import SmallTableWarning, warn_if_hardly_complete, whole_rows
from missdp.synth.relation_noise import (
    LARGER_EPSILON,
    MORE_ROWS,
    PairNoise,
    enough_epsilon,
    mostly_noise,
)
from missdp.synth.split import Caps
from missdp.table import FrameKind, Table
from missdp.table.frames import engine_of, frame_kind
from missdp.table.streams import rows_of
from missdp.table.units import UnitRows, rows_of_units
from missdp.types import Ints
from missdp.words import warn_if_weak

if TYPE_CHECKING:
    from missdp.synth.base import Synthesizer

Model = TypeVar("Model", bound="Synthesizer")

_SAMPLING = (7, 1, 3)  # any stream but those that SeededNoise spawns


def sampling_generator(seed: Any) -> np.random.Generator:
    """Return a generator of its own for a seed, a generator or None."""
    if seed is None:
        return np.random.default_rng()
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
        raise ParameterError(
            "n_rows cannot be declared when rows are weighted: the weighted total is private."
        )
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


_MOST_ROWS = 2**53
_HIDES_ALL = 1e9  # noise of a count
_PAIR = 2  # columns, fewer of which have no relation


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
    check_epsilon(settings["epsilon"])
    declared = settings["n_rows"]
    if not (is_whole(declared) and 1 <= declared <= _MOST_ROWS) and not _is_noisy(declared):
        raise ParameterError("n_rows must be 'noisy' or a whole number from 1 to 2**53")
    seed = settings["random_state"]
    if seed is not None and not (is_whole(seed) and seed >= 0):
        raise ParameterError("random_state must be None or a whole number, at least 0")
    shown = settings["progress"]
    if not (shown is None or isinstance(shown, bool) or callable(shown)):
        raise ParameterError("progress must be callable, True, False or None")
    if not isinstance(settings["budget"], Filter | Composition | None):
        raise ParameterError("budget must be a missdp.Filter, a missdp.Composition or None")


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


def learn(
    model: Synthesizer,
    data: Any,
    schema: Schema | None,
    undeclared: str,
    progress: Progress | None = None,
) -> None:
    """Fit a synthesizer within its own budget, which is charged before anything is computed.

    `missdp.session.fit.fit` has the order of the phases; `_Fit` has what is done in each.

    Parameters
    ----------
    model : Synthesizer
        The model, which is changed only if the fit succeeds.
    data : Table, or any table, file or source that `Synthesizer.fit` takes
        Private rows.
    schema : Schema or None
        The declared domain. None: that of the data.
    undeclared : {"refuse", "accept"}
        What to do about facts of the schema that were read from the data and not declared public.
    progress : callable, optional
        Called with the name of a stage and the share that is done.

    Raises
    ------
    ParameterError
        If a parameter has no valid value.
    BudgetExceededError
        If the shared budget cannot afford the fit.
    """
    steps = _Fit(model, data, schema, undeclared, progress)
    total, guarantee = fit(steps, budget=model.budget, random_state=model.random_state)
    fresh = steps.fresh
    fresh.guarantee_, fresh.release_ = guarantee, None
    complete, fresh._complete_rows = fresh._complete_rows, None
    del fresh._split, fresh._open_names, fresh._unit, fresh._weight
    model._adopt(fresh)
    if not is_declared(model.n_rows):  # released by now, so it may be spoken about
        warn_if_weak(0.0, model._delta, n=model.n_rows_)
    warn_if_hardly_complete(complete, rows=steps.counted)
    # Else the warning of too few rows said it.
    if total.value >= 3 * total.std and (noisy := mostly_noise_of(model)) is not None:
        warnings.warn(noisy, SmallTableWarning, stacklevel=4)


class _Fit:
    """The phases of a fit: see `missdp.session.fit.FitSteps`.

    It learns on a fresh model, ``fresh``, which is taken over whole: neither what was learned
    before, nor half of this fit, should it fail, must be taken for the model.
    """

    def __init__(
        self,
        model: Synthesizer,
        data: Any,
        schema: Schema | None,
        undeclared: str,
        progress: Progress | None,
    ) -> None:
        self._model, self._data, self._undeclared = model, data, undeclared
        if schema is None and isinstance(data, Table):
            schema = data.schema
        self._declared = self._schema = schema
        self.unread = schema is not None and not isinstance(data, Table) and not is_source(data)
        self._engine = counting_engine(data)
        self.fresh = type(model)(**model.get_params(deep=False) | {"progress": progress})
        self._sums: Ints | None = None
        self.counted = 0

    # Refuse

    def refuse(self) -> FitPlan:
        """Return the plan; refuse the fit by parameters and public facts alone."""
        model, fresh, schema = self._model, self.fresh, self._schema
        if self._undeclared not in ("refuse", "accept"):
            raise ParameterError("undeclared must be 'refuse' or 'accept'")
        if schema is not None:
            check_paid(check_schema(schema).ledger, model.budget)
            schema = self._declared = self._schema = schema.without_ledger()
        self._opened = () if schema is None else open_attributes(schema)
        self._steps = check_unit(model, schema, opened=self._opened)
        if schema is not None and (engine := engine_of(self._data)) is not None:
            engine.check(schema)
        fresh._fitted_with = model._public_parameters()
        fresh._open_names = tuple(attribute.name for attribute in self._opened)
        fresh._unit, fresh._weight = (
            (None, None) if schema is None else (schema.unit, schema.weight)
        )
        check_open(fresh, fresh._open_names)
        warn_if_weak(model.epsilon, model._delta, n=self._rows)
        self._plan = FitPlan(
            label=f"{type(model).__name__}({model.missing})",
            epsilon=float(fresh.epsilon),
            delta=fresh._delta,
            own=fresh._of_rows,
            failures=failures(fresh._delta, fresh._open_names),
            trainings=fresh._training_events(),
        )
        return self._plan

    @property
    def _rows(self) -> int | None:
        """Number of rows, if it was declared."""
        return int(self._model.n_rows) if is_declared(self._model.n_rows) else None

    def remedy(self, shared: Filter | Composition, plan: FitPlan) -> str:
        """Say what helps if a shared budget does not cover the fit."""
        return _remedy(shared, self._model._delta, plan.failures, plan.trainings)

    def refuse_unread(self) -> None:
        """Refuse what `read` would refuse by public facts, before a ledger is charged."""
        assert self._schema is not None  # of data that are not read yet
        self._model.planned_parts(self._schema)

    def conditions(self) -> list[Condition]:
        """Return what the guarantee rests on, by public facts."""
        model, facts = self._model, self._schema
        assert facts is not None  # data without a schema have been refused
        return fit_conditions(
            facts,
            self._undeclared,
            model.random_state,
            model.n_rows,
            self._declared,
            engine=self._engine,
        )

    # Read

    def read(self) -> None:
        """Open the private rows, each of which is read by itself; refuse what cannot be counted."""
        model, fresh, opened = self._model, self.fresh, self._opened
        self._data, schema, fresh.kind_, self._sums = _as_rows(self._data, self._schema, opened)
        # As many levels are planned with as a fit may find; which they are, is found later.
        known = at_most(schema) if opened and schema else schema
        self._source = source = _open_data(self._data, known, model._reads)
        self._schema = schema if opened and schema else source.schema
        check_paid(self._schema.ledger, model.budget)
        _check_rows_alone(self._schema)
        model._strategy.check(readable(source, model._reads(source.schema)))
        fresh.schema_ = fresh._to_be_cut(source.schema.without_ledger(), recodable(source))
        self._grid = on_grid(fresh.schema_)  # refused now, if it cannot be
        fresh._check_schema(fresh.modelled_)
        fresh._split = fresh._planned_split()
        fresh._split.check(steps=self._steps)

    # Release, and fit

    def fit(self, opened: Opened) -> Total:
        """Measure what the bins and levels are, if they are open, and let the family learn."""
        self._model._forget()
        fresh, rows = self.fresh, self._rows
        fresh._beyond = {}
        if self._opened:
            self._close_levels(opened)
        session = self._session(opened)
        fresh._size = release_sizes(session, fresh._split, fresh._unit, fresh._weight)
        fresh._kind_shares = release_kinds(session, fresh._modelled.kinds, fresh._split)
        total = fresh._fit(session)
        if rows is not None:
            total = Total(rows, 0.0)
        self.counted = _settle_rows(fresh, total)
        fresh._settle(found(fresh.schema_))
        return total

    def _close_levels(self, opened: Opened) -> None:
        """Find the levels of open attributes, and open the rows again with these."""
        fresh, facts = self.fresh, self._schema
        assert facts is not None
        fresh._report("finding levels", 0.0)
        failure = sum(event.delta for event in self._plan.failures)
        session = opened(OpenRows(tuple(self._opened), self._data, failure))
        closed = release_levels(session, facts, self._opened, fresh._split, delta=fresh._delta)
        self._source = _open_data(self._data, closed, self._model._reads)
        fresh._settle(fresh._to_be_cut(closed, recodable(self._source)))
        self._grid = on_grid(fresh.schema_)

    def _session(self, opened: Opened) -> Session:
        """Return a session on the rows, in the bins that are declared or, for a charge, found."""
        fresh, source, limit = self.fresh, self._source, self.fresh._kept_within()
        if offers(source, "paid_by"):
            source = source.paid_by(self._plan.own)  # type: ignore[attr-defined]
        known: dict[str, Any] = {"declared_rows": self._rows, "unit_sums": self._sums}
        if not any(map(is_pending, fresh.schema_)):
            if fresh.schema_ is not source.schema and recodable(source):
                source = source.coded_as(fresh.schema_)  # type: ignore[attr-defined]
            return opened(CountedRows.of(source, fresh._strategy, **known), limit)
        source = source.coded_as(self._grid)  # type: ignore[attr-defined]
        session = opened(CountedRows.of(source, fresh._strategy, **known), limit)
        fresh._report("finding bins", 0.0)
        cut, fresh._beyond = release_cuts(session, self._grid, fresh.schema_, fresh._split)
        fresh._settle(cut)
        cells = {
            a.name: a.encode_values(old.reach[0])
            for a, old in zip(fresh.schema_, self._grid, strict=True)
            if isinstance(a, Numeric) and isinstance(old, Numeric) and a != old
        }
        fine = finely(fresh.schema_)
        finer = None if fine is fresh.schema_ else fine
        return session.on(Recoded(fresh.schema_, cells, finer))


def _check_rows_alone(facts: Schema) -> None:
    """Raise SchemaError if rows that are to be counted still belong to units, or have weights."""
    if facts.of_rows is not facts:
        raise SchemaError(
            "a source counts each row as one, and its schema declares a unit or a weight: pass the "
            "frame, the path or Table.read(...) instead of the source"
        )


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


def tree_noise(model: Synthesizer) -> PairNoise:
    """Return the noise of a tree of pairs, if the budget of a fit were spent on nothing else."""
    declared = as_declared(model, model.schema_)
    like = type(model)(**model._public_parameters())
    like._unit = declared.unit
    left, columns = like._of_rows.left, [*model.modelled_]
    if like._training_events():  # `left` is the first part, and the comparison needs all
        left = Cost.worth("gdp", float(model.epsilon), like._delta_to_spend)
    counts, std = max(1, len(columns) - 1), _HIDES_ALL
    with suppress(ParameterError):  # raised for more noise than can be drawn
        std = Noise.worth(replace(left, amount=left.amount / counts)).std
    shapes = combinations([attribute.extended_size for attribute in columns], 2)
    return PairNoise.of_counts(shapes, std, _counted(model))


def _counted(model: Synthesizer) -> float:
    """Return how many rows that count as one there are, as far as it was released."""
    size = model._size  # of weighted rows, `n_rows_` is how many independent ones tell as much
    if size is None or size.weight is None:
        return max(1.0, float(model.n_rows_))
    return max(1.0, size.total)


def mostly_noise_of(model: Synthesizer) -> str | None:
    """Return one line if most relations of a fitted model are noise; see `mostly_noise`."""
    noise, declared = model._relation_noise(), as_declared(model, model.schema_)
    epsilon, bound = float(model.epsilon), 1 if declared.unit is None else declared.unit.bound
    remedies = remedies_of(declared, type(model))
    if noise.few_rows:
        remedies = [MORE_ROWS if one == LARGER_EPSILON else one for one in remedies]
    return mostly_noise(
        noise.clear,
        effective=noise.counted / bound * epsilon,
        enough=enough_epsilon(noise, epsilon),
        remedies=remedies,
    )


def remedies_of(declared: Schema, family: type[Synthesizer]) -> list[str]:
    """Return what makes relations of a declared schema stand out from noise."""
    fewer = ["fewer columns"] if len(Modelled(declared.of_rows).schema) > _PAIR else []
    found = [*fewer, LARGER_EPSILON]
    if declared.weight is not None:
        found.append("a smaller weight upper bound")
    if declared.unit is not None and declared.unit.bound > 1:
        found.append("a smaller max_rows")
    return [*found, *family._rivals]


def _remedy(
    budget: Filter | Composition,
    delta: float,
    rare: Sequence[ApproximateEvent],
    trainings: Sequence[SampledGaussianEvent],
) -> str:
    """Return the remedy for a budget that a fit does not fit into."""
    if isinstance(budget, Composition):
        return (
            "Plan the fit in advance: Composition([*model.planned_events(schema), ...], epsilon, "
            "delta), with the model and the schema that are fitted"
        )
    if trainings:
        return (
            "A Filter, such as the budget of a ledger, charges each step of a training as if it "
            "read every row. Use Composition(model.planned_events(schema), epsilon, delta), or a "
            "family that measures marginals, such as AllPairs"
        )
    if rare and not budget.can_afford(*rare):
        return (
            f"A rare level may leave with probability {rare[0].delta:g}, so that the fit may fail: "
            "use a budget with a larger failure=..., or declare the levels"
        )
    if budget.delta == 0 < delta:
        return (
            f"This fit needs a delta of {delta:g}, and the budget has none: give it a larger one, "
            "or fit with delta=0, as AIM, MST and PrivBayes can"
        )
    if delta == 0 < budget.delta and isinstance(budget, Filter) and budget.cost.currency != "pure":
        return (
            "This fit is pure, and pure epsilons cost much in another measure: use "
            "Filter(..., measure='pure'), or fit with a delta above 0"
        )
    return "Ask for a smaller epsilon, or use a larger budget"


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
    broken = _not_a_model(path)
    document = parsed(path, broken)
    if not (isinstance(document, Mapping) and isinstance(document.get("family"), str)):
        raise broken
    return document


def _not_a_model(path: Path) -> DataError:
    return DataError(
        f"{str(path)!r} is not a missdp model. Expected a .model.json file written by "
        "`missdp synthesize`."
    )


def parsed(path: Path, broken: DataError) -> Any:
    """Return the value of a JSON file; raise ``broken`` if it is none."""

    def unreadable(error: BaseException) -> DataError:
        if isinstance(error, FileNotFoundError):
            return DataError(f"there is no model file {str(path)!r}")
        return DataError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None)}")

    with replacing(OSError, by=unreadable), replacing(ValueError, by=broken):
        return read_json(path.read_bytes().decode("utf-8"))


def opened(family: type[Model], document: Mapping[str, Any], path: Path) -> Model:
    """Return the model of a parsed file, if it is undamaged, and of this family."""
    broken = _not_a_model(path)
    if document["family"] != family.__name__:
        raise DataError(f"{str(path)!r} holds a model of another family; use missdp.load")
    with replacing(*WRONG, by=lambda error: error if isinstance(error, DataError) else broken):
        stored = StoredModel.from_document(document, name=repr(str(path)))
    with replacing(Exception, by=broken), np.errstate(all="ignore"):
        model = family(**stored.parameters)
        model._fitted_with = stored.parameters
        if stored.parameters.keys() != model._public_parameters().keys():
            raise broken
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
    caps = model._caps_of_fit()
    return {
        _KINDS: model._kind_shares,
        _BEYOND: model._beyond,
        _SIZE: model._size,
        _CAPS: None if caps is None else {_PARTS: caps.events, _WHO: caps.structure},
    }


def _read_facts(stored: StoredModel, modelled: Modelled) -> tuple[KindShares, Caps | None]:
    """Return the shares of kinds of missing, and the caps of the fit, if it had any."""
    shares = stored.released[_KINDS]
    kinds = {name: (len(modelled.kinds[name]),) for name in shares}
    laws = finite(shares.values(), least=0.0) and all(law.any() for law in shares.values())
    if not laws or kinds != {name: law.shape for name, law in shares.items()}:
        raise DataError("shares of kinds of missing must be those of the schema")
    caps = stored.released[_CAPS]
    if caps is None:
        return shares, None
    whole, parts, structure = stored.guarantee.events[0], caps[_PARTS], caps[_WHO]
    known = isinstance(structure, FixedGates | DataChosenGates | ChosenGates)
    capped = parts and all(isinstance(part, FilterEvent) for part in parts)
    if not (known and capped and isinstance(whole, FilterEvent)):
        raise DataError("the caps of the parts of the fit are of the wrong type")
    return shares, Caps(whole=whole.cost, events=parts, structure=structure)


def _read_beyond(stored: StoredModel) -> dict[str, NDArray[np.float64]]:
    """Return what was counted where no rows stood out."""
    found: dict[str, NDArray[np.float64]] = stored.released[_BEYOND]
    shaped = all(a.ndim == 2 and a.shape[1] == 4 for a in found.values())
    if not (found.keys() <= {*stored.schema.names} and shaped and finite(found.values())):
        raise DataError("counts beyond what stood out must be those of the schema")
    return found


def _read_size(stored: StoredModel) -> EffectiveSize | None:
    """Return what was released of how much units count; None if all count alike."""
    size: EffectiveSize | None = stored.released[_SIZE]
    if not isinstance(size, EffectiveSize | None):
        raise DataError("the effective size is of the wrong type")
    guarantee = stored.guarantee
    weighed = any(isinstance(condition, WeightsOfRows) for condition in guarantee.conditions)
    as_one = guarantee.max_rows == 1 or counted_as_one(guarantee.events)
    if (size is None) == (weighed or not as_one):
        raise DataError("the effective size must be stated where units do not count alike")
    return size


def fit_conditions(
    schema: Schema,
    undeclared: str,
    random_state: int | None,
    n_rows: int | Literal["noisy"],
    whole: Schema | None = None,
    *,
    engine: str = "",
) -> list[Condition]:
    """Return the conditions of a fit's guarantee.

    Parameters
    ----------
    schema : Schema
        Public facts about the rows.
    undeclared : {"refuse", "accept"}
        See `domain_conditions`.
    random_state : int or None
        A number is a condition: the noise is seeded.
    n_rows : int or "noisy"
        A number is a condition: it is public.
    whole : Schema, optional
        The declared schema, with its unit and its weight.
    engine : str
        The engine that counts rows in place of the kernel; empty if the kernel counts.

    Returns
    -------
    list of Condition
        All of them.
    """
    conditions = [*domain_conditions(schema, undeclared), *_cut_conditions(schema)]
    conditions.append(RowFunctionsTested())
    if engine:
        conditions.append(CountedOutsideTheKernel(engine))
    if any(attribute.refuses for attribute in schema):
        conditions.append(RefusalsNotPrivate())
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
