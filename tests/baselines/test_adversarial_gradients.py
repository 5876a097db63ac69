"""Gradients of single rows are those of the loss that is written down here, row by row."""

import numpy as np
import pytest

from missdp.baselines.critics import (
    autoencoder_gradient,
    conditional_gradient,
    expected_gradient,
    two_critics_gradient,
)
from missdp.baselines.networks import random_critic

torch = pytest.importorskip("torch")

SIZES = [3, 4, 2]
STARTS = np.cumsum([0, *SIZES])
WIDTH = int(STARTS[-1])
HIDDEN = 5
RNG = np.random.default_rng(0)
# All combinations of levels and holes.
CODES = dict(zip("abc", np.indices([k + 1 for k in SIZES]).reshape(3, -1), strict=True))
ROWS = len(CODES["a"])
MARGINS = np.concatenate([RNG.dirichlet(np.ones(k)) for k in SIZES])
plus = torch.nn.functional.softplus


def moved(arrays):
    return [a + 0.5 * RNG.standard_normal(a.shape) for a in arrays]


def leaky(x):
    return torch.nn.functional.leaky_relu(x, 0.2)


def expected(mean, variance):
    """Of a leaky activation of a Gaussian, as Śmieja et al. (2018) have it; no variance, none."""
    sure = variance == 0
    s = torch.sqrt(torch.where(sure, torch.ones_like(variance), variance))
    normal = torch.distributions.Normal(0.0, 1.0)
    spread = s * torch.exp(normal.log_prob(mean / s)) + mean * normal.cdf(mean / s)
    return 0.2 * mean + 0.8 * torch.where(sure, torch.relu(mean), spread)


def fed(i, w1, b1):
    """Mean and variance of what the first layer is fed with."""
    mean, variance = b1, torch.zeros(w1.shape[1], dtype=torch.float64)
    for a, name in enumerate("abc"):
        block = w1[STARTS[a] : STARTS[a + 1]]
        code = CODES[name][i]
        if code < SIZES[a]:
            mean = mean + block[code]
        else:
            law = torch.tensor(MARGINS[STARTS[a] : STARTS[a + 1]])[:, None]
            middle = (law * block).sum(0)
            mean, variance = mean + middle, variance + (law * (block - middle) ** 2).sum(0)
    return mean, variance


def score(hidden, p):
    return leaky(hidden @ p[0] + p[1]) @ p[2] + p[3]


def seen_levels(i):
    return [int(STARTS[a] + CODES[n][i]) for a, n in enumerate("abc") if CODES[n][i] < SIZES[a]]


def of_two(i, p):
    rows = torch.zeros(WIDTH, dtype=torch.float64)
    rows[seen_levels(i)] = 1
    mask = torch.tensor([float(CODES[n][i] < k) for n, k in (("a", 3), ("c", 2))]).double()
    first = score(leaky(rows @ p[0] + p[1]), p[2:6])
    return (plus(-first) + plus(-score(leaky(mask @ p[6] + p[7]), p[8:]))).sum()


def of_expected(i, p):
    return plus(-score(expected(*fed(i, p[0], p[1])), p[2:])).sum()


def of_conditional(i, p):
    mean, variance = fed(i, p[1], p[2])
    parts = [
        plus(-score(expected(mean + p[0][level], variance), p[3:])).sum()
        for level in seen_levels(i)
    ]
    return sum(parts) / max(1, len(parts)) + 0.0 * sum(q.sum() for q in p)


def of_autoencoder(i, p):
    code = torch.tanh(expected(*fed(i, p[0], p[1])) @ p[2] + p[3])
    out = leaky(code @ p[4] + p[5]) @ p[6] + p[7]
    total = 0.0 * sum(q.sum() for q in p)
    for a, name in enumerate("abc"):
        if CODES[name][i] < SIZES[a]:
            law = torch.log_softmax(out[STARTS[a] : STARTS[a + 1]], 0)
            total = total - law[CODES[name][i]]
    return total


CRITIC = moved(random_critic(WIDTH, HIDDEN, RNG))
SHAPES = [(WIDTH, 5), (5,), (5, 3), (3,), (3, 4), (4,), (4, WIDTH), (WIDTH,)]
CASES = {
    "two critics": (
        two_critics_gradient,
        (STARTS, np.array([0, 2])),
        [*CRITIC, *moved(random_critic(2, 4, RNG))],
        of_two,
    ),
    "expected": (expected_gradient, (STARTS, MARGINS), CRITIC, of_expected),
    "conditional": (
        conditional_gradient,
        (STARTS, MARGINS),
        [RNG.standard_normal((WIDTH, HIDDEN)), *CRITIC],
        of_conditional,
    ),
    "autoencoder": (
        autoencoder_gradient,
        (STARTS, MARGINS),
        [RNG.standard_normal(s) for s in SHAPES],
        of_autoencoder,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_single_rows_are_those_of_their_loss(case):
    function, shown, parameters, loss = CASES[case]
    found = function(CODES, *shown, *parameters)
    assert [part.shape for part in found] == [(ROWS, *p.shape) for p in parameters]
    for i in range(ROWS):
        held = [torch.tensor(p, requires_grad=True) for p in parameters]
        wanted = torch.autograd.grad(loss(i, held), held)
        for ours, theirs in zip(found, wanted, strict=True):
            assert np.abs(ours[i] - theirs.numpy()).max() < 1e-9
        alone = function({n: c[i : i + 1] for n, c in CODES.items()}, *shown, *parameters)
        for ours, whole in zip(alone, found, strict=True):  # other rows change nothing
            assert np.allclose(ours[0], whole[i], rtol=0, atol=1e-12)
