"""Tables of three attributes and more beside all pairs: those that a workload names.

A workload is a parameter, so that nothing is chosen by data: which tables are measured, behind
which gates, and with what noise, is fixed before anything is read. What they cost is set aside
from what all pairs would get.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.inference.junction import Clique
from missdp.mechanisms.door import Door, Noise
from missdp.schema import Schema
from missdp.synth.learn_pairs import Crude
from missdp.synth.workload import MAX_CELLS, Workload, named_marginals

_SHARE = 0.12  # of what margins leave of the budget, for all tables together
_MOST = 50  # tables: with more, each is noise


@dataclass(frozen=True)
class TopUp:
    """Which tables are measured beside all pairs, each with its share of what margins leave."""

    shares: Mapping[Clique, float]

    @classmethod
    def of(cls, workload: Workload, schema: Schema, *, measured: bool) -> Self:
        """Read a workload; pairs are measured anyway.

        Raises
        ------
        ParameterError
            If it is not understood, has too many tables or too large ones, or needs a top-up where
            none is ``measured``.
        """
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
        for clique in wanted:
            cells = int(np.prod([float(schema[schema.names[a]].extended_size) for a in clique]))
            if cells > MAX_CELLS:
                raise ParameterError(
                    f"the workload's marginal of {', '.join(schema.names[a] for a in clique)} has "
                    f"more than {MAX_CELLS:,} cells"
                )
        total = sum(wanted.values())
        return cls({clique: _SHARE * weight / total for clique, weight in wanted.items()})

    def costs(self, left: Cost) -> dict[Clique, Cost]:
        """Return what each table costs, of what margins leave."""
        return {c: replace(left, amount=share * left.amount) for c, share in self.shares.items()}

    def release(
        self, door: Door, crude: Crude
    ) -> tuple[dict[Clique, NDArray[np.float64]], dict[Clique, float]]:
        """Release all tables, on groups of levels; with the noise of each count."""
        names, found, stds = door.schema.names, {}, {}
        costs, door = self.costs(door.left), door.merged(crude.groups(names))
        door.expect([tuple(names[a] for a in clique) for clique in costs])
        for clique, cost in costs.items():
            noise = Noise.worth(cost)
            counts = door.marginal(tuple(names[a] for a in clique), noise)
            found[clique], stds[clique] = counts.astype(np.float64), noise.scale
        return found, stds
