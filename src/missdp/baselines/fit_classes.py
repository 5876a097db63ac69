"""The table of classes that a critic of pairs cannot tell from the private rows.

All is post-processing of released means. The expected features of a table of classes are known
exactly: given a class, attributes are independent, so the mean of a product of blocks is a product
of means. The generator descends on what the critic can still tell, in units of the released noise,
and stops where that is no more than noise: what is left would be noise learned by heart. Several
fits from random starts are mixed, which halves what noise they still took for signal.

Missing cells start independent of the classes (values missing completely at random). Where the
products of an attribute's missing cells with all other attributes differ from that by more than
noise, its chance of being observed becomes the class's own: values missing at random, given the
class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from missdp.baselines.adversarial import as_array, import_torch, torch_device
from missdp.baselines.networks import known_margins
from missdp.inference.masks import RowModel
from missdp.inference.model import Levels, draw, finite, split_rows
from missdp.inference.products import clipped_away
from missdp.synth.learn_pairs import Crude, PairRelease
from missdp.types import Flags, Floats, Ints

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class ClassTable(RowModel):
    """A distribution of rows: given a hidden class, values and missing cells are independent."""

    levels: tuple[Levels, ...]  # how those of each attribute are grouped
    shares: Floats  # of the classes
    heads: tuple[Floats, ...]  # the law of each attribute's groups, by class
    observed: Floats  # chance that a value is, by class and attribute
    always: dict[int, int]  # by attribute, a group of levels that is never missing
    n_rows: float  # that were counted

    def _coheres(self) -> bool:
        classes, sizes = len(self.shares), [level.n_groups for level in self.levels]
        return (
            [head.shape for head in self.heads] == [(classes, size) for size in sizes]
            and self.shares.shape == (classes,)
            and self.observed.shape == (classes, len(sizes))
            and {*self.always} <= {*range(len(sizes))}
            and finite((self.shares, *self.heads, self.observed), least=0.0)
            and all((head.sum(axis=1) > 0).all() for head in (self.shares[np.newaxis], *self.heads))
        )

    def sample(
        self, n: int, rng: np.random.Generator, *, keep_holes: bool
    ) -> list[NDArray[np.int64]]:
        """Draw ``n`` rows, spread evenly over classes and levels; ``size`` is a missing cell."""
        rows, holes = self._drawn(n, rng)
        return split_rows(self.levels, rows, holes & keep_holes, rng)

    def with_holes(self, n: int, rng: np.random.Generator) -> Ints:
        """Draw rows on groups of levels; a hole has the code after the last group."""
        rows, holes = self._drawn(n, rng)
        return np.where(holes, [head.shape[1] for head in self.heads], rows)

    def _drawn(self, n: int, rng: np.random.Generator) -> tuple[Ints, Flags]:
        """Return the values of ``n`` rows, and where they are missing."""
        classes = draw(self.shares[np.newaxis], np.zeros(n, dtype=np.int64), rng)
        rows = np.stack([draw(head, classes, rng) for head in self.heads], axis=1)
        holes = np.asarray(rng.random(rows.shape) >= self.observed[classes])
        for a, group in self.always.items():
            holes[:, a] &= rows[:, a] != group
        return rows, holes

    @classmethod
    def mixed(cls, tables: list[Self]) -> Self:
        """Return the mixture of several tables of the same attributes, all of equal weight."""
        first = tables[0]
        return cls(
            first.levels,
            np.concatenate([table.shares for table in tables]) / len(tables),
            tuple(np.concatenate(parts) for parts in zip(*(t.heads for t in tables), strict=True)),
            np.concatenate([table.observed for table in tables]),
            first.always,
            first.n_rows,
        )


_SPREAD = 0.5  # of the logits of classes at the start
_SETTLING = 100
_LEARNING_RATE = 0.05
_EVIDENCE = 5.0  # standard deviations
_KEPT = 0.9  # of the average of parameters, at each step
_ROWS = 20_000, 100_000  # by which clipping is undone, at least and at most
_CHANCE = 0.15  # of what they tell, times the square root of their number, over the noise
_TURNS = 12
_STEPS = 300  # of a turn, at most
_WINDOW = 50
_STILL = 0.003  # share by which a window must lower what the critic tells
_LOWER = 0.99  # share of what the critic told after the last turn: another one changes nothing


def fit_classes(
    moments: PairMoments,
    *,
    classes: int,
    fits: int,
    conditional: bool,
    always: dict[int, int],
    rng: np.random.Generator,
    report: Callable[[float], None],
) -> ClassTable:
    """Return a generator that a critic of pairs cannot tell from the private rows."""
    found = []
    for k in range(fits):
        fit = _Fit.started(moments, classes, always, rng)
        fit.settle(rng)
        if conditional and fit.open_holes():
            fit.settle(rng)
        found.append(fit.table())
        report((k + 1) / fits)
    return ClassTable.mixed(found)


@dataclass(frozen=True, eq=False)
class PairMoments:
    """What a critic of pairs knows of the private rows: released means of clipped features.

    These are the blocks of `missdp.synth.learn_pairs` and all products of two attributes' blocks. A
    critic that is linear in them is a kernel: all that it can tell is the length of the difference
    of private and generated means (Gretton et al. 2012).
    """

    crude: Crude
    blocks: tuple[Floats, ...]  # what each code of each attribute stands for
    single: Floats  # mean of the blocks of all attributes, one after the other
    products: Floats  # mean of their products; 0 for two numbers of one attribute
    single_std: float
    product_std: float
    clip: float  # norm to which a row's vector was clipped
    alone: float  # factor of blocks in it

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where the blocks of the attributes begin and end."""
        return np.cumsum([0, *(block.shape[1] for block in self.blocks)])

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Which numbers of ``products`` are: those of two attributes, shape (D, D)."""
        whose = np.repeat(np.arange(len(self.blocks)), np.diff(self.ends))
        return np.asarray(whose[:, np.newaxis] != whose)

    @property
    def margin_std(self) -> float:
        """Standard deviation of the noise of each share in the initial marginals."""
        return self.crude.std / self.crude.rows

    def corrected(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return the means with what clipping takes from a model's rows put back."""
        lost = clipped_away(rows, self.blocks, clip=self.clip, alone=self.alone)
        both = _laid_out(lost.pairs, self.blocks)
        return self.single + np.concatenate(lost.single), self.products + both

    @classmethod
    def of(cls, release: PairRelease) -> PairMoments:
        """Return the means that one release of all pairs tells: a critic in closed form."""
        assert release.products is not None  # there are two attributes or more
        assert release.plan is not None
        found, rows = release.products, release.crude.rows
        blocks = tuple(release.blocks)
        places = combinations(range(len(blocks)), 2)
        tables = zip(places, found.pairs.values(), strict=True)
        return cls(
            release.crude,
            blocks,
            np.concatenate([*found.single.values()]).astype(np.float64) / rows,
            _laid_out({place: table / rows for place, table in tables}, blocks),
            found.single_std / rows,
            found.std / rows,
            release.plan.clip,
            release.plan.alone,
        )


