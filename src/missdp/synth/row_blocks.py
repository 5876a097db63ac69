"""Synthetic rows drawn in blocks, so that there may be any number of them.

Rows are always drawn like this, however they are wanted: a table is its blocks, one after the
other. So a file that is written block by block has exactly the rows that the same seed gives as one
table. The number of blocks follows from the number of rows and columns alone.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from missdp.errors import ParameterError
from missdp.schema import Schema
from missdp.schema.grid import uncut
from missdp.sources import Strategy, strategy_named
from missdp.sources.modelled import Modelled
from missdp.synth.restore import KindShares, restored
from missdp.synth.state import FittedState, is_whole, sampling_generator
from missdp.table import FrameKind, Holes, Table, check_holes
from missdp.table.blocks import in_order
from missdp.table.memory import batch_room
from missdp.threads import one_blas_thread

__all__ = ["MissingValues", "Sampler", "block_sizes", "drawn_in_blocks"]

MissingValues: TypeAlias = Literal["fill", "keep"]

_CELLS = 3_000_000  # in a block
_ROWS = (20_000, 200_000)  # at least, where there are many columns; at most
_JOBS = 2  # threads that draw, if there is memory for as many blocks and two more
_BYTES_PER_CELL = 20


def block_sizes(n: int, columns: int) -> list[int]:
    """Return how many rows each block has; there is always one, perhaps without rows.

    Examples
    --------
    >>> block_sizes(0, 5), block_sizes(200_000, 5), block_sizes(500_000, 5)
    ([0], [200000], [166667, 166667, 166666])
    """
    most = min(max(_CELLS // max(1, columns), _ROWS[0]), _ROWS[1])
    blocks = max(1, -(-n // most))
    return [n // blocks + (k < n % blocks) for k in range(blocks)]


def drawn_in_blocks(
    draw: Callable[[int, np.random.Generator], Table],
    sizes: list[int],
    rng: np.random.Generator,
    columns: int,
) -> Iterator[Table]:
    """Yield blocks of rows, each drawn by itself; one at a time where memory is short.

    Parameters
    ----------
    draw : callable
        ``draw(rows, rng)`` returns a block.
    sizes : list of int
    rng : numpy Generator
        A single block draws from it; each of several from one of its own, spawned from it.
    columns : int
    """
    if len(sizes) == 1:
        yield draw(sizes[0], rng)
        return
    blocks = zip(sizes, rng.spawn(len(sizes)), strict=True)
    if (_JOBS + 2) * _BYTES_PER_CELL * columns * sizes[0] > batch_room():
        yield from (draw(*block) for block in blocks)
        return
    yield from in_order(lambda block: draw(*block), blocks, n_jobs=_JOBS)


class Sampler(FittedState, abc.ABC):
    """A released model of which rows are drawn, at no cost to privacy: half of a synthesizer."""

    reads_masks: ClassVar[bool] = False  # whether "observed" reads every row, and what is missing

    schema_: Schema
    kind_: FrameKind
    n_rows_: int
    random_state: int | None
    _fitted_with: dict[str, Any]
    _kind_shares: KindShares

    def sample(
        self,
        n: int | None = None,
        *,
        missing_values: MissingValues = "fill",
        random_state: int | None = None,
        multiple: int | None = None,
        holes: Holes = "nulls",
    ) -> Any:
        """Draw synthetic rows; costs no privacy.

        Parameters
        ----------
        n : int, optional
            Number of rows, at least 0; by default ``n_rows_``, the released or declared row count,
            which is at least 1.
        missing_values : {"fill", "keep"}, default "fill"
            ``"keep"`` returns holes as the model saw them, for models of the missingness.
        random_state : int, optional
            Makes the draw repeatable. Sampling is post-processing, so any seed is safe; its stream
            is never the noise's.
        multiple : int, optional
            Draw that many tables, at least 2, each from a model of its own that differs from the
            fitted one by as much as noise, sampling and holes leave unknown. Combine estimates of
            means and shares with :func:`~missdp.evaluate.combine_estimates`. One refit each; AIM
            and MST only. Intervals of regression coefficients do not hold.
        holes : {"nulls", "codes"}, default "nulls"
            What a cell without a value comes back as: null, or the first code that the schema
            declares for its kind of missing.

        Returns
        -------
        frame, or list of frames if ``multiple`` is given
            As was fitted, with the schema's columns and dtypes.
        """
        check_holes(holes)
        if multiple is not None:
            models = self.uncertain_models(multiple, random_state=random_state)
            return [model.sample(n, missing_values=missing_values, holes=holes) for model in models]
        return self.sample_table(
            n, missing_values=missing_values, random_state=random_state
        ).to_native(holes=holes)

    def uncertain_models(self, multiple: int, *, random_state: int | None = None) -> Iterator[Self]:
        """Return that many models, each a refit that varies as this one is uncertain.

        Each draws by a seed of its own: these are the models of ``sample(multiple=...)``, one after
        the other, for tables that memory does not hold together.

        Parameters
        ----------
        multiple : int
            At least 2.
        random_state : int, optional
            Makes the models repeatable, and what is drawn from them.

        Raises
        ------
        ParameterError
            If the family has no such models: all but AIM and MST.
        """
        if not (is_whole(multiple) and multiple >= 2):
            raise ParameterError("multiple must be a whole number of tables, at least 2")
        self._check_fitted()
        rng = sampling_generator(self.random_state if random_state is None else random_state)
        return self._each_with_seed(self._uncertain(int(multiple), rng), rng)

    def _each_with_seed(self, models: Iterator[Self], rng: np.random.Generator) -> Iterator[Self]:
        while True:
            with one_blas_thread():
                model = next(models, None)
            if model is None:
                return
            model.random_state = int(rng.integers(2**63))
            # Whatever it was fitted to was made up from this release, and promises what this does.
            model.guarantee_ = self.guarantee_
            yield model

    def sample_table(
        self,
        n: int | None = None,
        *,
        missing_values: MissingValues = "fill",
        random_state: int | None = None,
    ) -> Table:
        """Draw synthetic rows as a :class:`~missdp.Table`; see :meth:`sample`."""
        return Table.joined(
            self.sample_blocks(n, missing_values=missing_values, random_state=random_state)
        )

    def sample_blocks(
        self,
        n: int | None = None,
        *,
        missing_values: MissingValues = "fill",
        random_state: int | None = None,
    ) -> Iterator[Table]:
        """Return the same rows in blocks, drawn one after the other: for more than memory holds.

        Rows that must fit to each other, by rules about two rows, come as one block.
        """
        self._check_fitted()
        if n is not None and not (is_whole(n) and n >= 0):
            raise ParameterError("n must be a whole number of rows, at least 0")
        if missing_values not in ("fill", "keep"):
            raise ParameterError("missing_values must be 'fill' or 'keep'")
        if missing_values == "keep" and not self._applied_strategy.models_holes:
            raise ParameterError(
                f"missing={self._applied_strategy.name!r} does not model holes; to keep them, fit "
                "with missing='joint', or a family that offers it"
            )
        rng = sampling_generator(self.random_state if random_state is None else random_state)
        rows = self.n_rows_ if n is None else int(n)
        together = self.draws_together(self.schema_)
        sizes = [rows] if together else block_sizes(rows, len(self.schema_))
        return drawn_in_blocks(partial(self._block, missing_values), sizes, rng, len(self.schema_))

    @one_blas_thread()
    def _block(self, missing_values: MissingValues, rows: int, rng: np.random.Generator) -> Table:
        if self._modelled.is_whole:
            codes = self._sample(rows, missing_values, rng)
            drawn = Table.from_codes(self.schema_, codes, kind=self.kind_).with_values(rng)
        else:
            one = partial(self._sample, missing_values=missing_values, rng=rng)
            shares = self._kind_shares
            drawn = restored(self._modelled, one, rows, rng, shares=shares, kind=self.kind_)
        return self._finished(drawn, rng).coded_as(uncut(self.schema_))

    @property
    def modelled_(self) -> Schema:
        """Public facts about what is modelled: ``schema_``, made plainer by its rules.

        Attributes that follow from others are left out, "not applicable" is one more level of its
        attribute, and all other kinds of missing are one.
        """
        return self._modelled.schema

    @cached_property
    def _modelled(self) -> Modelled:
        return Modelled(self.schema_)

    @property
    def _applied_strategy(self) -> Strategy:
        """The strategy that the model was fitted with."""
        return self.strategy_of(self._fitted_with["missing"])

    @classmethod
    def strategy_of(cls, missing: str) -> Strategy:
        """Return the strategy that a word of ``strategies`` stands for in this family."""
        found = strategy_named(missing)
        if cls.reads_masks and found.name == "observed":
            return replace(found, rows="extended", gates="none")
        return found

    # What a family provides

    @abc.abstractmethod
    def _sample(
        self, n: int, missing_values: MissingValues, rng: np.random.Generator
    ) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """Draw codes of every modelled attribute; see :attr:`modelled_`."""

    def _uncertain(self, multiple: int, rng: np.random.Generator) -> Iterator[Self]:
        """Yield fitted models that vary as this one is uncertain."""
        del multiple, rng
        raise ParameterError(
            f"{type(self).__name__} cannot draw tables that vary as its model is uncertain: leave "
            "'multiple' out, or use AIM for means and shares; no family's intervals hold for "
            "regression coefficients yet"
        )

    def _finished(self, table: Table, rng: np.random.Generator) -> Table:  # noqa: ARG002
        return table  # with what one row alone cannot settle

    def draws_together(self, schema: Schema) -> bool:  # noqa: ARG002
        """Whether all synthetic rows are drawn at once, since they must fit to each other."""
        return False
