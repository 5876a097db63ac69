"""Exact inference in log-linear models, and their fit to noisy marginals.

A junction tree is calibrated by the propagation of Lauritzen and Spiegelhalter (1988): upward the
logarithms of messages are added to the small tables that they stand beside, and those to the large
ones, so that the exponential of each clique's table is taken once; downward in Hugin form.
`Calibrated` then gives any marginal.

`fit_entropy` fits the maximum-entropy model that agrees with noisy marginals. Measured marginals
``y_r`` (proportions with noise of standard deviation ``s_r`` per cell) define the log-linear model
``p(x) ∝ exp(Σ_r θ_r(x_r))``.  The fit minimises the strictly convex

    log Z(θ) − Σ_r ⟨θ_r, y_r⟩ + ½ Σ_r λ_r‖θ_r‖²,      λ_r = shrink · s_r,

the dual of maximum entropy with a quadratic allowance for the noise: at the optimum the residual
of each cell is ``y − μ = λθ``, a fraction ``shrink·θ`` of its noise.  ``shrink → 0`` gives the
least-squares fit of Private-PGM (McKenna, Sheldon and Miklau 2019); a positive value keeps the
model from chasing noise.  Parameters are held within ±30, odds that no table can tell from
certainty, and live on the measured marginals, whatever the junction tree is, so the next fit
starts from the last one even after a new clique changed the tree.

What follows from a model stays true as long as the model does (`Drift`): a marginal follows from
the cliques on the way between its attributes in the junction tree.  As long as none of them has
moved by more than a tolerance, what was worked out still holds, up to a few times the tolerance.
That the tree itself has changed does not matter: cliques are only ever added to what a model is
fitted to, so the model before has every independence that the one after has, and factors in the
same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from missdp.inference.junction import Clique, JunctionTree
from missdp.types import Floats

_FEW = 1000  # cells: less than the time to ask for a sum
_LONG = 16  # cells in a row, with which plain sums are the quickest


def _axes(inner: Clique, outer: Clique) -> tuple[int, ...]:
    """Axes of a table over ``outer`` to sum out to reach ``inner``."""
    keep = set(inner)
    return tuple(i for i, v in enumerate(outer) if v not in keep)


def _summed(table: Floats, axes: tuple[int, ...]) -> Floats:
    """Sum a table over some axes, quickly: NumPy's own sum is slow where few cells lie in a row."""
    if not axes:
        return table
    if table.size < _FEW:
        return np.asarray(np.add.reduce(table, axis=axes))
    for shape, after in _sums(table.shape, axes):
        table = table.reshape(shape)
        if shape[2] >= _LONG or shape[0] == 1:
            table = np.add.reduce(table, axis=1)
        else:
            table = np.einsum("abc->ac", table)
        table = table.reshape(after)
    return table


