"""Checks of the parameters that all synthesizers have, and of shares of a budget."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from missdp.accounting import Composition, Filter
from missdp.errors import ParameterError, check_epsilon, did_you_mean

if TYPE_CHECKING:
    from missdp.synth.base import Synthesizer

_MAX_ROWS = 2**53  # largest declared number of rows
_SAMPLING = (7, 1, 3)  # spawn key that no stream of SeededNoise has


def is_integer(value: Any) -> TypeGuard[int]:
    """Return whether a parameter is an integer. Booleans are not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real_number(value: Any) -> TypeGuard[float]:
    """Return whether a parameter is a real number. Booleans are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_declared(n_rows: str | int) -> TypeGuard[int]:
    """Return whether the number of rows was declared public, and is not released."""
    return not (isinstance(n_rows, str) and n_rows == "noisy")


def chosen_delta(delta: float | None, n_rows: str | int) -> float:
    """Return the delta of a fit: the requested one, else 1e-6 or a smaller one for many rows.

    For a declared number n of rows the default is at most 1 / (100 n).

    >>> from missdp.synth.parameters import chosen_delta
    >>> chosen_delta(None, "noisy"), chosen_delta(None, 10**6), chosen_delta(0.0, 10**6)
    (1e-06, 1e-08, 0.0)
    """
    if delta is not None:
        return delta
    return min(1e-6, 1 / (100 * n_rows)) if is_declared(n_rows) and n_rows > 0 else 1e-6


def sampling_generator(seed: Any) -> np.random.Generator:
    """Return an independent generator for a seed, a generator or None.

    Synthetic rows never come from the stream of random numbers that the noise came from.
    """
    if seed is None:
        return np.random.default_rng()
    if isinstance(seed, np.random.Generator):  # repeatable, and not the stream of the generator
        entropy = seed.integers(2**32, size=8).tolist()
        return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=_SAMPLING))
    _check_seed(seed)
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=_SAMPLING))


def check_share(parameters: Any, *names: str) -> None:
    """Raise ParameterError for shares of a budget that are out of range."""
    for name in names:
        value = getattr(parameters, name)  # rounding would decide the rest of shares near 0 or 1
        if not (is_real_number(value) and 1e-4 <= value <= 0.99):
            raise ParameterError(f"{name} must be a share of the budget, from 0.0001 to 0.99")


def check_parameters(parameters: Synthesizer) -> Mapping[str, Any]:
    """Check the parameters that all synthesizers have, and those of the family.

    Parameters
    ----------
    parameters : Synthesizer
        A synthesizer. Only its parameters are read.

    Returns
    -------
    mapping of str to object
        The parameters that a family writes to files in another form.

    Raises
    ------
    ParameterError
        If a parameter has no valid value.
    """
    family = parameters.family
    if parameters.missing not in family.strategies:
        raise ParameterError(
            f"missing must be one of {list(family.strategies)}, not {parameters.missing!r}"
            f"{did_you_mean(parameters.missing, family.strategies)}"
        )
    if parameters.bins not in ("private", "equal"):
        raise ParameterError("bins must be 'private' or 'equal'")
    _check_budget(parameters)
    declared = parameters.n_rows
    if is_declared(declared) and not (is_integer(declared) and 1 <= declared <= _MAX_ROWS):
        raise ParameterError("n_rows must be 'noisy' or an integer from 1 to 2**53")
    if parameters.random_state is not None:
        _check_seed(parameters.random_state)
    shown = parameters.progress
    if not (shown is None or isinstance(shown, bool) or callable(shown)):
        raise ParameterError("progress must be callable, True, False or None")
    if not isinstance(parameters.budget, Filter | Composition | None):
        raise ParameterError("budget must be a missdp.Filter, a missdp.Composition or None")
    return family.parameters(parameters) or {}


def _check_budget(parameters: Synthesizer) -> None:
    for name in ("epsilon",) if parameters.delta is None else ("epsilon", "delta"):
        value = getattr(parameters, name)
        if not is_real_number(value):
            raise ParameterError(f"{name} must be a number, not {type(value).__name__}")
        if value != value:
            raise ParameterError(f"{name} must be a number, not nan")
    check_epsilon(parameters.epsilon)


def _check_seed(seed: Any) -> None:
    if not (is_integer(seed) and seed >= 0):
        raise ParameterError("random_state must be None or an integer, at least 0")
