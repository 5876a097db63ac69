"""The lines of a ledger: canonical JSON, each with the hash of the one before, and their replay.

A ledger holds one chain for each table. What happens in one commit is one line, so a charge is a
line ``started`` that also stands for "reserved". Lines after it say nothing of when or why. What
released files say of lines is the only proof that none of the last ones was cut off.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from missdp.accounting import Cost, Event, flatten
from missdp.accounting.events import Adjacency, under
from missdp.accounting.exact import exact, total
from missdp.accounting.measures import approximate_delta, zcdp_cost
from missdp.errors import LedgerError, MissDPError, UnprovenError, replacing
from missdp.serialization import WRONG

AFTER: Mapping[str, tuple[str, ...]] = {
    "": ("requested", "started", "refused", "created"),
    "requested": ("approved", "started", "refused"),
    "approved": ("started", "refused"),
    "started": ("released", "abandoned"),
}
"""Which states of a request may follow which; none follows those that are not listed."""
_DIGITS = 30  # after the point, of the sums that the database compares


def canonical(value: Any) -> str:
    """Return a value as JSON text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


_NAMED = ("budget", "parameters", "purpose", "ticket", "file")
_ASKED = (*_NAMED, "conditions", "events")


def same_request(
    first: Mapping[str, Any], line: Mapping[str, Any], *, is_planned: bool = True
) -> bool:
    """Whether a line asks for what the first one of its request does: what was approved.

    Parameters
    ----------
    first : mapping of str to Any
        The first line of the request.
    line : mapping of str to Any
        What is asked for now.
    is_planned : bool, default True
        Whether ``line`` states events and conditions. A command finds them out only after it has
        named its request.

    Returns
    -------
    bool
    """
    return all(first[key] == line[key] for key in (_ASKED if is_planned else _NAMED))


def written(number: Fraction) -> str:
    """Return an exact number as text."""
    return f"{number.numerator}/{number.denominator}"


@dataclass(frozen=True)
class Facts:
    """What is fixed about a budget when it is created."""

    name: str
    table: str  # whose rows it protects, by its public name
    cost: Cost  # the cap, worth epsilon at delta where failures are left out
    epsilon: float
    delta: float
    failure: float  # the cap on the sum of the deltas of approximate releases
    adjacency: Adjacency
    unit: str  # whose presence is protected
    approval: bool  # whether another person must approve each request
    disjoint_epochs: bool  # the condition that no unit is in two epochs of the table

    @property
    def root(self) -> str:
        """The name of the table's budget, which a sub-budget is under."""
        return self.name.partition("/")[0]

    @property
    def total_delta(self) -> float:
        """The delta of the whole budget."""
        return self.delta + self.failure

    def to_json(self) -> str:
        """Return the facts as canonical JSON."""
        cost = {name: getattr(self.cost, name) for name in ("currency", "amount")}
        return canonical({**vars(self), "cost": cost})

    @classmethod
    def from_json(cls, text: str) -> Facts:
        """Return the facts that `to_json` wrote."""
        said = json.loads(text)
        return cls(**{**said, "cost": Cost(**said["cost"])})

    def price(self, events: Iterable[Event]) -> tuple[Fraction, Fraction]:
        """Return what events cost in the currency of this budget, and their chance to fail."""
        cost = failure = Fraction(0)
        for part, times in Counter(under(self.adjacency, flatten(events))).items():
            chance = exact(approximate_delta(part))
            if chance and self.cost.currency != "zcdp":
                # Approximate zCDP filters: Whitehouse et al. 2023, Theorem 1.
                raise UnprovenError(
                    f"{type(part).__name__} holds but for a delta, which only a ledger budget in "
                    "the currency 'zcdp' adds up"
                )
            each = zcdp_cost(part) if chance else self.cost.price(part)
            cost = total((cost, times * each))
            failure = total((failure, times * chance))
        return cost, failure


@dataclass(frozen=True)
class Row:
    """A budget as it stands: facts, exact sums, and the last line that changed it."""

    facts: Facts
    spent: Fraction
    failed: Fraction
    last: int
    head: str

    def charged(self, cost: Fraction, failure: Fraction, last: int, head: str) -> Row:
        """Return the budget with a charge, by the line that says so."""
        spent, failed = total((self.spent, cost)), total((self.failed, failure))
        return Row(self.facts, spent, failed, last, head)

    @property
    def holds(self) -> bool:
        """Whether the sums are within the budget."""
        cap, failure = exact(self.facts.cost.amount), exact(self.facts.failure)
        return self.spent <= cap and self.failed <= failure

    @property
    def columns(self) -> tuple[Any, ...]:
        """The budget as the database holds it; sums also in units of 1e-30, in order as text."""
        facts, sums = self.facts, (self.spent, self.failed)
        known = (facts.name, facts.root, facts.table, facts.to_json())
        floors = (f"{number * 10**_DIGITS // 1:0100d}" for number in sums)
        return (*known, *map(written, sums), *floors, self.last, self.head)


