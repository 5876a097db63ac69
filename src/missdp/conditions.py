"""Conditions: the assumptions a guarantee rests on, machine-readable and printable.

A guarantee without conditions is unconditional. Conditions are never dropped: composing two
guarantees unites them, and printing a guarantee prints them.

The sentences are the text of a guarantee, and no proof is in this file. Proofs for the table before
values went missing also read two facts about each condition, ``implies_row_independence`` and
``holds_for_every_mask``: see `missdp.ground_truth`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.dataclasses import dataclass

from missdp.errors import ParameterError, check_fraction
from missdp.serialization import Record
from missdp.validation import Count, CountFrom1, Positive, Probability, as_tuple

Names = Annotated[
    tuple[str, ...],
    Field(description="a collection of names, not one string"),
    BeforeValidator(as_tuple),
    AfterValidator(lambda names: tuple(sorted({*names}))),
]
"Names, which are sorted."


@dataclass(frozen=True)
class Condition(Record, abstract=True):
    """Base class of all assumptions. A new assumption is a subclass that is a frozen dataclass.

    Attributes
    ----------
    implies_row_independence : bool
        Class attribute. Whether the condition implies that rows lose values independently of each
        other. Every guarantee for the ground truth needs such a condition.
    holds_for_every_mask : bool
        Class attribute. Whether the condition does not depend on the pattern of missing cells. A
        guarantee for the ground truth averages over draws of the missing cells. Nothing is proven
        if a condition may fail for some draws.
    sentence : str
        Class attribute. The assumption in one plain sentence, in which ``{name}`` is a field and
        ``{0.name}`` a property. Other texts override `statement`.

    Examples
    --------
    >>> condition = RowIndependentMissingness()
    >>> Condition.from_json(condition.to_json()) == condition
    True
    """

    implies_row_independence: ClassVar[bool] = False
    holds_for_every_mask: ClassVar[bool] = False
    sentence: ClassVar[str]

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        texts = {n: ", ".join(map(str, v)) if type(v) is tuple else v for n, v in values.items()}
        return self.sentence.format(self, **texts)

    def __str__(self) -> str:
        return self.statement()


def all_conditions(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return conditions as a tuple, or raise an error if one is not a `Condition`."""
    result = tuple(conditions)
    if not all(isinstance(condition, Condition) for condition in result):
        raise ParameterError("conditions must all be Condition objects")
    return result


Rates = Annotated[
    tuple[tuple[str, float], ...],
    BeforeValidator(
        lambda rates: tuple(rates.items()) if isinstance(rates, Mapping) else as_tuple(rates)
    ),
    AfterValidator(lambda pairs: tuple(sorted(pairs))),
]
"Probabilities by name, as sorted pairs."


@dataclass(frozen=True)
class MissingCompletelyAtRandom(Condition):
    """Cells go missing at random with known rates, independently across attributes and rows.

    Parameters
    ----------
    observed : mapping of str to float, or iterable of pairs
        Attribute name to the probability, in [0, 1], that its value is observed. It becomes a
        sorted tuple of pairs. Attributes that are not named are always observed.

    Examples
    --------
    >>> MissingCompletelyAtRandom({"Income": 0.75}).statement()
    'Values go missing completely at random, independently across rows and attributes, and are
    observed with probability 0.75 for Income and 1 for every other attribute.'
    """

    observed: Rates

    implies_row_independence, holds_for_every_mask = True, True
    sentence = (
        "Values go missing completely at random, independently across rows and attributes, and are "
        "observed with probability {0.rates}."
    )

    if TYPE_CHECKING:

        def __init__(self, observed: Mapping[str, float] | Iterable[tuple[str, float]]) -> None: ...

    def __post_init__(self) -> None:
        if len(dict(self.observed)) < len(self.observed):
            raise ParameterError("observed names an attribute twice")
        for name, rate in self.observed:
            check_fraction(f"observed[{name!r}]", rate)

    @property
    def rates(self) -> str:
        """The probabilities, in words."""
        rates = ", ".join(f"{rate:.6g} for {name}" for name, rate in self.observed)
        return f"{rates} and 1 for every other attribute" if rates else "1 for every attribute"


