"""Attributes that are missing together: groups whose holes are one.

Released counts of rows in which two attributes are both missing are noisy, and a correlation that
follows them tears apart what belongs together. Whether two attributes have the same holes (the
fewer of one are among those of the other) is therefore weighed against independence, by how likely
either makes the counts; evidence of all pairs between two groups adds up. Within a group, what is
known of the holes of each attribute is known of all: it is averaged.

Everything here is a function of released values.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product

import numpy as np

from missdp.inference.masks import Both, Strip, positive
from missdp.types import Floats

Groups = tuple[tuple[int, ...], ...]

_EVIDENCE = 3.0  # in logarithms of likelihood, beyond that of the number of such groups
_SHORT = 2.0  # standard deviations, by which counts may fall short of what one hole for both makes
_SHORT_AGAIN = 4.0  # of groups that were found before
_ALIKE = 0.8  # ratio of rates above which they have the same reasons
_APART = 1e-6  # what is left of independence, so that a correlation stays one
_TIED = 1 - 1e-5


def groups_of(
    both: Both,
    rates: Floats,
    n_rows: float,
    *,
    before: Floats | None = None,
    without: Collection[int] = (),
) -> Groups:
    """Find the groups of attributes that are missing together.

    Parameters
    ----------
    both : mapping of (int, int) to (float, float)
        Rows in which two attributes are both missing, and the noise of their number.
    rates : ndarray
        Missing rate of each attribute.
    n_rows : float
    before : ndarray, optional
        Latent correlations found before; groups that they tie stay unless there is much against it.
    without : collection of int
        Attributes in no group.
    """
    d = len(rates)
    evidence, short, pairs = np.full((d, d), -math.inf), np.zeros((d, d)), np.ones((d, d))
    allowed = np.full((d, d), _SHORT) if before is None else _allowed(before)
    for (a, b), (count, std) in both.items():
        if not {a, b} & {*without} and std > 0:
            together, apart = n_rows * min(rates[a], rates[b]), n_rows * rates[a] * rates[b]
            weighed = ((count - apart) ** 2 - (count - together) ** 2) / (2 * std**2)
            evidence[a, b] = evidence[b, a] = weighed
            short[a, b] = short[b, a] = (together - count) / std
    holed = len({*chain(*both)})
    groups, within = {a: [a] for a in range(d)}, np.zeros(d)
    while d > 1:
        plain = np.where(short <= allowed * np.sqrt(pairs), evidence, -math.inf)
        one, other = sorted(map(int, np.unravel_index(plain.argmax(), plain.shape)))
        if plain[one, other] <= 0:
            break
        groups[one] = sorted(groups[one] + groups.pop(other))
        within[one] += within[other] + evidence[one, other]
        for sums in (evidence, short, pairs):  # over all pairs between two groups
            sums[one] += sums[other]
            sums[:, one] = sums[one]
        allowed[one] = np.minimum(allowed[one], allowed[other])
        allowed[:, one] = allowed[one]
        evidence[other] = evidence[:, other] = evidence[one, one] = -math.inf
    plainly = {
        a: _EVIDENCE + math.log(math.comb(max(holed, len(own)), len(own)))
        for a, own in groups.items()
    }
    return tuple(tuple(own) for a, own in groups.items() if len(own) > 1 and within[a] > plainly[a])


def _allowed(before: Floats) -> Floats:
    return np.where(before > _TIED, _SHORT_AGAIN, _SHORT)


def pooled(
    groups: Groups, strips: Mapping[tuple[int, ...], Strip], both: Both, rates: Floats
) -> tuple[dict[tuple[int, ...], Strip], dict[tuple[int, int], tuple[float, float]]]:
    """Return what is known of holes and of their coincidences, averaged over each group.

    Of attributes in one group, nothing is left to learn from each other.
    """
    group = {a: own for own in groups for a in own}
    strips = {e: s for e, s in strips.items() if group.get(e[0], ()) != group.get(e[1], (-1,))}
    for own in groups:
        alike = [a for a in own if rates[a] >= _ALIKE * max(rates[c] for c in own)]
        for effect in [e[1:] for e in strips if e[0] == alike[0]]:
            same = _mean([strips[a, *effect] for a in alike])
            strips |= {(a, *effect): same for a in alike}
    found = {}
    for a, b in both:
        one, other = group.get(a, (a,)), group.get(b, (b,))
        if one != other:
            counts = [both[min(p), max(p)] for p in product(one, other)]
            mean = float(np.mean([number for number, _ in counts]))
            found[a, b] = mean, math.hypot(*(noise for _, noise in counts)) / len(counts)
    return strips, found


def _mean(strips: Sequence[Strip]) -> Strip:
    return replace(
        strips[0],
        missing=np.mean([s.missing for s in strips], axis=0),
        std=math.hypot(*(s.std for s in strips)) / len(strips),
    )


def tied(correlation: Floats, groups: Iterable[Sequence[int]]) -> Floats:
    """Return latent correlations under which the holes of each group are one."""
    own = np.arange(len(correlation))
    for group in groups:
        own[list(group)] = min(group)
    kept, place = np.unique(own, return_inverse=True)
    if len(kept) == len(own):
        return correlation
    share = np.eye(len(kept))[place]
    share = share / share.sum(axis=0)
    few = share.T @ correlation @ share
    few[np.diag_indices_from(few)] = 1.0
    whole = positive(few)[np.ix_(place, place)]
    return np.asarray((1 - _APART) * whole + _APART * np.eye(len(whole)))
