"""The ledger: privacy budgets of tables, in a database that outlives processes and people."""

from __future__ import annotations

import getpass
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdp.accounting import Adjacency, Condition, Cost, Event, PrivacyMeasure
from missdp.accounting.events import ROW, check_adjacency
from missdp.accounting.exact import exact, float_down, float_up, total
from missdp.errors import (
    BudgetExceededError,
    LedgerError,
    MissDPError,
    ParameterError,
    SchemaError,
    check_number,
    did_you_mean,
    replacing,
)
from missdp.governance.chain import (
    AFTER,
    BudgetFacts,
    LedgerVerifier,
    Row,
    canonical,
    digest,
    path_of,
    written,
)
from missdp.governance.ledger_heads import stated_release
from missdp.serialization import WRONG

if TYPE_CHECKING:  # the store imports SQLAlchemy, which is for ledgers that are opened
    from missdp.governance.ledger_budget import LedgerBudget
    from missdp.governance.store import Transaction
    from missdp.schema import Schema

_NAME = r"[\w.-]{1,80}(/[\w.-]{1,80})?"
_BACK = timedelta(seconds=60)  # that clocks of colleagues may differ
_SOFTWARE = f"missdp {version('missdp')}"


@dataclass(frozen=True)
class Started:
    """A release that is paid for: private rows may be read for it, once.

    Parameters
    ----------
    request : str
        The id, under which nothing is charged or drawn again.
    lines : int
        How many lines the table's chain has with this one.
    head : str
        The hash of this line.

    Examples
    --------
    >>> import tempfile
    >>> from missdp.accounting import PureEvent
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db", who="ada")
    >>> ledger.create("patients-2026", epsilon=1.0)
    >>> started = ledger.start("patients-2026", [PureEvent(epsilon=0.25)])
    >>> started.lines, len(started.head)
    (2, 64)
    """

    request: str
    lines: int
    head: str


@dataclass(frozen=True)
class Purpose:
    """What a release is for, and what is public about how it is made.

    Parameters
    ----------
    purpose, ticket : str
        For people; recorded.
    file : str
        The name of the file that is released, if any.
    parameters : mapping
        Public parameters. The ledger keeps a hash, by which they can be guessed: no seed and no
        password is among them.
    schema : str or None
        The hash of the schema that rows are read by.
    new_schema : bool
        Whether a schema that the table was not read by before is meant to be.
    unit : str
        Whose presence the release protects.
    conditions : tuple of Condition
        What the release rests on.

    Examples
    --------
    >>> Purpose("annual report", ticket="T-17").unit
    'row'
    """

    purpose: str = ""
    ticket: str = ""
    file: str = ""
    parameters: Mapping[str, Any] | None = None
    schema: str | None = None
    new_schema: bool = False
    unit: str = "row"
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        _text("purpose", self.purpose)
        _text("ticket", self.ticket)


