"""What every synthesizer is: fitted once within a budget, sampled for free ever after."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_type_hints

import numpy as np

from missdp.accounting import Budget, Condition, Guarantee
from missdp.accounting.guarantee import warn_if_weak
from missdp.errors import BudgetExceededError, DataError, ParameterError, did_you_mean, replacing
from missdp.mechanisms import Door, Total, noise_source
from missdp.progress import Progress
from missdp.record import fits
from missdp.schema import Numeric, Schema
from missdp.schema.grid import found, on_grid, pending, widest
from missdp.sources import MarginalSource, Reads, Strategy, readable
from missdp.sources.counts import recodable
from missdp.sources.modelled import Modelled
from missdp.synth.cuts import cuts_share, release_cuts
from missdp.synth.noisy_counts import warn_if_hardly_complete, whole_rows
from missdp.synth.parts import Parts, ground_truth_parts, split
from missdp.synth.restore import KindShares, release_kinds
from missdp.synth.row_blocks import MissingValues, Sampler
from missdp.synth.state import (
    StoredModel,
    check_settings,
    chosen_delta,
    fit_conditions,
    is_declared,
    is_number,
    open_data,
    read_document,
    read_model,
    write_model,
)
from missdp.table import FrameKind
from missdp.threads import one_blas_thread

__all__ = ["MissingValues", "Synthesizer"]


_TRIED = 100  # rows that a model draws when it is opened


@dataclass(kw_only=True, eq=False, repr=False)
class Synthesizer(Sampler):
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
        finds, for a tenth of the budget together; or ten of equal width, for nothing.
    random_state : int or None
        None draws noise from the operating system's cryptographic source. A number is for tests:
        the guarantee then says that it holds only against those who do not know the seed. A
        generator is refused: whoever goes on drawing from it could tell the noise.
    budget : Budget or None
        A budget shared with other releases from the same table. It is charged before any
        computation and is shared, never copied, by clones and copies. A fitted model can be
        pickled, without it: the unpickled model samples and has its guarantee, and refuses to be
        fitted again until it is given a budget.
    """

    strategies: ClassVar[tuple[str, ...]] = ()
    released: ClassVar[tuple[str, ...]] = ()
    fixed_gates: ClassVar[bool] = False  # see `missdp.synth.parts`

    epsilon: float
    delta: float | None = None
    missing: str = "joint"
    n_rows: int | Literal["noisy"] = "noisy"
    cuts: Literal["private", "equal"] = "private"
    random_state: int | None = None
    budget: Budget | None = None
    progress: Progress | None = None

    # What a fit leaves behind.
    schema_: Schema = field(init=False)
    kind_: FrameKind = field(init=False)
    n_rows_: int = field(init=False)
    n_rows_std_: float = field(init=False)
    guarantee_: Guarantee = field(init=False)
    release_: str | None = field(init=False)  # the id of the release whose file holds the model
    _fitted_with: dict[str, Any] = field(init=False)
    _kind_shares: KindShares = field(init=False)

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
            If the released number of rows cannot be told from none, or by what was released hardly
            a row is complete and only complete ones are learned from.
        """
        del y
        own = self._check_parameters()
        self._check_fit_again()
        noise = noise_source(self.random_state)
        if undeclared not in ("refuse", "accept"):
            raise ParameterError("undeclared must be 'refuse' or 'accept'")
        if self.budget is not None and not self.budget.can_afford(own.filter()):
            raise BudgetExceededError(
                f"the fit does not fit into {self.budget!r}; nothing was read or recorded. "
                + _remedy(self.budget, self._delta)
            )
        declared = is_declared(self.n_rows)
        warn_if_weak(self.epsilon, self._delta, n=int(self.n_rows) if declared else None)
        source, kind = open_data(data, schema, self._reads)
        conditions = fit_conditions(source.schema, undeclared, self.random_state, self.n_rows)
        self._strategy.check(readable(source, self._reads(source.schema)))
        fresh = type(self)(**self.get_params(deep=False))
        fresh._fitted_with = self._public_parameters()
        fresh.schema_, fresh.kind_ = fresh._to_be_cut(source.schema, recodable(source)), kind
        grid = on_grid(fresh.schema_)  # refused now, if it cannot be
        fresh._check_schema(fresh.modelled_)
        if self.budget is not None:
            label = f"{type(self).__name__}({self.missing})"
            self.budget.reserve(own, label=label, conditions=conditions)
        # Learned on a fresh model and taken over whole: neither what was learned before, nor half
        # of this fit, should it fail, must be taken for this model.
        self._forget()
        rows = int(self.n_rows) if declared else None
        door = fresh._door(source, grid, budget=own, noise=noise, declared_rows=rows)
        fresh._kind_shares = release_kinds(door, fresh._modelled)
        total = fresh._fit(door)
        if declared:
            total = Total(int(self.n_rows), 0.0)
        fresh.n_rows_ = whole_rows(total, epsilon=self.epsilon)
        fresh.n_rows_std_ = total.std
        fresh._settle(found(fresh.schema_))
        fresh.guarantee_ = own.spent.with_conditions(*conditions)
        fresh.release_ = None
        self._adopt(fresh)
        if not declared:  # released by now, so it may be spoken about
            warn_if_weak(0.0, self._delta, n=self.n_rows_)
        warn_if_hardly_complete(door.complete_rows, rows=self.n_rows_)
        return self

    def _to_be_cut(self, schema: Schema, names: Iterable[str]) -> Schema:
        """Return the schema with the attributes marked whose bins this fit finds; public."""
        return pending(schema, names) if self.cuts == "private" else schema

    def _door(self, source: MarginalSource, grid: Schema, **facts: Any) -> Door:
        """Return a door to the rows, in the bins that are declared or, for a charge, found."""
        admit = self._kept_within()
        recoded = self.schema_ is not source.schema and recodable(source)
        if recoded and not cuts_share(self.schema_):
            source = source.coded_as(self.schema_)  # type: ignore[attr-defined]
        if not cuts_share(self.schema_):
            return Door(source, self._strategy, **facts).admitting(admit)
        door = Door(source.coded_as(grid), self._strategy, **facts).admitting(admit)  # type: ignore[attr-defined]
        self._report("finding bins", 0.0)
        self._settle(release_cuts(door, grid, self.schema_))
        cells = {
            a.name: a.encode_values(old.reach[0])
            for a, old in zip(self.schema_, grid, strict=True)
            if isinstance(a, Numeric) and isinstance(old, Numeric) and a != old
        }
        return door.recut(source.coded_as(self.schema_), cells)  # type: ignore[attr-defined]

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
        # By name: what is proven stands above this room, and is read when it is asked for.
        wing = import_module("missdp.ground_truth")
        found: Guarantee = wing.ground_truth_guarantee(self, assumption)
        return found

    def ground_truth_parts(self) -> Parts:
        """Return the caps of the fit's parts, for :func:`missdp.ground_truth.joint`."""
        self._check_fitted()
        return ground_truth_parts(
            self.guarantee_,
            strategy=self._applied_strategy,
            modelled=self._modelled,
            fixed_gates=self.fixed_gates,
            caps=self._caps_of_fit(),
        )

    def planned_parts(
        self, schema: Schema, *, epsilon: float | None = None
    ) -> tuple[Guarantee, Parts]:
        """Return the guarantee of a fit to rows with this schema, and its parts: nothing is read.

        For :func:`missdp.ground_truth.planned_ground_truth`. What a fit adds to the conditions is
        left out; another ``epsilon`` may be tried.
        """
        own = self._public_parameters() | ({} if epsilon is None else {"epsilon": epsilon})
        again = type(self)(**own)
        again.schema_ = again._to_be_cut(schema, schema.names)
        budget = again._check_parameters()
        whole = Guarantee(budget.epsilon, again._delta, events=(budget.filter(),))
        return whole, split(whole, again._caps())

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
        model = StoredModel(
            family=type(self).__name__,
            parameters=self._fitted_with,
            schema=self.schema_,
            frame=self.kind_,
            n_rows=self.n_rows_,
            n_rows_std=self.n_rows_std_,
            guarantee=self.guarantee_,
            released=self._released() | self._facts(),
        )
        write_model(Path(path), model, release=self.__dict__.get("release_"))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that :meth:`save` wrote; it can be sampled, with the guarantee it had."""
        return cls._opened(read_document(Path(path)), Path(path))

    @classmethod
    def _opened(cls, document: Mapping[str, Any], path: Path) -> Self:
        """Return the model of a parsed file."""
        stored = read_model(document, path, family=cls.__name__)
        broken = DataError(f"{str(path)!r} is not a missdp model file")
        with replacing(Exception, by=broken), np.errstate(all="ignore"):
            model = cls(**stored.parameters)
            model._fitted_with = stored.parameters
            model.schema_, model.kind_ = stored.schema, stored.frame
            model.n_rows_, model.n_rows_std_ = stored.n_rows, stored.n_rows_std
            model._restore(stored.released)
            model._take_facts(stored)
            release = document.get("release")
            model.release_ = release if isinstance(release, str) else None
            if model.missing not in cls.strategies or not model._draws_schema():
                raise broken
            agrees = model._agrees_with(stored.guarantee)
        if not agrees:
            raise DataError(
                "the guarantee of the model is not that of its parameters: the file was edited"
            )
        model._adopt(model)
        return model

    # What a family provides

    @abc.abstractmethod
    def _fit(self, door: Door) -> Total:
        """Learn the model from what the door answers, which is all that it may know.

        Returns
        -------
        Total
            What the releases say about the number of rows; ignored if it was declared.
        """

    def _released(self) -> dict[str, Any]:
        """Return the released model: numbers, text, arrays, records, and mappings of them."""
        return {name: getattr(self, name) for name in self.released}

    def _restore(self, released: dict[str, Any]) -> None:
        """Inverse of ``_released``; a list comes back as a tuple."""
        types = get_type_hints(type(self))
        for name in self.released:
            if not fits(released[name], types.get(name, Any)):
                raise DataError(f"{name} is of the wrong type")
            setattr(self, name, released[name])

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

    def _check_parameters(self) -> Budget:
        if self.missing not in self.strategies:
            raise ParameterError(
                f"missing must be one of {list(self.strategies)}, not {self.missing!r}"
                f"{did_you_mean(self.missing, self.strategies)}"
            )
        if self.cuts not in ("private", "equal"):
            raise ParameterError("cuts must be 'private' or 'equal'")
        check_settings(self.get_params(deep=False))
        # The noise of a table depends on the structure chosen before it, so this is a filter.
        return Budget(self.epsilon, self._delta, schedule="adaptive")

    def _check_share(self, name: str) -> None:
        value = getattr(self, name)
        if not (is_number(value) and 0 < value < 1):
            raise ParameterError(f"{name} must be strictly between 0 and 1")

    def _report(self, stage: str, done: float) -> None:
        if self.progress is not None:
            self.progress(stage, done)


def _remedy(budget: Budget, delta: float) -> str:
    """Return what may be done about a budget that a fit does not fit into."""
    if budget.delta == 0 < delta:
        return (
            f"This fit needs a delta of {delta:g}, and the budget has none: give it a larger one, "
            "or fit with delta=0, as PrivBayes can"
        )
    return "Ask for a smaller epsilon, or use a larger budget"
