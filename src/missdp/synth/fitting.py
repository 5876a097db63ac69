"""The phases of a fit: from parameters and data to the record of all results.

`missdp.session.fit.fit` fixes the order of the phases, on which privacy rests, and charges.
`_Fitting` does the work of each phase: check, read, find levels, find bins, count units and kinds
of missing values, learn. `fit_synthesizer` then assembles the released results and warns by them.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from missdp.accounting import (
    Composition,
    Condition,
    CountedOutsideTheKernel,
    DeclaredRowCount,
    ExplicitSeed,
    Filter,
    Guarantee,
    RefusalsNotPrivate,
    RowFunctionsTested,
    RowsWithoutUnit,
    WeightsOfRows,
)
from missdp.accounting.budget import check_paid
from missdp.errors import ParameterError, SchemaError, UnprovenError
from missdp.progress import Progress
from missdp.schema import Numeric, Schema
from missdp.schema.layout import STEPS
from missdp.schema.open_categorical import open_attributes, with_levels, with_max_levels
from missdp.schema.schema import check_schema
from missdp.schema.undeclared import domain_conditions
from missdp.session import CountedRows, Recoding, Session, Total
from missdp.session.counting import has_method
from missdp.session.fit import FitPlan, OpenSession
from missdp.session.fit import fit as fit_in_order
from missdp.session.frequent_values import OpenRows
from missdp.sources import (
    check_readable,
    counting_engine,
    is_source,
    open_source,
)
from missdp.sources.in_memory import rebinnable_attributes
from missdp.synth.family import Learned, Request
from missdp.synth.first_parts import (
    check_open,
    release_bins,
    release_kinds,
    release_levels,
    release_sizes,
)
from missdp.synth.fitted import Fitted
from missdp.synth.noisy_counts import SmallTableWarning, rounded_rows, warn_if_hardly_complete
from missdp.synth.numeric_scores import with_fine_bins
from missdp.synth.parameters import is_declared
from missdp.synth.relations import mostly_noise_of
from missdp.synth.search_grid import (
    is_pending,
    released_bins,
    with_search_grid,
)
from missdp.synth.split import limit_of
from missdp.table import Table
from missdp.table.frames import engine_of, frame_kind
from missdp.table.rows import Rows, may_refuse
from missdp.table.units import rows_of_units
from missdp.types import Floats, FrameKind, Ints
from missdp.words import warn_if_weak

if TYPE_CHECKING:
    from missdp.synth.base import Synthesizer


def fit_synthesizer(
    synthesizer: Synthesizer,
    data: Any,
    schema: Schema | None,
    undeclared: str,
    progress: Progress | None = None,
) -> None:
    """Fit a synthesizer within its own budget, which is charged before any computation.

    Parameters
    ----------
    synthesizer : Synthesizer
        Its parameters are read, and it receives the record of the fit. An earlier record is removed
        once private rows are measured.
    data : Table, or any table, file or source that `Synthesizer.fit` takes
        Private rows.
    schema : Schema or None
        The declared domain. None is the schema of the data.
    undeclared : {"refuse", "accept"}
        Treatment of facts of the schema that were read from the data and not declared public.
    progress : callable, optional
        Called with the name of a stage and the share of the work that is done.

    Raises
    ------
    ParameterError
        If a parameter has no valid value.
    BudgetExceededError
        If the shared budget cannot afford the fit.
    """
    steps = _Fitting(synthesizer, data, schema, undeclared, progress)
    budget, random_state = synthesizer.budget, synthesizer.random_state
    # Check, charge, read, release, learn, in this order.
    learned, guarantee = fit_in_order(steps, budget=budget, random_state=random_state)
    total = steps.total(learned)
    rows = rounded_rows(
        total,
        epsilon=synthesizer.epsilon,
        declarable=not (steps.request.unit or steps.request.weight),
    )
    synthesizer.adopt(steps.fitted(learned, guarantee, rows))
    # All warnings below follow from released numbers only.
    if not is_declared(synthesizer.n_rows):
        warn_if_weak(0.0, steps.request.delta, n=synthesizer.n_rows_)
    warn_if_hardly_complete(learned.complete, rows=rows)
    # A warning about a very small table has been issued already.
    if total.value >= 3 * total.std and (noisy := mostly_noise_of(synthesizer)) is not None:
        warnings.warn(noisy, SmallTableWarning, stacklevel=4)


class _Fitting:
    """The phases of a fit: see `missdp.session.fit.FitSteps`."""

    def __init__(
        self,
        synthesizer: Synthesizer,
        data: Any,
        schema: Schema | None,
        undeclared: str,
        progress: Progress | None,
    ) -> None:
        self._synthesizer, self._data, self._undeclared = synthesizer, data, undeclared
        if schema is None and isinstance(data, Table):
            schema = data.schema
        self.unread = schema is not None and not isinstance(data, Table) and not is_source(data)
        self._engine = counting_engine(data)
        self._may_refuse = self._engine == "Spark" or may_refuse(data)
        # The copy protects this fit from later changes of parameters.
        parameters = type(synthesizer)(**synthesizer.get_params(deep=False))
        self.request: Request[Any] = Request(parameters, schema, progress=progress)
        self._schema = schema
        self._sums: Ints | None = None
        self._levels = dict[str, tuple[str, ...]]()

    @property
    def _rows(self) -> int | None:
        """The declared number of rows, or None."""
        n_rows = self.request.parameters.n_rows
        return int(n_rows) if is_declared(n_rows) else None

    # Check

    def checked_plan(self) -> FitPlan:
        """Return the plan. Raise an error for a fit that is impossible by public facts."""
        parameters, schema = self.request.parameters, self.request.declared
        if self._undeclared not in ("refuse", "accept"):
            raise ParameterError("undeclared must be 'refuse' or 'accept'")
        if schema is not None:
            check_paid(check_schema(schema).ledger, parameters.budget)
            schema = self._schema = schema.without_ledger()
            self.request = replace(self.request, declared=schema)
        self._steps_per_row = check_unit(self.request)
        if schema is not None and (engine := engine_of(self._data)) is not None:
            engine.check_spark_schema(schema)
        request, delta = self.request, self.request.delta
        check_open(request)
        warn_if_weak(parameters.epsilon, delta, n=self._rows)
        self._fit_plan = FitPlan(
            label=f"{type(parameters).__name__}({parameters.missing})",
            epsilon=float(parameters.epsilon),
            delta=delta,
            cap=request.budget,
            failures=request.failures,
            trainings=request.trainings,
        )
        return self._fit_plan

    def remedy(self, shared: Filter | Composition, plan: FitPlan) -> str:
        """Return the remedy for a shared budget that does not cover the fit."""
        return _remedy(shared, plan)

    def refuse_unread(self) -> None:
        """Raise the errors of `read` that follow from public facts, before a ledger is charged."""
        assert self._schema is not None  # called only for unread data with a schema
        self._synthesizer.planned_parts(self._schema)

    def conditions(self) -> list[Condition]:
        """Return the conditions of the guarantee, by public facts."""
        assert self._schema is not None  # data without a schema raised an error before
        return fit_conditions(
            self._schema,
            self.request.parameters,
            self._undeclared,
            declared=self.request.declared,
            engine=self._engine,
            may_refuse=self._may_refuse,
        )

    # Read

    def read(self) -> None:
        """Open the private rows, and raise an error if the rows cannot be counted."""
        reads, opened = self.request.family.reads, self.request.opened
        self._data, schema, self._frame, self._sums = _as_rows(self._data, self._schema)
        # The plan allows for the largest number of levels. The fit finds the levels later.
        public = with_max_levels(schema) if opened else schema
        self._source = source = open_source(self._data, public, reads=reads)
        self._schema = schema if opened else source.schema
        check_paid(self._schema.ledger, self.request.parameters.budget)
        self._declared = self._schema.without_ledger()
        _check_plain_rows(self._schema)
        self.request.strategy.check(check_readable(source, reads))
        self.request = self.request.on_rows(
            source.schema.without_ledger(), rebinnable_attributes(source)
        )
        self._grid = with_search_grid(self.request.schema)  # raises an error without a grid
        self._budget_plan = self.request.plan()
        self._budget_plan.check(steps=self._steps_per_row)

    # Release and learn

    def learn(self, open_session: OpenSession) -> Learned:
        """Release open levels and bins, and let the family learn."""
        self._synthesizer.adopt(None)
        self._find_levels(open_session)
        session = self._find_bins(open_session)
        request, plan = self.request, self._budget_plan
        self._size = release_sizes(session, plan, request.unit, request.weight)
        self._kinds = release_kinds(session, request.modelled.kinds, plan)
        return request.family.fit(session, plan, request)

    def _find_levels(self, open_session: OpenSession) -> None:
        """Release the levels of open attributes, and open the rows again with these levels."""
        request, facts = self.request, self._schema
        if not request.opened or facts is None:
            return
        request.report("finding levels", 0.0)
        attributes = open_attributes(facts)
        failure = sum(event.delta for event in self._fit_plan.failures)
        session = open_session(OpenRows(tuple(attributes), self._data, failure))
        self._levels = release_levels(session, attributes, self._budget_plan, failure=failure)
        closed = with_levels(facts, self._levels)
        self._source = open_source(self._data, closed, reads=request.family.reads)
        self.request = self.request.on_rows(closed, rebinnable_attributes(self._source))
        self._grid = with_search_grid(self.request.schema)

    def _find_bins(self, open_session: OpenSession) -> Session:
        """Return a session on the rows, in declared bins or in bins that are released here."""
        request, source, limit = self.request, self._source, limit_of(self._budget_plan.limits)
        schema, self._tails = request.schema, dict[str, Floats]()
        if has_method(source, "paid_by"):
            source = source.paid_by(self._fit_plan.cap)  # type: ignore[attr-defined]
        pending = any(map(is_pending, schema))
        if pending or (schema is not source.schema and rebinnable_attributes(source)):
            source = source.coded_as(self._grid if pending else schema)  # type: ignore[attr-defined]
        rows = CountedRows.from_source(
            source, request.strategy, declared_rows=self._rows, unit_sums=self._sums
        )
        session = open_session(rows, limit)
        if not pending:
            return session
        request.report("finding bins", 0.0)
        schema, self._tails = release_bins(session, self._grid, schema, self._budget_plan)
        self.request = request.with_schema(schema)
        cells = {
            a.name: a.encode_values(old.code_ranges[0])
            for a, old in zip(schema, self._grid, strict=True)
            if isinstance(a, Numeric) and isinstance(old, Numeric) and a != old
        }
        fine = with_fine_bins(schema)
        return session.apply(Recoding(schema, cells, None if fine is schema else fine))

    # State

    def total(self, learned: Learned) -> Total:
        """Return the declared or released number of rows."""
        return learned.total if self._rows is None else Total(self._rows, 0.0)

    def fitted(self, learned: Learned, guarantee: Guarantee, rows: int) -> Fitted:
        """Return the record of the fit, with ``rows`` rows to draw by default, at least 1."""
        request, total, size = self.request, self.total(learned), self._size
        if size is not None and total.std <= size.std:  # else the count of units is more precise
            size = replace(size, total=total.value)
        weighted = size is not None and size.weight is not None
        n_rows = round(size.units) if size and weighted else rows
        return Fitted(
            family=type(request.parameters).__name__,
            parameters=request.parameters.public_parameters(),
            declared=self._declared,
            levels=self._levels,
            bins=released_bins(learned.schema or request.schema, self._declared),
            frame=self._frame,
            n_rows=n_rows,  # for weighted rows, their effective number
            n_rows_std=total.std,
            guarantee=guarantee,
            model=learned.model,
            tables=learned.tables,
            measured=learned.measured,
            kinds=self._kinds,
            tails=self._tails,
            size=size,
            limits=self._budget_plan.limits,
            draws="even",
            release=None,
            ledger=None,
        )


def _as_rows(data: Any, schema: Schema | None) -> tuple[Any, Schema, FrameKind, Ints | None]:
    """Return the data, the schema of its rows, the kind of frame, and sums of units.

    With a unit, at most ``max_rows`` rows of each unit are chosen. The last value has the count of
    each unit, or None without a unit. Data with open levels can be read again.
    """
    if schema is not None and schema.without_unit is not schema:
        if (engine := engine_of(data)) is not None:
            frame, sums = engine.select_unit_rows(data, schema)
            return frame, schema.without_unit, frame_kind(data), sums
        if not isinstance(data, Table) and not schema.is_weighted:
            rows = rows_of_units(data, schema)
            return rows, schema.without_unit, frame_kind(data), rows.unit_sums
        read = Table.read(data, schema)
        return read._of_rows(), schema.without_unit, read.kind, read._sums
    coded = isinstance(data, Table) or is_source(data)
    facts = data.schema if coded and schema is None else schema
    if facts is None:
        raise SchemaError(
            "fit: data without a schema. Pass fit(data, schema=...), or use Table.read."
        )
    opened = open_attributes(facts) or (open_attributes(data.schema) if coded else ())
    if opened and coded:
        raise SchemaError(
            f"attribute {opened[0].name!r}: open levels need rows that can be read again. Pass a "
            "frame, a DuckDB relation or the path of a file, with schema=..."
        )
    if coded:
        return data, facts, data.kind if isinstance(data, Table) else "pandas", None
    again = bool(opened) and engine_of(data) is None
    return (Rows.of(data, facts) if again else data), facts, frame_kind(data), None


def check_unit(request: Request[Any]) -> int:
    """Raise UnprovenError for a fit without a proof for units or weights.

    Parameters
    ----------
    request : Request
        Parameters and public facts.

    Returns
    -------
    int
        The number of steps in which one row counts. 1 for unweighted rows.

    Raises
    ------
    UnprovenError
        If the family, or finding open levels, is proven for single rows only.
    ParameterError
        If the number of rows is declared but private.
    """
    unit, weight, family = request.unit, request.weight, request.family
    if unit is not None:
        max_rows = unit.max_rows
        protected = f"each {unit.column!r}, with up to {max_rows} row{'s' * (max_rows > 1)}"
    elif weight is not None:
        protected = f"rows that count by their {weight.column!r}"
    else:
        return 1
    if not family.protects_units:
        name = type(request.parameters).__name__
        raise UnprovenError(
            f"{name} is proven to protect single rows, not {protected}. Use AllPairs, AIM or MST, "
            f"or leave the {'weight' if unit is None else 'unit'} out of the schema."
        )
    if request.opened:
        raise UnprovenError(
            f"finding the levels of {', '.join(map(repr, request.opened))} is proven to protect "
            f"single rows, not {protected}. Declare these levels."
        )
    declared = is_declared(request.parameters.n_rows)
    if declared and unit is not None and unit.max_rows > 1:
        raise ParameterError(
            f"n_rows cannot be declared if a {unit.column!r} may have several rows: the number of "
            "rows that take part is private. Leave n_rows out."
        )
    if declared and weight is not None:
        raise ParameterError(
            "n_rows cannot be declared if rows are weighted: the weighted total is private. "
            "Leave n_rows out."
        )
    return STEPS if request.declared is not None and request.declared.is_weighted else 1


def _check_plain_rows(facts: Schema) -> None:
    """Raise SchemaError if the rows of a source still belong to units, or have weights."""
    if facts.without_unit is not facts:
        raise SchemaError(
            "a source counts each row as one, and its schema declares a unit or a weight. Pass the "
            "frame, the path or Table.read(...) instead of the source."
        )


def _remedy(shared: Filter | Composition, plan: FitPlan) -> str:
    """Return the remedy for a fit that exceeds a budget."""
    delta, rare = plan.delta, plan.failures
    if isinstance(shared, Composition):
        return (
            "Plan the fit in advance: Composition([*model.planned_events(schema), ...], epsilon, "
            "delta), with the model and the schema of the fit"
        )
    if plan.trainings:
        return (
            "A Filter, such as the budget of a ledger, charges each step of a training as if it "
            "read every row. Use Composition(model.planned_events(schema), epsilon, delta), or a "
            "family that measures marginals, such as AllPairs"
        )
    if rare and not shared.can_afford(*rare):
        return (
            f"The fit may release a rare level with probability {rare[0].delta:g}. Use a budget "
            "with a larger failure=..., or declare the levels"
        )
    if shared.delta == 0 < delta:
        return (
            f"This fit needs a delta of {delta:g}, and the delta of the budget is 0. Use a budget "
            "with a larger delta, or fit AIM, MST or PrivBayes with delta=0"
        )
    if (
        delta == 0 < shared.delta
        and isinstance(shared, Filter)
        and shared.cost.privacy_measure != "pure"
    ):
        return (
            "This fit has delta=0, and pure epsilons cost much in other measures. Use "
            "Filter(..., measure='pure'), or fit with a delta above 0"
        )
    return "Use a smaller epsilon, or a larger budget"


def fit_conditions(
    schema: Schema,
    parameters: Synthesizer,
    undeclared: str,
    *,
    declared: Schema | None,
    engine: str,
    may_refuse: bool,
) -> list[Condition]:
    """Return the conditions of the guarantee of a fit.

    Parameters
    ----------
    schema : Schema
        Public facts about the rows.
    parameters : Synthesizer
        Only its parameters are read. Seeded noise and a declared number of rows are conditions.
    undeclared : {"refuse", "accept"}
        See `domain_conditions`.
    declared : Schema or None
        The declared schema, with its unit and its weight.
    engine : str
        The engine that counts rows in place of the kernel. Empty if the kernel counts them.
    may_refuse : bool
        Whether the content of a row may stop the reading, as for CSV files.

    Returns
    -------
    list of Condition
        All conditions. Public.
    """
    unit, weight = (None, None) if declared is None else (declared.unit, declared.weight)
    conditions = [*domain_conditions(schema, undeclared), RowFunctionsTested()]
    if engine:
        conditions.append(CountedOutsideTheKernel(engine))
    refuses_rows = unit is not None and unit.if_missing == "refuse"
    if may_refuse or refuses_rows or any(attribute.refuses for attribute in schema):
        conditions.append(RefusalsNotPrivate())
    if parameters.random_state is not None:
        conditions.append(ExplicitSeed())
    if is_declared(parameters.n_rows):
        conditions.append(DeclaredRowCount(n=int(parameters.n_rows)))
    if unit is not None and unit.if_missing == "own_unit":
        conditions.append(RowsWithoutUnit(unit.column))
    if weight is not None:
        conditions.append(WeightsOfRows(weight.column))
    return conditions
