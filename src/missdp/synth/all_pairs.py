"""The AllPairs synthesizer: one release of all pairs of attributes, and rows that hold them."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Budget, Cost
from missdp.errors import MissDPWarning, ParameterError
from missdp.inference.clipping import clip_norm
from missdp.inference.model import Draws, Zeros, merge_zeros
from missdp.inference.pair_model import Base, PairModel
from missdp.mechanisms.door import Door, Noise, RowProducts, Total
from missdp.schema import Schema
from missdp.synth.base import MissingValues, Synthesizer
from missdp.synth.learn_pairs import Crude, PairRelease, blocks, crude_margins, fit_pairs
from missdp.synth.noisy_counts import Imputer, check_imputer, imputation_noise, impute
from missdp.synth.restore import kinds_share
from missdp.synth.state import is_declared, is_number

__all__ = ["AllPairs"]

_ALONE = 1.6
_COUNT_SHARE = 0.02  # of the budget, for the number of rows, where margins do not tell it
_CLIPS = (2.0**-10, 2.0**20)


@dataclass(kw_only=True, eq=False, repr=False)
class AllPairs(Synthesizer):
    """Synthetic tables from one noisy release of all pairs of attributes, holes included.

    Two Gaussian releases, whose scales are fixed in advance: one-way margins with a small share of
    the budget, and then all two-way tables at once, as sums over rows of products of centred
    indicators.  Centring by the margins makes the vector of a row short, and one clip norm for the
    whole vector makes all pairs cost no more than a few.  Nothing is selected, so nothing is spent
    on selecting, and no pair is left out.  A model that can hold all pairs is fitted to the tables,
    and its rows are drawn.  Accounted in Gaussian DP, add-remove adjacency.

    Parameters
    ----------
    epsilon : float
        Budget of the whole fit.
    delta : float, optional
        Above 0. By default 1e-6, or 1 / (100 n) if n rows are declared and that is smaller.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        ``"joint"`` releases, beside the tables of the observed cells, how holes of one attribute
        go with the levels and the holes of every other, models what goes missing given the row,
        and weights observed tables by their chance of being observed.  It corrects for missingness
        that depends on observed attributes one by one.  ``"observed"`` takes the rows observed on a
        pair for all rows.  ``"complete-rows"`` drops incomplete rows.  ``"impute-first"`` fills
        holes privately before learning.
    base : {"heads", "tree"}, default "heads"
        How rows are drawn: by a regression of each attribute on the earlier ones, fitted to all
        pairs; or, quicker and less accurate, along a spanning tree, and raked to all pairs.
    clip : "auto" or float, default "auto"
        L2 norm to which the vector of each row is clipped.  ``"auto"`` follows from the released
        margins and number of rows, epsilon and delta.
    first_share : float in (0, 1), default 0.08
        Share of the budget for the one-way margins.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget (mu squared).
    n_rows, random_state, budget
        See :class:`~missdp.synth.base.Synthesizer`.
    progress : callable, optional
        Called with a stage name and the share of the work done; shows nothing private.

    Attributes
    ----------
    guarantee_ : Guarantee
        Computed from what was released.
    model_ : PairModel
        The released model.
    n_rows_, n_rows_std_ : int, float
        Released number of rows, from all margins that tell it, with the standard deviation of its
        noise; or the declared number and 0.

    References
    ----------
    Dong, Roth, Su (2022), "Gaussian differential privacy", JRSS B 84(1), for the accounting.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> from missdp.synth import AllPairs
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

    strategies: ClassVar[tuple[str, ...]] = ("joint", "observed", "complete-rows", "impute-first")

    base: Base = "heads"
    clip: float | Literal["auto"] = "auto"
    first_share: float = 0.08
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1

    weighs_rows: ClassVar[bool] = True
    released: ClassVar[tuple[str, ...]] = ("model_",)
    model_: PairModel = field(init=False)
    _draws: Draws = field(default="even", init=False)
    _with_holes: bool = field(default=False, init=False)

    def _check_parameters(self) -> Budget:
        super()._check_parameters()
        if self._delta == 0:
            raise ParameterError(
                "delta must be above 0: the noise is Gaussian. PrivBayes offers pure DP"
            )
        check_imputer(self.imputer)
        for name in ("imputer_share", "first_share"):
            self._check_share(name)
        if not (isinstance(self.base, str) and self.base in get_args(Base)):
            raise ParameterError(f"base must be one of {list(get_args(Base))}")
        given = is_number(self.clip) and _CLIPS[0] <= self.clip <= _CLIPS[1]
        if not (given or (isinstance(self.clip, str) and self.clip == "auto")):
            raise ParameterError("clip must be 'auto' or a number from 2**-10 to 2**20")
        return self._budget

    def _check_schema(self, schema: Schema) -> None:
        cells = sum(a.extended_size * b.extended_size for a, b in combinations(schema, 2))
        if cells > RowProducts.most:
            raise ParameterError(
                f"all pairs of attributes have {cells:,} cells, more than the {RowProducts.most:,} "
                "that are released together; use fewer attributes, bins or levels, or MST"
            )
        shares = kinds_share(self._modelled, self._strategy)
        left, count = self._budget.left, self._count_share(schema)
        if count:
            Noise.worth(replace(left, amount=(1 - shares) * count * left.amount))
            shares += (1 - shares) * count
        if self._strategy.fills and imputation_noise(schema, self.imputer, self._imputation_cost):
            shares += self.imputer_share
        first = (1 - shares) * self.first_share / max(1, len(schema))
        Noise.worth(replace(left, amount=left.amount * first))

    @property
    def _budget(self) -> Budget:
        return Budget(self.epsilon, self._delta, schedule="adaptive", currency="gdp")

    @property
    def _imputation_cost(self) -> Cost:
        left = self._budget.left
        return replace(left, amount=left.amount * self.imputer_share)

    def _count_share(self, schema: Schema) -> float:
        """Share of the budget for the number of rows: none where all margins tell it; public."""
        strategy = self._strategy
        told = strategy.fills or all(strategy.tells_total((a.name,), schema) for a in schema)
        return 0.0 if told or is_declared(self.n_rows) else _COUNT_SHARE

    def _released_count(self, door: Door) -> Total | None:
        if is_declared(self.n_rows):
            return Total(int(self.n_rows), 0.0)
        share = self._count_share(door.schema)
        return door.row_count(Noise.worth(door.share(share))) if share else None

    def _fit(self, door: Door) -> Total:
        self._report("preparing", 0.0)
        total = self._released_count(door)
        door = impute(door, self.imputer, cost=self._imputation_cost)
        names, whole = door.schema.names, len(door.schema) == 1
        self._report("measuring single attributes", 0.05)
        share = 1.0 if whole else self.first_share
        noise = Noise.worth(door.share(share / len(names)))
        zeros = self._zeros(door.schema)
        crude = crude_margins(door, noise, zeros, total)
        self._report("measuring all pairs", 0.1)
        groups = {n: level.groups for n, level in zip(names, crude.levels, strict=True)}
        release = PairRelease(crude, None, None)
        if not whole:
            plan = self._plan_products(names, crude, door.left)
            release = PairRelease(crude, door.merged(groups).products(plan, door.left), plan)
        self._report("fitting", 0.3)
        never = merge_zeros(zeros, crude.levels)
        known = self._modelled.absent
        self.model_ = fit_pairs(
            release,
            base=self.base,
            selective=door.strategy.models_holes,
            always={v: int(crude.levels[v].groups[level]) for v, level in known.items()},
            allowed={(c[0], c[1]): ~table for c, table in never.items()},
            rng=door.generator(),
        )
        self._report("done", 1.0)
        if door.strategy.complete_only and total is not None:
            return total
        return crude.total

    def _plan_products(self, names: tuple[str, ...], crude: Crude, left: Cost) -> RowProducts:
        """Blocks of rows, and where their vectors are clipped; from released values."""
        parts = blocks(crude)
        clip = self.clip
        if clip == "auto":
            signal = crude.rows * math.sqrt(left.amount)
            clip = clip_norm(crude.margins, parts, signal, alone=_ALONE)
        by_name = dict(zip(names, parts, strict=True))
        return RowProducts(by_name, clip=clip, alone=_ALONE)

    def _zeros(self, schema: Schema) -> Zeros:
        """Impossible cells of pairs, by rules; rows that break other rules are drawn again."""
        place = {name: i for i, name in enumerate(schema.names)}
        found: Zeros = {}
        for names, table in self._modelled.impossible.items():
            if len(names) == 2:
                a, b = (place[name] for name in names)
                found[min(a, b), max(a, b)] = table if a < b else table.T
        return found

    def _uncertain(self, multiple: int, rng: np.random.Generator) -> Iterator[Self]:
        """Yield models fitted as this one was, to tables drawn from it as real rows are."""
        strategy = self._applied_strategy
        keep: MissingValues = "keep" if strategy.models_holes else "fill"
        rows = max(1, round(self.model_.n_rows))
        for _ in range(multiple):
            source = copy.copy(self)
            source._draws = "independent"
            # Each pair is counted where it is observed: no more rows than that speak for it.
            source._with_holes = not (strategy.complete_only or strategy.fills)
            seed = int(rng.integers(2**63))
            table = source.sample_table(rows, missing_values=keep, random_state=seed)
            parameters = self._fitted_with | {"random_state": int(rng.integers(2**31))}
            with warnings.catch_warnings():  # they would speak of a table that was made up
                warnings.simplefilter("ignore", MissDPWarning)
                again = type(self)(**parameters).fit(table)
            again.n_rows_, again.schema_, again.kind_ = self.n_rows_, self.schema_, self.kind_
            again._draws = "independent"  # combining takes the variance of real samples for given
            yield again

    def _sample(
        self, n: int, missing_values: MissingValues, rng: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        keep = self._with_holes or missing_values == "keep"
        codes = self.model_.sample(n, rng, keep_holes=keep, draws=self._draws)
        return dict(zip(self.modelled_.names, codes, strict=True))
