"""The Kamino synthesizer: attribute by attribute, under constraints between rows."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np

from missdp.accounting import Budget
from missdp.baselines.leaning import leaned
from missdp.baselines.placing import Rows, placed, redrawn
from missdp.baselines.trained import train_heads
from missdp.errors import ParameterError
from missdp.inference.masks import MaskModel
from missdp.inference.model import finite
from missdp.inference.pair_model import PairModel
from missdp.mechanisms.door import Door, Reads, Total
from missdp.schema import Schema
from missdp.schema.denial import PairDenial
from missdp.synth.all_pairs import PairsSynthesizer
from missdp.synth.learn_pairs import Crude, fit_pairs
from missdp.synth.split import Part

HeadsFrom: TypeAlias = Literal["moments", "sequential"]

_STEPS = 40  # of each head
_NOMINAL_HEADS = 10
_RATES = "rates of constraints"


@dataclass(kw_only=True, eq=False, repr=False)
class Kamino(PairsSynthesizer):
    """Synthetic tables drawn attribute by attribute, that obey constraints between rows.

    Every attribute has a head, a multinomial logistic regression on the earlier ones, and rows are
    drawn head by head. What a denial constraint of the schema forbids between two rows does not
    occur between synthetic rows; one that holds mostly occurs about as often as it was released
    to. Accounted in Gaussian DP or, for heads trained on rows, in Rényi DP; add-remove adjacency.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta must be above 0.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` (KaminoI) learns a head from the rows in which its attribute is observed, and
        fills in what they lack of its context by the earlier heads, or counts it as 0.
        ``"complete-rows"`` drops incomplete rows. ``"impute-first"`` fills missing cells privately
        before.
    heads : {"moments", "sequential"}, default "moments"
        What heads are learned from. ``"moments"``: one noisy release of all pairs of attributes,
        to which rows are raked as well (that of `AllPairs`). ``"sequential"``: noisy gradients of
        one head after the other, as in the original; rows without its attribute are not read,
        which amplifies the guarantee for the ground truth, and noise is larger.
    steps : int, optional
        Steps of training of each head, by default 40.
    batch : int, default 2048
        Table that a step of training is expected to read.
    pair_share : float in (0, 1), default 0.02
        Share of the budget for each constraint that holds mostly.
    clip : "auto" or float, default "auto"
        For ``"moments"``: L2 norm to which the vector of each row is clipped.
    first_share : float in (0, 1), optional
        Share of the budget for the one-way margins, at which all heads start: by default 0.08, or
        0.15 if heads are trained, which leaves margins as they are.
    imputer : {"marginal", "pairs", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget.

    Attributes
    ----------
    model_ : PairModel
        The released model.
    pair_rates_ : dict of str to (float, float)
        For each constraint that holds mostly, the released share of the pairs of rows that violate
        it, and the standard deviation of its noise.

    References
    ----------
    Ge, Mohapatra, He, Ilyas (2021), "Kamino: constraint-aware differentially private data
    synthesis", PVLDB 14(10); Mohapatra et al. (2024) for ``"observed"``. Both publications account
    for less than they release; see ``docs/families.md``.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Kamino, Schema
    >>> from missdp.schema import Denial
    >>> schema = Schema(
    ...     (
    ...         Categorical(name="town", levels=("Bonn", "Köln", "Ulm"), nullable=True),
    ...         Categorical(name="state", levels=("BW", "NW")),
    ...     ),
    ...     rules=(Denial("t1&t2&EQ(t1.town,t2.town)&IQ(t1.state,t2.state)"),),
    ... )
    >>> town, state = ["Bonn", "Köln", None, "Ulm"] * 50, ["NW", "NW", "NW", "BW"] * 50
    >>> people = pd.DataFrame({"town": town, "state": state})
    >>> rows = Kamino(epsilon=1.0).fit(people, schema=schema).sample()
    >>> int(rows.groupby("town", observed=True)["state"].nunique().max())
    1
    """

    strategies: ClassVar[tuple[str, ...]] = ("observed", "complete-rows", "impute-first")

    missing: str = "observed"
    heads: HeadsFrom = "moments"
    steps: int | None = None
    batch: int = 2048
    pair_share: float = 0.02

    released: ClassVar[tuple[str, ...]] = ("model_", "pair_rates_")
    fixed_gates: ClassVar[bool] = True
    model_: PairModel = field(init=False)
    pair_rates_: dict[str, tuple[float, float]] = field(init=False)

    def _check_parameters(self) -> Budget:
        if not (isinstance(self.heads, str) and self.heads in get_args(HeadsFrom)):
            raise ParameterError(f"heads must be one of {list(get_args(HeadsFrom))}")
        self._check_training(steps=self.steps, batch=self.batch)
        self._check_share("pair_share")
        return super()._check_parameters()

    def _check_schema(self, schema: Schema) -> None:
        soft = len(self._denials("mostly"))
        if soft * self.pair_share >= 0.5:
            raise ParameterError(
                f"{soft} constraints that hold mostly would take half of the budget or more; lower "
                "pair_share"
            )
        super()._check_schema(schema)

    @property
    def _trained(self) -> bool:
        return self.heads != "moments"

    @property
    def _steps_planned(self) -> int:
        return self._steps * _NOMINAL_HEADS * self._trained

    @property
    def _batch(self) -> int:
        return int(self.batch)

    def _reads(self, schema: Schema) -> Reads:
        soft = any(denial.holds == "mostly" for denial in schema.rulebook.pairs)
        return "rows" if soft else super()._reads(schema)

    def _split_rest(self, schema: Schema) -> list[Part]:
        """Heads that are trained alone share evenly what is left; the first attribute has none."""
        soft, rest = len(self._denials("mostly")), super()._split_rest(schema)
        if self._trained:
            order = _drawing_order(schema, self.schema_.rulebook.pairs)
            heads = self._gates([(schema.names[a],) for a in order[1:]], schema)
            rest = [Part("heads", 1.0, heads, kind="other")]
        every_row = self._gates([()], schema) * soft
        return [Part(_RATES, soft * self.pair_share, every_row, count=2), *rest] if soft else rest

    @property
    def _steps(self) -> int:
        return _STEPS if self.steps is None else int(self.steps)

    def _denials(self, holds: str) -> list[PairDenial]:
        return [d for d in self.schema_.rulebook.pairs if d.holds == holds]

    def _fit(self, door: Door) -> Total:
        door, total = self._opened_rows(door)
        crude = self._crude(door, total)
        self.pair_rates_ = self._released_rates(door)
        order = _drawing_order(self._planned, self.schema_.rulebook.pairs)
        fitted = self._train if self._trained else self._fit_moments
        self.model_ = fitted(door, crude, order)
        self._report("done", 1.0)
        return self._counted(door, crude, total)

    def _released_rates(self, door: Door) -> dict[str, tuple[float, float]]:
        """Release how often two rows violate each constraint that holds mostly."""
        costs, found = self._split.costs(_RATES), {}
        for denial, cost in zip(self._denials("mostly"), costs, strict=True):
            rate = door.pair_rate(denial, cost)
            found[denial.text] = (rate.rate, rate.std)
        return found

    def _fit_moments(self, door: Door, crude: Crude, order: tuple[int, ...]) -> PairModel:
        release = self._all_pairs(door, crude)
        self._report("fitting", 0.3)
        return fit_pairs(
            release,
            order=order,
            selective=False,
            always=self._never_missing(crude),
            told=self._modelled.told,
            allowed=self._allowed(crude),
            rng=door.generator(),
        )

    def _train(self, door: Door, crude: Crude, order: tuple[int, ...]) -> PairModel:
        self._report("training", 0.1)
        law = train_heads(
            door.merged(crude.groups(door.schema.names)),
            crude,
            order,
            steps=self._steps,
            batch=self._batch,
            report=lambda done: self._report("training", 0.1 + 0.8 * done),
        )
        law = replace(law, allowed=self._allowed(crude))
        rates = np.clip(1 - crude.observed, 0.0, 1.0)
        masks = MaskModel(rates, self._never_missing(crude), told=self._modelled.told)
        return PairModel(crude.levels, law, {}, masks, crude.rows)

    def _draws_schema(self) -> bool:
        named = {*self.pair_rates_} == {denial.text for denial in self._denials("mostly")}
        return (
            super()._draws_schema() and named and finite(map(np.array, self.pair_rates_.values()))
        )

    def draws_together(self, schema: Schema) -> bool:
        """Whether all rows are drawn at once: where constraints compare two of them."""
        return bool(schema.rulebook.pairs)

    def _finished(self, table: Rows, rng: np.random.Generator) -> Rows:
        """Return rows between which constraints hold."""
        soft, hard = self._denials("mostly"), self._denials("always")
        order = [self.modelled_.names[a] for a in self.model_.law.order]
        again = self._redrawn if self._modelled.plain_rows else None
        if soft:
            rates = [self.pair_rates_[denial.text] for denial in soft]
            table = leaned(table, soft, rates, rng, redraw=again, order=order)
        if hard:
            table = placed(table, hard, rng, redraw=again, order=order)
        return table

    def _redrawn(self, rows: Rows, names: tuple[str, ...], rng: np.random.Generator) -> Rows:
        return redrawn(self.model_.law, self.model_.levels, rows, names, rng)


def _drawing_order(schema: Schema, denials: Iterable[PairDenial]) -> tuple[int, ...]:
    """Return the positions of the attributes in the order in which they are drawn.

    Few levels come first, as they tell most for the least noise; but what a functional dependency
    determines comes after all that determines it, as far as dependencies do not go in circles.

    Examples
    --------
    >>> from missdp.schema import Categorical, Denial
    >>> schema = Schema(
    ...     (
    ...         Categorical(name="city", levels=("Bonn", "Köln")),
    ...         Categorical(name="zip", levels=("53111", "50667", "50668")),
    ...     ),
    ...     rules=(Denial("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)"),),
    ... )
    >>> _drawing_order(schema, ()), _drawing_order(schema, schema.rulebook.pairs)
    ((0, 1), (1, 0))
    """
    place = {name: i for i, name in enumerate(schema.names)}
    waits: list[set[int]] = [set() for _ in place]
    for denial in denials:
        known = denial.dependency if denial.holds == "always" else None
        if known is not None and place.keys() >= {*known[0], known[1]}:
            waits[place[known[1]]] |= {place[name] for name in known[0]}
    left = {a: (attribute.size, a) for a, attribute in enumerate(schema)}
    order: list[int] = []
    while left:
        free = [left[a] for a in left if not waits[a] & left.keys()]
        _, a = heapq.nsmallest(1, free or left.values())[0]
        order.append(a)
        del left[a]
    return tuple(order)
