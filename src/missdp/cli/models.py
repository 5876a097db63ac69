"""Commands on what was released: draw more rows, fill missing cells, tell what it costs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from missdp.cli.app import emit
from missdp.cli.options import (
    HolesOption,
    IndependentOption,
    JsonOption,
    KeepHolesOption,
    MemoryOption,
    MostOption,
    ObservedOption,
    OutputOption,
    OverwriteOption,
    RowsOption,
    SchemaOption,
    SeedOption,
    ValuesOption,
    argument,
    check_apart,
    check_picture,
    option,
    prints,
    reads_rows,
    stated_assumption,
)  # fmt: skip
from missdp.cli.side_files import check_free, check_together, digest_of
from missdp.cli.synthesize import check_rows, counted, unsaid, write_rows
from missdp.errors import DataError, ParameterError, replacing
from missdp.files import check_outputs, has_name, reserved, write_atomically
from missdp.progress import progress_bar, working
from missdp.schema import Schema
from missdp.synth import load
from missdp.synth.base import Synthesizer
from missdp.synth.sampling import Selection
from missdp.table import Rows
from missdp.table.written import check_holds, holes_in, numbered, output_format, write_blocks
from missdp.words import warn_if_weak

_MOST_TABLES = 1000  # of one command
_LABEL = ".synthetic.json"


@prints(".csv")
def sample(
    model: Annotated[Path, argument(help="A saved model (JSON).")],
    output: OutputOption,
    rows: RowsOption = None,
    multiple: Annotated[
        int | None,
        option(
            help="Draw that many tables, which vary as the model is uncertain, for means and "
            "shares with intervals; OUTPUT-1, OUTPUT-2, ... are written. AllPairs, AIM and MST."
        ),
    ] = None,
    where: Annotated[
        str | None, option(help="Draw only rows that match, such as \"age >= 60 and sex = 'f'\".")
    ] = None,
    keep_holes: KeepHolesOption = False,
    holes: HolesOption = None,
    values: ValuesOption = "codes",
    overwrite: OverwriteOption = False,
    memory: MemoryOption = None,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw rows from a saved model. Free: the model holds released values only."""
    del memory  # in force since it was read
    output_format(output)
    if multiple is not None and not 2 <= multiple <= _MOST_TABLES:
        raise ParameterError(f"--multiple must be from 2 to {_MOST_TABLES:,} tables")
    if where is not None and rows is None:
        raise ParameterError("--where requires --rows: the number of rows to draw.")
    check_rows(rows, output=output, tables=multiple or 1)
    outputs = [output] if multiple is None else numbered(output, multiple)
    labels = [path.with_name(f"{path.name}{_LABEL}") for path in outputs if has_name(path)]
    check_outputs([*outputs, *labels], inputs=[model])
    check_together(model)
    check_free(outputs, overwrite=overwrite)
    check_free(labels, overwrite=overwrite)
    with reserved([*outputs, *labels]), progress_bar() as progress:
        progress("reading the model", None)
        released = load(model)
        check_holds(output, released.schema_, values)
        asked = None if where is None else Selection(where, released.schema_)
        written = write_rows(
            released, outputs, rows, keep_holes, holes, seed, progress, asked, values=values
        )
        for label, path in zip(labels, outputs, strict=False):
            write_atomically(label, _said_of(released, path))
    names = [str(path) for path in outputs]
    document: dict[str, Any] = {
        "output": names[0] if multiple is None else names,
        "rows": written,
        "synthetic": True,
        "release": released.release_,
        "guarantee": released.guarantee_.to_dict(),
    }
    drawn = counted(written, "synthetic row") + ("" if multiple is None else " each")
    if asked is not None:
        document["share"] = asked.share
        drawn += f"; a share of {asked.share:.2g} of the rows drawn from the model match"
    said = ""
    if labels:
        whose = " says so" if len(labels) == 1 else " and the like say so"
        said = f" {labels[0]}{whose}.{unsaid(output)}"
    text = f"Wrote {', '.join(names)}: {drawn}.{said}\n\n{released.guarantee_.in_words()}"
    emit(document, text, as_json=as_json)


def _said_of(model: Synthesizer, rows: Path) -> bytes:
    """Return what stands beside rows, since files of text cannot say it themselves."""
    said = {
        "synthetic": True,
        "release": model.release_,
        "guarantee": model.guarantee_.in_words(),
        "sha256": digest_of(rows),
    }
    return json.dumps(said, indent=1).encode()


