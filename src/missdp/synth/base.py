"""The synthesizer: fitted once within a budget, and sampled without further cost.

There is one class. What families differ in is declared by a `Family`, and what a fit leaves behind
is a `Fitted`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

import numpy as np

from missdp.accounting import (
    Composition,
    Condition,
    DeclaredRowCount,
    Event,
    Filter,
    Guarantee,
)
from missdp.errors import (
    DataError,
    NotFittedError,
    ParameterError,
    UnprovenError,
    replacing,
)
from missdp.estimator import Estimator
from missdp.files import write_atomically
from missdp.progress import Progress, reported
from missdp.schema import Numeric, Schema
from missdp.schema.binning import Binning, BinSource
from missdp.schema.open_categorical import with_max_levels
from missdp.serialization import WRONG
from missdp.sources import Strategy
from missdp.synth.family import Codes, Family, Finish, Request
from missdp.synth.first_parts import check_open, left_out
from missdp.synth.fitted import Fitted, not_a_model, read_document
from missdp.synth.fitting import check_unit, fit
from missdp.synth.parameters import (
    check_parameters,
    chosen_delta,
    is_declared,
    is_integer,
    sampling_generator,
)
from missdp.synth.sampling import (
    Selection,
    Where,
    block_sizes,
    drawn_in_blocks,
    restored,
    with_related_values,
)
from missdp.synth.split import Parts, ground_truth_parts, of_parts
from missdp.table import MissingForm, Table, Values, check_missing_form
from missdp.threads import one_blas_thread
from missdp.validation import is_instance_of

Copied = TypeVar("Copied", bound="Synthesizer")
MissingValues: TypeAlias = Literal["fill", "keep"]

_NOT_PUBLIC = ("budget", "progress", "random_state")


@dataclass(kw_only=True, eq=False, repr=False)
class Synthesizer(Estimator):
    """Base of all synthesizers: scikit-learn parameters, one charged fit, free sampling.

    A family is a subclass that sets ``family``. Parameters of its own are fields of a dataclass,
    declared as they are here: ``@dataclass(kw_only=True, eq=False, repr=False)``.

    Parameters
    ----------
    epsilon : float
        Privacy budget of the whole fit, add-remove adjacency.
    delta : float or None
        The same; None is 1e-6, which is meant for up to 10,000 rows, or 1 / (100 n) if more, n, are
        declared. Nothing looks at how many there are: for more, state a delta or ``n_rows``.
    missing : str
        Missing-data strategy; one of ``family.strategies``.
    n_rows : "noisy" or int
        ``"noisy"`` estimates the row count from everything released that tells it, and spends a
        small share of the budget on it where the rest tells too little; a number declares it
        public.
    cuts : {"private", "equal"}, default "private"
        What bins a numeric attribute gets that declares none: those that a noisy tree of counts
        finds, for three tenths of the budget together; or ten of equal width, for nothing.
    random_state : int or None
        None draws noise from the operating system's cryptographic source. A number is for tests:
        the guarantee then says that it holds only against those who do not know the seed. A
        generator is refused: whoever goes on drawing from it could tell the noise. A pickle of the
        model holds the seed, and the file that `save` writes does not.
    budget : Filter, Composition or None
        A budget shared with other releases from the same table. It is charged before any
        computation and is shared, never copied, by clones and copies. A fitted model can be
        pickled, without it: the unpickled model samples and has its guarantee, and refuses to be
        fitted again until it is given a budget.
    progress : callable, bool or None
        Called with a stage name and the share of the work done; shows nothing private. True draws
        a bar in a terminal or notebook, and prints a line for each stage elsewhere.
    """

    family: ClassVar[Family]

    epsilon: float
    delta: float | None = None
    missing: str = "joint"
    n_rows: int | Literal["noisy"] = "noisy"
    cuts: Literal["private", "equal"] = "private"
    random_state: int | None = None
    budget: Filter | Composition | None = None
    progress: Progress | bool | None = None

    _fitted: Fitted | None = field(default=None, init=False)
    _budget_left: bool = field(default=False, init=False)  # whether it did not travel along

    @one_blas_thread()
    def fit(
        self,
        data: Any,
        y: None = None,
        *,
        schema: Schema | None = None,
        undeclared: Literal["refuse", "accept"] = "refuse",
    ) -> Self:
        """Learn a private model of the table.

        Parameters
        ----------
        data : Table, MarginalSource, frame, DuckDB relation or path
            The private rows. Anything but a Table or a source needs ``schema``.
        schema : Schema, optional
            Public facts about the columns.
        undeclared : {"refuse", "accept"}, default "refuse"
            What to do about facts of the schema that were read from the data and not declared
            public. ``"accept"`` makes them a condition of the guarantee.

        Returns
        -------
        self
            With ``guarantee_``, ``schema_``, ``n_rows_`` (the number of rows as far as it was
            released, at least 1) and ``n_rows_std_`` (the standard deviation of its noise) set.

        Raises
        ------
        ParameterError, SchemaError
            Before anything is charged; a model that was fitted before stays as it was.
        DataError
            Before anything is charged, if the data is read into memory; rows that are streamed
            are read after the charge, which stays. The model is then not fitted.
        BudgetExceededError
            If the shared budget cannot afford the fit; nothing is computed then.

        Warns
        -----
        SmallTableWarning
            If the released number of rows is no larger than its noise, or most relations between
            columns are noise. Or if hardly a row is complete, by what was released, and only
            complete ones are learned from.
        """
        del y
        check_parameters(self)
        if self._budget_left and self.budget is None:
            raise ParameterError(
                "this model was fitted within a shared budget that did not travel with it; to fit "
                "it again, give it one with set_params(budget=...), or clone it to do without"
            )
        with reported(self.progress) as progress:
            fit(self, data, schema, undeclared, progress)
        self._budget_left = False
        return self

    # What a fit leaves behind

    @property
    def fitted_(self) -> Fitted:
        """All that the fit left behind, which never changes."""
        if self._fitted is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self._fitted

    def adopt(self, fitted: Fitted | None) -> None:
        """Take over all that a fit left behind, or forget it: as a whole."""
        self._fitted = fitted

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    @property
    def schema_(self) -> Schema:
        """Public facts about the rows, with the bins and levels that were found."""
        return self.fitted_.schema

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee, computed from what was released."""
        return self.fitted_.guarantee

    @property
    def n_rows_(self) -> int:
        """Released or declared number of rows, at least 1."""
        return self.fitted_.n_rows

    @property
    def n_rows_std_(self) -> float:
        """Standard deviation of the noise of the number of rows."""
        return self.fitted_.n_rows_std

    @property
    def release_(self) -> str | None:
        """The id of the release whose file holds the model."""
        return self.fitted_.release

    @property
    def ledger_(self) -> dict[str, Any] | None:
        """The line of a ledger that paid for the release, if one did."""
        return self.fitted_.ledger

    def record_release(self, release: str, ledger: Mapping[str, Any] | None = None) -> None:
        """Note the id of the release whose file will hold the model, and what paid for it.

        Parameters
        ----------
        release : str
            The id.
        ledger : mapping, optional
            The line of a ledger that was charged.
        """
        entry = None if ledger is None else dict(ledger)
        self._fitted = replace(self.fitted_, release=release, ledger=entry)

    @property
    def model_(self) -> Any:
        """The released model."""
        return self.fitted_.model

    @property
    def tables_(self) -> Any:
        """The released tables to which the model was fitted; of families that keep them."""
        if self.fitted_.tables is None:
            raise AttributeError(f"{type(self).__name__} keeps no tables")
        return self.fitted_.tables

    @property
    def measured_(self) -> tuple[tuple[str, ...], ...]:
        """Which marginals were selected."""
        return self.fitted_.measured

    @property
    def modelled_(self) -> Schema:
        """Public facts about what is modelled: ``schema_``, made plainer by its rules.

        Attributes that follow from others are left out, "not applicable" is one more level of its
        attribute, and all other kinds of missing are one.
        """
        return self.fitted_.modelled.schema

    @property
    def bins_(self) -> dict[str, Binning]:
        """Bins, spikes and weights inside bins of numeric attributes, found privately.

        `Schema.with_bins` gives them to the schema of another table.
        """
        bins = {a.name: a.binning for a in self.schema_ if isinstance(a, Numeric)}
        found = {name: b for name, b in bins.items() if b.source is BinSource.RELEASE}
        return {n: replace(b, release=b.release or self.release_ or "") for n, b in found.items()}

    @property
    def population_(self) -> float:
        """The sum of all survey weights, as far as it was released."""
        size = self.fitted_.size
        if size is None or size.population is None:
            raise ParameterError("the schema of the fit declared no weight")
        return float(size.population)

    @property
    def effective_size_(self) -> float:
        """How many units that count alike would tell as much; the number of rows if all do."""
        size = self.fitted_.size
        return float(self.n_rows_) if size is None else size.units

    @property
    def left_out_(self) -> str:
        """What is known of rows, and of their weights, that did not take part: in words."""
        fitted = self.fitted_
        return left_out(fitted.size, fitted.guarantee, weighed=fitted.is_weighted)

    @property
    def applied_strategy(self) -> Strategy:
        """The strategy for missing values that the model was fitted with."""
        return self.family.strategy(self.fitted_.parameters["missing"])

    def __repr__(self) -> str:
        """Show parameters and, of a fitted model, where bins were found: both are released."""
        names = () if self._fitted is None else self.bins_
        found = ", ".join(f"{name} ({self.schema_[name].size})" for name in names)
        return super().__repr__() + (f", bins found: {found}" if found else "")

    # Guarantees

    def ground_truth_guarantee(self, assumption: Condition) -> Guarantee:
        """Return what the release guarantees for the table *before* values went missing.

        Parameters
        ----------
        assumption : MissingCompletelyAtRandom, BoundedObservation or RowIndependentMissingness
            How values went missing. It becomes a condition of the result. Never state it from
            the private table itself.

        Returns
        -------
        Guarantee
            With ``protects="ground-truth"``; epsilon is smaller where a row is read only if some
            of its cells are observed (strategies ``"complete-rows"``, ``"observed"``), and never
            larger than that of ``guarantee_``.

        Raises
        ------
        UnprovenError
            Without an assumption that rows lose values independently of each other.

        Examples
        --------
        >>> from missdp import PrivBayes
        >>> from missdp.accounting import MissingCompletelyAtRandom
        >>> from missdp.datasets import yrbss
        >>> table = yrbss().table()
        >>> model = PrivBayes(epsilon=1.0, missing="complete-rows").fit(table)
        >>> known = MissingCompletelyAtRandom(dict.fromkeys(table.schema.names, 0.9))
        >>> round(model.ground_truth_guarantee(known).epsilon, 2)
        0.37
        """
        self._check_unweighted()
        # By name: what is proven stands above this package, and is read when it is asked for.
        found: Guarantee = import_module("missdp.ground_truth").ground_truth_guarantee(
            self, assumption
        )
        return found

    def ground_truth_parts(self) -> Parts:
        """Return the caps of the fit's parts, for :func:`missdp.ground_truth.joint`."""
        self._check_unweighted()
        # The strategy of the fit, whatever was set later.
        request = Request(type(self)(**self.fitted_.parameters), None, self.schema_)
        return ground_truth_parts(
            self.guarantee_,
            strategy=request.strategy,
            modelled=self.fitted_.modelled,
            limits=self.fitted_.limits,
            training_requirement=request.training_requirement(),
        )

    def _check_unweighted(self) -> None:
        size = self.fitted_.size
        if size is not None and size.weight is not None:
            raise UnprovenError(
                "a guarantee for the table before values went missing is not proven where rows "
                f"count by {size.weight.column!r}"
            )

    def planned_events(self, schema: Schema) -> tuple[Event, ...]:
        """Return the events that a fit to rows with this schema charges a shared budget with.

        For the plan of a `Composition`; no rows are read.

        Parameters
        ----------
        schema : Schema
            Of the private table.

        Returns
        -------
        tuple of Event
            The cap of the fit, failures of open levels, and the trainings of networks.

        Examples
        --------
        >>> from missdp import Composition, MST
        >>> from missdp.datasets import yrbss
        >>> models = [MST(epsilon=e) for e in (0.5, 1.0)]
        >>> events = [e for model in models for e in model.planned_events(yrbss().schema())]
        >>> budget = Composition(events, 1.2, 2e-6)
        >>> for model in models:
        ...     _ = model.set_params(budget=budget).fit(yrbss().table())
        >>> budget.spent.epsilon
        1.2
        """
        request = self._planned(schema)
        cap = request.budget.filter()
        return (cap, *request.failures, *request.trainings)

    def _planned(self, schema: Schema, **more: Any) -> Request[Self]:
        """Return the request of a fit that is planned: of no shared budget."""
        parameters = type(self)(**self._public() | more)
        check_parameters(parameters)
        return Request(parameters, schema)

    def planned_parts(
        self, schema: Schema, *, epsilon: float | None = None
    ) -> tuple[Guarantee, Parts]:
        """Return the guarantee of a fit to rows with this schema, and its parts: nothing is read.

        For :func:`missdp.ground_truth.planned_ground_truth`. What a fit adds to the conditions is
        left out; another ``epsilon`` may be tried.
        """
        request = self._planned(schema, **({} if epsilon is None else {"epsilon": epsilon}))
        check_open(request)
        request = request.on_rows(with_max_levels(schema), schema.names)
        budget, trainings, plan = request.budget, request.trainings, request.plan()
        epsilon = float(request.parameters.epsilon) if trainings else budget.epsilon
        whole = Guarantee(epsilon, budget.delta, events=(budget.filter(), *trainings))
        plan.check(steps=check_unit(request))
        if request.opened:
            events = (*whole.events, *request.failures)
            whole = replace(whole, delta=request.delta, events=events)
        return whole, of_parts(whole, plan.limits, trainings, request.training_requirement())

    def _public(self) -> dict[str, Any]:
        return {n: v for n, v in self.get_params(deep=False).items() if n not in _NOT_PUBLIC}

    def public_parameters(self) -> dict[str, Any]:
        """Return the parameters that a file of the model holds, checked."""
        own = {**self._public(), **check_parameters(self)}
        return {n: v.item() if isinstance(v, np.generic) else v for n, v in own.items()}

    # Files

    def save(self, path: str | Path) -> None:
        """Write the released model (no private data) to a file, whole or not at all."""
        write_atomically(Path(path), self.fitted_.text())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that :meth:`save` wrote; it can be sampled, with the guarantee it had."""
        return cls.opened(read_document(Path(path)), Path(path))

    @classmethod
    def opened(cls, document: Mapping[str, Any], path: Path) -> Self:
        """Return the model of a parsed file, if it is undamaged, and of this family."""
        broken, family = not_a_model(path), cls.family
        if document["family"] != cls.__name__:
            raise DataError(f"{str(path)!r} holds a model of another family; use missdp.load")
        with replacing(*WRONG, by=lambda error: error if isinstance(error, DataError) else broken):
            fitted = Fitted.from_document(document, name=repr(str(path)))
        with replacing(Exception, by=broken):
            model = cls(**fitted.parameters)
            parts = (fitted.model, family.model), (fitted.tables, family.tables)
            typed = all(is_instance_of(part, kind) for part, kind in parts)
            known = model.missing in family.strategies
            if not (typed and known and fitted.parameters.keys() == model._public().keys()):
                raise broken
            agrees = model._agrees_with(fitted.guarantee)
        if not agrees:
            raise DataError(
                "the guarantee of the model is not that of its parameters: the file was edited"
            )
        model.adopt(fitted)
        return model

    def _agrees_with(self, guarantee: Guarantee) -> bool:
        """Whether a guarantee is that of a fit with these parameters."""
        declared = [c.n for c in guarantee.conditions if isinstance(c, DeclaredRowCount)]
        return (
            math.isclose(guarantee.epsilon, self.epsilon, rel_tol=1e-6)
            and guarantee.delta == chosen_delta(self.delta, self.n_rows)
            and (guarantee.adjacency, guarantee.protects) == ("add-remove", "incomplete")
            and declared == ([int(self.n_rows)] if is_declared(self.n_rows) else [])
        )

    # Sampling

    def sample(
        self,
        n: int | None = None,
        *,
        missing_values: MissingValues = "fill",
        random_state: int | None = None,
        multiple: int | None = None,
        missing_as: MissingForm = "nulls",
        values: Values = "codes",
        where: Where | None = None,
    ) -> Any:
        """Draw synthetic rows; costs no privacy.

        Parameters
        ----------
        n : int, optional
            Number of rows, at least 0; by default ``n_rows_``, the released or declared row count,
            which is at least 1.
        missing_values : {"fill", "keep"}, default "fill"
            ``"keep"`` returns holes as the model saw them, for models of the missingness.
        random_state : int, optional
            Makes the draw repeatable. Sampling is post-processing, so any seed is safe; its stream
            is never the noise's.
        multiple : int, optional
            Draw that many tables, at least 2, each from a model of its own that differs from the
            fitted one by as much as noise, sampling and holes leave unknown. Combine estimates
            with :func:`~missdp.evaluate.combine_estimates`. One refit each; AllPairs, AIM and MST
            only. What their intervals do not cover is in docs/multiple-tables.md.
        missing_as : {"nulls", "codes"}, default "nulls"
            What a cell without a value comes back as: null, or the first code that the schema
            declares for its kind of missing.
        values : {"codes", "labels"}, default "codes"
            What a level comes back as: itself, or the label that the schema declares for it.
        where : str or mapping, optional
            Draw only rows that match a condition such as ``"age >= 60 and sex = 'f'"``, as in
            commands. Or a mapping, ``{"sex": "f", "age": (60, 80)}``, of names to a value, a list
            of values or a pair of bounds, which belong to the range. None stands for missing cells
            and needs ``missing_values="keep"``. Needs ``n``. Rows are drawn from the model, and
            dropped if they do not match, until ``n`` match. At most a million rows are drawn, or
            1,000 for each of ``n`` if that is more; then an error states the matching share.

        Returns
        -------
        frame, or list of frames if ``multiple`` is given
            As was fitted, with the schema's columns and dtypes.
        """
        check_missing_form(missing_as, values)
        if multiple is not None:
            n = round(self.effective_size_) if n is None else n
            models = self.uncertain_models(multiple, random_state=random_state)
            drawn = partial(Synthesizer.sample_table, missing_values=missing_values, where=where)
            return [
                drawn(model, n).to_native(missing_as=missing_as, values=values) for model in models
            ]
        return self.sample_table(
            n, missing_values=missing_values, random_state=random_state, where=where
        ).to_native(missing_as=missing_as, values=values)

    def estimate(self, question: str, *, by: Any = (), confidence: float = 0.95) -> Any:
        """Estimate from what was released, without rows; costs no privacy.

        Parameters
        ----------
        question : str
            ``mean(x)``, ``sd(x)``, ``median(x)``, ``quantile(x, 0.9)``, ``share(x == 1)``,
            ``share(x is missing)``, ``correlation(x, y)`` or ``difference(mean(x))``; then ``by``.
        by : str or sequence of str, optional
            Attributes whose levels make groups.
        confidence : float, default 0.95
            Of the intervals.
        """
        return import_module("missdp.estimate").estimate(
            self, question, by=by, confidence=confidence
        )

    def regress(self, formula: str, *, confidence: float = 0.95) -> Any:
        """Estimate a linear regression by least squares from what was released, without rows.

        Parameters
        ----------
        formula : str
            ``wage ~ age + C(sex)``: names, ``+`` and ``C()``. It is read, and never evaluated.
        confidence : float, default 0.95
            Of the intervals.
        """
        return import_module("missdp.estimate").regress(self, formula, confidence=confidence)

    def sensitivity(
        self,
        question: str,
        *,
        attribute: str,
        shifts: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
        by: Any = (),
        confidence: float = 0.95,
    ) -> Any:
        """Tell how an estimate moves if values are missing because of what they are.

        Parameters
        ----------
        question, by, confidence
            As for `estimate`, or a formula as for `regress`.
        attribute : str
            One of the numbers that it is about, some of whose values are missing.
        shifts : sequence of float
            Standard deviations of it that are added to every missing value. At 0 values are missing
            at random.
        """
        return import_module("missdp.estimate").sensitivity(
            self, question, attribute=attribute, shifts=shifts, by=by, confidence=confidence
        )

    def uncertain_models(self, multiple: int, *, random_state: int | None = None) -> Iterator[Self]:
        """Return the models of ``sample(multiple=...)``, one after the other.

        Each is a refit that varies as this one is uncertain, and draws by a seed of its own: for
        tables that memory does not hold together.

        Raises
        ------
        ParameterError
            If the family has no such models: all but AllPairs, AIM and MST.
        """
        if not (is_integer(multiple) and multiple >= 2):
            raise ParameterError("multiple must be a whole number of tables, at least 2")
        fitted, resample = self.fitted_, self.family.resample
        rng = sampling_generator(self.random_state if random_state is None else random_state)
        if resample is None:
            raise ParameterError(
                f"{type(self).__name__} cannot draw tables that vary as its model is uncertain: "
                "leave 'multiple' out, or use AllPairs, AIM or MST"
            )
        return self._each_with_seed(resample(fitted, rng), int(multiple), rng)

    def _each_with_seed(
        self, models: Iterator[Any], multiple: int, rng: np.random.Generator
    ) -> Iterator[Self]:
        for _ in range(multiple):
            with one_blas_thread():
                model = next(models)
            another = copy.copy(self)
            another.random_state = int(rng.integers(2**63))
            # Whatever it was fitted to was made up from this release, and promises what this does.
            # Combining takes the variance of real samples for given.
            another.adopt(replace(self.fitted_, model=model, draws="independent"))
            yield another

    def sample_table(
        self,
        n: int | None = None,
        *,
        missing_values: MissingValues = "fill",
        random_state: int | None = None,
        where: Where | None = None,
    ) -> Table:
        """Draw synthetic rows as a :class:`~missdp.Table`; see :meth:`sample`."""
        return Table.concatenate(
            self.sample_blocks(
                n, missing_values=missing_values, random_state=random_state, where=where
            )
        )

    def sample_blocks(
        self,
        n: int | None = None,
        *,
        missing_values: MissingValues = "fill",
        random_state: int | None = None,
        where: Where | Selection | None = None,
    ) -> Iterator[Table]:
        """Return the rows of :meth:`sample` in blocks: for more rows than memory holds.

        Parameters
        ----------
        n, missing_values, random_state
            See :meth:`sample`.
        where : str, mapping or Selection, optional
            See :meth:`sample`. A `Selection` counts how many rows met the condition.

        Returns
        -------
        iterator of Table
            Blocks, drawn one after the other. Constraints between two rows make it one block.

        Raises
        ------
        ParameterError
            If a parameter has no valid value, or too few rows of the model meet ``where``.
        """
        fitted = self.fitted_
        if n is not None and not (is_integer(n) and n >= 0):
            raise ParameterError("n must be a whole number of rows, at least 0")
        if missing_values not in ("fill", "keep"):
            raise ParameterError("missing_values must be 'fill' or 'keep'")
        if missing_values == "keep" and not self.applied_strategy.models_missingness:
            raise ParameterError(
                f"missing={self.applied_strategy.name!r} does not model holes; to keep them, fit "
                "with missing='joint', or a family that offers it"
            )
        rng = sampling_generator(self.random_state if random_state is None else random_state)
        rows, columns = fitted.n_rows if n is None else int(n), len(fitted.schema)
        together = self.draws_together
        sizes = [rows] if together else block_sizes(rows, columns)
        draw = partial(self.sample_block, missing_values)
        if where is None:
            return drawn_in_blocks(draw, sizes, rng, columns)
        if n is None or together:
            raise ParameterError(
                "where cannot be used: constraints between two rows need all rows together"
                if together
                else "where requires n, the number of rows to draw"
            )
        asked = where if isinstance(where, Selection) else Selection(where, fitted.schema)
        if asked.missing and missing_values != "keep":
            raise ParameterError("missing cells can be asked for with missing_values='keep' only")
        return asked.blocks(draw, rows, rng, columns=columns)

    @one_blas_thread()
    def sample_block(
        self, missing_values: MissingValues, rows: int, rng: np.random.Generator
    ) -> Table:
        """Draw rows in one block, by a generator.

        Parameters
        ----------
        missing_values : {"fill", "keep"}
            See :meth:`sample`.
        rows : int
            Number of rows.
        rng : numpy.random.Generator
            Draws them.

        Returns
        -------
        Table
        """
        drawn = self._drawn(missing_values, rows, rng)
        if (finish := self._finish) is not None:
            drawn = finish(self.fitted_, drawn, partial(self._drawn, "fill"), rng)
        return drawn.coded_as(self.fitted_.unbinned)

    def _drawn(self, missing_values: MissingValues, rows: int, rng: np.random.Generator) -> Table:
        """Draw rows from the model, each by itself."""
        fitted, keep_missing = self.fitted_, missing_values == "keep"
        if fitted.modelled.is_identity:
            codes = self.sample_codes(rows, rng, keep_missing=keep_missing)
            drawn = Table.from_codes(fitted.schema, codes, kind=fitted.frame)
            return with_related_values(drawn, rng)
        one = partial(self.sample_codes, rng=rng, keep_missing=keep_missing)
        modelled, shares = fitted.modelled, fitted.kinds
        return restored(modelled, one, rows, rng, shares=shares, kind=fitted.frame)

    def sample_codes(self, n: int, rng: np.random.Generator, *, keep_missing: bool) -> Codes:
        """Draw codes of every modelled attribute; a missing cell has the code ``size``.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : numpy.random.Generator
            Draws them.
        keep_missing : bool
            Whether cells may be missing.

        Returns
        -------
        dict of str to ndarray of int64, shape (n,)
        """
        return self.family.sample(self.fitted_, n, rng, keep_missing)

    @property
    def _finish(self) -> Finish | None:
        """What makes rows fit each other, by the parameters of the fit or, before it, by those."""
        finish = self.family.finish
        own = self.get_params(deep=False) if self._fitted is None else self._fitted.parameters
        return None if finish is None else finish(own)

    @property
    def draws_together(self) -> bool:
        """Whether all synthetic rows are drawn at once, since they must fit to each other."""
        return self._finish is not None

    # Copies

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle a fitted model without its budget."""
        own, lost = self.get_params(deep=False), self._budget_left
        if self._fitted is not None and self.budget is not None:
            own, lost = own | {"budget": None}, True
        return _copied, (type(self), own, self._fitted, lost)

    def __copy__(self) -> Self:
        """Copy that shares everything, the budget included."""
        own = self.get_params(deep=False)
        return _copied(type(self), own, self._fitted, self._budget_left)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all but the budget, which is shared."""
        own, fitted = copy.deepcopy((self.get_params(deep=False), self._fitted), memo)
        return _copied(type(self), own, fitted, self._budget_left)


def _copied(
    cls: type[Copied], parameters: Mapping[str, Any], fitted: Fitted | None, budget_left: bool
) -> Copied:
    """Return a synthesizer with these parameters, and with what a fit left behind."""
    another = cls(**parameters)
    another._fitted, another._budget_left = fitted, budget_left
    return another
