"""Tables of three attributes and more beside all pairs: those that a workload names.

A workload is a parameter, so that nothing is chosen by data: which tables are measured, behind
which gates, and with what noise, is fixed before anything is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.inference.junction import Clique
from missdp.mechanisms.door import Door, Noise
from missdp.schema import Schema
from missdp.synth.learn_pairs import Crude
from missdp.synth.split import Split
from missdp.synth.workload import MAX_CELLS, Workload, named_marginals

TOP_UP = "tables of the workload"
"""Name of the part of a budget."""

TOP_UP_SHARE = 0.12
"""Share of what margins leave of the budget, for all tables together."""

_MOST = 100  # tables: with more, each is noise


def named_tables(workload: Workload, schema: Schema, *, measured: bool) -> dict[Clique, float]:
    """Return the tables of a workload that all pairs do not tell, with their weights.

    Raises
    ------
    ParameterError
        If the workload is not understood, has too many tables or too large ones, or needs some
        where none is ``measured``.
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
    for names in ([schema.names[a] for a in clique] for clique in wanted):
        if math.prod(schema[name].extended_size for name in names) > MAX_CELLS:
            raise ParameterError(
                f"the workload's marginal of {', '.join(names)} has more than {MAX_CELLS:,} cells"
            )
    return wanted


def release_top_up(
    door: Door, crude: Crude, tables: Mapping[Clique, float], split: Split
) -> tuple[dict[Clique, NDArray[np.float64]], dict[Clique, float]]:
    """Release tables, on groups of levels; with the noise of each count."""
    names, found, stds = door.schema.names, {}, {}
    if tables:
        door = door.merged(crude.groups(names))
        door.expect([tuple(names[a] for a in clique) for clique in tables])
        for clique, cost in zip(tables, split.costs(TOP_UP), strict=True):
            noise = Noise.worth(cost)
            counts = door.marginal(tuple(names[a] for a in clique), noise)
            found[clique], stds[clique] = counts.astype(np.float64), noise.scale
    return found, stds
