"""Estimates from released tables, with standard errors from draws of the tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist

import numpy as np

from missdp.errors import ParameterError
from missdp.estimate.estimands import Estimand, match_question, match_text
from missdp.estimate.flags import flags_of
from missdp.estimate.interval_estimates import Estimates
from missdp.estimate.model_rows import answer_by_rows, rows_of_model
from missdp.estimate.released import ReleasedTables, Tables, released_tables
from missdp.schema import Numeric
from missdp.schema.question_text import parse_formula, parse_question
from missdp.synth.base import Synthesizer
from missdp.threads import one_blas_thread
from missdp.types import Floats

_REACH = 0.95  # share of the draws that an interval includes, since draws may be skewed
_REACH_STD = NormalDist().inv_cdf((1 + _REACH) / 2)  # in standard deviations of a normal number
_CONTRADICTED = 2.0  # largest shift, in distances that draws of the noise reach
_DOUBT = 0.35  # relative error of the correction for values that are missing selectively
_MAX_WILD = 5.0  # largest distance of a draw from the middle, in median distances


def estimate(
    model: Synthesizer, question: str, *, by: str | Sequence[str] = (), confidence: float = 0.95
) -> Estimates:
    """Estimate a statistic of the private rows from the released values of a fitted model.

    No private rows are read, and nothing is charged.

    Parameters
    ----------
    model : Synthesizer
        A fitted model of AllPairs, AIM or MST. These families keep their released tables.
    question : str
        One of ``mean(x)``, ``sd(x)``, ``median(x)``, ``quantile(x, 0.9)``, ``share(x == 1)``,
        ``share(x is missing)``, ``correlation(x, y)`` and ``difference(mean(x))``, with names of
        attributes. ``share(x is missing)`` needs AllPairs. ``by`` and names of attributes may
        follow. ``difference`` subtracts the value of the first group.
    by : str or sequence of str, optional
        Attributes whose levels make groups, in addition to names after ``by`` in the question.
    confidence : float, default 0.95
        Confidence of the intervals, strictly between 0 and 1.

    Returns
    -------
    Estimates
        Released estimates with standard errors and intervals, one for each group in the order of
        levels. Intervals cover privacy noise, sampling of rows and missing values.

    Raises
    ------
    ParameterError
        If the question cannot be read, ``confidence`` is out of range, or the model has no answer.
        The model has no answer for other families, for ``missing="impute-first"``, and for
        marginals that were not released.
    NotFittedError
        If the model is not fitted.

    Notes
    -----
    Post-processing of released values: no privacy cost.

    Examples
    --------
    >>> from missdp.estimate import estimate
    >>> import pandas as pd
    >>> from missdp import AllPairs, Categorical, Numeric, Schema
    >>> schema = Schema((
    ...     Numeric(name="age", lower=0, upper=100, bins=10, nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"age": [20, 50, None] * 200, "ill": ["yes", "no", "no"] * 200})
    >>> model = AllPairs(epsilon=1.0, delta=1e-6).fit(people, schema=schema)
    >>> estimate(model, "mean(age) by ill").labels
    ('no', 'yes')
    """
    parsed = parse_question(question, model.schema_, by)
    return answer(model, match_question(model, question, parsed), confidence)


def regress(model: Synthesizer, formula: str, *, confidence: float = 0.95) -> Estimates:
    """Estimate a least-squares regression on the private rows from the values of a fitted model.

    No private rows are read, and nothing is charged. The values of the model are released.

    Parameters
    ----------
    model : Synthesizer
        A fitted model of AllPairs, AIM or MST. These families keep their released tables.
    formula : str
        A formula such as ``wage ~ age + C(sex)``: the outcome, ``~``, and terms joined by ``+``.
        ``C()`` makes one indicator for each level but the first. The formula is parsed and never
        evaluated.
    confidence : float, default 0.95
        Confidence of the intervals, strictly between 0 and 1.

    Returns
    -------
    Estimates
        Released coefficients with standard errors and intervals: first the intercept, then the
        terms in the order of the formula. A coefficient is in units of the outcome per unit of its
        term.

    Raises
    ------
    ParameterError
        If the formula cannot be read, ``confidence`` is out of range, or the model has no answer.
        The model has no answer for other families, for ``missing="impute-first"``, and for
        marginals that were not released.
    NotFittedError
        If the model is not fitted.

    Notes
    -----
    Post-processing of released values: no privacy cost.

    Examples
    --------
    >>> from missdp.estimate import regress
    >>> import pandas as pd
    >>> from missdp import AllPairs, Categorical, Numeric, Schema
    >>> schema = Schema((
    ...     Numeric(name="age", lower=0, upper=100, bins=10, nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"age": [20, 50, None] * 200, "ill": ["yes", "no", "no"] * 200})
    >>> model = AllPairs(epsilon=1.0, delta=1e-6).fit(people, schema=schema)
    >>> regress(model, "age ~ C(ill)").labels
    ('intercept', 'ill=yes')
    """
    parsed = parse_formula(formula, model.schema_)
    return answer(model, match_question(model, formula, parsed), confidence)


@one_blas_thread()
def estimate_quickly(
    model: Synthesizer, questions: Sequence[str], *, draws: int
) -> list[Estimates]:
    """Return estimates of several questions from the same few draws of tables, for a plan.

    They stay at the released values: rows of the model hardly differ, and are slow to draw.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    questions : sequence of str
        As for `Synthesizer.estimate`.
    draws : int
        Number of draws of the tables, which give the errors.

    Returns
    -------
    list of Estimates
        With intervals of confidence 0.95.

    Raises
    ------
    ParameterError
        If a question cannot be read, or the model has no answer to it.
    """
    estimands = [match_text(model, question) for question in questions]
    cliques = [clique for estimand in estimands for clique in estimand.cliques]
    released = released_tables(model, cliques, draws=draws)
    return [
        estimates_of(model, estimand, released, 0.95, shifts=np.zeros(len(estimand.labels)))
        for estimand in estimands
    ]


@one_blas_thread()
def answer(model: Synthesizer, estimand: Estimand, confidence: float) -> Estimates:
    """Return the estimates of a question from a model's released values.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    estimand : Estimand
        The question.
    confidence : float
        Confidence of the intervals, strictly between 0 and 1.

    Returns
    -------
    Estimates

    Raises
    ------
    ParameterError
        If the confidence is not between 0 and 1, or the model has no answer.
    """
    released, shifts = released_with_shifts(model, estimand, confidence)
    return estimates_of(model, estimand, released, confidence, shifts=shifts)


def released_with_shifts(
    model: Synthesizer, estimand: Estimand, confidence: float
) -> tuple[ReleasedTables, Floats]:
    """Return the released tables of a question, and the moves of its values to rows of the model.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    estimand : Estimand
        The question.
    confidence : float
        Confidence of the intervals, strictly between 0 and 1.

    Returns
    -------
    Released
        The tables.
    ndarray
        The values in rows of the model less the released values. Zero for groups without rows, for
        wide tables, and for questions that rows do not answer. Rows have less information on the
        values inside bins. Deviations, quantiles and shares of a number depend on these values.

    Raises
    ------
    ParameterError
        If the confidence is not between 0 and 1, or the model has no answer.
    """
    if not 0 < confidence < 1:
        raise ParameterError("confidence must be strictly between 0 and 1")
    if model.applied_strategy.fills:
        raise ParameterError(
            f"missing={model.missing!r} fills values before anything is counted, and no interval "
            "covers that. Fit with missing='joint'"
        )
    released, question = released_tables(model, estimand.cliques), estimand.question
    direct = estimand.values(released.point)[0]
    is_share = question.what == "share" and not isinstance(estimand.columns[0].attribute, Numeric)
    by_rows = is_share or question.what in ("mean", "correlation", "regression")
    if released.is_wide or not by_rows:
        return released, np.zeros_like(direct)
    return released, np.nan_to_num(answer_by_rows(rows_of_model(model), question) - direct)


def estimates_of(
    model: Synthesizer,
    estimand: Estimand,
    released: ReleasedTables,
    confidence: float,
    *,
    shifts: Floats,
) -> Estimates:
    """Return estimates with the errors that draws of the tables show.

    Draws are around the released values. Estimates are shifted from there to the values in rows of
    the model. Errors reach from the estimates to the draws, so that the shift counts as an error.
    If noise cannot explain the shift, the release contradicts the rows, and the estimate stays.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    estimand : Estimand
        The question.
    released : Released
        The tables that were released for it, and draws of them.
    confidence : float
        Confidence of the intervals, strictly between 0 and 1.
    shifts : ndarray
        Values in rows of the model less the released values.

    Returns
    -------
    Estimates
        One estimate for each label of the question.
    """
    drawn = [estimand.values(tables) for tables in released.noise]
    noisy, direct = np.stack([values for values, _ in drawn]), estimand.values(released.point)[0]
    reach = np.quantile(np.abs(noisy - direct), _REACH, axis=0)
    values = direct + np.where(np.abs(shifts) <= _CONTRADICTED * reach, shifts, 0.0)
    is_shifted = any(column.shift is not None for column in estimand.columns)
    possible = () if is_shifted else estimand.possible
    if possible:
        values = np.clip(values, possible[0], possible[1])
    variances = [
        _noise_variance(estimand, released, values, noisy),
        *_row_variances(model, estimand, released),
    ]
    if possible:  # no error is larger
        variances = [np.minimum(x, np.square(possible[1] - possible[0])) for x in variances]
    noise, sampling, missing = (tuple(np.sqrt(variance).tolist()) for variance in variances)
    share_std = _standard_deviation(share for _, share in drawn)
    half = np.sqrt(np.sum(variances, axis=0)) * NormalDist().inv_cdf((1 + confidence) / 2)
    groups = estimand.groups(released.point)[1]
    rows = (groups[1:] + groups[0] if estimand.question.contrast else groups) * released.n_rows
    return Estimates(
        question=estimand.text,
        labels=tuple(estimand.labels),
        estimate=tuple(values.tolist()),
        noise=noise,
        sampling=sampling,
        missing=missing,
        rows=tuple(rows.tolist()),
        confidence=float(confidence),
        flags=tuple(flags_of(model, estimand, released, values, share_std, half)),
        possible=possible,
        dates=estimand.dates,
    )


def _noise_variance(
    estimand: Estimand, released: ReleasedTables, values: Floats, noisy: Floats
) -> Floats:
    """Return the variance by noise, of a normal number that reaches as far as the draws do."""
    reach = np.quantile(np.abs(noisy - values), _REACH, axis=0)
    reach = np.minimum(reach, _largest_error(estimand, released, values))
    if estimand.question.what == "share":  # spikes may lie anywhere in a segment
        largest = estimand.values(released.point, covers_segments=True)[0]
        reach = np.maximum(reach, np.abs(largest - values))
    return np.asarray(np.square(reach / _REACH_STD))


def _largest_error(estimand: Estimand, released: ReleasedTables, values: Floats) -> Floats:
    """Return the largest shift of a quantile by noise, within segments that counts allow."""
    column, question = estimand.columns[0], estimand.question
    within = released.within.get(column.at)
    if question.what != "quantile" or len(estimand.columns) > 1 or within is None or not within.std:
        return np.full(len(values), math.inf)
    assert isinstance(column.attribute, Numeric)
    low, high = (
        estimand.values(released.point, level=question.level + sign * within.std)[0]
        for sign in (-1, 1)
    )
    edges = np.array([-math.inf, *column.attribute.binning.subintervals, math.inf])
    below, above = edges[edges <= low][-1], edges[edges > high][0]
    return np.asarray(np.maximum(values - below, above - values))


def _row_variances(
    model: Synthesizer, estimand: Estimand, released: ReleasedTables
) -> tuple[Floats, Floats]:
    """Return the variances by the sampling of rows, and by missing values."""

    def variance(draws: Iterable[Tables]) -> Floats:
        return np.asarray(
            np.square(_standard_deviation(estimand.values(tables)[0] for tables in draws))
        )

    sampling = variance(released.complete)
    is_nullable = any(model.modelled_[column.name].nullable for column in estimand.columns)
    if not is_nullable or estimand.question.what == "missing":
        return sampling, np.zeros_like(sampling)
    missing = np.maximum(variance(released.sampled) - sampling, 0.0)
    if len(estimand.cliques) == 1:  # tables of different observed rows make no regression
        point, observed = (estimand.values(t)[0] for t in (released.point, released.observed))
        missing += np.square(_DOUBT * (point - observed))
    return sampling, missing


def _standard_deviation(draws: Iterable[Floats]) -> Floats:
    """Return standard deviations, which a few wild draws do not move."""
    values = np.stack([*draws])
    off = values - np.median(values, axis=0)
    half, nearly = np.quantile(np.abs(off), [0.5, 0.95], axis=0)
    max_distance = np.maximum(_MAX_WILD * half, nearly)
    return np.asarray(np.clip(off, -max_distance, max_distance).std(axis=0))
