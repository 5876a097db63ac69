"""The PrivBayes synthesizer: a private Bayesian network, in pure differential privacy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost, Filter, PureEvent, scale_for
from missdp.accounting.exact import float_up
from missdp.baselines.network import Family, Network
from missdp.calibration import selection_epsilon
from missdp.errors import ParameterError
from missdp.inference.counts import project_to_simplex
from missdp.schema import Schema
from missdp.session import Clique, Dependences, Marginal, Noise, Selection, Session, Total
from missdp.session.dependences import DEPENDENCE_SENSITIVITY
from missdp.synth.base import MissingValues, Synthesizer
from missdp.synth.impute_first import (
    IMPUTATION,
    Imputer,
    check_imputer,
    imputation_parts,
    impute,
)
from missdp.synth.noisy_counts import least_squares_total, row_count
from missdp.synth.split import CHOICES, EVERY_ROW, ROWS, TABLES, Gate, Part, Split, share_of
from missdp.synth.state import is_declared, is_number, is_whole
from missdp.types import Floats

_MAX_CELLS = 200_000
_MAX_CLIQUES = 500_000
_AUTO_DEGREE = 2
# What many parts cost together is rounded many times: this much is left unspent for it.
_ROOM = 1 - 1e-9
_LEAST_LEFT = 1e-7
_CELLS_PER_CALL = 50_000_000  # 400 MB of counts


@dataclass(frozen=True)
class _Plan:
    """What each part of a fit may cost; functions of public parameters only."""

    whole: Cost  # of the fit: Laplace noise if it is pure, Gaussian noise if not
    choice_cost: float  # of all choices of parents together
    table_cost: float  # of all tables together

    @property
    def pure(self) -> bool:
        """Whether pure epsilons count."""
        return self.whole.currency == "pure"

    def scale(self, cost: float) -> float:
        """Noise scale (Laplace b, Gaussian sigma) of a table that costs so much."""
        return Noise.worth(replace(self.whole, amount=cost)).scale

    def noise_scales(self, cells: Mapping[Clique, int], cost: float) -> dict[Clique, float]:
        """Noise scale of each table, minimising the expected total absolute error.

        Minimising sum(cells * scale) at a fixed total cost gives each table a cost proportional to
        ``cells ** (1/2)`` (Laplace noise) or ``cells ** (2/3)`` (Gaussian noise).
        """
        power = _power(self.pure)
        weight = {clique: size**power for clique, size in cells.items()}
        whole = sum(weight.values())
        return {clique: self.scale(cost * w / whole) for clique, w in weight.items()}


def _smallest_piece(attributes: int, largest: int, *, pure: bool) -> float:
    """Return how often the cost of a table of one cell goes into that of all tables, at most."""
    return 1 + 2 * attributes * math.pow(max(_MAX_CELLS, largest), _power(pure))


def _power(pure: bool) -> float:
    """Return the power of cells that costs go with; see `_Plan.noise_scales`."""
    return 0.5 if pure else 2.0 / 3.0


def _check_degree(degree: int, sizes: Sequence[int]) -> None:
    """Refuse a degree that makes for more sets of parents than can be looked at."""
    if _many_cliques(degree, sizes, _MAX_CELLS):
        raise ParameterError(
            f"degree {degree} makes for more than {_MAX_CLIQUES:,} possible tables of these "
            "attributes; use a smaller degree, or 'auto'"
        )


def _many_cliques(degree: int, sizes: Sequence[int], cells: float) -> bool:
    """Whether more than `_MAX_CLIQUES` sets of up to ``degree + 1`` attributes are small enough."""
    most = sum(math.comb(len(sizes), k) for k in range(1, degree + 2))
    if most <= _MAX_CLIQUES:
        return False
    ordered, found = sorted(sizes), 0
    stack = [(0, 1, 0)]  # next attribute, cells so far, attributes so far
    while stack:
        start, product, members = stack.pop()
        for i in range(start, len(ordered)):
            if product * ordered[i] > cells:
                break  # all later ones are larger
            found += 1
            if found > _MAX_CLIQUES:
                return True
            if members < degree:
                stack.append((i + 1, product * ordered[i], members + 1))
    return False


def _usefulness_rule(
    sizes: Mapping[str, int], *, degree: int | str, theta: float, n_rows: float, plan: _Plan
) -> tuple[Callable[[Clique], bool], int]:
    """Return the public rule on which tables are small enough, and the largest number of parents.

    With ``degree="auto"`` a table is useful if its mean count per cell is at least ``theta``
    times the noise scale (Zhang et al. 2017, theta-usefulness), with the *released* row count; a
    degree given as a number replaces the rule by a plain memory limit.
    """
    cells, most = float(_MAX_CELLS), _AUTO_DEGREE if degree == "auto" else int(degree)
    if degree == "auto":
        cells = min(
            max(0.0, n_rows) / (theta * plan.scale(plan.table_cost / len(sizes))), _MAX_CELLS
        )
        while most > 1 and _many_cliques(most, list(sizes.values()), cells):
            most -= 1
    return lambda clique: math.prod(map(sizes.__getitem__, clique)) <= cells, most


class _Learner:
    """Choose and measure families; ``tables`` is the session that is asked for each table."""

    def __init__(
        self,
        session: Session,
        plan: _Plan,
        *,
        tables: Session,
        total: Total | None,
        report: Callable[[str, float], None],
        ruled: Iterable[Clique] = (),
    ) -> None:
        self._session, self._tables, self._ruled = session, tables, tuple(ruled)
        self._plan, self._rows = plan, total
        self._report = report
        self._names = session.facts.schema.names
        #: Released number of rows behind each measured table.
        self.totals: dict[Clique, Total] = {}
        self._noisy: dict[Clique, Floats] = {}
        self._variances: dict[Clique, float] = {}

    def choose_families(self, *, degree: int | str, theta: float) -> tuple[Family, ...]:
        """Choose parents by one private selection each; the attribute of fewest codes is first."""
        sizes = self._session.facts.sizes
        rows = self._rows.value if self._rows is not None else 0.0
        rule, most = _usefulness_rule(
            sizes, degree=degree, theta=theta, n_rows=max(0.0, rows), plan=self._plan
        )
        self._expect(rule, most)
        first = min(self._names, key=lambda name: sizes[name])
        # No parent of these is small enough, not even the smallest attribute: nothing to choose.
        alone = [n for n in self._names if n != first and not (most and rule((first, n)))]
        chosen = [Family(first, ()), *(Family(name, ()) for name in alone)]
        waiting = [name for name in self._names if name not in (first, *alone)]
        left = self._plan.choice_cost
        for done in range(1, len(self._names)):
            self._report("choosing parents", 0.1 + 0.5 * done / len(self._names))
            if not waiting:
                continue
            placed = tuple(family.child for family in chosen)
            found = _candidates(placed, waiting, rule, most, ruled=self._ruled)
            family = found[0]
            if len(found) > 1:
                cost = left / len(waiting)
                family, left = self._select(found, cost), left - cost
            chosen.append(family)
            waiting.remove(family.child)
        return tuple(chosen)

    def measure(self, families: tuple[Family, ...]) -> dict[Clique, Floats]:
        """Release every family's table as consistent proportions on the simplex."""
        sizes = self._session.facts.sizes
        cells = {
            clique: math.prod(sizes[n] for n in clique) for clique in self._to_measure(families)
        }
        self._report("measuring tables", 0.6)
        if self._tables is not self._session:  # set aside for tables
            self._release(cells, self._tables, self._plan.table_cost)
        left = self._session.left.amount * _ROOM
        if left > _LEAST_LEFT * self._plan.table_cost:
            self._release(cells, self._session, left)
        totals = self._normalisers()
        consistent = _make_consistent(
            {clique: table / totals[clique] for clique, table in self._noisy.items()},
            {clique: var / totals[clique] ** 2 for clique, var in self._variances.items()},
        )
        return {f.clique: _table_of(f.clique, consistent) for f in families}

    def _expect(self, rule: Callable[[Clique], bool], degree: int) -> None:
        """Have every family that can come up counted in one pass, if memory allows."""
        schema = self._session.facts.schema
        sizes = {a.name: a.extended_size for a in schema}
        cliques, cells = [], 0
        for clique in _reachable_cliques(self._names, rule, degree):
            cliques.append(clique)
            cells += math.prod(map(sizes.__getitem__, clique))
            if cells > _CELLS_PER_CALL:
                return
        self._session.expect(map(Marginal, cliques))

    def _select(self, families: list[Family], cost: float) -> Family:
        cliques = [family.clique for family in families]
        pure = self._plan.pure
        epsilon = selection_epsilon(replace(self._plan.whole, amount=cost))
        # Permute-and-flip where pure epsilons count; its range is not bounded, for zCDP.
        method: Literal["exponential", "permute-and-flip"]
        method = "permute-and-flip" if pure else "exponential"
        if len(cliques) == 1:
            return families[0]  # a single candidate is no choice, and costs nothing
        selection = Selection(epsilon, DEPENDENCE_SENSITIVITY, method)
        return families[int(self._session.measure(Dependences(tuple(cliques)), selection).value)]

    def _release(self, cells: Mapping[Clique, int], session: Session, cost: float) -> None:
        """Measure tables, or measure them again and take means weighted by precision."""
        for clique, scale in self._plan.noise_scales(cells, cost).items():
            noise = Noise("laplace" if self._plan.pure else "gaussian", scale)
            table, variance = session.measure(Marginal(clique), noise).values, noise.variance
            if clique in self._noisy:
                before = self._variances[clique]
                weight = variance / (before + variance)
                table = weight * self._noisy[clique] + (1 - weight) * table
                variance = weight * before
            self._noisy[clique], self._variances[clique] = table, variance
            self.totals[clique] = Total(float(table.sum()), table.size * variance)

    def _to_measure(self, families: tuple[Family, ...]) -> list[Clique]:
        """Cliques to measure: a family inside another one needs no table of its own.

        Of partial marginals nothing is left out, and every one-way margin is added: a smaller
        clique is observed in more rows, so that it is sharper and less biased when cells do not go
        missing completely at random.
        """
        cliques = list(dict.fromkeys(family.clique for family in families))
        if not self._session.facts.same_total:
            return list(dict.fromkeys([*cliques, *((name,) for name in self._names)]))
        return [c for c in cliques if not any(set(c) < set(other) for other in cliques)]

    def _normalisers(self) -> dict[Clique, float]:
        """Rows behind each table: its own noisy sum, or that of all tables if they count alike."""
        if not self._session.facts.same_total:
            return {clique: max(1.0, total.value) for clique, total in self.totals.items()}
        counted = [] if self._rows is None else [self._rows]
        everywhere = least_squares_total([*counted, *self.totals.values()])
        return dict.fromkeys(self.totals, max(1.0, everywhere.value))


