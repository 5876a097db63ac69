"""What every synthesizer is: fitted once within a budget, sampled for free ever after."""

from __future__ import annotations

import abc
import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_type_hints

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import (
    Composition,
    Condition,
    DeclaredRowCount,
    Event,
    Filter,
    Guarantee,
    SampledGaussianEvent,
    WeightsOfRows,
)
from missdp.errors import (
    DataError,
    NotFittedError,
    ParameterError,
    UnprovenError,
    did_you_mean,
)
from missdp.estimator import Estimator
from missdp.files import write_atomically
from missdp.gates import DataChosenGates
from missdp.progress import Progress, reported
from missdp.record import fits
from missdp.schema import Numeric, Schema, SurveyWeight, Unit
from missdp.schema.modelled import Modelled
from missdp.schema.open_domains import at_most, is_pending, open_attributes, pending, uncut, widest
from missdp.session import Session, Total
from missdp.sources import Reads, Strategy, strategy_named
from missdp.synth.first_parts import (
    EffectiveSize,
    KindShares,
    check_open,
    delta_beside,
    failures,
    first_parts,
    left_out,
    with_failure,
)
from missdp.synth.noisy_counts import row_count
from missdp.synth.relation_noise import PairNoise
from missdp.synth.sampling import (
    Codes,
    Selection,
    Where,
    block_sizes,
    drawn_in_blocks,
    restored,
    with_related_values,
)
from missdp.synth.split import (
    ROWS,
    Caps,
    Gate,
    Keeper,
    Part,
    Parts,
    Split,
    ground_truth_parts,
    of_parts,
    with_trainings,
)
from missdp.synth.state import (
    check_settings,
    check_unit,
    chosen_delta,
    is_declared,
    is_number,
    is_whole,
    learn,
    model_text,
    opened,
    read_document,
    sampling_generator,
    tree_noise,
)
from missdp.table import FrameKind, Holes, Table, Values, check_holes
from missdp.threads import one_blas_thread

MissingValues: TypeAlias = Literal["fill", "keep"]

_TRIED = 100  # rows that a model draws when it is opened
ESTIMATE_ROWS = "_rows_of_estimates"  # key of the rows that `missdp.estimate.model_rows` draws


