"""Common parts of the adversarial families: the fixed plan of a fit, and its first part.

A fit first releases one-way marginals. The generator starts at them and is calibrated to them. Then
networks are trained on private rows. Parameters fix the cap of the first part, the sampling rate,
the steps and the noise. All are charged together before any row is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

from missdp.accounting import Cost, Event, Filter, GaussianEvent, SampledGaussianEvent
from missdp.accounting.exact import boundary
from missdp.accounting.loss_distributions import composed_epsilon
from missdp.accounting.measures import MAX_GDP
from missdp.baselines.networks import NetworkModel
from missdp.errors import ParameterError, import_optional
from missdp.inference.marginals import NoisyMarginals
from missdp.session import LevelMerge, Session
from missdp.session.training import SAMPLING_SLACK
from missdp.synth.all_pairs import check_gaussian, marginal_parts
from missdp.synth.family import Family, Learned, Request
from missdp.synth.parameters import check_share, is_integer, is_real_number
from missdp.synth.shared_steps import open_rows, release_one_way, row_totals, sample_rows
from missdp.synth.split import BudgetPlan, Part

Networks: TypeAlias = Callable[[Request[Any], Session, NoisyMarginals], NetworkModel]

Phases: TypeAlias = tuple[tuple[str, int, float], ...]
"""Name, steps and share of the training budget of each phase, in order."""

_FIRST_SHARE = 0.2  # share of the budget (squared mu) of the first part
_MIN_NOISE, _MAX_NOISE = 0.3, 2.0**16  # smallest and largest noise multiplier
_MAX_STEPS = 100_000  # steps of a training
_MAX_CELLS = 1 << 23  # cells of all pairs of attributes
_CLOSE = 1e-3  # relative gap between the proven and the requested epsilon
_TRIES = 6  # noise multipliers that are tried by loss distributions
_MORE = 1.05  # factor of the noise if no try was enough
# Rényi orders of the search for a noise multiplier. The best order is far below the last one.
_ORDERS = (*range(2, 33), 40, 48, 64, 96, 128, 192, 256, 512)


@lru_cache(maxsize=32)
def planned_trainings(
    first: Event, epsilon: float, delta: float, rate: float, phases: Phases
) -> tuple[SampledGaussianEvent, ...]:
    """Return the trainings with the smallest noise with which the complete plan keeps its budget.

    The plan is the first part and the trainings. It must be within (epsilon, delta).

    Parameters
    ----------
    first : Event
        The cap of the first part.
    epsilon, delta : float
        The complete budget.
    rate : float
        Sampling rate. The rate that is charged is larger by ``SAMPLING_SLACK``.
    phases : tuple
        See `Phases`. A phase with more steps, or with a smaller share, gets more noise.

    Returns
    -------
    tuple of SampledGaussianEvent
        An event for each phase.

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
        proven_epsilon = composed_epsilon((first, *plan(noise)), delta)
        if proven_epsilon <= epsilon:
            safe, proven = noise, True
        if epsilon * (1 - _CLOSE) <= proven_epsilon <= epsilon or (proven and noise == _MIN_NOISE):
            break
        noise *= proven_epsilon / (epsilon * (1 - _CLOSE / 2))  # epsilon falls nearly as 1 / noise
    while not proven:
        safe = high = high * _MORE
        proven = composed_epsilon((first, *plan(safe)), delta) <= epsilon
    return plan(safe)


