"""``missdp plan``, ``dossier`` and ``report``: papers before a release, with it, beside it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from missdp.cli import check_stdout
from missdp.cli.app import emit
from missdp.cli.options import JsonOption, OverwriteOption, argument, check_picture, option
from missdp.cli.side_files import SIDE, SideFile, check_free, check_together
from missdp.errors import MissDPWarning, ParameterError, replacing
from missdp.files import check_outputs
from missdp.office import plan as plan_of
from missdp.office.risk import Refit
from missdp.progress import progress_bar, working
from missdp.schema import Schema
from missdp.synth import load
from missdp.synth.base import MissingValues, Synthesizer
from missdp.synth.fitted import read_document
from missdp.synth.registry import default_synthesizer, read_settings, synthesizer_named
from missdp.table import Table


def dossier(
    model: Annotated[Path, argument(help="A saved model (JSON).")],
    output: Annotated[Path, option("--output", "-o", help="Folder to make.")],
    title: Annotated[str, option(help="What the table is called.")] = "A synthetic table",
    audience: Annotated[str, option(help="For whom it is, and what for.")] = "",
    curator: Annotated[str, option(help="Who publishes it.")] = "",
    region: Annotated[str, option(help="Which region it is about.")] = "",
    published: Annotated[str, option(help="The day, as YYYY-MM-DD.")] = "",
    tipping: Annotated[
        list[str] | None,
        option(
            metavar="NAME=QUESTION",
            help="Shows where a conclusion turns if values of an attribute are missing because of "
            "what they are; repeatable.",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write what publishing a release takes, into a folder, whole or not at all.

    Free: nothing is read but the model, which holds released values and public facts.
    """
    check_stdout()
    if published:
        with replacing(ValueError, by=ParameterError("published must be a day, as YYYY-MM-DD")):
            date.fromisoformat(published)
    from missdp.office.dossier import FILES, About, write_dossier

    check_together(model)
    about = About(
        title=title, audience=audience, curator=curator, region=region, published=published
    )
    with working("writing the dossier"):
        said = write_dossier(
            model,
            output,
            about=about,
            ledger=_ledger_line(model),
            tipping=[*map(_asked, tipping or ())],
            overwrite=overwrite,
        )
    text = f"Wrote {output}: {', '.join(FILES)}. They read TODO where a person must say something."
    emit({"output": str(output), **said}, text, as_json=as_json)


def _asked(text: str) -> tuple[str, str]:
    """Return an attribute that departs, and a question about it."""
    name, equals, question = text.partition("=")
    if not equals:
        raise ParameterError("tipping must be NAME=QUESTION, such as 'age=mean(age)'")
    return name.strip(), question.strip()


def _ledger_line(model: Path) -> dict[str, Any] | None:
    """Return what the side file of the model's release says of its charge, if there is one."""
    release = read_document(model).get("release")
    for path in sorted(model.resolve().parent.glob(f"*{SIDE}")):
        note = SideFile.read(path)
        if note is not None and not note.begun and note.id == release:
            return note.ledger
    return None


_WARNING = "CURATOR ONLY: computed from the private table without noise. Do not publish."