_ROUNDS = 5


def _make_consistent(
    tables: Mapping[tuple[str, ...], NDArray[np.float64]],
    variances: Mapping[tuple[str, ...], float],
) -> dict[tuple[str, ...], NDArray[np.float64]]:
    """Make noisy proportion tables agree on the attributes they share, and non-negative.

    Each attribute's one-way margin is estimated from every table that contains it, weighted by the
    inverse of its variance (a margin over many cells is noisier), and the difference is spread
    evenly over the cells of each table; then each table is projected onto the simplex. A few rounds
    suffice.
    """
    current = {clique: np.array(table, dtype=np.float64) for clique, table in tables.items()}
    attributes = sorted({name for clique in current for name in clique})
    for _ in range(_ROUNDS):
        for name in attributes:
            _agree_on(name, current, variances)
        current = {clique: project_to_simplex(table) for clique, table in current.items()}
    return current


def _agree_on(
    name: str,
    tables: dict[tuple[str, ...], NDArray[np.float64]],
    variances: Mapping[tuple[str, ...], float],
) -> None:
    cliques = [clique for clique in tables if name in clique]
    if len(cliques) < 2:
        return
    margins, weights, summed = [], [], []
    for clique in cliques:
        axis = clique.index(name)
        others = tuple(i for i in range(len(clique)) if i != axis)
        margins.append(tables[clique].sum(axis=others))
        summed.append(tables[clique].size // tables[clique].shape[axis])
        weights.append(1.0 / (variances[clique] * summed[-1]))
    best = np.average(margins, axis=0, weights=weights)
    for clique, margin, cells in zip(cliques, margins, summed, strict=True):
        shape = [1] * len(clique)
        shape[clique.index(name)] = -1
        tables[clique] += ((best - margin) / cells).reshape(shape)


def _reachable_cliques(
    names: Clique, allowed: Callable[[Clique], bool], degree: int
) -> Iterator[Clique]:
    """Yield each attribute set that some family could need, so that one pass counts all."""
    yield ()
    yield from ((name,) for name in names)
    for size in range(2, degree + 2):
        yield from filter(allowed, itertools.combinations(names, size))


def _candidates(
    placed: Clique,
    waiting: Iterable[str],
    allowed: Callable[[Clique], bool],
    degree: int,
    *,
    ruled: Iterable[Clique] = (),
) -> list[Family]:
    """Families that may come next: every waiting child with every maximal allowed parent set.

    They stand in a fixed order that depends on public facts and earlier choices only; subsets of
    allowed sets are allowed. What a rule connects are parents of each other where that is allowed:
    nothing has to be spent to learn that they depend on each other.
    """
    found, rules = [], list(ruled)
    for child in waiting:
        base = _by_rules(child, placed, allowed, degree, rules)
        sets = list(_maximal(child, base, placed, allowed, degree))
        found.extend(sets or [Family(child, base)])
    return found


def _by_rules(
    child: str,
    placed: Clique,
    allowed: Callable[[Clique], bool],
    degree: int,
    ruled: Iterable[Clique],
) -> Clique:
    """Parents that rules suggest: of rules that the child makes complete first."""
    near = [names for names in ruled if child in names]
    base: Clique = ()
    for names in sorted(near, key=lambda names: len({*names} - {child, *placed})):
        for name in names:
            fits = name in placed and name not in base and len(base) < degree
            if fits and allowed((*base, name, child)):
                base = (*base, name)
    return base


def _maximal(
    child: str, base: Clique, placed: Clique, allowed: Callable[[Clique], bool], degree: int
) -> Iterator[Family]:
    """Allowed families of the child that extend the base and none of which holds another."""
    others = tuple(name for name in placed if name not in base)
    levels: list[list[Clique]] = [[()]]
    while len(levels) + len(base) <= degree and levels[-1]:
        levels.append(
            [
                (*more, name)
                for more in levels[-1]
                for name in others[others.index(more[-1]) + 1 if more else 0 :]
                if allowed((*base, *more, name, child))
            ]
        )
    inside: set[Clique] = set()
    for level in reversed(levels[1:]):
        yield from (Family(child, (*base, *more)) for more in level if more not in inside)
        inside = {part for p in level for part in itertools.combinations(p, len(p) - 1)}


def _table_of(clique: Clique, tables: Mapping[Clique, Floats]) -> Floats:
    """Table over a clique, from its own measurement or summed out of a larger one."""
    if clique in tables:
        return tables[clique]
    larger = next(other for other in tables if set(clique) <= set(other))
    out = tuple(i for i, name in enumerate(larger) if name not in clique)
    rest = [name for name in larger if name in clique]
    summed = tables[larger].sum(axis=out)
    return np.transpose(summed, [rest.index(name) for name in clique])


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
        Filter of the whole fit under add-remove adjacency.
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
    structure_share : float from 0.0001 to 0.99, default 0.1
        Share of the budget for choosing parents.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        For ``"impute-first"``.
    imputer_share : float from 0.0001 to 0.99, default 0.1
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

    def _check_parameters(self) -> Filter:
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
    def _budget(self) -> Filter:
        currency = Cost.for_counts(float(self.epsilon), self._delta).currency
        return Filter(self.epsilon, self._delta_to_spend, measure=currency)

    def _check_schema(self, schema: Schema) -> None:
        sizes = sorted(self._strategy.shape(schema.names, schema))
        if sum(a.extended_size for a in schema) > _MAX_TOTAL_CELLS:
            raise ParameterError(
                f"the attributes have more than {_MAX_TOTAL_CELLS:,} levels together; declare "
                "coarser ones"
            )
        if self.degree != "auto":
            _check_degree(int(self.degree), sizes)

    def split(self, schema: Schema) -> list[Part]:
        """Return the parts of the budget of a fit; see :meth:`Synthesizer.split`.

        Numbers of rows cost pure epsilons. Every table is behind one attribute at least, which the
        data choose; in pure epsilon, tables are set aside before parents are chosen.
        """
        strategy, everything = self._strategy, self._gates([()], schema)
        chosen = strategy.gates == "data"
        parts = self._first_parts(schema)
        first = len(parts)
        parts += imputation_parts(self._filled_gates(schema), self.imputer, self.imputer_share)
        if not is_declared(self.n_rows) and (share := self._count_share(schema)):
            parts.append(self._counted(ROWS, share, (EVERY_ROW,), parts))
        if strategy.complete_only:
            parts.append(self._counted(_COMPLETE, _COMPLETE_COUNT_SHARE, everything, parts))
        parts = parts[first:]
        if len(schema) > 2 and self.degree != 0:  # elsewhere there is nothing to choose
            share, count = float(self.structure_share) * _ROOM, len(schema) - 1
            parts.append(Part(CHOICES, share, everything, kind="selections", count=count))
        singles = self._gates([(name,) for name in schema.names], schema)
        largest = max(strategy.shape(schema.names, schema))
        pieces = _smallest_piece(len(schema), largest, pure=self._delta == 0)
        tables = singles if chosen else everything
        reserved = self._delta == 0
        rest = Part(TABLES, _ROOM, tables, count=pieces, chosen=chosen, reserved=reserved)
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

    def _fit(self, session: Session) -> Total:
        self._report("preparing", 0.0)
        split, pure = self._split, self._delta == 0
        counted = behind = self._released_count(session)
        if self._strategy.complete_only:
            if pure:  # set aside, so that it is known beforehand how much reads complete rows only
                session = session.reserve(
                    session.left, label="everything that reads complete rows only"
                )
            noise = Noise("laplace", scale_for(1.0, _COMPLETE_COUNT_SHARE * self.epsilon))
            counted_rows = float(session.measure(Marginal(()), noise).value)
            behind = Total(counted_rows, noise.variance)
        session = impute(session, self.imputer, cost=split.cost(IMPUTATION))
        tables = session
        if pure and self._strategy.gates == "data":  # amplified up to a cap that is known before
            tables = session.reserve(split.cost(TABLES), label="tables")
        plan = _Plan(split.whole, split.cost(CHOICES).amount, split.cost(TABLES).amount * _ROOM)
        ruled = self._modelled.impossible
        learner = _Learner(
            session, plan, tables=tables, total=behind, report=self._report, ruled=ruled
        )
        degree = self.degree if isinstance(self.degree, str) else int(self.degree)
        families = learner.choose_families(degree=degree, theta=self.theta)
        network = Network.from_joints(families, learner.measure(families))
        self.network_ = network.restricted(ruled, session.generator())
        totals, whole = learner.totals.items(), session.facts.sums_to_row_count
        rows = least_squares_total(
            [*([counted] if counted else []), *(t for c, t in totals if whole(c))],
            floors=[t for c, t in totals if not whole(c)],
        )
        if self._strategy.complete_only and behind is not None:
            self._complete_rows = least_squares_total([behind, *learner.totals.values()])
        self._prepare_filling(max(1, round(rows.value)), session.generator())
        self._report("done", 1.0)
        return rows

    def _released_count(self, session: Session) -> Total | None:
        """Return the number of rows, if it is declared or must be known before the tables."""
        share = self._count_share(session.facts.schema)
        if share == 0 and not is_declared(self.n_rows):
            return None
        cost = share_of(float(self.epsilon), share or 1.0)
        return row_count(session, Noise("laplace", scale_for(1.0, cost)))

    def _prepare_filling(self, n: int, rng: np.random.Generator) -> None:
        self._filling = None
        if self._strategy.models_holes and self.modelled_.nullable:
            start = self.network_.observed_part(self._sizes())
            start = start.restricted(self._modelled.impossible, rng)
            self._filling = self.network_.filling_model(start, n, rng)

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
            codes = self._filling.fill_holes(codes, rng)
        return codes
