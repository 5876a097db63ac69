"""``missdp budget``: privacy budgets in a ledger, for all who release from a table."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from missdp.accounting import Condition, Event, Guarantee, flatten, proven_epsilon
from missdp.accounting.exact import float_up
from missdp.cli import say
from missdp.cli.app import app, emit
from missdp.cli.charges import WhoOption
from missdp.cli.options import (
    IndependentOption,
    JsonOption,
    MostOption,
    ObservedOption,
    OverwriteOption,
    argument,
    option,
    stated_assumption,
)  # fmt: skip
from missdp.cli.side_files import check_free
from missdp.errors import ParameterError, UnprovenError
from missdp.files import check_outputs
from missdp.office import Ledger
from missdp.office.heads import check_has_lines
from missdp.schema import Schema
from missdp.synth.base import Synthesizer
from missdp.synth.registry import load

budget = typer.Typer(
    no_args_is_help=True,
    help="Keep privacy budgets in a ledger that survives crashes, colleagues and years.",
    rich_markup_mode=None,
)
OneOrAllArgument = Annotated[
    str, argument(metavar="NAME", help="Of a table; by default the one in the URL, or all.")
]
UrlOption = Annotated[
    str,
    option(
        "--budget",
        metavar="URL",
        envvar="MISSDP_BUDGET",
        help="sqlite:///budget.db, or postgresql://role@server/database.",
    ),
]
NameArgument = Annotated[
    str, argument(metavar="NAME", help="Of a table and its epoch; or NAME/PART.")
]
RequestArgument = Annotated[str, argument(metavar="REQUEST", help="The id of a request.")]


def _ledger(url: str, who: str | None = None) -> Ledger:
    return Ledger(url.partition("#")[0], who=who)


def _name_in(url: str) -> str:
    """Return the name that a URL gives behind #, or nothing."""
    return url.partition("#")[2]


_OTHER_NAME = ". The budget of another table needs another name"


def _folders(url: str) -> list[Path]:
    """Return where files of releases may be: here, and beside a ledger that is a file."""
    kind, _, place = url.partition("#")[0].partition("://")
    return [Path(), *([Path(place[1:]).parent] if kind == "sqlite" else [])]


@budget.command()
def create(
    name: NameArgument,
    url: UrlOption,
    epsilon: Annotated[float, option(help="What the budget is worth.")],
    delta: Annotated[float, typer.Option(help="0 is pure epsilon-DP.")] = 0.0,
    currency: Annotated[
        Literal["pure", "zcdp", "gdp"] | None,
        option(help="What it counts in, for good; by default pure if --delta is 0, else zcdp."),
    ] = None,
    failure: Annotated[
        float, typer.Option(help="How much deltas of releases may sum to; zcdp only.")
    ] = 0.0,
    adjacency: Annotated[
        Literal["add-remove", "replace-one"], typer.Option(help="What neighbours differ in.")
    ] = "add-remove",
    unit: Annotated[
        str | None,
        option(help="Whose presence is protected; by default the unit of --schema, or each row."),
    ] = None,
    schema: Annotated[
        Path | None, option(help="TOML schema of the table, from which the unit is taken.")
    ] = None,
    approval: Annotated[
        bool, typer.Option("--approval", help="Another person must approve each release.")
    ] = False,
    epoch_of: Annotated[
        str | None, option(metavar="TABLE", help="This is an epoch of a table with this name.")
    ] = None,
    disjoint_epochs: Annotated[
        bool, typer.Option("--disjoint-epochs", help="A condition: no unit is in two epochs.")
    ] = False,
    writers: Annotated[
        list[str] | None,
        option(
            "--writer",
            metavar="ROLE",
            help="A role of PostgreSQL that may charge, but rewrite nothing; may be repeated.",
        ),
    ] = None,
    who: WhoOption = None,
) -> None:
    """Create the budget of a table, or of a part of one (TABLE/PART), for good.

    A ledger that is not there is made. It is refused if a file of a release beside it, or in this
    folder, states a line of a budget with this name that the ledger lacks: it was lost.
    """
    ledger = _ledger(url, who)
    facts = None if schema is None else Schema.from_toml(schema)
    check_has_lines(ledger, name.partition("/")[0], _folders(url), if_lost=_OTHER_NAME)
    is_new = ledger.is_absent
    ledger.create(
        name,
        epsilon=epsilon,
        delta=delta,
        currency=currency,
        failure=failure,
        adjacency=adjacency,
        unit=unit,
        schema=facts,
        approval=approval,
        table=epoch_of,
        disjoint_epochs=disjoint_epochs,
    )
    if is_new:
        say("Made a new ledger: there was none at that URL.")
    say(f"Created the budget {name!r}.")
    for role in writers or []:
        ledger.grant(role)
        say(f"The role {role!r} may charge it, and rewrite nothing.")


