"""Learning of a Bayesian network: choose families, then measure their tables, all through the door.

How the budget is split, and how large a table may be, is decided from public facts and released
values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.baselines.network import DEPENDENCE, Family, candidates, reachable_cliques
from missdp.errors import ParameterError
from missdp.mechanisms.door import Clique, Door, Noise, Total
from missdp.synth.noisy_counts import least_squares_total, make_consistent

MAX_CELLS = 200_000
MAX_CLIQUES = 500_000
_AUTO_DEGREE = 2
# What many parts cost together is rounded many times: this much is left unspent for it.
ROOM = 1 - 1e-9
_LEAST_LEFT = 1e-7


@dataclass(frozen=True)
class Plan:
    """What each part of a fit may cost; functions of public parameters only.

    Parameters
    ----------
    whole : Cost
        Of the whole fit: Laplace noise if it is pure, Gaussian noise if not.
    choice_cost : float
        Cost of all choices of parents together.
    table_cost : float
        Cost of all tables together.
    """

    whole: Cost
    choice_cost: float
    table_cost: float

    @property
    def pure(self) -> bool:
        """Whether pure epsilons count."""
        return self.whole.currency == "pure"

    def choice_epsilon(self, cost: float) -> float:
        """Epsilon of a selection that costs so much."""
        return replace(self.whole, amount=cost).selection

    def scale(self, cost: float) -> float:
        """Noise scale (Laplace b, Gaussian sigma) of a table that costs so much."""
        return Noise.worth(replace(self.whole, amount=cost)).scale

    def noise_scales(
        self, cells: Mapping[Clique, int], *, cost: float | None = None
    ) -> dict[Clique, float]:
        """Noise scale of each table, minimising the expected total absolute error.

        Minimising sum(cells * scale) at a fixed total cost gives each table a cost proportional to
        ``cells ** (1/2)`` (Laplace noise) or ``cells ** (2/3)`` (Gaussian noise).
        """
        power = _power(self.pure)
        weight = {clique: size**power for clique, size in cells.items()}
        whole = sum(weight.values())
        all_of_it = self.table_cost if cost is None else cost
        return {clique: self.scale(all_of_it * w / whole) for clique, w in weight.items()}


def smallest_piece(attributes: int, largest: int, *, pure: bool) -> float:
    """Return how many times the cost of a table of one cell goes into that of all tables, at most.

    Beside it there are two tables for each attribute, of the most cells that there may be.
    """
    return 1 + 2 * attributes * math.pow(max(MAX_CELLS, largest), _power(pure))


def _power(pure: bool) -> float:
    """Return the power of cells that costs go with; see `Plan.noise_scales`."""
    return 0.5 if pure else 2.0 / 3.0


def check_degree(degree: int, sizes: Sequence[int]) -> None:
    """Refuse a degree that makes for more sets of parents than can be looked at.

    Examples
    --------
    >>> check_degree(2, [3] * 50)
    >>> check_degree(4, [3] * 50)
    Traceback (most recent call last):
        ...
    missdp.errors.ParameterError: degree 4 makes ...
    """
    if _many_cliques(degree, sizes, MAX_CELLS):
        raise ParameterError(
            f"degree {degree} makes for more than {MAX_CLIQUES:,} possible tables of these "
            "attributes; use a smaller degree, or 'auto'"
        )


def _many_cliques(degree: int, sizes: Sequence[int], cells: float) -> bool:
    """Whether more than `MAX_CLIQUES` sets of up to ``degree + 1`` attributes are small enough."""
    most = sum(math.comb(len(sizes), k) for k in range(1, degree + 2))
    if most <= MAX_CLIQUES:
        return False
    ordered, found = sorted(sizes), 0
    stack = [(0, 1, 0)]  # next attribute, cells so far, attributes so far
    while stack:
        start, product, members = stack.pop()
        for i in range(start, len(ordered)):
            if product * ordered[i] > cells:
                break  # all later ones are larger
            found += 1
            if found > MAX_CLIQUES:
                return True
            if members < degree:
                stack.append((i + 1, product * ordered[i], members + 1))
    return False


def _usefulness_rule(
    sizes: Mapping[str, int], *, degree: int | str, theta: float, n_rows: float, plan: Plan
) -> tuple[Callable[[Clique], bool], int]:
    """Return the public rule on which tables are small enough, and the largest number of parents.

    With ``degree="auto"`` a table is useful if its mean count per cell is at least ``theta``
    times the noise scale (Zhang et al. 2017, theta-usefulness), with the *released* row count; a
    degree given as a number replaces the rule by a plain memory limit.
    """
    cells, most = float(MAX_CELLS), _AUTO_DEGREE if degree == "auto" else int(degree)
    if degree == "auto":
        cells = min(
            max(0.0, n_rows) / (theta * plan.scale(plan.table_cost / len(sizes))), MAX_CELLS
        )
        while most > 1 and _many_cliques(most, list(sizes.values()), cells):
            most -= 1
    return lambda clique: math.prod(map(sizes.__getitem__, clique)) <= cells, most


class Learner:
    """Choose and measure families over one view of the private rows.

    ``tables`` is asked for each table: the same door, or what is set aside for tables.
    """

    def __init__(
        self,
        door: Door,
        plan: Plan,
        *,
        tables: Door,
        total: Total | None,
        report: Callable[[str, float], None],
        ruled: Iterable[Clique] = (),
    ) -> None:
        self._door, self._tables, self._ruled = door, tables, tuple(ruled)
        self._plan, self._rows = plan, total
        self._report = report
        self._names = door.schema.names
        #: Released number of rows behind each measured table.
        self.totals: dict[Clique, Total] = {}
        self._noisy: dict[Clique, NDArray[np.float64]] = {}
        self._variances: dict[Clique, float] = {}

    def choose_families(self, *, degree: int | str, theta: float) -> tuple[Family, ...]:
        """Choose parents for every attribute, one private selection at a time.

        The first attribute is the one with fewest codes: a public choice, so it is free.
        """
        sizes = self._door.sizes
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
            found = candidates(placed, waiting, rule, most, ruled=self._ruled)
            family = found[0]
            if len(found) > 1:
                cost = left / len(waiting)
                family, left = self._select(found, cost), left - cost
            chosen.append(family)
            waiting.remove(family.child)
        return tuple(chosen)

    def measure(self, families: tuple[Family, ...]) -> dict[Clique, NDArray[np.float64]]:
        """Release every family's table as consistent proportions on the simplex."""
        sizes = self._door.sizes
        cells = {
            clique: math.prod(sizes[n] for n in clique) for clique in self._to_measure(families)
        }
        self._report("measuring tables", 0.6)
        if self._tables is not self._door:  # what was set aside for tables, and what choices left
            self._release(cells, self._tables, self._plan.table_cost)
        left = self._door.left.amount * ROOM
        if left > _LEAST_LEFT * self._plan.table_cost:
            self._release(cells, self._door, left)
        totals = self._normalisers()
        consistent = make_consistent(
            {clique: table / totals[clique] for clique, table in self._noisy.items()},
            {clique: var / totals[clique] ** 2 for clique, var in self._variances.items()},
        )
        return {f.clique: _table_of(f.clique, consistent) for f in families}

    def _expect(self, rule: Callable[[Clique], bool], degree: int) -> None:
        """Have every family that can come up counted in one pass over the rows.

        Not if they would fill the memory: then they are counted when they are needed.
        """
        schema = self._door.schema
        sizes = {a.name: a.extended_size for a in schema}
        cliques, cells = [], 0
        for clique in reachable_cliques(self._names, rule, degree):
            cliques.append(clique)
            cells += math.prod(map(sizes.__getitem__, clique))
            if cells > _CELLS_PER_CALL:
                return
        self._door.expect(cliques)

    def _select(self, families: list[Family], cost: float) -> Family:
        cliques = [family.clique for family in families]
        pure, epsilon = self._plan.pure, self._plan.choice_epsilon(cost)
        # Permute-and-flip where pure epsilons count; its range is not bounded, for zCDP.
        method: Literal["exponential", "permute-and-flip"]
        method = "permute-and-flip" if pure else "exponential"
        return families[self._door.select(cliques, DEPENDENCE, epsilon=epsilon, method=method)]

    def _release(self, cells: Mapping[Clique, int], door: Door, cost: float) -> None:
        """Measure tables, or measure them again and take means weighted by precision."""
        scales = self._plan.noise_scales(cells, cost=cost)
        for clique, scale in scales.items():
            noise = Noise("laplace" if self._plan.pure else "gaussian", scale)
            table, variance = door.marginal(clique, noise).astype(np.float64), noise.variance
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
        if not self._door.every_row_counts:
            return list(dict.fromkeys([*cliques, *((name,) for name in self._names)]))
        return [c for c in cliques if not any(set(c) < set(other) for other in cliques)]

    def _normalisers(self) -> dict[Clique, float]:
        """Rows behind each table: its own noisy sum, or that of all tables if they count alike."""
        if not self._door.every_row_counts:
            return {clique: max(1.0, total.value) for clique, total in self.totals.items()}
        counted = [] if self._rows is None else [self._rows]
        everywhere = least_squares_total([*counted, *self.totals.values()])
        return dict.fromkeys(self.totals, max(1.0, everywhere.value))


def _table_of(clique: Clique, tables: Mapping[Clique, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Table over a clique, from its own measurement or summed out of a larger one."""
    if clique in tables:
        return tables[clique]
    larger = next(other for other in tables if set(clique) <= set(other))
    out = tuple(i for i, name in enumerate(larger) if name not in clique)
    rest = [name for name in larger if name in clique]
    summed = tables[larger].sum(axis=out)
    return np.transpose(summed, [rest.index(name) for name in clique])


_CELLS_PER_CALL = 50_000_000  # 400 MB of counts
