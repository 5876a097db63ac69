"""The command that writes the curator's report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from missdp.cli.app import emit
from missdp.cli.options import JsonOption, OverwriteOption, argument, as_declared, option
from missdp.cli.side_files import check_free, check_together
from missdp.files import check_outputs
from missdp.synth import load

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
    from missdp.office.risk import refit_of

    released = [model] if synthetic is None else [model, synthetic]
    check_outputs([output], inputs=[*released, private, control])
    check_apart_from_releases(output, released)
    check_free([output], overwrite=overwrite)
    check_together(model)
    fitted = load(model)
    keeps = fitted.strategy_of(fitted.missing).models_holes
    said = curator_report(
        private,
        fitted.sample(missing_values="keep" if keeps else "fill")
        if synthetic is None
        else synthetic,
        output,
        schema=as_declared(fitted, fitted.schema_),  # as many rows take part as in the fit
        guarantee=fitted.guarantee_,
        control=control,
        f1=f1,
        refit=refit_of(fitted) if refits else None,
        refits=refits,
        released=released,
    )
    document = {"curator_only": True, "output": str(output), "verdict": list(said)}
    text = "\n".join([f"Wrote {output}.", _WARNING, *said])
    emit(document, text, as_json=as_json)
