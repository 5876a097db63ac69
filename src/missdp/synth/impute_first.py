"""Imputation first: missing cells of private rows are filled, each row by itself.

The marginal of each attribute is released with a share of the budget. The session fills its rows
by these marginals, and what is released of filled rows costs what it costs of any rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.inference.counts import project_to_simplex
from missdp.schema import AnyAttribute, Numeric
from missdp.session import Marginal, Noise, Session
from missdp.sources.filling import MarginallyFilledRow
from missdp.synth.parameters import check_share
from missdp.synth.split import Part

if TYPE_CHECKING:
    from missdp.synth.family import Request

Imputer: TypeAlias = Literal["marginal", "random", "mean"]

IMPUTATION = "imputation"
"""Name of the part of a budget."""


def check_imputation(parameters: Any) -> None:
    """Refuse an ``imputer`` or an ``imputer_share`` that is not valid."""
    if parameters.imputer not in get_args(Imputer):
        first, *others = map(repr, get_args(Imputer))
        raise ParameterError(f"imputer must be {first} or {' or '.join(others)}")
    check_share(parameters, "imputer_share")


def imputation_parts(request: Request[Any]) -> list[Part]:
    """Return the part of a budget that `impute` spends, if it releases anything; public.

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
        ``"random"`` draws from the public domain and costs nothing. ``"marginal"`` draws from the
        released one-way marginal of the observed cells. ``"mean"`` is the baseline of Mohapatra et
        al. (2024): the released mean for numeric attributes, a draw from the marginal for others.
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
        return session.on(MarginallyFilledRow(declared, public))
    noise = Noise.worth(replace(cost, amount=cost.amount / len(nullable)))
    session.expect(Marginal((a.name,)) for a in nullable)
    laws = {}
    for attribute in nullable:
        released = session.measure(Marginal((attribute.name,)), noise).value
        margin = project_to_simplex(released / max(1.0, float(released.sum())))
        laws[attribute.name] = _law(imputer, attribute, margin)
    return session.on(MarginallyFilledRow(declared, laws))


def _law(
    imputer: Imputer, attribute: AnyAttribute, law: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the distribution of an attribute's filled cells, given its released margin."""
    if imputer == "mean" and isinstance(attribute, Numeric):
        mean = float(law / law.sum() @ attribute.centres)
        level = int(attribute.encode_values(np.array([mean]))[0])
        return np.asarray(np.arange(attribute.size) == level, dtype=np.float64)
    return law