def _renyi_epsilon(
    first: Event, trainings: tuple[SampledGaussianEvent, ...], delta: float
) -> float:
    """Return a fast bound on epsilon, by the Rényi accountant of dp_accounting."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    assert isinstance(first, GaussianEvent)  # the cap of a first part in Gaussian DP
    accountant = RdpAccountant(_ORDERS)
    accountant.compose(dp_accounting.GaussianDpEvent(first.sigma / first.sensitivity))
    for event in trainings:
        noise = dp_accounting.GaussianDpEvent(event.noise_multiplier)
        accountant.compose(dp_accounting.PoissonSampledDpEvent(event.rate, noise), event.steps)
    return float(accountant.get_epsilon(delta))


def _check(parameters: Any, phases: Callable[[Any], Phases]) -> None:
    for module in ("torch", "opacus"):
        import_optional(module, purpose="adversarial families")
    rate, steps = parameters.sampling_rate, parameters.steps
    if not (is_real_number(rate) and 1e-6 <= rate <= 1):
        raise ParameterError(
            f"sampling_rate must be a number from 0.000001 to 1, not {rate!r}. 0.02 is usual."
        )
    if steps is not None and not (is_integer(steps) and 1 <= steps <= _MAX_STEPS):
        raise ParameterError(f"steps must be an integer from 1 to {_MAX_STEPS:,}")
    if parameters.first_share is not None:
        check_share(parameters, "first_share")
    check_gaussian(parameters)
    _trainings(Request(parameters), phases)  # raises ParameterError if no noise is enough


def _budget(request: Request[Any]) -> Filter:
    """Return the filter of the first part. Trainings are charged in addition."""
    share = request.parameters.first_share
    share = _FIRST_SHARE if share is None else float(share)
    total = Cost.from_epsilon("gdp", float(request.parameters.epsilon), request.delta_to_spend)
    first = replace(total, amount=min(MAX_GDP, share * total.amount))
    return Filter.from_cost(first, delta=request.delta_to_spend)


def _trainings(
    request: Request[Any], phases: Callable[[Any], Phases]
) -> tuple[SampledGaussianEvent, ...]:
    (first,) = _budget(request).filter().flatten()
    parameters, delta = request.parameters, request.delta_to_spend
    rate, epsilon = float(parameters.sampling_rate), float(parameters.epsilon)
    return planned_trainings(first, epsilon, delta, rate, phases(parameters))


def _plan(request: Request[Any]) -> list[Part]:
    return marginal_parts(request, 1.0, max_cells=_MAX_CELLS)


def _fit(session: Session, plan: BudgetPlan, request: Request[Any], networks: Networks) -> Learned:
    session, count = open_rows(session, plan, request)
    request.report("measuring single attributes", 0.05)
    one_way, total = release_one_way(session, plan, request, count)
    torch = import_optional("torch", purpose="adversarial families")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums of several threads depend on their number
    try:
        merged = session.apply(LevelMerge(one_way.groups(session.facts.schema.names)))
        model = networks(request, merged, one_way)
    finally:
        torch.set_num_threads(threads)
    request.report("done", 1.0)
    total, complete = row_totals(session, total, count)
    return Learned(model, total, complete=complete)


def adversarial_family(
    networks: Networks,
    *,
    phases: Callable[[Any], Phases],
    parameters: Callable[[Any], None] = lambda _: None,
    reads_masks: bool = False,
) -> Family:
    """Return a family that releases marginals, and then trains a generator that starts at them.

    Parameters
    ----------
    networks : callable
        ``networks(request, rows, one_way)`` returns the `NetworkModel`, trained on rows whose
        levels are merged into groups.
    phases : callable
        Returns the name, the steps and the share of each training, by parameters.
    parameters : callable
        Raises ParameterError for invalid parameters that only this family has.
    reads_masks : bool, default False
        See `Family`.

    Returns
    -------
    Family
        The declaration of the family.
    """

    def check(values: Any) -> None:
        parameters(values)
        _check(values, phases)

    return Family(
        strategies=("observed", "complete-rows", "impute-first"),
        parameters=check,
        plan=_plan,
        budget=_budget,
        trainings=partial(_trainings, phases=phases),
        fit=partial(_fit, networks=networks),
        model=NetworkModel,
        sample=sample_rows,
        reads="rows",
        reads_masks=reads_masks,
    )


def steps_of(parameters: Any, *, usual: int = 800) -> int:
    """Return the number of steps of the last training."""
    return usual if parameters.steps is None else int(parameters.steps)
