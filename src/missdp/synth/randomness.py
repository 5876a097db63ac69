"""Where synthetic rows come from: never the stream that the noise came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from missdp.errors import ParameterError
from missdp.mechanisms import Witness
from missdp.synth.inputs import is_whole

__all__ = ["sampling_generator"]

_SAMPLING = (7, 1, 3)  # any stream but those that SeededNoise spawns


def sampling_generator(seed: Any) -> np.random.Generator:
    """Return a generator of its own for a seed, a generator or None.

    Examples
    --------
    >>> one, two = sampling_generator(5), np.random.default_rng(5)
    >>> bool(one.random() == two.random())
    False
    """
    if seed is None:
        return np.random.default_rng()
    if isinstance(seed, Witness):
        return seed.generator()
    if isinstance(seed, np.random.Generator):  # repeatable, but not the generator's own stream
        entropy = seed.integers(2**32, size=8).tolist()
        return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=_SAMPLING))
    if not (is_whole(seed) and seed >= 0):
        raise ParameterError("random_state must be None or a whole number, at least 0")
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=_SAMPLING))
