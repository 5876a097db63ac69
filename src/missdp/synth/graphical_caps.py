"""What the parts of a fit of AIM or MST cost at most, from public facts and parameters.

Row locality and charges are the door's; here is why the parts of a fit stay within these caps,
whatever comes out, for marginals over the rows observed on them. The number of rows is released
once, and every one-way marginal once, with noise that parameters fix. What is left then is spent on
rounds: a selection, within a cap of its own that the learner keeps to, and a marginal of the
workload. Pairs that a share is kept back for, and marginals measured once more, are of the workload
too, or inside one of its marginals.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from missdp.accounting import Cost
from missdp.inference.junction import Clique, components
from missdp.inference.model import Zeros
from missdp.schema import Schema
from missdp.synth.caps import Caps, Gate, chosen_caps, costs_less, one_gate_caps
from missdp.synth.kept_back import pairs_of
from missdp.synth.learn_graphical import EVEN, Plan

__all__ = ["graphical_caps"]

_MOST = 20_000  # marginals; more are not worth the while
_ROUNDED = 1 + 1e-6
_TRIED = 50


def graphical_caps(
    whole: Cost,
    plan: Plan,
    schema: Schema,
    *,
    count_share: float,
    trees: Mapping[str, float],
    weights: Mapping[Clique, float],
    zeros: Zeros,
    ruled: bool,
    gate_of: Callable[[Iterable[str]], Gate],
    gates: Literal["none", "schema", "parameters", "data"],
) -> Caps | None:
    """Return the caps of a fit; None where everything may read every row.

    Parameters
    ----------
    whole : Cost
    plan : Plan
    schema : Schema
        Of what is modelled.
    count_share : float
        Of what ``plan`` may spend, for the number of rows.
    trees : mapping of str to float
        Cost of finding the bins of each attribute that is to be cut.
    weights : mapping of Clique to float
        Marginals that may be selected.
    zeros : mapping of Clique to ndarray of bool
        Cells that are known to be impossible.
    ruled : bool
        Whether there are rules.
    gate_of : callable
        Returns the attributes that a row must have observed to enter a marginal.
    gates : {"none", "schema", "parameters", "data"}
        Who chose them.
    """
    names, counted = schema.names, count_share * plan.whole.amount
    if gates == "schema":
        return one_gate_caps(whole, ungated=counted, gate=gate_of(()))
    if gates != "data" or len(weights) > _MOST:
        return None

    def gate(clique: Iterable[int]) -> Gate:
        return gate_of([names[v] for v in clique])

    singles = [(v,) for v in range(len(names))]
    ones = (plan.first_share if weights else 1.0) * (plan.whole.amount - counted) / len(names)
    alone = {gate(single): ones + trees.get(names[single[0]], 0.0) for single in singles}
    fixed = {gate: cost for gate, cost in alone.items() if gate}
    left = plan.whole.amount - counted - ones * len(names)
    pairs = pairs_of(weights)
    unknown = bool(trees) and ruled  # which cells of bins that are yet to be found are impossible
    again = singles if unknown or not _one_fits(weights, zeros, schema, plan) else []
    if costs_less(whole, counted, ones):
        return None
    return chosen_caps(
        whole,
        ungated=counted + ones * len(names) + math.fsum(trees.values()) - math.fsum(fixed.values()),
        selections=plan.selection_share * left * _ROUNDED if len(weights) > 1 else 0.0,
        fixed=fixed,
        among=[gate(clique) for clique in dict.fromkeys([*weights, *pairs, *again])],
        largest=None if zeros or unknown else _largest(plan, left, pairs, len(names)),
    )


def _one_fits(weights: Iterable[Clique], zeros: Zeros, schema: Schema, plan: Plan) -> bool:
    """Whether some marginal surely fits into the model, so that none of one attribute is chosen.

    Whatever the order of elimination, a part of the graph that is one clique has the cells of it,
    and another one at most those of all its attributes together, once for each of them. Levels that
    are merged make both smaller.
    """
    sizes = [max(2, a.extended_size) for a in schema]

    def cells(clique: Clique) -> int:
        held = [*zeros, clique]
        parts: dict[int, list[int]] = defaultdict(list)
        for v, part in enumerate(components(len(sizes), held)):
            parts[part].append(v)
        whole = {frozenset(c) for c in held}
        return sum(
            math.prod(sizes[v] for v in part) * (1 if frozenset(part) in whole else len(part))
            for part in parts.values()
        )

    def alone(clique: Clique) -> int:
        return math.prod(sizes[v] for v in clique)

    tried = heapq.nsmallest(_TRIED, weights, key=alone)
    return not tried or any(cells(clique) <= plan.max_cells for clique in tried)


def _largest(plan: Plan, left: float, pairs: list[Clique], attributes: int) -> float | None:
    """Return the cap of every single marginal of a spanning tree; None if there may be none.

    With all pairs in the workload, and no rules, a tree is always found: as long as it is not
    whole, there is more than one pair that joins two parts of it, if there are three attributes or
    more. So each edge gets the same cost, the pairs outside the tree share evenly what was kept
    back for them, and nothing is left to measure any of them again.
    """
    whole, edges = attributes * (attributes - 1) // 2, attributes - 1
    if not plan.forest or attributes < 3 or len(pairs) != whole:
        return None
    edge = (1 - plan.selection_share) * left / edges
    if costs_less(plan.whole, edge):
        return None
    kept = plan.kept_back.share * plan.whole.amount / (whole - edges)
    return max(edge, kept) * EVEN * _ROUNDED
