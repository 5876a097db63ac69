"""The PrivBayes synthesizer."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Budget
from missdp.errors import ParameterError
from missdp.mechanisms import NoiseSource
from missdp.sources import MarginalSource
from missdp.synth.base import MissingValues, Progress, Synthesizer
from missdp.synth.imputers import Imputer
from missdp.synth.privbayes.fill import fill_holes, fit_filling_model
from missdp.synth.privbayes.learn import Learner
from missdp.synth.privbayes.network import Network
from missdp.synth.privbayes.plan import make_plan
from missdp.synth.strategies import prepare

__all__ = ["PrivBayes"]


class PrivBayes(Synthesizer):
    """Synthetic tables from a private Bayesian network (Zhang et al. 2017), holes included.

    Parents are chosen by the exponential mechanism with a count-scaled dependence score of
    constant sensitivity, family tables get Laplace noise (pure DP) or Gaussian noise
    (``delta > 0``, accounted in zCDP), and rows are drawn ancestrally.

    Parameters
    ----------
    epsilon : float, above 0
        Budget of the whole fit under add-remove adjacency.
    delta : float in [0, 1), default 0
        0 gives pure epsilon-DP.
    missing : {"joint", "adaptive", "complete-rows", "impute-first"}, default "joint"
        ``"joint"`` models values and holes together, every row counts everywhere, holes of
        synthetic rows are filled from the model. ``"adaptive"`` (PrivBayesE, Mohapatra et al. 2024)
        counts each family over the rows observed on it. ``"complete-rows"`` drops incomplete rows.
        ``"impute-first"`` fills holes privately before learning.
    degree : "auto" or int, default "auto"
        Number of parents; ``"auto"`` lets tables grow while they are useful (``theta``).
    theta : float, default 8
        Least ratio of a table's mean count to its noise scale, for ``degree="auto"``.
    structure_share : float in (0, 1), default 0.1
        Share of the budget for choosing parents.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        For ``"impute-first"``.
    imputer_share : float in (0, 1), default 0.1
        Share of epsilon for the imputer's margins.
    n_rows, random_state, budget
        See :class:`~missdp.synth.base.Synthesizer`.
    progress : callable, optional
        Called with a stage name and a fraction done; shows nothing private.

    Attributes
    ----------
    guarantee_ : Guarantee
        Computed from what was released.
    network_ : Network
        The released model.
    n_rows_ : int
        Released or declared number of rows.

    References
    ----------
    Zhang, Cormode, Procopiuc, Srivastava, Xiao (2017), "PrivBayes", TODS 42(4).
    Mohapatra, Zong, Kerschbaum, He (2024), PVLDB 17(8).

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, PrivBayes, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 50, "ill": ["yes", "no", "no"] * 50})
    >>> model = PrivBayes(epsilon=1.0).fit(people, schema=schema)
    >>> model.sample(4).shape
    (4, 2)
    >>> model.guarantee_.epsilon, model.guarantee_.delta
    (1.0, 0.0)
    """

    strategies: ClassVar[tuple[str, ...]] = (
        "joint",
        "adaptive",
        "complete-rows",
        "impute-first",
    )

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        missing: str = "joint",
        degree: int | Literal["auto"] = "auto",
        theta: float = 8.0,
        structure_share: float = 0.1,
        imputer: Imputer = "marginal",
        imputer_share: float = 0.1,
        n_rows: int | Literal["noisy"] = "noisy",
        random_state: int | None = None,
        budget: Budget | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.missing = missing
        self.degree = degree
        self.theta = theta
        self.structure_share = structure_share
        self.imputer = imputer
        self.imputer_share = imputer_share
        self.n_rows = n_rows
        self.random_state = random_state
        self.budget = budget
        self.progress = progress

    def _check_parameters(self) -> Budget:
        budget = super()._check_parameters()
        if not isinstance(self.theta, numbers.Real) or not 0 < self.theta < float("inf"):
            raise ParameterError("theta must be a positive number")
        for name in ("structure_share", "imputer_share"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) or not 0 < value < 1:
                raise ParameterError(f"{name} must be strictly between 0 and 1")
        if self.degree != "auto" and (
            isinstance(self.degree, (bool, str))
            or not isinstance(self.degree, numbers.Integral)
            or not 0 <= self.degree <= 6
        ):
            raise ParameterError("degree must be 'auto' or a whole number from 0 to 6")
        if self.imputer not in ("marginal", "random", "mean"):
            raise ParameterError("imputer must be 'marginal', 'random' or 'mean'")
        return budget

    def _fit(self, source: MarginalSource, budget: Budget, noise: NoiseSource) -> None:
        self._report("preparing", 0.0)
        view = prepare(
            source,
            self.missing,
            n_rows=self.n_rows_,
            imputer=self.imputer,
            imputer_epsilon=self.imputer_share * budget.epsilon,
            epsilon=budget.epsilon,
            budget=budget,
            noise=noise,
        )
        plan = make_plan(
            epsilon=budget.epsilon,
            delta=budget.delta,
            spent=budget.pure_epsilon_spent,
            structure_share=float(self.structure_share),
            attributes=len(source.schema),
        )
        learner = Learner(view, plan, budget, noise, report=self._report)
        degree = self.degree if isinstance(self.degree, str) else int(self.degree)
        families = learner.choose_families(degree=degree, theta=self.theta)
        self.network_ = Network.from_joints(families, learner.measure(families))
        self._prepare_filling(noise.generator())
        self._report("done", 1.0)

    def _prepare_filling(self, rng: np.random.Generator) -> None:
        self._filling: Network | None = None
        if self.missing == "joint" and self.schema_.nullable:
            self._filling = fit_filling_model(self.network_, self._sizes(), self.n_rows_, rng)

    def _sizes(self) -> dict[str, int]:
        return {a.name: a.size for a in self.schema_}

    def _sample(
        self, n: int, missing_values: MissingValues, rng: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        if missing_values == "keep" and self._applied_strategy != "joint":
            raise ParameterError(
                f"missing={self._applied_strategy!r} does not model holes; fit with "
                "missing='joint' to keep them in synthetic rows"
            )
        codes = self.network_.sample(n, rng)
        if missing_values == "fill" and self._filling is not None:
            codes = fill_holes(codes, self._sizes(), self._filling, rng)
        return codes

    def _released(self) -> dict[str, Any]:
        filling = None if self._filling is None else self._filling.to_json()
        return {"network": self.network_.to_json(), "filling": filling}

    def _restore(self, released: dict[str, Any]) -> None:
        self.network_ = Network.from_json(released["network"])
        filling = released["filling"]
        self._filling = None if filling is None else Network.from_json(filling)
