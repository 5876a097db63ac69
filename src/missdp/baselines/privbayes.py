"""The PrivBayes synthesizer: a private Bayesian network, in pure differential privacy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import pydantic.dataclasses

from missdp.accounting import Cost, PureEvent, scale_for
from missdp.accounting.exact import float_up
from missdp.baselines.network import Network, Node
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
from missdp.synth.parameters import check_share, is_declared, is_integer, is_real_number
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

_MAX_CELLS = 200_000  # cells of one table
_MAX_CLIQUES = 500_000  # possible tables
_AUTO_DEGREE = 2  # largest number of parents with ``degree="auto"``
# Share of a budget that is spent. The rest covers rounding errors of many parts.
_USED_SHARE = 1 - 1e-9
_MIN_REST = 1e-7  # share of the cost of all tables: a smaller rest is not spent
_CELLS_PER_CALL = 50_000_000  # cells that are counted in one pass: 400 MB


@dataclass(frozen=True)
class _Plan:
    """Largest costs of the parts of a fit: functions of public parameters only."""

    total: Cost  # cost of the fit: Laplace noise if it is pure, Gaussian noise if not
    choice_cost: float  # cost of all choices of parents together
    table_cost: float  # cost of all tables together

    @property
    def pure(self) -> bool:
        """Whether the budget is in pure epsilon."""
        return self.total.privacy_measure == "pure"

    def scale(self, cost: float) -> float:
        """Return the noise scale (Laplace b, Gaussian sigma) of a table with this cost."""
        return Noise.from_cost(replace(self.total, amount=cost)).scale

    def noise_scales(self, cells: Mapping[Clique, int], cost: float) -> dict[Clique, float]:
        """Return the noise scale of each table that minimises the expected total absolute error.

        Minimising sum(cells * scale) at a fixed total cost gives each table a cost proportional to
        ``cells ** (1/2)`` (Laplace noise) or ``cells ** (2/3)`` (Gaussian noise).
        """
        power = _power(self.pure)
        weight = {clique: size**power for clique, size in cells.items()}
        total_weight = sum(weight.values())
        return {clique: self.scale(cost * w / total_weight) for clique, w in weight.items()}


def _max_divisions(attributes: int, largest: int, *, pure: bool) -> float:
    """Return the largest ratio of the cost of all tables to the cost of a table of one cell."""
    return 1 + 2 * attributes * math.pow(max(_MAX_CELLS, largest), _power(pure))


def _power(pure: bool) -> float:
    """Return the exponent of cells in costs: see `_Plan.noise_scales`."""
    return 0.5 if pure else 2.0 / 3.0


def _check_degree(degree: int, sizes: Sequence[int]) -> None:
    """Raise ParameterError for a degree with too many possible sets of parents."""
    if _many_cliques(degree, sizes, _MAX_CELLS):
        raise ParameterError(
            f"degree {degree} allows more than {_MAX_CLIQUES:,} tables of these attributes. Use a "
            "smaller degree, or 'auto'."
        )


def _many_cliques(degree: int, sizes: Sequence[int], cells: float) -> bool:
    """Return whether more than `_MAX_CLIQUES` sets of up to ``degree + 1`` attributes are small."""
    max_number = sum(math.comb(len(sizes), k) for k in range(1, degree + 2))
    if max_number <= _MAX_CLIQUES:
        return False
    ordered, number = sorted(sizes), 0
    stack = [(0, 1, 0)]  # next attribute, cells so far, attributes so far
    while stack:
        start, product, members = stack.pop()
        for i in range(start, len(ordered)):
            if product * ordered[i] > cells:
                break  # all later ones are larger
            number += 1
            if number > _MAX_CLIQUES:
                return True
            if members < degree:
                stack.append((i + 1, product * ordered[i], members + 1))
    return False


def _usefulness_rule(
    sizes: Mapping[str, int], *, degree: int | str, theta: float, n_rows: float, plan: _Plan
) -> tuple[Callable[[Clique], bool], int]:
    """Return the public rule that decides which tables are small enough, and the largest degree.

    With ``degree="auto"`` a table is useful if its mean count per cell is at least ``theta`` times
    the noise scale (Zhang et al. 2017, theta-usefulness). The rule uses the *released* row count. A
    degree that is a number replaces the rule by a memory limit.
    """
    cells, max_parents = float(_MAX_CELLS), _AUTO_DEGREE if degree == "auto" else int(degree)
    if degree == "auto":
        cells = min(
            max(0.0, n_rows) / (theta * plan.scale(plan.table_cost / len(sizes))), _MAX_CELLS
        )
        while max_parents > 1 and _many_cliques(max_parents, list(sizes.values()), cells):
            max_parents -= 1
    return lambda clique: math.prod(map(sizes.__getitem__, clique)) <= cells, max_parents


class _Learner:
    """Selection and measurement of nodes. ``tables`` is the session that measures tables."""

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
        """Choose parents by one private selection each. The smallest attribute is first."""
        sizes = self._session.facts.sizes
        rows = self._rows.value if self._rows is not None else 0.0
        rule, max_parents = _usefulness_rule(
            sizes, degree=degree, theta=theta, n_rows=max(0.0, rows), plan=self._plan
        )
        self._expect(rule, max_parents)
        first = min(self._names, key=lambda name: sizes[name])
        # Even the smallest attribute is too large as a parent of these.
        others = (name for name in self._names if name != first)
        parentless = [n for n in others if not (max_parents and rule((first, n)))]
        chosen = [Node(first, ()), *(Node(name, ()) for name in parentless)]
        waiting = [name for name in self._names if name not in (first, *parentless)]
        remaining = self._plan.choice_cost
        for done in range(1, len(self._names)):
            self._report("choosing parents", 0.1 + 0.5 * done / len(self._names))
            if not waiting:
                continue
            placed = tuple(family.child for family in chosen)
            candidates = _candidates(placed, waiting, rule, max_parents, ruled=self._ruled)
            family = candidates[0]
            if len(candidates) > 1:
                cost = remaining / len(waiting)
                family, remaining = self._select(candidates, cost), remaining - cost
            chosen.append(family)
            waiting.remove(family.child)
        return tuple(chosen)

    def measure(self, families: tuple[Node, ...]) -> dict[Clique, Floats]:
        """Release every node's table as consistent proportions on the simplex."""
        sizes = self._session.facts.sizes
        cells = {
            clique: math.prod(sizes[n] for n in clique) for clique in self._to_measure(families)
        }
        self._report("measuring tables", 0.6)
        if self._tables is not self._session:  # reserved for tables
            self._release(cells, self._tables, self._plan.table_cost)
        remaining = self._session.remaining.amount * _USED_SHARE
        if remaining > _MIN_REST * self._plan.table_cost:
            self._release(cells, self._session, remaining)
        totals = self._normalisers()
        consistent = _make_consistent(
            {clique: table / totals[clique] for clique, table in self._noisy.items()},
            {clique: var / totals[clique] ** 2 for clique, var in self._variances.items()},
        )
        return {f.clique: _table_of(f.clique, consistent) for f in families}

    def _expect(self, rule: Callable[[Clique], bool], degree: int) -> None:
        """Count every possible node in one pass, if memory allows."""
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
        epsilon = selection_epsilon(replace(self._plan.total, amount=cost))
        # Permute-and-flip is for pure epsilon. Its range is not bounded, which zCDP needs.
        method: Literal["exponential", "permute-and-flip"]
        method = "permute-and-flip" if pure else "exponential"
        if len(cliques) == 1:
            return families[0]  # a single candidate needs no selection
        selection = Selection(epsilon, DEPENDENCE_SENSITIVITY, method)
        return families[int(self._session.measure(Dependences(tuple(cliques)), selection).value)]

    def _release(self, cells: Mapping[Clique, int], session: Session, cost: float) -> None:
        """Measure tables, or measure them again and average by precision."""
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
        """Return the cliques to measure. A node inside another one needs no table of its own.

        Partial marginals are all measured, and all one-way marginals with them. A smaller clique is
        observed in more rows. So it is more precise, and less biased if cells are not missing
        completely at random.
        """
        cliques = list(dict.fromkeys(family.clique for family in families))
        if not self._session.facts.same_total:
            return list(dict.fromkeys([*cliques, *((name,) for name in self._names)]))
        return [c for c in cliques if not any(set(c) < set(other) for other in cliques)]

    def _normalisers(self) -> dict[Clique, float]:
        """Return the rows of each table: its noisy sum, or a common estimate of equal totals."""
        if not self._session.facts.same_total:
            return {clique: max(1.0, total.value) for clique, total in self.totals.items()}
        counted = [] if self._rows is None else [self._rows]
        everywhere = least_squares_total([*counted, *self.totals.values()])
        return dict.fromkeys(self.totals, max(1.0, everywhere.value))


