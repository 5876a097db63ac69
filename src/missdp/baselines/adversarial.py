"""Base of adversarial families: the fixed plan of a fit, and its first part.

A fit releases one-way marginals first, at which its generator starts and to which it is calibrated.
Then networks are trained on private rows. Cap of the first part, sampling rate, steps and noise
are fixed by parameters and charged together, before anything is read.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, TypeAlias

from missdp.accounting import Cost, Event, Filter, GaussianEvent, SampledGaussianEvent
from missdp.accounting.exact import boundary
from missdp.accounting.loss_distributions import composed_epsilon
from missdp.accounting.measures import MOST_GDP
from missdp.baselines.networks import NetworkModel
from missdp.errors import ParameterError, import_optional
from missdp.schema import Schema
from missdp.session import Merged, Reads, Session, Total
from missdp.session.training import SAMPLING_SLACK
from missdp.synth.all_pairs import PairsSynthesizer
from missdp.synth.learn_pairs import OneWayMarginals
from missdp.synth.split import Part
from missdp.synth.state import is_number, is_whole

Phases: TypeAlias = tuple[tuple[str, int, float], ...]
"""Name, steps and share of the training budget of each phase, in order."""

_FIRST_SHARE = 0.2  # of the squared mu of the budget
_MIN_NOISE, _MAX_NOISE = 0.3, 2.0**16  # noise multipliers
_MAX_STEPS = 100_000
_MAX_CELLS = 1 << 23  # of all pairs of attributes
_CLOSE = 1e-3  # relative gap between the proven and the requested epsilon
_TRIES = 6  # of noise multipliers by loss distributions
_MORE = 1.05  # factor of the noise if no try was enough
# Rényi orders of the search for a noise multiplier; the best order is far below the last one.
_ORDERS = (*range(2, 33), 40, 48, 64, 96, 128, 192, 256, 512)


@lru_cache(maxsize=32)
def planned_trainings(
    first: Event, epsilon: float, delta: float, rate: float, phases: Phases
) -> tuple[SampledGaussianEvent, ...]:
    """Return the trainings with the smallest noise for which the whole plan keeps its budget.

    The plan is the first part and the trainings. It must be within (epsilon, delta).

    Parameters
    ----------
    first : Event
        The cap of all that is released before.
    epsilon, delta : float
        The whole budget.
    rate : float
        Sampling rate. The rate that is charged is larger by ``SAMPLING_SLACK``.
    phases : tuple
        See `Phases`. A phase with more steps, or with a smaller share, gets more noise.

    Returns
    -------
    tuple of SampledGaussianEvent
        One for each phase.

    Raises
    ------
    ParameterError
        If no noise is enough.
    """

    def plan(noise: float) -> tuple[SampledGaussianEvent, ...]:
        return tuple(
            SampledGaussianEvent(
                rate=min(1.0, rate + SAMPLING_SLACK),
                noise_multiplier=noise * math.sqrt(steps / phases[-1][1] / share),
                steps=steps,
                label=name,
            )
            for name, steps, share in phases
        )

    def rough(noise: float) -> float:
        return _renyi_epsilon(first, plan(noise), delta)

    if rough(_MAX_NOISE) > epsilon:
        raise ParameterError(
            f"no noise up to {_MAX_NOISE:,.0f} clip norms keeps this training within epsilon. Use "
            "a larger epsilon, fewer steps, a smaller sampling_rate or a smaller first_share"
        )
    noise = boundary(lambda tried: rough(tried) <= epsilon, 0.0, _MAX_NOISE, tolerance=_CLOSE)[1]
    # Privacy loss distributions need less noise for the same epsilon, but take seconds.
    safe = high = max(_MIN_NOISE, noise)
    proven = False
    for _ in range(_TRIES):
        noise = max(_MIN_NOISE, noise)
        found = composed_epsilon((first, *plan(noise)), delta)
        if found <= epsilon:
            safe, proven = noise, True
        if epsilon * (1 - _CLOSE) <= found <= epsilon or (proven and noise == _MIN_NOISE):
            break
        noise *= found / (epsilon * (1 - _CLOSE / 2))  # epsilon falls nearly as 1 / noise
    while not proven:
        safe = high = high * _MORE
        proven = composed_epsilon((first, *plan(safe)), delta) <= epsilon
    return plan(safe)


def _renyi_epsilon(
    first: Event, trainings: tuple[SampledGaussianEvent, ...], delta: float
) -> float:
    """Return a quick bound on epsilon, by the Rényi accountant of dp_accounting."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    assert isinstance(first, GaussianEvent)  # the cap of a first part in Gaussian DP
    accountant = RdpAccountant(_ORDERS)
    accountant.compose(dp_accounting.GaussianDpEvent(first.sigma / first.sensitivity))
    for event in trainings:
        noise = dp_accounting.GaussianDpEvent(event.noise_multiplier)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(event.rate, noise), event.steps)
    return float(accountant.get_epsilon(delta))


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralSynthesizer(PairsSynthesizer):
    """Base of adversarial families: marginals first, at which the generator starts, then training.

    ``first_share`` is the share of the squared mu of the budget for all that is released before the
    training, ``sampling_rate`` the probability with which a step reads a row, and ``steps`` the
    number of steps.
    """

    strategies: ClassVar[tuple[str, ...]] = ("observed", "complete-rows", "impute-first")
    usual_steps: ClassVar[int] = 800

    missing: str = "observed"
    sampling_rate: float = 0.02
    steps: int | None = None

    model_: NetworkModel = field(init=False)

    def _check_parameters(self) -> Filter:
        for module in ("torch", "opacus"):
            import_optional(module, purpose="adversarial families")
        if self.clip != "auto":
            raise ParameterError(
                "clip is a parameter of AllPairs and Kamino. Leave it out: gradients of networks "
                "are clipped to a fixed norm"
            )
        rate, steps = self.sampling_rate, self.steps
        if not (is_number(rate) and 1e-6 <= rate <= 1):
            raise ParameterError(
                f"sampling_rate must be a number from 0.000001 to 1, not {rate!r}; .02 is usual"
            )
        if steps is not None and not (is_whole(steps) and 1 <= steps <= _MAX_STEPS):
            raise ParameterError(f"steps must be a whole number from 1 to {_MAX_STEPS:,}")
        if self.first_share is not None:
            self._check_share("first_share")
        found = super()._check_parameters()
        self._training_events()  # raises ParameterError if no noise is enough
        return found

    @property
    def _phases(self) -> Phases:
        """Name, steps and share of each training; public."""
        return (("critics", self._steps, 1.0),)

    @property
    def _steps(self) -> int:
        return self.usual_steps if self.steps is None else int(self.steps)

    @property
    def _budget(self) -> Filter:
        """The budget of the first part, a filter; trainings are charged beside it."""
        share = _FIRST_SHARE if self.first_share is None else float(self.first_share)
        whole = Cost.worth("gdp", float(self.epsilon), self._delta_to_spend)
        first = replace(whole, amount=min(MOST_GDP, share * whole.amount))
        return Filter.from_cost(first, delta=self._delta_to_spend)

    def _training_events(self) -> tuple[SampledGaussianEvent, ...]:
        (first,) = self._budget.filter().flatten()
        rate, epsilon = float(self.sampling_rate), float(self.epsilon)
        return planned_trainings(first, epsilon, self._delta_to_spend, rate, self._phases)

    @property
    def _margins_share(self) -> float:
        return 1.0

    def _split_rest(self, schema: Schema) -> list[Part]:  # noqa: ARG002
        return []

    def _reads(self, schema: Schema) -> Reads:  # noqa: ARG002
        return "rows"

    @property
    def _most_cells(self) -> int:
        return _MAX_CELLS

    def _fit(self, session: Session) -> Total:
        session, total = self._opened_rows(session)
        one_way = self._one_way(session, total)
        torch = import_optional("torch", purpose="adversarial families")
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums of several threads depend on how many there are
        try:
            merged = session.on(Merged(one_way.groups(session.facts.schema.names)))
            self.model_ = self._fit_networks(merged, one_way)
        finally:
            torch.set_num_threads(threads)
        self._report("done", 1.0)
        return self._counted(session, one_way, total)

    @abc.abstractmethod
    def _fit_networks(self, rows: Session, one_way: OneWayMarginals) -> NetworkModel:
        """Return the model, trained on rows whose levels are merged into groups."""