@dataclass(kw_only=True, eq=False, repr=False)
class Synthesizer(Estimator, abc.ABC):
    """Base of all synthesizers: scikit-learn parameters, one charged fit, free sampling.

    A subclass lists the strategies it offers, its default first, names in ``released`` the
    attributes that make up the released model, and implements ``_fit`` and ``_sample``.
    Parameters of its own are fields of a dataclass, declared as they are here:
    ``@dataclass(kw_only=True, eq=False, repr=False)``.

    Parameters
    ----------
    epsilon : float
        Privacy budget of the whole fit, add-remove adjacency.
    delta : float or None
        The same; None is 1e-6, which is meant for up to 10,000 rows, or 1 / (100 n) if more, n, are
        declared. Nothing looks at how many there are: for more, state a delta or ``n_rows``.
    missing : str
        Missing-data strategy; one of ``strategies``.
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
        generator is refused: whoever goes on drawing from it could tell the noise.
    budget : Filter, Composition or None
        A budget shared with other releases from the same table. It is charged before any
        computation and is shared, never copied, by clones and copies. A fitted model can be
        pickled, without it: the unpickled model samples and has its guarantee, and refuses to be
        fitted again until it is given a budget.
    progress : callable, bool or None
        Called with a stage name and the share of the work done; shows nothing private. True draws
        a bar in a terminal or notebook, and prints a line for each stage elsewhere.

    Attributes
    ----------
    guarantee_ : Guarantee
        Computed from what was released.
    n_rows_, n_rows_std_ : int, float
        Released or declared number of rows, with the standard deviation of its noise.
    """

    strategies: ClassVar[tuple[str, ...]] = ()
    released: ClassVar[tuple[str, ...]] = ()
    reads_masks: ClassVar[bool] = False  # whether "observed" reads every row, and what is missing
    _rivals: ClassVar[tuple[str, ...]] = ()  # families that bring out more relations, if few do
    protects_units: ClassVar[bool] = False  # whether all it spends is known for several rows

    epsilon: float
    delta: float | None = None
    missing: str = "joint"
    n_rows: int | Literal["noisy"] = "noisy"
    cuts: Literal["private", "equal"] = "private"
    random_state: int | None = None
    budget: Filter | Composition | None = None
    progress: Progress | bool | None = None

    # What a fit leaves behind.
    schema_: Schema = field(init=False)
    kind_: FrameKind = field(init=False)
    n_rows_: int = field(init=False)
    n_rows_std_: float = field(init=False)
    guarantee_: Guarantee = field(init=False)
    release_: str | None = field(init=False)  # the id of the release whose file holds the model
    _fitted_with: dict[str, Any] = field(init=False)
    _kind_shares: KindShares = field(init=False)
    _beyond: dict[str, NDArray[np.float64]] = field(init=False)
    # Number of complete rows, as far as it was released; of fits that learn from these alone.
    _complete_rows: Total | None = field(default=None, init=False)
    _kept: Caps | None = field(init=False)
    _split: Split = field(init=False)  # while a fit goes on
    _open_names: tuple[str, ...] = field(init=False)  # the same: attributes whose levels it finds
    _unit: Unit | None = field(init=False)  # the same: who is protected, if not each row
    _weight: SurveyWeight | None = field(init=False)  # the same: by which rows count
    _size: EffectiveSize | None = field(default=None, init=False)  # None where all count alike
    _learned: tuple[str, ...] = field(init=False)

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
        self._check_parameters()
        self._check_fit_again()
        with reported(self.progress) as progress:
            learn(self, data, schema, undeclared, progress)
        return self

    def _to_be_cut(self, schema: Schema, names: Iterable[str]) -> Schema:
        """Return the schema with the attributes marked whose bins this fit finds; public."""
        return pending(schema, names) if self.cuts == "private" else schema

    def _settle(self, schema: Schema) -> None:
        """Take over a schema in which bins were found."""
        if schema != self.schema_:
            self.schema_ = schema
            self._modelled = Modelled(schema)

    @property
    def _planned(self) -> Schema:
        """What is modelled, as far as it was public before bins were found."""
        return Modelled(widest(self.schema_)).schema

    @property
    def cuts_(self) -> dict[str, Numeric]:
        """Numeric attributes with the bins, spikes and shares that were found privately."""
        cut = (a for a in self.schema_ if isinstance(a, Numeric) and a.cuts_from and a.edges)
        return {a.name: a for a in cut}

    def __repr__(self) -> str:
        """Show parameters and, of a fitted model, where bins were found: both are released."""
        cut = self.cuts_ if "guarantee_" in self.__dict__ else {}
        found = ", ".join(f"{name} ({a.size})" for name, a in cut.items())
        return super().__repr__() + (f", bins found: {found}" if found else "")

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
        self._check_unweighted("a guarantee for the table before values went missing")
        # By name: what is proven stands above this room, and is read when it is asked for.
        wing = import_module("missdp.ground_truth")
        found: Guarantee = wing.ground_truth_guarantee(self, assumption)
        return found

    def ground_truth_parts(self) -> Parts:
        """Return the caps of the fit's parts, for :func:`missdp.ground_truth.joint`."""
        self._check_fitted()
        self._check_unweighted("a guarantee for the table before values went missing")
        strategy = self._applied_strategy  # the strategy of the fit, whatever was set later
        return ground_truth_parts(
            self.guarantee_,
            strategy=strategy,
            modelled=self._modelled,
            caps=self._caps_of_fit(),
            training_gate=self._training_gate(strategy),
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
        again = type(self)(**self._public_parameters())
        again._unit, again._weight = schema.unit, schema.weight
        again._open_names = tuple(a.name for a in open_attributes(schema))
        cap = again._check_parameters().filter()
        failing = failures(again._delta, again._open_names)
        return (cap, *failing, *again._training_events())

    def _training_gate(self, strategy: Strategy) -> Gate:
        """Return the attributes that a row must have observed for a training to read it."""
        if strategy.fills:
            return Gate()
        return strategy.gate((), self.modelled_) - self._modelled.filled

    def planned_parts(
        self, schema: Schema, *, epsilon: float | None = None
    ) -> tuple[Guarantee, Parts]:
        """Return the guarantee of a fit to rows with this schema, and its parts: nothing is read.

        For :func:`missdp.ground_truth.planned_ground_truth`. What a fit adds to the conditions is
        left out; another ``epsilon`` may be tried.
        """
        own = self._public_parameters() | ({} if epsilon is None else {"epsilon": epsilon})
        again = type(self)(**own)
        again._unit, again._weight = schema.unit, schema.weight
        opened = open_attributes(schema)
        again._open_names = tuple(a.name for a in opened)
        check_open(again, again._open_names)
        again.schema_ = again._to_be_cut(at_most(schema), schema.names)
        budget = again._check_parameters()
        again._check_schema(again.modelled_)
        trainings = again._training_events()
        whole = Guarantee(
            float(again.epsilon) if trainings else budget.epsilon,
            budget.delta,
            events=(budget.filter(), *trainings),
        )
        split, steps = again._planned_split(), check_unit(again, schema, opened=opened)
        split.check(steps=steps)
        if schema.of_rows is not schema:
            return whole, (whole, None)
        if again._open_names:  # nothing is proven for the ground truth beside what was found
            whole = with_failure(whole, again._delta, again._open_names)
            return whole, (whole, None)
        if trainings:
            gate = again._training_gate(again._strategy)
            return whole, with_trainings(whole, split.caps(), trainings, gate)
        return whole, of_parts(whole, split.caps())

    @property
    def _strategy(self) -> Strategy:
        """The strategy that ``missing`` names."""
        return self.strategy_of(self.missing)

    def _reads(self, schema: Schema) -> Reads:  # noqa: ARG002
        return "counts"

    @property
    def _delta(self) -> float:
        """The delta of the fit: what was asked for, or the default."""
        return chosen_delta(self.delta, self.n_rows)

    def save(self, path: str | Path) -> None:
        """Write the released model (no private data) to a file, whole or not at all."""
        self._check_fitted()
        write_atomically(Path(path), model_text(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that :meth:`save` wrote; it can be sampled, with the guarantee it had."""
        return cls._opened(read_document(Path(path)), Path(path))

    @classmethod
    def _opened(cls, document: Mapping[str, Any], path: Path) -> Self:
        """Return the model of a parsed file."""
        return opened(cls, document, path)

    def sample(
        self,
        n: int | None = None,
        *,
        missing_values: MissingValues = "fill",
        random_state: int | None = None,
        multiple: int | None = None,
        holes: Holes = "nulls",
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
            only. What their intervals do not cover is in docs/synthetic-estimates.md.
        holes : {"nulls", "codes"}, default "nulls"
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
        check_holes(holes, values)
        if multiple is not None:
            n = round(self.effective_size_) if n is None else n
            models = self.uncertain_models(multiple, random_state=random_state)
            drawn = partial(Synthesizer.sample_table, missing_values=missing_values, where=where)
            return [drawn(model, n).to_native(holes=holes, values=values) for model in models]
        return self.sample_table(
            n, missing_values=missing_values, random_state=random_state, where=where
        ).to_native(holes=holes, values=values)

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
        if not (is_whole(multiple) and multiple >= 2):
            raise ParameterError("multiple must be a whole number of tables, at least 2")
        self._check_fitted()
        rng = sampling_generator(self.random_state if random_state is None else random_state)
        return self._each_with_seed(self._uncertain(int(multiple), rng), rng)

    def _each_with_seed(self, models: Iterator[Self], rng: np.random.Generator) -> Iterator[Self]:
        while True:
            with one_blas_thread():
                model = next(models, None)
            if model is None:
                return
            model.random_state = int(rng.integers(2**63))
            # Whatever it was fitted to was made up from this release, and promises what this does.
            model.guarantee_ = self.guarantee_
            yield model

    def sample_table(
        self,
        n: int | None = None,
        *,
        missing_values: MissingValues = "fill",
        random_state: int | None = None,
        where: Where | None = None,
    ) -> Table:
        """Draw synthetic rows as a :class:`~missdp.Table`; see :meth:`sample`."""
        return Table.joined(
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
        self._check_fitted()
        if n is not None and not (is_whole(n) and n >= 0):
            raise ParameterError("n must be a whole number of rows, at least 0")
        if missing_values not in ("fill", "keep"):
            raise ParameterError("missing_values must be 'fill' or 'keep'")
        if missing_values == "keep" and not self._applied_strategy.models_holes:
            raise ParameterError(
                f"missing={self._applied_strategy.name!r} does not model holes; to keep them, fit "
                "with missing='joint', or a family that offers it"
            )
        rng = sampling_generator(self.random_state if random_state is None else random_state)
        rows = self.n_rows_ if n is None else int(n)
        together = self.draws_together
        sizes = [rows] if together else block_sizes(rows, len(self.schema_))
        draw = partial(self._block, missing_values)
        if where is None:
            return drawn_in_blocks(draw, sizes, rng, len(self.schema_))
        if n is None or together:
            raise ParameterError(
                "where cannot be used: constraints between two rows need all rows together"
                if together
                else "where requires n, the number of rows to draw"
            )
        asked = where if isinstance(where, Selection) else Selection(where, self.schema_)
        if asked.missing and missing_values != "keep":
            raise ParameterError("missing cells can be asked for with missing_values='keep' only")
        return asked.blocks(draw, rows, rng, columns=len(self.schema_))

    @one_blas_thread()
    def _block(self, missing_values: MissingValues, rows: int, rng: np.random.Generator) -> Table:
        drawn = self._drawn(missing_values, rows, rng)
        return self._finished(drawn, rng).coded_as(uncut(self.schema_))

    def _drawn(self, missing_values: MissingValues, rows: int, rng: np.random.Generator) -> Table:
        """Draw rows from the model, each by itself."""
        if self._modelled.is_whole:
            codes = self._sample(rows, missing_values, rng)
            drawn = Table.from_codes(self.schema_, codes, kind=self.kind_)
            return with_related_values(drawn, rng)
        one = partial(self._sample, missing_values=missing_values, rng=rng)
        shares = self._kind_shares
        return restored(self._modelled, one, rows, rng, shares=shares, kind=self.kind_)

    @property
    def modelled_(self) -> Schema:
        """Public facts about what is modelled: ``schema_``, made plainer by its rules.

        Attributes that follow from others are left out, "not applicable" is one more level of its
        attribute, and all other kinds of missing are one.
        """
        return self._modelled.schema

    @cached_property
    def _modelled(self) -> Modelled:
        return Modelled(self.schema_)

    @property
    def _applied_strategy(self) -> Strategy:
        """The strategy that the model was fitted with."""
        return self.strategy_of(self._fitted_with["missing"])

    @classmethod
    def strategy_of(cls, missing: str) -> Strategy:
        """Return the strategy that a word of ``strategies`` stands for in this family."""
        known = strategy_named(missing)
        if cls.reads_masks and known.name == "observed":
            return replace(known, rows="extended", gates="none")
        return known

    # What a family provides

    @abc.abstractmethod
    def _fit(self, session: Session) -> Total:
        """Learn the model from the answers of the session. Return the released number of rows."""

    @abc.abstractmethod
    def _sample(self, n: int, missing_values: MissingValues, rng: np.random.Generator) -> Codes:
        """Draw codes of every modelled attribute; see :attr:`modelled_`."""

    def _uncertain(self, multiple: int, rng: np.random.Generator) -> Iterator[Self]:
        """Yield fitted models that vary as this one is uncertain."""
        del multiple, rng
        raise ParameterError(
            f"{type(self).__name__} cannot draw tables that vary as its model is uncertain: leave "
            "'multiple' out, or use AllPairs, AIM or MST"
        )

    def _finished(self, table: Table, rng: np.random.Generator) -> Table:  # noqa: ARG002
        return table  # with what one row alone cannot settle

    @property
    def draws_together(self) -> bool:
        """Whether all synthetic rows are drawn at once, since they must fit to each other."""
        return False

    def split(self, schema: Schema) -> list[Part]:  # noqa: ARG002
        """Return the parts of the budget of a fit, in the order in which it is divided.

        Finding bins, and counting kinds of missing values, come before. Of a family that states no
        parts, nothing is amplified for the ground truth.

        Parameters
        ----------
        schema : Schema
            What is modelled. A split follows from it and from parameters alone.
        """
        return []

    def _planned_split(self) -> Split:
        """Return the budget of a fit to rows of ``schema_`` and all its parts; public."""
        schema = self.modelled_
        return Split(self._of_rows.left, (*self._first_parts(schema), *self.split(schema)))

    def _first_parts(self, schema: Schema) -> list[Part]:
        """Return the parts that all families have: bins to be found, kinds of missing values."""
        cut = [a.name for a in self.schema_ if is_pending(a) and a.name in schema]
        found = self.__dict__.get
        return first_parts(
            found("_open_names", ()),
            found("_unit"),
            found("_weight"),
            tuple(self._observed_gate((name,), schema) for name in cut),
            tuple(self._modelled.kinds) if self._strategy.models_holes else (),  # else none are
        )

    def _observed_gate(self, names: Iterable[str], schema: Schema) -> Gate:
        """Return what a row must have observed to be counted, before anything is filled."""
        return self._strategy.gate(names, schema) - self._modelled.filled

    def _filled_gates(self, schema: Schema) -> list[Gate]:
        """Return the gates of the margins of attributes that the strategy fills first."""
        filled = schema.nullable if self._strategy.fills else ()
        return [self._observed_gate((name,), schema) for name in filled]

    def _gates(self, cliques: Iterable[Iterable[str]], schema: Schema) -> tuple[Gate, ...]:
        """Return the gates of counts over sets of attributes, after anything is filled."""
        filled = self._strategy.fills
        return tuple(Gate() if filled else self._observed_gate(c, schema) for c in cliques)

    def _released(self) -> dict[str, Any]:
        """Return the released model: numbers, text, arrays, records, and mappings of them."""
        return {name: getattr(self, name) for name in self.released}

    def _restore(self, released: dict[str, Any]) -> None:
        """Inverse of ``_released``; a list comes back as a tuple."""
        types = get_type_hints(type(self))
        for name in self.released:
            value = released[name]
            if not fits(value, types.get(name, Any)):
                raise DataError(f"{name} is of the wrong type")
            setattr(self, name, value)

    def _draws_schema(self) -> bool:
        """Whether what was read from a file draws rows of the schema; any error says no."""
        kinds: list[MissingValues] = ["fill", "keep"]
        for missing_values in kinds[: 1 + self._applied_strategy.models_holes]:
            codes = self._sample(_TRIED, missing_values, np.random.default_rng(0))
            for attribute in self.modelled_:
                size = attribute.extended_size if missing_values == "keep" else attribute.size
                drawn = codes[attribute.name]
                if drawn.shape != (_TRIED,) or drawn.min() < 0 or drawn.max() >= size:
                    return False
        return True

    def _check_schema(self, schema: Schema) -> None:
        """Refuse, before anything is charged, what public facts show to be impossible."""

    # Shared steps

    def _check_parameters(self) -> Filter:
        if self.missing not in self.strategies:
            raise ParameterError(
                f"missing must be one of {list(self.strategies)}, not {self.missing!r}"
                f"{did_you_mean(self.missing, self.strategies)}"
            )
        if self.cuts not in ("private", "equal"):
            raise ParameterError("cuts must be 'private' or 'equal'")
        check_settings(self.get_params(deep=False))
        return self._of_rows

    @property
    def _of_rows(self) -> Filter:
        """The budget of a fit as facts about one row: all of it, where each row is protected."""
        unit = self.__dict__.get("_unit")
        whole = self._budget
        if unit is None:
            return whole
        return whole._for_units(unit.column, unit.max_rows, counts=unit.counts)

    @property
    def _budget(self) -> Filter:
        """The budget of a fit, unspent: a filter, as noise may depend on what came before."""
        return Filter(self.epsilon, self._delta_to_spend)

    def _training_events(self) -> tuple[SampledGaussianEvent, ...]:
        """Return the trainings that a fit is charged with beside its budget; public.

        Where there are any, ``_budget`` is the part of the fit that is released before them. All
        are fixed by parameters, proven together, and charged before anything is read.
        """
        return ()

    @property
    def _delta_to_spend(self) -> float:
        """The delta that its budget is converted at: what finding open levels leaves of it."""
        return delta_beside(self._delta, self.__dict__.get("_open_names", ()))

    def _check_share(self, name: str) -> None:
        value = getattr(self, name)  # nearer to 0 or 1, rounding would decide what is left
        if not (is_number(value) and 1e-4 <= value <= 0.99):
            raise ParameterError(f"{name} must be a share from 0.0001 to 0.99")

    @property
    def population_(self) -> float:
        """The sum of all survey weights, as far as it was released."""
        size = self.__dict__.get("_size")
        if size is None or size.population is None:
            raise ParameterError("the schema of the fit declared no weight")
        return float(size.population)

    @property
    def effective_size_(self) -> float:
        """How many units that count alike would tell as much; the number of rows if all do."""
        size = self.__dict__.get("_size")
        return float(self.n_rows_) if size is None else size.units

    @property
    def left_out_(self) -> str:
        """What is known of rows, and of their weights, that did not take part: in words."""
        weighed = any(isinstance(c, WeightsOfRows) for c in self.guarantee_.conditions)
        return left_out(self.__dict__.get("_size"), self.guarantee_, weighed=weighed)

    @property
    def _design(self) -> float:
        """By how much sums over rows vary more than if rows were independent and counted as one."""
        size = self.__dict__.get("_size")
        return 1.0 if size is None else size.design

    def _relation_noise(self) -> PairNoise:
        """Return the noise of tables of pairs, of released values and public facts alone.

        By default that of a tree of pairs, which is the least that relates all attributes.
        """
        return tree_noise(self)

    def _check_unweighted(self, what: str) -> None:
        """Refuse what is proven for rows that count as one."""
        size = self.__dict__.get("_size")
        if size is not None and size.weight is not None:
            raise UnprovenError(f"{what} is not proven where rows count by {size.weight.column!r}")

    def _released_count(self, session: Session) -> Total | None:
        """Return the number of rows that is declared, or released as a part of its own."""
        if is_declared(self.n_rows):
            return Total(int(self.n_rows), 0.0)
        return row_count(session, self._split.noise(ROWS)) if ROWS in self._split else None

    def _report(self, stage: str, done: float) -> None:
        if callable(self.progress):
            self.progress(stage, done)

    # What a fit leaves behind is taken over whole or forgotten whole

    def _adopt(self, fitted: Synthesizer) -> None:
        parameters = set(self.get_params(deep=False))
        learned = {k: v for k, v in fitted.__dict__.items() if k not in parameters}
        self.__dict__.update(learned)
        self._learned = tuple(learned)

    def _forget(self) -> None:
        for name in (*self.__dict__.pop("_learned", ()), "_left_budget"):
            self.__dict__.pop(name, None)

    def _check_fitted(self) -> None:
        if "schema_" not in self.__dict__:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def _check_fit_again(self) -> None:
        if "_left_budget" in self.__dict__ and self.budget is None:
            raise ParameterError(
                "this model was fitted within a shared budget that did not travel with it; to fit "
                "it again, give it one with set_params(budget=...), or clone it to do without"
            )

    def _public_parameters(self) -> dict[str, Any]:
        names = set(self.get_params(deep=False)) - {"budget", "progress", "random_state"}
        values = {name: getattr(self, name) for name in sorted(names)}
        return {n: v.item() if isinstance(v, np.generic) else v for n, v in values.items()}

    def _kept_within(self) -> Callable[[Event], None] | None:
        """Split the budget of a fit; return what refuses releases beyond caps, if there are any.

        Parts of networks in pure epsilon are reserved, which is as good. Beside levels that a fit
        finds nothing is amplified, and what is counted follows from them, not from public facts.
        Nor is anything of units, or of rows that count by weights.
        """
        plain = not any(self.__dict__.get(name) for name in ("_open_names", "_unit", "_weight"))
        caps = self._kept = self._split.caps() if plain else None
        reserved = caps is not None and isinstance(caps.structure, DataChosenGates)
        return None if caps is None or reserved else Keeper(caps).admit

    def _caps_of_fit(self) -> Caps | None:
        """Return the caps that this fit was kept within, if it had any."""
        return self.__dict__.get("_kept")

    def _agrees_with(self, guarantee: Guarantee) -> bool:
        """Whether a guarantee is that of a fit with these parameters."""
        declared = [c.n for c in guarantee.conditions if isinstance(c, DeclaredRowCount)]
        return (
            math.isclose(guarantee.epsilon, self.epsilon, rel_tol=1e-6)
            and guarantee.delta == self._delta
            and (guarantee.adjacency, guarantee.protects) == ("add-remove", "incomplete")
            and declared == ([int(self.n_rows)] if is_declared(self.n_rows) else [])
        )

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):  # what scikit-learn calls fitted
            raise NotFittedError(
                f"this {type(self).__name__} has no {name!r}: it is not fitted yet; call fit first"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        """State to pickle: a fitted model without its budget and the drawn rows of estimates."""
        state = {name: fact for name, fact in self.__dict__.items() if name != ESTIMATE_ROWS}
        if "guarantee_" in state and state.get("budget") is not None:
            state |= {"budget": None, "_left_budget": True}
        return state

    def __copy__(self) -> Self:
        """Copy that shares everything, the budget included."""
        another = type(self).__new__(type(self))
        another.__dict__.update(self.__dict__)
        return another

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all but the budget, which is shared."""
        another = type(self).__new__(type(self))
        memo[id(self)] = another
        another.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return another
