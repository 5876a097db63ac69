"""All pairs of attributes from one noisy release: AllPairs, and what other families build on.

Tables of three attributes and more that a workload names are measured beside them. A workload is a
parameter, so that nothing is chosen by data: which tables are measured, behind which gates, and
with what noise, is fixed before anything is read.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Budget, Cost
from missdp.errors import ParameterError
from missdp.inference.heads import Pair
from missdp.inference.junction import Clique
from missdp.inference.masks import RowModel
from missdp.inference.model import Draws, Zeros
from missdp.inference.models import PairModel
from missdp.mechanisms.door import Door, Noise, Reads, RowProducts, Total, Training
from missdp.schema import Numeric, Ordinal, Schema
from missdp.synth.base import MissingValues, Synthesizer
from missdp.synth.coordinates import coordinates, with_shares
from missdp.synth.impute_first import (
    IMPUTATION,
    Imputer,
    check_imputer,
    imputation_parts,
    impute,
)
from missdp.synth.learn_pairs import (
    Crude,
    PairRelease,
    crude_margins,
    fit_pairs,
    impossible_pairs,
    release_pairs,
)
from missdp.synth.noisy_counts import MASKS_SHARE, release_masks
from missdp.synth.split import MARGINS, MASKS, ROWS, Part, Split
from missdp.synth.state import is_declared, is_number, is_whole
from missdp.synth.uncertain import varied_pairs
from missdp.synth.workload import MAX_CELLS, Workload, named_marginals
from missdp.types import Floats

_PAIRS = "all pairs"
_SEEN = 3.0  # standard deviations of noise, below which masks are not looked at
_MOST_HOLED = 32  # attributes with the most holes, of which it is
_FIRST_SHARE = 0.08
_TRAINED_FIRST_SHARE = 0.15  # of the budget, where margins stay as they were released first
_MOST_TRAINED = 1 << 20  # numbers of a row's gradient
_MOST_STEPS = 100_000
_COUNT_SHARE = 0.02  # of the budget, for the number of rows, where margins do not tell it
_CLIPS = (2.0**-10, 2.0**20)
_NOMINAL_RATE = 0.1  # for which the order of the accounting is chosen, if no n is declared


@dataclass(kw_only=True, eq=False, repr=False)
class PairsSynthesizer(Synthesizer):
    """Base of families that release initial marginals first, and then learn a model of whole rows.

    ``clip`` is the L2 norm to which the vector of each row is clipped; ``first_share`` the share of
    the budget for one-way marginals.
    """

    clip: float | Literal["auto"] = "auto"
    first_share: float | None = None
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1

    released: ClassVar[tuple[str, ...]] = ("model_",)
    model_: RowModel = field(init=False)

    def _check_parameters(self) -> Budget:
        if self.delta == 0:  # before the budget is worth nothing
            raise ParameterError(
                "delta must be above 0: the noise is Gaussian. AIM, MST and PrivBayes offer pure DP"
            )
        budget = super()._check_parameters()
        check_imputer(self.imputer)
        self._check_share("imputer_share")
        if self.first_share is not None:
            self._check_share("first_share")
        given = is_number(self.clip) and _CLIPS[0] <= self.clip <= _CLIPS[1]
        if not (given or (isinstance(self.clip, str) and self.clip == "auto")):
            raise ParameterError("clip must be 'auto' or a number from 2**-10 to 2**20")
        return budget

    def _check_schema(self, schema: Schema) -> None:
        cells = sum(a.extended_size * b.extended_size for a, b in combinations(schema, 2))
        if cells > self._most_cells:
            raise ParameterError(
                f"all pairs of attributes have {cells:,} cells, more than the {self._most_cells:,} "
                "that are learned together; use fewer attributes, bins or levels, or MST"
            )

    def split(self, schema: Schema) -> list[Part]:
        """Return the parts of the budget of a fit; see :meth:`Synthesizer.split`.

        Behind the gate of complete rows is all but the number of rows. Of observed rows, each
        margin is behind its attribute. All pairs are released at once, in one answer that every row
        enters, whatever its holes.
        """
        share = self._count_share(schema)
        parts = imputation_parts(
            self._filled_gates(schema),
            self.imputer,
            self.imputer_share,
            attributes=len(schema),
            pure=False,
        )
        parts += [Part(ROWS, share)] if share else []
        alone = len(schema) == 1
        singles = self._gates([(name,) for name in schema.names], schema)
        parts.append(Part(MARGINS, 1.0 if alone else self._margins_share, singles))
        return parts if alone else [*parts, *self._split_rest(schema)]

    def _split_rest(self, schema: Schema) -> list[Part]:
        """Return the parts of what margins leave."""
        steps, gates = self._steps_planned, self._gates([()], schema)
        if steps:
            return [Part("training", 1.0, gates, kind="training", count=steps)]
        return [Part(_PAIRS, 1.0, gates, kind="other")]

    def _reads(self, schema: Schema) -> Reads:  # noqa: ARG002
        return "rows" if self._steps_planned else "weights"

    @property
    def _most_cells(self) -> int:
        """Most cells of all pairs together."""
        return _MOST_TRAINED if self._steps_planned else RowProducts.most

    @property
    def _steps_planned(self) -> int:
        """Number of steps of private training: 0 if nothing is trained step by step."""
        return 0

    @property
    def _batch(self) -> int:
        """Number of rows that a step of training is expected to read."""
        return 0

    @property
    def _budget(self) -> Budget:
        if not self._steps_planned:
            delta = self._delta_to_spend
            return Budget(self.epsilon, delta, schedule="adaptive", currency="gdp")
        rate = _NOMINAL_RATE
        if is_declared(self.n_rows):
            rate = min(1.0, self._batch / max(1, int(self.n_rows)))
        steps = self._steps_planned  # the Rényi order is the one that suits so much training
        delta = self._delta_to_spend
        cost = Training.cost(float(self.epsilon), delta, rate=rate, steps=steps)
        return Budget.from_cost(cost, delta=delta)

    def _check_training(self, **given: int | None) -> None:
        for name, value in given.items():
            if value is not None and not (is_whole(value) and 1 <= value <= _MOST_STEPS):
                raise ParameterError(f"{name} must be a whole number from 1 to {_MOST_STEPS:,}")

    @property
    def _margins_share(self) -> float:
        usual = _TRAINED_FIRST_SHARE if self._steps_planned else _FIRST_SHARE
        return usual if self.first_share is None else self.first_share

    def _count_share(self, schema: Schema) -> float:
        """Share of the budget for the number of rows: none where all margins tell it; public."""
        strategy = self._strategy
        told = strategy.fills or all(strategy.tells_total((a.name,), schema) for a in schema)
        return 0.0 if told or is_declared(self.n_rows) else _COUNT_SHARE

    def _opened_rows(self, door: Door) -> tuple[Door, Total | None]:
        """Return a door to the rows that are modelled, and their number if it is released first."""
        self._report("preparing", 0.0)
        total = self._released_count(door)
        return impute(door, self.imputer, cost=self._split.cost(IMPUTATION)), total

    def _crude(self, door: Door, total: Total | None) -> Crude:
        """Release the one-way margins."""
        self._report("measuring single attributes", 0.05)
        return crude_margins(door, self._split.noise(MARGINS), self._zeros(door.schema), total)

    def _all_pairs(self, door: Door, crude: Crude) -> PairRelease:
        """Release all pairs at once, with all that is left of the budget."""
        self._report("measuring all pairs", 0.1)
        return release_pairs(door, crude, clip=self.clip, cost=self._for_pairs(door))

    def _for_pairs(self, door: Door) -> Cost:
        """Return what all pairs may cost: no more than their part, if there are caps."""
        part = self._split.cost(_PAIRS)
        if self._caps_of_fit() is None or door.left.amount < part.amount:
            return door.left
        return part

    def _allowed(self, crude: Crude) -> dict[Pair, NDArray[np.bool_]]:
        """Possible cells of pairs by rules, on groups of levels."""
        return crude.allowed(self._zeros(self.modelled_))

    def _never_missing(self, crude: Crude) -> dict[int, int]:
        """By attribute, a group of levels that is never missing."""
        return crude.always(self._modelled.never_missing)

    def _counted(self, door: Door, crude: Crude, total: Total | None) -> Total:
        """Return the number of all rows, as far as it was released."""
        return total if door.strategy.complete_only and total is not None else crude.total

    def _zeros(self, schema: Schema) -> Zeros:
        """Impossible cells of pairs, by rules; rows that break other rules are drawn again."""
        return impossible_pairs(self._modelled.impossible, schema.names)

    def _draws_schema(self) -> bool:
        return [len(level.groups) for level in self.model_.levels] == [
            attribute.size for attribute in self.modelled_
        ]

    def _sample(
        self, n: int, missing_values: MissingValues, rng: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        codes = self.model_.sample(n, rng, keep_holes=missing_values == "keep")
        return dict(zip(self.modelled_.names, codes, strict=True))


@dataclass(kw_only=True, eq=False, repr=False)
class AllPairs(PairsSynthesizer):
    """Synthetic tables from one noisy release of all pairs of attributes, holes included.

    Gaussian releases, whose scales are fixed in advance: one-way margins with a small share of the
    budget, which cells are missing together, and then all two-way tables at once, as sums over rows
    of products of centred indicators. Centring by the margins makes the vector of a row short, and
    one clip norm for the whole vector makes all pairs cost no more than a few. Nothing is selected,
    so nothing is spent on selecting, and no pair is left out. Where attributes are ordered,
    dependence is leaned on what is smooth in their ranks, by empirical Bayes: trends survive noise
    that hides single cells. A model that can hold all pairs is fitted to the tables, and its rows
    are drawn. Accounted in Gaussian DP, add-remove adjacency.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta must be above 0.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        ``"joint"`` releases, beside the tables of the observed cells, how holes of one attribute
        go with the levels and the holes of every other, models what goes missing given the row,
        and weights observed tables by their chance of being observed.  It corrects for missingness
        that depends on observed attributes one by one.  ``"observed"`` takes the rows observed on a
        pair for all rows.  ``"complete-rows"`` drops incomplete rows.  ``"impute-first"`` fills
        holes privately before learning.
    clip : "auto" or float, default "auto"
        L2 norm to which the vector of each row is clipped.  ``"auto"`` follows from the released
        margins and number of rows, epsilon and delta.
    first_share : float from 0.0001 to 0.99, optional
        Share of the budget for the one-way margins, by default 0.08.
    workload : int, names or weights, default 2
        As `AIM` takes it. All pairs come out right anyway; marginals of three or four attributes
        that are named here, 50 at most, are measured besides, with 12 % of what margins leave of
        the budget, by their weights.
    top_up : bool, default True
        Whether anything is measured beside margins and all pairs; if not, the workload may only
        have pairs.
    imputer : {"marginal", "pairs", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget (mu squared).

    Attributes
    ----------
    model_ : PairModel
        The released model.

    References
    ----------
    Dong, Roth, Su (2022), "Gaussian differential privacy", JRSS B 84(1), for the accounting.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 50, "ill": ["yes", "no", "no"] * 50})
    >>> model = AllPairs(epsilon=1.0, delta=1e-6).fit(people, schema=schema)
    >>> model.sample(4).shape
    (4, 2)
    >>> model.guarantee_.epsilon, model.guarantee_.delta
    (1.0, 1e-06)
    """

    workload: Workload = 2
    top_up: bool = True

    protects_units: ClassVar[bool] = True
    strategies: ClassVar[tuple[str, ...]] = ("joint", "observed", "complete-rows", "impute-first")

    retired: ClassVar[tuple[str, ...]] = ("base",)
    released: ClassVar[tuple[str, ...]] = ("model_", "pairs_")
    model_: PairModel = field(init=False)
    pairs_: PairRelease | None = field(init=False)  # none in files of earlier versions
    _draws: Draws = field(default="even", init=False)

    def _check_parameters(self) -> Budget:
        if not isinstance(self.top_up, bool):
            raise ParameterError("top_up must be True or False")
        return super()._check_parameters()

    def _fit(self, door: Door) -> Total:
        door, total = self._opened_rows(door)
        crude = self._crude(door, total)
        tables, stds = _release_top_up(door, crude, self._named(self._planned), self._split)
        masks, masks_std = self._masks(door, crude)
        self.pairs_ = replace(
            self._all_pairs(door, crude),
            together=tables,
            together_stds=stds,
            masks=masks,
            masks_std=masks_std,
        )
        self._report("fitting", 0.3)
        self.model_ = fit_pairs(
            self.pairs_,
            selective=door.strategy.models_holes,
            always=self._never_missing(crude),
            told=self._modelled.told,
            allowed=self._allowed(crude),
            rng=door.generator(),
            ordered=self._ordered(crude),
        )
        self.pairs_ = self.pairs_.settled(self.model_, door.generator())
        numbers = dict(zip(door.schema.names, self.pairs_.numbers, strict=False))
        self._settle(with_shares(self.schema_, numbers))
        self._report("done", 1.0)
        return self._counted(door, crude, total)

    def _named(self, schema: Schema) -> dict[Clique, float]:
        """Tables that are measured beside all pairs, by weight; public."""
        return _named_tables(self.workload, schema, measured=self.top_up)

    def _split_rest(self, schema: Schema) -> list[Part]:
        named, rest = self._named(schema), super()._split_rest(schema)
        if self._strategy.models_holes and (masks := math.comb(len(schema.nullable), 2)):
            rest = [Part(MASKS, MASKS_SHARE, self._gates([()], schema), count=masks), *rest]
        if not named:
            return rest
        gates = self._gates([[schema.names[a] for a in clique] for clique in named], schema)
        return [Part(TOP_UP, TOP_UP_SHARE, gates, weights=tuple(named.values())), *rest]

    def _masks(self, door: Door, crude: Crude) -> tuple[dict[Pair, Floats], float]:
        """Release which cells are missing together, where noise leaves something to be seen."""
        if MASKS not in self._split:
            return {}, 0.0
        missing = (1 - crude.observed) * crude.rows
        most = np.argsort(-missing)[:_MOST_HOLED]
        pairs = [*combinations(sorted(most[missing[most] > _SEEN * crude.std].tolist()), 2)]
        apart = {a.name: np.zeros(a.size, dtype=np.int64) for a in door.schema}
        cost = self._split.cost(MASKS)
        found = release_masks(door, pairs, apart, cost=cost, rows=crude.rows)
        if found is None:
            return {}, 0.0
        return {p: t.astype(np.float64) for p, t in zip(pairs, found[0], strict=True)}, found[1].std

    def _all_pairs(self, door: Door, crude: Crude) -> PairRelease:
        self._report("measuring all pairs", 0.1)
        numbers = coordinates(self.schema_, door.schema.names, crude.levels, crude.margins)
        return release_pairs(
            door, crude, clip=self.clip, numbers=numbers, cost=self._for_pairs(door)
        )

    def _ordered(self, crude: Crude) -> list[bool]:
        """Whether the levels of each attribute have an order, and none are merged."""
        return [
            isinstance(attribute, (Numeric, Ordinal)) and level.n_groups == attribute.size
            for attribute, level in zip(self.modelled_, crude.levels, strict=True)
        ]

    def _uncertain(self, multiple: int, rng: np.random.Generator) -> Iterator[Self]:
        if self.missing == "impute-first":
            raise ParameterError(
                "missing='impute-first' fills values before anything is counted, and tables cannot "
                "vary by what that leaves unknown; fit with missing='joint'"
            )
        if self.pairs_ is None:
            raise ParameterError(
                "the model was saved by an earlier version of missdp, which kept nothing that "
                "'multiple' could vary: fit it again, or leave 'multiple' out"
            )
        crude = self.pairs_.crude
        varied = varied_pairs(
            self.pairs_,
            self.model_,
            rng,
            selective=self._strategy.models_holes,
            always=self._never_missing(crude),
            told=self._modelled.told,
            allowed=self._allowed(crude),
            ordered=self._ordered(crude),
            design=self._design,
        )
        return map(self._with_model, islice(varied, multiple))

    def _with_model(self, model: PairModel) -> Self:
        another = copy.copy(self)
        another.model_ = model
        another._draws = "independent"  # combining takes the variance of real samples for given
        return another

    def _sample(
        self, n: int, missing_values: MissingValues, rng: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        codes = self.model_.sample(n, rng, keep_holes=missing_values == "keep", draws=self._draws)
        return dict(zip(self.modelled_.names, codes, strict=True))


TOP_UP = "tables of the workload"
"""Name of the part of a budget."""

TOP_UP_SHARE = 0.12
"""Share of what margins leave of the budget, for all tables together."""

_MOST = 100  # tables: with more, each is noise


def _named_tables(workload: Workload, schema: Schema, *, measured: bool) -> dict[Clique, float]:
    """Return the tables of a workload that all pairs do not tell, with weights, or refuse it."""
    wanted = {c: w for c, w in named_marginals(workload, schema).items() if len(c) > 2}
    if wanted and not measured:
        raise ParameterError(
            "the workload has marginals of three attributes or more, which are measured by the "
            "top-up: leave top_up=True, or name pairs only"
        )
    if len(wanted) > _MOST:
        raise ParameterError(
            f"the workload has {len(wanted):,} marginals of three attributes or more; name "
            f"{_MOST} at most, or use AIM"
        )
    for names in ([schema.names[a] for a in clique] for clique in wanted):
        if math.prod(schema[name].extended_size for name in names) > MAX_CELLS:
            raise ParameterError(
                f"the workload's marginal of {', '.join(names)} has more than {MAX_CELLS:,} cells"
            )
    return wanted


def _release_top_up(
    door: Door, crude: Crude, tables: Mapping[Clique, float], split: Split
) -> tuple[dict[Clique, NDArray[np.float64]], dict[Clique, float]]:
    """Release tables, on groups of levels; with the noise of each count."""
    names, found, stds = door.schema.names, {}, {}
    if tables:
        door = door.merged(crude.groups(names))
        door.expect([tuple(names[a] for a in clique) for clique in tables])
        for clique, cost in zip(tables, split.costs(TOP_UP), strict=True):
            noise = Noise.worth(cost)
            counts = door.marginal(tuple(names[a] for a in clique), noise)
            found[clique], stds[clique] = counts.astype(np.float64), noise.scale
    return found, stds
