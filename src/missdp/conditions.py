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
    """Base class of the assumptions on which a privacy guarantee rests.

    A condition is printed with the guarantee and never dropped. It is stated and not checked,
    unless its class says otherwise. A new assumption is a subclass that is a frozen dataclass. It
    defines ``sentence``, or overrides `statement`.

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
    >>> from missdp.accounting import Condition, RowIndependentMissingness
    >>> condition = RowIndependentMissingness()
    >>> Condition.from_json(condition.to_json()) == condition
    True
    """

    implies_row_independence: ClassVar[bool] = False
    holds_for_every_mask: ClassVar[bool] = False
    sentence: ClassVar[str]

    def statement(self) -> str:
        """Return the assumption of a condition as one plain sentence, as a guarantee prints it.

        Returns
        -------
        str
            The sentence, with the public values of the fields. Public.

        Examples
        --------
        >>> from missdp.accounting import DeclaredRowCount
        >>> DeclaredRowCount(100).statement()
        'The number of rows, 100, is public: the guarantee does not hide it.'
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        texts = {n: ", ".join(map(str, v)) if type(v) is tuple else v for n, v in values.items()}
        return self.sentence.format(self, **texts)

    def __str__(self) -> str:
        return self.statement()


def all_conditions(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return conditions of a guarantee as a tuple, after a check of their types.

    Parameters
    ----------
    conditions : iterable of Condition
        The conditions.

    Returns
    -------
    tuple of Condition
        In the given order.

    Raises
    ------
    ParameterError
        If an element is not a `Condition`.
    """
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
    """Condition of a guarantee: cells go missing completely at random, with known probabilities.

    Cells go missing independently across attributes and rows. The condition permits amplification:
    a smaller epsilon for the table before values went missing (`missdp.ground_truth`). It is stated
    with the guarantee and not checked.

    Parameters
    ----------
    observed : mapping of str to float, or iterable of pairs
        Attribute name to the probability, in [0, 1], that its value is *observed* (one minus the
        missing rate). It becomes a sorted tuple of pairs. Attributes that are not named are always
        observed.

    Raises
    ------
    ParameterError
        If an attribute is named twice, or a probability is not in [0, 1].

    References
    ----------
    Rubin (1976), for the term. Mohapatra et al. (2024), for the amplification.

    Examples
    --------
    >>> from missdp.accounting import MissingCompletelyAtRandom
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
        """List of the probabilities that cells are observed, as a text for people.

        Returns
        -------
        str
            A list of probabilities and attribute names, such as ``"0.75 for Income and 1 for every
            other attribute"``. Public.
        """
        rates = ", ".join(f"{rate:.6g} for {name}" for name, rate in self.observed)
        return f"{rates} and 1 for every other attribute" if rates else "1 for every attribute"


@dataclass(frozen=True, init=False)  # as its base class, for type checkers
class ObservedAtMost(MissingCompletelyAtRandom):
    """Condition of a guarantee: each cell is observed with at most a declared probability.

    Given the values of its row, a cell is missing independently of all other cells. The probability
    may depend on all values of the row, including the cell itself (missing at random, or not at
    random). An example is a logistic model with declared weights
    (`missdp.evaluate.MissingMechanism.assumption`). The proofs for cells missing completely at
    random hold for each row by itself. No bound decreases with a probability of being observed, so
    all bounds hold at the largest probabilities. The condition is stated with the guarantee and not
    checked.

    Parameters
    ----------
    observed : mapping of str to float, or iterable of pairs
        Attribute name to the largest probability of being observed, in [0, 1], over all possible
        rows. Attributes that are not named may always be observed.

    Raises
    ------
    ParameterError
        If an attribute is named twice, or a probability is not in [0, 1].

    Examples
    --------
    >>> from missdp.accounting import ObservedAtMost
    >>> ObservedAtMost({"Income": 0.75}).rates
    '0.75 for Income and 1 for every other attribute'
    """

    sentence = (
        "Given the values of a row, they go missing independently of each other and of the values "
        "and missing values of other rows. For all values of the row, each of them is observed "
        "with probability at most {0.rates}."
    )


@dataclass(frozen=True)
class RowIndependentMissingness(Condition):
    """Condition of a guarantee: each row loses values independently of all other rows.

    Whether a value is missing depends neither on values of other rows nor on their missing cells.
    Every guarantee for the table before values went missing needs this condition, or a condition
    that implies it (Mohapatra et al. 2024, Theorem 5.2). It does not reduce epsilon. It is stated
    with the guarantee and not checked.

    References
    ----------
    Mohapatra et al. (2024), Theorem 5.2.

    Examples
    --------
    >>> from missdp.accounting import RowIndependentMissingness
    >>> RowIndependentMissingness().implies_row_independence
    True
    """

    implies_row_independence, holds_for_every_mask = True, True
    sentence = (
        "Whether a value of one row is missing does not depend on any other row, neither on its "
        "values nor on which of them are missing."
    )


@dataclass(frozen=True)
class BoundedObservation(Condition):
    """Condition of a guarantee: a row is read with at most a declared probability.

    A row is read if all attributes that a mechanism requires are observed in it. The bound holds
    for every row, for all its values (missing not at random), and for all contents and missing
    cells of other rows. Rows lose values independently of each other. The condition permits
    amplification: a smaller epsilon for the table before values went missing
    (`missdp.ground_truth`). It is stated with the guarantee and not checked.

    Parameters
    ----------
    p_max : float
        Upper bound, in [0, 1], on the probability that a row is observed on *at least one* set of
        required attributes of a release. This includes sets that the release might have used.
    together : bool, default False
        False if the bound holds for each release by itself. True if it covers all releases of
        `missdp.ground_truth.joint` together.

    Raises
    ------
    ParameterError
        If ``p_max`` is not in [0, 1], or ``together`` is not true or false.

    Examples
    --------
    >>> from missdp.accounting import BoundedObservation
    >>> from missdp.accounting import PureEvent
    >>> from missdp.ground_truth import FixedRequirements, ground_truth_guarantee
    >>> event = PureEvent(epsilon=1.0, required={"Income"})
    >>> structure = FixedRequirements()
    >>> guarantee = ground_truth_guarantee(event, BoundedObservation(0.5), structure=structure)
    >>> round(guarantee.epsilon, 2)
    0.62
    """

    p_max: Probability
    together: bool = False

    implies_row_independence, holds_for_every_mask = True, True

    def statement(self) -> str:
        """Return the assumption that rows are read with a limited probability, as one sentence.

        Returns
        -------
        str
            The sentence that a printed guarantee states. Public.
        """
        whose = "all these releases" if self.together else "a release"
        return (
            "For all values of a row, and for all values and missing cells of the other rows, the "
            f"row is observed with probability at most {self.p_max:.6g} on all attributes that "
            f"some mechanism of {whose} needs, or would need under another choice by the data. "
            "Each row loses values independently of every other row."
        )


@dataclass(frozen=True)
class DatasetCollection(Condition):
    """Condition of a guarantee: the private table belongs to a declared collection of data sets.

    All tables of the collection have one number of rows and few missing entries (Hu, Sanyal &
    Schölkopf 2024, section 4.1). Guarantees of preprocessing steps use the condition. It is stated
    with the guarantee and not checked. It may fail for other draws of the missing cells.

    Parameters
    ----------
    max_missing : int
        Largest number of missing entries of any table in the collection, at least 0.
    n : int
        Number of rows of every table in the collection, at least 1.
    description : str, default ""
        Further limits of the collection in words. Empty: no further limits.

    Raises
    ------
    ParameterError
        If a number is out of range, or a field has the wrong type.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), section 4.1.

    Examples
    --------
    >>> from missdp.accounting import DatasetCollection
    >>> print(DatasetCollection(max_missing=5, n=100))
    The table has 100 rows and at most 5 missing entries.
    """

    max_missing: Count
    n: CountFrom1
    description: str = ""

    def statement(self) -> str:
        """Return the assumption about the collection of tables as one plain sentence.

        Returns
        -------
        str
            The sentence that a printed guarantee states. Public.
        """
        more = f", and is limited to: {self.description.rstrip('.')}" if self.description else ""
        return f"The table has {self.n} rows and at most {self.max_missing} missing entries{more}."


@dataclass(frozen=True)
class EigenGap(Condition):
    """Condition of a guarantee: two eigenvalues of the second-moment matrix differ enough.

    Guarantees of private pipelines with a principal component analysis use the condition. It is
    stated with the guarantee and not checked.

    The second-moment matrix of rows X is X'X / n, for n rows.

    Parameters
    ----------
    k : int
        Number of the gap, between the k-th and the (k+1)-th largest eigenvalue, at least 1.
    at_least : float
        Declared lower bound of the difference, above 0, in squared units of the columns.

    Raises
    ------
    ParameterError
        If a number is out of range, or a field has the wrong type.

    Examples
    --------
    >>> from missdp.accounting import EigenGap
    >>> print(EigenGap(k=2, at_least=0.1))
    The gap between eigenvalues 2 and 3 of the second-moment matrix is at least 0.1.
    """

    k: CountFrom1
    at_least: Positive

    def statement(self) -> str:
        """Return the assumption that two eigenvalues differ enough, as one plain sentence.

        Returns
        -------
        str
            The sentence that a printed guarantee states. Public.
        """
        return (
            f"The gap between eigenvalues {self.k} and {self.k + 1} of the second-moment matrix "
            f"is at least {self.at_least:.6g}."
        )


@dataclass(frozen=True)
class PublicDomain(Condition):
    """Condition of a guarantee: the facts about columns were declared without the private table.

    These facts are columns, categories, bounds, codes and rules. The condition is stated with the
    guarantee and not checked.

    Parameters
    ----------
    note : str, default ""
        Source of the domain, such as a questionnaire. Public. Empty: no source is printed.

    Raises
    ------
    ParameterError
        If the note is not text.

    Examples
    --------
    >>> from missdp.accounting import PublicDomain
    >>> print(PublicDomain("codebook of 2026"))
    Columns, categories, bounds, codes and rules were declared without the private table
    (codebook of 2026).
    """

    note: str = ""

    holds_for_every_mask = True

    def statement(self) -> str:
        """Return the assumption that facts about columns are public, as one plain sentence.

        Returns
        -------
        str
            The sentence that a printed guarantee states. Public.
        """
        note = f" ({self.note})" if self.note else ""
        facts = "Columns, categories, bounds, codes and rules"
        return f"{facts} were declared without the private table{note}."


@dataclass(frozen=True)
class DataDependentDomain(Condition):
    """Warning in a guarantee: facts about some attributes were read from the private table.

    These facts are categories, bounds or codes. The stated guarantee does not cover the reading.
    The warning is printed with the guarantee.

    Parameters
    ----------
    attributes : iterable of str
        Names of these attributes. They are sorted.

    Raises
    ------
    ParameterError
        If the names are not a collection of text.

    Examples
    --------
    >>> from missdp.accounting import DataDependentDomain
    >>> DataDependentDomain(("sex", "age")).attributes
    ('age', 'sex')
    """

    attributes: Names

    holds_for_every_mask = True

    sentence = (
        "WARNING: categories, bounds or codes were read from the private table, which the stated "
        "guarantee does not cover, for: {attributes}."
    )


@dataclass(frozen=True)
class DeclaredRowCount(Condition):
    """Condition of a guarantee: the number of rows is public, so it is not protected.

    Preprocessing under replace-one adjacency (one row is replaced) states it. It is stated with the
    guarantee and not checked.

    Parameters
    ----------
    n : int
        The declared number of rows, at least 0.

    Raises
    ------
    ParameterError
        If the number is not a whole number of at least 0.

    Examples
    --------
    >>> from missdp.accounting import DeclaredRowCount
    >>> print(DeclaredRowCount(100))
    The number of rows, 100, is public: the guarantee does not hide it.
    """

    n: Count

    holds_for_every_mask = True
    sentence = "The number of rows, {n}, is public: the guarantee does not hide it."


@dataclass(frozen=True)
class ExplicitSeed(Condition):
    """Warning in a guarantee: the noise was drawn from a seed, which is for tests only.

    Anyone who knows the seed can subtract the noise. The warning is printed with the guarantee.

    Examples
    --------
    >>> from missdp.accounting import ExplicitSeed
    >>> print(ExplicitSeed())
    WARNING: the noise was seeded, so nothing is protected from anyone who knows the seed.
    """

    holds_for_every_mask = True
    sentence = (
        "WARNING: the noise was seeded, so nothing is protected from anyone who knows the seed."
    )


@dataclass(frozen=True)
class BinsFromRelease(Condition):
    """Condition of a guarantee: another release found the bins of numeric attributes.

    The cost of the other release is not part of the guarantee. The condition is stated with the
    guarantee and not checked.

    Parameters
    ----------
    attributes : tuple of str
        Names of the attributes.
    release : str
        Public description of the other release.

    Raises
    ------
    ParameterError
        If a name or the description is not text.

    Examples
    --------
    >>> from missdp.accounting import BinsFromRelease
    >>> print(BinsFromRelease(("age",), "an earlier fit"))
    The bins of age were found by an earlier fit, whose cost is its own and is not counted here.
    """

    holds_for_every_mask = True
    attributes: tuple[str, ...]
    release: str

    sentence = (
        "The bins of {attributes} were found by {release}, whose cost is its own and is not "
        "counted here."
    )


@dataclass(frozen=True)
class LevelsFromRelease(Condition):
    """Condition of a guarantee: an earlier fit found the undeclared levels of attributes.

    The cost of the earlier fit is not part of the guarantee. The condition is stated with the
    guarantee and not checked.

    Parameters
    ----------
    attributes : tuple of str
        Names of the attributes.

    Raises
    ------
    ParameterError
        If a name is not text.

    Examples
    --------
    >>> from missdp.accounting import LevelsFromRelease
    >>> print(LevelsFromRelease(("town",)))
    The levels of town were found by an earlier fit, whose cost is its own and is not counted here.
    """

    holds_for_every_mask = True
    attributes: tuple[str, ...]

    sentence = (
        "The levels of {attributes} were found by an earlier fit, whose cost is its own and is not "
        "counted here."
    )


@dataclass(frozen=True)
class RowsWithoutUnit(Condition):
    """Condition of a guarantee: no two rows without an identifier belong to one unit of protection.

    A unit of protection is all rows of one person or other entity, which an identifying column
    names. A row with a missing identifier counts as a unit. The condition is stated with the
    guarantee and not checked.

    Parameters
    ----------
    column : str
        Name of the identifying column.

    Raises
    ------
    ParameterError
        If the name is not text.

    Examples
    --------
    >>> from missdp.accounting import RowsWithoutUnit
    >>> print(RowsWithoutUnit("patient"))
    No two rows without a patient belong together: each counts as a unit of its own.
    """

    column: str
    sentence = "No two rows without a {column} belong together: each counts as a unit of its own."


@dataclass(frozen=True)
class WeightsOfRows(Condition):
    """Condition of a guarantee: the survey weight of a row does not depend on other rows.

    Design weights satisfy this condition. Weights that were calibrated, trimmed or adjusted for
    non-response in the table itself do not: one more person then changes the weights of others. The
    condition is stated with the guarantee and not checked.

    Parameters
    ----------
    column : str
        Name of the column of weights.

    Raises
    ------
    ParameterError
        If the name is not text.

    Examples
    --------
    >>> from missdp.accounting import WeightsOfRows
    >>> print(WeightsOfRows("weight"))
    The weight of a row was not worked out from other rows of the table.
    """

    column: str
    sentence = "The {column} of a row was not worked out from other rows of the table."


@dataclass(frozen=True)
class RowFunctionsTested(Condition):
    """Condition of a guarantee: each row is read and changed independently of all other rows.

    A row function changes one row to one row, for example by filling its missing cells. The number
    of rows, the types and the public ranges of the result are checked when it runs. Independence of
    other rows is not proven. The tests of this package look for violations by each of its row
    functions.

    Examples
    --------
    >>> from missdp.accounting import RowFunctionsTested
    >>> print(RowFunctionsTested())
    Each row is read and changed independently of all others: tested, not proven.
    """

    holds_for_every_mask = True
    sentence = "Each row is read and changed independently of all others: tested, not proven."


@dataclass(frozen=True)
class CountedOutsideTheKernel(Condition):
    """Condition of a guarantee: another engine counted each row once and by itself.

    An example of another engine is a database. The condition is stated with the guarantee and not
    checked.

    Parameters
    ----------
    engine : str
        Public name of the engine, or of the type of a custom source.

    Raises
    ------
    ParameterError
        If the name is not text.

    Examples
    --------
    >>> from missdp.accounting import CountedOutsideTheKernel
    >>> print(CountedOutsideTheKernel("Spark"))
    Rows were counted by Spark, which reads and counts each row once and by itself.
    """

    engine: str

    holds_for_every_mask = True
    sentence = "Rows were counted by {engine}, which reads and counts each row once and by itself."


@dataclass(frozen=True)
class RefusalsNotPrivate(Condition):
    """Condition of a guarantee: errors that a private row causes are not covered.

    Causes are a cell outside the declared domain, if a schema has ``outside="error"``, and a
    malformed row of a CSV file. The condition is stated with the guarantee.

    Examples
    --------
    >>> from missdp.accounting import RefusalsNotPrivate
    >>> RefusalsNotPrivate().holds_for_every_mask
    True
    >>> print(RefusalsNotPrivate())
    The guarantee does not cover a refusal: a table is refused for a malformed row of a CSV
    file, or for a cell outside the domain if the schema says so.
    """

    holds_for_every_mask = True
    sentence = (
        "The guarantee does not cover a refusal: a table is refused for a malformed row of a CSV "
        "file, or for a cell outside the domain if the schema says so."
    )


@dataclass(frozen=True)
class FixedSchedule(Condition):
    """Condition of a guarantee: noise and number of all releases were fixed in advance.

    Composition theorems let the *question* depend on earlier answers, but bound the total for
    *privacy parameters* (noise scales, number of releases) that do not. The condition is stated
    with the guarantee of a `Composition`, whose plan fixes the events. A `Filter` needs no such
    assumption.

    Examples
    --------
    >>> from missdp.accounting import FixedSchedule
    >>> from missdp.accounting import Composition, PureEvent
    >>> plan = Composition([PureEvent(epsilon=0.5)])
    >>> plan.charge(PureEvent(epsilon=0.5))
    >>> FixedSchedule() in plan.spent.conditions
    True
    """

    holds_for_every_mask = True
    sentence = (
        "How many releases there are and how much noise each gets was fixed before the first of "
        "them; an adaptive part counts as one release, of the size of its cap."
    )


@dataclass(frozen=True)
class FloatingPointTraining(Condition):
    """Condition of a guarantee: rounding in private training does not weaken privacy.

    Training clips and adds gradients in double precision, and the proof takes real numbers. The
    noise itself is exact: whole multiples of a small step, drawn from the source of noise of the
    release. Clipping and sums are rounded. Rounding at the kink of an activation may depend on the
    rows of a sample together. The condition is stated with the guarantee and not checked.

    Examples
    --------
    >>> from missdp.accounting import FloatingPointTraining
    >>> print(FloatingPointTraining())
    Gradients of private training are computed in floating point: the proof takes gradients,
    clipping, sums and noise as real numbers.
    """

    holds_for_every_mask = True
    sentence = (
        "Gradients of private training are computed in floating point: the proof takes gradients, "
        "clipping, sums and noise as real numbers."
    )


@dataclass(frozen=True)
class Assumption(Condition):
    """Condition of a guarantee that a user states in words.

    It is printed with the guarantee and not checked.

    Parameters
    ----------
    text : str
        One sentence, not empty. Public.

    Raises
    ------
    ParameterError
        If the text is empty or not text.

    Examples
    --------
    >>> from missdp.accounting import Assumption
    >>> Assumption("No person answered twice.").statement()
    'No person answered twice.'
    """

    text: str

    sentence = "{text}"

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ParameterError("text must be a non-empty sentence")
