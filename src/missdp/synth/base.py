"""The synthesizer: it is fitted once within a budget, and sampled without further cost.

There is one class. A `Family` declares the differences between families, and a `Fitted` record has
the results of a fit.
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
from missdp.progress import Progress, progress_callback
from missdp.schema import Schema
from missdp.schema.binning import Binning
from missdp.schema.open_categorical import with_max_levels
from missdp.serialization import WRONG
from missdp.sources import Strategy
from missdp.synth.family import Codes, Family, Finish, Request
from missdp.synth.first_parts import check_open, left_out
from missdp.synth.fitted import Fitted, not_a_model, read_document
from missdp.synth.fitting import check_unit, fit_synthesizer
from missdp.synth.parameters import (
    check_parameters,
    chosen_delta,
    is_declared,
    is_integer,
    sampling_generator,
)
from missdp.synth.sampling import (
    RowSelection,
    Where,
    block_sizes,
    drawn_in_blocks,
    restore_rows,
    with_related_values,
)
from missdp.synth.split import Parts, ground_truth_parts, of_parts
from missdp.table import MissingForm, Table, Values, check_missing_form
from missdp.threads import one_blas_thread
from missdp.validation import is_instance_of

Copied = TypeVar("Copied", bound="Synthesizer")
MissingValues: TypeAlias = Literal["fill", "keep"]

_NOT_PUBLIC = ("budget", "progress", "random_state")  # parameters that files do not hold


@dataclass(kw_only=True, eq=False, repr=False)
class Synthesizer(Estimator):
    """Base of all synthesizers: scikit-learn parameters, one charged fit, free sampling.

    A family is a subclass that sets ``family``. Its additional parameters are fields of a
    dataclass, declared as they are here: ``@dataclass(kw_only=True, eq=False, repr=False)``.

    Parameters
    ----------
    epsilon : float
        Privacy budget of the complete fit, add-remove adjacency.
    delta : float or None
        Delta of the complete fit. None is 1e-6, which is meant for up to 10,000 rows. For a larger
        declared number n of rows, None is 1 / (100 n). The private number of rows is never read for
        it. For more rows, state a delta or ``n_rows``.
    missing : str
        Missing-data strategy, one of ``family.strategies``.
    n_rows : "noisy" or int
        ``"noisy"`` estimates the row count from all released values that depend on it. A small
        share of the budget releases a count if these values are not precise enough. A number
        declares the row count public.
    bins : {"private", "equal"}, default "private"
        Bins of numeric attributes that declare none. ``"private"`` finds bins by a noisy tree of
        counts, for three tenths of the budget together. ``"equal"`` makes ten bins of equal width,
        without cost.
    random_state : int or None
        None draws noise from the operating system's cryptographic source. A number is for tests.
        The guarantee then states that it holds only against people who do not know the seed. A
        generator raises an error: later draws from it could reveal the noise. A pickle of the model
        holds the seed, and the file that `save` writes does not.
    budget : Filter, Composition or None
        A budget shared with other releases from the same table. It is charged before any
        computation. Clones and copies share it. A pickle of a fitted model does not contain it. The
        unpickled model samples and has its guarantee, and needs a budget before another fit.
    progress : callable, bool or None
        Called with a stage name and the share of the work done. It shows nothing private. True
        draws a bar in a terminal or notebook, and prints a line for each stage elsewhere.
    """

    family: ClassVar[Family]

    epsilon: float
    delta: float | None = None
    missing: str = "joint"
    n_rows: int | Literal["noisy"] = "noisy"
    bins: Literal["private", "equal"] = "private"
    random_state: int | None = None
    budget: Filter | Composition | None = None
    progress: Progress | bool | None = None

    _fitted: Fitted | None = field(default=None, init=False)
    _budget_lost: bool = field(default=False, init=False)  # whether a pickle dropped the budget

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
            The private rows. Frames, relations and paths need ``schema``.
        y : None
            Not used. For compatibility with scikit-learn.
        schema : Schema, optional
            Public facts about the columns.
        undeclared : {"refuse", "accept"}, default "refuse"
            Treatment of facts of the schema that were read from the data and not declared public.
            ``"accept"`` makes them a condition of the guarantee.

        Returns
        -------
        self
            With ``guarantee_``, ``schema_``, ``n_rows_`` and ``n_rows_std_`` set. ``n_rows_`` is
            the released or declared number of rows, at least 1. ``n_rows_std_`` is the standard
            deviation of its noise.

        Raises
        ------
        ParameterError, SchemaError
            Before the charge. A model that was fitted before remains unchanged.
        DataError
            Before the charge, if the data is read into memory. Rows that are streamed are read
            after the charge, which remains. The model is then not fitted.
        BudgetExceededError
            If the shared budget cannot afford the fit. Nothing is computed then.

        Warns
        -----
        SmallTableWarning
            If the released number of rows is no larger than its noise. Also if most relations
            between columns are noise, or if only complete rows are read and few rows are complete,
            by released values.
        """
        del y
        check_parameters(self)
        if self._budget_lost and self.budget is None:
            raise ParameterError(
                "the pickle of this model has lost its shared budget. Before another fit, use "
                "set_params(budget=...), or clone the model for a fit without a shared budget."
            )
        with progress_callback(self.progress) as progress:
            fit_synthesizer(self, data, schema, undeclared, progress)
        self._budget_lost = False
        return self

    # Results of the fit

    @property
    def fitted_(self) -> Fitted:
        """The frozen record of all results of the fit."""
        if self._fitted is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet. Call fit first.")
        return self._fitted

    def adopt(self, fitted: Fitted | None) -> None:
        """Set the record of a fit, or remove it with None."""
        self._fitted = fitted

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    @property
    def schema_(self) -> Schema:
        """Public facts about the rows, with the released bins and levels."""
        return self.fitted_.schema

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee, computed from the released events."""
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
        """The id of the release whose file holds the model, or None."""
        return self.fitted_.release

    @property
    def ledger_(self) -> dict[str, Any] | None:
        """The entry of the ledger that paid for the release, or None."""
        return self.fitted_.ledger

    def record_release(self, release: str, ledger: Mapping[str, Any] | None = None) -> None:
        """Record the id of the release whose file will hold the model, and the entry that paid.

        Parameters
        ----------
        release : str
            The id.
        ledger : mapping, optional
            The entry of the ledger that was charged.
        """
        entry = None if ledger is None else dict(ledger)
        self._fitted = replace(self.fitted_, release=release, ledger=entry)

    @property
    def model_(self) -> Any:
        """The released model."""
        return self.fitted_.model

    @property
    def tables_(self) -> Any:
        """The released tables to which the model was fitted, if the family keeps them."""
        if self.fitted_.tables is None:
            raise AttributeError(f"{type(self).__name__} does not keep its released tables")
        return self.fitted_.tables

    @property
    def measured_(self) -> tuple[tuple[str, ...], ...]:
        """The marginals that were selected, as tuples of names."""
        return self.fitted_.measured

    @property
    def modelled_(self) -> Schema:
        """Public facts about the modelled attributes: ``schema_``, simplified by its rules.

        Attributes that follow from others are left out. "Not applicable" is one more level of its
        attribute, and all other kinds of missing are one kind.
        """
        return self.fitted_.modelled.schema

    @property
    def bins_(self) -> dict[str, Binning]:
        """Released bins, spikes and weights inside bins of numeric attributes.

        `Schema.with_bins` applies them to the schema of another table.
        """
        return {n: b for n, b in self.fitted_.released_bins.items() if n in self.schema_}

    @property
    def population_(self) -> float:
        """The released sum of all survey weights."""
        size = self.fitted_.size
        if size is None or size.population is None:
            raise ParameterError("population_: the schema of the fit declares no weight")
        return float(size.population)

    @property
    def effective_size_(self) -> float:
        """The effective number of units (Kish): the number of rows if all rows count equally."""
        size = self.fitted_.size
        return float(self.n_rows_) if size is None else size.units

    @property
    def left_out_(self) -> str:
        """A description of the rows and weights that did not take part, from released values."""
        fitted = self.fitted_
        return left_out(fitted.size, fitted.guarantee, weighed=fitted.is_weighted)

    @property
    def applied_strategy(self) -> Strategy:
        """The strategy for missing values that the model was fitted with."""
        return self.family.strategy(self.fitted_.parameters["missing"])

    def __repr__(self) -> str:
        """Return the parameters and, for a fitted model, the attributes with released bins."""
        names = () if self._fitted is None else self.bins_
        bins = ", ".join(f"{name} ({self.schema_[name].size})" for name in names)
        return super().__repr__() + (f", bins found: {bins}" if bins else "")

    # Guarantees

    def ground_truth_guarantee(self, assumption: Condition) -> Guarantee:
        """Return the guarantee for the table *before* values went missing.

        Parameters
        ----------
        assumption : MissingCompletelyAtRandom, BoundedObservation or RowIndependentMissingness
            How values went missing. It becomes a condition of the result. Never derive it from the
            private table itself.

        Returns
        -------
        Guarantee
            With ``protects="ground-truth"``. Its epsilon is never larger than that of
            ``guarantee_``. It is smaller if a row is read only if some of its cells are observed
            (strategies ``"complete-rows"`` and ``"observed"``).

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
        >>> assumption = MissingCompletelyAtRandom(dict.fromkeys(table.schema.names, 0.9))
        >>> round(model.ground_truth_guarantee(assumption).epsilon, 2)
        0.37
        """
        self._check_unweighted()
        # Imported by name, since missdp.ground_truth imports this package.
        guarantee: Guarantee = import_module("missdp.ground_truth").ground_truth_guarantee(
            self, assumption
        )
        return guarantee

    def ground_truth_parts(self) -> Parts:
        """Return the caps of the parts of the fit, for :func:`missdp.ground_truth.joint`."""
        self._check_unweighted()
        # The parameters of the fit, since parameters may have been set later.
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
                "no guarantee for the table before values went missing is proven for rows that "
                f"count by the weight {size.weight.column!r}"
            )

    def planned_events(self, schema: Schema) -> tuple[Event, ...]:
        """Return the events that a fit to rows with this schema charges to a shared budget.

        They are the plan of a `Composition`. No rows are read.

        Parameters
        ----------
        schema : Schema
            Schema of the private table.

        Returns
        -------
        tuple of Event
            The cap of the fit, the failures of open levels, and the trainings of networks.

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
        """Return the request of a planned fit, without a shared budget."""
        parameters = type(self)(**self._public() | more)
        check_parameters(parameters)
        return Request(parameters, schema)

    def planned_parts(
        self, schema: Schema, *, epsilon: float | None = None
    ) -> tuple[Guarantee, Parts]:
        """Return the guarantee of a planned fit, and its parts. No rows are read.

        For :func:`missdp.ground_truth.planned_ground_truth`. Conditions that a fit adds are left
        out.

        Parameters
        ----------
        schema : Schema
            Schema of the private table.
        epsilon : float, optional
            Another epsilon than that of the synthesizer.

        Returns
        -------
        guarantee : Guarantee
            The guarantee of the complete fit.
        parts : Parts
            The guarantee by its parts, and the structure of their required attributes.
        """
        request = self._planned(schema, **({} if epsilon is None else {"epsilon": epsilon}))
        check_open(request)
        request = request.on_rows(with_max_levels(schema), schema.names)
        budget, trainings, plan = request.budget, request.trainings, request.plan()
        epsilon = float(request.parameters.epsilon) if trainings else budget.epsilon
        guarantee = Guarantee(epsilon, budget.delta, events=(budget.filter(), *trainings))
        plan.check(steps=check_unit(request))
        if request.opened:
            events = (*guarantee.events, *request.failures)
            guarantee = replace(guarantee, delta=request.delta, events=events)
        required = request.training_requirement()
        return guarantee, of_parts(guarantee, plan.limits, trainings, required)

    def _public(self) -> dict[str, Any]:
        return {n: v for n, v in self.get_params(deep=False).items() if n not in _NOT_PUBLIC}

    def public_parameters(self) -> dict[str, Any]:
        """Return the checked parameters that a file of the model holds."""
        parameters = {**self._public(), **check_parameters(self)}
        return {n: v.item() if isinstance(v, np.generic) else v for n, v in parameters.items()}

    # Files

    def save(self, path: str | Path) -> None:
        """Write the released model to a file, which appears only if it is complete.

        Parameters
        ----------
        path : str or Path
            Name of the file. It holds no private data.
        """
        write_atomically(Path(path), self.fitted_.text())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that :meth:`save` wrote. It can be sampled, and has its guarantee.

        Parameters
        ----------
        path : str or Path
            Name of the file.

        Returns
        -------
        Synthesizer
            A fitted model.

        Raises
        ------
        DataError
            If the file holds no model of this family, or was edited.
        """
        return cls.opened(read_document(Path(path)), Path(path))

    @classmethod
    def opened(cls, document: Mapping[str, Any], path: Path) -> Self:
        """Return the model of a parsed file.

        Parameters
        ----------
        document : mapping
            The parsed content of the file.
        path : Path
            Name of the file, for messages.

        Returns
        -------
        Synthesizer
            A fitted model.

        Raises
        ------
        DataError
            If the file is damaged, was edited, or holds a model of another family.
        """
        broken, family = not_a_model(path), cls.family
        if document["family"] != cls.__name__:
            raise DataError(f"{str(path)!r} holds a model of another family. Use missdp.load.")
        with replacing(*WRONG, by=lambda error: error if isinstance(error, DataError) else broken):
            fitted = Fitted.from_document(document, name=repr(str(path)))
        with replacing(Exception, by=broken):
            model = cls(**fitted.parameters)
            parts = (fitted.model, family.model), (fitted.tables, family.tables)
            typed = all(is_instance_of(part, kind) for part, kind in parts)
            is_offered = model.missing in family.strategies
            if not (typed and is_offered and fitted.parameters.keys() == model._public().keys()):
                raise broken
            agrees = model._agrees_with(fitted.guarantee)
        if not agrees:
            raise DataError(
                "the guarantee of the model does not match its parameters: the file was edited"
            )
        model.adopt(fitted)
        return model

    def _agrees_with(self, guarantee: Guarantee) -> bool:
        """Return whether a guarantee matches a fit with these parameters."""
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
        """Draw synthetic rows, at no privacy cost.

        Parameters
        ----------
        n : int, optional
            Number of rows, at least 0. By default ``n_rows_``, the released or declared row count,
            which is at least 1.
        missing_values : {"fill", "keep"}, default "fill"
            ``"keep"`` returns missing cells as the model draws them. It needs a model of missing
            cells.
        random_state : int, optional
            Makes the draw repeatable. Sampling is post-processing, so any seed is safe. Its stream
            is never the stream of the noise.
        multiple : int, optional
            Draw this number of tables, at least 2, each from a model of its own. The models differ
            by the uncertainty due to noise, sampling and missing cells. Combine estimates with
            :func:`~missdp.evaluate.combine_estimates`. Each table needs one refit. AllPairs, AIM
            and MST only. docs/multiple-tables.md states the errors that their intervals do not
            cover.
        holes : {"nulls", "codes"}, default "nulls"
            Form of a cell without a value: null, or the first code that the schema declares for its
            kind of missing.
        values : {"codes", "labels"}, default "codes"
            Form of a level: itself, or the label that the schema declares for it.
        where : str or mapping, optional
            Draw only rows that match a condition such as ``"age >= 60 and sex = 'f'"``, as in
            commands. A mapping such as ``{"sex": "f", "age": (60, 80)}`` has a value, a list of
            values or a pair of inclusive bounds for each name. None selects missing cells and needs
            ``missing_values="keep"``. Needs ``n``. Rows are drawn from the model until ``n`` rows
            match, and other rows are dropped. At most a million rows are drawn, or 1,000 for each
            of ``n`` if that is more. Then an error states the matching share.

        Returns
        -------
        frame, or list of frames if ``multiple`` is given
            The kind of frame that was fitted, with the columns and dtypes of the schema.

        Raises
        ------
        ParameterError
            If a parameter has no valid value, or too few rows of the model match ``where``.
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
        """Estimate a statistic from released values, without rows, at no privacy cost.

        Parameters
        ----------
        question : str
            ``mean(x)``, ``sd(x)``, ``median(x)``, ``quantile(x, 0.9)``, ``share(x == 1)``,
            ``share(x is missing)``, ``correlation(x, y)`` or ``difference(mean(x))``, perhaps
            followed by ``by``.
        by : str or sequence of str, optional
            Attributes whose levels make groups.
        confidence : float, default 0.95
            Confidence of the intervals.

        Returns
        -------
        Estimates
            Released estimates with intervals.
        """
        return import_module("missdp.estimate").estimate(
            self, question, by=by, confidence=confidence
        )

    def regress(self, formula: str, *, confidence: float = 0.95) -> Any:
        """Estimate a linear regression by least squares from released values, without rows.

        Parameters
        ----------
        formula : str
            ``wage ~ age + C(sex)``: names, ``+`` and ``C()``. The formula is parsed, and never
            evaluated.
        confidence : float, default 0.95
            Confidence of the intervals.

        Returns
        -------
        Estimates
            Released coefficients with intervals.
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
        """Estimate the effect of missing values that depend on themselves on an estimate.

        Parameters
        ----------
        question, by, confidence
            As for `estimate`, or a formula as for `regress`.
        attribute : str
            A number in the question, some of whose values are missing.
        shifts : sequence of float
            Standard deviations of the attribute that are added to every missing value. At 0, values
            are missing at random.

        Returns
        -------
        SensitivityAnalysis
            The estimates by shift.
        """
        return import_module("missdp.estimate").sensitivity(
            self, question, attribute=attribute, shifts=shifts, by=by, confidence=confidence
        )

    def uncertain_models(self, multiple: int, *, random_state: int | None = None) -> Iterator[Self]:
        """Return the models of ``sample(multiple=...)``, one after the other.

        Each model is a refit that varies by the uncertainty of the fitted model, and has a seed of
        its own. Use them if memory does not hold all tables together.

        Parameters
        ----------
        multiple : int
            Number of models, at least 2.
        random_state : int, optional
            Makes the models repeatable.

        Returns
        -------
        iterator of Synthesizer
            Fitted models with the guarantee of this model.

        Raises
        ------
        ParameterError
            If the family has no such models: all but AllPairs, AIM and MST.
        """
        if not (is_integer(multiple) and multiple >= 2):
            raise ParameterError("multiple must be an integer, at least 2: the number of tables")
        fitted, resample = self.fitted_, self.family.resample
        rng = sampling_generator(self.random_state if random_state is None else random_state)
        if resample is None:
            raise ParameterError(
                f"{type(self).__name__} has no model of its own uncertainty. Leave 'multiple' "
                "out, or use AllPairs, AIM or MST."
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
            # The refit uses this release only, so the guarantee stays. Draws are independent, since
            # combining rules assume the variance of real samples.
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
        """Draw synthetic rows as a :class:`~missdp.Table`.

        Parameters
        ----------
        n, missing_values, random_state, where
            See :meth:`sample`.

        Returns
        -------
        Table
            The rows.
        """
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
        where: Where | RowSelection | None = None,
    ) -> Iterator[Table]:
        """Return the rows of :meth:`sample` in blocks, if memory does not hold all rows.

        Parameters
        ----------
        n, missing_values, random_state
            See :meth:`sample`.
        where : str, mapping or RowSelection, optional
            See :meth:`sample`. A ``RowSelection`` counts the matching rows.

        Returns
        -------
        iterator of Table
            Blocks in the order of their draws. Constraints between two rows need a single block.

        Raises
        ------
        ParameterError
            If a parameter has no valid value, or too few rows of the model meet ``where``.
        """
        fitted = self.fitted_
        if n is not None and not (is_integer(n) and n >= 0):
            raise ParameterError("n must be an integer, at least 0: the number of rows")
        if missing_values not in ("fill", "keep"):
            raise ParameterError("missing_values must be 'fill' or 'keep'")
        if missing_values == "keep" and not self.applied_strategy.models_missingness:
            raise ParameterError(
                f"missing={self.applied_strategy.name!r} does not model missing cells. To keep "
                "them, fit with missing='joint', or a family that offers it."
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
                "where cannot be used: constraints between two rows need all rows together."
                if together
                else "where requires n, the number of rows to draw"
            )
        selection = where if isinstance(where, RowSelection) else RowSelection(where, fitted.schema)
        if selection.missing and missing_values != "keep":
            raise ParameterError("where: missing cells need missing_values='keep'")
        return selection.blocks(draw, rows, rng, columns=columns)

    @one_blas_thread()
    def sample_block(
        self, missing_values: MissingValues, rows: int, rng: np.random.Generator
    ) -> Table:
        """Draw one block of rows with a random generator.

        Parameters
        ----------
        missing_values : {"fill", "keep"}
            See :meth:`sample`.
        rows : int
            Number of rows.
        rng : numpy.random.Generator
            Draws the rows.

        Returns
        -------
        Table
            The rows.
        """
        drawn = self._drawn(missing_values, rows, rng)
        if (finish := self._finish) is not None:
            drawn = finish(self.fitted_, drawn, partial(self._drawn, "fill"), rng)
        return drawn.coded_as(self.fitted_.unbinned)

    def _drawn(self, missing_values: MissingValues, rows: int, rng: np.random.Generator) -> Table:
        """Draw independent rows from the model."""
        fitted, keep_missing = self.fitted_, missing_values == "keep"
        if fitted.modelled.is_identity:
            codes = self.sample_codes(rows, rng, keep_missing=keep_missing)
            drawn = Table.from_codes(fitted.schema, codes, kind=fitted.frame)
            return with_related_values(drawn, rng)
        one = partial(self.sample_codes, rng=rng, keep_missing=keep_missing)
        modelled, shares = fitted.modelled, fitted.kinds
        return restore_rows(modelled, one, rows, rng, shares=shares, kind=fitted.frame)

    def sample_codes(self, n: int, rng: np.random.Generator, *, keep_missing: bool) -> Codes:
        """Draw codes of every modelled attribute. A missing cell has the code ``size``.

        Parameters
        ----------
        n : int
            Number of rows.
        rng : numpy.random.Generator
            Draws the rows.
        keep_missing : bool
            Whether cells may be missing.

        Returns
        -------
        dict of str to ndarray of int64, shape (n,)
            Codes by name.
        """
        return self.family.sample(self.fitted_, n, rng, keep_missing)

    @property
    def _finish(self) -> Finish | None:
        """The function that makes rows fit each other, by the parameters of the fit, or None."""
        finish = self.family.finish
        fitted = self._fitted
        parameters = self.get_params(deep=False) if fitted is None else fitted.parameters
        return None if finish is None else finish(parameters)

    @property
    def draws_together(self) -> bool:
        """Whether all synthetic rows are drawn at once, since constraints relate them."""
        return self._finish is not None

    # Copies

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle a fitted model without its budget."""
        parameters, budget_lost = self.get_params(deep=False), self._budget_lost
        if self._fitted is not None and self.budget is not None:
            parameters, budget_lost = parameters | {"budget": None}, True
        return _copied, (type(self), parameters, self._fitted, budget_lost)

    def __copy__(self) -> Self:
        """Return a copy that shares everything, the budget included."""
        parameters = self.get_params(deep=False)
        return _copied(type(self), parameters, self._fitted, self._budget_lost)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a deep copy that shares the budget only."""
        parameters, fitted = copy.deepcopy((self.get_params(deep=False), self._fitted), memo)
        return _copied(type(self), parameters, fitted, self._budget_lost)


def _copied(
    cls: type[Copied], parameters: Mapping[str, Any], fitted: Fitted | None, budget_lost: bool
) -> Copied:
    """Return a synthesizer with these parameters and this record of a fit."""
    another = cls(**parameters)
    another._fitted, another._budget_lost = fitted, budget_lost
    return another
