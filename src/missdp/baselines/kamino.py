"""The Kamino synthesizer: attribute by attribute, under constraints between rows.

Each attribute is drawn from a conditional model: a multinomial logistic regression on the earlier
attributes (see `missdp.inference.conditional_models`). All of them are learned from one noisy
release of all pairs of attributes. Rows are then placed so that no two violate a constraint.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from missdp.baselines.denial_constraints import (
    Constraints,
    DenialConstraint,
    constraint_texts,
    read_constraints,
)
from missdp.baselines.placing import SyntheticRows, place_rows
from missdp.inference.models import PairModel
from missdp.schema import Schema
from missdp.session import Session
from missdp.synth.all_pairs import (
    check_pairs,
    cost_of_pairs,
    marginal_parts,
    pairs_part,
)
from missdp.synth.base import Synthesizer
from missdp.synth.family import Family, Finish, Learned, Request, gaussian_budget
from missdp.synth.fitted import Fitted
from missdp.synth.impute_first import Imputer
from missdp.synth.learn_pairs import fit_pairs, model_facts, release_pairs
from missdp.synth.shared_steps import open_rows, release_one_way, row_totals, sample_rows
from missdp.synth.split import BudgetPlan, Part


def _check(parameters: Kamino) -> dict[str, Any]:
    check_pairs(parameters)
    return {"constraints": constraint_texts(parameters.constraints)}


def _plan(request: Request[Kamino]) -> list[Part]:
    _constraints(request)  # raises ParameterError for one that does not fit the schema
    parts = marginal_parts(request, request.parameters.first_share)
    return parts if len(request.modelled.schema) == 1 else [*parts, pairs_part(request)]


def _constraints(request: Request[Kamino]) -> tuple[DenialConstraint, ...]:
    return read_constraints(constraint_texts(request.parameters.constraints), request.schema)


def _fit(session: Session, plan: BudgetPlan, request: Request[Kamino]) -> Learned:
    session, count = open_rows(session, plan, request)
    request.report("measuring single attributes", 0.05)
    one_way, total = release_one_way(session, plan, request, count)
    request.report("measuring all pairs", 0.1)
    cost = cost_of_pairs(session, plan)
    release = release_pairs(session, one_way, clip=request.parameters.clip, cost=cost)
    request.report("fitting", 0.3)
    model = fit_pairs(
        release,
        model_facts(request.modelled, one_way.levels, selective=False),
        order=_drawing_order(request.public, _constraints(request)),
        rng=session.generator(),
    )
    request.report("done", 1.0)
    total, complete = row_totals(session, total, count)
    return Learned(model, total, complete=complete)


def _placed(
    texts: tuple[str, ...],
    fitted: Fitted,
    table: SyntheticRows,
    draw: Callable[[int, np.random.Generator], SyntheticRows],
    rng: np.random.Generator,
) -> SyntheticRows:
    """Return synthetic rows that are placed so that constraints hold between any two of them."""
    order = [fitted.modelled.schema.names[a] for a in fitted.model.row_model.order]
    constraints = read_constraints(texts, fitted.schema)
    return place_rows(table, constraints, rng, draw=lambda n: draw(n, rng), order=order)


def _finish(parameters: Mapping[str, Any]) -> Finish | None:
    texts = constraint_texts(parameters["constraints"])
    return partial(_placed, texts) if texts else None


def _drawing_order(schema: Schema, constraints: Iterable[DenialConstraint]) -> tuple[int, ...]:
    """Return the positions of the attributes in the order in which they are drawn.

    Attributes with few levels come first, because they have the least noise. An attribute that a
    functional dependency determines comes after its determining attributes, unless dependencies
    form a circle.
    """
    place = {name: i for i, name in enumerate(schema.names)}
    waits: list[set[int]] = [set() for _ in place]
    for determining, name in filter(None, (constraint.dependency for constraint in constraints)):
        if place.keys() >= {*determining, name}:
            waits[place[name]] |= {place[other] for other in determining}
    waiting = {a: (attribute.size, a) for a, attribute in enumerate(schema)}
    order: list[int] = []
    while waiting:
        free = [waiting[a] for a in waiting if not waits[a] & waiting.keys()]
        _, a = heapq.nsmallest(1, free or waiting.values())[0]
        order.append(a)
        del waiting[a]
    return tuple(order)


@dataclass(kw_only=True, eq=False, repr=False)
class Kamino(Synthesizer):
    """Synthesizer whose synthetic rows obey public constraints between any two rows (Kamino).

    Use it if no two rows may contradict each other, such as equal zip codes in different cities.
    Each attribute is drawn from a conditional model, a multinomial logistic regression on the
    earlier attributes. Rows are then placed so that no two synthetic rows violate a constraint.
    Constraints are public facts and do not change the charge. A fit is accounted in Gaussian DP,
    with add-remove adjacency.

    Parameters
    ----------
    epsilon : float
        Privacy budget of the complete fit, from 1e-6 to 10,000. Two neighbouring tables differ by
        one added or removed row (add-remove adjacency).
    delta : float or None, default None
        Delta of the complete fit, above 0 and below 1. None is 1e-6, which is meant for up to
        10,000 rows. For a declared number n of rows above 10,000, None is ``1 / (100 n)``.
    n_rows : "noisy" or int, default "noisy"
        ``"noisy"`` estimates the private number of rows from released values. A small share of the
        budget releases a noisy count if these values are not precise enough. An integer from 1 to
        2**53 declares the number of rows public.
    bins : {"private", "equal"}, default "private"
        Bins of numeric attributes that declare none. ``"private"`` releases bins by a noisy tree of
        counts, for three tenths of the budget together. ``"equal"`` makes ten bins of equal width
        at no cost.
    random_state : int or None, default None
        None draws noise from the operating system's cryptographic source. A number is for tests:
        the guarantee then states that the seed must be secret.
    budget : Filter, Composition or None, default None
        A budget shared with other releases from the same table. It is charged before the first
        noisy value is released.
    progress : callable, bool or None, default None
        Called with the name of a stage and the share of the work done, in [0, 1]. It shows nothing
        private. True draws a bar in a terminal or notebook, and prints each stage elsewhere.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        Strategy for missing cells. ``"observed"`` (KaminoI) learns the relation of two attributes
        from the rows in which both are observed. ``"complete-rows"`` drops rows with a missing cell
        before anything else. ``"impute-first"`` fills missing cells privately first.
    constraints : str or list of str, default ()
        Denial constraints between two rows, such as
        ``"t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)"``: no two rows have the same zip code and
        different cities. The comparisons are EQ, IQ (not equal), LT, LTE, GT and GTE. One side may
        be a constant. In one text, constraints stand between semicolons or on lines. **Public**
        facts only: never read them from the private rows. They are saved with the model.
    clip : "auto" or float, default "auto"
        L2 norm to which the vector of each row is clipped, from 2**-10 to 2**20. The vector has the
        products of the centred indicators of all pairs of attributes.
    first_share : float from 0.0001 to 0.99, optional
        Share of the budget for the one-way marginals (counts of one attribute), by default 0.08.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        Rule by which ``missing="impute-first"`` fills missing cells. ``"marginal"`` draws from a
        noisy one-way marginal. ``"mean"`` fills a numeric attribute with its noisy mean, and draws
        others from the noisy marginal. ``"random"`` draws any public level at no cost.
    imputer_share : float from 0.0001 to 0.99, default 0.1
        Share of the budget (squared mu) for the marginals of the imputer.

    Attributes
    ----------
    model_ : PairModel
        The released model of rows.
    guarantee_ : Guarantee
        The guarantee of everything that the fit released, with its conditions.
    n_rows_ : int
        Released or declared number of rows, at least 1.
    n_rows_std_ : float
        Standard deviation of the noise of ``n_rows_``, in rows. 0 if the number was declared.

    Raises
    ------
    ParameterError
        Raised by ``fit`` before the charge, if a parameter has no valid value or a constraint does
        not fit the schema.

    References
    ----------
    Ge, Mohapatra, He, Ilyas (2021), "Kamino: constraint-aware differentially private data
    synthesis", PVLDB 14(10). Mohapatra, Zong, Kerschbaum, He (2024), "Differentially private data
    generation with missing data", PVLDB 17(8), for ``"observed"``. Both publications account for
    less than they release: see ``docs/referees/claims.md``.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Kamino, Schema
    >>> schema = Schema((
    ...     Categorical(name="town", levels=("Bonn", "Köln", "Ulm"), nullable=True),
    ...     Categorical(name="state", levels=("BW", "NW")),
    ... ))
    >>> town, state = ["Bonn", "Köln", None, "Ulm"] * 50, ["NW", "NW", "NW", "BW"] * 50
    >>> people = pd.DataFrame({"town": town, "state": state})
    >>> one_state = ["t1&t2&EQ(t1.town,t2.town)&IQ(t1.state,t2.state)"]
    >>> rows = Kamino(epsilon=1.0, constraints=one_state).fit(people, schema=schema).sample()
    >>> int(rows.groupby("town", observed=True)["state"].nunique().max())
    1
    """

    family: ClassVar[Family] = Family(
        strategies=("observed", "complete-rows", "impute-first"),
        parameters=_check,
        plan=_plan,
        budget=gaussian_budget,
        fit=_fit,
        model=PairModel,
        sample=sample_rows,
        finish=_finish,
        reads="weights",
    )

    missing: str = "observed"
    constraints: Constraints = ()
    clip: float | Literal["auto"] = "auto"
    first_share: float | None = None
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1