@dataclass(frozen=True, init=False)  # as its base class, for type checkers
class ObservedAtMost(MissingCompletelyAtRandom):
    """Given its row, each cell is missing independently, with bounded observation probability.

    The probability may depend on all values of the row, including the cell itself (MAR, MNAR). An
    example is a logistic model with declared weights
    (`missdp.evaluate.MissingMechanism.assumption`). The proofs for cells missing completely at
    random hold for each row by itself. No bound decreases with a probability of being observed, so
    all bounds hold at the largest probabilities.

    Parameters
    ----------
    observed : mapping of str to float, or iterable of pairs
        Attribute name to the largest probability, in [0, 1], over all possible rows.
        Attributes that are not named may always be observed.
    """

    sentence = (
        "Given the values of a row, they go missing independently of each other and of the values "
        "and missing values of other rows, and whatever the values are, each is observed with "
        "probability at most {0.rates}."
    )


@dataclass(frozen=True)
class RowIndependentMissingness(Condition):
    """Each row loses values independently of other rows (Mohapatra et al. 2024, Theorem 5.2)."""

    implies_row_independence, holds_for_every_mask = True, True
    sentence = (
        "Whether a value of one row is missing does not depend on any other row, neither on its "
        "values nor on which of them are missing."
    )


@dataclass(frozen=True)
class BoundedObservation(Condition):
    """A row is observed on one of the required sets with probability at most ``p_max``.

    Parameters
    ----------
    p_max : float
        Declared upper bound, in [0, 1], on the probability that a row is observed on *at least one*
        set of required attributes of a release, including sets that the release might have used.
        It holds for all values of the row (MNAR) and independently of other rows.
    together : bool, default False
        Whether the bound covers all releases of `missdp.ground_truth.joint` together.
    """

    p_max: Probability
    together: bool = False

    implies_row_independence, holds_for_every_mask = True, True

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        whose = "all these releases" if self.together else "a release"
        return (
            f"Whatever its values, and whatever other rows contain or lack, a row is observed with "
            f"probability at most {self.p_max:.6g} on all attributes that some mechanism of "
            f"{whose} needs, or would need under another choice by the data. Each row loses "
            "values independently of every other row."
        )


@dataclass(frozen=True)
class DatasetCollection(Condition):
    """The table belongs to a declared collection of data sets (Hu, Sanyal & Schölkopf 2024, §4.1).

    Parameters
    ----------
    max_missing : int
        Largest number of missing entries of any table in the collection, at least 0.
    n : int
        Number of rows of every table in the collection, at least 1.
    description : str, default ""
        Further limits of the collection in words.
    """

    max_missing: Count
    n: CountFrom1
    description: str = ""

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        more = f", and is limited to: {self.description.rstrip('.')}" if self.description else ""
        return f"The table has {self.n} rows and at most {self.max_missing} missing entries{more}."


@dataclass(frozen=True)
class EigenGap(Condition):
    """The k-th eigen-gap of the table's second-moment matrix is bounded from below.

    Parameters
    ----------
    k : int
        Number of the gap, between the k-th and the (k+1)-th eigenvalue, at least 1.
    at_least : float
        Declared lower bound, above 0.
    """

    k: CountFrom1
    at_least: Positive

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        return (
            f"The gap between eigenvalues {self.k} and {self.k + 1} of the second-moment matrix "
            f"is at least {self.at_least:.6g}."
        )


@dataclass(frozen=True)
class PublicDomain(Condition):
    """Columns, categories, bounds, codes and rules were declared without the private table.

    Parameters
    ----------
    note : str, default ""
        Source of the domain.
    """

    note: str = ""

    holds_for_every_mask = True

    def statement(self) -> str:
        """Return the assumption as one plain sentence."""
        note = f" ({self.note})" if self.note else ""
        facts = "Columns, categories, bounds, codes and rules"
        return f"{facts} were declared without the private table{note}."


@dataclass(frozen=True)
class DataDependentDomain(Condition):
    """A warning: domain or bounds of some attributes were read from the private table."""

    attributes: Names

    holds_for_every_mask = True

    sentence = (
        "WARNING: categories, bounds or codes were read from the private table, which the stated "
        "guarantee does not cover, for: {attributes}."
    )


