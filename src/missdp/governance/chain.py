"""The lines of a ledger: canonical JSON, each with the hash of the line before, and their check.

A ledger holds one chain for each table. What happens in one commit is one line, so a charge is a
line ``started`` that also stands for "reserved". Lines after it say nothing of when or why. What
released files say of lines is the only proof that none of the last ones was cut off.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from missdp.accounting import Cost, Event, flatten
from missdp.accounting.events import Adjacency, convert_adjacency
from missdp.accounting.exact import exact, total
from missdp.accounting.measures import approximate_delta, zcdp_cost
from missdp.errors import LedgerError, MissDPError, UnprovenError, replacing
from missdp.serialization import WRONG

AFTER: Mapping[str, tuple[str, ...]] = {
    "": ("created", "started", "refused"),
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


def written(number: Fraction) -> str:
    """Return an exact number as text."""
    return f"{number.numerator}/{number.denominator}"


@dataclass(frozen=True)
class BudgetFacts:
    """Facts of a budget that are fixed when it is created."""

    name: str
    table: str  # whose rows it protects, by its public name
    cost: Cost  # the cap, worth epsilon at delta where failures are left out
    epsilon: float
    delta: float
    failure: float  # the cap on the sum of the deltas of approximate releases
    adjacency: Adjacency
    unit: str  # whose presence is protected
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
        cost = {name: getattr(self.cost, name) for name in ("privacy_measure", "amount")}
        return canonical({**vars(self), "cost": cost})

    @classmethod
    def from_json(cls, text: str) -> BudgetFacts:
        """Return the facts that `to_json` wrote."""
        document = json.loads(text)
        return cls(**{**document, "cost": Cost(**document["cost"])})

    def price(self, events: Iterable[Event]) -> tuple[Fraction, Fraction]:
        """Return the cost of events in the budget's privacy measure, and their chance to fail."""
        cost = failure = Fraction(0)
        for part, times in Counter(convert_adjacency(self.adjacency, flatten(events))).items():
            chance = exact(approximate_delta(part))
            if chance and self.cost.privacy_measure != "zcdp":
                # Approximate zCDP filters: Whitehouse et al. 2023, Theorem 1.
                raise UnprovenError(
                    f"{type(part).__name__} holds but for a delta, which only a ledger budget in "
                    "the privacy measure 'zcdp' adds up"
                )
            each = zcdp_cost(part) if chance else self._price(part)
            cost = total((cost, times * each))
            failure = total((failure, times * chance))
        return cost, failure

    def _price(self, event: Event) -> Fraction:
        if self.cost.privacy_measure != "pure":
            return self.cost.price(event)
        lacking = UnprovenError(
            f"the account {self.name!r} has no delta, and this release needs one. Create an "
            "account with `missdp ledger create --delta`, or release with a delta of 0."
        )
        with replacing(UnprovenError, by=lacking):
            return self.cost.price(event)
        raise lacking


@dataclass(frozen=True)
class Row:
    """A budget as it stands: facts, exact sums, and the last line that changed it."""

    facts: BudgetFacts
    spent: Fraction = Fraction(0)
    failed: Fraction = Fraction(0)
    last: int = 0
    head: str = ""

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Row:
        """Return a budget that the database holds."""
        sums = Fraction(columns["spent"]), Fraction(columns["failed"])
        return cls(BudgetFacts.from_json(columns["facts"]), *sums, columns["last"], columns["head"])

    def charged(self, cost: Fraction, failure: Fraction) -> Row:
        """Return the budget with a charge."""
        spent, failed = total((self.spent, cost)), total((self.failed, failure))
        return replace(self, spent=spent, failed=failed)

    @property
    def holds(self) -> bool:
        """Whether the sums are within the budget."""
        cap, failure = exact(self.facts.cost.amount), exact(self.facts.failure)
        return self.spent <= cap and self.failed <= failure

    @property
    def columns(self) -> dict[str, Any]:
        """The budget as the database holds it; sums also in units of 1e-30, in order as text."""
        facts = self.facts
        floors = [f"{x * 10**_DIGITS // 1:0100d}" for x in (self.spent, self.failed)]
        return {
            "name": facts.name,
            "root": facts.root,
            "epochs_of": facts.table,
            "facts": facts.to_json(),
            "spent": written(self.spent),
            "failed": written(self.failed),
            "spent_floor": floors[0],
            "failed_floor": floors[1],
            "last": self.last,
            "head": self.head,
        }


