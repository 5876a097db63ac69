"""Levels, bins and missing rates that a fit found, in words. All values are released already."""

from __future__ import annotations

from collections.abc import Iterator

from missdp.inference.marginals import NoisyMarginals
from missdp.schema import AnyAttribute, Date, Numeric
from missdp.synth.fitted import Fitted
from missdp.synth.learn_pairs import PairRelease

MAX_MISSING = 0.95  # share of missing cells, above which a column is probably read in a wrong way


def results_in_words(fitted: Fitted) -> Iterator[str]:
    """Yield a line about the bins and a line about the levels that a fit found.

    Parameters
    ----------
    fitted : Fitted
        The record of the fit.

    Yields
    ------
    str
    """
    sizes = {
        "Bins": {name: fitted.schema[name].size for name in fitted.released_bins},
        "Levels": {name: len(levels) for name, levels in _levels(fitted)},
    }
    for what, by_name in sizes.items():
        if by_name:
            listed = ", ".join(f"{name} ({size})" for name, size in by_name.items())
            yield f"{what} found privately, and how many: {listed}."


def doubts_in_words(fitted: Fitted) -> Iterator[str]:
    """Yield a line for each column of which hardly any value can be in the release.

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
                f"no level of {name!r} was found: the column holds only "
                f"{fitted.schema[name].other!r}. Declare its levels, group them, use a larger "
                "epsilon, or ignore the column."
            )
    for name, rate in missing_rates(fitted).items():
        if rate > MAX_MISSING:
            facts = _what_to_check(fitted.modelled.schema[name])
            yield (
                f"by what was released, {rate:.0%} of the cells of {name!r} are missing. If that "
                f"is not expected, check {facts} in the schema."
            )


def _what_to_check(attribute: AnyAttribute) -> str:
    """Return which facts of the schema decide whether a cell can be read."""
    if isinstance(attribute, Date):
        return "its bounds and its format"
    if isinstance(attribute, Numeric):
        return "its bounds, and decimal in [file],"
    return "its levels and its codes of missing cells"


def missing_rates(fitted: Fitted) -> dict[str, float]:
    """Return the released share of missing cells by attribute, where the fit released one.

    Parameters
    ----------
    fitted : Fitted
        The record of the fit.

    Returns
    -------
    dict of str to float
        Shares of all rows.
    """
    if not isinstance(fitted.tables, PairRelease | NoisyMarginals):
        return {}
    marginals = PairRelease.of(fitted.tables).marginals
    every = zip(fitted.modelled.schema, marginals.one_way, marginals.levels, strict=True)
    return {a.name: float(m[-1]) for a, m, of in every if len(m) > of.n_groups}


def _levels(fitted: Fitted) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the levels that were found, besides the bucket of all others."""
    for name, levels in fitted.levels.items():
        other = fitted.schema[name].other
        yield name, tuple(level for level in levels if level != other)
