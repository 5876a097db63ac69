"""A private table ready for queries."""

from __future__ import annotations

from dataclasses import dataclass

from missdp.knn.filled import FilledTable
from missdp.knn.profile import Profile

__all__ = ["Prepared"]


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """A filled table and how much one donor can matter in it. Private.

    Parameters
    ----------
    filled : FilledTable
        The rows.
    profile : Profile or None
        None if rows do not affect each other, or if a bound was declared.
    """

    filled: FilledTable
    profile: Profile | None = None
