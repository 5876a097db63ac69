"""The PrivBayes synthesizer: a private Bayesian network, in pure differential privacy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Budget, Cost, PureEvent, scale_for, share_of
from missdp.accounting.exact import float_up
from missdp.baselines.learn_network import ROOM, Learner, Plan, check_degree, smallest_piece
from missdp.baselines.network import Network, fill_holes, fit_filling_model, observed_part
from missdp.baselines.restrict import restricted
from missdp.errors import ParameterError
from missdp.mechanisms.door import Door, Noise, Total
from missdp.schema import Schema
from missdp.synth.base import MissingValues, Synthesizer
from missdp.synth.caps import Gate
from missdp.synth.impute_first import (
    IMPUTATION,
    Imputer,
    check_imputer,
    imputation_parts,
    impute,
)
from missdp.synth.noisy_counts import least_squares_total
from missdp.synth.split import CHOICES, EVERY_ROW, ROWS, TABLES, Part, Split
from missdp.synth.state import is_declared, is_number, is_whole

_COMPLETE_COUNT_SHARE = 0.02
_ROW_COUNT_SHARE = 0.01  # where tables tell the number of rows better, after it was needed
_LONE_ROW_COUNT_SHARE = 0.02  # where nothing else does
_COMPLETE = "the number of complete rows"

_MAX_TOTAL_CELLS = 2**27  # a gigabyte of counts


@dataclass(kw_only=True, eq=False, repr=False)
class PrivBayes(Synthesizer):
    """Synthetic tables from a private Bayesian network (Zhang et al. 2017), missing cells included.

    Parents are chosen by the exponential mechanism with a count-scaled dependence score of
    constant sensitivity, family tables get Laplace noise (pure DP) or Gaussian noise
    (``delta > 0``, accounted in Gaussian DP), and rows are drawn ancestrally and raked to the
    tables.

    Parameters
    ----------
    epsilon : float, above 0
        Budget of the whole fit under add-remove adjacency.
    delta : float in [0, 1) or None, default 0
        0 gives pure epsilon-DP. None is 1e-6, which is meant for up to 10,000 rows, or 1 / (100 n)
        if more, n, are declared.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        ``"joint"`` models values and missing cells together, every row counts everywhere, missing
        cells of synthetic rows are filled from the model. ``"observed"`` (PrivBayesE, Mohapatra et
        al. 2024) counts each family over the rows observed on it. ``"complete-rows"`` drops
        incomplete rows. ``"impute-first"`` fills missing cells privately before learning.
    degree : "auto" or int, default "auto"
        Number of parents; ``"auto"`` lets tables grow while they are useful (``theta``).
    theta : float, default 8
        Least ratio of a table's mean count to its noise scale, for ``degree="auto"``.
    structure_share : float in (0, 1), default 0.1
        Share of the budget for choosing parents.
    imputer : {"marginal", "pairs", "random", "mean"}, default "marginal"
        For ``"impute-first"``.
    imputer_share : float in (0, 1), default 0.1
        Share of the budget for the imputer's margins.
    n_rows, random_state, budget
        See :class:`~missdp.synth.base.Synthesizer`.
    progress : callable, optional
        Called with a stage name and a fraction done; shows nothing private.

    Attributes
    ----------
    guarantee_ : Guarantee
        Computed from what was released.
    network_ : Network
        The released model.
    n_rows_, n_rows_std_ : int, float
        Released number of rows, from all released tables that tell it, with the standard deviation
        of its noise; or the declared number and 0.

    References
    ----------
    Zhang, Cormode, Procopiuc, Srivastava, Xiao (2017), "PrivBayes", TODS 42(4).
    Mohapatra, Zong, Kerschbaum, He (2024), PVLDB 17(8).

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, PrivBayes, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 50, "ill": ["yes", "no", "no"] * 50})
    >>> model = PrivBayes(epsilon=1.0).fit(people, schema=schema)
    >>> model.sample(4).shape
    (4, 2)
    >>> model.guarantee_.epsilon, model.guarantee_.delta
    (1.0, 0.0)
    """

    strategies: ClassVar[tuple[str, ...]] = (
        "joint",
        "observed",
        "complete-rows",
        "impute-first",
    )

    released: ClassVar[tuple[str, ...]] = ("network_", "_filling")
    network_: Network = field(init=False)
    _filling: Network | None = field(init=False)

    delta: float | None = 0.0
    degree: int | Literal["auto"] = "auto"
    theta: float = 8.0
    structure_share: float = 0.1
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1

    def _check_parameters(self) -> Budget:
        budget = super()._check_parameters()
        if not (is_number(self.theta) and 0 < self.theta < float("inf")):
            raise ParameterError("theta must be a positive number")
        self._check_share("structure_share")
        self._check_share("imputer_share")
        if self.degree != "auto" and not (is_whole(self.degree) and 0 <= self.degree <= 6):
            raise ParameterError("degree must be 'auto' or a whole number from 0 to 6")
        check_imputer(self.imputer)
        return budget

    @property
    def _budget(self) -> Budget:
        currency = Cost.for_counts(float(self.epsilon), self._delta).currency
        return Budget(self.epsilon, self._delta_to_spend, schedule="adaptive", currency=currency)

    def _check_schema(self, schema: Schema) -> None:
        sizes = sorted(self._strategy.shape(schema.names, schema))
        if sum(a.extended_size for a in schema) > _MAX_TOTAL_CELLS:
            raise ParameterError(
                f"the attributes have more than {_MAX_TOTAL_CELLS:,} levels together; declare "
                "coarser ones"
            )
        if self.degree != "auto":
            check_degree(int(self.degree), sizes)

    def split(self, schema: Schema) -> list[Part]:
        """Return the parts of the budget of a fit; see :meth:`Synthesizer.split`.

        Numbers of rows cost pure epsilons. Every table is behind one attribute at least, which the
        data choose; in pure epsilon, tables are set aside before parents are chosen.
        """
        strategy, everything = self._strategy, self._gates([()], schema)
        chosen = strategy.gates == "data"
        parts = self._first_parts(schema)
        first = len(parts)
        parts += imputation_parts(
            self._filled_gates(schema),
            self.imputer,
            self.imputer_share,
            attributes=len(schema),
            pure=self._delta == 0,
        )
        if not is_declared(self.n_rows) and (share := self._count_share(schema)):
            parts.append(self._counted(ROWS, share, (EVERY_ROW,), parts))
        if strategy.complete_only:
            parts.append(self._counted(_COMPLETE, _COMPLETE_COUNT_SHARE, everything, parts))
        parts = parts[first:]
        if len(schema) > 2 and self.degree != 0:  # elsewhere there is nothing to choose
            share, count = float(self.structure_share) * ROOM, len(schema) - 1
            parts.append(Part(CHOICES, share, everything, kind="selections", count=count))
        singles = self._gates([(name,) for name in schema.names], schema)
        largest = max(strategy.shape(schema.names, schema))
        pieces = smallest_piece(len(schema), largest, pure=self._delta == 0)
        tables = singles if chosen else everything
        reserved = self._delta == 0
        rest = Part(TABLES, ROOM, tables, count=pieces, chosen=chosen, reserved=reserved)
        return [*parts, rest]

    def _counted(
        self, name: str, share: float, gates: tuple[Gate, ...], before: list[Part]
    ) -> Part:
        """Return the part of a number that is released for a share of epsilon, pure; public."""
        whole = self._budget.left
        cost = whole.price(PureEvent(epsilon=share_of(float(self.epsilon), share)))
        left = Split(whole, tuple(before)).after(*(part.name for part in before)).amount
        return Part(name, float_up(cost) / left, gates, kind="other")

    def _count_share(self, schema: Schema) -> float:
        """Share of epsilon for the number of rows; public."""
        if self._tables_tell(schema):
            return 0.0
        told = any(self._strategy.tells_total((name,), schema) for name in schema.names)
        return _ROW_COUNT_SHARE if told or self._strategy.fills else _LONE_ROW_COUNT_SHARE

    def _tables_tell(self, schema: Schema) -> bool:
        """Whether tables tell the number of rows, and nothing needs it before they are measured."""
        strategy = self._strategy
        told = strategy.fills or any(strategy.tells_total((n,), schema) for n in schema.names)
        return told and self.degree != "auto"

    def _fit(self, door: Door) -> Total:
        self._report("preparing", 0.0)
        split, pure = self._split, self._delta == 0
        counted = behind = self._released_count(door)
        if self._strategy.complete_only:
            if pure:  # set aside, so that it is known beforehand how much reads complete rows only
                door = door.reserve(door.left, label="everything that reads complete rows only")
            noise = Noise("laplace", scale_for(1.0, _COMPLETE_COUNT_SHARE * self.epsilon))
            behind = Total(float(door.marginal((), noise)), noise.variance)
        door = impute(door, self.imputer, cost=split.cost(IMPUTATION))
        tables = door
        if pure and self._strategy.gates == "data":  # amplified up to a cap that is known before
            tables = door.reserve(split.cost(TABLES), label="tables")
        plan = Plan(split.whole, split.cost(CHOICES).amount, split.cost(TABLES).amount * ROOM)
        ruled = self._modelled.impossible
        learner = Learner(door, plan, tables=tables, total=behind, report=self._report, ruled=ruled)
        degree = self.degree if isinstance(self.degree, str) else int(self.degree)
        families = learner.choose_families(degree=degree, theta=self.theta)
        network = Network.from_joints(families, learner.measure(families))
        self.network_ = restricted(network, ruled, door.generator())
        totals = learner.totals.items()
        rows = least_squares_total(
            [*([counted] if counted else []), *(t for c, t in totals if door.tells_total(c))],
            floors=[t for c, t in totals if not door.tells_total(c)],
        )
        self._prepare_filling(max(1, round(rows.value)), door.generator())
        self._report("done", 1.0)
        return rows

    def _released_count(self, door: Door) -> Total | None:
        """Return the number of rows, if it is declared or must be known before the tables."""
        share = self._count_share(door.schema)
        if share == 0 and not is_declared(self.n_rows):
            return None
        cost = share_of(float(self.epsilon), share or 1.0)
        return door.row_count(Noise("laplace", scale_for(1.0, cost)))

    def _prepare_filling(self, n: int, rng: np.random.Generator) -> None:
        self._filling = None
        if self._strategy.models_holes and self.modelled_.nullable:
            start = observed_part(self.network_, self._sizes())
            start = restricted(start, self._modelled.impossible, rng)
            self._filling = fit_filling_model(self.network_, start, n, rng)

    def _sizes(self) -> dict[str, int]:
        return {a.name: a.size for a in self.modelled_}

    def _draws_schema(self) -> bool:
        filled = self._applied_strategy.models_holes and bool(self.modelled_.nullable)
        sizes = {a.name: a.extended_size if filled else a.size for a in self.modelled_}
        filling = None if self._filling is None else self._filling.sizes
        return self.network_.sizes == sizes and filling == (self._sizes() if filled else None)

    def _sample(
        self, n: int, missing_values: MissingValues, rng: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        codes = self.network_.sample(n, rng)
        if missing_values == "fill" and self._filling is not None:
            codes = fill_holes(codes, self._filling, rng)
        return codes