@lru_cache(maxsize=4096)
def _price_of(facts: Facts, events: str) -> tuple[Fraction, Fraction]:
    """Return what events cost that are written as canonical JSON."""
    return facts.price(Event.from_dict(one) for one in json.loads(events))


@dataclass
class Replay:
    """All budgets and requests, recomputed from lines in the order of each chain."""

    rows: dict[str, Row] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    asked: dict[str, dict[str, Any]] = field(default_factory=dict)  # the first line of a request
    outputs: dict[str, str] = field(default_factory=dict)  # the hash of what a request released
    hashes: dict[str, int] = field(default_factory=dict)  # with the number of the line
    _heads: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, body: str, hashed: str, columns: Sequence[Any] = ()) -> None:
        """Follow one line; refuse one that was changed, or is not where it was.

        ``columns`` are what the database says of it: root, number, request, state, schema, time.
        """
        wrong = LedgerError("the ledger was changed: a line cannot be read")
        with replacing(*WRONG, by=wrong):
            line: dict[str, Any] = json.loads(body)
            root, number = line["root"], line["number"]
        last, head = self._heads.get(root, (0, ""))
        where = LedgerError(f"the ledger was changed: line {last + 1} of {root!r} is not as it was")
        with replacing(*WRONG, MissDPError, by=where):
            known = [root, number, line["request"], line["state"], line.get("schema")]
            if columns and [*columns] != [*known, line.get("time", columns[-1])]:
                raise LookupError
            if (line["previous"], number) != (head, last + 1) or digest(body) != hashed:
                raise LookupError
            self._follow(line, hashed)
        self._heads[root] = number, hashed
        self.hashes[hashed] = number

    def _follow(self, line: dict[str, Any], hashed: str) -> None:
        root, request, state = line["root"], line["request"], line["state"]
        first, before = self.asked.setdefault(request, line), self.states.get(request, "")
        if first["root"] != root or state not in AFTER.get(before, ()):
            raise LookupError
        if state == "approved" and line["who"] == first["who"]:
            raise LookupError
        changed: list[tuple[str, Fraction, Fraction]] = []
        if state == "created":
            facts = Facts.from_json(canonical(line["facts"]))
            if facts.name in self.rows or facts.root != root:
                raise LookupError
            self.rows[facts.name] = Row(facts, Fraction(0), Fraction(0), 0, "")
            changed = [(facts.name, Fraction(0), Fraction(0))]
        elif state == "started":
            unapproved = self.rows[root].facts.approval and before != "approved"
            if unapproved or not same_request(first, line):
                raise LookupError
            changed = self._charged(line)
        elif state == "released":
            self.outputs[request] = line["output"]
        for name, cost, failure in changed or [(root, Fraction(0), Fraction(0))]:
            self.rows[name] = self.rows[name].charged(cost, failure, line["number"], hashed)
            if not self.rows[name].holds:
                raise LookupError
        self.rows[root] = replace(self.rows[root], last=line["number"], head=hashed)
        self.states[request] = state

    def check(
        self,
        head: str | None,
        lines: int | None = None,
        release: str | None = None,
        output: str | None = None,
    ) -> None:
        """Refuse a ledger that lacks a line or a release, or has another output of it.

        By the hash of the line (none if a release says nothing of a ledger) and its number; by the
        id of the release and the SHA-256 of what was released.
        """
        found = self.hashes.get(head or "")
        if head is not None and (found is None or lines not in (None, found)):
            raise LedgerError(
                f"the ledger was cut or restored: it lacks the line {head[:12]}... that a release "
                "states"
            )
        if release is None:
            return
        if self.states.get(release) not in ("started", "released", "abandoned"):
            raise LedgerError(f"the ledger lacks the release {release}: it was never charged")
        if output is not None and self.outputs.get(release, output) != output:
            raise LedgerError(f"what says of release {release} what was released was changed")

    def _charged(self, line: dict[str, Any]) -> list[tuple[str, Fraction, Fraction]]:
        cost, failure = Fraction(line["cost"]), Fraction(line["failure"])
        for name in path_of(line["budget"]):
            if _price_of(self.rows[name].facts, canonical(line["events"])) != (cost, failure):
                raise LookupError
        return [(name, cost, failure) for name in path_of(line["budget"])]


def path_of(name: str) -> tuple[str, ...]:
    """Return a budget's name after that of the budget it is under, if any."""
    root = name.partition("/")[0]
    return (root,) if root == name else (root, name)


def answer_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an answer as it is saved: without the warnings of a run."""
    return digest(canonical({k: value for k, value in document.items() if k != "warnings"}))
