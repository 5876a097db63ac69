"""AIM and MST: synthetic rows from a graphical model of measured marginals."""

from __future__ import annotations

import abc
import copy
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Budget, Cost
from missdp.errors import ParameterError
from missdp.inference.estimate import Estimate
from missdp.inference.junction import Clique, components
from missdp.inference.model import Draws, Zeros
from missdp.inference.models import GraphicalModel, Recipe
from missdp.mechanisms.door import Door, Total
from missdp.schema import Numeric, Ordinal, Schema
from missdp.schema.open_domains import is_pending
from missdp.synth.base import MissingValues, Synthesizer
from missdp.synth.impute_first import (
    IMPUTATION,
    Imputer,
    check_imputer,
    imputation_parts,
    impute,
)
from missdp.synth.learn_graphical import EVEN, Learner, Plan
from missdp.synth.noisy_counts import MASKS_SHARE
from missdp.synth.split import BINS, CHOICES, KINDS, MARGINS, MASKS, ROWS, TABLES, Part
from missdp.synth.state import is_declared, is_whole
from missdp.synth.uncertain import VariedMarginals
from missdp.synth.workload import (
    StructuralZeros,
    Workload,
    candidates,
    pairs_of,
    read_zeros,
    with_rules,
)

_BYTES = 8
_MOST_ROWS = 1_000_000
# More than a gigabyte of model could not be fitted; regularisation beyond a million either way is
# none, or nothing but.
_RANGES = {"max_model_size": (1e-6, 1024.0), "shrink": (1e-6, 1e6), "ridge": (1e-6, 1e6)}
_COUNT_SHARE = 0.04  # of the budget, for the number of rows: +- 23 at epsilon 1, delta 1e-6
_LEAST_COUNT_SHARE = 0.005
_PIECES = 5  # into which a round's marginal is divided at most: pairs may be kept four of five
ROUNDED = 1 + 1e-6  # where a fit adds up many parts


