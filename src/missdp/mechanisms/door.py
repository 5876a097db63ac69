"""The door: all that a synthesizer gets to know about the private rows, charged and with noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from missdp.accounting import Budget, Cost, Event
from missdp.accounting.budget import check_paid
from missdp.errors import ParameterError
from missdp.inference.conditionals import Conditionals
from missdp.mechanisms.exact_noise import NoiseSource
from missdp.mechanisms.noise import Noise, Selection, SelectionMethod
from missdp.mechanisms.products import Products, RowProducts
from missdp.mechanisms.queries import (
    CountedRows,
    DoorQuery,
    Facts,
    Given,
    Kinds,
    Marginal,
    PairRate,
    RowCount,
    Score,
    Scores,
    Tree,
    UnitSums,
    ViolatingPairs,
)
from missdp.mechanisms.session import Charged, Measurement, Session, Total, exactly
from missdp.mechanisms.training import PrivateTraining, RowFunction, Training, fixed_copy
from missdp.schema import PairDenial, Schema
from missdp.schema.rulebook import ImpossibleCells
from missdp.sources import Clique, MarginalSource, MemorySource, Reads, Strategy
from missdp.sources.counts import offers, weighing
from missdp.sources.filling import complete_schema, filled_given_all, filled_rows
from missdp.sources.modelled import Modelled
from missdp.sources.strategies import ExactCounts, MergedCounts, is_weighed
from missdp.types import Floats, Ints

__all__ = [
    "Clique", "Door", "Facts", "Given", "Kinds", "Marginal", "Noise", "PairRate",
    "PrivateTraining", "Products", "Reads", "RowCount", "RowProducts", "Score", "Scores",
    "Selection", "Total", "Training", "Tree", "UnitSums", "ViolatingPairs",
]  # fmt: skip


class Door(Session):
    """A session for synthesizers: public facts, noisy answers, and what is left to spend.

    Every answer is charged before anything is computed. `measure` takes any of the queries
    (`RowCount`, `Marginal`, `Tree`, `Kinds`, `Scores`, ...); the methods named after them fill in
    what is usual. The attributes that a row must have observed to be read are filled in here.

    Parameters
    ----------
    source : MarginalSource
        The private rows.
    strategy : Strategy
        How rows with missing cells are counted.
    budget : Budget
        With schedule ``"adaptive"``; charged before each answer.
    noise : NoiseSource
    declared_rows : int or None
        Number of rows, if it was declared public.
    sums : ndarray or None
        What ``UnitSums`` answers, where it is known. Private.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> from missdp.mechanisms import Door, Noise, SecureNoise
    >>> from missdp.sources import MemorySource, strategy_named
    >>> budget = Budget(1.0, schedule="adaptive")
    >>> door = Door(
    ...     MemorySource(yrbss().table()), strategy_named("joint"), budget=budget,
    ...     noise=SecureNoise(),
    ... )
    >>> counts = door.marginal(("gender",), Noise("laplace", 4.0))
    >>> counts.shape == door.shape(("gender",)), door.left.amount
    (True, 0.75)
    """

    _queries: ClassVar = (RowCount, UnitSums, Kinds, Marginal, Tree, Scores, ViolatingPairs)
    _rows: CountedRows

    def __init__(
        self,
        source: MarginalSource,
        strategy: Strategy,
        *,
        budget: Budget,
        noise: NoiseSource,
        declared_rows: int | None = None,
        sums: Ints | None = None,
    ) -> None:
        if not isinstance(budget, Budget):
            raise ParameterError("budget must be a Budget")
        check_paid(source.schema.ledger, budget)
        strategy.check(source)
        source.schema.refuse_units("a door that is opened by hand")
        super().__init__(budget=budget, noise=noise)
        modelled = Modelled(source.schema)
        came, source = source, modelled.source(source)
        self._modelled, self._strategy, self._schema = modelled, strategy, source.schema
        self._declared_rows = declared_rows
        self._sizes = strategy.shape(source.schema.names, source.schema)
        opened = (lambda: _complete_rows(source)) if strategy.complete_only else (lambda: source)
        counts = ExactCounts(opened, source.schema, strategy, weighed=is_weighed(came))
        self._rows = CountedRows(came, source, modelled, strategy, source.schema, counts, sums=sums)
        self._totals: list[Total] = []  # of the marginals released so far, shared by all handles
        self._finer: Door | None = None

    # Public facts

    @property
    def schema(self) -> Schema:
        """Public facts about what is counted of the rows: see ``Modelled``."""
        return self._schema

    @property
    def impossible(self) -> ImpossibleCells:
        """Combinations of levels that no row has, by rules."""
        return self._modelled.impossible

    @property
    def never_missing(self) -> dict[int, int]:
        """By position of an attribute, its level "not applicable", if that is never missing."""
        return self._modelled.never_missing

    @property
    def told(self) -> dict[int, tuple[int, ...]]:
        """By position of an attribute, those by which alone "not applicable" is known."""
        return self._modelled.told

    @property
    def strategy(self) -> Strategy:
        """How rows with holes are counted."""
        return self._strategy

    @property
    def sizes(self) -> dict[str, int]:
        """Number of codes of each attribute in the counts, "missing" included if it is one."""
        return dict(zip(self._schema.names, self._sizes, strict=True))

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Return the shape of a clique's counts."""
        sizes = self.sizes
        return tuple(sizes[name] for name in clique)

    def tells_total(self, clique: Clique) -> bool:
        """Whether the clique's counts add up to the number of all rows."""
        return self._strategy.tells_total(clique, self._schema)

    @property
    def every_row_counts(self) -> bool:
        """Whether all cliques have the same total; if not, each counts the rows observed on it."""
        return self._strategy.every_row_counts(self._schema)

    @property
    def complete_rows(self) -> tuple[Total, ...]:
        """Number of complete rows, by each marginal released, if some others are not counted."""
        return tuple(self._totals) if self._strategy.complete_only and self._schema.nullable else ()

    # What may be spent

    def reserve(self, cost: Cost, *, label: str) -> Door:
        """Set a part aside, now, and return a door to the same rows that spends from it.

        The part is in any currency that has a bound in that of ``left``: what the new door answers
        is charged to it in its own currency, and costs nothing more here.
        """
        delta = 0.0 if cost.currency == "pure" else self._budget.delta
        part = Budget.from_cost(cost, delta=delta, adjacency=self._budget.adjacency)
        return self._with(_budget=self._budget.reserve(part, label=label))

    @property
    def finer(self) -> Door | None:
        """A door to the same rows in finer codes, if there are any; it spends from the same."""
        if self._finer is None:
            return None
        return self._finer._with(_budget=self._budget, _admit=self._admit)

    def admitting(self, admit: Callable[[Event], None] | None) -> Door:
        """Return a door that first shows every event to ``admit``, which raises to refuse it."""
        return self._with(_admit=admit)

    # Answers

    def row_count(self, noise: Noise) -> Total:
        """Return the number of all rows: the declared one, free, or a noisy one."""
        if self._declared_rows is not None:
            return Total(float(self._declared_rows), 0.0)
        return Total(float(self.measure(RowCount(), noise).value), noise.variance)

    def expect(self, cliques: Iterable[Clique]) -> None:
        """Say which cliques may be asked for, so that one pass over the rows counts them all.

        Costs nothing, and promises nothing. All are held in memory once one of them is needed.
        """
        self._rows.counts.expect(cliques)

    def marginal(self, clique: Clique, noise: Noise) -> Ints:
        """Return noisy counts of a clique, of shape ``shape(clique)``; some may be negative.

        The empty clique has one cell, the number of rows that are counted.
        """
        released: Ints = self.measure(Marginal(clique), noise).value
        self._totals.append(Total(float(released.sum()), released.size * noise.variance))
        return released

    def tree(
        self,
        name: str,
        cost: Cost,
        *,
        levels: Sequence[int],
        within: tuple[int, int] | None = None,
    ) -> tuple[list[Ints], Noise]:
        """Return noisy counts of the nodes of a dyadic tree, by level, and the noise of each count.

        See `Tree`. All counts together have this cost; ``within`` is public, or released before,
        and all levels by default.
        """
        size = self._modelled.whole[name].size
        tree = Tree(name=name, size=size, levels=levels, within=within or (0, size))
        found = self.measure(tree, cost)
        noise = found.mechanism
        assert isinstance(noise, Noise)
        ends = np.cumsum([1 << level for level in levels])[:-1]
        return np.split(np.asarray(found.value), ends), noise

    def recut(
        self,
        source: MarginalSource,
        cells: Mapping[str, Ints],
        *,
        finer: MarginalSource | None = None,
    ) -> Door:
        """Return a door to the same rows, coded in another way.

        Parameters
        ----------
        source : MarginalSource
            The same rows.
        cells : mapping of str to ndarray of int64
            By attribute whose codes differ, what each code of a level is called there.
        finer : MarginalSource, optional
            The same rows once more, in the codes that ``finer`` of the new door is to have.
        """

        def opened(source: MarginalSource) -> Door:
            facts: dict[str, Any] = {"budget": self._budget, "noise": self._noise}
            facts |= {"declared_rows": self._declared_rows, "sums": self._rows.sums}
            return Door(source, self._strategy, **facts).admitting(self._admit)

        found = opened(source)
        found._finer = None if finer is None else opened(finer)
        if isinstance(counts := found._rows.counts, ExactCounts):
            counts.take_over(self._rows.counts, cells)
        return found

    def kinds(self, name: str, noise: Noise) -> Ints:
        """Return noisy counts of an attribute's holes by their kind; the first is plain missing."""
        released: Ints = self.measure(Kinds(name), noise).value
        return released

    def select(
        self,
        cliques: Sequence[Clique],
        score: Score,
        *,
        epsilon: float,
        given: Given = None,
        method: SelectionMethod = "exponential",
    ) -> int:
        """Return the position of a clique with a high score.

        Parameters
        ----------
        cliques : sequence of tuple of str
            The candidates: public, or chosen from what was released. A single one is no choice:
            nothing is charged, and nothing computed.
        score, epsilon
            See `Score` and `Selection`.
        given : callable or mapping, optional
            Returns the released values (arrays and numbers) that the score of a clique takes
            besides its counts. With a mapping, or without it, each score is computed once; else
            what was worked out is not worked out again as long as the values are kept.
        method : {"exponential", "permute-and-flip"}
            See `Selection`.
        """
        scores = Scores(cliques, score, given)
        selection = Selection(epsilon, score.sensitivity, method)
        if len(cliques) == 1:
            return 0
        return int(self.measure(scores, selection).value)

    def products(self, plan: RowProducts, cost: Cost) -> Products:
        """Return noisy sums over rows of all products of two attributes' blocks of numbers.

        A row's vector holds its blocks, times ``plan.alone``, and all products of a number of one
        block with one of another. It is clipped, as a whole, to ``plan.clip`` in L2 norm, put on a
        grid of whole numbers, and added up, and every number gets discrete Gaussian noise; so the
        cost is not in pure epsilon. "Missing" is the last code of an attribute.
        """
        exactly(RowProducts, plan)
        weighing(self._rows.came)
        sums = plan.on_grid(self._codes_of_rows(), cost, steps=self._rows.steps)
        return sums.read(np.asarray(self._measured(sums, sums.noise).value))

    @property
    def denials(self) -> tuple[PairDenial, ...]:
        """The denial constraints about two rows: public facts."""
        return self._modelled.whole.rulebook.pairs

    def pair_rate(self, denial: PairDenial, cost: Cost) -> PairRate:
        """Return a noisy share of the pairs of rows that violate a denial constraint.

        Counted are rows with a value of all its attributes, by their exact numbers, as they were
        before missing cells were filled or levels merged; only complete rows if only those are
        counted. See `missdp.mechanisms.queries.ViolatingPairs` for the proof, and for what is
        refused before anything is charged.
        """
        found = self.measure(ViolatingPairs(denial), cost)
        noise = found.mechanism
        assert isinstance(noise, Noise)
        return ViolatingPairs.read(np.asarray(found.value), noise)

    def train(
        self,
        plan: Training,
        gradient: Callable[..., Any],
        state: tuple[Any, ...],
        *,
        rows_at_once: int = 128,
        observed: Clique = (),
        label: str = "training",
    ) -> PrivateTraining:
        """Charge for a whole training, and return what answers its steps (DP-SGD).

        Each step samples rows, every row by itself with probability ``plan.rate``, clips the
        gradient of each to ``plan.clip``, all parameters jointly, adds them up, and adds noise.

        Parameters
        ----------
        plan : Training
        gradient : callable
            ``gradient(codes, *state)`` returns the gradient of every row: an array whose first axis
            are the rows, or a tuple of such arrays, of shapes that do not change. ``codes`` has an
            array for each attribute; the code after the last level means "missing". A plain
            function without a closure or defaults, which treats every row by itself, in double
            precision, so that rounding does not make rows depend on each other; what that takes
            of functions with kinks, ``training.RowFunction`` says. It is tried
            out on made-up rows before the charge. A row for which it fails, or whose gradient is
            not finite, counts as 0.
        state : tuple
            Released values (arrays, numbers, text) as the first step will be given them.
        rows_at_once : int, default 128
            Size of the blocks of rows that the function is given, up to 1024. With 1, no row is
            beside another.
        observed : tuple of str
            Attributes: rows in which one of them is missing are not read at all.
        label : str
            Public name.

        Raises
        ------
        ParameterError
            If rows are streamed, or the function fails or lets rows look at each other. Nothing is
            charged.
        """
        if not isinstance(self._rows.source, MemorySource):
            raise ParameterError(
                "training needs the rows in memory, and these are streamed; read them with "
                "Table.read"
            )
        self._rows.refuse_weights("training")
        exactly(Training, plan)
        plan = replace(plan)  # a copy: nobody else can change what the steps are
        held, observed = tuple(map(fixed_copy, state)), tuple(observed)
        if unknown := {*observed} - {*self._schema.names}:
            raise ParameterError(f"observed names what is not there: {', '.join(sorted(unknown))}")
        sizes = self._codes_of_rows()
        function = RowFunction(gradient, sizes, held, rows_at_once)
        event = plan.event(gate=self._gate(observed) or None, label=label)
        charged = Charged((event,), answers=plan.steps)
        codes = cache(partial(self._rows.observed, observed, sizes))
        training = PrivateTraining(plan, function, session=self, charged=charged, codes=codes)
        function.check(held, plan.clip)
        self._charge(charged)
        return training

    # The same rows, changed row by row

    def filled(self, laws: Mapping[str, ArrayLike] | Conditionals) -> Door:
        """Return a door to the rows with every missing cell drawn from a released law.

        Each row is filled by itself, so that adding or removing one still changes one row.

        Parameters
        ----------
        laws : mapping of str to array, or Conditionals
            From released values only. For each nullable attribute a probability for each level; or
            the law of each attribute given all others, as plain numbers, which are copied.
        """
        if not self._strategy.fills:
            raise ParameterError(f"missing={self._strategy.name!r} fills no holes")
        modelled, source, rng = self._modelled, self._rows.source, self.generator()
        schema = complete_schema(self._schema)
        fill: Callable[[], MarginalSource]
        if isinstance(laws, Conditionals):
            given = Conditionals.fixed(laws, [a.size for a in self._schema])
            fill = lambda: filled_given_all(source, given, rng, modelled)  # noqa: E731
        else:
            alone = {
                name: modelled.without_absent(name, self._law(name, laws))
                for name in self._schema.nullable
            }
            fill = lambda: filled_rows(source, alone, rng, modelled)  # noqa: E731
        counts = ExactCounts(fill, schema, self._strategy, weighed=is_weighed(source))
        rows = replace(self._rows, schema=schema, counts=counts, scores={})
        return self._with(_schema=schema, _rows=rows, _finer=None)

    def merged(self, groups: Mapping[str, Ints]) -> Door:
        """Return a door to the rows with levels merged into groups, on released grounds.

        Parameters
        ----------
        groups : mapping of str to ndarray of int64
            For each attribute the group of each level, ``0..k - 1``; "missing" stays by itself.
        """
        # Copies: changed later, groups could take what is missing for a level.
        groups = {name: np.array(groups[name]) for name in self._schema.names}
        sizes = []
        for attribute, size in zip(self._schema, self._sizes, strict=True):
            group = groups[attribute.name]
            known = group.shape == (attribute.size,) and group.dtype.kind in "iu"
            if not known or sorted(set(group.tolist())) != list(range(int(group.max()) + 1)):
                raise ParameterError("groups must number the groups of the declared levels from 0")
            sizes.append(int(group.max()) + 1 + size - attribute.size)
        rows = replace(self._rows, counts=MergedCounts(self._rows.counts, groups), scores={})
        return self._with(_sizes=tuple(sizes), _rows=rows, _finer=None)

    def _measured(self, query: Any, how: Any) -> Measurement:
        """Charge, compute and draw; counts in as many steps as rows have."""
        if isinstance(how, Noise) and isinstance(query, DoorQuery):
            how = replace(how, steps=query.steps(self._rows))
        return super()._measured(query, how)

    def _gate(self, clique: Clique | None) -> frozenset[str]:
        """Return what a counted row must have had observed, before rules filled any cell."""
        if clique is None:
            return frozenset()
        return self._strategy.gate(clique, self._schema) - self._modelled.filled

    def _codes_of_rows(self) -> dict[str, int]:
        """Number of codes that each attribute of the rows may have."""
        hole = not self._strategy.complete_only
        modelled = self._strategy.models_holes
        return {
            a.name: size + (a.nullable and hole) - (a.nullable and modelled)
            for a, size in zip(self._schema, self._sizes, strict=True)
        }

    def _law(self, name: str, laws: Mapping[str, ArrayLike]) -> Floats:
        law = np.asarray(laws[name], dtype=np.float64)
        if law.shape != (self._schema[name].size,) or not (law >= 0).all() or not law.sum() > 0:
            raise ParameterError(f"the law of {name} must have a probability for each level")
        return np.asarray(law / law.sum())

    def __repr__(self) -> str:
        return f"Door({', '.join(self._schema.names)}; missing={self._strategy.name!r})"


def _complete_rows(source: MarginalSource) -> MarginalSource:
    """Return the rows that have no hole; the source holds its rows, or leaves out rows itself."""
    if isinstance(source, MemorySource):
        return source.taken(~source.table.incomplete_rows())
    assert offers(source, "observed_on")  # checked before anything was charged
    found: MarginalSource = source.observed_on(source.schema.nullable)  # type: ignore[attr-defined]
    return found
