"""Draws a second: ours, OpenDP's (exact, too) and NumPy's (floating point, predictable: insecure).

python bench/noise_speed.py
"""

import time

import numpy as np
import opendp.prelude as dp

from missdp.mechanisms import SecureNoise
from missdp.mechanisms.exact_noise import LatticeSampler

SCALES = [0.01, 0.3, 1.0, 17.3, 1e3, 2.0**20, 1e12]
OURS, THEIRS = 4_000_000, 20_000


def rate(draw, count):
    """Draws per second of processor time, the best of three."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        draw(count)
        spent.append(time.process_time() - start)
    return count / min(spent)


def numpy_draw(law, scale):
    rng = np.random.default_rng(0)
    if law == "gaussian":
        return lambda count: np.rint(rng.normal(0.0, scale, count))
    odds = -np.expm1(-1 / scale)
    return lambda count: rng.geometric(odds, count) - rng.geometric(odds, count)


def opendp_draw(law, scale):
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if law == "laplace":
        measure = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale)
    else:
        measure = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale)
    return lambda count: measure(np.zeros(count, dtype=np.int64))


def main():
    dp.enable_features("contrib")
    source = SecureNoise()
    print(f"{'law':8} {'scale':>8}  {'ours':>9} {'opendp':>9} {'numpy':>9}  ours/opendp  tables")
    for law in ("laplace", "gaussian"):
        mine = source.discrete_laplace if law == "laplace" else source.discrete_gaussian
        for scale in SCALES:
            rates = [
                rate(lambda count, s=scale, draw=mine: draw(s, count), OURS),
                rate(opendp_draw(law, scale), THEIRS),
                rate(numpy_draw(law, scale), OURS),
            ]
            tables = 1e3 / rate(lambda count, s=scale, of=law: [LatticeSampler(of, s)] * count, 1)
            shown = " ".join(f"{r / 1e6:7.2f} M" for r in rates)
            print(f"{law:8} {scale:8.3g}  {shown}  {rates[0] / rates[1]:11.0f}  {tables:.2f} ms")
    start = time.process_time()
    for _ in range(1000):
        source.discrete_gaussian(2.0**20, 18_000)
    spent = time.process_time() - start
    print(f"1,000 steps of training with 18,000 weights: {spent:.1f} s of noise")


if __name__ == "__main__":
    main()
