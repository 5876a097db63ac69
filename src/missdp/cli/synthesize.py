"""``missdp synthesize``, and ``demo``: a private synthetic table from a table with holes.

A paid release is kept first; only then is anything else done with it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from missdp.accounting import Condition
from missdp.cli import RUN, check_stdout, complain
from missdp.cli.app import emit
from missdp.cli.charges import Charge, charges_ledger, paid_schema
from missdp.cli.options import (
    CountsAsOption,
    EngineOption,
    HolesOption,
    IndependentOption,
    JsonOption,
    KeepHolesOption,
    MostOption,
    ObservedOption,
    OutputOption,
    OverwriteOption,
    RowsOption,
    SchemaOption,
    SeedOption,
    UndeclaredOption,
    UnitOption,
    UnitRowsOption,
    UpperOption,
    ValuesOption,
    WeightOption,
    check_apart,
    option,
    reads_rows,
    stated_assumption,
)
from missdp.cli.release_files import Release
from missdp.cli.side_files import STAMP
from missdp.errors import ParameterError, check_epsilon
from missdp.files import PutOff, check_outputs
from missdp.progress import Progress, progress_bar
from missdp.schema import Schema, SurveyWeight, Unit
from missdp.schema.layout import SchemaTable
from missdp.sources import STRATEGIES
from missdp.synth.base import MissingValues, Synthesizer
from missdp.synth.fitting import fit_conditions
from missdp.synth.parameters import chosen_delta
from missdp.synth.registry import (
    default_synthesizer,
    read_settings,
    synthesizer_named,
    synthesizer_names,
)
from missdp.synth.sampling import Selection
from missdp.table import Holes, Rows, Table, Values
from missdp.table.memory import memory_in_force
from missdp.table.rows import is_read_as_text
from missdp.table.written import check_holds, holes_in, output_format, write_each
from missdp.words import in_a_line

if TYPE_CHECKING:
    import pyarrow as pa

# Said to a stop that comes once noise is drawn: a model that is charged is not lost.
_AT_ONCE = (
    "missdp: stopping as soon as the model, which is charged, is kept; a second signal stops "
    "at once and gives it up\n"
)
_MEANT_FOR = "meant for up to 10,000 rows; else --delta or --public-rows"


@charges_ledger
@reads_rows
def synthesize(
    data: Rows | str,
    schema: SchemaOption,
    output: OutputOption,
    epsilon: Annotated[float | None, option(help="Privacy budget, above 0.")] = None,
    ground_truth_epsilon: Annotated[
        float | None,
        option(
            help="Instead of --epsilon: what to guarantee for the table before values went "
            "missing. Needs --observed, --p-max or --row-independent."
        ),
    ] = None,
    observed: ObservedOption = None,
    p_max: MostOption = None,
    row_independent: IndependentOption = False,
    delta: Annotated[
        float | None,
        option(
            help=f"By default 1e-6, {_MEANT_FOR}, which makes it 1/(100 n) for more. 0 is pure "
            "epsilon-DP."
        ),
    ] = None,
    method: Annotated[
        str | None,
        option(
            help=f"{', '.join(synthesizer_names())}; by default all-pairs, and aim "
            "beyond 40 attributes or if --delta is 0."
        ),
    ] = None,
    missing: Annotated[
        str | None,
        option(
            help=f"What to do about holes: {', '.join(STRATEGIES)}; by default the method's first."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the method's own, such as rounds=30; may be repeated.",
        ),
    ] = None,
    rows: RowsOption = None,
    public_rows: Annotated[
        int | None, typer.Option(help="Declare the number of rows public, a condition.")
    ] = None,
    keep_holes: KeepHolesOption = False,
    holes: HolesOption = None,
    values: ValuesOption = "codes",
    undeclared: UndeclaredOption = "refuse",
    unit: UnitOption = None,
    max_rows: UnitRowsOption = None,
    counts_as: CountsAsOption = None,
    weight: WeightOption = None,
    weight_upper: UpperOption = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Save the released model here (JSON), to sample again; by default beside the "
            "output, as OUTPUT.model.json."
        ),
    ] = None,
    guarantee: Annotated[Path | None, typer.Option(help="Save the guarantee here (JSON).")] = None,
    overwrite: OverwriteOption = False,
    engine: EngineOption = "missdp",
    seed: SeedOption = None,
    as_json: JsonOption = False,
    charge: Charge | None = None,
) -> None:
    """Turn a private table with holes into a synthetic one, and say what that guarantees.

    All files are opened before the table is read. The model is saved as soon as it is paid for, so
    whatever fails later, rows can still be drawn from it with `missdp sample`. All files take their
    places together, and OUTPUT.release.json says which they are.
    """
    check_stdout()
    wanted = _wanted(epsilon, ground_truth_epsilon)
    if public_rows is not None and public_rows < 1:
        raise ParameterError("--public-rows must be at least 1")
    output_format(output)
    asked = None if charge is None else charge.request
    release = Release(output, model=model, guarantee=guarantee, overwrite=overwrite, id=asked)
    check_apart(release.outputs, data, schema)
    in_file = paid_schema(schema, charge)
    of_unit = {"column": unit, "max_rows": max_rows, "counts_as": counts_as}
    of_weight = {"column": weight, "upper": weight_upper}
    facts = _read_for(_declaring(in_file, of_unit, of_weight), engine)
    check_holds(output, facts, values)
    if charge is not None and charge.found(release, facts, as_json=as_json):
        return
    chosen = method or default_synthesizer(facts, delta=delta)
    own = read_settings(synthesizer_named(chosen), settings or [])
    stated = stated_assumption(observed, p_max, row_independent=row_independent, schema=facts)
    _check_assumption(stated, ground_truth_epsilon)
    check_rows(public_rows if rows is None else rows, len(facts), output=output)
    with release.claimed(facts), progress_bar() as progress:
        given = {"missing": missing, "delta": delta, "n_rows": public_rows}
        own |= {name: value for name, value in given.items() if value is not None}
        synthesizer = synthesizer_named(chosen)(epsilon=wanted, random_state=seed, **own)
        wanted_rows = public_rows if rows is None else rows
        together = synthesizer.draws_together
        check_rows(wanted_rows, len(facts), output=output, together=together)
        if keep_holes and not synthesizer.family.strategy(synthesizer.missing).models_holes:
            raise ParameterError("--keep-holes needs --missing joint, which models the holes")
        if stated is not None:
            from missdp.ground_truth import epsilon_for_ground_truth

            progress("finding epsilon", None)
            found = epsilon_for_ground_truth(wanted, synthesizer, facts, stated)
            synthesizer.set_params(epsilon=found)
        synthesizer.progress = progress
        spent = chosen_delta(synthesizer.delta, synthesizer.n_rows)
        RUN.note_spending(synthesizer.epsilon, spent)
        charged = None
        if charge is not None:
            events = synthesizer.planned_parts(facts)[0].events
            counted_by = "" if engine == "missdp" else "Spark"
            rests_on = fit_conditions(
                facts,
                undeclared,
                seed,
                synthesizer.n_rows,
                facts,
                engine=counted_by,
                reads_text=not counted_by and is_read_as_text(data),
            )
            if charge.files(events, facts, rests_on, as_json=as_json):
                return
            charged = charge.start(events, facts, rests_on, release=release.id)
            release.note_charge(charged.said)
        with PutOff(_AT_ONCE):
            with _read_by(engine, data, facts) as read:
                synthesizer.fit(read, schema=facts, undeclared=undeclared)
            release.keep(synthesizer)
        if delta is None and public_rows is None:
            complain(f"missdp: delta is {spent:g}, {_MEANT_FOR}")
        written = write_rows(
            synthesizer, [release.table], rows, keep_holes, holes, seed, progress, values=values
        )
        release.commit()
        if charged is not None:
            charged.finish(release.sha256, synthesizer.guarantee_)
    document = {
        "output": str(output),
        "method": chosen,
        "rows": written,
        **release.wrote,
        "bins": {n: {"edges": b.edges, "spikes": b.spikes} for n, b in synthesizer.bins_.items()},
        "guarantee": synthesizer.guarantee_.to_dict(),
    }
    promised = synthesizer.guarantee_.in_words()
    if charged is not None:
        document["ledger"] = charged.said
    if stated is not None:
        truth = synthesizer.ground_truth_guarantee(stated)
        document["ground_truth_guarantee"] = truth.to_dict()
        promised = f"{truth.in_words()}\n\nFor the table with its holes:\n{promised}"
    drawn = counted(written, "synthetic row")
    said = f"{chosen}, since delta is 0" if method is None and delta == 0 else chosen
    cut = ", ".join(f"{n} ({synthesizer.schema_[n].size})" for n in synthesizer.bins_)
    bins = f"Bins found privately, and how many: {cut}.\n" if cut else ""
    paid = "" if charged is None else f"{charged.in_words}\n"
    text = (
        f"Wrote {output}: {drawn}, {counted(len(facts.written), 'column')}; method: {said}."
        f"{unsaid(output)}\n"
        f"{release.wrote_in_words}\n{paid}{bins}\n{promised}"
    )
    emit(document, text, as_json=as_json)


def _declaring(schema: Schema, unit: Mapping[str, Any], weight: Mapping[str, Any]) -> Schema:
    """Return the schema with the fields of its tables [unit] and [weight] that options state."""
    return replace(
        schema,
        unit=_stated(Unit, schema.unit, unit),
        weight=_stated(SurveyWeight, schema.weight, weight),
    )


def _stated(kind: type[SchemaTable], known: Any, given: Mapping[str, Any]) -> Any:
    """Return a table of the schema with other fields in place of some; those of None are left."""
    given = {name: fact for name, fact in given.items() if fact is not None}
    if not given:
        return known
    if known is None and "column" not in given:
        option = {"upper": "--weight-upper"}.get(
            named := next(iter(given)), f"--{named.replace('_', '-')}"
        )
        raise ParameterError(
            f"{option} is for --{kind.table}, or a schema that declares [{kind.table}]"
        )
    if known is not None and given.get("column", known.column) != known.column:
        raise ParameterError(
            f"the schema declares another {kind.table}: {known.column!r}. Leave --{kind.table} out"
        )
    return kind.from_table(({} if known is None else known.to_table()) | given)


def _read_for(facts: Schema, engine: str) -> Schema:
    """Return the public facts; refuse those that the engine cannot read."""
    if engine == "spark":
        from missdp.engines import spark

        spark.check(facts)
    return facts


@contextmanager
def _read_by(engine: str, data: Rows | str, facts: Schema) -> Iterator[Any]:
    """Yield the rows as an engine reads them, as long as it runs."""
    if engine == "missdp":
        yield data
        return
    from missdp.engines import spark_frame, spark_session

    names = (*facts.names, *([facts.unit.column] if facts.unit else []))
    place, ignore = data if isinstance(data, Rows) else str(data), facts.ignore
    with spark_session() as session:
        yield spark_frame(place, names, session, ignore=ignore)


def _wanted(epsilon: float | None, ground_truth_epsilon: float | None) -> float:
    """Return the one epsilon that was asked for."""
    given = [e for e in (epsilon, ground_truth_epsilon) if e is not None]
    if len(given) > 1:
        raise ParameterError("use --epsilon or --ground-truth-epsilon, not both.")
    if not given:
        raise ParameterError(
            "--epsilon is required: the privacy budget, for example 1. --ground-truth-epsilon "
            "may stand in its place."
        )
    check_epsilon(
        given[0], "--epsilon" if ground_truth_epsilon is None else "--ground-truth-epsilon"
    )
    return given[0]


def _check_assumption(stated: Condition | None, ground_truth_epsilon: float | None) -> None:
    if stated is None and ground_truth_epsilon is not None:
        raise ParameterError(
            "--ground-truth-epsilon requires an assumption about missingness: add --observed, "
            "--p-max or --row-independent."
        )
    if stated is not None and ground_truth_epsilon is None:
        raise ParameterError(
            "--observed, --p-max and --row-independent require --ground-truth-epsilon."
        )


# That a cell takes in a file, at the least.
_LEAST_BYTES = {"text": 2.0, "columns": 1 / 64, "whole": 1 / 64}
_BYTES_PER_CELL = 32  # of rows that are drawn together: a code, a value and a text at once


def check_rows(
    rows: int | None, columns: int = 1, *, output: Path, together: bool = False, tables: int = 1
) -> None:
    """Refuse early a negative number of rows, or one for which disk or memory has no room."""
    if rows is None:
        return
    if rows < 0:
        raise ParameterError("--rows must be at least 0")
    folder = Path(os.path.realpath(output)).parent
    free = shutil.disk_usage(folder).free if folder.is_dir() else 2**62
    most = int(free / (_LEAST_BYTES[output_format(output)] * columns * tables))
    if rows > most:
        raise ParameterError(f"--rows must be at most {most:,} here: more do not fit on the disk")
    most = memory_in_force() // (_BYTES_PER_CELL * columns)
    if output_format(output) == "whole" and rows > most:
        raise ParameterError(
            f"--rows must be at most {most:,} here: more do not fit into memory, in which a file "
            "of this kind is made; write CSV or Parquet"
        )
    if together and rows > most:
        raise ParameterError(
            f"--rows must be at most {most:,} here: more do not fit into memory, and constraints "
            "between two rows need all of them together"
        )


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, in the plural where it belongs."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def unsaid(output: Path) -> str:
    """Return a sentence if neither a file nor its name can tell what its rows are."""
    if output_format(output) != "text" or "synth" in output.name.lower():
        return ""
    return " Tip: include 'synthetic' in the file name before you publish it."


def write_rows(
    model: Synthesizer,
    outputs: list[Path],
    rows: int | None,
    keep_holes: bool,
    holes: Holes | None,
    seed: int | None,
    progress: Progress,
    where: Selection | None = None,
    *,
    values: Values = "codes",
) -> int:
    """Draw a table for each file, write them as they come, and return how many rows each has.

    Several are drawn from models that vary as the released one is uncertain. A Parquet file says
    that its rows are synthetic, which release they were drawn from, and its guarantee.
    """
    wanted = _rows_wanted(model, outputs[0], rows, tables=len(outputs))
    several = len(outputs) > 1
    tables = f"{len(outputs)} tables of " if several else ""
    stage = f"drawing and writing {tables}{counted(wanted, 'row')}"
    progress(stage, None)
    models = model.uncertain_models(len(outputs), random_state=seed) if several else [model]
    keep: MissingValues = "keep" if keep_holes else "fill"
    labels = _labels(model)
    whole = max(1, wanted * len(outputs))
    done = 0

    def drawn(one: Synthesizer) -> Iterator[pa.Table]:
        nonlocal done
        own = None if several else seed
        blocks = one.sample_blocks(rows, missing_values=keep, random_state=own, where=where)
        for block in blocks:
            done += len(block)
            table = block.to_arrow(holes=holes_in(outputs[0], holes), values=values)
            yield table.replace_schema_metadata(labels)
            progress(stage, done / whole)

    write_each(outputs, map(drawn, models), schema=model.schema_)
    return wanted


def _labels(model: Synthesizer) -> dict[bytes, bytes]:
    """Return what a Parquet file says: that its rows are synthetic, and what is promised."""
    release = {STAMP: model.release_.encode()} if model.release_ else {}
    promised = in_a_line(model.guarantee_).encode()
    return {b"missdp.synthetic": b"yes", b"missdp.guarantee": promised, **release}


def _rows_wanted(model: Synthesizer, output: Path, rows: int | None, *, tables: int) -> int:
    """Return how many rows each table has; refuse too many, and none that were not asked for."""
    wanted = model.n_rows_ if rows is None else rows
    together = model.draws_together
    check_rows(wanted, len(model.schema_), output=output, together=together, tables=tables)
    if wanted == 0 and rows != 0:
        raise ParameterError(
            "--rows must be given here: the released number of rows is 0, for the table is small "
            "for this epsilon, and an empty file is only written if asked for"
        )
    return wanted


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the synthetic survey.")
    ] = Path("yrbss_synthetic.csv"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    overwrite: OverwriteOption = False,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Synthesize a real survey with holes, and show what dropping incomplete rows would have done.

    The survey (Youth Risk Behavior Survey, United States, public domain) is public, so this
    command may show exact figures of it next to the private ones. Do not do that with your data.
    """
    from missdp.datasets import yrbss

    check_stdout()
    check_epsilon(epsilon, "--epsilon")
    output_format(output)
    release = Release(output, overwrite=overwrite)
    check_outputs(release.outputs)
    folder = output.with_name(f"{output.stem}_dossier") if find_spec("jinja2") else None
    if folder is not None:
        from missdp.office.dossier import check_folder

        check_folder(folder, overwrite=overwrite)
    start = time.perf_counter()
    survey = yrbss().table()
    with release.claimed(survey.schema), progress_bar() as progress:
        RUN.note_spending(2 * epsilon)
        family = synthesizer_named("all-pairs")
        drop = family(epsilon=epsilon, missing="complete-rows", random_state=seed).fit(survey)
        model = family(epsilon=epsilon, missing="joint", random_state=seed, progress=progress)
        with PutOff(_AT_ONCE):
            model.fit(survey)
            release.keep(model)
        written = write_rows(model, [release.table], None, False, "nulls", seed, progress)
        release.commit()
    papers = _dossier(Path(release.wrote["model"]), folder, overwrite=overwrite)
    synthetic = Table.read(output, model.schema_)
    dropped = drop.sample_table(random_state=seed)
    rows = _comparison(survey, dropped, synthetic)
    document = {
        "output": str(output),
        "rows": written,
        **release.wrote,
        "dossier": folder and str(folder),
        "seconds": round(time.perf_counter() - start, 1),
        "comparison": rows,
        "guarantee": model.guarantee_.to_dict(),
    }
    text = "\n".join(
        [
            _BEFORE,
            *(_LINE.format(**row) for row in rows),
            _AFTER,
            f"Wrote {output}: {written} synthetic rows, no holes, in {document['seconds']} s.",
            release.wrote_in_words,
            f"{papers}\n",
            "What the written file promises (the column 'rows dropped' would cost as much again):",
            model.guarantee_.in_words(),
        ]
    )
    emit(document, text, as_json=as_json)


