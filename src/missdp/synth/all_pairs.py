"""All pairs of attributes from one noisy release: AllPairs, and what other families build on.

Tables of three attributes and more that a workload names are measured beside them. A workload is a
parameter, so that data do not choose which of these tables are measured, nor their noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost, Filter
from missdp.errors import ParameterError
from missdp.inference.completion import ModelFacts
from missdp.inference.heads import Pair
from missdp.inference.model import Draws, Levels
from missdp.inference.models import PairModel, RowModel
from missdp.schema import Schema
from missdp.session import Marginal, Merged, Noise, Reads, RowProducts, Session, Total
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
    OneWayMarginals,
    PairRelease,
    fit_pairs,
    impossible_pairs,
    measure_one_way,
    model_facts,
    release_pairs,
)
from missdp.synth.noisy_counts import MASKS_SHARE, release_masks
from missdp.synth.relation_noise import PairNoise
from missdp.synth.split import MARGINS, MASKS, ROWS, Part, Split
from missdp.synth.state import is_declared, is_number
from missdp.synth.uncertain import varied
from missdp.synth.workload import MAX_CELLS, Workload, named_marginals
from missdp.types import Clique, Floats

_PAIRS = "all pairs"
_SEEN = 3.0  # standard deviations of noise, below which masks are not looked at
_MOST_HOLED = 32  # attributes with the most missing cells, of which pairs are counted
_FIRST_SHARE = 0.08
_COUNT_SHARE = 0.02  # of the budget, for the number of rows, where margins do not tell it
_CLIPS = (2.0**-10, 2.0**20)


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

    def _check_parameters(self) -> Filter:
        if self.delta == 0:  # a budget in Gaussian DP would be empty
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
        parts = imputation_parts(self._filled_gates(schema), self.imputer, self.imputer_share)
        parts += [Part(ROWS, share)] if share else []
        alone = len(schema) == 1
        singles = self._gates([(name,) for name in schema.names], schema)
        parts.append(Part(MARGINS, 1.0 if alone else self._margins_share, singles))
        return parts if alone else [*parts, *self._split_rest(schema)]

    def _split_rest(self, schema: Schema) -> list[Part]:
        """Return the parts of what margins leave."""
        return [Part(_PAIRS, 1.0, self._gates([()], schema), kind="other")]

    def _reads(self, schema: Schema) -> Reads:  # noqa: ARG002
        return "weights"

    @property
    def _most_cells(self) -> int:
        """Most cells of all pairs together."""
        return RowProducts.most

    @property
    def _budget(self) -> Filter:
        delta = self._delta_to_spend
        return Filter(self.epsilon, delta, measure="gdp")

    @property
    def _margins_share(self) -> float:
        return _FIRST_SHARE if self.first_share is None else self.first_share

    def _count_share(self, schema: Schema) -> float:
        """Share of the budget for the number of rows: none where all margins tell it; public."""
        strategy = self._strategy
        told = strategy.fills or all(strategy.tells_total((a.name,), schema) for a in schema)
        return 0.0 if told or is_declared(self.n_rows) else _COUNT_SHARE

    def _opened_rows(self, session: Session) -> tuple[Session, Total | None]:
        """Return a session on the rows to be modelled, and their number if it is released first."""
        self._report("preparing", 0.0)
        total = self._released_count(session)
        return impute(session, self.imputer, cost=self._split.cost(IMPUTATION)), total

    def _one_way(self, session: Session, total: Total | None) -> OneWayMarginals:
        """Release the one-way margins."""
        self._report("measuring single attributes", 0.05)
        # Rows that break rules of more attributes are drawn again.
        zeros = impossible_pairs(self._modelled.impossible, session.facts.schema.names)
        return measure_one_way(session, self._split.noise(MARGINS), zeros, total)

    def _all_pairs(self, session: Session, one_way: OneWayMarginals) -> PairRelease:
        """Release all pairs at once, with all that is left of the budget."""
        self._report("measuring all pairs", 0.1)
        return release_pairs(session, one_way, clip=self.clip, cost=self._for_pairs(session))

    def _for_pairs(self, session: Session) -> Cost:
        """Return what all pairs may cost: no more than their part, if there are caps."""
        part = self._split.cost(_PAIRS)
        if self._caps_of_fit() is None or session.left.amount < part.amount:
            return session.left
        return part

    def _model_facts(self, levels: Sequence[Levels], *, selective: bool) -> ModelFacts:
        """Public facts about complete rows, on groups of levels."""
        return model_facts(self._modelled, self.modelled_, levels, selective=selective)

    def _counted(self, session: Session, one_way: OneWayMarginals, total: Total | None) -> Total:
        """Return the number of all rows, as far as it was released."""
        if not session.facts.strategy.complete_only:
            return one_way.total
        self._complete_rows = one_way.total
        return one_way.total if total is None else total

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

    One-way margins are released first, with a small share of the budget, and which cells are
    missing together. Then all two-way tables are released at once. A row is the vector v of the
    products, over all pairs of attributes, of its centred indicators. If v is longer than ``clip``,
    it is scaled to that norm. The vectors of all rows are added up, and every coordinate gets
    Gaussian noise for the sensitivity ``clip``. Centring by the released margins makes v short: a
    row that is like most others moves hardly any sum. So all pairs together cost what a few tables
    of counts would. Nothing is selected, and no pair is left out.

    What clipping took is put back by the rows of a model, which is fitted to the tables in turns.
    Where attributes are ordered, dependence is shrunk to what is smooth in their ranks, by
    empirical Bayes: trends survive noise that hides single cells. Accounted in Gaussian DP,
    add-remove adjacency.

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
        that are named here, 100 at most, are measured besides, with 12 % of what margins leave of
        the budget, by their weights.
    top_up : bool, default True
        Whether marginals of three or four attributes may be measured; if not, the workload may only
        have pairs.
    imputer : {"marginal", "random", "mean"}, default "marginal"
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

    _rivals: ClassVar[tuple[str, ...]] = ("AIM (--method aim)",)

    released: ClassVar[tuple[str, ...]] = ("model_", "tables_")
    model_: PairModel = field(init=False)
    tables_: PairRelease = field(init=False)
    _draws: Draws = field(default="even", init=False)

    def _check_parameters(self) -> Filter:
        if not isinstance(self.top_up, bool):
            raise ParameterError("top_up must be True or False")
        return super()._check_parameters()

    def _fit(self, session: Session) -> Total:
        session, total = self._opened_rows(session)
        one_way = self._one_way(session, total)
        tables, stds = _release_top_up(session, one_way, self._named(self._planned), self._split)
        masks, masks_std = self._masks(session, one_way)
        self.tables_ = replace(
            self._all_pairs(session, one_way),
            together=tables,
            together_stds=stds,
            masks=masks,
            masks_std=masks_std,
        )
        self._report("fitting", 0.3)
        self.model_ = fit_pairs(
            self.tables_,
            self._model_facts(one_way.levels, selective=session.facts.strategy.models_holes),
            rng=session.generator(),
        )
        self.tables_ = self.tables_.settled(self.model_, session.generator())
        numbers = dict(zip(session.facts.schema.names, self.tables_.numbers, strict=False))
        self._settle(with_shares(self.schema_, numbers))
        self._report("done", 1.0)
        return self._counted(session, one_way, total)

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

    def _masks(
        self, session: Session, one_way: OneWayMarginals
    ) -> tuple[dict[Pair, Floats], float]:
        """Release which cells are missing together, where noise leaves something to be seen."""
        if MASKS not in self._split:
            return {}, 0.0
        missing = (1 - one_way.observed) * one_way.rows
        most = np.argsort(-missing)[:_MOST_HOLED]
        pairs = [*combinations(sorted(most[missing[most] > _SEEN * one_way.std].tolist()), 2)]
        apart = {a.name: np.zeros(a.size, dtype=np.int64) for a in session.facts.schema}
        cost = self._split.cost(MASKS)
        found = release_masks(session, pairs, apart, cost=cost, rows=one_way.rows)
        if found is None:
            return {}, 0.0
        return {p: t.astype(np.float64) for p, t in zip(pairs, found[0], strict=True)}, found[1].std

    def _all_pairs(self, session: Session, one_way: OneWayMarginals) -> PairRelease:
        self._report("measuring all pairs", 0.1)
        numbers = coordinates(
            self.schema_, session.facts.schema.names, one_way.levels, one_way.margins
        )
        return release_pairs(
            session, one_way, clip=self.clip, numbers=numbers, cost=self._for_pairs(session)
        )

    def _relation_noise(self) -> PairNoise:
        return PairNoise.of_tables(self.tables_.guessed())

    def _uncertain(self, multiple: int, rng: np.random.Generator) -> Iterator[Self]:
        facts = self._model_facts(self.tables_.levels, selective=self._strategy.models_holes)
        return varied(self, self.tables_, facts, multiple, rng)

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
    session: Session, one_way: OneWayMarginals, tables: Mapping[Clique, float], split: Split
) -> tuple[dict[Clique, NDArray[np.float64]], dict[Clique, float]]:
    """Release tables, on groups of levels; with the noise of each count."""
    names, found, stds = session.facts.schema.names, {}, {}
    if tables:
        session = session.on(Merged(one_way.groups(names)))
        session.expect(Marginal(tuple(names[a] for a in clique)) for clique in tables)
        for clique, cost in zip(tables, split.costs(TOP_UP), strict=True):
            noise = Noise.worth(cost)
            counts = session.measure(Marginal(tuple(names[a] for a in clique)), noise).value
            found[clique], stds[clique] = counts.astype(np.float64), noise.std
    return found, stds