_ROUNDS = 5  # rounds of agreement and projection


def _make_consistent(
    tables: Mapping[tuple[str, ...], Floats], variances: Mapping[tuple[str, ...], float]
) -> dict[tuple[str, ...], Floats]:
    """Make noisy proportion tables agree on the attributes they share, and nonnegative.

    Each attribute's one-way marginal is estimated from every table that contains it, weighted by
    inverse variances. A marginal over many cells is noisier. The difference is spread evenly over
    the cells of each table. Then each table is projected onto the simplex. A few rounds suffice.
    """
    current = {clique: np.array(table, dtype=np.float64) for clique, table in tables.items()}
    attributes = sorted({name for clique in current for name in clique})
    for _ in range(_ROUNDS):
        for name in attributes:
            _agree_on(name, current, variances)
        current = {clique: project_to_simplex(table) for clique, table in current.items()}
    return current


def _agree_on(
    name: str, tables: dict[tuple[str, ...], Floats], variances: Mapping[tuple[str, ...], float]
) -> None:
    cliques = [clique for clique in tables if name in clique]
    if len(cliques) < 2:
        return
    marginals, weights, summed = [], [], []
    for clique in cliques:
        axis = clique.index(name)
        others = tuple(i for i in range(len(clique)) if i != axis)
        marginals.append(tables[clique].sum(axis=others))
        summed.append(tables[clique].size // tables[clique].shape[axis])
        weights.append(1.0 / (variances[clique] * summed[-1]))
    best = np.average(marginals, axis=0, weights=weights)
    for clique, marginal, cells in zip(cliques, marginals, summed, strict=True):
        shape = [1] * len(clique)
        shape[clique.index(name)] = -1
        tables[clique] += ((best - marginal) / cells).reshape(shape)


def _reachable_cliques(
    names: Clique, allowed: Callable[[Clique], bool], degree: int
) -> Iterator[Clique]:
    """Yield each attribute set that some node could need, so that one pass counts all."""
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
    """Return the nodes that may come next: every waiting child with every maximal parent set.

    Their fixed order depends on public facts and earlier choices only. Subsets of allowed sets are
    allowed. Attributes that a rule connects are parents of each other if that is allowed. No budget
    is needed to learn that they depend on each other.
    """
    nodes, rules = [], list(ruled)
    for child in waiting:
        base = _by_rules(child, placed, allowed, degree, rules)
        sets = list(_maximal(child, base, placed, allowed, degree))
        nodes.extend(sets or [Node(child, base)])
    return nodes


def _by_rules(
    child: str,
    placed: Clique,
    allowed: Callable[[Clique], bool],
    degree: int,
    ruled: Iterable[Clique],
) -> Clique:
    """Return the parents that rules suggest, starting with rules that the child completes."""
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
    """Yield allowed nodes of the child that extend the base, none of which contains another."""
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
    """Return the table of a clique, from its measurement or summed from a larger one."""
    if clique in tables:
        return tables[clique]
    larger = next(other for other in tables if set(clique) <= set(other))
    out = tuple(i for i, name in enumerate(larger) if name not in clique)
    rest = [name for name in larger if name in clique]
    summed = tables[larger].sum(axis=out)
    return np.transpose(summed, [rest.index(name) for name in clique])


_COMPLETE_COUNT_SHARE = 0.02  # share of epsilon for the number of complete rows
_ROW_COUNT_SHARE = 0.01  # share of epsilon for the row count if tables estimate it better later
_LONE_ROW_COUNT_SHARE = 0.02  # share of epsilon for the row count if no table estimates it
_COMPLETE = "the number of complete rows"

_MAX_TOTAL_CELLS = 2**27  # cells together: a gigabyte of counts


@pydantic.dataclasses.dataclass(frozen=True, eq=False)
class BayesianModel(Record):
    """Released model of PrivBayes: a Bayesian network, and a network that fills missing cells.

    All values are released.

    Parameters
    ----------
    network : Network
        Network of values and missing cells, as they were counted. "Missing" may be a level.
    filling : Network or None
        Network of complete rows, which fills missing cells. None if ``network`` draws no missing
        cells.
    """

    network: Network
    filling: Network | None


def _check(parameters: PrivBayes) -> None:
    theta, degree = parameters.theta, parameters.degree
    if not (is_real_number(theta) and 0 < theta < float("inf")):
        raise ParameterError("theta must be a positive number")
    check_share(parameters, "structure_share")
    if degree != "auto" and not (is_integer(degree) and 0 <= degree <= 6):
        raise ParameterError("degree must be 'auto' or an integer from 0 to 6")
    check_imputation(parameters)


def _plan(request: Request[PrivBayes]) -> list[Part]:
    """Return the parts of the budget: see `Family`.

    Numbers of rows cost pure epsilons. Every table requires at least one attribute, which the data
    choose. In pure epsilon, the cost of tables is reserved before parents are chosen.
    """
    parameters, schema, strategy = request.parameters, request.modelled.schema, request.strategy
    _check_size(request)
    everything, chosen = request.required_sets([()]), strategy.required_sets == "data"
    parts = imputation_parts(request)
    if not is_declared(parameters.n_rows) and (share := _count_share(request)):
        parts.append(_counted(request, ROWS, share, (EVERY_ROW,), parts))
    if strategy.complete_only:
        parts.append(_counted(request, _COMPLETE, _COMPLETE_COUNT_SHARE, everything, parts))
    if len(schema) > 2 and parameters.degree != 0:  # otherwise there is one structure
        share, count = float(parameters.structure_share) * _USED_SHARE, len(schema) - 1
        parts.append(Part(CHOICES, share, everything, kind="selections", count=count))
    pure, largest = request.delta == 0, max(strategy.shape(schema.names, schema))
    divisions = _max_divisions(len(schema), largest, pure=pure)
    tables = request.single_requirements() if chosen else everything
    rest = Part(TABLES, _USED_SHARE, tables, count=divisions, chosen=chosen, reserved=pure)
    return [*parts, rest]


def _check_size(request: Request[PrivBayes]) -> None:
    """Raise ParameterError for more levels, or a larger degree, than fit into memory."""
    schema, degree = request.modelled.schema, request.parameters.degree
    sizes = sorted(request.strategy.shape(schema.names, schema))
    if sum(a.extended_size for a in schema) > _MAX_TOTAL_CELLS:
        raise ParameterError(
            f"the attributes have more than {_MAX_TOTAL_CELLS:,} levels together. Declare fewer "
            "levels."
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
    """Return the public part of a number that is released for a share of epsilon, pure."""
    total, before = request.family.budget(request).remaining, [*first_parts(request), *parts]
    cost = total.price(PureEvent(epsilon=share_of(float(request.parameters.epsilon), share)))
    remaining = BudgetPlan(total, tuple(before)).after(*(part.name for part in before)).amount
    return Part(name, float_up(cost) / remaining, required_sets, kind="other")


def _count_share(request: Request[PrivBayes]) -> float:
    """Return the public share of epsilon for the number of rows."""
    strategy, schema = request.strategy, request.modelled.schema
    total_implied = strategy.fills or any(
        strategy.implies_total((name,), schema) for name in schema.names
    )
    if total_implied and request.parameters.degree != "auto":  # tables estimate it in time
        return 0.0
    return _ROW_COUNT_SHARE if total_implied else _LONE_ROW_COUNT_SHARE


def _fit(session: Session, plan: BudgetPlan, request: Request[PrivBayes]) -> Learned:
    parameters, strategy, pure = request.parameters, request.strategy, request.delta == 0
    request.report("preparing", 0.0)
    counted = behind = _released_count(session, request)
    if strategy.complete_only:
        if pure:  # reserved: the cost of complete rows is fixed in advance
            label = "everything that reads complete rows only"
            session = session.reserve(session.remaining, label=label)
        noise = Noise("laplace", scale_for(1.0, _COMPLETE_COUNT_SHARE * parameters.epsilon))
        behind = Total(float(session.measure(Marginal(()), noise).value), noise.variance)
    session = impute(session, parameters.imputer, cost=plan.cost(IMPUTATION))
    tables = session
    if pure and strategy.required_sets == "data":  # amplified up to a fixed cap
        tables = session.reserve(plan.cost(TABLES), label="tables")
    costs = _Plan(plan.total, plan.cost(CHOICES).amount, plan.cost(TABLES).amount * _USED_SHARE)
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
    totals, counts_all = tables.items(), session.facts.sums_to_row_count
    return least_squares_total(
        [*([counted] if counted else []), *(t for c, t in totals if counts_all(c))],
        floors=[t for c, t in totals if not counts_all(c)],
    )


def _released_count(session: Session, request: Request[PrivBayes]) -> Total | None:
    """Return the number of rows, if it is declared or needed before the tables."""
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
        raise DataError("the levels of the model do not match its schema. Use an unmodified copy.")
    codes: Codes = network.sample(n, rng)
    if not keep_missing and filling is not None:
        codes = filling.fill_missing(codes, rng)
    return codes


@dataclass(kw_only=True, eq=False, repr=False)
class PrivBayes(Synthesizer):
    """Synthesizer with a private Bayesian network, by default in pure DP (Zhang et al. 2017).

    A network gives each attribute (child) a few parents, and its distribution given the parents.
    Use it for pure epsilon-DP, and if missing cells should be part of the model.

    Parents are chosen by the exponential mechanism, with a count-scaled dependence score of
    constant sensitivity. The table of counts of each child and its parents gets Laplace noise (pure
    DP). If delta is above 0 it gets Gaussian noise, accounted in Gaussian DP or zCDP. Adjacency is
    add-remove. Rows are drawn from parents to children, and adjusted to the released tables
    (raking).

    Parameters
    ----------
    epsilon : float
        Privacy budget of the complete fit, from 1e-6 to 10,000. Two neighbouring tables differ by
        one added or removed row (add-remove adjacency).
    delta : float or None, default 0.0
        Delta of the complete fit, from 0 and below 1. 0 gives pure epsilon-DP. None is 1e-6, which
        is meant for up to 10,000 rows. For a declared number n of rows above 10,000, None is
        ``1 / (100 n)``.
    n_rows : "noisy" or int, default "noisy"
        ``"noisy"`` estimates the private number of rows from released values. A small share of the
        budget releases a noisy count if these values are not precise enough. An integer from 1 to
        2**53 declares the number of rows public.
    bins : {"private", "equal"}, default "private"
        Bins of numeric attributes that declare none. ``"private"`` releases bins by a noisy tree of
        counts, for three tenths of the budget together. ``"equal"`` makes ten bins of equal width
        at no cost.
    random_state : int or None, default None
        None draws noise from the operating system's cryptographic source. A number is for tests:
        the guarantee then states that the seed must be secret.
    budget : Filter, Composition or None, default None
        A budget shared with other releases from the same table. It is charged before the first
        noisy value is released.
    progress : callable, bool or None, default None
        Called with the name of a stage and the share of the work done, in [0, 1]. It shows nothing
        private. True draws a bar in a terminal or notebook, and prints each stage elsewhere.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        Strategy for missing cells. ``"joint"`` models values and missing cells together. Every row
        counts in every table, and missing cells of synthetic rows are filled from the model.
        ``"observed"`` (PrivBayesE, Mohapatra et al. 2024) counts each table over the rows in which
        its attributes are observed. ``"complete-rows"`` drops rows with a missing cell before
        anything else. ``"impute-first"`` fills missing cells privately first.
    degree : "auto" or int, default "auto"
        Largest number of parents of an attribute, from 0 to 6. ``"auto"`` has at most two parents,
        as long as tables are useful (``theta``).
    theta : float, default 8.0
        Smallest ratio of the mean count of a table to its noise scale, above 0, for
        ``degree="auto"``.
    structure_share : float from 0.0001 to 0.99, default 0.1
        Share of the budget for choosing parents.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        Rule by which ``missing="impute-first"`` fills missing cells. ``"marginal"`` draws from a
        noisy one-way marginal. ``"mean"`` fills a numeric attribute with its noisy mean, and draws
        others from the noisy marginal. ``"random"`` draws any public level at no cost.
    imputer_share : float from 0.0001 to 0.99, default 0.1
        Share of the budget for the marginals of the imputer.

    Attributes
    ----------
    guarantee_ : Guarantee
        The guarantee of everything that the fit released, with its conditions.
    n_rows_ : int
        Released or declared number of rows, at least 1.
    n_rows_std_ : float
        Standard deviation of the noise of ``n_rows_``, in rows. 0 if the number was declared.

    Raises
    ------
    ParameterError
        Raised by ``fit`` before the charge, if a parameter has no valid value, or ``degree`` allows
        too many tables.

    References
    ----------
    Zhang, Cormode, Procopiuc, Srivastava, Xiao (2017), "PrivBayes: private data release via
    Bayesian networks", ACM Transactions on Database Systems 42(4).

    Mohapatra, Zong, Kerschbaum, He (2024), "Differentially private data generation with missing
    data", PVLDB 17(8).

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
        """Return the released Bayesian network: parents and conditional table of each attribute.

        A child is an attribute whose distribution depends on its parents.

        Returns
        -------
        Network
            Its nodes are in the order in which attributes are drawn, parents before children.
            Released.

        Raises
        ------
        NotFittedError
            If the synthesizer is not fitted.
        """
        network: Network = self.fitted_.model.network
        return network