def _dossier(model: Path, folder: Path | None, *, overwrite: bool) -> str:
    """Write the dossier of a model, if there is what makes one; say where, or how to get one."""
    if folder is None:
        return "With pip install 'missdp[report]', missdp dossier writes a report of the model."
    from missdp.office.dossier import About, write_dossier

    about = About(title="Youth Risk Behavior Survey, synthetic", audience="A demonstration.")
    write_dossier(model, folder, about=about, overwrite=overwrite)
    return f"Wrote {folder / 'report.html'}: the report of the release, and its papers."


_BEFORE = """\
Youth Risk Behavior Survey: 13,583 respondents, 13 questions, 38 % of the rows have holes.
The survey is public, so its exact figures may stand here beside the private ones.

share of                    all answers  complete rows  rows dropped     missdp
                                (exact)        (exact)     (private)  (private)"""
_LINE = "{group:<26}{answered:>13.1%}{complete_rows:>15.1%}{dropped_dp:>14.1%}{missdp:>11.1%}"
_AFTER = """
Race is missing for 57 % of Hispanic and 7 % of other respondents, so dropping incomplete rows
loses most Hispanic respondents. missdp counts every row and fills holes inside its model.
"""


def _comparison(survey: Table, dropped: Table, synthetic: Table) -> list[dict[str, Any]]:
    """Shares of some groups among the answers given, in the survey and in two releases."""
    complete = survey.take(~survey.incomplete_rows())
    asked = [
        ("hispanic", "hispanic", "Hispanic respondents"),
        ("text_while_driving_30d", "did not drive", "do not drive"),
        ("school_night_hours_sleep", "<5", "sleep less than 5 hours"),
        ("gender", "female", "female respondents"),
    ]
    columns = {
        "answered": survey,
        "complete_rows": complete,
        "dropped_dp": dropped,
        "missdp": synthetic,
    }
    return [
        {"group": label, **{k: _share(t, name, level) for k, t in columns.items()}}
        for name, level, label in asked
    ]


def _share(table: Table, name: str, level: str) -> float:
    attribute = table.schema[name]
    codes = table.codes(name)
    seen = codes < attribute.size
    wanted = attribute.levels.index(level)  # type: ignore[union-attr]
    return float(np.mean(codes[seen] == wanted))