@dataclass(frozen=True)
class DeclaredRowCount(Condition):
    """The number of rows is declared public."""

    n: Count

    holds_for_every_mask = True
    sentence = "The number of rows, {n}, is public: the guarantee does not hide it."


@dataclass(frozen=True)
class ExplicitSeed(Condition):
    """The noise was drawn from a seeded generator, which is for tests only."""

    holds_for_every_mask = True
    sentence = (
        "WARNING: the noise was seeded, so nothing is protected from anyone who knows the seed."
    )


@dataclass(frozen=True)
class BinsFromRelease(Condition):
    """Another release found the bins of numeric attributes."""

    holds_for_every_mask = True
    attributes: tuple[str, ...]
    release: str

    sentence = (
        "The bins of {attributes} were found by {release}, whose cost is its own and is not "
        "counted here."
    )


@dataclass(frozen=True)
class LevelsFromRelease(Condition):
    """Another release found the levels of open attributes."""

    holds_for_every_mask = True
    attributes: tuple[str, ...]

    sentence = (
        "The levels of {attributes} were found by an earlier fit, whose cost is its own and is not "
        "counted here."
    )


@dataclass(frozen=True)
class RowsWithoutUnit(Condition):
    """Rows without an identifier belong to different units."""

    column: str
    sentence = "No two rows without a {column} belong together: each counts as a unit of its own."


@dataclass(frozen=True)
class WeightsOfRows(Condition):
    """The survey weight of a row does not depend on other rows.

    Design weights satisfy this condition. Weights that were calibrated, trimmed or adjusted for
    non-response in the table itself do not: one more person then changes the weights of others.
    """

    column: str
    sentence = "The {column} of a row was not worked out from other rows of the table."


@dataclass(frozen=True)
class RowFunctionsTested(Condition):
    """Each row is read and changed independently of all other rows: tested, not proven.

    One row function changes one row to one row. The row kernel checks the number of rows, the types
    and the public ranges of the result. Independence of other rows is tested for every row
    function.
    """

    holds_for_every_mask = True
    sentence = "Each row is read and changed independently of all others: tested, not proven."


@dataclass(frozen=True)
class CountedOutsideTheKernel(Condition):
    """Rows were counted by another engine than the counting kernel.

    Parameters
    ----------
    engine : str
        Public name of the engine, or of the type of a custom source.
    """

    engine: str

    holds_for_every_mask = True
    sentence = "Rows were counted by {engine}, which reads and counts each row once and by itself."


@dataclass(frozen=True)
class RefusalsNotPrivate(Condition):
    """Reading may raise an error because of the content of a row.

    Causes are a cell outside the domain, if a schema has ``outside="error"``, and a malformed row
    of a CSV file.
    """

    holds_for_every_mask = True
    sentence = (
        "The guarantee does not cover a refusal: a table is refused for a malformed row of a CSV "
        "file, or for a cell outside the domain if the schema says so."
    )


@dataclass(frozen=True)
class FixedSchedule(Condition):
    """Privacy parameters of all releases were fixed before the first of them.

    Composition theorems let the *question* depend on earlier answers, but bound the total for
    *privacy parameters* (noise scales, number of releases) that do not. See `Composition`. A
    `Filter` needs no such assumption.
    """

    holds_for_every_mask = True
    sentence = (
        "How many releases there are and how much noise each gets was fixed before the first of "
        "them; an adaptive part counts as one release, of the size of its cap."
    )


@dataclass(frozen=True)
class FloatingPointTraining(Condition):
    """Private training clips and adds gradients in double precision.

    The noise itself is exact: whole numbers of cells of a grid, drawn from the source of the
    release. Clipping and sums are rounded, and rounding at the kink of an activation may depend on
    the rows of a sample together.
    """

    holds_for_every_mask = True
    sentence = (
        "Gradients of private training are computed in floating point: the proof takes gradients, "
        "clipping, sums and noise as real numbers."
    )


@dataclass(frozen=True)
class Assumption(Condition):
    """Any other assumption, in words.

    Parameters
    ----------
    text : str
        One sentence.
    """

    text: str

    sentence = "{text}"

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ParameterError("text must be a non-empty sentence")
