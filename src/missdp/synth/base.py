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
from missdp.schema import Numeric, Schema
from missdp.schema.binning import Binning
from missdp.schema.open_categorical import with_max_levels
from missdp.serialization import WRONG
from missdp.sources import Strategy
from missdp.synth.family import Codes, Family, Finish, Request
from missdp.synth.first_parts import check_open, left_out
from missdp.synth.fitted import Fitted, name_release, not_a_model, read_document
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
    """Base class of all synthesizers: one charged fit to private rows, and unlimited free sampling.

    A synthesizer is fitted once to a private table, within a privacy budget. The released model is
    a function of noisy values only. Drawing synthetic rows and estimates from the model therefore
    costs no further budget. Parameters are set and read as in scikit-learn.

    A family of synthesizers (such as AllPairs or AIM) is a subclass. It sets the class attribute
    ``family`` to a `Family`, and needs no methods of its own. Its additional parameters are fields
    of a dataclass that is declared with ``@dataclass(kw_only=True, eq=False, repr=False)``.

    Parameters
    ----------
    epsilon : float
        Privacy budget of the complete fit, from 1e-6 to 10,000. Two neighbouring tables differ by
        one added or removed row (add-remove adjacency). If the schema declares a unit, such as a
        person, they differ by all rows of one unit.
    delta : float or None, default None
        Delta of the complete fit, from 0 and below 1. None is 1e-6, which is meant for up to 10,000
        rows. For a declared number n of rows above 10,000, None is ``1 / (100 n)``. The private
        number of rows is never read for it. For more rows, state a delta or ``n_rows``.
    missing : str, default "joint"
        Strategy for missing cells, one of ``family.strategies``. ``"joint"`` counts every row, with
        "missing" as one more level. ``"observed"`` counts a table over the rows in which its
        attributes are observed. ``"complete-rows"`` drops rows with a missing cell before anything
        else. ``"impute-first"`` fills missing cells privately first.
    n_rows : "noisy" or int, default "noisy"
        ``"noisy"`` estimates the private number of rows from all released values that depend on it.
        A small share of the budget releases a noisy count if these values are not precise enough.
        An integer from 1 to 2**53 declares the number of rows public.
    bins : {"private", "equal"}, default "private"
        Bins of numeric attributes that declare none. ``"private"`` releases bins by a noisy tree of
        counts, for three tenths of the budget together. ``"equal"`` makes ten bins of equal width
        at no cost.
    random_state : int or None, default None
        None draws noise from the operating system's cryptographic source. A number is for tests.
        The guarantee then states that it holds only against people who do not know the seed. A
        generator raises an error: later draws from it could reveal the noise. A pickle of the model
        holds the seed, and the file that `save` writes does not.
    budget : Filter, Composition or None, default None
        A budget shared with other releases from the same table. It is charged before the first
        noisy value is released. Clones and copies share it. A pickle of a fitted model does not
        contain it. The unpickled model samples and has its guarantee, and needs a budget before
        another fit.
    progress : callable, bool or None, default None
        Called with the name of a stage and the share of the work done, in [0, 1]. It shows nothing
        private. True draws a bar in a terminal or notebook, and prints a line for each stage
        elsewhere.

    Raises
    ------
    ParameterError
        Raised by ``fit`` before the charge, if a parameter has no valid value.
    NotFittedError
        Raised by attributes and methods that need a fitted model.

    Examples
    --------
    >>> from missdp import AllPairs
    >>> from missdp.datasets import yrbss
    >>> model = AllPairs(epsilon=1.0, delta=1e-6).fit(yrbss().table())
    >>> model.sample(3).shape
    (3, 13)
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
        """Fit the synthesizer to a private table and release a noisy model of it.

        The cost of the complete fit is charged before the first noisy value is released. The model
        is computed from released values only.

        Parameters
        ----------
        data : Table, MarginalSource, frame, DuckDB relation or path
            The private rows. Frames, relations and paths need ``schema``.
        y : None
            Not used. For compatibility with scikit-learn.
        schema : Schema, optional
            Public facts about the columns. By default the schema of ``data``.
        undeclared : {"refuse", "accept"}, default "refuse"
            Treatment of facts of the schema that were read from the data and not declared public.
            ``"refuse"`` raises an error. ``"accept"`` makes them a condition of the guarantee,
            which is stated and not checked.

        Returns
        -------
        self
            The fitted synthesizer, with ``guarantee_``, ``schema_``, ``n_rows_`` and
            ``n_rows_std_`` set. ``n_rows_`` is the released or declared number of rows, at least 1.
            ``n_rows_std_`` is the standard deviation of its noise, in rows.

        Raises
        ------
        ParameterError, SchemaError, UnprovenError
            Before the charge, if a parameter or the schema allows no fit. UnprovenError concerns
            units of several rows, and weights, that the family does not protect. A model that was
            fitted before remains unchanged.
        LedgerError
            Before the charge, if the schema names a ledger to which ``budget`` does not belong.
        DataError
            If a cell does not fit the schema. A budget in a ledger is charged before files and
            frames are read. Another budget is charged after rows are read into memory, and before
            rows are streamed. After the charge, the charge remains, and the model is not fitted.
        BudgetExceededError
            If the shared budget cannot afford the fit. Nothing is charged or released then.

        Warns
        -----
        SmallTableWarning
            If the released number of rows is no larger than its noise. Also if most relations
            between columns are noise, or if only complete rows are read and few rows are complete,
            by released values.

        Notes
        -----
        All releases of the fit together are (epsilon, delta)-DP. Two neighbouring tables differ by
        one row, or by all rows of one unit if the schema declares a unit. ``guarantee_`` states the
        conditions.

        Examples
        --------
        >>> import pandas as pd
        >>> from missdp import Categorical, PrivBayes, Schema
        >>> schema = Schema((Categorical(name="ill", levels=("no", "yes"), nullable=True),))
        >>> people = pd.DataFrame({"ill": ["yes", "no", None] * 50})
        >>> PrivBayes(epsilon=1.0).fit(people, schema=schema).guarantee_.epsilon
        1.0
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
        """Return the frozen record of all results of the fit, such as released model and guarantee.

        Returns
        -------
        Fitted
            Released and public values only. It is the content of the file that `save` writes.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        if self._fitted is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet. Call fit first.")
        return self._fitted

    def adopt(self, fitted: Fitted | None) -> None:
        """Make the synthesizer fitted with the results of an earlier fit, or make it unfitted.

        No data are read, nothing is charged, and the record is not compared with the parameters.

        Parameters
        ----------
        fitted : Fitted or None
            The record of a fit of this family. None makes the synthesizer unfitted.
        """
        self._fitted = fitted

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    @property
    def schema_(self) -> Schema:
        """Return the schema of the fit: public facts about columns, with released bins and levels.

        Returns
        -------
        Schema
            Public facts, and released levels and bins.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        return self.fitted_.schema

    @property
    def guarantee_(self) -> Guarantee:
        """Return the privacy guarantee of the fit: epsilon, delta, adjacency and conditions.

        It is computed from the accounting events of all noisy releases of the fit. Conditions are
        stated with the guarantee, for the user to confirm.

        Returns
        -------
        Guarantee
            For the incomplete table. Public.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        return self.fitted_.guarantee

    @property
    def n_rows_(self) -> int:
        """Return the number of rows of the fitted table, released with noise or declared public.

        It is the default number of synthetic rows. For weighted rows, it is the effective number of
        independent rows.

        Returns
        -------
        int
            In rows, at least 1. Released, or declared public.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        return self.fitted_.n_rows

    @property
    def n_rows_std_(self) -> float:
        """Return the standard deviation of the noise of the released number of rows.

        Returns
        -------
        float
            In rows, at least 0. It is 0 if the number of rows was declared public. Public.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        return self.fitted_.n_rows_std

    @property
    def release_(self) -> str | None:
        """Return the id of the release whose file holds the fitted model, or None.

        Returns
        -------
        str or None
            A public text. `record_release` sets it.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        return self.fitted_.release

    @property
    def ledger_(self) -> dict[str, Any] | None:
        """Return the public entry of the privacy ledger that paid for the fitted model, or None.

        A ledger is a database of budgets (`missdp.governance.Ledger`). `record_release` sets the
        entry.

        Returns
        -------
        dict of str to object, or None
            Commands store ``budget``, ``request``, ``lines`` (number of lines up to the charge) and
            ``head`` (hash of the line). Public. None if no ledger was charged.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        return self.fitted_.ledger

    def record_release(self, release: str, ledger: Mapping[str, Any] | None = None) -> None:
        """Store in the fitted model the id of its release and the ledger entry that paid for it.

        A release is a published file of the model. A ledger is a database of budgets. Nothing is
        charged here.

        Parameters
        ----------
        release : str
            The id of the release. Public. It replaces an earlier id.
        ledger : mapping of str to object, optional
            The entry of the ledger that was charged: see `ledger_`. Public. None if no ledger was
            charged.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        entry = None if ledger is None else dict(ledger)
        self._fitted = replace(self.fitted_, release=release, ledger=entry)

    @property
    def model_(self) -> Any:
        """Return the released model from which synthetic rows are drawn, such as a ``PairModel``.

        Returns
        -------
        object
            Its type depends on the family. All values are released.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        return self.fitted_.model

    @property
    def tables_(self) -> Any:
        """Return the released noisy tables to which the model was fitted, if the family keeps them.

        AllPairs, AIM and MST keep them.

        Returns
        -------
        object
            Their type depends on the family. All values are released.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        AttributeError
            If the family does not keep its tables.
        """
        if self.fitted_.tables is None:
            raise AttributeError(f"{type(self).__name__} does not keep its released tables")
        return self.fitted_.tables

    @property
    def measured_(self) -> tuple[tuple[str, ...], ...]:
        """Return the marginals that a noisy selection chose in the fit, by their attribute names.

        A marginal is a table of counts over a few attributes.

        Returns
        -------
        tuple of tuple of str
            Attribute names of each marginal. Released. Empty for families that select no
            marginals.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        return self.fitted_.measured

    @property
    def modelled_(self) -> Schema:
        """Return the schema of the attributes that the released model describes.

        It is the schema of the fit, simplified by its rules. Attributes that follow from others by
        a rule are left out. "Not applicable" is one more level of its attribute, and all other
        kinds of missing are one kind.

        Returns
        -------
        Schema
            Public facts, and released levels and bins.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        return self.fitted_.modelled.schema

    @property
    def bins_(self) -> dict[str, Binning]:
        """Return the bins of numeric attributes that this or an earlier fit released.

        An entry has the bin edges, the spikes (single values with many rows) and the weights inside
        bins. `Schema.with_bins` applies the bins to the schema of another table. Attributes with
        declared bins are not included.

        Returns
        -------
        dict of str to Binning
            Bins by attribute name. Released.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        bins = {a.name: a.binning for a in self.schema_ if isinstance(a, Numeric)}
        return name_release(bins, self.release_)

    @property
    def population_(self) -> float:
        """Return the released noisy sum of all survey weights, which estimates the population size.

        Each weight counts up to the largest weight that the schema declares.

        Returns
        -------
        float
            In the unit of the weights, such as persons. At least 0. Released, with noise.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        ParameterError
            If the schema of the fit declares no weight.
        """
        size = self.fitted_.size
        if size is None or size.population is None:
            raise ParameterError("population_: the schema of the fit declares no weight")
        return float(size.population)

    @property
    def effective_size_(self) -> float:
        """Return the effective number of units (Kish) of the fitted table.

        It is the number of equally weighted units with the same sampling variance. A unit is one
        row, or all rows of one person if the schema declares persons. It is ``n_rows_`` if all rows
        count equally.

        Returns
        -------
        float
            A number of units, at least 1. Released.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        size = self.fitted_.size
        return float(self.n_rows_) if size is None else size.units

    @property
    def left_out_(self) -> str:
        """Return a text on rows and weights that did not take part in the fit.

        Rows are left out if a unit (such as a person) has more rows than the schema allows. Weights
        above the declared maximum are cut off.

        Returns
        -------
        str
            Sentences, from released values and public facts.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        fitted = self.fitted_
        return left_out(fitted.size, fitted.guarantee, weighed=fitted.is_weighted)

    @property
    def applied_strategy(self) -> Strategy:
        """Return the strategy for missing values with which the model was fitted.

        A later change of the parameter ``missing`` has no effect on it.

        Returns
        -------
        Strategy
            The strategy that the parameter ``missing`` named at the fit. Public.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        return self.family.strategy(self.fitted_.parameters["missing"])

    def __repr__(self) -> str:
        """Return the parameters and, for a fitted model, the attributes with released bins."""
        names = () if self._fitted is None else self.bins_
        bins = ", ".join(f"{name} ({self.schema_[name].size})" for name in names)
        return super().__repr__() + (f", bins found: {bins}" if bins else "")

    # Guarantees

    def ground_truth_guarantee(self, assumption: Condition) -> Guarantee:
        """Return the guarantee of the fit for the table *before* values went missing.

        Parameters
        ----------
        assumption : MissingCompletelyAtRandom, BoundedObservation or RowIndependentMissingness
            How values went missing. It becomes a condition of the result, which is not checked.
            Never derive it from the private table itself.

        Returns
        -------
        Guarantee
            With ``protects="ground-truth"``. Its epsilon is never larger than the epsilon of
            ``guarantee_``. It is smaller if a row is read only if some of its cells are
            observed (strategies ``"complete-rows"`` and ``"observed"``). Public.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        UnprovenError
            Without an assumption that rows lose values independently of each other, or if rows
            count by survey weights.

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
        """Return the largest costs of the parts of the fit, from which guarantees are combined.

        A fit divides its budget into parts, such as one-way marginals and selections. Each part has
        a largest cost (cap) that parameters and public facts fix. Pass the result to
        `missdp.ground_truth.joint`, which computes one guarantee for the table before values went
        missing.

        Returns
        -------
        tuple of (Guarantee, structure or None)
            The guarantee, whose events are the caps of the parts. The structure states who
            chose the attributes that a row must have observed to be read. It is None if the
            missing values do not improve the guarantee. Public.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        UnprovenError
            If rows count by survey weights.
        """
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
        """Return the accounting events that a fit to rows with this schema charges to a budget.

        They are the plan of a `Composition`, a budget for releases that are fixed in advance. No
        rows are read, and nothing is charged.

        Parameters
        ----------
        schema : Schema
            Schema of the private table. Public.

        Returns
        -------
        tuple of Event
            The largest cost of all noisy measurements, the failures of open levels, and the
            trainings of networks, in this order. A failure is the probability delta of
            releasing a rare level. Public.

        Raises
        ------
        ParameterError
            If a parameter has no valid value.

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
        """Return the guarantee of a fit that is only planned, and the largest costs of its parts.

        For `missdp.ground_truth.planned_ground_truth`, which computes the planned guarantee for the
        table before values went missing. No rows are read. Conditions that depend on the data
        source are left out.

        Parameters
        ----------
        schema : Schema
            Schema of the private table. Public.
        epsilon : float, optional
            Epsilon of the planned fit, from 1e-6 to 10,000. By default the epsilon of the
            synthesizer.

        Returns
        -------
        guarantee : Guarantee
            The guarantee of the complete fit.
        parts : tuple of (Guarantee, structure or None)
            The guarantee by the parts of the budget. The structure states who chose the attributes
            that a row must have observed to be read. It is None if the missing values do not
            improve the guarantee. Public.

        Raises
        ------
        ParameterError
            If a parameter has no valid value, or public facts show the fit to be impossible.
        UnprovenError
            If the family is not proven for the units or the weights of the schema.
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
        """Return the checked parameters that a file of the model contains, as a dict by name.

        The parameters ``budget``, ``progress`` and ``random_state`` are left out, since they are
        not public.

        Returns
        -------
        dict of str to object
            Public values by parameter name.

        Raises
        ------
        ParameterError
            If a parameter has no valid value.
        """
        parameters = {**self._public(), **check_parameters(self)}
        return {n: v.item() if isinstance(v, np.generic) else v for n, v in parameters.items()}

    # Files

    def save(self, path: str | Path) -> None:
        """Write the released model to a JSON file, which holds no private data.

        The file appears only if it is complete. `load` reads it. The file contains neither the seed
        nor the shared budget.

        Parameters
        ----------
        path : str or Path
            Name of the file. An existing file is replaced.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        OutputError
            If the file cannot be written.
        """
        write_atomically(Path(path), self.fitted_.text())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a fitted model of this family from a file that :meth:`save` wrote.

        The model can be sampled, and has its guarantee. `missdp.load` reads models of any family.

        Parameters
        ----------
        path : str or Path
            Name of the file.

        Returns
        -------
        Synthesizer
            A fitted model, without a shared budget. Released values only.

        Raises
        ------
        DataError
            If the file holds no model of this family, or its guarantee does not match its
            parameters.
        """
        return cls.opened(read_document(Path(path)), Path(path))

    @classmethod
    def opened(cls, document: Mapping[str, Any], path: Path) -> Self:
        """Return the fitted model of a model file whose JSON text is already parsed.

        Parameters
        ----------
        document : mapping of str to object
            The parsed content of the file, with the name of the family under ``"family"``.
        path : Path
            Name of the file, for error messages. It is not read.

        Returns
        -------
        Synthesizer
            A fitted model, without a shared budget. Released values only.

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
        """Draw synthetic rows from the fitted model, at no privacy cost.

        Parameters
        ----------
        n : int, optional
            Number of rows, at least 0. By default ``n_rows_``, the released or declared number of
            rows.
        missing_values : {"fill", "keep"}, default "fill"
            ``"fill"`` returns complete rows. ``"keep"`` returns missing cells as the model draws
            them. It needs a strategy that models missing cells, such as ``"joint"``.
        random_state : int, optional
            Seed of the draw, at least 0, which makes the rows repeatable. By default the
            ``random_state`` of the synthesizer is used. Any seed is safe, because sampling is
            post-processing.
        multiple : int, optional
            Draw this number of tables, at least 2, each from a model of its own. The models differ
            by the uncertainty due to noise, sampling and missing cells. Combine estimates with
            :func:`~missdp.evaluate.combine_estimates`. Each table needs one refit of the model to
            released values. By default a table has ``effective_size_`` rows. AllPairs, AIM and MST
            only. docs/multiple-tables.md states the errors that their intervals do not cover.
        missing_as : {"nulls", "codes"}, default "nulls"
            Form of a cell without a value: null, or the first code that the schema declares for its
            kind of missing.
        values : {"codes", "labels"}, default "codes"
            Form of a level: itself, or the label that the schema declares for it.
        where : str or mapping, optional
            Condition on the rows that are returned, such as ``"age >= 60 and sex = 'f'"``. A
            mapping such as ``{"sex": "f", "age": (60, 80)}`` has a value, a list of values, or a
            pair of inclusive bounds for each attribute. The value None selects missing cells and
            needs ``missing_values="keep"``. ``where`` needs ``n``. Rows are drawn until ``n`` rows
            match. At most a million rows are drawn, or 1,000 for each of ``n`` if that is more.

        Returns
        -------
        frame, or list of frames if ``multiple`` is given
            Synthetic rows in the kind of frame that was fitted, with the columns and dtypes of the
            schema. Released.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        ParameterError
            If a parameter has no valid value, or too few rows of the model match ``where``. The
            message states the matching share of the synthetic rows.

        Examples
        --------
        >>> import pandas as pd
        >>> from missdp import Categorical, PrivBayes, Schema
        >>> schema = Schema((Categorical(name="ill", levels=("no", "yes"), nullable=True),))
        >>> people = pd.DataFrame({"ill": ["yes", "no", None] * 50})
        >>> model = PrivBayes(epsilon=1.0).fit(people, schema=schema)
        >>> rows = model.sample(4)
        >>> rows.shape, int(rows["ill"].isna().sum())
        ((4, 1), 0)
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
        """Estimate a statistic of the private rows from released values, at no privacy cost.

        Parameters
        ----------
        question : str
            One of ``mean(x)``, ``sd(x)``, ``median(x)``, ``quantile(x, 0.9)``, ``share(x == 1)``,
            ``share(x is missing)``, ``correlation(x, y)`` and ``difference(mean(x))``, with names
            of attributes. ``share(x is missing)`` needs AllPairs. ``by`` and names of attributes
            may follow. ``difference`` subtracts the value of the first group.
        by : str or sequence of str, optional
            Attributes whose levels make groups, in addition to names after ``by`` in the question.
        confidence : float, default 0.95
            Confidence of the intervals, strictly between 0 and 1.

        Returns
        -------
        Estimates
            Released estimates with intervals, one for each group. Intervals cover privacy noise,
            sampling of rows and missing values.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        ParameterError
            If the question cannot be read, or the model has no answer to it. Only AllPairs, AIM and
            MST answer.
        """
        return import_module("missdp.estimate").estimate(
            self, question, by=by, confidence=confidence
        )

    def regress(self, formula: str, *, confidence: float = 0.95) -> Any:
        """Estimate a least-squares regression on the private rows, at no privacy cost.

        The estimate is a function of released values only.

        Parameters
        ----------
        formula : str
            A formula such as ``wage ~ age + C(sex)``: the outcome, ``~``, and terms joined by
            ``+``. ``C()`` makes one indicator for each level but the first. The formula is parsed
            and never evaluated.
        confidence : float, default 0.95
            Confidence of the intervals, strictly between 0 and 1.

        Returns
        -------
        Estimates
            Released coefficients with intervals: first the intercept, then the terms in the order
            of the formula.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        ParameterError
            If the formula cannot be read, or the model has no answer to it. Only AllPairs, AIM and
            MST answer.
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
        """Estimate how an estimate changes if missing values differ from observed values.

        It has no privacy cost. A chosen amount is added to every missing value of one attribute,
        and the estimate is repeated. The result shows at which amount a conclusion changes.

        Parameters
        ----------
        question : str
            A question as for `estimate`, such as ``mean(x)``, or a formula as for `regress`.
        attribute : str
            A numeric attribute in the question that may be missing. Its missing values are shifted.
        shifts : sequence of float, default (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
            Shifts that are added to every missing value of the attribute, in released standard
            deviations of the attribute. 1 to 100 numbers other than 0, each from -10 to 10. The
            shift 0 is always included, and means missing at random.
        by : str or sequence of str, optional
            Attributes whose levels make groups, in addition to names after ``by`` in the question.
        confidence : float, default 0.95
            Confidence of the intervals, strictly between 0 and 1.

        Returns
        -------
        SensitivityAnalysis
            Released estimates for each shift, in increasing order of the shifts.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        ParameterError
            If the question or the shifts cannot be read, or nothing can be added to the attribute.
            Only AllPairs, AIM and MST answer.
        """
        return import_module("missdp.estimate").sensitivity(
            self, question, attribute=attribute, shifts=shifts, by=by, confidence=confidence
        )

    def uncertain_models(self, multiple: int, *, random_state: int | None = None) -> Iterator[Self]:
        """Yield fitted models that differ by noise, sampling and missing cells, one by one.

        Each model is a refit to released values that are varied by these three uncertainties, and
        has a seed of its own. They are the models of ``sample(multiple=...)``. Use them if memory
        does not hold all tables together, and combine estimates with `combine_estimates`. There is
        no privacy cost.

        Parameters
        ----------
        multiple : int
            Number of models, at least 2.
        random_state : int, optional
            Seed, at least 0, which makes the models repeatable. By default the ``random_state`` of
            the synthesizer is used.

        Returns
        -------
        iterator of Synthesizer
            Fitted models with the guarantee of this model. Released values only.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        ParameterError
            If a parameter has no valid value, or the family has no such models. Only AllPairs, AIM
            and MST have them, and not with ``missing="impute-first"``.
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
        """Draw synthetic rows from the fitted model as a :class:`~missdp.Table`.

        Sampling has no privacy cost.

        Parameters
        ----------
        n : int, optional
            Number of rows, at least 0. By default ``n_rows_``, the released or declared number of
            rows.
        missing_values : {"fill", "keep"}, default "fill"
            ``"fill"`` returns complete rows. ``"keep"`` returns missing cells as the model draws
            them. It needs a strategy that models missing cells, such as ``"joint"``.
        random_state : int, optional
            Seed of the draw, at least 0, which makes the rows repeatable. By default the
            ``random_state`` of the synthesizer is used. Any seed is safe, because sampling is
            post-processing.
        where : str or mapping, optional
            Condition on the rows that are returned, such as ``"age >= 60 and sex = 'f'"``. A
            mapping such as ``{"sex": "f", "age": (60, 80)}`` has a value, a list of values, or a
            pair of inclusive bounds for each attribute. The value None selects missing cells and
            needs ``missing_values="keep"``. ``where`` needs ``n``. Rows are drawn until ``n`` rows
            match. At most a million rows are drawn, or 1,000 for each of ``n`` if that is more.

        Returns
        -------
        Table
            Synthetic rows under the schema of the fit, without released bins. Released.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        ParameterError
            If a parameter has no valid value, or too few rows of the model match ``where``.
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
        """Draw synthetic rows from the fitted model in blocks, if memory does not hold all rows.

        Sampling has no privacy cost.

        Parameters
        ----------
        n : int, optional
            Number of rows, at least 0. By default ``n_rows_``, the released or declared number of
            rows.
        missing_values : {"fill", "keep"}, default "fill"
            ``"fill"`` returns complete rows. ``"keep"`` returns missing cells as the model draws
            them. It needs a strategy that models missing cells, such as ``"joint"``.
        random_state : int, optional
            Seed of the draw, at least 0, which makes the rows repeatable. By default the
            ``random_state`` of the synthesizer is used. Any seed is safe, because sampling is
            post-processing.
        where : str, mapping or RowSelection, optional
            Condition on the rows that are returned, such as ``"age >= 60 and sex = 'f'"``. A
            mapping such as ``{"sex": "f", "age": (60, 80)}`` has a value, a list of values, or a
            pair of inclusive bounds for each attribute. The value None selects missing cells and
            needs ``missing_values="keep"``. ``where`` needs ``n``. Rows are drawn until ``n`` rows
            match. At most a million rows are drawn, or 1,000 for each of ``n`` if that is more. A
            ``RowSelection`` is such a condition that also counts the drawn and the matching rows.

        Returns
        -------
        iterator of Table
            Blocks of synthetic rows, in the order in which they are drawn. Constraints between two
            rows need a single block.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        ParameterError
            If a parameter has no valid value, or too few rows of the model match ``where``.
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
        """Draw one block of synthetic rows from the fitted model with a given random generator.

        Sampling has no privacy cost.

        Parameters
        ----------
        missing_values : {"fill", "keep"}
            ``"fill"`` returns complete rows. ``"keep"`` returns missing cells as the model draws
            them.
        rows : int
            Number of rows, at least 0.
        rng : numpy.random.Generator
            Draws the rows.

        Returns
        -------
        Table
            Synthetic rows under the declared schema with the released levels. Released.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
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
        """Draw synthetic rows from the fitted model as integer codes of the modelled attributes.

        A code is the position of a level or bin in ``modelled_``. The code of a missing cell is the
        number of levels of its attribute. Sampling has no privacy cost.

        Parameters
        ----------
        n : int
            Number of rows, at least 0.
        rng : numpy.random.Generator
            Draws the rows.
        keep_missing : bool
            Whether cells may be missing. If False, rows are complete.

        Returns
        -------
        dict of str to ndarray of int64, shape (n,)
            Codes of the rows by attribute name. Released.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
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
        """Return whether all synthetic rows must be drawn in one block, as constraints relate rows.

        If True, `sample_blocks` yields a single block.

        Returns
        -------
        bool
            True for a Kamino model with constraints between rows. Public.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
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
