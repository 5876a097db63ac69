"""Subjects of checks: families with a strategy, on made-up tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from missdp.errors import ParameterError
from missdp.schema import Schema
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.testing.made_up import SCHEMA, constant, has_kinds_or_rules, made_up

__all__ = [
    "Run",
    "Subject",
    "is_run",
    "name_of",
    "subjects",
]


Run = Callable[[Any, Any], Any]
"""Whatever answers through a door: ``run(witness, table)``."""


@dataclass(frozen=True)
class Subject:
    """A family with one strategy.

    Parameters
    ----------
    family : type of Synthesizer
    strategy : str
    parameters : mapping
        Further parameters of the family.
    schema : Schema
        Of the tables that are made up for it.
    """

    family: type[Synthesizer]
    strategy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema = SCHEMA

    @property
    def case(self) -> str:
        """What findings call it."""
        return f"{self.strategy}, with rules" if self.has_rules else self.strategy

    @property
    def has_rules(self) -> bool:
        """Whether its tables have several kinds of missing, or rules."""
        return has_kinds_or_rules(self.schema)

    @property
    def delta(self) -> float:
        """The delta that the family is run with."""
        return self.build()._delta

    @property
    def epsilon(self) -> float:
        """The epsilon that the family is run with."""
        return float(self.parameters.get("epsilon", 1.0))

    def build(self, **more: Any) -> Synthesizer:
        """Return an unfitted model; seeded, unless told otherwise."""
        given = {"epsilon": self.epsilon, "missing": self.strategy, "random_state": 0}
        return self.family(**{**given, **self.parameters, **more})

    def table(self, n: int = 300, seed: int = 0) -> Table:
        """Return a made-up table."""
        return made_up(self.schema, n, seed)

    def frame(self, n: int = 300, seed: int = 0) -> Any:
        """Return a made-up pandas frame."""
        return self.table(n, seed).to_native("pandas")

    def constant(self, n: int, *, missing: bool = False) -> Table:
        """Return a made-up table of equal rows."""
        return constant(self.schema, n, missing=missing)

    def with_parameters(self, **more: Any) -> Subject:
        """Return the subject with other parameters."""
        return replace(self, parameters={**self.parameters, **more})


def is_run(subject: Any, **more: Any) -> bool:
    """Whether the subject is a function of a witness and a table; such take none of the options."""
    if isinstance(subject, type) or not callable(subject) or isinstance(subject, Synthesizer):
        return False
    given = [name for name, value in more.items() if value is not None]
    if given:
        raise ParameterError(f"{', '.join(given)} are for families: a function takes no such thing")
    return True


def name_of(run: Run) -> str:
    """Return a public name for a function."""
    return str(getattr(run, "__name__", type(run).__name__))


def subjects(
    family: type[Synthesizer],
    parameters: Mapping[str, Any] | None,
    strategies: Iterable[str] | None,
    schema: Schema | None = None,
) -> Iterator[Subject]:
    """Yield the family with each of its strategies, or with those that are named."""
    if not (isinstance(family, type) and issubclass(family, Synthesizer)):
        raise ParameterError(
            "a family is a class that inherits from missdp.synth.Synthesizer; for anything else "
            "give the check a function, run(witness, table)"
        )
    named = tuple(family.strategies if strategies is None else strategies)
    if not named or not set(named) <= set(family.strategies):
        raise ParameterError(f"strategies must be some of {list(family.strategies)}")
    for strategy in named:
        yield Subject(family, strategy, dict(parameters or {}), schema or SCHEMA)
