"""Simulators of missing data: completely at random, declared by the user, or fitted to the table.

MAR, MNAR and self-masking are fitted to the table (Muzellec et al. 2020). Their weights are scaled
to the table, and their intercepts are solved on it. So the loss of a value in one row depends on
other rows, and no guarantee for the ground truth rests on these simulators. Theorem 5.2 of
Mohapatra et al. (2024) needs independent rows. Use `DeclaredMechanism` for that. Logistic models
have one score per level: logit = intercept + Σ score[code].
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from missdp.accounting import Condition, ObservedAtMost
from missdp.errors import DataError, ParameterError, UnprovenError, replacing
from missdp.schema import AnyAttribute, Categorical, Level, Numeric, Schema
from missdp.serialization import Record
from missdp.table import Table
from missdp.table.encode import CodedColumn
from missdp.table.follow import apply_rules
from missdp.types import Floats
from missdp.validation import Positive

RandomState: TypeAlias = int | np.random.SeedSequence | np.random.Generator
Probabilities: TypeAlias = dict[str, Floats]
RateKind: TypeAlias = Literal["expected", "exact"]
Scores: TypeAlias = Mapping[str, Floats]
Rate: TypeAlias = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Weight: TypeAlias = Finite | Mapping[Level, Finite]


def _generator(random_state: RandomState) -> np.random.Generator:
    """Return the generator of a seed or source of seeds, or raise ParameterError."""
    refused = ParameterError(
        "random_state must be an integer of at least 0, a SeedSequence or a Generator"
    )
    with replacing(TypeError, ValueError, by=refused):
        return np.random.default_rng(random_state)


_SHARE = "a share in [0, 1), or one share per column"


class MissingMechanism(Record, abstract=True):
    """Base class of mechanisms that remove cells of a complete table at random, for experiments.

    Use it to measure how a synthesizer treats missing values when the complete table is known.
    Subclasses define ``_probabilities``, which returns the probability that each cell goes missing.
    With ``rates="expected"`` cells are drawn independently given their probabilities. With
    ``rates="exact"`` each column has an exact number of missing cells.

    A cell that is not applicable never goes missing. Rates are shares of the other cells, and a
    cell that is not applicable weighs 0 as a deciding value. A cell that follows from the rest of
    its row by a rule of the schema is not missing, because every reader can compute it.

    Notes
    -----
    The rows and the drawn cells stay private. A mechanism has no privacy guarantee of its own.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.evaluate import MCAR
    >>> schema = Schema((Categorical(name="a", levels=("x", "y")),))
    >>> table = Table.from_codes(schema, {"a": [0, 1] * 50})
    >>> MCAR(rate=0.2).apply(table, random_state=0).schema.nullable
    ('a',)
    """

    @property
    def row_independent(self) -> bool:
        """Return whether the missing cells of a row depend on that row alone, not on other rows.

        Weights or intercepts that are fitted to the table couple the rows. So do exact numbers of
        missing cells. Row independence is needed for a guarantee for the complete table.

        Returns
        -------
        bool
            True only for mechanisms with declared parameters and independent draws. Public.

        References
        ----------
        Mohapatra, Zong, Kerschbaum, He (2024), "Differentially private data generation with missing
        data", PVLDB 17(8), Theorem 5.2.
        """
        return False

    def max_observation_rates(self, schema: Schema) -> dict[str, float]:
        """Return the largest probability that each attribute is observed, over all possible rows.

        The probabilities bound the mechanism for every table. They become the condition of a
        guarantee for the table before values went missing. This base method raises, and mechanisms
        with independent rows override it.

        Parameters
        ----------
        schema : Schema
            Schema of the complete table. Public.

        Returns
        -------
        dict of str to float
            A probability in [0, 1] for each attribute of the schema. Public.

        Raises
        ------
        UnprovenError
            If the mechanism is fitted to the table, or couples its rows.
        """
        raise UnprovenError(
            f"{type(self).__name__} is fitted to the table or couples its rows. It has no bound on "
            "the probability of being observed. Use MCAR with rates='expected' or "
            f"DeclaredMechanism (attributes: {list(schema.names)})"
        )

    def assumption(self, schema: Schema) -> Condition:
        """Return the condition on missing values of a guarantee for the complete table.

        The condition states that cells go missing independently given their row. Each cell is
        observed with at most the probability of `max_observation_rates`. The condition is stated
        with the guarantee and not checked. Pass it to `Synthesizer.ground_truth_guarantee`.

        Parameters
        ----------
        schema : Schema
            Schema of the complete table. Public.

        Returns
        -------
        Condition
            The largest probabilities of being observed, by attribute. Public.

        Raises
        ------
        UnprovenError
            If no bound holds for all tables, because the mechanism couples the rows.

        Examples
        --------
        >>> from missdp import Categorical, Schema
        >>> from missdp.evaluate import DeclaredMechanism
        >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes"), nullable=True),))
        >>> itself = {"smoker": {"smoker": {"yes": 1.0}}}  # smokers answer less often
        >>> known = DeclaredMechanism(intercepts={"smoker": 0.0}, weights=itself)
        >>> known.assumption(schema)
        ObservedAtMost(observed=(('smoker', 0.5),))
        """
        return ObservedAtMost(self.max_observation_rates(schema))

    @abstractmethod
    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        """Return each row's probability of a missing cell, for every column that may get one."""

    def probabilities(self, table: Table, *, random_state: RandomState) -> Probabilities:
        """Return the probability of a missing cell, for each row and column that may lose cells.

        A seed gives :meth:`apply` the probabilities that it gives here. The result depends on the
        rows and is private.

        Parameters
        ----------
        table : Table
            A complete table with n rows. Private.
        random_state : int, SeedSequence or Generator
            Seed, at least 0, or a source of seeds.

        Returns
        -------
        dict of str to ndarray of float, shape (n,)
            Private probabilities in [0, 1], by column, in the order of the rows. 0 for cells that
            are not applicable.

        Raises
        ------
        DataError
            If the table has missing cells already.
        ParameterError, SchemaError
            If a parameter does not fit the table, or ``random_state`` is not valid.

        Examples
        --------
        >>> from missdp import Categorical, Schema, Table
        >>> from missdp.evaluate import MCAR
        >>> schema = Schema((Categorical(name="a", levels=("x", "y")),))
        >>> table = Table.from_codes(schema, {"a": [0, 1]})
        >>> MCAR(rate=0.2).probabilities(table, random_state=0)["a"].tolist()
        [0.2, 0.2]
        """
        return self._chances(table, _generator(random_state))

    def _chances(self, table: Table, rng: np.random.Generator) -> Probabilities:
        """Return the probabilities of a complete table, 0 where there is nothing to lose."""
        if table.incomplete_rows().any():
            raise DataError(
                "missing values are simulated on complete tables, and this table has missing "
                "cells. Drop its incomplete rows or fill them first"
            )
        chances = self._probabilities(table, rng)
        return {name: np.where(table.mask(name), 0.0, p) for name, p in chances.items()}

    def apply(self, table: Table, *, random_state: RandomState) -> Table:
        """Remove cells of a complete table at random, and return the table with missing cells.

        The new schema declares every column nullable that may have missing cells, and columns that
        follow from a nullable column by a rule.

        Parameters
        ----------
        table : Table
            A complete table. Private.
        random_state : int, SeedSequence or Generator
            Seed of the draw, at least 0, or a source of seeds.

        Returns
        -------
        Table
            A new table with the rows in the same order. As private as the complete table.

        Raises
        ------
        DataError
            If the table has missing cells already.
        ParameterError, SchemaError
            If a parameter does not fit the table, or ``random_state`` is not valid.
        """
        rng = _generator(random_state)
        chances = self._chances(table, rng)
        return _with_missing(table, {name: self._draw(p, rng) for name, p in chances.items()})

    def apply_blocks(
        self, tables: Iterable[Table], *, random_state: RandomState
    ) -> Iterator[Table]:
        """Remove cells at random from the blocks of a complete table, and yield the new blocks.

        Each block is treated as a table of its own. For mechanisms with independent rows the
        distribution of missing cells equals the distribution for one table. Other mechanisms are
        fitted to each block, or have an exact number of missing cells in each block.

        Parameters
        ----------
        tables : iterable of Table
            Blocks of a complete table. Private.
        random_state : int, SeedSequence or Generator
            Seed of the draw, at least 0, or a source of seeds.

        Yields
        ------
        Table
            One table for each block, in order. As private as the complete table.

        Raises
        ------
        DataError
            If a block has missing cells already.
        ParameterError, SchemaError
            If a parameter does not fit the table, or ``random_state`` is not valid.
        """
        rng = _generator(random_state)
        for place, table in enumerate(tables):
            yield self.apply(table, random_state=random_state if place == 0 else rng.spawn(1)[0])

    def _draw(self, chance: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
        if getattr(self, "rates", "expected") == "exact":
            return _draw_exact(chance, rng)
        return np.asarray(rng.random(len(chance)) < chance)


@dataclass(frozen=True, kw_only=True)
class MCAR(MissingMechanism):
    """Mechanism that removes cells completely at random (MCAR), independently across attributes.

    Every cell of a column goes missing with one probability, which depends on no value. With
    ``rates="expected"`` the missing cells of a row depend on that row alone. The mechanism can then
    carry a guarantee for the complete table.

    Parameters
    ----------
    rate : float or mapping of str to float
        Share of missing cells, in [0, 1): one number for every column, or one number per column.
    columns : tuple of str, optional
        Columns that get missing cells. By default all columns. Not with a mapping.
    rates : {"expected", "exact"}, default "expected"
        With ``"expected"``, ``rate`` is the probability of a missing cell. With ``"exact"``,
        exactly ``round(rate * n)`` of the n applicable cells of a column go missing, which couples
        the rows.

    Raises
    ------
    ParameterError
        If a parameter is not valid, or both a rate per column and ``columns`` are given.
    DataError
        Raised by ``apply``, if the table has missing cells already.

    References
    ----------
    Rubin (1976), "Inference and missing data", Biometrika 63(3).

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.evaluate import MCAR, missing_mask
    >>> schema = Schema((Categorical(name="a", levels=("x", "y")),))
    >>> table = Table.from_codes(schema, {"a": [0, 1] * 50})
    >>> holes = MCAR(rate=0.2, rates="exact").apply(table, random_state=0)
    >>> int(missing_mask(holes).sum()), holes.schema.nullable
    (20, ('a',))
    """

    rate: Annotated[Rate | Mapping[str, Rate], Field(description=_SHARE)]
    columns: tuple[str, ...] | None = None
    rates: RateKind = "expected"

    def __post_init__(self) -> None:
        if isinstance(self.rate, Mapping) and self.columns is not None:
            raise ParameterError("give a rate per column, or one rate and columns, not both")

    @property
    def row_independent(self) -> bool:
        """Return whether the missing cells of a row depend on that row alone, not on other rows.

        Row independence is needed for a guarantee for the complete table.

        Returns
        -------
        bool
            True with ``rates="expected"``. False with ``rates="exact"``, because exact numbers
            of missing cells couple the rows. Public.
        """
        return self.rates == "expected"

    def missing_rates(self, schema: Schema) -> dict[str, float]:
        """Return the declared share of missing cells of every column that gets missing cells.

        Parameters
        ----------
        schema : Schema
            Schema of the complete table. Public.

        Returns
        -------
        dict of str to float
            Shares in [0, 1) by column. Columns that stay complete are left out. Public.

        Raises
        ------
        ParameterError, SchemaError
            If a named column is repeated or is not in the schema, or no column is named.
        """
        if isinstance(self.rate, Mapping):
            return {name: float(self.rate[name]) for name in _check_names(schema, self.rate)}
        names = schema.names if self.columns is None else self.columns
        return dict.fromkeys(_check_names(schema, names), float(self.rate))

    def max_observation_rates(self, schema: Schema) -> dict[str, float]:
        """Return the probability that each attribute is observed: 1 less its declared rate.

        Parameters
        ----------
        schema : Schema
            Schema of the complete table. Public.

        Returns
        -------
        dict of str to float
            A probability in [0, 1] for each attribute of the schema. It is 1 for attributes that
            may be not applicable, or follow from others by a rule, because missing cells do not
            hide them. Public.

        Raises
        ------
        UnprovenError
            If numbers of missing cells are exact.
        ParameterError, SchemaError
            If a named column is repeated or is not in the schema, or no column is named.
        """
        if not self.row_independent:
            raise UnprovenError("exact missing counts couple the rows. Use rates='expected'")
        missing = self.missing_rates(schema)
        rates = {name: 1.0 - missing.get(name, 0.0) for name in schema.names}
        return rates | dict.fromkeys(schema.rule_set.rule_fillable, 1.0)

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        del rng  # nothing about the mechanism itself is drawn
        return _constant(table, self.missing_rates(table.schema), self.rates)


@dataclass(frozen=True, kw_only=True)
class DeclaredMechanism(MissingMechanism):
    """Mechanism that removes each cell with a declared probability, which depends on its own row.

    The probability is logistic:
    ``P(column is missing | row) = 1 / (1 + exp(-(intercept + sum of weights)))``. Nothing is fitted
    to the table, so rows lose cells independently of each other. Only this mechanism and
    :class:`MCAR` can carry a guarantee for the complete table: see `assumption`.

    Parameters
    ----------
    intercepts : mapping of str to float
        For each column that gets missing cells, the log odds of missing for a row whose weights add
        up to 0.
    weights : mapping of str to mapping, optional
        For each column that gets missing cells, the weights of its drivers: the columns that
        decide. A column may drive itself. A number is the slope of an ordinal or numeric driver
        whose levels or bins are placed evenly on [-1, 1]. A mapping gives a weight per level of a
        categorical or ordinal driver. Other levels weigh 0.

    Raises
    ------
    ParameterError
        If no intercept is given, or a column has weights without an intercept.
    DataError
        Raised by ``apply``, if the table has missing cells already.

    Examples
    --------
    >>> from missdp import Categorical, Schema
    >>> from missdp.evaluate import DeclaredMechanism
    >>> schema = Schema((
    ...     Categorical(name="sex", levels=("female", "male")),
    ...     Categorical(name="smoker", levels=("no", "yes")),
    ... ))
    >>> mechanism = DeclaredMechanism(
    ...     intercepts={"smoker": -2.0}, weights={"smoker": {"sex": {"male": 1.0}}}
    ... )
    >>> {name: round(p, 3) for name, p in mechanism.max_observation_rates(schema).items()}
    {'sex': 1.0, 'smoker': 0.881}
    >>> mechanism.row_independent
    True
    """

    intercepts: Mapping[str, Finite]
    weights: Mapping[str, Mapping[str, Weight]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.intercepts:
            raise ParameterError("name at least one attribute in intercepts")
        if lacking := [name for name in self.weights if name not in self.intercepts]:
            raise ParameterError(f"these columns have weights but no intercept: {lacking}")

    @property
    def row_independent(self) -> bool:
        """Return whether the missing cells of a row depend on that row alone, not on other rows.

        Row independence is needed for a guarantee for the complete table.

        Returns
        -------
        bool
            Always True for declared probabilities. Public.
        """
        return True

    def max_observation_rates(self, schema: Schema) -> dict[str, float]:
        """Return the largest probability that each attribute is observed, over all possible rows.

        Parameters
        ----------
        schema : Schema
            Schema of the complete table. Public.

        Returns
        -------
        dict of str to float
            A probability in [0, 1] for each attribute of the schema. It is 1 for attributes that
            may be not applicable, or follow from others by a rule, because missing cells do not
            hide them. Public.

        Raises
        ------
        ParameterError, SchemaError
            If a weight does not fit its attribute, or a named column is not in the schema.
        """
        from scipy.special import expit

        bounds = dict.fromkeys(schema.names, 1.0)
        for name, scores in self._scores(schema).items():
            lowest = {driver: float(score.min()) for driver, score in scores.items()}
            none = schema.rule_set.not_everywhere(lowest)  # "not applicable" weighs 0
            total = sum(min(x, 0.0) if driver in none else x for driver, x in lowest.items())
            bounds[name] = float(expit(-(self.intercepts[name] + total)))
        return bounds | dict.fromkeys(schema.rule_set.rule_fillable, 1.0)

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        from scipy.special import expit

        del rng  # nothing about the mechanism itself is drawn
        return {
            name: np.asarray(expit(self.intercepts[name] + _sum_scores(table, scores)))
            for name, scores in self._scores(table.schema).items()
        }

    def _scores(self, schema: Schema) -> dict[str, Scores]:
        """Return the scores of the drivers of each column that gets missing cells."""
        return {
            name: {d: _score(schema[d], weight) for d, weight in self.weights.get(name, {}).items()}
            for name in _check_names(schema, self.intercepts)
        }


def _score(attribute: AnyAttribute, weight: Weight) -> Floats:
    """One number per level or bin."""
    if not isinstance(weight, Mapping):
        if isinstance(attribute, Categorical):
            raise ParameterError(
                f"attribute {attribute.name!r} has no order: give a weight per level"
            )
        return weight * _positions(attribute)
    if isinstance(attribute, Numeric):
        raise ParameterError(f"attribute {attribute.name!r} is numeric: give one slope")
    if unknown := [level for level in weight if level not in attribute.levels]:
        raise ParameterError(attribute.not_a_level(unknown[0]))
    return np.array([float(weight.get(level, 0.0)) for level in attribute.levels])


@dataclass(frozen=True, kw_only=True)
class _Fitted(MissingMechanism, abstract=True):
    """A mechanism whose weights and intercepts are fitted to the table (Muzellec et al. 2020)."""

    rate: Rate
    strength: Positive = 1.0
    rates: RateKind = "expected"

    def _logistic(
        self, table: Table, targets: Sequence[str], drivers: Sequence[str], rng: np.random.Generator
    ) -> Probabilities:
        chances = {}
        for name in targets:
            scores = _random_scores(table, drivers, strength=self.strength, rng=rng)
            here, linear = ~table.mask(name), _sum_scores(table, scores)
            rate = _target_rate(int(here.sum()), self.rate, self.rates)
            chances[name] = np.zeros(len(table))
            chances[name][here] = _fitted_probability(linear[here], rate)
        return chances


@dataclass(frozen=True, kw_only=True)
class MAR(_Fitted):
    """Mechanism that removes cells at random, given columns that stay observed (MAR).

    MAR stands for missing at random. The logit (the log odds of missing) is a sum of scores of the
    deciding values, with random weights (Muzellec et al. 2020). The deciding columns (drivers)
    never lose cells. The mechanism is fitted to the table: its weights and intercepts depend on
    other rows. So it has no guarantee for the table before values went missing, and is for
    experiments only.

    Parameters
    ----------
    rate : float
        Share of missing cells in each column that gets missing cells, in [0, 1).
    strength : float, default 1.0
        Standard deviation of the logits of missing in the table, above 0. Larger values make
        missingness depend more on the deciding values.
    rates : {"expected", "exact"}, default "expected"
        With ``"expected"``, ``rate`` is the mean probability of a missing cell in each column. With
        ``"exact"``, it is the share of missing cells in each column, rounded to a whole number of
        cells.
    drivers : tuple of str, optional
        Columns that stay observed. By default half of the columns, drawn at random.

    Raises
    ------
    ParameterError, SchemaError
        If a parameter is not valid, or the table lacks a named column.
    DataError
        Raised by ``apply``, if the table has missing cells already.

    References
    ----------
    Muzellec, Josse, Boyer, Cuturi (2020), "Missing data imputation using optimal transport", ICML.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.evaluate import MAR
    >>> schema = Schema(tuple(Categorical(name=n, levels=("x", "y")) for n in "ab"))
    >>> table = Table.from_codes(schema, {"a": [0, 1] * 50, "b": [0, 0, 1, 1] * 25})
    >>> MAR(rate=0.3, drivers=("a",)).apply(table, random_state=0).schema.nullable
    ('b',)
    """

    drivers: tuple[str, ...] | None = None

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        drivers, targets = _split(table.schema, self.drivers, rng)
        return self._logistic(table, targets, drivers, rng)


@dataclass(frozen=True, kw_only=True)
class MNAR(_Fitted):
    """Mechanism that removes cells depending on values that may be missing themselves (MNAR).

    MNAR stands for missing not at random. The logit (the log odds of missing) is a sum of scores of
    the deciding values, with random weights (Muzellec et al. 2020). The mechanism is fitted to the
    table: its weights and intercepts depend on other rows. So it has no guarantee for the table
    before values went missing, and is for experiments only.

    Parameters
    ----------
    rate : float
        Share of missing cells in every column, in [0, 1).
    strength : float, default 1.0
        Standard deviation of the logits of missing in the table, above 0. Larger values make
        missingness depend more on the deciding values.
    rates : {"expected", "exact"}, default "expected"
        With ``"expected"``, ``rate`` is the mean probability of a missing cell in each column. With
        ``"exact"``, it is the share of missing cells in each column, rounded to a whole number of
        cells.
    model : {"hidden-drivers", "all-columns"}, default "hidden-drivers"
        With ``"hidden-drivers"``, half of the columns drive the missing cells of the others, and
        lose cells completely at random themselves (Mohapatra et al. 2024). With ``"all-columns"``,
        the missing cells of every column depend on the complete row, its own value included.
    drivers : tuple of str, optional
        The driving columns. By default half of the columns, drawn at random. Not with
        ``"all-columns"``.

    Raises
    ------
    ParameterError, SchemaError
        If a parameter is not valid, or the table lacks a named column.
    DataError
        Raised by ``apply``, if the table has missing cells already.

    References
    ----------
    Muzellec, Josse, Boyer, Cuturi (2020), "Missing data imputation using optimal transport", ICML.

    Mohapatra, Zong, Kerschbaum, He (2024), "Differentially private data generation with missing
    data", PVLDB 17(8), for ``"hidden-drivers"``.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.evaluate import MNAR
    >>> schema = Schema(tuple(Categorical(name=n, levels=("x", "y")) for n in "ab"))
    >>> table = Table.from_codes(schema, {"a": [0, 1] * 50, "b": [0, 0, 1, 1] * 25})
    >>> MNAR(rate=0.3).apply(table, random_state=0).schema.nullable
    ('a', 'b')
    """

    model: Literal["hidden-drivers", "all-columns"] = "hidden-drivers"
    drivers: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.model == "all-columns" and self.drivers is not None:
            raise ParameterError("drivers are for model='hidden-drivers' only")

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        names = table.schema.names
        if self.model == "all-columns":
            return self._logistic(table, names, names, rng)
        drivers, targets = _split(table.schema, self.drivers, rng)
        chances = self._logistic(table, targets, drivers, rng)
        return chances | _constant(table, dict.fromkeys(drivers, self.rate), self.rates)


@dataclass(frozen=True, kw_only=True)
class SelfMasking(_Fitted):
    """Mechanism that removes a cell with a probability that depends on its own value alone.

    It is a case of MNAR (missing not at random). The logit (the log odds of missing) is a sum of
    scores of the deciding values, with random weights (Muzellec et al. 2020). The mechanism is
    fitted to the table: its weights and intercepts depend on other rows. So it has no guarantee for
    the table before values went missing, and is for experiments only.

    Parameters
    ----------
    rate : float
        Share of missing cells in each column that gets missing cells, in [0, 1).
    strength : float, default 1.0
        Standard deviation of the logits of missing in the table, above 0. Larger values make
        missingness depend more on the deciding values.
    rates : {"expected", "exact"}, default "expected"
        With ``"expected"``, ``rate`` is the mean probability of a missing cell in each column. With
        ``"exact"``, it is the share of missing cells in each column, rounded to a whole number of
        cells.
    columns : tuple of str, optional
        Columns that get missing cells. By default all columns.

    Raises
    ------
    ParameterError, SchemaError
        If a parameter is not valid, or the table lacks a named column.
    DataError
        Raised by ``apply``, if the table has missing cells already.

    References
    ----------
    Muzellec, Josse, Boyer, Cuturi (2020), "Missing data imputation using optimal transport", ICML.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.evaluate import SelfMasking
    >>> schema = Schema((Categorical(name="a", levels=("x", "y")),))
    >>> table = Table.from_codes(schema, {"a": [0, 1] * 50})
    >>> chance = SelfMasking(rate=0.3).probabilities(table, random_state=0)["a"]
    >>> round(chance.mean(), 9), bool(chance[0] != chance[1])
    (np.float64(0.3), True)
    """

    columns: tuple[str, ...] | None = None

    def _probabilities(self, table: Table, rng: np.random.Generator) -> Probabilities:
        columns = table.schema.names if self.columns is None else self.columns
        names = _check_names(table.schema, columns)
        return {name: self._logistic(table, (name,), (name,), rng)[name] for name in names}


def _split(
    schema: Schema, drivers: tuple[str, ...] | None, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names that drive and names that are driven."""
    if len(schema) < 2:
        raise ParameterError(
            "a driving column needs another one to drive: give two columns or more"
        )
    if drivers is None:
        chosen = rng.permutation(len(schema))[: max(1, len(schema) // 2)]
        drivers = tuple(schema.names[i] for i in sorted(chosen))
    drivers = _check_names(schema, drivers)
    targets = tuple(name for name in schema.names if name not in drivers)
    if not targets:
        raise ParameterError("at least one column must not be a driver")
    return drivers, targets


def _draw_exact(chance: Floats, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw exactly ``round(sum(chance))`` missing cells, each cell with its own probability.

    Systematic sampling on a random order of the rows (Madow 1949): the inclusion probabilities
    are the given ones whenever their sum is whole.
    """
    is_missing = np.zeros(len(chance), dtype=bool)
    n_missing = round(float(chance.sum()))
    if n_missing == 0:
        return is_missing
    order = rng.permutation(len(chance))
    ends = np.cumsum(chance[order])
    ends *= n_missing / ends[-1]
    ends[-1] = n_missing
    steps = np.floor(ends + rng.random())
    is_missing[order] = np.diff(steps, prepend=0.0) > 0
    return is_missing


def _check_names(schema: Schema, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, or raise for unknown, repeated or no attributes."""
    checked = tuple(schema[name].name for name in names)
    if len(set(checked)) != len(checked):
        raise ParameterError(f"attributes are named twice: {checked}")
    if not checked:
        raise ParameterError("name at least one attribute")
    return checked


def _target_rate(n_rows: int, rate: float, rates: str) -> float:
    """Return the rate to which the fitted probabilities must average."""
    return round(rate * n_rows) / n_rows if rates == "exact" and n_rows else rate


def _constant(table: Table, missing: Mapping[str, float], rates: str) -> Probabilities:
    """Return the same probability for every row."""
    return {
        name: np.full(len(table), _target_rate(int((~table.mask(name)).sum()), rate, rates))
        for name, rate in missing.items()
    }


def _positions(attribute: AnyAttribute) -> Floats:
    """Place the ordered levels or bins of an attribute evenly on [-1, 1]: a public scale."""
    if attribute.size == 1:
        return np.zeros(1)
    return np.linspace(-1.0, 1.0, attribute.size)


def _sum_scores(table: Table, scores: Scores) -> Floats:
    """Return the sum of the scores of each row's levels, 0 for "not applicable"."""
    total = np.zeros(len(table))
    for name, score in scores.items():
        total += np.append(score, 0.0)[table.codes(name)]
    return total


def _random_scores(
    table: Table, drivers: Iterable[str], *, strength: float, rng: np.random.Generator
) -> Scores:
    """Draw a linear predictor of the drivers whose standard deviation in the table is ``strength``.

    Each driver is standardised in the table. Unordered levels get standard normal numbers first.
    Each driver has a standard normal weight, and the sum is scaled (Muzellec et al. 2020).
    """
    scores = {}
    for name in drivers:
        attribute = table.schema[name]
        unordered = isinstance(attribute, Categorical)
        score = rng.standard_normal(attribute.size) if unordered else _positions(attribute)
        weight = rng.standard_normal()
        scores[name] = weight * score / _spread(table, {name: score})
    total = _spread(table, scores)
    return {name: strength * score / total for name, score in scores.items()}


def _spread(table: Table, scores: Scores) -> float:
    """Return the standard deviation of scores in the table, or 1 if they are constant."""
    spread = float(_sum_scores(table, scores).std()) if len(table) else 0.0
    return spread if spread > 1e-12 else 1.0


def _fitted_probability(linear: Floats, rate: float) -> Floats:
    """Shift logits by the intercept that makes the mean probability equal the rate."""
    from scipy.optimize import brentq
    from scipy.special import expit, logit

    if rate in (0.0, 1.0) or not linear.size or np.ptp(linear) < 1e-12:
        return np.full(linear.shape, rate)
    target = float(logit(rate))
    low, high = target - float(linear.max()), target - float(linear.min())

    def excess(intercept: float) -> float:
        return float(expit(linear + intercept).mean()) - rate

    intercept = brentq(excess, low - 1e-9, high + 1e-9, xtol=1e-13)
    return np.asarray(expit(linear + intercept), dtype=np.float64)


def _with_missing(table: Table, missing: Mapping[str, NDArray[np.bool_]]) -> Table:
    """Return a table without some cells, except cells that a rule fills."""
    open_ = _with_open(table.schema, missing)
    schema = replace(
        table.schema,
        attributes=tuple(replace(a, nullable=True) if a.name in open_ else a for a in table.schema),
    )
    columns = {name: table.column(name) for name in schema.names}
    incomplete = Table(schema, columns, kind=table.kind).with_missing(missing)
    if not schema.rules:
        return incomplete
    columns = {name: incomplete.column(name) for name in schema.names}
    followed = apply_rules(schema, columns, missing)
    restored = {n: _chosen_of(missing[n], followed[n], columns[n]) for n in missing}
    return Table(schema, columns | restored, kind=table.kind)


def _with_open(schema: Schema, names: Iterable[str]) -> set[str]:
    """Return attributes that may be missing, and attributes that follow from them by a rule."""
    open_ = set(names)
    while (
        grown := {name for name, rule in schema.rule_set.derived.items() if open_ & {*rule.by}}
        - open_
    ):
        open_ |= grown
    return open_


def _chosen_of(chosen: NDArray[np.bool_], one: CodedColumn, two: CodedColumn) -> CodedColumn:
    """Return the cells of one column where ``chosen`` is True, else the cells of the other."""
    values = None
    if one.values is not None and two.values is not None:
        values = np.where(chosen, one.values, two.values)
    return CodedColumn(np.where(chosen, one.codes, two.codes), values)
