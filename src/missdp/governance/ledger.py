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
    digest,
    fraction_text,
    json_text,
    path_of,
)
from missdp.governance.ledger_heads import stated_release
from missdp.serialization import WRONG

if TYPE_CHECKING:  # the store imports SQLAlchemy, which is for ledgers that are opened
    from missdp.governance.ledger_budget import LedgerBudget
    from missdp.governance.store import Transaction
    from missdp.schema import Schema

_NAME = r"[\w.-]{1,80}(/[\w.-]{1,80})?"
_BACK = timedelta(seconds=60)  # by which the clocks of two machines may differ
_SOFTWARE = f"missdp {version('missdp')}"


@dataclass(frozen=True)
class Started:
    """Record of a charged release in a ledger, after which private rows may be read once.

    `Ledger.start` returns it. A ledger is a database of privacy budgets, whose lines are linked by
    hashes.

    Parameters
    ----------
    request : str
        The id of the release, 32 hexadecimal digits. Nothing is charged or drawn under it again.
    lines : int
        Number of lines about the table in the ledger, including the line of this charge. At
        least 1.
    head : str
        The SHA-256 of this line, 64 hexadecimal digits. Keep it outside the ledger, and pass it to
        `Ledger.verify` to detect a restored old copy.

    Notes
    -----
    All fields are public, so they may be published with the release.

    Examples
    --------
    >>> from missdp.governance import Ledger
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
    """Purpose of a release, and public facts about it, which a ledger records with the charge.

    Pass it to `Ledger.start`. `Ledger.budget` makes it from its parameters.

    Parameters
    ----------
    purpose, ticket : str, default ""
        Texts for people, which are recorded. One line of at most 500 characters.
    file : str, default ""
        Name of the file that is released, if any.
    parameters : mapping, optional
        Public parameters of the release. The ledger stores a hash, from which they can be guessed.
        So seeds and passwords must not be among them.
    schema : str, optional
        The hash of the schema by which the table is read.
    new_schema : bool, default False
        Whether the schema may differ from all earlier schemas of the table.
    unit : str, default "row"
        The unit of protection: ``"row"``, or the column that identifies the rows of a person or
        other unit.
    conditions : tuple of Condition, default ()
        Conditions of the guarantee of the release.

    Raises
    ------
    ParameterError
        If ``purpose`` or ``ticket`` is not a printable text of one line.

    Notes
    -----
    All fields must be public, since every user of the ledger can read them.

    Examples
    --------
    >>> from missdp.governance import Purpose
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
    """A database of privacy budgets of tables, which all processes and people charge.

    Every charge is committed before private rows are read, and never refunded. Use a ledger if
    several people release from one table, or if a budget must outlive a process. `Ledger.budget`
    returns a budget for fits and queries. Methods raise `LedgerError` if the database cannot be
    used.

    Parameters
    ----------
    url : str
        ``sqlite:///budget.db`` or ``postgresql://role@server/database``.
    who : str, optional
        Name of the person who charges, by default the login name.
    wait : float, default 60.0
        Seconds to wait for other writers, at least 0.

    Raises
    ------
    ParameterError
        If the URL or another parameter is invalid.
    MissingDependencyError
        If a PostgreSQL ledger is named, and the extra ``ledger`` is not installed.

    Notes
    -----
    The id of a charge is called a request. A request is first "started". This state is the charge,
    and is committed before any private row is read. The request is then "released" or "abandoned".
    A started request never starts again. Every line has the hash of the line before it.

    *Privacy.* The ledger holds public facts, and released answers if `Ledger.finish` stores them.
    It holds no private row. The sum of all charges never exceeds the budget.

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
        from missdp.governance.store import Store, ledger_address

        self._address = ledger_address(url)
        self._store = Store(url, wait=check_number("wait", wait, min_value=0.0))
        self._who = _text("who", getpass.getuser() if who is None else who, min_size=1)

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
        """Create the privacy budget of a table, or with ``"table/part"`` a part of this budget.

        Parameters
        ----------
        name : str
            Public name of letters, digits, dots and dashes. A part is named ``"table/part"``.
        epsilon : float
            Total epsilon of the budget, above 0 and at most 1e6.
        delta : float, default 0.0
            Total delta of the budget, in [0, 1).
        privacy_measure : {"pure", "zcdp", "gdp"}, optional
            The privacy measure in which costs add up, which never changes. By default ``"pure"`` at
            delta 0, otherwise ``"zcdp"``. A part takes all facts except name and epsilon from its
            table's budget.
        failure : float, default 0.0
            Cap on the sum of the deltas of releases that fail with a small probability, in addition
            to ``delta``. Fits that find levels of open attributes are examples. Only with
            ``"zcdp"``.
        adjacency : {"add-remove", "replace-one"}, default "add-remove"
            The neighbouring relation.
        unit : str, optional
            The unit of protection: ``"row"``, or the column that identifies the rows of a person or
            other unit. By default the unit of ``schema``, or ``"row"``.
        schema : Schema, optional
            The schema of the table, from which the unit is taken.
        table : str, optional
            The public name of the table, if this is the budget of one of its epochs (tables of
            different periods).
        disjoint_epochs : bool, default False
            Whether no unit is in two epochs. Otherwise a table has one budget.

        Raises
        ------
        ParameterError
            If the budget exists, or another epoch has a budget and epochs are not disjoint. If a
            number is out of range, or ``failure`` is combined with other measures or units. If the
            unit of the schema is not ``unit``. If the schema has open levels without ``failure``.
            If the table of a part has no budget.
        LedgerError
            If the database cannot be written.

        Examples
        --------
        >>> from missdp.governance import Ledger
        >>> import tempfile
        >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db", who="ada")
        >>> ledger.create("patients-2026", epsilon=1.0)
        >>> ledger.create("patients-2026/annual", epsilon=0.5)
        >>> list(ledger.rows())
        ['patients-2026', 'patients-2026/annual']
        """
        if not isinstance(name, str) or not re.fullmatch(_NAME, name):
            raise ParameterError("name must be letters, digits, dots and dashes, as in table/part")
        root, table = name.partition("/")[0], table or name.partition("/")[0]
        epsilon = check_number("epsilon", epsilon, max_value=1e6, exclude_min=True)
        chosen: PrivacyMeasure = privacy_measure or ("zcdp" if delta > 0 else "pure")
        created = BudgetFacts(
            name=name,
            table=_text("table", table, min_size=1),
            cost=_rounded_cap(Cost.from_epsilon(chosen, epsilon, delta), epsilon, delta),
            epsilon=epsilon,
            delta=check_number("delta", delta, max_value=1.0, exclude_max=True),
            failure=check_number("failure", failure, max_value=1.0, exclude_max=True),
            adjacency=check_adjacency(adjacency),
            unit=_text("unit", _checked_unit(schema, unit), min_size=1),
            disjoint_epochs=bool(disjoint_epochs),
        )
        if created.failure and chosen != "zcdp":
            raise ParameterError("failure is for budgets in the privacy measure 'zcdp'")
        if created.failure and created.unit != ROW:
            raise ParameterError("failure is for budgets that protect rows: nothing else may fail")
        if schema is not None and not created.failure:
            _refuse_open(schema)
        with self._store.transaction(create=True) as run:
            self._refuse_existing(run, created)
            above = self._row(run, root) if root != name else None
            if above is not None:
                created = _part_facts(above.facts, name, epsilon)
            rows = [*([] if above is None else [above]), Row(created)]
            facts = {"facts": json.loads(created.to_json())}
            self._append(run, rows, f"budget:{name}", "created", facts)

    def _refuse_existing(self, run: Transaction, created: BudgetFacts) -> None:
        if run.budget(created.name) is not None:
            raise ParameterError(
                f"the budget {created.name!r} exists already. A budget is never reset. Choose "
                "another name."
            )
        if created.name != created.root:
            return  # a part belongs to the epoch of its table's budget
        existing = [_read(row).facts for row in run.budgets() if row["name"] == row["root"]]
        others = [facts for facts in existing if facts.table == created.table]
        if others and not all(facts.disjoint_epochs for facts in (created, *others)):
            raise ParameterError(
                f"the table {created.table!r} has the budget {others[0].name!r}, which goes on. "
                "Another epoch needs a budget only if no unit is in two epochs. Declare this for "
                "each epoch with disjoint_epochs=True."
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
        """Return a budget of the ledger that pays for fits and queries.

        It can replace a `Filter`. Each charge is committed as a separate request before the charge
        returns.

        Parameters
        ----------
        name : str
            Name of the budget, as in `create`.
        purpose, ticket : str, default ""
            Texts that are recorded with each charge. One line of at most 500 characters.
        schema : str, optional
            The hash of the schema by which the table is read.
        new_schema : bool, default False
            Whether the schema may differ from all earlier schemas of the table.
        request : str, optional
            The id of the first charge, 32 hexadecimal digits. By default a fresh id.

        Returns
        -------
        LedgerBudget
            The budget. Nothing is charged yet.

        Raises
        ------
        ParameterError
            If the ledger has no budget of this name, or a text is invalid.
        LedgerError
            If the database cannot be read, or was changed.

        Examples
        --------
        >>> from missdp.governance import Ledger
        >>> import tempfile
        >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db", who="ada")
        >>> ledger.create("patients-2026", epsilon=1.0)
        >>> ledger.budget("patients-2026", purpose="annual report").remaining_epsilon
        1.0
        """
        from missdp.governance.ledger_budget import LedgerBudget

        what = Purpose(purpose, ticket, schema=schema, new_schema=new_schema)
        return LedgerBudget(self, name, what, request=request)

    def abandon(self, request: str) -> None:
        """Mark a charged release in a ledger as abandoned. Its cost remains spent.

        Parameters
        ----------
        request : str
            The id of the release.

        Raises
        ------
        LedgerError
            If the release was not charged, or has ended. Also if the database cannot be
            written.
        """
        self._end(request, "abandoned", {})

    def finish(
        self,
        request: str,
        output: str,
        conditions: Iterable[Condition] = (),
        *,
        answer: Mapping[str, Any] | None = None,
    ) -> None:
        """Record in a ledger that a charged release was completed, with the hash of its output.

        Parameters
        ----------
        request : str
            The id of the release, as `start` returned it.
        output : str
            The SHA-256 of the output, 64 hexadecimal digits.
        conditions : iterable of Condition, default ()
            Conditions of the guarantee of the release.
        answer : mapping, optional
            An answer that is stored in no file. Released: the ledger stores it.

        Raises
        ------
        LedgerError
            If the release was not charged, or has ended. Also if the database cannot be
            written.
        ParameterError
            If ``output`` is not a printable text of one line.
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
            now = [*_states(run, request)][-1]  # the lock prevents changes from here on
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
        """Charge for a release in a ledger, after which private rows may be read once.

        The charge is committed before the method returns.

        Parameters
        ----------
        name : str
            Name of the budget. The charge of a part also counts in the budget of its table.
        events : iterable of Event
            Accounting events (noise and sensitivity) of the release, which may use fewer.
        what : Purpose, optional
            Purpose of the release, with public facts about it.
        request : str, optional
            The id of the release, 32 hexadecimal digits. By default a fresh id.

        Returns
        -------
        Started
            The id of the release, and the number and hash of the ledger's line.

        Raises
        ------
        BudgetExceededError
            If the events do not fit into the budget. The attempt is recorded, and nothing is
            charged.
        UnprovenError
            If an event has no bound in the privacy measure of the budget. The attempt is recorded,
            and nothing is charged.
        SchemaError
            If the table was read by another schema before. The attempt is recorded, and nothing is
            charged.
        ParameterError
            If the release protects another unit than the budget, or a parameter is invalid. Nothing
            is charged.
        LedgerError
            If the request was started or refused before, or the charge may not have been recorded.
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
        """Return the state of one budget of a ledger: its fixed facts and the charged amounts.

        Parameters
        ----------
        name : str
            Name of the budget.

        Returns
        -------
        Row
            The facts, the charged amounts in the privacy measure of the budget, and the number
            and hash of the last line about the table. Public.

        Raises
        ------
        ParameterError
            If the ledger has no budget of this name.
        LedgerError
            If the database cannot be read, or the budget was changed.
        """
        with self._store.transaction(reads=True) as run:
            return self._row(run, name)

    def rows(self) -> dict[str, Row]:
        """Return the present state of all budgets of a ledger by their names.

        Returns
        -------
        dict of str to Row
            State by the name of the budget. A table's budget precedes its parts. A state has
            the fixed facts and the charged amounts. Public.

        Raises
        ------
        LedgerError
            If the database cannot be read, or a budget was changed.
        """
        with self._store.transaction(reads=True) as run:
            return {row.facts.name: row for row in map(_read, run.budgets())}

    def has_line(self, root: str, number: int, head: str) -> bool:
        """Return whether the ledger has a line with a given number and hash for a table.

        Parameters
        ----------
        root : str
            Name of the table's budget.
        number : int
            Number of the line, from 1.
        head : str
            SHA-256 of the line, 64 hexadecimal digits.

        Returns
        -------
        bool
            True if the line exists. False if the ledger or the line does not exist. Public.

        Raises
        ------
        LedgerError
            If the database cannot be read.
        """
        if self.is_absent:
            return False
        with self._store.transaction(reads=True) as run:
            line = run.time_and_hash(root, number)
        return line is not None and line[1] == head

    @property
    def is_absent(self) -> bool:
        """Return whether no ledger database exists at the URL. `Ledger.create` makes one.

        Returns
        -------
        bool
            True before the first budget is created. Public.
        """
        return self._store.is_absent()

    def history(self, name: str = "") -> list[dict[str, Any]]:
        """Return the entries of a ledger about one table or about all tables, oldest first.

        Parameters
        ----------
        name : str, default ""
            Name of a budget of the table. By default all tables.

        Returns
        -------
        list of dict
            The facts of each line, such as ``request``, ``state``, ``who`` and ``budget``,
            oldest first. All facts are public: they are declared facts and released answers.

        Raises
        ------
        ParameterError
            If the ledger has no budget of this name.
        LedgerError
            If the database cannot be read.
        """
        with self._store.transaction(reads=True) as run:
            root = self._row(run, name).facts.root if name else None
            return [json.loads(line["body"]) for line in run.lines(root)]

    def charges(self, name: str) -> list[dict[str, Any]]:
        """Return the recorded lines that charged one budget, including its parts.

        Parameters
        ----------
        name : str
            Name of the budget.

        Returns
        -------
        list of dict
            The facts of each charge, such as ``request``, ``who``, ``cost`` and ``events``,
            oldest first. Public.

        Raises
        ------
        ParameterError
            If the ledger has no budget of this name.
        LedgerError
            If the database cannot be read.
        """
        started = (line for line in self.history(name) if line["state"] == "started")
        return [line for line in started if f"{line['budget']}/".startswith(f"{name}/")]

    def summaries(self, name: str = "") -> list[dict[str, Any]]:
        """Return the charged and remaining amounts of budgets, and their incomplete charges.

        Parameters
        ----------
        name : str, default ""
            Name of a budget, whose parts are included. By default all budgets.

        Returns
        -------
        list of dict
            The facts of each budget, with ``spent``, ``failed`` and ``left`` in its measure.
            ``releases_of_epsilon_1`` is the number of synthetic tables with epsilon 1 that fit into
            the rest. ``lines`` and ``head`` are the number and the hash of the last line about the
            table. ``charges`` are by person and purpose. ``started`` and ``abandoned`` are ids of
            charges that were not completed, which are spent.

        Raises
        ------
        ParameterError
            If the ledger has no budget of this name.
        LedgerError
            If the database cannot be read.
        """
        ends = {line["request"]: line["state"] for line in self.history(name)}
        summaries = []
        for account, row in self.rows().items():
            if not f"{account}/".startswith(f"{name}/" if name else ""):
                continue
            budget, charges = self.budget(account), self.charges(account)
            # Another process may charge between the two readings. Its line is then only started.
            open_ends = [(n := line["request"], ends.get(n, "started")) for line in charges]
            summaries.append(
                {
                    "account": account,
                    **json.loads(row.facts.to_json()),
                    "total_delta": row.facts.total_delta,
                    "spent": float_up(row.spent),
                    "failed": float_up(row.failed),
                    "left": budget.remaining.amount,
                    "releases_of_epsilon_1": budget.remaining_releases(),
                    "lines": row.last,
                    "head": row.head,
                    "charges": _by_purpose(charges),
                    "started": [request for request, state in open_ends if state == "started"],
                    "abandoned": [request for request, state in open_ends if state == "abandoned"],
                }
            )
        return summaries

    def verify(self, *heads: str | Path) -> dict[str, tuple[int, str]]:
        """Check the complete ledger by recomputing every hash and sum from the first line on.

        Parameters
        ----------
        *heads : str or Path
            Hashes of lines that must exist, or files of releases that state their lines. A file is
            a model, a saved answer, or the ``release.json`` of a dossier. Without heads, a
            truncated ledger or an old copy passes the check.

        Returns
        -------
        dict of str to (int, str)
            For each table the number of lines and the SHA-256 of the last line. Public.

        Raises
        ------
        LedgerError
            If a line was changed, a head does not exist, or a release was never charged. The
            message names the first such line or release.
        """
        verifier = LedgerVerifier()
        with self._store.transaction(reads=True) as run:
            for line in run.lines():
                verifier.add(line)
            stored = {row["name"]: dict(row) for row in run.budgets()}
        expected = {name: row.columns for name, row in verifier.rows.items()}
        if stored != expected:
            names = sorted(n for n in {*stored, *expected} if stored.get(n) != expected.get(n))
            raise LedgerError(f"the ledger was changed: the lines do not add up to {names[0]!r}")
        for head in heads:
            _check_stated(verifier, head)
        return {n: (row.last, row.head) for n, row in verifier.rows.items() if n == row.facts.root}

    def grant(self, role: str) -> None:
        """Permit a role of PostgreSQL to charge budgets, but neither to create nor to rewrite them.

        Only the owner of the tables can drop the triggers that prevent rewriting.

        Parameters
        ----------
        role : str
            Name of the role: letters, digits and underscores.

        Raises
        ------
        ParameterError
            If the name is invalid, or the ledger is an SQLite file, which has no roles.
        LedgerError
            If the database cannot be written.
        """
        self._store.grant(role)

    def is_at(self, url: str) -> bool:
        """Return whether this ledger is the database at a URL.

        Parameters
        ----------
        url : str
            The URL of a ledger. Role and password do not matter.

        Returns
        -------
        bool
            True if both name one database. Public.

        Raises
        ------
        ParameterError
            If ``url`` is not the URL of a ledger.
        """
        from missdp.governance.store import ledger_address

        return ledger_address(url) == self._address

    def close(self) -> None:
        """Close the database connections of this process to a ledger.

        The next call of a method opens another connection. Nothing is charged or lost.
        """
        self._store.close()

    def _row(self, run: Transaction, name: str) -> Row:
        """Return a budget. The budget of a table is locked until the transaction ends."""
        columns = run.budget(name)
        if columns is None:
            names = [row["name"] for row in run.budgets()]
            raise ParameterError(
                f"the ledger has no budget {name!r}. Create it with `missdp ledger create`"
                f"{did_you_mean(name, names)}"
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
        """Add a line to a table's chain, and store the changed budgets, the table's first."""
        root = rows[0]
        number = root.last + 1
        # The duration of a release may reveal private rows, so its end has no time.
        timed = state not in AFTER["started"]
        time = _now(run, root, timed=timed)
        line = {"root": root.facts.root, "number": number, "previous": root.head}
        line |= {"request": request, "state": state, "who": self._who, **facts}
        if timed:
            line["time"] = time
        body = json_text(line)
        hashed = digest(body)
        columns = {name: line[name] for name in ("root", "number", "request", "state")}
        columns |= {"schema_hash": line.get("schema"), "time": time, "body": body, "hash": hashed}
        run.add_line(columns)
        for row in rows:
            updated = replace(row, last=number, head=hashed)
            run.put_budget(updated.columns, fresh=row.last == 0)
        return Started(request, number, hashed)


def _check_stated(verifier: LedgerVerifier, head: str | Path) -> None:
    """Raise an error unless the ledger has a line, or the release that a file states."""
    if isinstance(head, str):
        verifier.check_line(head)
        return
    stated = stated_release(head)
    if stated.line is not None:
        verifier.check_line(stated.line.head, stated.line.number)
    verifier.check_release(stated.release, stated.output)


def _check_startable(request: str, states: Mapping[str, dict[str, Any]]) -> None:
    """Raise an error if the request was started or refused before. Nothing is recorded."""
    if "started" in states:
        rest = "released" if "released" in states else "spent"
        raise LedgerError(
            f"the release {request} was started before and is {rest}. Nothing is charged or drawn "
            "again. A saved file of the release states this id."
        )
    if states:
        raise LedgerError(f"the release {request} was refused. Start another with a new id.")


def _charged(
    run: Transaction, rows: Sequence[Row], events: Sequence[Event], what: Purpose
) -> tuple[list[Row], dict[str, Any]]:
    """Return the charged budgets and the recorded costs, or raise an error if they do not fit."""
    facts = rows[0].facts
    if what.unit != facts.unit:
        raise ParameterError(
            f"the budget protects each {facts.unit!r}, and the release protects each "
            f"{what.unit!r}. `missdp ledger create --schema` makes a budget with the schema's unit."
        )
    declared = None if what.new_schema else what.schema
    if declared is not None and run.was_read_by_others(facts.root, declared):
        raise SchemaError(
            "the table was read by another schema before. If the public facts are meant to change, "
            "use `missdp fit` or `query` with --new-schema. The budget stays the same."
        )
    cost, failure = facts.price(events)
    charged = [row.charged(cost, failure) for row in rows]
    full = [pair for pair in zip(charged, rows, strict=True) if not pair[0].holds]
    if full:
        raise _budget_error(*full[-1])
    return charged, {"cost": fraction_text(cost), "failure": fraction_text(failure)}


def _budget_error(after: Row, before: Row) -> BudgetExceededError:
    """Return the error of a charge that exceeds the remaining amount of a budget."""
    facts = after.facts
    sums = str(facts.cost.privacy_measure), exact(facts.cost.amount), after.spent, before.spent
    if after.spent <= sums[1]:
        sums = "failure", exact(facts.failure), after.failed, before.failed
    quantity, cap, requested, spent = sums
    remedy = "Add noise, ask for less, or stop releasing from this table"
    if quantity == "failure":
        remedy = (
            "Fits that find open levels require an account with a failure (`missdp ledger create "
            "--failure 1e-6`). Create one, or declare the levels in the schema"
        )
    return BudgetExceededError(
        f"the release does not fit into the rest of {facts.name!r}: it may cost "
        f"{float_up(requested - spent):.4g} of {quantity}, and "
        f"{max(0.0, float_down(cap - spent)):.4g} is left. Nothing was charged or read. {remedy}."
    )


def _stated(name: str, events: Iterable[Event], what: Purpose) -> dict[str, Any]:
    """Return the facts of every line about a request, with a hash of its public parameters."""
    return {
        "budget": name,
        "purpose": what.purpose,
        "ticket": what.ticket,
        "file": what.file,
        "parameters": digest(json_text(what.parameters)),
        "conditions": [condition.to_dict() for condition in what.conditions],
        "events": [event.to_dict() for event in events],
    }


def _states(run: Transaction, request: str) -> dict[str, dict[str, Any]]:
    """Return the states of a request in order, each with its line."""
    return {line["state"]: line for line in map(json.loads, run.bodies_of(request))}


def _read(columns: Mapping[str, Any]) -> Row:
    """Return a budget if all of its columns agree, since triggers protect only some columns."""
    damaged = LedgerError("the ledger was changed: a budget cannot be read")
    with replacing(*WRONG, by=damaged):
        row = Row.from_columns(columns)
        if all(columns[name] == value for name, value in row.columns.items()):
            return row
    raise damaged


def _now(run: Transaction, root: Row, *, timed: bool) -> str:
    """Return the time, or for an end the time of the line before. Check the clock."""
    before = run.time_and_hash(root.facts.root, root.last)
    now = datetime.now(UTC)
    if before is not None and before[0]:
        previous = datetime.fromisoformat(before[0])
        if now < previous - _BACK:
            raise LedgerError(
                "the clock of this machine is behind the last line of the ledger. Set the clock."
            )
        now = max(now, previous) if timed else previous
    return now.isoformat(timespec="seconds")


def _refuse_open(schema: Schema) -> None:
    """Raise an error if the account can never pay for a fit by the schema."""
    from missdp.schema import OpenCategorical

    name = next((a.name for a in schema if isinstance(a, OpenCategorical)), None)
    if name is not None:
        raise ParameterError(
            f"an account without a failure cannot pay for a fit that finds the levels of {name!r}, "
            "which are open. Pass failure=1e-6, which requires a delta above 0, or declare the "
            "levels in the schema."
        )


def unit_of_schema(schema: Schema) -> str:
    """Return the unit whose presence releases by a schema protect."""
    return ROW if schema.unit is None else schema.unit.column


def _checked_unit(schema: Schema | None, unit: str | None) -> str:
    declared = ROW if schema is None else unit_of_schema(schema)
    if schema is not None and unit not in (None, declared):
        raise ParameterError(
            f"unit must be {declared!r}, the unit of the schema, not {unit!r}. Omit unit."
        )
    return declared if unit is None else unit


def _part_facts(above: BudgetFacts, name: str, epsilon: float) -> BudgetFacts:
    """Return the facts of a part of a budget, which differ in name, cap and epsilon."""
    measure, delta = above.cost.privacy_measure, above.delta
    cost = _rounded_cap(Cost.from_epsilon(measure, epsilon, delta), epsilon, delta)
    return replace(above, name=name, cost=cost, epsilon=epsilon)


def _rounded_cap(cost: Cost, epsilon: float, delta: float) -> Cost:
    """Return a cost, rounded up so that one release may use all of it."""
    rounded = replace(cost, amount=float_up(cost.price(cost.event())))
    return rounded if cost.amount and rounded.epsilon(delta) <= epsilon else cost


def request_id(request: str | None) -> str:
    """Return the id of a request, which names files, or a fresh id."""
    checked = secrets.token_hex(16) if request is None else request
    if not isinstance(checked, str) or not re.fullmatch("[0-9a-f]{32}", checked):
        raise ParameterError("request must be 32 hexadecimal digits, as `missdp` prints them")
    return checked


def _by_purpose(charges: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the cost of each person for each purpose."""
    costs: dict[tuple[str, str], list[Fraction]] = {}
    for line in charges:
        costs.setdefault((line["who"], line["purpose"]), []).append(Fraction(line["cost"]))
    return [
        {"who": who, "purpose": purpose, "releases": len(spent), "spent": float_up(total(spent))}
        for (who, purpose), spent in costs.items()
    ]


def _text(name: str, value: Any, *, min_size: int = 0) -> str:
    """Return a printable text of one line, or raise an error."""
    if not isinstance(value, str) or not min_size <= len(value) <= 500 or not value.isprintable():
        raise ParameterError(f"{name} must be a text of one line, at most 500 letters")
    return value
