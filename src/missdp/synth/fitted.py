"""The record of a fit: frozen released values, which are the content of the model's file.

The file is JSON text. Reading it executes no code.
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
from missdp.accounting.unit_costs import unit_counts_once
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
    """Record of all results of the fit of a synthesizer: public facts and released values.

    It is frozen, and it is the content of the file that `Synthesizer.save` writes. It holds no
    private value, so everything computed from it is post-processing without cost.
    ``Synthesizer.fitted_`` returns it.

    Parameters
    ----------
    family : str
        Name of the class that was fitted.
    parameters : dict of str to object
        The public parameters of the fit.
    declared : Schema
        Public facts about the counted rows, without any result of the fit.
    levels : dict of str to tuple of str
        Released levels of the attributes with open levels (attributes whose levels the fit finds).
    bins : dict of str to Binning
        Released bins of the numeric attributes that declare none, or a bin for each of a few
        numbers.
    frame : {"pandas", "polars", "pyarrow"}
        The kind of frame that was fitted, and is sampled.
    n_rows : int
        Released or declared number of rows, at least 1. It is the default number of synthetic rows.
    n_rows_std : float
        Standard deviation of the noise of the number of rows, in rows, at least 0. It is 0 if the
        number was declared.
    guarantee : Guarantee
        The guarantee of everything that the fit released.
    model : object
        The released model of the family.
    tables : object
        The released tables to which the model was fitted. None if the family does not keep them.
    measured : tuple of tuple of str
        The marginals (tables of counts) that a noisy selection chose, by attribute names.
    kinds : dict of str to ndarray of shape (n_kinds,)
        Released shares of the kinds of missing values, for attributes with several kinds.
    tails : dict of str to ndarray of shape (n_intervals, 4)
        Intervals of numeric attributes whose counts did not exceed the noise. A row has the lower
        bound, the upper bound, the noisy count in rows and its standard deviation.
    size : EffectiveSize or None
        Released sums of the weights of units. None if all units count equally.
    limits : BudgetLimits or None
        The largest costs (caps) of the parts of the fit, if it has any. Public.
    draws : {"even", "independent"}
        Whether counts of drawn rows vary less than counts of independent rows.
    release : str or None
        The id of the release whose file holds the model. Public.
    ledger : dict of str to object, or None
        The entry of a ledger that paid for the release: see `Synthesizer.ledger_`. Public.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Notes
    -----
    `Synthesizer.fit` makes the record. Make no record by hand.

    Examples
    --------
    >>> from missdp import AllPairs
    >>> from missdp.datasets import yrbss
    >>> model = AllPairs(epsilon=1.0, random_state=0).fit(yrbss().table())
    >>> model.fitted_.family, model.fitted_.guarantee.epsilon <= 1.0
    ('AllPairs', True)
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
        """Return the schema of synthetic rows: the declared schema with the released levels.

        It has no released bins.

        Returns
        -------
        Schema
            Public facts and released levels.
        """
        return with_levels(self.declared, self.levels)

    @cached_property
    def schema(self) -> Schema:
        """Return the schema of the fit: the declared schema with the released levels and bins.

        Returns
        -------
        Schema
            Public facts, and released levels and bins.
        """
        return self.unbinned.with_bins(self.bins)

    @cached_property
    def modelled(self) -> ModelView:
        """Return the attributes that the released model describes, as a view of the schema.

        Attributes that follow from others by a rule are left out. "Not applicable" is one more
        level.

        Returns
        -------
        ModelView
            Public facts, and released levels and bins.
        """
        return ModelView(self.schema)

    @property
    def design(self) -> float:
        """Return the released design effect of the units and weights of the fitted rows.

        It is the variance of sums over rows, relative to independent rows that count as one.

        Returns
        -------
        float
            A factor above 0. It is 1 if all rows count equally and each row is a unit of its
            own. Released.
        """
        return 1.0 if self.size is None else self.size.design

    @property
    def counted_rows(self) -> float:
        """Return the released total weight of the fitted rows, or their number without weights.

        Returns
        -------
        float
            At least 1. Weights are in units of the largest weight that counts. Released.
        """
        weighted = self.size is not None and self.size.weight is not None
        # For weighted rows, `n_rows` is the effective number of independent rows.
        return max(1.0, self.size.total if weighted and self.size else float(self.n_rows))

    def with_unit(self, schema: Schema) -> Schema:
        """Return a schema with the unit of protection and the survey weight of this fit.

        Parameters
        ----------
        schema : Schema
            A schema of the fitted table. Its own unit and weight are replaced.

        Returns
        -------
        Schema
            The same attributes, with the unit (such as all rows of one person) and the weight by
            which the rows of the fit were read. Public.
        """
        guarantee, unit = self.guarantee, None
        if guarantee.unit != ROW:
            unit = Unit(guarantee.unit, max_rows=guarantee.max_rows)
            unit = replace(unit, counts_as="one") if unit_counts_once(guarantee.events) else unit
        return replace(schema, unit=unit, weight=None if self.size is None else self.size.weight)

    def schema_of_release(self) -> Schema:
        """Return the schema with which the fitted private table can be read for other releases.

        It has the released levels and bins, and names the release of the bins. It has the unit of
        protection and the survey weight of the fit. If an account of a ledger paid for the fit, the
        schema names the account. Another release then charges the account as well.

        Returns
        -------
        Schema
            Public facts and released values.
        """
        facts = self.with_unit(self.unbinned.with_bins(self.bins | self.released_bins))
        account = str(self.ledger["budget"]).partition("/")[0] if self.ledger else ""
        return replace(facts, ledger=f"#{account}" if account else "")

    @property
    def released_bins(self) -> dict[str, Binning]:
        """Return the bins of numeric attributes that the fit released.

        Declared bins are not included.

        Returns
        -------
        dict of str to Binning
            Bins by name of the attribute. Each entry names the id of its release. Released.
        """
        return name_release(self.bins, self.release)

    @property
    def is_weighted(self) -> bool:
        """Return whether the fitted rows were counted by a survey weight.

        Returns
        -------
        bool
            True if a condition of the guarantee names a weight. Public.
        """
        return any(isinstance(c, WeightsOfRows) for c in self.guarantee.conditions)

    def _coheres(self) -> bool:
        is_strategy = self.parameters.get("missing") in STRATEGIES
        return is_strategy and self._results_fit() and self._size_fits()

    def _results_fit(self) -> bool:
        """Return whether levels and bins were released exactly where none are declared."""
        opened = {a.name for a in self.declared if isinstance(a, OpenCategorical)}
        changed = {a.name for a, b in zip(self.schema, self.unbinned, strict=True) if a != b}
        return opened == self.levels.keys() and changed == self.bins.keys()

    def _size_fits(self) -> bool:
        """Return whether `size` is stated exactly where units or weights count unequally.

        Limits are stated only with a filter.
        """
        guarantee = self.guarantee
        as_one = guarantee.max_rows == 1 or unit_counts_once(guarantee.events)
        filtered = self.limits is None or isinstance(guarantee.events[0], FilterEvent)
        return filtered and (self.size is None) == (as_one and not self.is_weighted)

    def text(self) -> bytes:
        """Return the fitted model as JSON text, as a model file holds it.

        Returns
        -------
        bytes
            JSON in UTF-8, with released and public values only.
        """
        document = self.to_document()
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode("utf-8")


