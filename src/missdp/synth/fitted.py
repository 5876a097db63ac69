"""What a fit leaves behind: one frozen record of released values, which is the model's file.

The file is JSON, readable by anyone, executed by no one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from missdp.accounting import FilterEvent, Guarantee, WeightsOfRows
from missdp.accounting.events import ROW
from missdp.accounting.unit_costs import counted_as_one
from missdp.errors import DataError, replacing
from missdp.inference.model import Draws
from missdp.schema import Binning, OpenCategorical, Schema, Unit
from missdp.schema.binning import BinSource
from missdp.schema.modelled import ModelView
from missdp.schema.open_categorical import with_levels
from missdp.serialization import Record, read_json
from missdp.session.strategies import STRATEGIES
from missdp.synth.first_parts import EffectiveSize
from missdp.synth.split import BudgetLimits
from missdp.types import Floats, FrameKind


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted(Record):
    """All that a fit leaves behind: public facts and released values.

    Parameters
    ----------
    family : str
        Name of the class that was fitted.
    parameters : dict of str to object
        The public parameters of the fit.
    declared : Schema
        Public facts about the rows that were counted, without any result of the fit.
    levels : dict of str to tuple of str
        Of attributes with open levels, the levels that were found.
    bins : dict of str to Binning
        Of numeric attributes that declare no bins, the bins that were found, or one for each of few
        numbers.
    frame : {"pandas", "polars", "pyarrow"}
        The kind of frame that was fitted, and is sampled.
    n_rows : int
        How many rows are drawn by default, at least 1.
    n_rows_std : float
        Standard deviation of the noise of the number of rows.
    guarantee : Guarantee
        Of everything that the fit released.
    model : object
        What rows are drawn from; its family knows it.
    tables : object
        What the model was fitted to, for estimates; None if a family keeps nothing.
    measured : tuple of tuple of str
        The marginals that were selected.
    kinds : dict of str to ndarray of shape (n_kinds,)
        Shares of the kinds of missing values, of attributes with several.
    tails : dict of str to ndarray of shape (n_intervals, 4)
        Of numeric attributes, the intervals whose counts did not stand out of the noise: least
        number, greatest number, noisy count in rows, and its standard deviation.
    size : EffectiveSize or None
        How much units count together; None if all count alike.
    limits : BudgetLimits or None
        The caps of the parts of the fit, if it had any.
    draws : {"even", "independent"}
        Whether counts of drawn rows vary less than those of independent rows.
    release : str or None
        The id of the release whose file holds the model.
    ledger : dict of str to object, or None
        The line of a ledger that paid for the release: account, request, number and hash.
    """

    family: str
    parameters: dict[str, Any]
    declared: Schema
    levels: dict[str, tuple[str, ...]]
    bins: dict[str, Binning]
    frame: FrameKind
    n_rows: int
    n_rows_std: float
    guarantee: Guarantee
    model: Any
    tables: Any
    measured: tuple[tuple[str, ...], ...]
    kinds: dict[str, Floats]
    tails: dict[str, Floats]
    size: EffectiveSize | None
    limits: BudgetLimits | None
    draws: Draws
    release: str | None
    ledger: dict[str, Any] | None

    @cached_property
    def unbinned(self) -> Schema:
        """The declared schema with the levels that were found: that of synthetic rows."""
        return with_levels(self.declared, self.levels)

    @cached_property
    def schema(self) -> Schema:
        """The declared schema with the levels and the bins that were found."""
        return self.unbinned.with_bins(self.bins)

    @cached_property
    def modelled(self) -> ModelView:
        """What is modelled: the schema, made plainer by its rules."""
        return ModelView(self.schema)

    @property
    def design(self) -> float:
        """By how much sums over rows vary more than if rows were independent and counted as one."""
        return 1.0 if self.size is None else self.size.design

    @property
    def counted_rows(self) -> float:
        """How many rows that count as one there are, as far as it was released."""
        weighted = self.size is not None and self.size.weight is not None
        # Of weighted rows, `n_rows` is how many independent ones tell as much.
        return max(1.0, self.size.total if weighted and self.size else float(self.n_rows))

    def with_unit(self, schema: Schema) -> Schema:
        """Return a schema with the unit and the weight by which the rows of the fit were read."""
        guarantee, unit = self.guarantee, None
        if guarantee.unit != ROW:
            unit = Unit(guarantee.unit, max_rows=guarantee.max_rows)
            unit = replace(unit, counts_as="one") if counted_as_one(guarantee.events) else unit
        return replace(schema, unit=unit, weight=None if self.size is None else self.size.weight)

    def schema_of_release(self) -> Schema:
        """Return the schema by which the same table can be read again.

        It has the levels and the bins that were found, and names the release of the bins. It keeps
        the unit and the weight. If an account of a ledger paid for the fit, the schema names that
        account, so that another release charges it as well.
        """
        facts = self.with_unit(self.unbinned.with_bins(self.bins | self.released_bins))
        account = str(self.ledger["budget"]).partition("/")[0] if self.ledger else ""
        return replace(facts, ledger=f"#{account}" if account else "")

    @property
    def released_bins(self) -> dict[str, Binning]:
        """The bins that a release found, by attribute; they name the release."""
        found = {n: b for n, b in self.bins.items() if b.source is BinSource.RELEASE}
        return {n: replace(b, release=b.release or self.release or "") for n, b in found.items()}

    @property
    def is_weighted(self) -> bool:
        """Whether rows were counted by a survey weight."""
        return any(isinstance(c, WeightsOfRows) for c in self.guarantee.conditions)

    def _coheres(self) -> bool:
        known = self.parameters.get("missing") in STRATEGIES
        return known and self._results_fit() and self._size_fits()

    def _results_fit(self) -> bool:
        """Whether levels and bins were found only where none are declared."""
        opened = {a.name for a in self.declared if isinstance(a, OpenCategorical)}
        changed = {a.name for a, b in zip(self.schema, self.unbinned, strict=True) if a != b}
        return opened == self.levels.keys() and changed == self.bins.keys()

    def _size_fits(self) -> bool:
        """Whether `size` is stated exactly where units or weights count unequally.

        Limits are stated only with a filter.
        """
        guarantee = self.guarantee
        as_one = guarantee.max_rows == 1 or counted_as_one(guarantee.events)
        filtered = self.limits is None or isinstance(guarantee.events[0], FilterEvent)
        return filtered and (self.size is None) == (as_one and not self.is_weighted)

    def text(self) -> bytes:
        """Return what the model's file holds."""
        document = self.to_document()
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8")


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the parsed text of a model file, whose family is not known yet."""
    broken = not_a_model(path)

    def unreadable(error: BaseException) -> DataError:
        if isinstance(error, FileNotFoundError):
            return DataError(f"there is no model file {str(path)!r}")
        return DataError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None)}")

    with replacing(OSError, by=unreadable), replacing(ValueError, by=broken):
        document = read_json(path.read_bytes().decode("utf-8"))
    if not (isinstance(document, Mapping) and isinstance(document.get("family"), str)):
        raise broken
    return document


def not_a_model(path: Path) -> DataError:
    """Return the error that refuses a file."""
    return DataError(
        f"{str(path)!r} is not a missdp model. Expected a file that `missdp fit` or "
        "`missdp synthesize` wrote."
    )


def release_in(path: Path) -> str | None:
    """Return the id of the release whose model a file is, or None."""
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    found = document.get("release") if isinstance(document, dict) and "family" in document else None
    return found if isinstance(found, str) and re.fullmatch("[0-9a-f]{32}", found) else None