class Ledger:
    """Privacy budgets of tables in a database: charged first, shared by all, never refunded.

    Parameters
    ----------
    url : str
        ``sqlite:///budget.db`` or ``postgresql://role@server/database``.
    who : str, optional
        Who asks; by default the name of this login.
    wait : float, default 60
        Seconds to wait for others who write.

    Notes
    -----
    A request is "started", which is committed before any private row is read and is the charge, and
    then "released" or "abandoned". What was started is never started again. Every line holds the
    hash of the line before it.

    Examples
    --------
    >>> import tempfile
    >>> from missdp.accounting import PureEvent
    >>> from missdp.governance import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db", who="ada")
    >>> ledger.create("patients-2026", epsilon=1.0)
    >>> budget = ledger.budget("patients-2026", purpose="annual report")
    >>> budget.charge(PureEvent(epsilon=0.25))
    >>> budget.remaining_epsilon, ledger.verify()["patients-2026"][0]
    (0.75, 2)
    """

    def __init__(self, url: str, *, who: str | None = None, wait: float = 60.0) -> None:
        from missdp.governance.store import Store, place_of

        self._place = place_of(url)
        self._store = Store(url, wait=check_number("wait", wait, min_value=0.0))
        self._who = _text("who", getpass.getuser() if who is None else who, least=1)

    def create(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float = 0.0,
        privacy_measure: PrivacyMeasure | None = None,
        failure: float = 0.0,
        adjacency: Adjacency = "add-remove",
        unit: str | None = None,
        schema: Schema | None = None,
        table: str | None = None,
        disjoint_epochs: bool = False,
    ) -> None:
        """Create the budget of a table, or with ``"table/part"`` one under it.

        Parameters
        ----------
        name : str
            Public: letters, digits, dots and dashes.
        epsilon, delta : float
            Total epsilon and delta of the budget.
        privacy_measure : {"pure", "zcdp", "gdp"}, optional
            What it counts in, fixed for good; "pure" at delta 0, else "zcdp" by default. A part
            takes all but its name and epsilon from the budget of its table.
        failure : float, default 0.0
            Cap on the sum of the deltas of releases that fail with a small probability (open
            levels). It comes on top of ``delta``. Only with "zcdp".
        adjacency : {"add-remove", "replace-one"}
            In what neighbouring tables differ.
        unit : str, optional
            Whose presence is protected; by default the unit of ``schema``, or each row without.
        schema : Schema, optional
            The schema of the table, from which the unit is taken.
        table : str, optional
            The public name of the table, if this is the budget of one of its epochs.
        disjoint_epochs : bool, default False
            The condition that no unit is in two epochs. Without it a table has one budget.

        Raises
        ------
        ParameterError
            If the budget is there already, or another epoch's and epochs are not disjoint; or if
            the schema has another unit than ``unit``, or open levels and there is no ``failure``.
        """
        if not isinstance(name, str) or not re.fullmatch(_NAME, name):
            raise ParameterError("name must be letters, digits, dots and dashes, as in table/part")
        root, table = name.partition("/")[0], table or name.partition("/")[0]
        epsilon = check_number("epsilon", epsilon, max_value=1e6, exclude_min=True)
        chosen: PrivacyMeasure = privacy_measure or ("zcdp" if delta > 0 else "pure")
        made = BudgetFacts(
            name=name,
            table=_text("table", table, least=1),
            cost=_for_one_release(Cost.from_epsilon(chosen, epsilon, delta), epsilon, delta),
            epsilon=epsilon,
            delta=check_number("delta", delta, max_value=1.0, exclude_max=True),
            failure=check_number("failure", failure, max_value=1.0, exclude_max=True),
            adjacency=check_adjacency(adjacency),
            unit=_text("unit", _unit_of(schema, unit), least=1),
            disjoint_epochs=bool(disjoint_epochs),
        )
        if made.failure and chosen != "zcdp":
            raise ParameterError("failure is for budgets in the privacy measure 'zcdp'")
        if made.failure and made.unit != ROW:
            raise ParameterError("failure is for budgets that protect rows: nothing else may fail")
        if schema is not None and not made.failure:
            _refuse_open(schema)
        with self._store.transaction(create=True) as run:
            self._refuse_taken(run, made)
            above = self._row(run, root) if root != name else None
            if above is not None:
                made = _under(above.facts, name, epsilon)
            rows = [*([] if above is None else [above]), Row(made)]
            facts = {"facts": json.loads(made.to_json())}
            self._append(run, rows, f"budget:{name}", "created", facts)

    def _refuse_taken(self, run: Transaction, made: BudgetFacts) -> None:
        if run.budget(made.name) is not None:
            raise ParameterError(
                f"the budget {made.name!r} exists already. A budget is never reset. Choose "
                "another name."
            )
        if made.name != made.root:
            return  # a part is of the epoch of its table's budget
        known = [_read(row).facts for row in run.budgets() if row["name"] == row["root"]]
        others = [facts for facts in known if facts.table == made.table]
        if others and not all(facts.disjoint_epochs for facts in (made, *others)):
            raise ParameterError(
                f"the table {made.table!r} has the budget {others[0].name!r}, which goes on. "
                "Another epoch has its own only if no unit is in two of them: say so for each with "
                "disjoint_epochs=True"
            )

    def budget(
        self,
        name: str,
        *,
        purpose: str = "",
        ticket: str = "",
        schema: str | None = None,
        new_schema: bool = False,
        request: str | None = None,
    ) -> LedgerBudget:
        """Return a `Filter` of which each charge is a request of its own.

        Parameters
        ----------
        name : str
        purpose, ticket : str
            Recorded with each charge.
        schema, new_schema
            See `Purpose`.
        request : str, optional
            The id of the first charge.
        """
        from missdp.governance.ledger_budget import LedgerBudget

        what = Purpose(purpose, ticket, schema=schema, new_schema=new_schema)
        return LedgerBudget(self, name, what, request=request)

    def abandon(self, request: str) -> None:
        """Mark a release that was started and will not end. It stays spent."""
        self._end(request, "abandoned", {})

    def finish(
        self,
        request: str,
        output: str,
        conditions: Iterable[Condition] = (),
        *,
        answer: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that a started request was released, with the SHA-256 of what was.

        What the release rests on is recorded as well, and an answer that no file holds.
        """
        facts: dict[str, Any] = {"output": _text("output", output)}
        facts["conditions"] = [condition.to_dict() for condition in conditions]
        self._end(request, "released", facts | ({} if answer is None else {"answer": answer}))

    def _end(self, request: str, state: str, facts: dict[str, Any]) -> None:
        with self._store.transaction() as run:
            states = _states(run, request)
            if not states:
                raise LedgerError(f"the ledger has no request {request}")
            row = self._row(run, next(iter(states.values()))["root"])
            now = [*_states(run, request)][-1]  # nobody else can change it from here on
            if state not in AFTER.get(now, ()):
                raise LedgerError(f"the request {request} is {now} and cannot be {state}")
            self._append(run, [row], request, state, facts)

    def start(
        self,
        name: str,
        events: Iterable[Event],
        what: Purpose | None = None,
        *,
        request: str | None = None,
    ) -> Started:
        """Charge for events and commit it; only then may private rows be read, once.

        Parameters
        ----------
        name : str
            Of a budget.
        events : iterable of Event
            What is about to be done, at most.
        what : Purpose, optional
        request : str, optional
            The id of the request; a fresh one by default.

        Raises
        ------
        BudgetExceededError, UnprovenError, SchemaError, ParameterError
            The refusal is recorded, and nothing charged.
        LedgerError
            If the request was started before, or the charge may not have been recorded.
        """
        what, request, events = what or Purpose(), request_id(request), tuple(events)
        with self._store.transaction() as run:
            rows = [self._row(run, part) for part in path_of(name)]
            _check_startable(request, _states(run, request))
            facts = _stated(name, events, what)
            try:
                charged, costs = _charged(run, rows, events, what)
            except MissDPError as error:
                refusal, facts["reason"] = error, str(error)
                self._append(run, rows[:1], request, "refused", facts)
            else:
                facts |= {**costs, "schema": what.schema, "software": _SOFTWARE}
                return self._append(run, charged, request, "started", facts)
        raise refusal

    def row(self, name: str) -> Row:
        """Return a budget as it stands now."""
        with self._store.transaction(reads=True) as run:
            return self._row(run, name)

    def rows(self) -> dict[str, Row]:
        """Return all budgets by their names, each table's before those under it."""
        with self._store.transaction(reads=True) as run:
            return {row.facts.name: row for row in map(_read, run.budgets())}

    def has_line(self, root: str, number: int, head: str) -> bool:
        """Whether the chain of a table's budget has this hash at this line.

        A ledger that is absent has no lines.
        """
        if self.is_absent:
            return False
        with self._store.transaction(reads=True) as run:
            line = run.time_and_hash(root, number)
        return line is not None and line[1] == head

    @property
    def is_absent(self) -> bool:
        """Whether there is no ledger yet at the URL; `create` makes one."""
        return self._store.is_absent()

    def history(self, name: str = "") -> list[dict[str, Any]]:
        """Return the lines of a table, or of all, in order."""
        with self._store.transaction(reads=True) as run:
            root = self._row(run, name).facts.root if name else None
            return [json.loads(line["body"]) for line in run.lines(root)]

    def charges(self, name: str) -> list[dict[str, Any]]:
        """Return the lines that charged a budget, those of its parts among them."""
        started = (line for line in self.history(name) if line["state"] == "started")
        return [line for line in started if f"{line['budget']}/".startswith(f"{name}/")]

    def summaries(self, name: str = "") -> list[dict[str, Any]]:
        """Return what is spent and left of each account, and of which releases the end is open.

        Parameters
        ----------
        name : str, default ""
            Of an account, whose parts are included; by default of all.

        Returns
        -------
        list of dict
            The facts of each account, with ``spent``, ``failed`` and ``left`` in its measure.
            ``releases_of_epsilon_1`` is how many of these fit into the rest. ``lines`` and ``head``
            are of its chain. ``charges`` are by person and purpose. ``started`` and ``abandoned``
            are ids of releases that did not end; they are spent.
        """
        ends = {line["request"]: line["state"] for line in self.history(name)}
        found = []
        for each, row in self.rows().items():
            if not f"{each}/".startswith(f"{name}/" if name else ""):
                continue
            budget, charges = self.budget(each), self.charges(each)
            open_ends = [(line["request"], ends[line["request"]]) for line in charges]
            found.append(
                {
                    "account": each,
                    **json.loads(row.facts.to_json()),
                    "total_delta": row.facts.total_delta,
                    "spent": float_up(row.spent),
                    "failed": float_up(row.failed),
                    "left": budget.remaining.amount,
                    "releases_of_epsilon_1": budget.releases_left(),
                    "lines": row.last,
                    "head": row.head,
                    "charges": _by_purpose(charges),
                    "started": [one for one, state in open_ends if state == "started"],
                    "abandoned": [one for one, state in open_ends if state == "abandoned"],
                }
            )
        return found

    def verify(self, *heads: str | Path) -> dict[str, tuple[int, str]]:
        """Recompute every hash and sum from the first line on, and compare.

        Parameters
        ----------
        *heads : str or Path
            Hashes of lines that must be there, as releases state them; or files that state them:
            a model, a saved answer, or the ``release.json`` of a dossier. Without any, a ledger
            whose last lines were cut off, or an old copy of it, seems whole.

        Returns
        -------
        dict
            For each table the number of lines and the last hash.

        Raises
        ------
        LedgerError
            That names the first line that is not as it was, a head that is not there, or a release
            that was never charged.
        """
        verifier = LedgerVerifier()
        with self._store.transaction(reads=True) as run:
            for line in run.lines():
                verifier.add(line)
            found = {row["name"]: dict(row) for row in run.budgets()}
        expected = {name: row.columns for name, row in verifier.rows.items()}
        if found != expected:
            names = sorted(n for n in {*found, *expected} if found.get(n) != expected.get(n))
            raise LedgerError(f"the ledger was changed: the lines do not add up to {names[0]!r}")
        for head in heads:
            _check_stated(verifier, head)
        return {n: (row.last, row.head) for n, row in verifier.rows.items() if n == row.facts.root}

    def grant(self, role: str) -> None:
        """Let a role of PostgreSQL charge budgets, and neither create them nor rewrite anything.

        Only the owner of the tables can drop the triggers that refuse the latter.
        """
        self._store.grant(role)

    def is_at(self, url: str) -> bool:
        """Whether this is the ledger at a URL, whoever opens it."""
        from missdp.governance.store import place_of

        return place_of(url) == self._place

    def close(self) -> None:
        """Close the connections of this process. The next call opens another."""
        self._store.close()

    def _row(self, run: Transaction, name: str) -> Row:
        """Return a budget; one of a table is locked until the transaction ends."""
        columns = run.budget(name)
        if columns is None:
            known = [row["name"] for row in run.budgets()]
            raise ParameterError(
                f"the ledger has no budget {name!r}. Create it with `missdp ledger create`"
                f"{did_you_mean(name, known)}"
            )
        return _read(columns)

    def _append(
        self,
        run: Transaction,
        rows: Sequence[Row],
        request: str,
        state: str,
        facts: Mapping[str, Any],
    ) -> Started:
        """Add a line to a table's chain, and put the budgets that it changes, the table's first."""
        root = rows[0]
        number = root.last + 1
        # How long a release took may tell of private rows: its end has no time.
        timed = state not in AFTER["started"]
        time = _now(run, root, timed=timed)
        line = {"root": root.facts.root, "number": number, "previous": root.head}
        line |= {"request": request, "state": state, "who": self._who, **facts}
        if timed:
            line["time"] = time
        body = canonical(line)
        hashed = digest(body)
        columns = {name: line[name] for name in ("root", "number", "request", "state")}
        columns |= {"schema_hash": line.get("schema"), "time": time, "body": body, "hash": hashed}
        run.add_line(columns)
        for row in rows:
            moved = replace(row, last=number, head=hashed)
            run.put(moved.columns, fresh=row.last == 0)
        return Started(request, number, hashed)


def _check_stated(verifier: LedgerVerifier, head: str | Path) -> None:
    """Refuse a ledger that lacks a line, or a release that a file states."""
    if isinstance(head, str):
        verifier.check_line(head)
        return
    stated = stated_release(head)
    if stated.line is not None:
        verifier.check_line(stated.line.head, stated.line.number)
    verifier.check_release(stated.release, stated.output)


def _check_startable(request: str, states: Mapping[str, dict[str, Any]]) -> None:
    """Refuse what was started or refused before; unrecorded."""
    if "started" in states:
        rest = "released" if "released" in states else "spent"
        raise LedgerError(
            f"the release {request} was started before and is {rest}. Nothing is charged or drawn "
            "again. A file of it that was saved states this id"
        )
    if states:
        raise LedgerError(f"the release {request} was refused. Start another with a new id.")


def _charged(
    run: Transaction, rows: Sequence[Row], events: Sequence[Event], what: Purpose
) -> tuple[list[Row], dict[str, Any]]:
    """Return budgets with a charge, and what it says of costs; refuse what does not fit."""
    facts = rows[0].facts
    if what.unit != facts.unit:
        raise ParameterError(
            f"the budget protects each {facts.unit!r}, and the release protects each "
            f"{what.unit!r}; `missdp ledger create --schema` makes a budget with the schema's unit"
        )
    declared = None if what.new_schema else what.schema
    if declared is not None and run.was_read_by_others(facts.root, declared):
        raise SchemaError(
            "the table was read by another schema before: if the public facts are meant to "
            "change, use `missdp fit` or `query` with --new-schema; the budget stays the same"
        )
    cost, failure = facts.price(events)
    charged = [row.charged(cost, failure) for row in rows]
    full = [pair for pair in zip(charged, rows, strict=True) if not pair[0].holds]
    if full:
        raise _too_much(*full[-1])
    return charged, {"cost": written(cost), "failure": written(failure)}


def _too_much(after: Row, before: Row) -> BudgetExceededError:
    """Say by how much a charge is more than what is left, in the budget's own privacy measure."""
    facts = after.facts
    sums = str(facts.cost.privacy_measure), exact(facts.cost.amount), after.spent, before.spent
    if after.spent <= sums[1]:
        sums = "failure", exact(facts.failure), after.failed, before.failed
    what, cap, wanted, spent = sums
    remedy = "Add noise, ask for less, or stop releasing from this table"
    if what == "failure":
        remedy = (
            "Fits that find open levels require an account with a failure (`missdp ledger create "
            "--failure 1e-6`): make one, or declare the levels in the schema"
        )
    return BudgetExceededError(
        f"the release does not fit into what is left of {facts.name!r}: it may cost "
        f"{float_up(wanted - spent):.4g} of {what}, and {max(0.0, float_down(cap - spent)):.4g} is "
        f"left; nothing was charged or read. {remedy}"
    )


def _stated(name: str, events: Iterable[Event], what: Purpose) -> dict[str, Any]:
    """Return what every line about a request says; its public parameters as a hash."""
    return {
        "budget": name,
        "purpose": what.purpose,
        "ticket": what.ticket,
        "file": what.file,
        "parameters": digest(canonical(what.parameters)),
        "conditions": [condition.to_dict() for condition in what.conditions],
        "events": [event.to_dict() for event in events],
    }


def _states(run: Transaction, request: str) -> dict[str, dict[str, Any]]:
    """Return the states that a request went through, each with its line."""
    return {line["state"]: line for line in map(json.loads, run.bodies_of(request))}


def _read(columns: Mapping[str, Any]) -> Row:
    """Return a budget, all columns of which say the same: triggers bind some of them only."""
    damaged = LedgerError("the ledger was changed: a budget cannot be read")
    with replacing(*WRONG, by=damaged):
        row = Row.of(columns)
        if all(columns[name] == value for name, value in row.columns.items()):
            return row
    raise damaged


def _now(run: Transaction, root: Row, *, timed: bool) -> str:
    """Return the time, or that of the line before for an end; refuse a clock that went back."""
    before = run.time_and_hash(root.facts.root, root.last)
    now = datetime.now(UTC)
    if before is not None and before[0]:
        known = datetime.fromisoformat(before[0])
        if now < known - _BACK:
            raise LedgerError(
                "the clock of this machine is behind the last line of the ledger; set it right"
            )
        now = max(now, known) if timed else known
    return now.isoformat(timespec="seconds")


def _refuse_open(schema: Schema) -> None:
    """Refuse an account that can never pay for a fit by the schema."""
    from missdp.schema import OpenCategorical

    name = next((a.name for a in schema if isinstance(a, OpenCategorical)), None)
    if name is not None:
        raise ParameterError(
            f"an account without a failure cannot pay for a fit that finds the levels of {name!r}, "
            "which are open. Pass failure=1e-6, which requires a delta above 0, or declare the "
            "levels in the schema."
        )


def unit_of_schema(schema: Schema) -> str:
    """Return whose presence releases by a schema protect."""
    return ROW if schema.unit is None else schema.unit.column


def _unit_of(schema: Schema | None, unit: str | None) -> str:
    declared = ROW if schema is None else unit_of_schema(schema)
    if schema is not None and unit not in (None, declared):
        raise ParameterError(
            f"unit must be {declared!r}, the unit of the schema, not {unit!r}; leave it out"
        )
    return declared if unit is None else unit


def _under(above: BudgetFacts, name: str, epsilon: float) -> BudgetFacts:
    """Return the facts of a budget under another one: its own cap, and all else the same."""
    of, delta = above.cost, above.delta
    cost = _for_one_release(Cost.from_epsilon(of.privacy_measure, epsilon, delta), epsilon, delta)
    return replace(above, name=name, cost=cost, epsilon=epsilon)


def _for_one_release(cost: Cost, epsilon: float, delta: float) -> Cost:
    """Return a cost, raised by rounding alone, that one release worth all of it does not exceed."""
    whole = replace(cost, amount=float_up(cost.price(cost.event())))
    return whole if cost.amount and whole.epsilon(delta) <= epsilon else cost


def request_id(request: str | None) -> str:
    """Return a request's id, which names files, or a fresh one."""
    found = secrets.token_hex(16) if request is None else request
    if not isinstance(found, str) or not re.fullmatch("[0-9a-f]{32}", found):
        raise ParameterError("request must be 32 hexadecimal digits, as `missdp` prints them")
    return found


def _by_purpose(charges: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what each person spent on each purpose."""
    costs: dict[tuple[str, str], list[Fraction]] = {}
    for line in charges:
        costs.setdefault((line["who"], line["purpose"]), []).append(Fraction(line["cost"]))
    return [
        {"who": who, "purpose": purpose, "releases": len(of), "spent": float_up(total(of))}
        for (who, purpose), of in costs.items()
    ]


def _text(name: str, value: Any, *, least: int = 0) -> str:
    """Return a text of one line, which people will read."""
    if not isinstance(value, str) or not least <= len(value) <= 500 or not value.isprintable():
        raise ParameterError(f"{name} must be a text of one line, at most 500 letters")
    return value
