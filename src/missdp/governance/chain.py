"""The lines of a ledger: canonical JSON, each with the hash of the line before, and their check.

A ledger has one chain for each table. Each commit adds one line. A charge is a line ``started``,
which also means "reserved". Later lines of the release have no time and no reason. Lines that
released files state are the only proof that the last lines were not removed.
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
"""Map from a state of a request to the states that may follow. Other states are final."""
_DIGITS = 30  # decimal places of the sums that the database compares


def json_text(value: Any) -> str:
    """Return a value as JSON text that is equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def fraction_text(number: Fraction) -> str:
    """Return an exact number as text."""
    return f"{number.numerator}/{number.denominator}"


@dataclass(frozen=True)
class BudgetFacts:
    """Facts of a ledger budget that are fixed when it is created.

    Parameters
    ----------
    name : str
        Name of the budget. A part is named ``"table/part"``.
    table : str
        Public name of the protected table.
    cost : Cost
        The cap, which implies epsilon at delta, without failures.
    epsilon : float
        Total epsilon.
    delta : float
        Total delta, without failures.
    failure : float
        Cap on the sum of the deltas of releases with a delta of their own.
    adjacency : {"add-remove", "replace-one"}
        The neighbouring relation.
    unit : str
        The unit of protection: ``"row"``, or the column that identifies the rows of a unit.
    disjoint_epochs : bool
        Whether no unit is in two epochs (periods) of the table.
    """

    name: str
    table: str  # public name of the protected table
    cost: Cost  # the cap, which implies epsilon at delta, without failures
    epsilon: float
    delta: float
    failure: float  # the cap on the sum of the deltas of approximate releases
    adjacency: Adjacency
    unit: str  # the unit whose presence is protected
    disjoint_epochs: bool  # whether no unit is in two epochs of the table

    @property
    def root(self) -> str:
        """The name of the table's budget, to which a part belongs."""
        return self.name.partition("/")[0]

    @property
    def total_delta(self) -> float:
        """The delta of the budget, including failures."""
        return self.delta + self.failure

    def to_json(self) -> str:
        """Return the facts as canonical JSON."""
        cost = {name: getattr(self.cost, name) for name in ("privacy_measure", "amount")}
        return json_text({**vars(self), "cost": cost})

    @classmethod
    def from_json(cls, text: str) -> BudgetFacts:
        """Return the facts that `to_json` wrote."""
        document = json.loads(text)
        return cls(**{**document, "cost": Cost(**document["cost"])})

    def price(self, events: Iterable[Event]) -> tuple[Fraction, Fraction]:
        """Return the cost of events in the budget's privacy measure, and their joint delta."""
        cost = failure = Fraction(0)
        for part, times in Counter(convert_adjacency(self.adjacency, flatten(events))).items():
            chance = exact(approximate_delta(part))
            if chance and self.cost.privacy_measure != "zcdp":
                # Approximate zCDP filters: Whitehouse et al. 2023, Theorem 1.
                raise UnprovenError(
                    f"{type(part).__name__} holds but for a delta, which only a ledger budget in "
                    "the privacy measure 'zcdp' adds up"
                )
            price = zcdp_cost(part) if chance else self._price(part)
            cost = total((cost, times * price))
            failure = total((failure, times * chance))
        return cost, failure

    def _price(self, event: Event) -> Fraction:
        if self.cost.privacy_measure != "pure":
            return self.cost.price(event)
        no_delta = UnprovenError(
            f"the account {self.name!r} has no delta, and this release needs one. Create an "
            "account with `missdp ledger create --delta`, or release with a delta of 0."
        )
        with replacing(UnprovenError, by=no_delta):
            return self.cost.price(event)
        raise no_delta