def estimate(
    model: Annotated[Path, argument(help="A saved model (JSON) of AllPairs, AIM or MST.")],
    questions: Annotated[
        list[str],
        argument(
            metavar="QUESTION...",
            help="'mean(x) by y', 'share(x = 1)', 'share(x is missing)', 'correlation(x, y)', or "
            "'y ~ x + C(z)'.",
        ),
    ],
    confidence: Annotated[float, typer.Option(help="Of each interval by itself.")] = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Estimate from a saved model, with intervals. Free: the model holds released values only.

    Nothing is drawn. With --json, several questions are a list under "answers".
    """
    from missdp.estimate.estimands import match_text
    from missdp.estimate.intervals import answer

    check_together(model)
    with working("reading the model"):
        released = load(model)
    estimands = [match_text(released, question) for question in questions]
    found = []
    with progress_bar() as progress:
        for place, estimand in enumerate(estimands):
            progress("estimating", place / len(estimands) if place else None)
            found.append(answer(released, estimand, confidence))
    answers = [one.to_dict() for one in found]
    often = Counter(flag for one in found for flag in one.flags)
    own = [replace(x, flags=tuple(f for f in x.flags if often[f] == 1)) for x in found]
    several = "\n".join(flag for flag, times in often.items() if times > 1)
    texts = [*map(str, own), *([several] if several else []), released.guarantee_.in_words()]
    document = answers[0] if len(answers) == 1 else {"answers": answers}
    document |= {"guarantee": released.guarantee_.to_dict()}
    emit(document, "\n\n".join(texts), as_json=as_json)


@prints(".csv")
@reads_rows
def impute(
    data: Rows,
    schema: SchemaOption,
    model: Annotated[Path, option(help="A saved model (JSON) of this schema.")],
    output: OutputOption,
    draws: Annotated[
        int, typer.Option(help="Fill that often; OUTPUT-1, OUTPUT-2, ... are written if above 1.")
    ] = 1,
    filling: Annotated[
        Literal["random", "likely", "mean"],
        typer.Option(
            help="Draw each hole from its law, or take the likeliest level or bin, or a number's "
            "mean."
        ),
    ] = "random",
    holes: HolesOption = None,
    overwrite: OverwriteOption = False,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill the holes of private rows from a released model. THE FILLED ROWS STAY PRIVATE.

    Each row is filled by itself, so this costs no privacy; only the model is a release.
    """
    from missdp.pricing.model_imputer import STAYS_PRIVATE, DPImputer

    output_format(output)
    if not 1 <= draws <= _MOST_TABLES:
        raise ParameterError(f"--draws must be from 1 to {_MOST_TABLES:,}")
    outputs = [output] if draws == 1 else numbered(output, draws)
    check_apart(outputs, data, schema, model)
    check_free(outputs, overwrite=overwrite)
    check_together(model)
    facts = Schema.from_toml(schema)
    check_holds(output, facts)
    facts.refuse_units("impute")
    with reserved(outputs), progress_bar() as progress:
        progress("reading the model", None)
        imputer = DPImputer(model=load(model), filling=filling, random_state=seed).fit()
        if facts not in (imputer.schema_, imputer.model.fitted_.unbinned):
            raise DataError("the model was fitted to another schema than this one")
        progress("filling and writing", None)
        filled = imputer.transform_blocks(data, draws=draws)
        codes = holes_in(output, holes)
        tables = ([table.to_arrow(holes=codes) for table in block] for block in filled)
        write_blocks(outputs, tables, schema=facts)
    names = [str(path) for path in outputs]
    document = {
        "output": names[0] if draws == 1 else names,
        "model": str(model),
        "private": True,
        "says": STAYS_PRIVATE,
        "guarantee": imputer.guarantee_.to_dict(),
    }
    text = f"Wrote {', '.join(names)}. {STAYS_PRIVATE}\n\n{imputer.guarantee_.in_words()}"
    emit(document, text, as_json=as_json)


_TRUSTED = "The model file is trusted as given: its checksum shows damage, and is no signature."


def price(
    target: Annotated[Path, argument(help="A saved model (.json) or a pipeline (.toml).")],
    ground_truth: Annotated[
        bool, typer.Option("--ground-truth", help="Price for the table before values went missing.")
    ] = False,
    observed: ObservedOption = None,
    p_max: MostOption = None,
    row_independent: IndependentOption = False,
    delta: Annotated[
        float | None, typer.Option(help="Price a pipeline at this delta instead of its own.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw a pipeline's epsilon against its noise (.svg).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a saved model or a preprocessing pipeline really guarantees.

    A pipeline file describes imputation, scaling, PCA and so on, without noise, followed by a
    private estimator; only its public facts are read.
    """
    if target.suffix == ".toml":
        if ground_truth or observed is not None or p_max is not None or row_independent:
            raise ParameterError("--ground-truth and its assumptions are for saved models")
        _price_pipeline(target, delta, plot, as_json=as_json)
        return
    if delta is not None or plot is not None:
        raise ParameterError("--delta and --plot are for pipelines (.toml)")
    check_together(target)
    model = load(target)
    guarantee = model.guarantee_
    stated = stated_assumption(
        observed, p_max, row_independent=row_independent, schema=model.schema_
    )
    if ground_truth:
        if stated is None:
            raise ParameterError(
                "--ground-truth requires an assumption about missingness: add --observed, --p-max "
                "or --row-independent."
            )
        guarantee = model.ground_truth_guarantee(stated)
    elif stated is not None:
        raise ParameterError("assumptions about missing values are for --ground-truth")
    warn_if_weak(guarantee.epsilon, guarantee.delta, n=model.n_rows_)
    document = {"guarantee": guarantee.to_dict(), "says": _TRUSTED}
    emit(document, f"{guarantee.in_words()}\n\n{_TRUSTED}", as_json=as_json)


def guarantee(
    target: Annotated[Path, argument(help="A saved model (.json).")],
    prior: Annotated[
        float, option(help="Probability that somebody gives a row before the release.")
    ] = 0.5,
    chance: Annotated[
        float, option(help="Probability of an exception, where delta is above 0.")
    ] = 0.001,
    as_json: JsonOption = False,
) -> None:
    """Print what a saved model guarantees, and what that means for one person, in plain words."""
    check_together(target)
    found = load(target).guarantee_
    risk = found.explain(prior=prior, chance=chance)
    document = {"guarantee": found.to_dict(), "risk": risk.to_dict(), "says": _TRUSTED}
    emit(document, f"{found.in_words()}\n\n{risk}\n\n{_TRUSTED}", as_json=as_json)


def _price_pipeline(path: Path, delta: float | None, plot: Path | None, *, as_json: bool) -> None:
    from missdp.pricing import load_pipeline, plot_price
    from missdp.pricing import price as price_pipeline

    check_picture(plot, path)
    pipeline = load_pipeline(path, open_model=load)
    found = price_pipeline(pipeline, delta=delta)
    warn_if_weak(found.epsilon, found.delta, n=pipeline.rows)
    if plot is not None:
        plot_price(pipeline, plot)
    emit(found.to_dict(), str(found), as_json=as_json)


_STEPS = 11


def sensitivity(
    model: Annotated[Path, argument(help="A saved model (JSON) of AllPairs, AIM or MST.")],
    question: Annotated[str, argument(help="'mean(x) by y' and the like, or 'y ~ x + C(z)'.")],
    attribute: Annotated[str, option(help="A number in it, some of whose values are missing.")],
    shift: Annotated[
        str, option(help="FROM:TO, in standard deviations of it, added to every missing value.")
    ] = "0:0.5",
    plot: Annotated[Path | None, option(help="Draw it (.svg, .png, .pdf).")] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    as_json: JsonOption = False,
) -> None:
    """Show how an estimate moves if values are missing because of what they are. Free.

    At 0 they are missing at random. The shift at which the conclusion turns is named.
    """
    ends = _ends(shift)
    check_picture(plot, model)
    check_together(model)
    released = load(model)
    steps = np.linspace(*ends, _STEPS).round(12).tolist()
    with working("estimating"):
        found = released.sensitivity(
            question, attribute=attribute, shifts=steps, confidence=confidence
        )
    if plot is not None:
        found.plot(plot)
    document = {**found.to_dict(), "guarantee": released.guarantee_.to_dict()}
    emit(document, f"{found}\n\n{released.guarantee_.in_words()}", as_json=as_json)


def _ends(shift: str) -> tuple[float, float]:
    bad = ParameterError("shift must be FROM:TO, such as 0:0.5 or -0.5:0.5")
    with replacing(ValueError, by=bad):
        low, high = map(float, shift.split(":"))
    if not -np.inf < low < high < np.inf:
        raise bad
    return low, high