@dataclass(kw_only=True, eq=False, repr=False)
class _GraphicalSynthesizer(Synthesizer):
    """Base of AIM and MST: a graphical model, fitted to marginals that the door releases."""

    strategies: ClassVar[tuple[str, ...]] = (
        "joint",
        "observed",
        "complete-rows",
        "impute-first",
    )
    protects_units: ClassVar[bool] = True

    structural_zeros: StructuralZeros | None = None
    shrink: float = 0.2
    ridge: float = 0.3
    model_rows: int = 20_000
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1

    released: ClassVar[tuple[str, ...]] = ("model_", "measured_", "_recipe", "marginals_")
    model_: GraphicalModel = field(init=False)
    measured_: tuple[tuple[str, ...], ...] = field(init=False)
    _recipe: Recipe = field(init=False)
    marginals_: dict[Clique, NDArray[np.float64]] | None = field(init=False)  # none in older files
    _draws: Draws = field(default="even", init=False)
    workload: Workload = field(init=False)
    max_model_size: float = field(init=False)

    @abc.abstractmethod
    def _plan(self, schema: Schema, whole: Cost) -> Plan:
        """Return the public parameters of a fit that may cost so much once bins are found."""

    def _check_parameters(self) -> Budget:
        budget = super()._check_parameters()
        for name in ("max_model_size", "shrink", "ridge"):
            value = getattr(self, name)
            least, most = _RANGES[name]
            if not isinstance(value, (int, float)) or not least <= value <= most:
                raise ParameterError(f"{name} must be a number from {least:g} to {most:g}")
        if not (is_whole(self.model_rows) and 100 <= self.model_rows <= _MOST_ROWS):
            raise ParameterError(f"model_rows must be a whole number from 100 to {_MOST_ROWS:,}")
        check_imputer(self.imputer)
        self._check_share("imputer_share")
        return budget

    @property
    def _budget(self) -> Budget:
        currency = Cost.for_counts(float(self.epsilon), self._delta).currency
        return Budget(self.epsilon, self._delta_to_spend, schedule="adaptive", currency=currency)

    def _zeros(self, schema: Schema) -> Zeros:
        """Impossible cells: of the rules that fit into the model, and those given besides."""
        self._check_declared()
        declared = self._modelled.whole.subset(schema.names)
        given = read_zeros(self.structural_zeros, declared, max_cells=self._max_cells)
        return with_rules(given, self._modelled.impossible, schema, max_cells=self._max_cells)

    def _check_declared(self) -> None:
        """Refuse impossible cells of bins that are not known beforehand."""
        given = self.structural_zeros if isinstance(self.structural_zeros, Mapping) else {}
        named = {name for names in given if isinstance(names, tuple) for name in names}
        if unknown := sorted(a.name for a in self.schema_ if a.name in named and is_pending(a)):
            raise ParameterError(
                f"structural_zeros name bins of {', '.join(unknown)}, which are yet to be found: "
                "declare its bins or edges, or set cuts='equal'"
            )

    def _check_schema(self, schema: Schema) -> None:
        candidates(self.workload, schema)
        self._zeros(schema)

    def split(self, schema: Schema) -> list[Part]:
        """Return the parts of the budget of a fit; see :meth:`Synthesizer.split`.

        The number of rows is released once, and every one-way marginal once, with noise that
        parameters fix; and perhaps masks of pairs. What is left is spent on rounds: a selection,
        within a cap of its own, and a marginal of the workload. Pairs that a share is reserved for,
        and marginals measured once more, are of the workload too, or inside one of its marginals.
        """
        weights, plan = candidates(self.workload, schema), self._plan(schema, self._of_rows.left)
        share, singles = self._count_share(schema), [(name,) for name in schema.names]
        parts = imputation_parts(
            self._filled_gates(schema),
            self.imputer,
            self.imputer_share,
            attributes=len(schema),
            pure=self._delta == 0,
        )
        parts += [Part(ROWS, share)] if share else []
        first = plan.first_share if weights else 1.0
        parts.append(Part(MARGINS, first, self._gates(singles, schema)))
        if not weights:
            return parts
        anything, masks = self._gates([()], schema), math.comb(len(schema.nullable), 2)
        if self._strategy.models_holes and masks and len(weights) > 1:
            parts.append(Part(MASKS, MASKS_SHARE, anything, count=masks))
        if len(weights) > 1:
            choices = plan.selection_share * ROUNDED
            parts.append(Part(CHOICES, choices, anything, kind="selections", count=plan.rounds))
        rest = Part(TABLES, 1.0, anything, count=plan.rounds * _PIECES)
        if self._strategy.gates == "data":
            among = self._gates(self._choosable(schema, weights), schema)
            rest = replace(rest, gates=among, chosen=True, largest=self._largest(schema, parts))
        return [*parts, rest]

    def _choosable(self, schema: Schema, weights: Mapping[Clique, float]) -> list[tuple[str, ...]]:
        """Return what may be measured after single attributes; they themselves, if nothing fits."""
        zeros, limit = self._zeros(schema), self._max_cells
        found = [*weights, *pairs_of(weights)]
        if self._unknown_zeros() or not _one_fits(weights, zeros, schema, max_cells=limit):
            found += [(v,) for v in range(len(schema))]
        return [tuple(schema.names[v] for v in clique) for clique in dict.fromkeys(found)]

    def _unknown_zeros(self) -> bool:
        """Whether cells may be impossible of bins that are yet to be found."""
        return bool(self.schema_.rules) and any(map(is_pending, self.schema_))

    def _largest(self, schema: Schema, parts: Sequence[Part]) -> float:  # noqa: ARG002
        """Return the largest share that a marginal gets of what all get after ``parts``; public."""
        return 1.0

    def _count_share(self, schema: Schema) -> float:
        """Share of the budget for the number of rows: what one-way marginals do not tell; public.

        A marginal in which every row counts has the number of rows as its total, with as many
        cells' noise. In units of the inverse variance that the budget would buy if it were all
        spent on one number, they tell ``first_share * mean(1 / cells)``.
        """
        if is_declared(self.n_rows):
            return 0.0
        strategy = self._strategy
        sizes = [
            strategy.shape((name,), schema)[0]
            for name in schema.names
            if strategy.fills or strategy.tells_total((name,), schema)
        ]
        first = self._plan(schema, self._of_rows.left).first_share
        told = first * math.fsum(1 / size for size in sizes) / len(schema)
        lacking = _COUNT_SHARE - told
        return lacking if lacking > _LEAST_COUNT_SHARE else 0.0

    def _fit(self, door: Door) -> Total:
        self._report("preparing", 0.0)
        total = self._released_count(door)
        door = impute(door, self.imputer, cost=self._split.cost(IMPUTATION))
        schema, whole = door.schema, self._split.after(BINS, KINDS)
        zeros, always = self._zeros(schema), self._modelled.never_missing
        learner = Learner(
            door,
            candidates(self.workload, self._planned),
            self._plan(schema, whole),
            self._split,
            report=self._report,
            estimate=partial(
                Estimate,
                zeros=zeros,
                always=always,
                shrink=self.shrink,
                ridge=self.ridge,
                model_rows=self.model_rows,
            ),
            zeros=zeros,
            total=total,
        )
        self.keep(
            learner.run(),
            zeros,
            first_sigma=learner.first_std,
            extended=tuple(learner.extended),
            partial=not door.every_row_counts,
            always=always,
        )
        self._report("done", 1.0)
        return learner.rows()

    def keep(self, estimate: Estimate, zeros: Zeros, **recipe: Any) -> None:
        """Keep what was estimated from marginals as the released model."""
        self.model_ = GraphicalModel(
            tuple(estimate.levels), estimate.parameters, estimate.masks, zeros, estimate.tables()
        )
        self._recipe = Recipe(
            n_rows=estimate.n_rows,
            sigmas={c: float(m.std) for c, m in estimate.measured.items()},
            shrink=self.shrink,
            ridge=self.ridge,
            model_rows=self.model_rows,
            pairs={c: float(m.std) for c, m in estimate.noted.items()},
            **recipe,
        )
        self.marginals_ = estimate.completed()
        names = self.modelled_.names
        self.measured_ = tuple(tuple(names[v] for v in c) for c in estimate.measured)

    def _draws_schema(self) -> bool:
        sizes = [len(level.groups) for level in self.model_.levels]
        known = len(self._recipe.extended) == len(sizes)
        return known and sizes == [attribute.size for attribute in self.modelled_]

    def _uncertain(self, multiple: int, rng: np.random.Generator) -> Iterator[Self]:
        if self.marginals_ is None:
            raise ParameterError(
                "the model was saved by an earlier version of missdp, which kept nothing that "
                "'multiple' could vary: fit it again, or leave 'multiple' out"
            )
        levels = zip(self.modelled_, self.model_.levels, strict=True)
        ordered = [
            isinstance(attribute, (Numeric, Ordinal)) and level.n_groups == attribute.size
            for attribute, level in levels
        ]
        varied = VariedMarginals(
            self.marginals_, self.model_, self._recipe, ordered, design=self._design
        )
        for model in islice(varied.models(rng), multiple):
            another = copy.copy(self)
            another.model_ = model
            another._draws = "independent"  # combining takes the variance of real samples for given
            yield another

    @property
    def _max_cells(self) -> float:
        return self.max_model_size * 2**20 / _BYTES

    def _sample(
        self, n: int, missing_values: MissingValues, rng: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        codes = self.model_.sample(n, rng, keep_holes=missing_values == "keep", draws=self._draws)
        return dict(zip(self.modelled_.names, codes, strict=True))


_TRIED = 50  # marginals, the smallest first


def _one_fits(weights: Iterable[Clique], zeros: Zeros, schema: Schema, *, max_cells: float) -> bool:
    """Whether some marginal surely fits into the model, so that none of one attribute is chosen.

    Whatever the order of elimination, one part of the graph has its cells, and the others at most
    those of all its attributes together. Levels that are merged make both smaller.
    """
    sizes = [max(2, a.extended_size) for a in schema]

    def cells(clique: Clique) -> int:
        held = [*zeros, clique]
        parts: dict[int, list[int]] = defaultdict(list)
        for v, part in enumerate(components(len(sizes), held)):
            parts[part].append(v)
        whole = {frozenset(c) for c in held}
        return sum(
            math.prod(sizes[v] for v in part) * (1 if frozenset(part) in whole else len(part))
            for part in parts.values()
        )

    tried = heapq.nsmallest(_TRIED, weights, key=lambda c: math.prod(sizes[v] for v in c))
    return not tried or any(cells(clique) <= max_cells for clique in tried)


_ROUNDS_PER_ATTRIBUTE, _PURE_ROUNDS = 3, 1.5  # costs of pure epsilon add up as noise does
_MANY_ROUNDS = 100
_MOST_ROUNDS = 10_000
_PAIRS_SHARE = {"AIM": 0.25, "MST": 0.35}
_LEAST_IN_A_CELL = {"AIM": 3.5, "MST": 2.2}  # standard deviations


@dataclass(kw_only=True, eq=False, repr=False)
class AIM(_GraphicalSynthesizer):
    """Synthetic tables from adaptively chosen marginals (McKenna et al. 2022), holes included.

    All one-way marginals are measured first.  Then, round by round, the exponential mechanism
    picks the workload marginal that the model gets most wrong, Gaussian noise releases it, or
    Laplace noise if delta is 0, and a maximum-entropy graphical model is refitted.  Accounted in
    Gaussian DP (in zCDP if epsilon is large, in pure epsilon if delta is 0), add-remove adjacency.

    A model of limited size cannot hold all pairs of attributes.  A quarter of the budget measures
    those that no selected marginal contains, and synthetic rows are raked to them, if that pays:
    there are at most 600 pairs in the workload, the model could not hold all attributes together,
    and a cell of a pair has, on average, rows worth at least 3.5 standard deviations of the noise,
    by the released number of rows; 10.5 if attributes may be missing.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta may be 0, for pure epsilon-DP.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        ``"joint"`` counts every row in every marginal, missing being a level, and fits a model of
        the *complete* data together with a model of what goes missing given the row, so that
        observed tables can be weighted by their chance of being observed.  That corrects for
        missingness whose logit is a sum of effects of single attributes, and of pairs, that were
        measured with the missing one: an interaction (missing if exactly one of two attributes is
        set) needs a workload with the three together.  It does not correct for values that decide
        themselves whether they are missing.  Without evidence for selective missingness it does
        nearly what partial marginals do: evidence for or against it is weighed inside the fit,
        from released values.
        ``"observed"`` (AIME, Mohapatra et al. 2024, who call it adaptive) counts
        each marginal over the rows observed on it.  ``"complete-rows"`` drops incomplete rows.
        ``"impute-first"`` fills holes privately before learning.
    workload : int, names or weights, default 2
        Marginals that should come out right: all k-way ones, or tuples of names, or weights by
        tuples of names.
    max_model_size : float, default 1.0
        Megabytes of the junction tree.
    structural_zeros : mapping, optional
        Public facts about this fit; rules of the schema say such things for every family.
        Never read from the private table: by tuples of attribute names, which
        combinations are impossible, as an array of bool (True is impossible; one axis per name,
        one entry per declared level or bin), or as a list of level combinations.  No filled
        synthetic row has one.  Private rows that do are not counted in those cells, and nothing
        shows how many there are.
    rounds : "auto" or int, default "auto"
        Selections planned for; ``"auto"`` is three per attribute (1.5 if delta is 0) up to 100,
        and one per attribute beyond.
    first_share : float from 0.0001 to 0.99, default 0.3
        Share of the budget for the one-way marginals.
    selection_share : float from 0.0001 to 0.99, default 0.1
        Share of each round's budget for the selection.
    shrink : float, default 0.2
        Regularisation of the complete-data model, in units of the noise.
    ridge : float, default 0.3
        Regularisation of the model of missingness, in units of the noise.
    model_rows : int, default 20,000
        Synthetic rows that expectations over the missingness model are computed on.
    imputer : {"marginal", "pairs", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget.

    Attributes
    ----------
    model_ : GraphicalModel
        The released model.
    measured_ : tuple of tuple of str
        Which marginals were chosen.

    References
    ----------
    McKenna, Mullins, Sheldon, Miklau (2022), "AIM", PVLDB 15(11).
    Mohapatra, Zong, Kerschbaum, He (2024), PVLDB 17(8), for ``"observed"``.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 50, "ill": ["yes", "no", "no"] * 50})
    >>> model = AIM(epsilon=1.0, delta=1e-6).fit(people, schema=schema)
    >>> model.sample(4).shape
    (4, 2)
    >>> model.guarantee_.epsilon, model.guarantee_.delta
    (1.0, 1e-06)
    """

    workload: Workload = 2
    max_model_size: float = 1.0
    rounds: int | Literal["auto"] = "auto"
    first_share: float = 0.3
    selection_share: float = 0.1

    def _check_parameters(self) -> Budget:
        budget = super()._check_parameters()
        self._check_share("first_share")
        self._check_share("selection_share")
        rounds = self.rounds
        if rounds != "auto" and not (is_whole(rounds) and 1 <= rounds <= _MOST_ROUNDS):
            raise ParameterError(
                f"rounds must be 'auto' or a whole number from 1 to {_MOST_ROUNDS:,}"
            )
        return budget

    @property
    def _least_in_a_cell(self) -> float:
        """Rows that a cell must have for all pairs to be measured; tables with holes tell less."""
        nullable = bool(self.modelled_.nullable) and not self._strategy.fills
        return _LEAST_IN_A_CELL["AIM"] * (3 if nullable else 1)

    def _plan(self, schema: Schema, whole: Cost) -> Plan:
        attributes = len(schema)
        each = _ROUNDS_PER_ATTRIBUTE if self._delta else _PURE_ROUNDS
        auto = min(round(each * attributes), max(attributes, _MANY_ROUNDS))
        rounds = auto if self.rounds == "auto" else self.rounds
        return Plan(
            whole=whole,
            rounds=rounds,
            first_share=self.first_share,
            selection_share=self.selection_share,
            max_cells=self._max_cells,
            forest=False,
            pairs_share=_PAIRS_SHARE["AIM"],
            least_in_a_cell=self._least_in_a_cell,
        )


_TREE_FIRST_SHARE = 1 / 3
_TREE_SELECTION_SHARE = 0.15


@dataclass(kw_only=True, eq=False, repr=False)
class MST(_GraphicalSynthesizer):
    """Synthetic tables from a spanning tree of two-way marginals (McKenna et al. 2021).

    One-way marginals first; then ``d − 1`` times the exponential mechanism picks the pair, among
    those that keep the graph a forest, that independence describes worst, and it is measured with
    Gaussian noise, or Laplace noise if delta is 0.  Quick, and a good choice for small budgets or
    many attributes; otherwise AIM is more accurate.  Accounted as AIM, add-remove adjacency.

    A tree holds few pairs.  A share of .35 of the budget measures the others, and synthetic rows
    are raked to them, if there are at most 600 pairs, and a cell of a pair has, on average, rows
    worth at least 2.2 standard deviations of the noise, by the released number of rows.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta may be 0, for pure epsilon-DP.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        See :class:`~missdp.synth.aim.AIM`.
    structural_zeros, shrink, ridge, model_rows, imputer, imputer_share
        See :class:`~missdp.synth.aim.AIM`.

    Attributes
    ----------
    guarantee_, model_, measured_, n_rows_, n_rows_std_
        See :class:`~missdp.synth.aim.AIM`.

    References
    ----------
    McKenna, Miklau, Sheldon (2021), "Winning the NIST Contest", JPC 11(3).

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 50, "ill": ["yes", "no", "no"] * 50})
    >>> MST(epsilon=1.0, delta=1e-6).fit(people, schema=schema).measured_
    (('smoker', 'ill'),)
    """

    workload: Workload = field(default=2, init=False)
    max_model_size: float = field(default=64.0, init=False)

    def _plan(self, schema: Schema, whole: Cost) -> Plan:
        return Plan(
            whole=whole,
            rounds=max(1, len(schema) - 1),
            first_share=_TREE_FIRST_SHARE,
            selection_share=_TREE_SELECTION_SHARE,
            max_cells=self._max_cells,
            forest=True,
            pairs_share=_PAIRS_SHARE["MST"],
            least_in_a_cell=_LEAST_IN_A_CELL["MST"],
        )

    def _largest(self, schema: Schema, parts: Sequence[Part]) -> float:
        """Return the share of an edge of the tree, or of a pair outside of it.

        With all pairs in the workload, and no rules, a tree is always found: as long as it is not
        whole, there is more than one pair that joins two parts of it, if there are three attributes
        or more. So each edge gets the same cost, the pairs outside the tree share evenly what was
        reserved for them, and nothing is left to measure any of them again.
        """
        edges, pairs = len(schema) - 1, len(pairs_of(candidates(self.workload, schema)))
        outside = pairs - edges
        free = not (self._zeros(schema) or self._unknown_zeros())
        if not free or edges < 2 or pairs != math.comb(len(schema), 2):
            return 1.0
        left = math.prod(1 - part.share for part in parts)
        return max(1 / edges, _PAIRS_SHARE["MST"] / left / outside) * EVEN * ROUNDED
