"""``missdp ledger``: privacy budgets of tables, shared by all releases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from missdp.cli import emit
from missdp.cli.options import FILE, Commands, choice, ledger_option, ledger_options, option
from missdp.errors import ParameterError


@click.group(cls=Commands, no_args_is_help=True)
def ledger() -> None:
    """Keep privacy budgets of tables in a durable ledger for all users."""


def _opened(url: str | None) -> Any:
    """Return the ledger at the URL of an option or of the project file."""
    from missdp.governance import Ledger

    if url is None:
        raise ParameterError("--ledger is required: such as sqlite:///ledger.db")
    return Ledger(url)


@ledger.command()
@ledger_options
@option("--epsilon", "Budget of the account.", "Privacy", type=float, required=True)
@option(
    "--delta total_delta", "Default: 0, for pure releases only.", "Privacy", type=float, default=0.0
)
@choice(
    "--privacy-measure", "Permanent unit of the account.", "Privacy", of=("pure", "zcdp", "gdp")
)
@option("--failure", "For open levels: 1e-6, say. zcdp only.", "Privacy", type=float, default=0.0)
@choice(
    "--adjacency", "Difference of neighboring tables.", "Privacy", of=("add-remove", "replace-one")
)
@option("--schema", "The unit of protection. Default: rows.", "Data", type=FILE)
@option("--writer writers", "A role of PostgreSQL that may charge only.", "Ledger", multiple=True)
def create(
    ledger: str | None,
    account: str | None,
    schema: Path | None,
    writers: tuple[str, ...],
    **of: Any,
) -> None:
    """Create the permanent account of a table, or of a part of a table (TABLE/PART).

    An absent ledger is created. The command fails if the ledger lacks a line of this account that a
    release in the folder of the ledger or in this folder states, since the line was lost.

    Try:
      missdp ledger create --ledger sqlite:///ledger.db --account patients --epsilon 3 --delta 1e-6
    """
    from missdp.cli.rows import schema_at
    from missdp.governance.ledger_heads import check_has_lines

    opened = _opened(ledger)
    if not account:
        raise ParameterError("--account is required: the name of the table.")
    kind, _, place = str(ledger).partition("://")
    folders = [Path(), *([Path(place[1:]).parent] if kind == "sqlite" else [])]
    other = ". The account of another table needs another name"
    check_has_lines(opened, account.partition("/")[0], folders, if_lost=other)
    is_new, of["delta"] = opened.is_absent, of.pop("total_delta")
    of["adjacency"] = of["adjacency"] or "add-remove"
    opened.create(account, schema=None if schema is None else schema_at(schema), **of)
    for role in writers:
        opened.grant(role)
    lines = ["Created a new ledger at this URL."] * is_new
    lines += [f"Created the account {account!r}."]
    lines += [f"The role {role!r} may charge the account, and change no line." for role in writers]
    document = {"account": account, "new_ledger": is_new, "writers": list(writers)}
    emit(document, "\n".join(lines))


@ledger.command()
@ledger_options
def show(ledger: str | None, account: str | None) -> None:
    """Show spending and remaining budget of accounts by user, and unfinished releases.

    A started release is spent, even if it failed. `missdp ledger abandon` marks a release that will
    not finish.

    Try:
      missdp ledger show --ledger sqlite:///ledger.db
      missdp ledger show --ledger sqlite:///ledger.db --account patients
    """
    accounts = _opened(ledger).summaries(account or "")
    lines = [line for one in accounts for line in _account_in_words(one)]
    emit({"accounts": accounts}, "\n".join(lines))


def _account_in_words(one: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about an account: its budget, its charges and unfinished releases."""
    spent, total = one["spent"], one["cost"]["amount"]
    share = min(1.0, spent / total)
    at = f" at delta {one['total_delta']:g}" if one["total_delta"] else ""
    facts = f"{one['adjacency']}, each {one['unit']}"
    yield f"{one['account']}: epsilon {one['epsilon']:g}{at}, {facts}"
    bar = "#" * round(30 * share)
    yield f"  [{bar:<30}] {share:.1%} of {total:.6g} {one['cost']['privacy_measure']}"
    if (more := one["releases_of_epsilon_1"]) is not None:
        words = {0: "no release", 1: "1 more release"}.get(more, f"{more:,} more releases")
        at = f" at delta {one['delta']:g}" if one["delta"] else ""
        yield f"  the remaining budget allows {words} of epsilon 1{at} (`missdp fit`)"
    for by in one["charges"]:
        purpose = by["purpose"] or "no stated purpose"
        yield f"  {by['who']}: {by['releases']} for {purpose}, {by['spent']:.6g}"
    yield from (f"  release {release}: started, not finished, spent" for release in one["started"])
    yield from (f"  release {release}: abandoned, spent" for release in one["abandoned"])


@ledger.command()
@ledger_options
def log(ledger: str | None, account: str | None) -> None:
    """Show every line of an account, or of all accounts. --json adds answers of queries.

    Try:
      missdp ledger log --ledger sqlite:///ledger.db
    """
    lines = _opened(ledger).history(account or "")
    text = [
        f"{line['root']} {line['number']}: {line.get('time', '')} {line['who']} {line['state']} "
        f"{line['request']} {line.get('purpose', '')}".rstrip()
        for line in lines
    ]
    emit({"lines": lines}, "\n".join(text))


_COMPLETE = "All heads are present: no line before them was removed."
_UNCHECKED = "Use --head MODEL.json to detect removed last lines, or an old copy."


@ledger.command()
@ledger_option
@option("--head heads", "A hash, or a file with a hash. Repeatable.", "Ledger", multiple=True)
def verify(ledger: str | None, heads: tuple[str, ...]) -> None:
    """Recompute all hashes and sums from the first line on.

    The accounts of a ledger are checked together. Without --head, a ledger without its last lines,
    or an old copy, seems complete. Files with a hash are models, the release.json of a dossier, and
    answers as JSON.

    Try:
      missdp ledger verify --ledger sqlite:///ledger.db
      missdp ledger verify --ledger sqlite:///ledger.db --head model.json
    """
    stated = [Path(one) if Path(one).is_file() else one for one in heads]
    for one in stated:
        if isinstance(one, str) and not re.fullmatch(r"[0-9a-f]{64}", one):
            raise ParameterError(
                f"--head must be a hash of 64 hexadecimal digits, or a file, not {one!r}."
            )
    accounts = _opened(ledger).verify(*stated)
    text = [f"{name}: {lines} lines, head {head}" for name, (lines, head) in accounts.items()]
    text += [f"Nothing was changed. {_COMPLETE if heads else _UNCHECKED}"]
    document = {name: {"lines": lines, "head": head} for name, (lines, head) in accounts.items()}
    emit({"accounts": document, "heads": len(stated)}, "\n".join(text))


@ledger.command()
@click.argument("release")
@ledger_option
def abandon(release: str, ledger: str | None) -> None:
    """Mark a started release that will not finish. It stays spent, without a refund.

    Try:
      missdp ledger abandon RELEASE --ledger sqlite:///ledger.db
    """
    _opened(ledger).abandon(release)
    emit({"release": release, "state": "abandoned"}, f"Abandoned {release}. It stays spent.")
