"""Flags of estimates: errors that the intervals do not cover, in words.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from missdp.estimate.columns import QuestionColumn
from missdp.estimate.estimands import Estimand
from missdp.estimate.interval_estimates import decimals_of_error
from missdp.estimate.released import ReleasedTables
from missdp.estimate.table_statistics import MIN_DIVISOR
from missdp.estimate.tail_intervals import value_range
from missdp.schema import Numeric
from missdp.synth.base import Synthesizer
from missdp.types import Floats

_MAX_ERROR = 0.25  # largest relative error of the number of rows of a group
_MAX_COUNT_NOISE = 0.4  # noise of a count, relative to all rows, up to which intervals hold
_MAX_TAIL_NOISE = 0.3  # largest noise of a count, relative to a known share of a tail
_MIN_TAIL_SHARE = 0.1  # smallest share of the rows in a tail
_MAX_EXTRAPOLATED = 0.05  # share of rows without observed values that needs no flag


def flags_of(
    model: Synthesizer,
    estimand: Estimand,
    released: ReleasedTables,
    values: Floats,
    share_std: Floats,
    half_widths: Floats,
) -> Iterator[str]:
    """Yield the flags of estimates.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    estimand : Estimand
        The question.
    released : Released
        Tables that were released for it.
    values : ndarray
        The estimates.
    share_std : ndarray
        Standard deviations of the shares of rows that the estimates are about.
    half_widths : ndarray
        Half the widths of the intervals.

    Yields
    ------
    str
    """
    if released.count_noise > _MAX_COUNT_NOISE:
        yield (
            "Too few rows for the noise: the standard deviation of a count is "
            f"{released.count_noise:.0%} of the rows. Intervals need not hold."
        )
    share = estimand.values(released.point)[1]
    few = _labels(estimand, share_std > _MAX_ERROR * share)
    if few:
        yield (
            f"Too small for the noise: {few}. Their numbers of rows are hardly known, "
            "and intervals need not hold."
        )
    yield from _unknown_tails(estimand, released, values, share)
    for column in estimand.columns:
        if column.at in released.extremes:
            yield from _hidden_rows(estimand, released, column, half_widths)
    yield from released.flags
    yield from _missing_values(model, estimand)
    yield from _extrapolated_values(estimand, released)
    yield from _coarse_levels(model, estimand)


def _labels(estimand: Estimand, chosen: Sequence[bool] | Any) -> str:
    """Return the labels that are chosen, as text."""
    return ", ".join(x for x, is_chosen in zip(estimand.labels, chosen, strict=True) if is_chosen)


def _unknown_tails(
    estimand: Estimand, released: ReleasedTables, values: Floats, share: Floats
) -> Iterator[str]:
    """Yield a flag for quantiles and shares in tails close to the noise of a count."""
    first, question = estimand.columns[0], estimand.question
    is_share = question.what == "share" and not question.contrast
    if first.at not in released.within or not (is_share or question.what == "quantile"):
        return
    noise = released.within[first.at].noise
    level = values if is_share else np.full(len(values), question.level)
    tail = np.maximum(np.minimum(level, 1 - level), _MIN_TAIL_SHARE)
    # A group may lie entirely in a tail.
    unknown = _labels(estimand, noise > np.minimum(_MAX_TAIL_NOISE * tail, share / 2))
    if unknown:
        yield (
            f"{first.name}: the noise of a count is {noise:.0%} of the rows. How values "
            f"lie in tails is hardly known; {unknown} may be off by more than intervals "
            "tell."
        )


def _hidden_rows(
    estimand: Estimand, released: ReleasedTables, column: QuestionColumn, half_widths: Floats
) -> Iterator[str]:
    """Yield a flag for estimates that hidden rows would move out of their interval."""
    attribute, extreme = column.attribute, released.within[column.at].extreme
    assert extreme is not None
    assert isinstance(attribute, Numeric)
    shift, share = estimand.groups(released.extremes[column.at])
    shift = np.abs(shift - estimand.groups(released.point)[0])
    if estimand.question.contrast:  # all of these rows may be in one group
        shift = (shift * share.sum() / np.maximum(share, MIN_DIVISOR))[1:]
    if estimand.possible:
        shift = np.minimum(shift, estimand.possible[1] - estimand.possible[0])
    shifts = [
        f"{label} by {size:,.{decimals_of_error(size)}f}"
        for label, size, half in zip(estimand.labels, shift.tolist(), half_widths, strict=True)
        if size > half
    ]
    if shifts:
        low, high, far = map(attribute.format_value, (*value_range(attribute), extreme[2]))
        yield (
            f"{attribute.name}: values were found from {low} to {high}. Noise may hide up to "
            f"{extreme[1]:,.0f} rows near {far}, which would move {', '.join(shifts)}: "
            "more than intervals tell."
        )


def _missing_values(model: Synthesizer, estimand: Estimand) -> Iterator[str]:
    """Yield the assumptions about missing values."""
    nullable = [column.name for column in estimand.columns if model.modelled_[column.name].nullable]
    if estimand.question.what == "missing":
        yield from (f"Rates are those of rows in which {x} is observed." for x in nullable[1:])
    elif nullable and model.applied_strategy.models_missingness:
        yield (
            "Missing values: what depends on observed attributes one by one is corrected for, and "
            "a third of that taken for doubtful; what values themselves, or combinations of "
            "attributes, decide is not."
        )
    elif nullable:
        yield (
            f"missing={model.missing!r}: intervals are for rows that are observed; they hold for "
            "all rows if values are missing completely at random."
        )


def _extrapolated_values(estimand: Estimand, released: ReleasedTables) -> Iterator[str]:
    """Yield a flag for columns without observed values in a part of the rows."""
    asked = estimand.columns[estimand.question.what == "missing" :]
    for column in asked:
        share = released.hardly_observed[column.at]
        if share > _MAX_EXTRAPOLATED:
            yield (
                f"{column.name}: in about {share:.0%} of the rows hardly any value is observed. A "
                "model extrapolates from other rows to these, and intervals do not cover its error."
            )


def _coarse_levels(model: Synthesizer, estimand: Estimand) -> Iterator[str]:
    """Yield flags for merged levels, and for declared bins with assumed even values."""
    question, fitted = estimand.question, model.model_
    columns = estimand.columns[question.what == "missing" :]
    merged = []
    if len(estimand.columns) > 1 or question.what == "quantile":
        levels = [(column.name, fitted.levels[column.at]) for column in columns]
        merged = [name for name, level in levels if level.n_groups < len(level.groups)]
    if merged:
        yield f"{', '.join(merged)}: rare levels were merged, and are taken to be related alike."
    for attribute in (column.attribute for column in columns):
        if isinstance(attribute, Numeric) and not attribute.binning.weights:
            lowest, highest = attribute.code_ranges
            if (lowest < highest).any():
                yield (
                    f"{attribute.name}: values are taken to lie evenly in its declared bins; wide "
                    "ones move means, deviations and slopes."
                )
