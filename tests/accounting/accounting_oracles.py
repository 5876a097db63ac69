"""Independent oracles: brute force over product spaces."""

import math
from itertools import product

import numpy as np


def laplace_pmf(scale, centre, reach=60):
    x = np.arange(-reach, reach + 1)
    return math.tanh(1 / (2 * scale)) * np.exp(-np.abs(x - centre) / scale)


def gaussian_pmf(sigma, centre, reach=60):
    x = np.arange(-reach, reach + 1)
    wide = np.arange(-4 * reach, 4 * reach + 1)
    return np.exp(-((x - centre) ** 2) / (2 * sigma**2)) / np.exp(-(wide**2) / (2 * sigma**2)).sum()


def joint(pmfs):
    """Product law of independent coordinates, flattened."""
    out = np.ones(1)
    for pmf in pmfs:
        out = np.multiply.outer(out, pmf).ravel()
    return out


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def shifted_delta(pmf, shifts, epsilon):
    """Delta of noise on one query vector that a row moves by ``shifts``, both directions."""
    p, q = joint([pmf(0) for _ in shifts]), joint([pmf(s) for s in shifts])
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def renyi(p, q, order):
    """Rényi divergence of two probability vectors of equal, full support."""
    logs = order * np.log(p) + (1 - order) * np.log(q)
    top = logs.max()
    return float((top + np.log(np.exp(logs - top).sum())) / (order - 1))


def integer_shifts(budget, norm, dimension=3):
    """All non-zero integer vectors with norm (1: L1, 2: squared L2) at most ``budget``."""
    span = range(-int(budget), int(budget) + 1)
    size = (lambda v: sum(map(abs, v))) if norm == 1 else (lambda v: sum(x * x for x in v))
    return [v for v in product(span, repeat=dimension) if 0 < size(v) <= budget]


def gaussian_pair(sigma, shift):
    """Exact laws of discrete Gaussian noise on several numbers, at 0 and at a shift of them."""
    reach = math.ceil((9 if len(shift) < 3 else 6) * sigma) + max(map(abs, shift))
    return [joint([gaussian_pmf(sigma, c, reach) for c in at]) for at in ((0,) * len(shift), shift)]


def bit_pair(up, down):
    """The two laws of a bit whose losses are ``up`` and ``-down``: the worst ones of that range."""
    q = -math.expm1(-down) / (math.exp(up) - math.exp(-down))
    return np.array([math.exp(up) * q, 1 - math.exp(up) * q]), np.array([q, 1 - q])
