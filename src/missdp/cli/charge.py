"""How a command that releases charges an account of a ledger: once, before it reads a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from missdp.accounting import Condition, Event, Guarantee
from missdp.accounting.budget import check_paid
from missdp.cli import note
from missdp.errors import ParameterError
from missdp.schema import Schema

if TYPE_CHECKING:
    from missdp.governance import Ledger, Purpose

# Options that state where files are and how they are written, not what is released; and the seed,
# which its hash would give away.
_PLACES = {
    *("seed", "data", "schema", "output", "engine", "rows", "keep_missing"),
    *("ledger", "account", "purpose", "new_schema"),
}
UNRECORDED = (
    "missdp: no ledger recorded this spending. To record the next release, make an account with "
    "`missdp ledger create`, and name it with --ledger and --account."
)


@dataclass(frozen=True)
class Charge:
    """Which account a command charges, and what for.

    Parameters
    ----------
    ledger : Ledger
    account : str
        Name of the account.
    purpose : str
        For people; recorded.
    new_schema : bool
        Whether the public facts are meant to have changed.
    file : str
        The name of the file that is released; empty for answers.
    parameters : mapping
        The public parameters of the command, of which the ledger keeps a hash.
    folders : tuple of Path
        Folders in which files of earlier releases may state lines of the ledger.
    """

    ledger: Ledger
    account: str
    purpose: str
    new_schema: bool
    file: str
    parameters: Mapping[str, Any]
    folders: tuple[Path, ...]

    @classmethod
    def of_command(cls) -> Charge | None:
        """Return what the options of the running command name, or None without a ledger."""
        context = click.get_current_context()
        options = context.params
        url, account = options["ledger"], options["account"]
        if url is None:
            if options.get("purpose") or options.get("new_schema"):
                raise ParameterError("--purpose and --new-schema require --ledger")
            return None
        if not account:
            raise ParameterError("--ledger requires --account: the name of the table's account.")
        from missdp.governance import Ledger

        public = {k: v for k, v in options.items() if k not in _PLACES}
        plain = {k: v if _is_plain(v) else str(v) for k, v in public.items()}
        return cls(
            Ledger(url),
            account,
            options.get("purpose", ""),
            options.get("new_schema", False),
            Path(options["output"]).name if "output" in options else "",
            {"command": context.info_name, **plain},
            _folders(options),
        )

    def start(
        self,
        events: Iterable[Event],
        schema: Schema,
        conditions: Iterable[Condition],
        *,
        release: str | None = None,
    ) -> Charged:
        """Charge, and commit that; only then may private rows be read."""
        from missdp.governance.ledger_heads import check_has_lines

        check_has_lines(self.ledger, self.account.partition("/")[0], self.folders)
        purpose = self._purpose(schema, conditions)
        started = self.ledger.start(self.account, events, purpose, request=release)
        line = {"lines": started.lines, "head": started.head}
        return Charged(self.ledger, {"budget": self.account, "request": started.request, **line})

    def stating(self, **parameters: Any) -> Charge:
        """Return the same charge with more public parameters."""
        return replace(self, parameters={**self.parameters, **parameters})

    def _purpose(self, schema: Schema, conditions: Iterable[Condition]) -> Purpose:
        from missdp.governance import Purpose
        from missdp.governance.chain import digest, json_text
        from missdp.governance.ledger import unit_of_schema

        hashed = digest(json_text(schema.without_ledger().to_dict()))
        return Purpose(
            purpose=self.purpose,
            file=self.file,
            parameters={**self.parameters, "schema": hashed},
            schema=hashed,
            new_schema=self.new_schema,
            unit=unit_of_schema(schema),
            conditions=tuple(conditions),
        )


@dataclass(frozen=True)
class Charged:
    """The line of a ledger that pays for a release: account, request, number and hash."""

    ledger: Ledger
    line: dict[str, Any]

    @property
    def in_words(self) -> str:
        """The line in words."""
        line = self.line
        return (
            f"Charged to {line['budget']!r} as {line['request']}: line {line['lines']} of the "
            f"ledger, with the head {line['head']}."
        )

    def finish(
        self, output: str, guarantee: Guarantee, *, answer: Mapping[str, Any] | None = None
    ) -> None:
        """Record the release, with the SHA-256 of what is released, and what it rests on."""
        self.ledger.finish(self.line["request"], output, guarantee.conditions, answer=answer)


def account_schema(path: Path, charge: Charge | None) -> Schema:
    """Return the schema of a file; one that names a ledger is refused unless that is charged."""
    from missdp.cli.rows import schema_at

    facts = schema_at(path)
    if facts.ledger:
        check_paid(facts.ledger, None if charge is None else charge.ledger.budget(charge.account))
    return facts.without_ledger()


def note_unrecorded(charge: Charge | Charged | None) -> None:
    """Print a line about a release that no ledger recorded."""
    if charge is None:
        note(UNRECORDED)


def _folders(options: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the folders of the rows, the schema and the output, where releases may be."""
    named = [Path(options[key]) for key in ("schema", "output") if options.get(key) is not None]
    if "://" not in options["data"]:  # a database server has no folder
        data = Path(options["data"])
        named += [data, data / "any"] if data.is_dir() else [data]
    return tuple(dict.fromkeys(path.parent for path in named))


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))
