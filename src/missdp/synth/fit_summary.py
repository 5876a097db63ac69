"""Sentences about the levels, bins and missing rates of a fit, from released values only."""

from __future__ import annotations

from collections.abc import Iterator

from missdp.inference.marginals import NoisyMarginals
from missdp.schema import AnyAttribute, Date, Numeric
from missdp.synth.fitted import Fitted
from missdp.synth.learn_pairs import PairRelease

MAX_MISSING = 0.95  # share of missing cells: with more, the column was probably read in a wrong way


def results_in_words(fitted: Fitted) -> Iterator[str]:
    """Yield a sentence about released bins, and a sentence about released levels.

    Parameters
    ----------
    fitted : Fitted
        The record of the fit.

    Yields
    ------
    str
        Numbers of bins or levels by attribute.
    """
    sizes = {
        "Bins": {name: fitted.schema[name].size for name in fitted.released_bins},
        "Levels": {name: len(levels) for name, levels in _levels(fitted)},
    }
    for title, by_name in sizes.items():
        if by_name:
            listed = ", ".join(f"{name} ({size})" for name, size in by_name.items())
            yield f"{title} found privately, with their number: {listed}."


def doubts_in_words(fitted: Fitted) -> Iterator[str]:
    """Yield a sentence for each column that probably has hardly any value in the release.

    Parameters
    ----------
    fitted : Fitted
        The record of the fit.

    Yields
    ------
    str
        The problem and its remedy, from released values and public facts alone.
    """
    for name, levels in _levels(fitted):
        if not levels:
            yield (
                f"no level of {name!r} was found. The column contains only "
                f"{fitted.schema[name].other!r}. Declare its levels, group them, use a larger "
                "epsilon, or ignore the column."
            )
    for name, rate in missing_rates(fitted).items():
        if rate > MAX_MISSING:
            facts = _what_to_check(fitted.modelled.schema[name])
            yield (
                f"{rate:.0%} of the cells of {name!r} are missing, by released values. If you "
                f"expected fewer, check {facts} in the schema."
            )


def _what_to_check(attribute: AnyAttribute) -> str:
    """Return the facts of the schema that decide whether a cell can be read."""
    if isinstance(attribute, Date):
        return "its bounds and its format"
    if isinstance(attribute, Numeric):
        return "its bounds, and decimal in [file],"
    return "its levels and its codes of missing cells"


def missing_rates(fitted: Fitted) -> dict[str, float]:
    """Return the released share of missing cells by attribute.

    Parameters
    ----------
    fitted : Fitted
        The record of the fit.

    Returns
    -------
    dict of str to float
        Shares of all rows, for attributes that may be missing. Empty if the fit released none.
    """
    if not isinstance(fitted.tables, PairRelease | NoisyMarginals):
        return {}
    marginals = PairRelease.of(fitted.tables).marginals
    every = zip(fitted.modelled.schema, marginals.one_way, marginals.levels, strict=True)
    return {a.name: float(m[-1]) for a, m, of in every if len(m) > of.n_groups}


def _levels(fitted: Fitted) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the released levels of each attribute, without the bucket of all others."""
    for name, levels in fitted.levels.items():
        other = fitted.schema[name].other
        yield name, tuple(level for level in levels if level != other)