@dataclass(frozen=True)
class Row:
    """State of one ledger budget: its fixed facts, its charged amounts, and the last line about it.

    Parameters
    ----------
    facts : BudgetFacts
        The fixed facts.
    spent : Fraction, default 0
        The exact charged cost, in the privacy measure of the budget.
    failed : Fraction, default 0
        The exact sum of the deltas of charged releases with a delta of their own.
    last : int, default 0
        Number of the last line about the table.
    head : str, default ""
        SHA-256 of this line.
    """

    facts: BudgetFacts
    spent: Fraction = Fraction(0)
    failed: Fraction = Fraction(0)
    last: int = 0
    head: str = ""

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Row:
        """Return the budget of a row of the database."""
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
        """The row of the database, with sums also in units of 1e-30 as sortable text."""
        facts = self.facts
        floors = [f"{x * 10**_DIGITS // 1:0100d}" for x in (self.spent, self.failed)]
        return {
            "name": facts.name,
            "root": facts.root,
            "epochs_of": facts.table,
            "facts": facts.to_json(),
            "spent": fraction_text(self.spent),
            "failed": fraction_text(self.failed),
            "spent_floor": floors[0],
            "failed_floor": floors[1],
            "last": self.last,
            "head": self.head,
        }


@lru_cache(maxsize=4096)
def _events_price(facts: BudgetFacts, events: str) -> tuple[Fraction, Fraction]:
    """Return the cost and delta of events in canonical JSON."""
    return facts.price(Event.from_dict(event) for event in json.loads(events))


@dataclass
class LedgerVerifier:
    """All budgets and requests, recomputed from lines in the order of each chain."""

    rows: dict[str, Row] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)  # request to the hash of its output
    hashes: dict[str, int] = field(default_factory=dict)  # hash of a line to its number
    _states: dict[str, tuple[str, str]] = field(default_factory=dict)  # chain and state
    _heads: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, columns: Mapping[str, Any]) -> None:
        """Check and apply one line of the database, or raise if it was changed or moved."""
        wrong = LedgerError("the ledger was changed: a line cannot be read")
        with replacing(*WRONG, by=wrong):
            line: dict[str, Any] = json.loads(columns["body"])
            root, number = line["root"], line["number"]
        last, head = self._heads.get(root, (0, ""))
        where = LedgerError(f"the ledger was changed: line {last + 1} of {root!r} is not as it was")
        with replacing(*WRONG, MissDPError, by=where):
            # A line without a time has the time of the line before it, in its column only.
            stated = {"time": columns["time"], "schema": None} | line
            for name in ("root", "number", "request", "state", "time"):
                _require(columns[name] == stated[name])
            _require(columns["schema_hash"] == stated["schema"])
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
            facts = BudgetFacts.from_json(json_text(line["facts"]))
            _require(facts.name not in self.rows and facts.root == root)
            self.rows[facts.name] = Row(facts)
            self._move(facts.name, line, hashed)
        elif state == "started":
            cost, failure = Fraction(line["cost"]), Fraction(line["failure"])
            for name in path_of(line["budget"]):
                row = self.rows[name]
                _require(_events_price(row.facts, json_text(line["events"])) == (cost, failure))
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
        """Raise an error unless the ledger has a line, by its hash and its number if stated."""
        position = self.hashes.get(head)
        if position is None or number not in (None, position):
            raise LedgerError(
                f"the ledger was truncated or restored: it lacks the line {head[:12]}... that a "
                "release states"
            )

    def check_release(self, release: str, output: str | None = None) -> None:
        """Raise an error unless the ledger charged a release and has the hash of its output."""
        _, state = self._states.get(release, ("", ""))
        if state not in ("started", "released", "abandoned"):
            raise LedgerError(f"the ledger lacks the release {release}: it was never charged")
        if output is not None and self.outputs.get(release, output) != output:
            raise LedgerError(f"the output of release {release}, or its record, was changed")


def _require(is_as_it_was: bool) -> None:
    if not is_as_it_was:
        raise LookupError


def path_of(name: str) -> tuple[str, ...]:
    """Return the name of a budget, after the name of its table's budget if it is a part."""
    root = name.partition("/")[0]
    return (root,) if root == name else (root, name)


def answer_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a saved answer, which has no warnings of the run."""
    return digest(json_text({k: value for k, value in document.items() if k != "warnings"}))