def _laid_out(pairs: dict[tuple[int, int], Floats], blocks: tuple[Floats, ...]) -> Floats:
    """Return the tables of pairs as one symmetric table."""
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
    whole = np.zeros((int(ends[-1]), int(ends[-1])))
    for (a, b), table in pairs.items():
        whole[ends[a] : ends[a + 1], ends[b] : ends[b + 1]] = table
        whole[ends[b] : ends[b + 1], ends[a] : ends[a + 1]] = table.T
    return whole


@dataclass(eq=False)
class _Fit:
    """A table of classes under way: parameters on a device, and their running average."""

    moments: PairMoments
    always: dict[int, int]
    shares: Tensor
    heads: list[Tensor]
    holes: list[Tensor | None]
    blocks: list[Tensor]
    known: Tensor
    margins: list[Tensor]
    target: tuple[Tensor, Tensor]

    @classmethod
    def started(
        cls,
        moments: PairMoments,
        classes: int,
        always: dict[int, int],
        rng: np.random.Generator,
    ) -> _Fit:
        """Return classes that differ at random, with the released margins on average."""
        torch, device = import_torch(), torch_device()

        def held(values: Any, *, learned: bool = False) -> Tensor:
            tensor: Tensor = torch.tensor(
                np.asarray(values, dtype=np.float32), device=device, requires_grad=learned
            )
            return tensor

        heads: list[Tensor] = []
        holes: list[Tensor | None] = []
        crude = moments.crude
        for margin, known in zip(crude.margins, known_margins(crude)[0], strict=True):
            heads.append(held(_logits(known, classes, rng), learned=True))
            if len(margin) > len(known):
                chance = float(np.clip(margin[: len(known)].sum(), 1e-3, 1 - 1e-3))
                holes.append(held([[math.log(chance / (1 - chance))]], learned=True))
            else:
                holes.append(None)
        return cls(
            moments,
            always,
            held(np.zeros(classes), learned=True),
            heads,
            holes,
            [held(block) for block in moments.blocks],
            torch.tensor(moments.known, device=device),
            [held(margin) for margin in crude.margins],
            (held(moments.single), held(moments.products)),
        )

    def settle(self, rng: np.random.Generator) -> None:
        """Descend until the critic tells no more than noise, putting back what clipping takes."""
        torch = import_torch()
        last = math.inf
        rows = int(np.clip((_CHANCE / self.moments.product_std) ** 2, *_ROWS))
        for _ in range(_TURNS):
            single, products = self.moments.corrected(self.table().with_holes(rows, rng))
            self.target = tuple(
                torch.tensor(part, dtype=torch.float32, device=self.shares.device)
                for part in (single, products)
            )
            told = self._descend()
            if told > last * _LOWER:
                break
            last = told

    def _descend(self) -> float:
        """Take steps down, average the parameters, and return what the critic then tells."""
        torch = import_torch()
        learned = self._learned
        optimiser = torch.optim.Adam(learned, lr=_LEARNING_RATE)
        average = [part.detach().clone() for part in learned]
        last, window, explained = math.inf, 0.0, 1 + math.sqrt(2 / self._cells)
        for step in range(1, _STEPS + 1):
            loss, told = self._told()
            if told <= explained:
                break
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            with torch.no_grad():
                for kept, part in zip(average, learned, strict=True):
                    kept.mul_(_KEPT).add_(part, alpha=1 - _KEPT)
            window += float(loss.detach())
            if step % _WINDOW == 0:
                if window > last * (1 - _STILL):
                    break
                last, window = window, 0.0
        with torch.no_grad():
            for kept, part in zip(average, learned, strict=True):
                part.copy_(kept)
        return max(told, explained)

    @property
    def _learned(self) -> list[Tensor]:
        return [self.shares, *self.heads, *(part for part in self.holes if part is not None)]

    def _told(self) -> tuple[Tensor, float]:
        """Return what the critic tells, and its products' mean square in units of noise."""
        torch = import_torch()
        shares, laws = self._laws()
        blocks = torch.cat([q @ b for q, b in zip(laws, self.blocks, strict=True)], dim=1)
        weighted = blocks * shares[:, None]
        single, products = self.target
        off = (weighted.T @ blocks - products) * self.known
        told = off.square().sum() / 2 / self.moments.product_std**2
        loss = told + (weighted.sum(0) - single).square().sum() / self.moments.single_std**2
        for law, margin in zip(laws, self.margins, strict=True):
            loss = loss + (shares @ law - margin).square().sum() / self.moments.margin_std**2
        return loss / self._cells, float(told.detach()) / self._cells

    @property
    def _cells(self) -> float:
        """Number of products, whose mean square is 1 give or take √(2 / cells) if all is noise."""
        return max(1.0, float(self.moments.known.sum()) / 2)

    def _laws(self) -> tuple[Tensor, list[Tensor]]:
        """Return the shares of the classes, and the law of each attribute's codes in each."""
        torch = import_torch()
        shares, laws = torch.softmax(self.shares, 0), []
        for a, (head, hole) in enumerate(zip(self.heads, self.holes, strict=True)):
            law = torch.softmax(head, 1)
            if hole is not None:
                seen = torch.sigmoid(hole).expand(len(law), 1)
                never = law[:, self.always[a], None] if a in self.always else 0.0
                missing = (1 - seen) * (1 - never)
                kept = law * seen
                if a in self.always:
                    whole = torch.zeros_like(law)
                    whole[:, self.always[a]] = 1.0
                    kept = law * (seen + (1 - seen) * whole)
                law = torch.cat([kept, missing], 1)
            laws.append(law)
        return shares, laws

    def open_holes(self) -> bool:
        """Let missing cells depend on the class where evidence says so; say whether any do.

        For each attribute the products of "missing" with what all others are: a χ² of how far they
        are from what they would be without dependence, given the noise and that rows are a sample.
        """
        torch = import_torch()
        with torch.no_grad():
            shares, laws = self._laws()
            blocks = torch.cat([q @ b for q, b in zip(laws, self.blocks, strict=True)], dim=1)
            model = as_array((blocks * shares[:, None]).T @ blocks)
            known, ends, rows = self.moments.known, self.moments.ends, self.moments.crude.rows
            off = np.where(known, model - as_array(self.target[1]), 0.0)
        sizes, turn = self._spread(model)
        opened = False
        for a, hole in enumerate(self.holes):
            place = int(ends[a + 1]) - 1  # the number that says whether a value is missing
            if hole is None or not known[place].any():
                continue
            chance = self._second(a)[-1, -1] * sizes / rows + self.moments.product_std**2
            squares = float((np.square(turn.T @ off[place]) / chance).sum())
            if (squares - len(sizes)) / math.sqrt(2 * len(sizes)) > _EVIDENCE:
                wide = hole.detach().expand(len(self.shares), 1).clone()
                self.holes[a] = wide.requires_grad_()
                opened = True
        return opened

    def _spread(self, model: Floats) -> tuple[Floats, Floats]:
        """Return how features go together over rows of the model: a diagonal, and its turn."""
        ends = self.moments.ends
        for a in range(len(self.blocks)):
            span = slice(int(ends[a]), int(ends[a + 1]))
            model[span, span] = self._second(a)
        sizes, turn = np.linalg.eigh(model)
        return np.maximum(sizes, 0.0), turn

    def _second(self, a: int) -> Floats:
        """Return the mean of the products of an attribute's own block, by its margin."""
        margin, block = self.moments.crude.margins[a], self.moments.blocks[a]
        return np.asarray(block.T @ (margin[:, np.newaxis] * block))

    def table(self) -> ClassTable:
        """Return the table as it is now."""
        torch = import_torch()
        heads = tuple(as_array(torch.softmax(head, 1)) for head in self.heads)
        classes = len(self.shares)
        observed = [
            np.ones(classes)
            if hole is None
            else as_array(torch.sigmoid(hole).expand(classes, 1))[:, 0]
            for hole in self.holes
        ]
        shares = as_array(torch.softmax(self.shares, 0))
        crude = self.moments.crude
        return ClassTable(
            crude.levels,
            shares / shares.sum(),
            tuple(head / head.sum(axis=1, keepdims=True) for head in heads),
            np.stack(observed, axis=1),
            self.always,
            crude.rows,
        )


def _logits(margin: Floats, classes: int, rng: np.random.Generator) -> Floats:
    """Return random logits of classes whose laws are the margin on average."""
    from scipy.special import softmax

    logits = np.log(margin) + _SPREAD * rng.standard_normal((classes, len(margin)))
    for _ in range(_SETTLING):
        logits += np.log(margin / softmax(logits, axis=1).mean(axis=0))
    return np.asarray(logits)
