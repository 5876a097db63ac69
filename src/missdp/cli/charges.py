"""How a command that releases charges a ledger: the options, and the one charge before it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from missdp.accounting import Condition, Event, Guarantee
from missdp.accounting.budget import check_paid
from missdp.cli import complain
from missdp.cli.app import emit
from missdp.cli.options import option
from missdp.errors import LedgerError, ParameterError
from missdp.schema import Schema

if TYPE_CHECKING:
    from missdp.cli.release_files import Release
    from missdp.office import Ledger, Purpose, Started

_URL = Annotated[
    str | None,
    option(
        "--budget",
        metavar="URL#NAME",
        envvar="MISSDP_BUDGET",
        help="Charge a budget in a ledger: sqlite:///budget.db#NAME or "
        "postgresql://role@server/database#NAME.",
    ),
]
_PURPOSE = Annotated[str, option(help="What this is for, for the ledger.")]
_TICKET = Annotated[str, option(help="Its number in your files, for the ledger.")]
_REQUEST = Annotated[
    str | None,
    option(
        help="The id of a request that was approved or, after a crash, of this very release: it is "
        "charged and drawn once. `new` only files the request."
    ),
]
_NEW_SCHEMA = Annotated[
    bool, option("--new-schema", help="The ledger may see that public facts have changed.")
]
WhoOption = Annotated[
    str | None, option("--as", metavar="NAME", help="Who you are; by default as you logged in.")
]
_OPTIONS = {
    "budget": (_URL, None),
    "who": (WhoOption, None),
    "purpose": (_PURPOSE, ""),
    "ticket": (_TICKET, ""),
    "request": (_REQUEST, None),
    "new_schema": (_NEW_SCHEMA, False),
}
# Options that say where things are and how they are shown, not what is released; and the seed,
# which its hash would give away. Which rows of a database are read is not among them: another
# question of it is another request.
_PLACES = {
    *("seed", "data", "schema", "output", "model", "guarantee", "overwrite", "as_json", "details"),
    *("memory", "parts", "engine", "rows", "keep_holes", "holes"),
}


@dataclass(frozen=True)
class Charge:
    """Where and under which id a command is charged, and what it is for.

    If it ``only_files``, the request is filed and nothing is charged; ``parameters`` are the public
    ones of the command. In ``folders``, files of releases may state lines of the ledger.
    """

    ledger: Ledger
    name: str
    request: str | None
    purpose: str
    ticket: str
    file: str
    new_schema: bool
    only_files: bool
    parameters: Mapping[str, Any]
    folders: tuple[Path, ...] = ()

    def start(
        self,
        events: Iterable[Event],
        schema: Schema,
        conditions: Iterable[Condition],
        *,
        release: str | None = None,
    ) -> _Charged:
        """Charge, and commit that; only then may private rows be read."""
        self._check_is_newest()
        what = self._what(schema, conditions)
        started = self.ledger.start(self.name, events, what, request=self.request or release)
        return _Charged(self.ledger, self.name, started)

    def files(
        self,
        events: Iterable[Event],
        schema: Schema,
        conditions: Iterable[Condition],
        *,
        as_json: bool,
    ) -> bool:
        """File the request if that is all that was asked for."""
        if not self.only_files:
            return False
        self._check_is_newest()
        request = self.ledger.request(self.name, events, self._what(schema, conditions))
        text = f"Requested as {request}; nothing is charged. Once another person approved it:\n"
        again = f"run the same command with --request {request}"
        emit({"request": request, "budget": self.name}, text + again, as_json=as_json)
        return True

    def found(self, release: Release, schema: Schema, *, as_json: bool) -> bool:
        """Show the release of an earlier run of this request; refuse one that was only started."""
        states = self._states(schema)
        if "started" not in states:
            return False
        if not release.is_whole:
            raise LedgerError(
                f"the request {release.id} was started before and is spent: nothing is charged or "
                f"drawn again{release.kept_in_words}"
            )
        if "released" not in states:
            self.ledger.finish(release.id, release.sha256, release.guarantee.conditions)
        text = f"Release {release.id} is there already. It was charged once, and not again.\n"
        emit({**release.wrote}, text + release.wrote_in_words, as_json=as_json)
        return True

    def answered(self, schema: Schema, *, as_json: bool) -> bool:
        """Show the answer that an earlier run of this very request has got."""
        answer = self._states(schema).get("released", {}).get("answer")
        if answer is None:
            return False
        emit(answer["document"], answer["text"], as_json=as_json)
        return True

    def _check_is_newest(self) -> None:
        """Refuse a ledger that has forgotten a release whose files are beside the rows."""
        from missdp.office.heads import check_has_lines

        check_has_lines(self.ledger, self.name.partition("/")[0], self.folders)

    def _states(self, schema: Schema) -> dict[str, dict[str, Any]]:
        if self.request is None:
            return {}
        return self.ledger.states(self.request, self.name, self._what(schema))

    def stating(self, **parameters: Any) -> Charge:
        """Return the same with more public parameters."""
        return replace(self, parameters={**self.parameters, **parameters})

    def _what(self, schema: Schema, conditions: Iterable[Condition] = ()) -> Purpose:
        from missdp.office import Purpose
        from missdp.office.chain import canonical, digest
        from missdp.office.ledger import unit_of_schema

        hashed = digest(canonical(schema.without_ledger().to_dict()))
        return Purpose(
            purpose=self.purpose,
            ticket=self.ticket,
            file=self.file,
            parameters={**self.parameters, "schema": hashed},
            schema=hashed,
            new_schema=self.new_schema,
            unit=unit_of_schema(schema),
            conditions=tuple(conditions),
        )


@dataclass(frozen=True)
class _Charged:
    """What a command was charged as."""

    ledger: Ledger
    name: str
    started: Started

    @property
    def said(self) -> dict[str, Any]:
        """What a document says of it: the chain as it was after the charge."""
        return {
            "budget": self.name,
            "request": self.started.request,
            "lines": self.started.lines,
            "head": self.started.head,
        }

    @property
    def in_words(self) -> str:
        """The same in words."""
        return (
            f"Charged to {self.name!r} as {self.started.request}: line {self.started.lines} of the "
            f"ledger, with the head {self.started.head}."
        )

    def finish(
        self, output: str, guarantee: Guarantee, *, answer: Mapping[str, Any] | None = None
    ) -> None:
        """Record that it is released, with the SHA-256 of what is, and what it rests on."""
        request = self.started.request
        self.ledger.finish(request, output, guarantee.conditions, answer=answer)


def paid_schema(path: Path, charge: Charge | None) -> Schema:
    """Return the schema of a file; one that names a ledger is refused unless that is charged."""
    facts = Schema.from_toml(path)
    if facts.ledger:
        check_paid(facts.ledger, None if charge is None else charge.ledger.budget(charge.name))
    return facts.without_ledger()


UNRECORDED = (
    "missdp: no ledger recorded this spending. To record the next release, make a budget with "
    "`missdp budget create`, and name it with --budget."
)


def charges_ledger(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a ledger: its ``charge`` is a `Charge`, or None without one."""
    own = signature(command, eval_str=True)

    @wraps(command)
    def called(**given: Any) -> None:
        asked = {name: given.pop(name) for name in _OPTIONS}
        if asked["budget"]:
            given["charge"] = _charge(command.__name__, asked, given)
        elif any(asked[name] for name in asked):
            raise ParameterError(
                "--as, --purpose, --ticket, --request and --new-schema are for --budget"
            )
        command(**given)
        if not asked["budget"]:
            complain(UNRECORDED)

    kept = [p for name, p in own.parameters.items() if name != "charge"]
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in _OPTIONS.items()
    ]
    vars(called)["__signature__"] = own.replace(parameters=[*kept, *more])
    return called