@lru_cache(maxsize=4096)
def _price_of(facts: BudgetFacts, events: str) -> tuple[Fraction, Fraction]:
    """Return what events cost that are written as canonical JSON."""
    return facts.price(Event.from_dict(one) for one in json.loads(events))


@dataclass
class LedgerVerifier:
    """All budgets and requests, recomputed from lines in the order of each chain."""

    rows: dict[str, Row] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)  # the hash of what a request released
    hashes: dict[str, int] = field(default_factory=dict)  # with the number of the line
    _states: dict[str, tuple[str, str]] = field(default_factory=dict)  # chain and state
    _heads: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, columns: Mapping[str, Any]) -> None:
        """Follow one line of the database; refuse one that was changed, or is not where it was."""
        wrong = LedgerError("the ledger was changed: a line cannot be read")
        with replacing(*WRONG, by=wrong):
            line: dict[str, Any] = json.loads(columns["body"])
            root, number = line["root"], line["number"]
        last, head = self._heads.get(root, (0, ""))
        where = LedgerError(f"the ledger was changed: line {last + 1} of {root!r} is not as it was")
        with replacing(*WRONG, MissDPError, by=where):
            # A line without a time has that of the line before it, beside its body only.
            known = {"time": columns["time"], "schema": None} | line
            for name in ("root", "number", "request", "state", "time"):
                _require(columns[name] == known[name])
            _require(columns["schema_hash"] == known["schema"])
            _require((line["previous"], number) == (head, last + 1))
            _require(digest(columns["body"]) == columns["hash"])
            self._follow(line, columns["hash"])
        self._heads[root] = number, columns["hash"]
        self.hashes[columns["hash"]] = number

    def _follow(self, line: dict[str, Any], hashed: str) -> None:
        root, request, state = line["root"], line["request"], line["state"]
        chain, before = self._states.get(request, (root, ""))
        _require(chain == root and state in AFTER.get(before, ()))
        if state == "created":
            facts = BudgetFacts.from_json(canonical(line["facts"]))
            _require(facts.name not in self.rows and facts.root == root)
            self.rows[facts.name] = Row(facts)
            self._move(facts.name, line, hashed)
        elif state == "started":
            cost, failure = Fraction(line["cost"]), Fraction(line["failure"])
            for name in path_of(line["budget"]):
                row = self.rows[name]
                _require(_price_of(row.facts, canonical(line["events"])) == (cost, failure))
                self.rows[name] = row.charged(cost, failure)
                _require(self.rows[name].holds)
                self._move(name, line, hashed)
        elif state == "released":
            self.outputs[request] = line["output"]
        self._move(root, line, hashed)
        self._states[request] = root, state

    def _move(self, name: str, line: dict[str, Any], hashed: str) -> None:
        self.rows[name] = replace(self.rows[name], last=line["number"], head=hashed)

    def check_line(self, head: str, number: int | None = None) -> None:
        """Refuse a ledger that lacks a line, by its hash and its number, if that is stated."""
        known = self.hashes.get(head)
        if known is None or number not in (None, known):
            raise LedgerError(
                f"the ledger was cut or restored: it lacks the line {head[:12]}... that a release "
                "states"
            )

    def check_release(self, release: str, output: str | None = None) -> None:
        """Refuse a ledger that never charged a release, or holds another hash of its output."""
        _, state = self._states.get(release, ("", ""))
        if state not in ("started", "released", "abandoned"):
            raise LedgerError(f"the ledger lacks the release {release}: it was never charged")
        if output is not None and self.outputs.get(release, output) != output:
            raise LedgerError(f"what says of release {release} what was released was changed")


def _require(is_as_it_was: bool) -> None:
    if not is_as_it_was:
        raise LookupError


def path_of(name: str) -> tuple[str, ...]:
    """Return a budget's name after that of the budget it is under, if any."""
    root = name.partition("/")[0]
    return (root,) if root == name else (root, name)


def answer_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an answer as it is saved: without the warnings of a run."""
    return digest(canonical({k: value for k, value in document.items() if k != "warnings"}))
