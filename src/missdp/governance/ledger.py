"""The ledger: privacy budgets of tables, in a database that outlives processes and people."""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdp.accounting import Adjacency, Condition, Cost, Currency, Event
from missdp.accounting.events import ROW, check_adjacency
from missdp.accounting.exact import exact, float_down, float_up
from missdp.errors import (
    BudgetExceededError,
    DataError,
    LedgerError,
    MissDPError,
    OutputError,
    ParameterError,
    SchemaError,
    did_you_mean,
    number,
    replacing,
)
from missdp.files import write_atomically
from missdp.governance.chain import (
    AFTER,
    Facts,
    Replay,
    Row,
    answer_digest,
    canonical,
    digest,
    path_of,
    same_request,
    written,
)
from missdp.governance.store import Store, Transaction
from missdp.serialization import WRONG

if TYPE_CHECKING:
    from missdp.governance.budget import LedgerBudget
    from missdp.schema import Schema

_NAME = r"[\w.-]{1,80}(/[\w.-]{1,80})?"
_BACK = timedelta(seconds=60)  # that clocks of colleagues may differ
_NOTHING = Fraction(0)
_SOFTWARE = f"missdp {version('missdp')}"
_BUDGETS = "SELECT facts, spent, failed, last, head FROM budgets"


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
        Public parameters: a request id stands for these and no others. The ledger keeps a hash, by
        which they can be guessed: no seed and no password is among them.
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


