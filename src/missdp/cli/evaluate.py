"""``missdp evaluate``: comparison of synthetic and private rows, for the curator only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from missdp.cli import emit
from missdp.cli.options import FILE, PRINTED, Command, data_argument, option, table_option
from missdp.errors import ParameterError
from missdp.files import write_atomically
from missdp.progress import progress_bar, show_stage

if TYPE_CHECKING:
    from missdp.schema import Schema
    from missdp.synth.base import MissingValues, Synthesizer

_FIGURES = (
    "CURATOR ONLY: these figures are computed from the private table without noise. "
    "Do not publish them."
)
_PAGE = "CURATOR ONLY: computed from the private table without noise. Do not publish."


@click.command(cls=Command)
@data_argument()
@click.argument("synthetic", type=FILE, metavar="ROWS|MODEL")
@option("--schema", "Public facts, or the model of the rows. Default: MODEL.", "Data", type=FILE)
@table_option
@option("--control", "DATA that the fit did not read: for --f1.", "Data")
@option("--ways", "Marginals to compare, by commas.", default="1,2")
@option("--f1", "Also train classifiers of every attribute (slow).", is_flag=True)
@option("--plot", "Draw every column: .svg, .png or .pdf.", type=FILE)
@option("--html", "Write a page, or print it (-). Requires a model.", type=FILE)
def evaluate(
    data: str, synthetic: Path, schema: Path | None, html: Path | None, **how: Any
) -> None:
    """Compare synthetic rows with private rows. The result is private, for the curator.

    A model draws its released number of rows.

    Try:
      missdp evaluate patients.csv synthetic.csv --schema patients.toml
      missdp evaluate patients.csv synthetic.model.json --html curator/report.html
    """
    from missdp.synth import load

    is_model = synthetic.suffix == ".json"
    place = synthetic if is_model and schema is None else schema
    if place is None:
        raise ParameterError("--schema is required: the public facts, or the model of the rows.")
    model = load(place) if place.suffix == ".json" else load(synthetic) if is_model else None
    if html is not None:
        _page(data, None if is_model else synthetic, model, html, place, how)
        return
    _figures(data, synthetic, model, place, how)


def _page(
    data: str,
    synthetic: Path | None,
    model: Synthesizer | None,
    output: Path,
    place: Path,
    how: dict[str, Any],
) -> None:
    """Write a page that compares synthetic rows with private rows."""
    from missdp.cli.provenance import check_rows_of
    from missdp.cli.rows import check_apart, check_free, rows_at
    from missdp.governance.curator import check_apart_from_releases, curator_page

    if how["plot"] is not None:
        raise ParameterError("--plot is for figures. The page of --html has pictures already.")
    if how["control"] is not None:
        raise ParameterError("--control is for --f1 of figures, not for the page of --html.")
    if model is None:
        raise ParameterError("--html requires a model: as MODEL, or as --schema MODEL.json.")
    rows = rows_at(data, how["table"])
    released = [path for path in (place, synthetic) if path is not None and path.suffix != ".toml"]
    if output != PRINTED:
        check_apart([output], rows, *released)
        check_apart_from_releases(output, released)
        check_free([output])
    if synthetic is not None:
        check_rows_of(synthetic, model)
    with show_stage("comparing the tables"):
        page, verdict = curator_page(
            rows,
            model.sample(missing_values=_missing_values(model)) if synthetic is None else synthetic,
            schema=model.fitted_.with_unit(model.schema_),  # samples rows by unit, as in the fit
            guarantee=model.guarantee_,
            f1=how["f1"],
        )
    if output == PRINTED:
        emit({"curator_only": True, "html": page, "verdict": list(verdict)}, page)
        return
    write_atomically(output, page.encode())
    document = {"curator_only": True, "output": str(output), "verdict": list(verdict)}
    emit(document, "\n".join([f"Wrote {output}.", _PAGE, *verdict]))


def _missing_values(model: Synthesizer) -> MissingValues:
    """Return the treatment of missing values in rows that a model draws."""
    return "keep" if model.applied_strategy.models_missingness else "fill"


def _figures(
    data: str, synthetic: Path, model: Synthesizer | None, place: Path, how: dict[str, Any]
) -> None:
    """Print figures about the distance of the tables."""
    from missdp.cli.provenance import check_rows_of
    from missdp.cli.rows import check_apart, check_picture, rows_at
    from missdp.evaluate.comparison import compare_tables
    from missdp.table import Rows

    plot, rows = how["plot"], rows_at(data, how["table"])
    made = Rows.of(synthetic)
    if synthetic.suffix == ".json" and model is not None:
        drawn = model.sample_table(missing_values=_missing_values(model))
        made = Rows.of(drawn.to_arrow(missing_as="codes"))
    else:
        check_rows_of(synthetic, model)
    if how["control"] is not None and not how["f1"]:
        raise ParameterError("--control is for --f1")
    if plot is not None:
        check_picture(plot, synthetic)
        check_apart([plot], rows, synthetic, place)
    with progress_bar() as progress:
        comparison = compare_tables(
            rows,
            made,
            _facts(model, place),
            ways=how["ways"],
            f1=how["f1"],
            control=how["control"],
            plot=plot,
            progress=progress,
        )
    emit({"curator_only": True, **comparison.document}, "\n\n".join([_FIGURES, *comparison.texts]))


def _facts(model: Synthesizer | None, place: Path) -> Schema:
    """Return the schema of a file, or of a model with its released levels."""
    from missdp.schema import Schema

    if place.suffix != ".json" or model is None:
        return Schema.from_toml(place)
    return model.fitted_.with_unit(model.fitted_.unbinned)
