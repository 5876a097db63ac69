"""Imputation first: missing cells of private rows are filled, each row by itself.

The marginal of each attribute is released with a share of the budget. The session fills its rows by
these marginals. A release of filled rows costs as much as a release of any rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.inference.counts import project_to_simplex
from missdp.schema import AnyAttribute, Numeric
from missdp.session import Marginal, Noise, Session
from missdp.sources.filling import MarginallyFilledRow
from missdp.synth.parameters import check_share
from missdp.synth.split import Part
from missdp.types import Floats

if TYPE_CHECKING:
    from missdp.synth.family import Request

Imputer: TypeAlias = Literal["marginal", "random", "mean"]

IMPUTATION = "imputation"
"""Name of the part of a budget for the marginals of imputation."""


def check_imputation(parameters: Any) -> None:
    """Raise ParameterError for an ``imputer`` or an ``imputer_share`` that is not valid."""
    if parameters.imputer not in get_args(Imputer):
        first, *others = map(repr, get_args(Imputer))
        raise ParameterError(f"imputer must be {first} or {' or '.join(others)}")
    check_share(parameters, "imputer_share")


def imputation_parts(request: Request[Any]) -> list[Part]:
    """Return the public part of a budget that `impute` spends, if it releases anything.

    Parameters
    ----------
    request : Request
        Has ``imputer`` and ``imputer_share`` among its parameters.

    Returns
    -------
    list of Part
        One part, or none. Its releases are the marginals of all attributes that are filled.
    """
    parameters = request.parameters
    filled = request.modelled.schema.nullable if request.strategy.fills else ()
    if parameters.imputer == "random" or not filled:
        return []
    required_sets = tuple(request.observed_requirement((name,)) for name in filled)
    return [Part(IMPUTATION, parameters.imputer_share, required_sets)]


def impute(session: Session, imputer: Imputer = "marginal", *, cost: Cost) -> Session:
    """Return a session on rows whose missing cells are filled, if the strategy fills them.

    Given the released values, each row is filled on its own. So adding or removing one row changes
    the filled table by one row, and later mechanisms keep their sensitivity.

    Parameters
    ----------
    session : Session
        Measures the rows before they are filled.
    imputer : {"random", "marginal", "mean"}, default "marginal"
        ``"random"`` draws from the public domain at no cost. ``"marginal"`` draws from the
        released one-way marginal of the observed cells. ``"mean"`` is the baseline of Mohapatra et
        al. (2024): the released mean of a numeric attribute, else a draw from the marginal.
    cost : Cost
        Cost of all releases together. One-way marginals share it evenly.

    Returns
    -------
    Session
        Measures the filled rows. It is ``session`` itself if the strategy fills no cells.
    """
    if not session.facts.strategy.fills:
        return session
    nullable = [attribute for attribute in session.facts.schema if attribute.nullable]
    declared = session.facts.modelled.full_schema
    if imputer == "random" or not nullable:
        public = {a.name: np.ones(a.size) for a in nullable}
        return session.apply(MarginallyFilledRow(declared, public))
    noise = Noise.from_cost(replace(cost, amount=cost.amount / len(nullable)))
    session.expect(Marginal((a.name,)) for a in nullable)
    distributions = {}
    for attribute in nullable:
        released = session.measure(Marginal((attribute.name,)), noise).value
        marginal = project_to_simplex(released / max(1.0, float(released.sum())))
        distributions[attribute.name] = _cell_distribution(imputer, attribute, marginal)
    return session.apply(MarginallyFilledRow(declared, distributions))


def _cell_distribution(imputer: Imputer, attribute: AnyAttribute, marginal: Floats) -> Floats:
    """Return the distribution of an attribute's filled cells, given its released marginal."""
    if imputer == "mean" and isinstance(attribute, Numeric):
        mean = float(marginal / marginal.sum() @ attribute.centres)
        level = int(attribute.encode_values(np.array([mean]))[0])
        return np.asarray(np.arange(attribute.size) == level, dtype=np.float64)
    return marginal