class Ledger:
    """Privacy budgets of tables in a database: charged first, shared by all, never refunded.

    Parameters
    ----------
    url : str
        ``sqlite:///budget.db`` or ``postgresql://role@server/database``.
    who : str, optional
        Who asks or approves; by default the name of this login.
    wait : float, default 60
        Seconds to wait for others who write.

    Notes
    -----
    A request goes from "requested" over "approved", where another person must agree, to "started",
    which is committed before any private row is read and is the charge; then to "released" or
    "abandoned". What was started is never started again. Every line holds the hash of the one
    before it.

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
        self._place = _place_of(url)
        self._store = Store(url, wait=number("wait", wait, least=0.0))
        self._who = _text("who", getpass.getuser() if who is None else who, least=1)

    def create(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float = 0.0,
        currency: Currency | None = None,
        failure: float = 0.0,
        adjacency: Adjacency = "add-remove",
        unit: str | None = None,
        schema: Schema | None = None,
        approval: bool = False,
        table: str | None = None,
        disjoint_epochs: bool = False,
    ) -> None:
        """Create the budget of a table, or with ``"table/part"`` one under it.

        Parameters
        ----------
        name : str
            Public: letters, digits, dots and dashes.
        epsilon, delta : float
            What the budget is worth.
        currency : {"pure", "zcdp", "gdp"}, optional
            What it counts in, fixed for good; "pure" at delta 0, else "zcdp" by default. A part
            counts as the whole does.
        failure : float, default 0.0
            How much the deltas of releases may sum to that may fail altogether; comes on top of
            ``delta``. Only with "zcdp".
        adjacency : {"add-remove", "replace-one"}
            In what neighbouring tables differ.
        unit : str, optional
            Whose presence is protected; by default the unit of ``schema``, or each row without.
        schema : Schema, optional
            The schema of the table, from which the unit is taken.
        approval : bool, default False
            Whether another person must approve each request.
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
        epsilon = number("epsilon", epsilon, most=1e6, open_end=True)
        chosen: Currency = currency or ("zcdp" if delta > 0 else "pure")
        made = Facts(
            name=name,
            table=_text("table", table, least=1),
            cost=_for_one_release(Cost.worth(chosen, epsilon, delta), epsilon, delta),
            epsilon=epsilon,
            delta=number("delta", delta, most=1.0, below=True),
            failure=number("failure", failure, most=1.0, below=True),
            adjacency=check_adjacency(adjacency),
            unit=_text("unit", _unit_of(schema, unit), least=1),
            approval=bool(approval),
            disjoint_epochs=bool(disjoint_epochs),
        )
        if made.failure and chosen != "zcdp":
            raise ParameterError("failure is for budgets in the currency 'zcdp'")
        if made.failure and made.unit != ROW:
            raise ParameterError("failure is for budgets that protect rows: nothing else may fail")
        if schema is not None and not made.failure:
            _refuse_open(schema)
        with self._store.transaction(create=True) as run:
            self._refuse_taken(run, made)
            above = self._row(run, root) if root != name else None
            if above is not None:
                made = _under(above.facts, name, epsilon)
            facts = {"facts": json.loads(made.to_json())}
            fresh = Row(made, _NOTHING, _NOTHING, 0, "")
            self._append(run, above, f"budget:{name}", "created", facts, rows=[fresh])

    def _refuse_taken(self, run: Transaction, made: Facts) -> None:
        if run("SELECT 1 FROM budgets WHERE name = ?", made.name):
            raise ParameterError(
                f"the budget {made.name!r} exists already. A budget is never reset. Choose "
                "another name."
            )
        epochs = "SELECT name, facts FROM budgets WHERE epochs_of = ? AND name = root"
        others = {} if made.name != made.root else dict(run(epochs, made.table))
        disjoint = [Facts.from_json(text).disjoint_epochs for text in others.values()]
        if not all((made.disjoint_epochs, *disjoint)) and others:
            raise ParameterError(
                f"the table {made.table!r} has the budget {min(others)!r}, which goes on. Another "
                "epoch has its own only if no unit is in two of them: say so for each with "
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
            The id of the first charge, such as one that was approved.
        """
        from missdp.governance.budget import LedgerBudget

        what = Purpose(
            purpose=_text("purpose", purpose),
            ticket=_text("ticket", ticket),
            schema=schema,
            new_schema=new_schema,
        )
        return LedgerBudget(self, name, what, request=request)

    def request(
        self,
        name: str,
        events: Iterable[Event],
        what: Purpose | None = None,
        *,
        request: str | None = None,
    ) -> str:
        """File a request that another person can approve; nothing is charged. Return its id."""
        said, request = _said(name, events, what or Purpose()), request_id(request)
        with self._store.transaction() as run:
            row = self._row(run, path_of(name)[0])
            self._row(run, name)
            if _states(run, request):
                raise LedgerError(f"the request {request} is there already")
            self._append(run, row, request, "requested", said)
        return request

    def approve(self, request: str) -> None:
        """Approve a request of another person."""
        self._follow(request, "approved", {})

    def refuse(self, request: str, *, reason: str = "") -> str:
        """Refuse a request, with a reason; what was started is abandoned instead, without one.

        Nothing is refunded. Returns "refused" or "abandoned".
        """
        with self._store.transaction() as run:
            started = "started" in _states(run, request)
        state = "abandoned" if started else "refused"
        self._follow(request, state, {} if started else {"reason": _text("reason", reason)})
        return state

    def abandon(self, request: str) -> None:
        """Mark a release that was started and will not end. It stays spent."""
        self._follow(request, "abandoned", {})

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
        self._follow(request, "released", facts | ({} if answer is None else {"answer": answer}))

    def _follow(self, request: str, state: str, facts: dict[str, Any]) -> None:
        with self._store.transaction() as run:
            states = _states(run, request)
            if not states:
                raise LedgerError(f"the ledger has no request {request}")
            row = self._row(run, next(iter(states.values()))["root"])
            states = _states(run, request)  # nobody else can change it now
            now = list(states)[-1]
            if state not in AFTER.get(now, ()):
                raise LedgerError(f"the request {request} is {now} and cannot be {state}")
            if state == "approved" and states["requested"]["who"] == self._who:
                raise LedgerError("a request is approved by another person than who asked")
            self._append(run, row, request, state, facts)

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
            If the request was started before, or is not approved.
        """
        what, request, events = what or Purpose(), request_id(request), tuple(events)
        with self._store.transaction() as run:
            rows = [self._row(run, part) for part in path_of(name)]
            said, states = _said(name, events, what), _states(run, request)
            _check_startable(rows[0].facts, request, states, said)
            if rows[0].facts.approval and not states:
                refusal: MissDPError = LedgerError(_WAITS.format(request))
                self._append(run, rows[0], request, "requested", said)
            else:
                try:
                    charged, costs = _charged(run, rows, events, what)
                except MissDPError as error:
                    refusal, said["reason"] = error, str(error)
                    self._append(run, rows[0], request, "refused", said)
                else:
                    said |= {**costs, "schema": what.schema, "software": _SOFTWARE}
                    return self._append(run, rows[0], request, "started", said, rows=charged)
        raise refusal

    def row(self, name: str) -> Row:
        """Return a budget as it stands now."""
        with self._store.transaction(reads=True) as run:
            return self._row(run, name)

    def rows(self) -> dict[str, Row]:
        """Return all budgets by their names, each table's before those under it."""
        with self._store.transaction(reads=True) as run:
            return {row.facts.name: row for row in map(_read, run(f"{_BUDGETS} ORDER BY name"))}

    def has_line(self, root: str, number: int, head: str) -> bool:
        """Whether the chain of a table's budget has this hash at this line.

        A ledger that is absent has no lines.
        """
        if self.is_absent:
            return False
        with self._store.transaction(reads=True) as run:
            found = run("SELECT hash FROM lines WHERE root = ? AND number = ?", root, number)
        return [(head,)] == [tuple(row) for row in found]

    @property
    def is_absent(self) -> bool:
        """Whether there is no ledger yet at the URL; `create` makes one."""
        return self._store.is_absent()

    def history(self, name: str = "") -> list[dict[str, Any]]:
        """Return the lines of a table, or of all, in order."""
        with self._store.transaction(reads=True) as run:
            root = self._row(run, name).facts.root if name else None
            where, given = ("", ()) if root is None else (" WHERE root = ?", (root,))
            found = run(f"SELECT body FROM lines{where}{_ORDER}", *given)
        return [json.loads(body) for (body,) in found]

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
            The facts of each account, and ``spent``, ``failed`` and ``left`` in its currency.
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
                    "left": budget.left.amount,
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
            a model, a guarantee, a saved answer or an export. Without any, a ledger
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
        with self._store.transaction(reads=True) as run:
            replay = Replay()
            for *columns, body, hashed in run.stream(f"SELECT * FROM lines{_ORDER}"):
                replay.add(body, hashed, columns)
            found = {row[0]: row for row in run("SELECT * FROM budgets")}
        expected = {name: row.columns for name, row in replay.rows.items()}
        if found != expected:
            names = sorted(n for n in {*found, *expected} if found.get(n) != expected.get(n))
            raise LedgerError(f"the ledger was changed: the lines do not add up to {names[0]!r}")
        for head in heads:
            for stated in [(head,)] if isinstance(head, str) else _stated_in(head):
                replay.check(*stated)
        return {n: (row.last, row.head) for n, row in replay.rows.items() if n == row.facts.root}

    def states(self, request: str, name: str, what: Purpose) -> dict[str, dict[str, Any]]:
        """Return the lines of a request by their states; refuse an id that stands for another."""
        with self._store.transaction(reads=True) as run:
            states = _states(run, request)
        said = _said(name, (), what)
        if "started" in states and not same_request(states["started"], said, is_planned=False):
            raise ParameterError(_OTHER.format(request))
        return states

    def export_lines(self, path: str | Path) -> int:
        """Write all lines to a file, one JSON object each; return how many."""
        if self._place == ("sqlite", os.path.realpath(path)):
            raise OutputError(
                f"cannot write {str(path)!r}: it is the ledger itself. Choose another output."
            )
        with self._store.transaction(reads=True) as run:
            lines = [
                canonical({"body": body, "hash": hashed})
                for body, hashed in run.stream(f"SELECT body, hash FROM lines{_ORDER}")
            ]
        write_atomically(Path(path), "".join(f"{line}\n" for line in lines).encode())
        return len(lines)

    def import_lines(self, path: str | Path) -> int:
        """Fill an empty ledger with the lines that `export_lines` wrote; return how many."""
        wrong = DataError(
            f"{str(path)!r} is not an export of a ledger. Expected a file written by "
            "`Ledger.export_lines`."
        )
        with replacing(OSError, *WRONG, by=wrong):
            text = Path(path).read_text(encoding="utf-8")
            lines = [(one["body"], one["hash"]) for one in map(json.loads, text.splitlines())]
        replay = Replay()
        for body, hashed in lines:
            replay.add(body, hashed)
        with self._store.transaction(create=True) as run:
            if run("SELECT 1 FROM lines LIMIT 1"):
                raise ParameterError("lines are imported into an empty ledger only")
            for body, hashed in lines:
                _insert(run, json.loads(body), body, hashed)
            for row in replay.rows.values():
                _put(run, row, fresh=True)
        return len(lines)

    def grant(self, role: str) -> None:
        """Let a role of PostgreSQL charge budgets, and neither create them nor rewrite anything.

        Only the owner of the tables can drop the triggers that refuse the latter.
        """
        self._store.grant(role)

    def is_at(self, url: str) -> bool:
        """Whether this is the ledger at a URL, whoever opens it."""
        return _place_of(url) == self._place

    def close(self) -> None:
        """Close the connection of this thread; the next call opens another."""
        self._store.close()

    def _row(self, run: Transaction, name: str) -> Row:
        """Return a budget; one of a table is locked until the transaction ends."""
        found = run(f"{_BUDGETS} WHERE name = ?{run.lock if '/' not in name else ''}", name)
        if not found:
            known = [row[0] for row in run("SELECT name FROM budgets")]
            raise ParameterError(
                f"the ledger has no budget {name!r}. Create it with `missdp ledger create`"
                f"{did_you_mean(name, known)}"
            )
        return _read(found[0])

    def _append(
        self,
        run: Transaction,
        root: Row | None,
        request: str,
        state: str,
        facts: dict[str, Any],
        *,
        rows: Sequence[Row] = (),
    ) -> Started:
        """Add a line to a table's chain, and take over the rows that it changes."""
        name = root.facts.root if root is not None else rows[0].facts.root
        last, head = (root.last, root.head) if root is not None else (0, "")
        # How long a release took may tell of private rows: its end has no time.
        timed = state not in AFTER["started"]
        time = _now(run, name, last, timed=timed)
        line = {"root": name, "number": last + 1, "previous": head, "request": request}
        line |= {"state": state, "who": self._who, **facts}
        if timed:
            line["time"] = time
        body = canonical(line)
        _insert(run, {**line, "time": time}, body, digest(body))
        changed = {row.facts.name: row for row in ([root] if root else []) + [*rows]}
        for row in changed.values():
            _put(run, replace(row, last=last + 1, head=digest(body)), fresh=row.last == 0)
        return Started(request, last + 1, digest(body))


_Stated = tuple[str | None, int | None, str | None, str | None]  # see `Replay.check`


def _stated_in(path: Path) -> list[_Stated]:
    """Return what a file states: of a release, or an export of a whole ledger."""
    wrong = DataError(f"{str(path)!r} is no file of a release or of a ledger")
    document: Any = {}
    with replacing(OSError, *WRONG, by=wrong):
        content = path.read_bytes()
        with contextlib.suppress(ValueError):  # an export has an object on each line
            document = json.loads(content)
        if "ledger" in document or "release" in document:
            return [_of_release(document, content)]
        lines = map(json.loads, content.decode("utf-8").splitlines())
        bodies = [(json.loads(line["body"]), line["hash"]) for line in lines]
        last = {body["root"]: (hashed, body["number"], None, None) for body, hashed in bodies}
        return [*last.values()]
    raise wrong


def _of_release(document: Mapping[str, Any], content: bytes) -> _Stated:
    ledger = document.get("ledger") or {}
    release = document["release"] if "release" in document else ledger["request"]
    output = None
    if "family" in document:  # a model, which is what was released
        output = hashlib.sha256(content).hexdigest()
    elif "release" not in document:
        output = answer_digest(document)
    return ledger.get("head"), ledger.get("lines"), str(release), output


def _place_of(url: str) -> tuple[str, ...]:
    """Return where a ledger is, without role and password."""
    kind, _, rest = url.partition("://")
    if kind == "sqlite":
        return kind, os.path.realpath(rest[1:])
    return kind.partition("+")[0], rest.rpartition("@")[2]


_ORDER = " ORDER BY root, number"
_OTHER = "the request {0} was made for something else"
_WAITS = (
    "this budget needs the approval of another person. Once another person called Ledger.approve, "
    "start it from Python with its id as the request: {0}"
)


def _check_startable(
    facts: Facts, request: str, states: dict[str, dict[str, Any]], said: dict[str, Any]
) -> None:
    """Refuse what was started before, asks for something else, or is not approved; unrecorded."""
    if "started" in states:
        rest = "released" if "released" in states else "spent"
        raise LedgerError(
            f"the request {request} was started before and is {rest}: nothing is charged or drawn "
            "again. Its files, if it was saved, have its id"
        )
    if "refused" in states:
        raise LedgerError(f"the request {request} was refused; ask anew")
    if states and not same_request(states["requested"], said):
        raise ParameterError(_OTHER.format(request))
    if facts.approval and states and "approved" not in states:
        raise LedgerError(f"the request {request} is not approved by another person yet")


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
    hashes = "SELECT 1 FROM lines WHERE root = ? AND schema_hash"
    if what.schema is not None and not what.new_schema:
        known = run(f"{hashes} = ? LIMIT 1", facts.root, what.schema)
        if not known and run(f"{hashes} IS NOT NULL LIMIT 1", facts.root):
            raise SchemaError(
                "the table was read by another schema before: if the public facts are meant to "
                "change, use `missdp fit` or `query` with --new-schema; the budget stays the same"
            )
    cost, failure = facts.price(events)
    charged = [row.charged(cost, failure, row.last, row.head) for row in rows]
    full = [pair for pair in zip(charged, rows, strict=True) if not pair[0].holds]
    if full:
        raise _too_much(*full[-1])
    return charged, {"cost": written(cost), "failure": written(failure)}


def _too_much(after: Row, before: Row) -> BudgetExceededError:
    """Say by how much a charge is more than what is left, in the budget's own currency."""
    facts = after.facts
    sums = str(facts.cost.currency), exact(facts.cost.amount), after.spent, before.spent
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


def _said(name: str, events: Iterable[Event], what: Purpose) -> dict[str, Any]:
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
    found = run("SELECT body FROM lines WHERE request = ? ORDER BY number", request)
    return {line["state"]: line for line in (json.loads(body) for (body,) in found)}


def _read(found: tuple[Any, ...]) -> Row:
    facts, spent, failed, last, head = found
    damaged = LedgerError("the ledger was changed: a budget cannot be read")
    with replacing(*WRONG, by=damaged):
        return Row(Facts.from_json(facts), Fraction(spent), Fraction(failed), last, head)
    raise damaged


def _insert(run: Transaction, line: Mapping[str, Any], body: str, hashed: str) -> None:
    values = (line["root"], line["number"], line["request"], line["state"], line.get("schema"))
    run(_LINE, *values, line.get("time", ""), body, hashed)


def _put(run: Transaction, row: Row, *, fresh: bool) -> None:
    columns = row.columns
    if fresh:
        run(f"INSERT INTO budgets VALUES ({', '.join('?' * len(columns))})", *columns)
    else:
        run(_SUMS, *columns[4:], columns[0])


_LINE = f"INSERT INTO lines VALUES ({', '.join('?' * 8)})"
_SUMS = (
    "UPDATE budgets SET spent = ?, failed = ?, spent_floor = ?, failed_floor = ?, last = ?,"
    " head = ? WHERE name = ?"
)


def _now(run: Transaction, root: str, last: int, *, timed: bool) -> str:
    """Return the time, that of the line before if none is told; refuse a clock that went back."""
    before = run("SELECT time FROM lines WHERE root = ? AND number = ?", root, last)
    now = datetime.now(UTC)
    if before and before[0][0]:
        known = datetime.fromisoformat(before[0][0])
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


def _under(above: Facts, name: str, epsilon: float) -> Facts:
    """Return the facts of a budget under another one: its own cap, and all else the same."""
    of, delta = above.cost, above.delta
    cost = _for_one_release(Cost.worth(of.currency, epsilon, delta), epsilon, delta)
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
    sums: dict[tuple[str, str], tuple[int, Fraction]] = {}
    for line in charges:
        key = line["who"], line["purpose"]
        count, spent = sums.get(key, (0, Fraction(0)))
        sums[key] = count + 1, spent + Fraction(line["cost"])
    return [
        {"who": who, "purpose": purpose, "releases": count, "spent": float_up(spent)}
        for (who, purpose), (count, spent) in sums.items()
    ]


def _text(name: str, value: Any, *, least: int = 0) -> str:
    """Return a text of one line, which people will read."""
    if not isinstance(value, str) or not least <= len(value) <= 500 or not value.isprintable():
        raise ParameterError(f"{name} must be a text of one line, at most 500 letters")
    return value
