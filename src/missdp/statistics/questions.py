"""What is asked of a table: public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from missdp.errors import ParameterError, UnprovenError, one_of
from missdp.schema import Numeric, Schema
from missdp.schema.conditions import Predicate
from missdp.schema.language import parse_where
from missdp.statistics.worst_case import Names

Uncertainty: TypeAlias = Literal["total", "noise", "worst-case"]

BOUNDED = ("count", "proportion", "mean", "sum")
_GROUPED = ("count", "proportion", "mean")
# What each statistic is of: so many attributes, or one condition for a proportion.
_OF = {
    "count": 0, "proportion": 1, "mean": 1, "sum": 1, "variance": 1, "standard_deviation": 1,
    "correlation": 2, "histogram": 1,
}  # fmt: skip


def check_kind(kind: str, uncertainty: str) -> None:
    """Refuse statistics that do not exist, and bounds that are not derived."""
    one_of("statistic", kind, _OF)
    one_of("uncertainty", uncertainty, get_args(Uncertainty))
    if uncertainty == "worst-case" and kind not in BOUNDED:
        raise UnprovenError(f"worst-case bounds exist for {', '.join(BOUNDED)} only")


@dataclass(frozen=True)
class Statistic:
    """A question about a table: what is asked for, of what, of whom.

    Parameters
    ----------
    kind : str
        "count", "proportion", "mean", "sum", "variance", "standard_deviation", "correlation" or
        "histogram".
    of : tuple of str
        The attributes that it is of: none for a count, two for a correlation; for a proportion
        the condition.
    where : str, optional
        The subpopulation, see `parse_where`; everyone by default.
    uncertainty : {"total", "noise", "worst-case"}, default "total"
        Counts, proportions, means and sums spend a twentieth of their cost at most on
        `Estimate.total_interval`, unless "noise" is enough. "worst-case" spends a tenth more on
        `Estimate.imputation_interval`.
    by : str, optional
        A categorical or ordinal attribute: the statistic (a count, a proportion or a mean) is asked
        for each of its declared levels, all in one release.

    Raises
    ------
    ParameterError
        If there is no such statistic, or it is of another number of attributes.
    UnprovenError
        If "worst-case" is asked of another statistic: no bound is derived.

    Examples
    --------
    >>> Statistic("mean", ("income",), where="age < 30").kind
    'mean'
    """

    kind: str
    of: Names = ()
    where: str | None = None
    uncertainty: Uncertainty = "total"
    by: str | None = None

    def __post_init__(self) -> None:
        check_kind(self.kind, self.uncertainty)
        if self.by and self.kind not in _GROUPED:
            raise ParameterError(f"groups are compared by {', '.join(_GROUPED)}, not {self.kind}")
        wanted = _OF[self.kind]
        if len(self.of) != wanted:
            what = ("nothing", "one attribute", "2 attributes")[wanted]
            raise ParameterError(f"{self.kind} is of {what}")

    def predicates(self, schema: Schema) -> tuple[Predicate, Predicate | None]:
        """Return the subpopulation, and the condition of a proportion."""
        where = parse_where(self.where, schema)
        if self.kind != "proportion":
            return where, None
        return where, parse_where(self.of[0], schema, named=self.kind)

    def reads(self, schema: Schema) -> frozenset[str]:
        """Return the attributes that it reads; refuse what it cannot be of. Public."""
        where, condition = self.predicates(schema)
        groups: set[str] = set()
        if self.by:
            if isinstance(schema[self.by], Numeric):
                raise ParameterError(f"{self.by!r} is numeric: groups are levels of an attribute")
            groups = {self.by}
        for name in (*groups, *(self.of if condition is None else ())):
            if not schema[name].size:
                raise ParameterError(f"{name!r} has no levels: no row has a value of it")
        if condition is not None:
            return where.names | condition.names | groups
        for attribute in (schema[name] for name in self.of):
            if self.kind != "histogram" and not isinstance(attribute, Numeric):
                raise ParameterError(
                    f"{attribute.name!r} is not numeric; ask for proportions or a histogram"
                )
        return where.names | frozenset(self.of) | groups