@budget.command()
def show(
    url: UrlOption,
    of: OneOrAllArgument = "",
    report: Annotated[
        bool,
        typer.Option("--report", help="Also what all charges would be worth, had they been fixed."),
    ] = False,
    models: Annotated[
        list[Path] | None,
        option(
            "--model",
            help="Also what all charges would be worth for the table before values went missing, "
            "with this released model among them; may be repeated. Needs --observed, --p-max or "
            "--row-independent.",
        ),
    ] = None,
    observed: ObservedOption = None,
    p_max: MostOption = None,
    row_independent: IndependentOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what is spent and left of each budget, and who spent how much on what.

    With --report also the smallest epsilon that any accountant proves for all charges together, if
    which releases there are had been fixed in advance: a report, by which nothing is granted. With
    --model a report about the table before values went missing: all releases see one draw of them.
    """
    ledger = _ledger(url)
    of = of or _name_in(url)
    released = [load(path) for path in models or []]
    if {model.release_ for model in released} - {line["request"] for line in ledger.history(of)}:
        raise ParameterError("--model is of a release that was not charged to this ledger")
    stated = _assumption(released, observed, p_max, row_independent=row_independent)
    shown, lines = [], []
    for name, row in ledger.rows().items():
        if not f"{name}/".startswith(f"{of}/" if of else ""):
            continue
        facts, spent = row.facts, float_up(row.spent)
        share = min(1.0, spent / facts.cost.amount)
        by, more = _by_purpose(ledger, name), ledger.budget(name).releases_left()
        shown.append(
            {
                "budget": name,
                **json.loads(facts.to_json()),
                "spent": spent,
                "failed": float_up(row.failed),
                "left": ledger.budget(name).left.amount,
                "releases_of_epsilon_1": more,
                "lines": row.last,
                "head": row.head,
                "charges": by,
            }
        )
        bar = "#" * round(30 * share)
        total = f"epsilon {facts.epsilon:g}"
        total += f" at delta {facts.total_delta:g}" if facts.total_delta else ""
        lines += [f"{name}: {total}, {facts.adjacency}, each {facts.unit}"]
        lines += [f"  [{bar:<30}] {share:.1%} of {facts.cost.amount:.6g} {facts.cost.currency}"]
        if more is not None:
            lines += [f"  {_more_releases(more, facts.delta)}"]
        lines += [
            f"  {one['who']}: {one['releases']} for {one['purpose'] or 'no stated purpose'}, "
            f"{one['spent']:.6g}"
            for one in by
        ]
        if report and by:
            found = _fixed(ledger, name)
            shown[-1]["fixed_in_advance"] = found
            worth = "nothing is proven" if found is None else f"epsilon {found:.4g}"
            lines += [f"  had all of it been fixed in advance: {worth} (a report; grants nothing)"]
        if stated is not None and by:
            found = _joint(ledger, name, released, stated)
            shown[-1]["ground_truth"] = {"epsilon": found, "assumption": stated.to_dict()}
            worth = "nothing is proven" if found is None else f"epsilon {found:.4g}"
            lines += [
                f"  before values went missing, had all of it been fixed in advance: {worth} (a "
                f"report; grants nothing). {stated.statement()}"
            ]
    emit({"budgets": shown}, "\n".join(lines), as_json=as_json)


def _more_releases(more: int, delta: float) -> str:
    """Say how many synthetic tables of epsilon 1 the rest of a budget pays for."""
    at = f" at delta {delta:g}" if delta else ""
    releases = {0: "no release", 1: "1 more release"}.get(more, f"{more:,} more releases")
    return f"what is left pays for {releases} of epsilon 1{at} (`missdp synthesize`)"


def _by_purpose(ledger: Ledger, name: str) -> list[dict[str, Any]]:
    """Return what each person spent of a budget on each purpose."""
    sums: dict[tuple[str, str], tuple[int, Fraction]] = {}
    for line in ledger.charges(name):
        key = line["who"], line["purpose"]
        count, spent = sums.get(key, (0, Fraction(0)))
        sums[key] = count + 1, spent + Fraction(line["cost"])
    return [
        {"who": who, "purpose": purpose, "releases": count, "spent": float_up(spent)}
        for (who, purpose), (count, spent) in sums.items()
    ]


def _fixed(ledger: Ledger, name: str) -> float | None:
    """Return the epsilon of all charges as accountants see those that are fixed in advance."""
    found = ledger.budget(name)
    with contextlib.suppress(UnprovenError):
        return proven_epsilon(found.events, found.delta, found.adjacency)
    return None


def _assumption(
    released: list[Synthesizer], observed: str | None, p_max: float | None, *, row_independent: bool
) -> Condition | None:
    if not released:
        if observed is not None or p_max is not None or row_independent:
            raise ParameterError("--observed, --p-max and --row-independent are for --model")
        return None
    schema = released[0].schema_
    stated = stated_assumption(observed, p_max, row_independent=row_independent, schema=schema)
    if stated is None:
        raise ParameterError("--model needs --observed, --p-max or --row-independent")
    return stated


def _joint(
    ledger: Ledger, name: str, released: list[Synthesizer], stated: Condition
) -> float | None:
    """Return the epsilon of all charges for the ground truth: gates are known of models only."""
    from missdp.ground_truth import joint

    budget, known = ledger.budget(name), {model.release_: model for model in released}
    releases: list[Synthesizer | Guarantee] = []
    for line in ledger.charges(name):
        events = flatten(Event.from_dict(one) for one in line["events"])
        ungated = [replace(event, gate=None) for event in events]
        plain = Guarantee.from_events(ungated, delta=budget.delta)
        releases.append(known.get(line["request"], plain))
    with contextlib.suppress(UnprovenError):
        return joint(releases, stated, delta=budget.delta).epsilon
    return None


@budget.command()
def history(
    url: UrlOption,
    name: OneOrAllArgument = "",
    as_json: JsonOption = False,
) -> None:
    """Show every line of a table's budget, or of all."""
    lines = _ledger(url).history(name or _name_in(url))
    text = [
        f"{line['root']} {line['number']}: {line.get('time', '')} {line['who']} {line['state']} "
        f"{line['request']} {line.get('purpose', '')} {line.get('ticket', '')}".rstrip()
        for line in lines
    ]
    emit({"lines": lines}, "\n".join(text), as_json=as_json)


@budget.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    short_help="File the request of a command, for another person to approve.",
)
def request(context: typer.Context) -> None:
    """File the request of a command that releases, which follows with all its options.

    Nothing is read or charged. Once `missdp budget approve` approved it, run the command with
    --request ID.
    """
    app(args=[*context.args, "--request", "new"], standalone_mode=False)


