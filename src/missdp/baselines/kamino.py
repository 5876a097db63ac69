"""The Kamino synthesizer: attribute by attribute, under constraints between rows.

Each attribute is drawn from a conditional model: a multinomial logistic regression on the earlier
attributes (see `missdp.inference.heads`). All of them are learned from one noisy release of all
pairs of attributes. Rows are then placed so that no two violate a constraint.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from missdp.accounting import Filter
from missdp.baselines.denial_constraints import (
    Constraints,
    DenialConstraint,
    constraint_texts,
    read_constraints,
)
from missdp.baselines.placing import SyntheticRows, place_rows
from missdp.inference.models import PairModel
from missdp.schema import Schema
from missdp.session import Session, Total
from missdp.synth.all_pairs import PairsSynthesizer
from missdp.synth.learn_pairs import fit_pairs


@dataclass(kw_only=True, eq=False, repr=False)
class Kamino(PairsSynthesizer):
    """Synthetic tables drawn attribute by attribute, that obey constraints between rows.

    Each attribute is drawn from a conditional model, a multinomial logistic regression on the
    earlier attributes. No two synthetic rows violate a constraint. Constraints are public facts and
    change nothing in the charge. Accounted in Gaussian DP, add-remove adjacency.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta must be above 0.
    missing : {"observed", "complete-rows", "impute-first"}, default "observed"
        ``"observed"`` (KaminoI) learns the relation of two attributes from the rows in which both
        are observed. ``"complete-rows"`` drops incomplete rows. ``"impute-first"`` fills missing
        cells privately before.
    constraints : str or list of str, default ()
        Denial constraints between two rows, such as
        ``"t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)"``: no two rows have the same zip code and
        different cities. The comparisons are EQ, IQ (not equal), LT, LTE, GT and GTE. One side may
        be a constant. In one text, constraints stand between semicolons or on lines. **Public**
        facts only: never read them from the private rows. They are saved with the model.
    clip : "auto" or float, default "auto"
        L2 norm to which the vector of each row is clipped.
    first_share : float from 0.0001 to 0.99, optional
        Share of the budget for the one-way margins, by default 0.08.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget.

    Attributes
    ----------
    model_ : PairModel
        The released model.

    References
    ----------
    Ge, Mohapatra, He, Ilyas (2021), "Kamino: constraint-aware differentially private data
    synthesis", PVLDB 14(10); Mohapatra et al. (2024) for ``"observed"``. Both publications account
    for less than they release; see ``docs/families.md``.

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

    strategies: ClassVar[tuple[str, ...]] = ("observed", "complete-rows", "impute-first")

    missing: str = "observed"
    constraints: Constraints = ()

    released: ClassVar[tuple[str, ...]] = ("model_",)
    model_: PairModel = field(init=False)

    def _check_parameters(self) -> Filter:
        constraint_texts(self.constraints)
        return super()._check_parameters()

    def _check_schema(self, schema: Schema) -> None:
        self._read_constraints()  # raises ParameterError for one that does not fit the schema
        super()._check_schema(schema)

    def _public_parameters(self) -> dict[str, Any]:
        return super()._public_parameters() | {"constraints": constraint_texts(self.constraints)}

    @property
    def _texts(self) -> tuple[str, ...]:
        """The constraints of the fitted model, or the ones it will be fitted with."""
        fitted: dict[str, Any] = self.__dict__.get("_fitted_with", {})
        return constraint_texts(fitted.get("constraints", self.constraints))

    def _read_constraints(self) -> tuple[DenialConstraint, ...]:
        return read_constraints(self._texts, self.schema_)

    def _fit(self, session: Session) -> Total:
        session, total = self._opened_rows(session)
        one_way = self._one_way(session, total)
        release = self._all_pairs(session, one_way)
        self._report("fitting", 0.3)
        self.model_ = fit_pairs(
            release,
            self._model_facts(one_way.levels, selective=False),
            order=_drawing_order(self._planned, self._read_constraints()),
            rng=session.generator(),
        )
        self._report("done", 1.0)
        return self._counted(session, one_way, total)

    def _draws_schema(self) -> bool:
        self._read_constraints()  # raises ParameterError for a saved one that does not fit
        return super()._draws_schema()

    @property
    def draws_together(self) -> bool:
        """Whether all rows are drawn at once: where constraints compare two of them."""
        return bool(self._texts)

    def _finished(self, table: SyntheticRows, rng: np.random.Generator) -> SyntheticRows:
        """Return rows between which the constraints hold."""
        draw = partial(self._drawn, "fill", rng=rng)
        order = [self.modelled_.names[a] for a in self.model_.law.order]
        return place_rows(table, self._read_constraints(), rng, draw=draw, order=order)


def _drawing_order(schema: Schema, constraints: Iterable[DenialConstraint]) -> tuple[int, ...]:
    """Return the positions of the attributes in the order in which they are drawn.

    Few levels come first, as they tell most for the least noise; but what a functional dependency
    determines comes after all that determines it, as far as dependencies do not go in circles.
    """
    place = {name: i for i, name in enumerate(schema.names)}
    waits: list[set[int]] = [set() for _ in place]
    for given, name in filter(None, (constraint.dependency for constraint in constraints)):
        if place.keys() >= {*given, name}:
            waits[place[name]] |= {place[other] for other in given}
    left = {a: (attribute.size, a) for a, attribute in enumerate(schema)}
    order: list[int] = []
    while left:
        free = [left[a] for a in left if not waits[a] & left.keys()]
        _, a = heapq.nsmallest(1, free or left.values())[0]
        order.append(a)
        del left[a]
    return tuple(order)
