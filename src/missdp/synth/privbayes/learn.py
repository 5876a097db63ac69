"""Learn a network: choose families, then measure their tables, all through the door."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.door import Clique, Door, Noise, Total
from missdp.synth.privbayes.plan import Plan, TableRule, usefulness_rule
from missdp.synth.privbayes.structure import (
    DEPENDENCE,
    Family,
    candidates,
    reachable_cliques,
)
from missdp.synth.projection import make_consistent
from missdp.synth.totals import least_squares_total

__all__ = ["Learner"]

_CELLS_PER_CALL = 50_000_000  # 400 MB of counts


class Learner:
    """Choose and measure families over one view of the private rows.

    Parameters
    ----------
    door : Door
        Asked for each choice of parents.
    plan : Plan
    tables : Door
        The same rows; asked for each table.
    total : Total or None
        Released number of rows that the door counts.
    report : callable
        Progress; gets public facts only.
    """

    def __init__(
        self,
        door: Door,
        plan: Plan,
        *,
        tables: Door,
        total: Total | None,
        report: Callable[[str, float], None],
    ) -> None:
        self._door, self._tables = door, tables
        self._plan, self._rows = plan, total
        self._report = report
        self._names = door.schema.names
        #: Released number of rows behind each measured table.
        self.totals: dict[Clique, Total] = {}

    def choose_families(self, *, degree: int | str, theta: float) -> tuple[Family, ...]:
        """Choose parents for every attribute, one private selection at a time.

        The first attribute is the one with fewest codes: a public choice, so it is free.
        """
        sizes = self._door.sizes
        rows = self._rows.value if self._rows is not None else 0.0
        rule, most = usefulness_rule(
            sizes, degree=degree, theta=theta, n_rows=max(0.0, rows), plan=self._plan
        )
        self._expect(rule, most)
        first = min(self._names, key=lambda name: sizes[name])
        chosen = [Family(first, ())]
        waiting = [name for name in self._names if name != first]
        while waiting:
            self._report("choosing parents", 0.1 + 0.5 * len(chosen) / len(self._names))
            placed = tuple(family.child for family in chosen)
            family = self._select(candidates(placed, waiting, rule, most))
            chosen.append(family)
            waiting.remove(family.child)
        return tuple(chosen)

    def measure(self, families: tuple[Family, ...]) -> dict[Clique, NDArray[np.float64]]:
        """Release every family's table as consistent proportions on the simplex."""
        sizes = self._door.sizes
        cliques = self._to_measure(families)
        cells = {clique: math.prod(sizes[n] for n in clique) for clique in cliques}
        scales = self._plan.noise_scales(cells)
        noisy = {}
        for i, clique in enumerate(cliques):
            self._report("measuring tables", 0.6 + 0.3 * i / len(cliques))
            noisy[clique] = self._release(clique, scales[clique])
        totals = self._normalisers()
        consistent = make_consistent(
            {clique: table / totals[clique] for clique, table in noisy.items()},
            {clique: (scales[clique] / totals[clique]) ** 2 for clique in cliques},
        )
        return {f.clique: _table_of(f.clique, consistent) for f in families}

    def _expect(self, rule: TableRule, degree: int) -> None:
        """Have every family that can come up counted in one pass over the rows.

        Not if they would fill the memory: then they are counted when they are needed.
        """
        cliques = reachable_cliques(self._names, rule, degree)
        schema = self._door.schema
        if sum(math.prod(schema.extended_shape(clique)) for clique in cliques) <= _CELLS_PER_CALL:
            self._door.expect(cliques)

    def _select(self, families: list[Family]) -> Family:
        # Charged even if only one family is left to choose from: what a fit spends must not depend
        # on what it found, or its total would be an outcome and no guarantee.
        cliques = [family.clique for family in families]
        epsilon = self._plan.selection_epsilon
        return families[self._door.select(cliques, DEPENDENCE, epsilon=epsilon)]

    def _release(self, clique: Clique, scale: float) -> NDArray[np.float64]:
        noise = Noise("laplace" if self._plan.pure else "gaussian", scale)
        released = self._tables.marginal(clique, noise)
        self.totals[clique] = Total(float(released.sum()), released.size * noise.variance)
        return released.astype(np.float64)

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