def _charge(command: str, asked: Mapping[str, Any], given: dict[str, Any]) -> Charge:
    from missdp.office import Ledger
    from missdp.office.ledger import request_id

    url, _, name = asked["budget"].partition("#")
    if not name:
        raise ParameterError("--budget must name a budget: --budget sqlite:///b.db#patients.")
    parameters = {key: value for key, value in given.items() if key not in _PLACES}
    said = {key: value if _plain(value) else str(value) for key, value in parameters.items()}
    facts = {key: asked[key] for key in ("purpose", "ticket", "new_schema")}
    facts["file"] = Path(given["output"]).name if "output" in given else ""
    files = asked["request"] == "new"
    request = None if files or not asked["request"] else request_id(asked["request"])
    parameters = {"command": command, **said}
    return Charge(
        Ledger(url, who=asked["who"]),
        name,
        request,
        only_files=files,
        parameters=parameters,
        folders=_folders(given),
        **facts,
    )


def _folders(given: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the folders of the rows, the schema and the output, where releases may be."""
    named = [Path(given[key]) for key in ("schema", "output") if given.get(key) is not None]
    if "://" not in given["data"]:  # a database server has no folder
        data = Path(given["data"])
        named += [data, data / "any"] if data.is_dir() else [data]
    return tuple(dict.fromkeys(path.parent for path in named))


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))
