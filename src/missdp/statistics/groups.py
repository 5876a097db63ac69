"""One mechanism for each of several disjoint groups of rows: parallel composition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from missdp.session.noise import NoiseSource

if TYPE_CHECKING:
    from missdp.session.session import Mechanism


@dataclass(frozen=True)
class ParallelGroups:
    """The same mechanism for each group of a public partition, with the cost of one group.

    *Theorem* (parallel composition). Let each row be in at most one group, by its own cells. Let a
    mechanism with independent noise answer group g. Let it be epsilon-DP (or rho-zCDP, or mu-GDP)
    on the rows of g alone. Then all answers together are epsilon-DP (or rho-zCDP, or mu-GDP).
    *Proof.* Tables that differ by one row differ in the rows of one group at most. The answers of
    all other groups have the same distribution for both tables, and are independent of that group's
    answer. So the distribution of all answers changes by as much as the distribution of the one
    group.

    The mechanism may read its group in any way. With smooth sensitivity, the private bound of a
    group is that of the group's own rows: no row of another group moves it.
    """

    mechanism: Mechanism
    groups: int

    def draw(self, exact: tuple[Any, ...], source: NoiseSource) -> tuple[Any, ...]:
        """Draw the answer of each group, from noise of its own."""
        return tuple(self.mechanism.draw(each, source) for each in exact)