@budget.command()
def approve(request: RequestArgument, url: UrlOption, who: WhoOption = None) -> None:
    """Approve a request of another person."""
    _ledger(url, who).approve(request)
    say(f"Approved {request}.")


@budget.command()
def refuse(
    request: RequestArgument,
    url: UrlOption,
    reason: Annotated[str, option(help="Why, for the ledger.")] = "",
    who: WhoOption = None,
) -> None:
    """Refuse a request; one that was started is abandoned, which refunds nothing."""
    say(f"{_ledger(url, who).refuse(request, reason=reason).capitalize()} {request}.")


@budget.command()
def verify(
    url: UrlOption,
    heads: Annotated[
        list[str] | None,
        option(
            "--head",
            metavar="HASH|FILE",
            help="A hash that must be in the ledger, or a file that states it: of a release, "
            "a guarantee, an answer as JSON, an export. May be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Recompute all hashes and sums from the first line on.

    The budgets of a ledger are checked together, whichever the URL names. Without --head, a ledger
    whose last lines were cut off, or an old copy, seems whole.
    """
    given = [Path(one) if Path(one).is_file() else one for one in heads or []]
    for one in given:
        if isinstance(one, str) and not re.fullmatch(r"[0-9a-f]{64}", one):
            raise ParameterError(
                f"--head must be a hash of 64 hexadecimal digits, or a file; got {one!r}."
            )
    found = _ledger(url).verify(*given)
    text = [f"{name}: {lines} lines, head {head}" for name, (lines, head) in found.items()]
    text += [f"Nothing was changed. {_SEEN if given else _UNSEEN}"]
    document = {name: {"lines": lines, "head": head} for name, (lines, head) in found.items()}
    emit({"tables": document, "heads": len(given)}, "\n".join(text), as_json=as_json)


_SEEN = "All heads are there: no line up to them was cut off."
_UNSEEN = (
    "Whether lines were cut off, or this is an old copy, cannot be seen without --head: give it "
    "release files."
)


@budget.command("export")
def export_(
    output: Annotated[Path, option("--output", "-o", help="File to write, a line of JSON each.")],
    url: UrlOption,
    overwrite: OverwriteOption = False,
) -> None:
    """Write all lines to a file, for an auditor or for another ledger."""
    check_outputs([output])
    check_free([output], overwrite=overwrite)
    say(f"Wrote {output}: {_ledger(url).export_lines(output)} lines.")


@budget.command("import")
def import_(
    lines: Annotated[Path, argument(help="What `missdp budget export` wrote.")], url: UrlOption
) -> None:
    """Fill an empty ledger with exported lines, once they are verified."""
    say(f"Imported {_ledger(url).import_lines(lines)} lines.")
