"""Learn a network: choose families, then measure their tables. Every step is charged first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Budget
from missdp.mechanisms import NoiseSource, exponential_mechanism, release_counts
from missdp.sources import Clique
from missdp.synth.privbayes.plan import Plan, TableRule, usefulness_rule
from missdp.synth.privbayes.structure import (
    SCORE_SENSITIVITY,
    Family,
    candidates,
    dependence_score,
    family_counts,
    in_order,
    reachable_cliques,
)
from missdp.synth.projection import make_consistent
from missdp.synth.strategies import CountingView
from missdp.synth.totals import Total, least_squares_total

__all__ = ["Learner"]

_CELLS_AT_ONCE = 50_000_000  # 400 MB of counts


class Learner:
    """Choose and measure families over one view of the private rows.

    Parameters
    ----------
    view : CountingView
    plan : Plan
    budget : Budget
        Charged before each choice of parents.
    noise : NoiseSource
    tables : Budget
        Charged before each table.
    report : callable
        Progress; gets public facts only.
    """

    def __init__(
        self,
        view: CountingView,
        plan: Plan,
        budget: Budget,
        noise: NoiseSource,
        *,
        tables: Budget,
        report: Callable[[str, float], None],
    ) -> None:
        self._view = view
        self._plan = plan
        self._budget, self._tables = budget, tables
        self._noise = noise
        self._report = report
        self._names = view.schema.names
        self._rule: TableRule
        self._degree = 0
        self._scores: dict[Family, float] = {}
        #: Released number of rows behind each measured table.
        self.totals: dict[Clique, Total] = {}

    def choose_families(self, *, degree: int | str, theta: float) -> tuple[Family, ...]:
        """Choose parents for every attribute, one private selection at a time.

        The first attribute is the one with fewest codes: a public choice, so it is free.
        """
        sizes = self._view.sizes()
        rows = self._view.total.value if self._view.total is not None else 0.0
        self._rule, self._degree = usefulness_rule(
            sizes, degree=degree, theta=theta, n_rows=max(0.0, rows), plan=self._plan
        )
        first = min(self._names, key=lambda name: sizes[name])
        chosen = [Family(first, ())]
        waiting = [name for name in self._names if name != first]
        while waiting:
            self._report("choosing parents", 0.1 + 0.5 * len(chosen) / len(self._names))
            placed = tuple(family.child for family in chosen)
            family = self._select(
                candidates(placed, waiting, self._rule, self._degree), len(chosen)
            )
            chosen.append(family)
            waiting.remove(family.child)
        return tuple(chosen)

    def measure(self, families: tuple[Family, ...]) -> dict[Clique, NDArray[np.float64]]:
        """Release every family's table as consistent proportions on the simplex."""
        sizes = self._view.sizes()
        cliques = self._to_measure(families)
        cells = {clique: math.prod(sizes[n] for n in clique) for clique in cliques}
        scales = self._plan.noise_scales(cells)
        noisy = {}
        for i, clique in enumerate(cliques):
            self._report("measuring tables", 0.6 + 0.3 * i / len(cliques))
            noisy[clique] = self._release(clique, scales[clique])
        self.totals = {c: self._total(table, scales[c]) for c, table in noisy.items()}
        totals = self._normalisers()
        consistent = make_consistent(
            {clique: table / totals[clique] for clique, table in noisy.items()},
            {clique: (scales[clique] / totals[clique]) ** 2 for clique in cliques},
        )
        return {f.clique: _table_of(f.clique, consistent) for f in families}

    @cached_property
    def _all_counts(self) -> Mapping[Clique, NDArray[np.int64]] | None:
        """Exact counts of every family that can come up, private, from one pass over the data.

        None if they would fill the memory: then they are counted when they are needed.
        """
        cliques = reachable_cliques(self._names, self._rule, self._degree)
        if sum(map(self._cells, cliques)) > _CELLS_AT_ONCE:
            return None
        return self._view.source.counts(cliques, rows=self._view.rows)

    def _count(self, cliques: Iterable[Clique]) -> Mapping[Clique, NDArray[np.int64]]:
        if self._all_counts is not None:
            return self._all_counts
        return self._view.source.counts(cliques, rows=self._view.rows)

    def _cells(self, clique: Clique) -> int:
        return math.prod(self._view.schema.extended_shape(clique))

    def _select(self, families: list[Family], step: int) -> Family:
        # Charged even if only one family is left to choose from: what a fit spends must not depend
        # on what it found, or its total would be an outcome and no guarantee.
        winner = exponential_mechanism(
            lambda: self._score(families),
            epsilon=self._plan.selection_epsilon,
            sensitivity=SCORE_SENSITIVITY,
            budget=self._budget,
            source=self._noise,
            gate=self._view.gated_by,
            label=f"parents, choice {step}",
        )
        return families[winner]

    def _score(self, families: list[Family]) -> NDArray[np.float64]:
        """Scores of the families, each computed once in a fit."""
        for batch in self._batches([f for f in families if f not in self._scores]):
            cliques = dict.fromkeys(in_order(f.clique, self._names) for f in batch)
            counts = self._count(cliques)
            for family in batch:
                self._scores[family] = dependence_score(family_counts(family, counts, self._names))
        return np.array([self._scores[family] for family in families])

    def _batches(self, families: list[Family]) -> Iterator[list[Family]]:
        """Families whose counts are held at once."""
        batch: list[Family] = []
        cells = 0
        for family in families:
            size = self._cells(family.clique)
            if batch and cells + size > _CELLS_AT_ONCE:
                yield batch
                batch, cells = [], 0
            batch.append(family)
            cells += size
        if batch:
            yield batch

    def _release(self, clique: Clique, scale: float) -> NDArray[np.float64]:
        ordered = in_order(clique, self._names)
        axes = [ordered.index(name) for name in clique]
        noisy = release_counts(
            lambda: self._count([ordered])[ordered].transpose(axes),
            noise="laplace" if self._plan.pure else "gaussian",
            scale=scale,
            sensitivity=1,
            budget=self._tables,
            source=self._noise,
            gate=self._view.gate(clique),
            label="table " + " x ".join(clique),
        )
        return noisy.astype(np.float64)

    def _to_measure(self, families: tuple[Family, ...]) -> list[Clique]:
        """Cliques to measure: a family inside another one needs no table of its own.

        Of partial marginals nothing is left out, and every one-way margin is added: a smaller
        clique is observed in more rows, so that it is sharper and less biased when cells do not go
        missing completely at random.
        """
        cliques = list(dict.fromkeys(family.clique for family in families))
        if not self._view.every_row_counts:
            return list(dict.fromkeys([*cliques, *((name,) for name in self._names)]))
        return [c for c in cliques if not any(set(c) < set(other) for other in cliques)]

    def _total(self, noisy: NDArray[np.float64], scale: float) -> Total:
        cell = 2 * scale**2 if self._plan.pure else scale**2
        return Total(float(noisy.sum()), noisy.size * cell)

    def _normalisers(self) -> dict[Clique, float]:
        """Rows behind each table: its own noisy sum, or that of all tables if they count alike."""
        if not self._view.every_row_counts:
            return {clique: max(1.0, total.value) for clique, total in self.totals.items()}
        counted = [] if self._view.total is None else [self._view.total]
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