def report(
    model: Annotated[Path, argument(help="A saved model (JSON).")],
    private: Annotated[Path, option(help="File with the private rows that it was fitted to.")],
    output: Annotated[
        Path, option("--output", "-o", help="HTML file to write, in a folder without releases.")
    ],
    synthetic: Annotated[
        Path | None,
        option(help="Released rows; by default the model draws as many as the table has."),
    ] = None,
    control: Annotated[
        Path | None,
        option(help="Rows of the same population that the fit never saw: measures attacks."),
    ] = None,
    f1: Annotated[
        bool, typer.Option("--f1", help="Also train nine classifiers per attribute (slow).")
    ] = False,
    refits: Annotated[
        int, option(help="Fits to measure membership by, 16 at least (slow; 0: none).")
    ] = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show synthetic rows beside the private ones, for the curator only: never publish it."""
    from missdp.office.curator import check_apart_from_releases, curator_report

    released = [model] if synthetic is None else [model, synthetic]
    check_outputs([output], inputs=[*released, private, control])
    check_apart_from_releases(output, released)
    check_free([output], overwrite=overwrite)
    check_together(model)
    fitted = load(model)
    keeps = fitted.applied_strategy.models_holes
    with working("comparing the tables"):
        said = curator_report(
            private,
            fitted.sample(missing_values="keep" if keeps else "fill")
            if synthetic is None
            else synthetic,
            output,
            schema=fitted.fitted_.with_unit(fitted.schema_),  # as many rows take part as in the fit
            guarantee=fitted.guarantee_,
            control=control,
            f1=f1,
            refit=_refit_of(fitted) if refits else None,
            refits=refits,
            released=released,
        )
    document = {"curator_only": True, "output": str(output), "verdict": list(said)}
    text = "\n".join([f"Wrote {output}.", _WARNING, *said])
    emit(document, text, as_json=as_json)


def _refit_of(model: Synthesizer) -> Refit:
    """Return what makes synthetic rows of others as a model was made, with fresh noise."""
    keep: MissingValues = "keep" if model.applied_strategy.models_holes else "fill"

    def refit(rows: Table) -> Table:
        with warnings.catch_warnings(action="ignore", category=MissDPWarning):  # said once, by then
            again = type(model)(**model.fitted_.parameters).fit(rows)
        return again.sample_table(missing_values=keep)

    return refit


def plan(
    schema: Annotated[Path, argument(help="TOML file with the public facts.")],
    rows: Annotated[int, option(help="How many rows there will be, as you declare.")],
    missing: Annotated[
        list[str] | None,
        option(metavar="NAME=RATE", help="Share of missing cells, as you declare; repeatable."),
    ] = None,
    spread: Annotated[
        list[str] | None,
        option(
            metavar="NAME=SD",
            help="Standard deviation of a number, as you declare; repeatable.",
        ),
    ] = None,
    margins: Annotated[
        Literal["uniform", "zipf"], typer.Option(help="How often levels and bins occur.")
    ] = "uniform",
    mean_weight: Annotated[
        float | None, option(help="Mean of the survey weights, as you declare.")
    ] = None,
    epsilons: Annotated[str, typer.Option(help="Epsilons to compare, by commas.")] = "0.5,1,2",
    delta: Annotated[float | None, option(help="As of synthesize.")] = None,
    method: Annotated[str | None, option(help="As of synthesize.")] = None,
    strategy: Annotated[
        str | None, option(help="What to do about missing values: --missing of synthesize.")
    ] = None,
    settings: Annotated[
        list[str] | None, option("--set", metavar="NAME=VALUE", help="As of synthesize.")
    ] = None,
    mean: Annotated[
        list[str] | None,
        option(
            metavar="NAME[=MEAN]",
            help="A number whose mean is planned, and what it is, as you declare; repeatable.",
        ),
    ] = None,
    plot: Annotated[Path | None, option(help="Draw it (.svg, .png, .pdf).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what each epsilon buys, before the table is looked at, from public facts only.

    The fit is rehearsed on made-up rows: noise, intervals, seconds and memory are its own.
    """
    check_picture(plot, schema)
    grid = _numbers(
        [f"epsilons={text}" for text in epsilons.split(",")],
        "--epsilons must be numbers with commas between them, such as 0.5,1,2",
    )
    facts = Schema.from_toml(schema)
    chosen = method or default_synthesizer(facts, delta=delta)
    given = {"delta": delta, "strategy": strategy}
    with progress_bar() as progress:
        found = plan_of(
            facts,
            rows=rows,
            missing=dict(_numbers(missing or (), "--missing must be NAME=RATE, such as age=0.2")),
            spreads=dict(_numbers(spread or (), "--spread must be NAME=SD, such as age=12")),
            margins=margins,
            mean_weight=mean_weight,
            epsilons=[epsilon for _, epsilon in grid],
            method=chosen,
            means=_means(mean),
            progress=progress,
            **{name: value for name, value in given.items() if value is not None},
            **read_settings(synthesizer_named(chosen), settings or ()),
        )
    if plot is not None:
        found.plot(plot)
    emit(found.to_dict(), str(found), as_json=as_json)


def _means(texts: list[str] | None) -> list[str] | dict[str, float] | None:
    """Return the numbers whose means are planned, with these where all are declared."""
    plain = [text for text in texts or () if "=" not in text]
    if plain and len(plain) < len(texts or ()):
        raise ParameterError("declare what the mean is of every number, or of none")
    return (
        texts
        if plain or texts is None
        else dict(_numbers(texts, "--mean must be NAME or NAME=MEAN, such as age=40"))
    )


def _numbers(texts: Iterable[str], form: str) -> list[tuple[str, float]]:
    """Return the names and numbers that were written as ``name=number``; else say the form."""
    with replacing(ValueError, by=ParameterError(form)):
        parts = [text.rpartition("=") for text in texts]
        return [(name, float(number)) for name, _, number in parts]
