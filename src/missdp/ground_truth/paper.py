"""Algorithm 4 of Mohapatra et al. (PVLDB 2024), for comparison, and its sound counterpart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from missdp.ground_truth.bounds import LinearCost, PureCost
from missdp.ground_truth.gates import Gate
from missdp.ground_truth.partition import Partition, best_partition

__all__ = ["PaperApproximation", "paper_approximation", "sound_partition"]


@dataclass(frozen=True, kw_only=True)
class PaperApproximation:
    """The figure the paper prints: an approximation that can under-state the privacy loss.

    It is deliberately not a guarantee and has no δ, adjacency or conditions.

    Attributes
    ----------
    linear_epsilon : float
        Σ p_l·E_l over the best partition. Smaller than log(1 + p_l(e^{E_l} - 1)) and not a bound.
    linear_partition : Partition
        The partition behind it.
    sound : Partition
        Best partition at the sound cost, under the same pruning; its ``cost`` is a valid ε̄ for
        pure mechanisms with gates fixed in advance.

    Examples
    --------
    >>> print(paper_approximation([{"a"}], [1.0], observed={"a": 0.5}))
    paper's approximation 0.5 (linear, may under-state the loss); same search, sound: 0.620115
    """

    linear_epsilon: float
    linear_partition: Partition
    sound: Partition

    def __str__(self) -> str:
        return (
            f"paper's approximation {self.linear_epsilon:.6g} (linear, may under-state the loss); "
            f"same search, sound: {self.sound.cost:.6g}"
        )


def paper_approximation(
    gates: Sequence[Gate], epsilons: Sequence[float], *, observed: Mapping[str, float]
) -> PaperApproximation:
    """Compute what a correct Algorithm 4 gives: best valid partition at the linear cost pε.

    Parameters
    ----------
    gates : sequence of (collection of str, or None)
        Attribute set of each marginal.
    epsilons : sequence of float
        ε of each marginal.
    observed : mapping of str to float
        π_a = 1 - φ_a; attributes that are not named are always observed.

    Returns
    -------
    PaperApproximation

    Notes
    -----
    Guarantee: none. Lemma 5.10's pruning (every group has a non-empty set) is applied as the
    paper does, although the lemma is false: with gates {a}, and 99 times {a, b}, all at π = 1/2,
    leaving the first without amplification costs (1 + 99/4)/100, the best pruned partition 1/2.
    Pruning can only raise a figure. :func:`sound_partition` does not prune.

    Examples
    --------
    >>> rates = {"State": 0.75, "Gender": 0.75, "Income": 0.75}
    >>> gates = [{"State"}, {"Occupation"}, {"Gender"}, {"Gender", "Income"}]
    >>> figure = paper_approximation(gates, [0.25] * 4, observed=rates)
    >>> figure.linear_epsilon, round(figure.sound.cost, 6)
    (0.8125, 0.829337)
    """
    linear = best_partition(
        gates, epsilons, observed=observed, cost=LinearCost(), allow_ungated=False
    )
    sound = best_partition(gates, epsilons, observed=observed, cost=PureCost(), allow_ungated=False)
    return PaperApproximation(linear_epsilon=linear.cost, linear_partition=linear, sound=sound)


def sound_partition(
    gates: Sequence[Gate], epsilons: Sequence[float], *, observed: Mapping[str, float]
) -> Partition:
    """Best partition at the sound cost Σ_l log(1 + p_l(e^{E_l} - 1)), without pruning.

    Parameters
    ----------
    gates, epsilons, observed
        As for :func:`paper_approximation`.

    Returns
    -------
    Partition
        Its ``cost`` is a valid ε̄ under MCAR for pure mechanisms with gates fixed in advance. The
        mask mixture is never larger; this is here for comparison.

    Notes
    -----
    The sound form of Algorithm 4 of Mohapatra et al. (2024).

    Examples
    --------
    >>> round(sound_partition([{"a"}, {"a"}], [0.5, 0.5], observed={"a": 0.5}).cost, 6)
    0.620115
    """
    return best_partition(gates, epsilons, observed=observed, cost=PureCost())
