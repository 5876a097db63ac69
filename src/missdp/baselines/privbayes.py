"""The PrivBayes synthesizer: a private Bayesian network, in pure differential privacy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import pydantic.dataclasses
from numpy.typing import NDArray

from missdp.accounting import Cost, PureEvent, scale_for
from missdp.accounting.exact import float_up
from missdp.baselines.network import Family as Node
from missdp.baselines.network import Network
from missdp.calibration import selection_epsilon
from missdp.errors import DataError, ParameterError
from missdp.inference.counts import project_to_simplex
from missdp.serialization import Record
from missdp.session import Clique, Dependences, Marginal, Noise, Selection, Session, Total
from missdp.session.dependences import DEPENDENCE_SENSITIVITY
from missdp.session.strategies import strategy_named
from missdp.synth.base import Synthesizer
from missdp.synth.family import Codes, Family, Learned, Request, budget_of_counts
from missdp.synth.first_parts import first_parts
from missdp.synth.fitted import Fitted
from missdp.synth.impute_first import (
    IMPUTATION,
    Imputer,
    check_imputation,
    imputation_parts,
    impute,
)
from missdp.synth.noisy_counts import least_squares_total, row_count
from missdp.synth.parameters import check_share, is_declared, is_integer, is_number
from missdp.synth.split import (
    CHOICES,
    EVERY_ROW,
    ROWS,
    TABLES,
    BudgetPlan,
    Part,
    RequiredAttributes,
    share_of,
)
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
        return self.whole.privacy_measure == "pure"

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

    def choose_families(self, *, degree: int | str, theta: float) -> tuple[Node, ...]:
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
        chosen = [Node(first, ()), *(Node(name, ()) for name in alone)]
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

    def measure(self, families: tuple[Node, ...]) -> dict[Clique, Floats]:
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

    def _select(self, families: list[Node], cost: float) -> Node:
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

    def _to_measure(self, families: tuple[Node, ...]) -> list[Clique]:
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
) -> list[Node]:
    """Families that may come next: every waiting child with every maximal allowed parent set.

    They stand in a fixed order that depends on public facts and earlier choices only; subsets of
    allowed sets are allowed. What a rule connects are parents of each other where that is allowed:
    nothing has to be spent to learn that they depend on each other.
    """
    found, rules = [], list(ruled)
    for child in waiting:
        base = _by_rules(child, placed, allowed, degree, rules)
        sets = list(_maximal(child, base, placed, allowed, degree))
        found.extend(sets or [Node(child, base)])
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
) -> Iterator[Node]:
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
        yield from (Node(child, (*base, *more)) for more in level if more not in inside)
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


@pydantic.dataclasses.dataclass(frozen=True, eq=False)
class BayesianModel(Record):
    """A released network, and the one by which missing cells of its rows are filled.

    * ``network``: Of values and missing cells, as they were counted.
    * ``filling``: Of complete rows; None if the network draws no missing cells.
    """

    network: Network
    filling: Network | None


def _check(parameters: PrivBayes) -> None:
    theta, degree = parameters.theta, parameters.degree
    if not (is_number(theta) and 0 < theta < float("inf")):
        raise ParameterError("theta must be a positive number")
    check_share(parameters, "structure_share")
    if degree != "auto" and not (is_integer(degree) and 0 <= degree <= 6):
        raise ParameterError("degree must be 'auto' or a whole number from 0 to 6")
    check_imputation(parameters)


def _plan(request: Request[PrivBayes]) -> list[Part]:
    """Return the parts of the budget; see `Family`.

    Numbers of rows cost pure epsilons. Every table is behind one attribute at least, which the data
    choose; in pure epsilon, tables are set aside before parents are chosen.
    """
    parameters, schema, strategy = request.parameters, request.modelled.schema, request.strategy
    _check_size(request)
    everything, chosen = request.required_sets([()]), strategy.required_sets == "data"
    parts = imputation_parts(request)
    if not is_declared(parameters.n_rows) and (share := _count_share(request)):
        parts.append(_counted(request, ROWS, share, (EVERY_ROW,), parts))
    if strategy.complete_only:
        parts.append(_counted(request, _COMPLETE, _COMPLETE_COUNT_SHARE, everything, parts))
    if len(schema) > 2 and parameters.degree != 0:  # elsewhere there is nothing to choose
        share, count = float(parameters.structure_share) * _ROOM, len(schema) - 1
        parts.append(Part(CHOICES, share, everything, kind="selections", count=count))
    pure, largest = request.delta == 0, max(strategy.shape(schema.names, schema))
    pieces = _smallest_piece(len(schema), largest, pure=pure)
    tables = request.single_requirements() if chosen else everything
    rest = Part(TABLES, _ROOM, tables, count=pieces, chosen=chosen, reserved=pure)
    return [*parts, rest]


def _check_size(request: Request[PrivBayes]) -> None:
    """Refuse more levels, or a larger degree, than fit into memory."""
    schema, degree = request.modelled.schema, request.parameters.degree
    sizes = sorted(request.strategy.shape(schema.names, schema))
    if sum(a.extended_size for a in schema) > _MAX_TOTAL_CELLS:
        raise ParameterError(
            f"the attributes have more than {_MAX_TOTAL_CELLS:,} levels together; declare "
            "coarser ones"
        )
    if degree != "auto":
        _check_degree(int(degree), sizes)


def _counted(
    request: Request[PrivBayes],
    name: str,
    share: float,
    required_sets: tuple[RequiredAttributes, ...],
    parts: list[Part],
) -> Part:
    """Return the part of a number that is released for a share of epsilon, pure; public."""
    whole, before = request.family.budget(request).left, [*first_parts(request), *parts]
    cost = whole.price(PureEvent(epsilon=share_of(float(request.parameters.epsilon), share)))
    left = BudgetPlan(whole, tuple(before)).after(*(part.name for part in before)).amount
    return Part(name, float_up(cost) / left, required_sets, kind="other")


def _count_share(request: Request[PrivBayes]) -> float:
    """Share of epsilon for the number of rows; public."""
    strategy, schema = request.strategy, request.modelled.schema
    total_implied = strategy.fills or any(
        strategy.implies_total((name,), schema) for name in schema.names
    )
    if total_implied and request.parameters.degree != "auto":  # nothing needs it before the tables
        return 0.0
    return _ROW_COUNT_SHARE if total_implied else _LONE_ROW_COUNT_SHARE


def _fit(session: Session, plan: BudgetPlan, request: Request[PrivBayes]) -> Learned:
    parameters, strategy, pure = request.parameters, request.strategy, request.delta == 0
    request.report("preparing", 0.0)
    counted = behind = _released_count(session, request)
    if strategy.complete_only:
        if pure:  # set aside, so that it is known beforehand how much reads complete rows only
            label = "everything that reads complete rows only"
            session = session.reserve(session.left, label=label)
        noise = Noise("laplace", scale_for(1.0, _COMPLETE_COUNT_SHARE * parameters.epsilon))
        behind = Total(float(session.measure(Marginal(()), noise).value), noise.variance)
    session = impute(session, parameters.imputer, cost=plan.cost(IMPUTATION))
    tables = session
    if pure and strategy.required_sets == "data":  # amplified up to a cap that is known before
        tables = session.reserve(plan.cost(TABLES), label="tables")
    costs = _Plan(plan.total, plan.cost(CHOICES).amount, plan.cost(TABLES).amount * _ROOM)
    ruled = request.modelled.impossible_cells
    learner = _Learner(
        session, costs, tables=tables, total=behind, report=request.report, ruled=ruled
    )
    degree = parameters.degree if isinstance(parameters.degree, str) else int(parameters.degree)
    families = learner.choose_families(degree=degree, theta=parameters.theta)
    network = Network.from_joints(families, learner.measure(families))
    network = network.restricted(ruled, session.generator())
    rows, complete = _rows(session, learner.totals, counted), None
    if strategy.complete_only and behind is not None:
        complete = least_squares_total([behind, *learner.totals.values()])
    n, rng = max(1, round(rows.value)), session.generator()
    model = BayesianModel(network, _filling(network, request, n, rng))
    request.report("done", 1.0)
    return Learned(model, rows, complete=complete)


def _rows(session: Session, tables: Mapping[Clique, Total], counted: Total | None) -> Total:
    """Return the number of rows, by the released number and the totals of all tables."""
    totals, whole = tables.items(), session.facts.sums_to_row_count
    return least_squares_total(
        [*([counted] if counted else []), *(t for c, t in totals if whole(c))],
        floors=[t for c, t in totals if not whole(c)],
    )


def _released_count(session: Session, request: Request[PrivBayes]) -> Total | None:
    """Return the number of rows, if it is declared or must be known before the tables."""
    share = _count_share(request)
    if share == 0 and not is_declared(request.parameters.n_rows):
        return None
    cost = share_of(float(request.parameters.epsilon), share or 1.0)
    return row_count(session, Noise("laplace", scale_for(1.0, cost)))


def _filling(
    network: Network, request: Request[PrivBayes], n: int, rng: np.random.Generator
) -> Network | None:
    """Return a model of complete rows, if the network draws missing cells."""
    modelled = request.modelled
    if not (request.strategy.models_missingness and modelled.schema.nullable):
        return None
    start = network.observed_part({a.name: a.size for a in modelled.schema})
    return network.filling_model(start.restricted(modelled.impossible_cells, rng), n, rng)


def _sample(fitted: Fitted, n: int, rng: np.random.Generator, keep_missing: bool) -> Codes:
    network, filling = fitted.model.network, fitted.model.filling
    schema, complete = fitted.modelled.schema, network if filling is None else filling
    filled = strategy_named(fitted.parameters["missing"]).models_missingness and bool(
        schema.nullable
    )
    sizes = {a.name: a.extended_size if filled else a.size for a in schema}
    fits = complete.sizes == {a.name: a.size for a in schema} and network.sizes == sizes
    if not fits:
        raise DataError("the levels of the model are not those of its schema")
    codes: Codes = network.sample(n, rng)
    if not keep_missing and filling is not None:
        codes = filling.fill_holes(codes, rng)
    return codes


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

    family: ClassVar[Family] = Family(
        strategies=("joint", "observed", "complete-rows", "impute-first"),
        parameters=_check,
        plan=_plan,
        budget=budget_of_counts,
        fit=_fit,
        model=BayesianModel,
        sample=_sample,
    )

    delta: float | None = 0.0
    degree: int | Literal["auto"] = "auto"
    theta: float = 8.0
    structure_share: float = 0.1
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1

    @property
    def network_(self) -> Network:
        """The released model."""
        network: Network = self.fitted_.model.network
        return network
