"""Charging of an account of a ledger by a command: once, before it reads a row."""

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

# Options that do not belong to the hash of public parameters: places and forms of files, and the
# seed, which the hash would disclose.
_PLACES = {
    *("seed", "data", "schema", "output", "engine", "rows", "keep_missing"),
    *("ledger", "account", "purpose", "new_schema"),
}
UNRECORDED = (
    "missdp: no ledger recorded this spending. To record the next release, create an account with "
    "`missdp ledger create`, and name it with --ledger and --account."
)


@dataclass(frozen=True)
class Charge:
    """A planned charge of a command to an account of a ledger.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
    account : str
        Name of the account.
    purpose : str
        The recorded purpose.
    new_schema : bool
        True if public facts may differ from earlier releases.
    file : str
        The name of the released file. Empty for answers.
    parameters : mapping
        The public parameters of the command, of which the ledger keeps a hash.
    folders : tuple of Path
        Folders with files of earlier releases, which may state lines of the ledger.
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
        """Return the charge of the running command's options, or None without a ledger."""
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
        """Charge the account, and commit the charge. Private rows may be read only afterwards.

        Parameters
        ----------
        events : iterable of Event
            The costs of the release.
        schema : Schema
            Public facts about the rows.
        conditions : iterable of Condition
            The conditions of the guarantee.
        release : str, optional
            The id of the release. By default a new id.

        Returns
        -------
        Charged
            The line of the ledger.
        """
        from missdp.governance.ledger_heads import check_has_lines

        check_has_lines(self.ledger, self.account.partition("/")[0], self.folders)
        purpose = self._purpose(schema, conditions)
        started = self.ledger.start(self.account, events, purpose, request=release)
        line = {"lines": started.lines, "head": started.head}
        return Charged(self.ledger, {"budget": self.account, "request": started.request, **line})

    def with_parameters(self, **parameters: Any) -> Charge:
        """Return the charge with more public parameters."""
        return replace(self, parameters={**self.parameters, **parameters})

    def _purpose(self, schema: Schema, conditions: Iterable[Condition]) -> Purpose:
        """Return the recorded purpose of the charge, with hashes of public facts."""
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
        """The line of the ledger as text."""
        line = self.line
        return (
            f"Charged to {line['budget']!r} as {line['request']}: line {line['lines']} of the "
            f"ledger, with the head {line['head']}."
        )

    def finish(
        self, output: str, guarantee: Guarantee, *, answer: Mapping[str, Any] | None = None
    ) -> None:
        """Record the completed release in the ledger.

        Parameters
        ----------
        output : str
            The SHA-256 of the release.
        guarantee : Guarantee
            The guarantee, whose conditions are recorded.
        answer : mapping, optional
            The released answers of a query.
        """
        self.ledger.finish(self.line["request"], output, guarantee.conditions, answer=answer)


def account_schema(path: Path, charge: Charge | None) -> Schema:
    """Return the schema of a file. Raise an error if its ledger is not charged."""
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
    if "://" not in options["data"]:  # a URL has no folder
        data = Path(options["data"])
        named += [data, data / "any"] if data.is_dir() else [data]
    return tuple(dict.fromkeys(path.parent for path in named))


def _is_plain(value: Any) -> bool:
    """Return True for values that JSON has."""
    return value is None or isinstance(value, (bool, int, float, str))