def name_release(bins: Mapping[str, Binning], release: str | None) -> dict[str, Binning]:
    """Return the bins that a fit released, each with the id of its release.

    Parameters
    ----------
    bins : mapping of str to Binning
        Bins by the name of the numeric attribute. Declared bins are left out.
    release : str or None
        Id of the release, for bins that do not name an earlier release.

    Returns
    -------
    dict of str to Binning
        The released bins. An unknown release has the id ``""``.
    """
    released = {name: b for name, b in bins.items() if b.source is BinSource.RELEASE}
    return {name: replace(b, release=b.release or release or "") for name, b in released.items()}


def read_document(path: Path) -> Mapping[str, Any]:
    """Return the parsed text of a model file of any family."""
    broken = not_a_model(path)

    def unreadable(error: BaseException) -> DataError:
        if isinstance(error, FileNotFoundError):
            return DataError(f"there is no model file {str(path)!r}")
        return DataError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None)}.")

    with replacing(OSError, by=unreadable), replacing(ValueError, by=broken):
        document = read_json(path.read_bytes().decode("utf-8"))
    if not (isinstance(document, Mapping) and isinstance(document.get("family"), str)):
        raise broken
    return document


def not_a_model(path: Path) -> DataError:
    """Return the error for a file that is not a model."""
    return DataError(
        f"{str(path)!r} is not a missdp model. Expected a file that `missdp fit` or "
        "`missdp synthesize` wrote."
    )


def release_in(path: Path) -> str | None:
    """Return the id of the release whose model a file holds, or None."""
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    is_model = isinstance(document, dict) and "family" in document
    release = document.get("release") if is_model else None
    return release if isinstance(release, str) and re.fullmatch("[0-9a-f]{32}", release) else None
