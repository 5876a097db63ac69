"""Attributes of a question: their positions, and the numbers that their codes stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from missdp.errors import ParameterError
from missdp.estimate.released import Tables
from missdp.estimate.tail_intervals import TailIntervals, counted_attribute, representative_values
from missdp.schema import Numeric
from missdp.synth.base import Synthesizer
from missdp.synth.learn_pairs import PairRelease
from missdp.types import Floats


class QuestionColumn:
    """An attribute of a question, with the numbers of its codes.

    Codes of a number are its bins, then the tail intervals in which rows may be hidden. If rows
    in which the attribute is missing are separated, all codes follow again, for these rows.
    """

    def __init__(self, model: Synthesizer, name: str) -> None:
        modelled = model.modelled_
        if name not in modelled:
            rule = model.schema_.rule_set.derived.get(name)
            of = ", ".join(x for x in (rule.reads if rule else ()) if x in modelled)
            raise ParameterError(
                f"{name!r} follows from other attributes by a rule, and is not modelled itself. "
                f"Ask for {of or 'those'}"
            )
        self.name, self.attribute = name, model.schema_[name]
        self.at, self.size = modelled.names.index(name), self.attribute.size
        self.may_not_apply = modelled[name].size > self.size
        self.by_levels = False  # in a regression
        self.shift: float | None = None  # of separated rows in which it is missing
        self.home = np.arange(self.size)  # the bin of each code
        self.points: Floats | None = None  # (codes, points): values that represent each code
        self.score: Any = None  # its standardised number, if products with it were released
        if isinstance(self.attribute, Numeric):
            self.attribute = counted_attribute(model, name)
            tails = TailIntervals.of(model, self.attribute)
            points, self.home = tails.appended_to(representative_values(self.attribute))
            self.points, self.labels = points, self.attribute.bin_labels
            self.score = PairRelease.of(model.tables_).numeric_scores.get(self.at)
        else:
            levels = self.attribute.levels
            has_labels = bool(self.attribute.labels)
            self.labels = self.attribute.level_labels if has_labels else tuple(map(str, levels))
            if levels and not isinstance(levels[0], str):
                self.points = np.array(levels, dtype=np.float64)[:, None]

    def check_missing(self, model: Synthesizer) -> None:
        """Raise if the model has no missing values of the attribute."""
        if not model.applied_strategy.models_missingness:
            raise ParameterError(
                f"missing={model.missing!r} does not model missing values. Fit with missing='joint'"
            )
        if not model.modelled_[self.name].nullable:
            raise ParameterError(f"{self.name!r} is never missing, by the schema")

    @property
    def width(self) -> int:
        """Number of codes."""
        return len(self.home) * (1 if self.shift is None else 2)

    def by_bin(self, sums: Floats) -> Floats:
        """Return sums by level, given sums by code."""
        totals = np.zeros((self.size, *sums.shape[1:]))
        np.add.at(totals, self.home, sums[: len(self.home)])
        return totals

    def values(self, tables: Tables) -> tuple[Floats, Floats]:
        """Return the values that represent each code, and their weights."""
        if self.points is None:
            raise ParameterError(
                f"{self.name!r} is categorical. Only share(...) is available for it."
            )
        weights = tables.weights.get(self.at, np.ones(self.points.shape))
        if self.shift is None:
            return self.points, weights
        return np.concatenate([self.points, self.points + self.shift]), np.tile(weights, (2, 1))

    def mean(self, tables: Tables, of: Callable[[Floats], Floats] = np.asarray) -> Floats:
        """Return the mean of a function of the number at each code."""
        values, weights = self.values(tables)
        return np.asarray((weights * of(values)).sum(axis=1))

    def features(self, tables: Tables) -> Floats:
        """Return the features of the attribute in a relation, one column each.

        The rows are its codes, then its standardised number ``z``. The features are the number, or
        all levels but the first. If products with ``z`` were released, the number is a multiple of
        ``z``, and codes have the difference between both: where ``z`` is clipped.
        """
        if self.by_levels:
            return np.eye(self.size + 1, self.size)[:, 1:]
        if self.score is None:
            return np.append(self.relation_means(tables), 0.0)[:, None]
        rest = self.relation_means(tables, self.score.rest(self.points))
        return np.append(rest, self.score.scale)[:, None]

    def relation_means(self, tables: Tables, function: Floats | None = None) -> Floats:
        """Return the mean of the number at each code in a relation, see ``WithinBinSlopes``.

        ``function`` has a function of the number at its points, instead of the number.
        """
        self.values(tables)  # raises for levels that are not numbers
        points = self.points if function is None else function
        assert points is not None
        if self.at not in tables.slopes:
            means = points.mean(axis=1)
        else:
            shares = tables.of(self.at)[: self.width].reshape(-1, len(self.home)).sum(axis=0)
            code_means, weights = tables.slopes[self.at].code_means, tables.weights[self.at]
            means = code_means(points, weights, shares, lean=tables.lean)
        return means if self.shift is None else np.append(means, means + self.shift)