@lru_cache(maxsize=4096)
def _sums(
    shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[tuple[tuple[int, int, int], tuple[int, ...]], ...]:
    """Single sums, of neighbouring axes each, that make up a sum: shapes before and after."""
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    # What lies far apart in memory is quick to add, and makes the rest smaller.
    left, steps = list(enumerate(shape)), []
    for run in runs:
        gone = set(run)
        first = next(i for i, (axis, _) in enumerate(left) if axis in gone)
        sizes = [size for _, size in left]
        last = first + len(run)
        three = (prod(sizes[:first]), prod(sizes[first:last]), prod(sizes[last:]))
        left = left[:first] + left[last:]
        steps.append((three, tuple(size for _, size in left)))
    return tuple(steps)


def _contract(operands: Sequence[tuple[Floats, Clique]], out: Clique) -> Floats:
    """Multiply tables, each with its attributes, and sum out all attributes but ``out``.

    One after the other: all at once, every combination of all their cells would be gone through.
    Einstein summation has 52 subscripts: attributes are numbered anew among those that take part,
    which are a few, however many attributes there are.
    """
    while len(operands) > 2:
        first, second, *others = operands
        later = set(out).union(*(clique for _, clique in others))
        kept = tuple(v for v in dict.fromkeys((*first[1], *second[1])) if v in later)
        operands = [(_contract([first, second], kept), kept), *others]
    number = {v: i for i, v in enumerate(dict.fromkeys(v for _, c in operands for v in c))}
    arguments: list[object] = []
    for table, clique in operands:
        arguments += [table, [number[v] for v in clique]]
    return np.einsum(*arguments, [number[v] for v in out])  # type: ignore[call-overload,no-any-return]


def _safe_ratio(top: Floats, bottom: Floats) -> Floats:
    """Quotient with 0/0 = 0."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


class _Propagation:
    """Turn tables over small sets of attributes into the marginals of their product, in one tree.

    What does not change from fit to fit of one model is worked out once: where each table goes,
    and how its marginal is read off.

    * ``cliques``: Attributes of each table; each inside a clique of the tree.
    * ``forbidden``, optional: Cells (True) whose probability is exactly zero.
    """

    def __init__(
        self,
        tree: JunctionTree,
        cliques: Sequence[Clique],
        forbidden: Mapping[Clique, NDArray[np.bool_]] | None = None,
    ) -> None:
        self.tree = tree
        barred = {c: np.where(table, -np.inf, 0.0) for c, table in (forbidden or {}).items()}
        homes = _homes(tree, [*cliques, *barred])
        inside: list[dict[Clique, int]] = [{whole: 0} for whole in tree.cliques]
        for clique, home in homes.items():
            inside[home].setdefault(clique, len(inside[home]))
        for child, separator in enumerate(tree.separators):
            if separator:
                around = inside[tree.parents[child]]
                around.setdefault(separator, len(around))
        self._place = [(homes[c], inside[homes[c]][c]) for c in cliques]
        self._barriers = [(homes[c], inside[homes[c]][c], table) for c, table in barred.items()]
        self._links = [
            (parent, inside[parent][separator] if separator else -1)
            for parent, separator in zip(tree.parents, tree.separators, strict=True)
        ]
        # Of each table in a clique: the axes to sum out, and its shape beside the clique's.
        self._inside = [
            [
                (_axes(c, whole), tuple(tree.sizes[v] if v in c else 1 for v in whole))
                for c in tables
            ]
            for whole, tables in zip(tree.cliques, inside, strict=True)
        ]
        self._ups = [
            (_axes(sep, own), tuple(tree.sizes[v] if v in sep else 1 for v in own))
            for sep, own in zip(tree.separators, tree.cliques, strict=True)
        ]
        self._potentials = [np.empty(tree.shape(c)) for c in tree.cliques]

    def run(self, logs: Sequence[Floats]) -> tuple[list[Floats], float]:
        """Return the marginal of each table's attributes, and the logarithm of the normaliser."""
        on: list[list[list[Floats]]] = [[[] for _ in tables] for tables in self._inside]
        for (home, k), table in zip(self._place, logs, strict=True):
            on[home][k].append(table)
        for home, k, table in self._barriers:
            on[home][k].append(table)
        with np.errstate(divide="ignore"):  # the logarithm of an impossible cell's zero
            messages, log_z = self._upward(on)
        read = self._downward(messages)
        return [read[home][k] for home, k in self._place], log_z

    def law(self) -> Calibrated:
        """Return the distribution of the last run, which must be the last."""
        return Calibrated(self.tree, self._potentials)

    def _upward(self, on: list[list[list[Floats]]]) -> tuple[list[Floats], float]:
        """Leave each clique's table, with all that comes from below, up to a factor."""
        messages: list[Floats] = [np.ones(())] * len(self._inside)
        log_z = 0.0
        for i in range(len(self._inside) - 1, -1, -1):
            table = self._potentials[i]
            # Logarithms may be large and cancel, so they are added up before the exponential.
            table[...] = 0.0
            for (_, shape), tables in zip(self._inside[i], on[i], strict=True):
                if tables:
                    table += sum(tables[1:], start=tables[0]).reshape(shape)
            top = float(table.max())
            if not top > -math.inf:
                raise ValueError("nothing is possible")
            np.subtract(table, top, out=table)
            np.exp(table, out=table)
            log_z += top
            message = _summed(table, self._ups[i][0])
            messages[i] = message
            parent, k = self._links[i]
            if k < 0:  # what nothing hangs on
                log_z += math.log(message)
            else:
                on[parent][k].append(np.log(message))
        return messages, log_z

    def _downward(self, messages: list[Floats]) -> list[list[Floats]]:
        """Give each clique what it has not heard of, and read everything off it."""
        read: list[list[Floats]] = []
        for i, table in enumerate(self._potentials):
            parent, k = self._links[i]
            if k < 0:
                table /= messages[i]
            else:
                # Nothing drifts: both are sums over the same cells, so the quotient is a law.
                ratio = _safe_ratio(read[parent][k], messages[i])
                table *= ratio.reshape(self._ups[i][1])
            read.append([_summed(table, axes) for axes, _ in self._inside[i]])
        return read


def _homes(tree: JunctionTree, cliques: Iterable[Clique]) -> dict[Clique, int]:
    """Where each table goes: to the smallest one around it, or the smallest clique of the tree."""
    homes: dict[Clique, int] = {}
    holding: dict[int, list[Clique]] = {}
    for clique in sorted(set(cliques), key=lambda c: (-len(c), c)):
        wanted = set(clique)
        known = [c for v in clique[:1] for c in holding.get(v, ()) if wanted.issubset(c)]
        around = min(known, key=lambda c: prod(tree.shape(c)), default=None)
        home = tree.home(clique) if around is None else homes[around]
        assert home is not None  # every tree is built for the cliques that it is asked about
        homes[clique] = home
        for v in clique:
            holding.setdefault(v, []).append(clique)
    return homes


class Calibrated:
    """A distribution given by consistent marginals, ``beliefs``, of a junction tree's cliques."""

    def __init__(self, tree: JunctionTree, beliefs: Sequence[Floats]) -> None:
        self.tree = tree
        self.beliefs = tuple(beliefs)
        self._carried: dict[tuple[int, Clique], Floats] = {}
        self._bridges: dict[tuple[int, int, int], Floats] = {}

    def marginal(self, clique: Clique) -> Floats:
        """Marginal over any sorted set of attributes, inside one tree clique or not."""
        i = self.tree.home(clique)
        if i is not None:
            return self.local(i, clique)
        return self._pair(*clique) if len(clique) == 2 else self._carry_top(clique)

    def local(self, i: int, clique: Clique) -> Floats:
        """Marginal over attributes of the i-th tree clique."""
        return _summed(self.beliefs[i], _axes(clique, self.tree.cliques[i]))

    def _pair(self, a: int, b: int) -> Floats:
        """Marginal of two attributes of different cliques, by way of the separators between."""
        i = self.tree.meeting(a, b)
        toward = self.tree.toward[i]
        if b not in toward:
            return self._pair(b, a).T
        j, away = toward[b], (b,)
        if (i, a, j) not in self._bridges:
            order = (a, *self.tree.separators[j])
            if a in toward:
                self._prepare(toward[a], (a,))
            bridge = self._collect(i, tuple(sorted(order)), keep=())
            bridge = bridge.transpose([sorted(order).index(v) for v in order])
            self._bridges[i, a, j] = bridge.reshape(len(bridge), -1)
        if (j, away) not in self._carried:
            self._prepare(j, away)
        other = self._conditional(j, away)
        return np.asarray(self._bridges[i, a, j] @ other.reshape(-1, other.shape[-1]))

    def _carry_top(self, query: Clique) -> Floats:
        """Marginal of attributes spread over several cliques: meet at the lowest common one."""
        top, tree = 0, self.tree
        while True:
            child = next(tree.toward[top][v] for v in query if v not in tree.cliques[top])
            if not tree.below[child].issuperset(query):
                break
            top = child
        for part in self._parts(top, query).items():
            self._prepare(*part)
        return self._collect(top, query, keep=())

    def _parts(self, i: int, query: Clique) -> dict[int, Clique]:
        """Split what clique i does not hold by the child below which it lies."""
        toward = self.tree.toward[i]
        parts: dict[int, Clique] = {}
        for v in query:
            if v in toward:
                parts[toward[v]] = (*parts.get(toward[v], ()), v)
        return parts

    def _prepare(self, j: int, away: Clique) -> None:
        """Work conditionals out from the far end, so that long chains need no deep recursion."""
        chain = [(j, away)]
        while len(parts := self._parts(*chain[-1])) == 1:
            chain += parts.items()
        for part in parts.items():  # at most as many levels of these as there are attributes
            self._prepare(*part)
        for clique, asked in reversed(chain):
            self._conditional(clique, asked)

    def _collect(self, i: int, query: Clique, keep: Clique) -> Floats:
        """P(query, keep) from the subtree of clique i; ``keep`` is inside the clique."""
        here = self.tree.cliques[i]
        operands: list[tuple[Floats, Clique]] = []
        terms: list[tuple[Clique, Clique]] = []
        for j, away in self._parts(i, query).items():
            separator = self.tree.separators[j]
            terms.append((separator, away))
            operands.append((self._conditional(j, away), (*separator, *away)))
        wanted = set(query) | set(keep)
        needed = {v for v in here if v in wanted}.union(*(set(s) for s, _ in terms))
        inner = tuple(sorted(needed))
        return _contract([(self.local(i, inner), inner), *operands], tuple(sorted(wanted)))

    def _conditional(self, j: int, away: Clique) -> Floats:
        """P(away | separator of j), separator axes first; cached, queries share it."""
        key = (j, away)
        if key not in self._carried:
            sep = self.tree.separators[j]
            joint = self._collect(j, away, keep=sep)
            order = tuple(sorted((*sep, *away)))
            joint = joint.transpose([order.index(v) for v in (*sep, *away)])
            base = joint.sum(axis=tuple(range(len(sep), joint.ndim)), keepdims=True)
            self._carried[key] = _safe_ratio(joint, np.broadcast_to(base, joint.shape))
        return self._carried[key]


Parameters = dict[Clique, Floats]

_LARGEST = 30.0  # bound on a parameter: no step of the optimiser may over- or underflow a message


@dataclass(frozen=True)
class Target:
    """A noisy marginal, in proportions.

    * ``clique``: Sorted attribute positions.
    * ``values``: Noisy proportions, one axis per attribute; may be negative.
    * ``std``: Standard deviation of the noise of each cell, above 0.
    """

    clique: Clique
    values: Floats
    std: float | Floats


def log_linear(
    sizes: Sequence[int],
    parameters: Mapping[Clique, Floats],
    forbidden: Mapping[Clique, NDArray[np.bool_]] | None = None,
) -> tuple[Calibrated, float]:
    """Return the distribution ``exp(Σ θ) / Z`` and ``log Z``."""
    tree = JunctionTree.build(sizes, [*parameters, *(forbidden or {})])
    propagation = _Propagation(tree, list(parameters), forbidden)
    log_z = propagation.run(list(parameters.values()))[1]
    return propagation.law(), log_z


def fit_entropy(
    sizes: Sequence[int],
    targets: Sequence[Target],
    *,
    shrink: float,
    iterations: int,
    start: Mapping[Clique, Floats] | None = None,
    forbidden: Mapping[Clique, NDArray[np.bool_]] | None = None,
) -> tuple[Calibrated, Parameters]:
    """Fit the regularised maximum-entropy model to noisy marginals."""
    from scipy.optimize import Bounds, minimize

    tree = JunctionTree.build(sizes, [*(t.clique for t in targets), *(forbidden or {})])
    propagation = _Propagation(tree, [t.clique for t in targets], forbidden)
    spans = np.cumsum([0, *(t.values.size for t in targets)])
    y = np.concatenate([t.values.ravel() for t in targets])
    std = [np.broadcast_to(np.asarray(t.std, dtype=float), t.values.shape) for t in targets]
    allowance = shrink * np.concatenate([s.ravel() for s in std])
    # The Hessian's diagonal is about λ + μ(1 − μ): scaling by it treats rare and common alike.
    scale = 1.0 / np.sqrt(allowance + np.clip(y, 0.0, 0.5))
    begin = dict(start or {})
    theta0 = np.concatenate(
        [np.asarray(begin.get(t.clique, np.zeros(t.values.shape))).ravel() for t in targets]
    )

    def split(theta: Floats) -> list[Floats]:
        return [
            theta[spans[k] : spans[k + 1]].reshape(t.values.shape) for k, t in enumerate(targets)
        ]

    def objective(scaled: Floats) -> tuple[float, Floats]:
        theta = scaled * scale
        parts, log_z = propagation.run(split(theta))
        pull = allowance * theta
        value = log_z - float(theta @ y) + 0.5 * float(theta @ pull)
        return value, (np.concatenate([p.ravel() for p in parts]) - y + pull) * scale

    options = {"maxiter": iterations, "maxcor": 12, "gtol": 1e-9, "ftol": 0.0}
    bounds = Bounds(-_LARGEST / scale, _LARGEST / scale)
    found = minimize(
        objective, theta0 / scale, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    best = split(found.x * scale)
    propagation.run(best)
    parameters = {t.clique: part for t, part in zip(targets, best, strict=True)}
    return propagation.law(), parameters


class Drift:
    """Follow the marginals of a model's cliques from fit to fit, as cliques are added."""

    def __init__(self) -> None:
        self._law: Calibrated | None = None
        self._known: dict[Clique, NDArray[np.float64]] = {}
        self._held: list[int] = []
        self._piece: list[int] = []

    def see(self, law: Calibrated, tolerance: float) -> None:
        """Compare with what was seen before."""
        tree = law.tree
        known: dict[Clique, NDArray[np.float64]] = {}
        part: list[int] = []  # connected parts of the tree that stayed as they were; -1: moved
        piece: list[int] = []  # pieces that have nothing to do with each other
        self._held, self._piece = [0] * len(tree.sizes), [0] * len(tree.sizes)
        for i, (clique, belief) in enumerate(zip(tree.cliques, law.beliefs, strict=True)):
            before = self._known.get(clique)
            if before is None and self._law is not None:
                before = self._law.marginal(clique)
            still = before is not None and float(np.abs(belief - before).sum()) <= tolerance
            known[clique] = before if before is not None and still else belief
            part.append(i if still else -1)
            piece.append(i)
            if tree.separators[i]:
                parent = tree.parents[i]
                piece[i] = piece[parent]
                if still and part[parent] >= 0:
                    part[i] = part[parent]
            for v in clique:
                self._piece[v] = piece[i]
                self._held[v] |= 1 << part[i] if still else 0
        self._law, self._known = law, known

    def still(self, clique: Clique) -> bool:
        """Whether what the last two laws seen say of these attributes is about the same."""
        common: dict[int, int] = {}
        for v in clique:
            common[self._piece[v]] = common.get(self._piece[v], -1) & self._held[v]
        return all(common.values())
