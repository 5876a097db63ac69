"""``missdp fit`` and ``missdp synthesize``: the model file is the release.

Only the model costs privacy. The cost is charged before a row is read. The fitted model is saved in
one step, with the id of the release and the line of the ledger. Rows are drawn at no cost.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import shlex
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from missdp.cli import RUN, check_stdout, emit, note, pluralize
from missdp.cli.options import (
    ROWS_FILE,
    Command,
    assume_option,
    choice,
    data_argument,
    epsilon_option,
    keep_missing_option,
    ledger_options,
    method_options,
    new_schema_option,
    option,
    output_option,
    public_rows_option,
    purpose_option,
    rows_option,
    schema_option,
    seed_option,
    table_option,
    undeclared_option,
)
from missdp.errors import BudgetExceededError, OutputError, ParameterError, check_epsilon
from missdp.files import DelayedSignals, atomic_path, write_atomically
from missdp.progress import progress_bar

if TYPE_CHECKING:
    from missdp.accounting import Condition
    from missdp.cli.charge import Charge, Charged
    from missdp.progress import Progress
    from missdp.schema import Schema
    from missdp.synth.base import Synthesizer

# Message for a signal after noise is drawn: the charged model is saved first.
AT_ONCE = (
    "missdp: stopping as soon as the charged model is saved. A second signal stops at once and "
    "loses the model\n"
)
_MEANT_FOR = "meant for up to 10,000 rows. For more rows, set --delta or --public-rows"


@dataclass(frozen=True)
class SavedModel:
    """A model that was fitted, charged and saved.

    Parameters
    ----------
    model : Synthesizer
        The fitted model.
    path : Path
        The file of the model.
    method : str
        The name of the family.
    charged : Charged or None
        The charged line of a ledger.
    assumption : Condition or None
        The assumption about missingness of a guarantee for the ground truth.
    """

    model: Synthesizer
    path: Path
    method: str
    charged: Charged | None
    assumption: Condition | None

    def print(self, document: dict[str, Any], first: str, second: str) -> None:
        """Print the written files, the charge, the results of the fit, and the guarantee.

        Parameters
        ----------
        document : dict
            Other facts of the JSON document.
        first, second : str
            The first lines of the text.
        """
        from missdp.cli.charge import note_unrecorded
        from missdp.synth.fit_summary import doubts_in_words, results_in_words

        model, guarantee = self.model, self.model.guarantee_
        bins = {n: {"edges": b.edges, "spikes": b.spikes} for n, b in model.bins_.items()}
        document |= {"model": str(self.path), "release": model.release_, "method": self.method}
        document |= {"bins": bins, "levels": model.fitted_.levels, "guarantee": guarantee.to_dict()}
        lines = [f"{first}; method: {self.method}.", second]
        if self.charged is not None:
            document["ledger"] = self.charged.line
            lines.append(self.charged.in_words)
        lines += [*results_in_words(model.fitted_), ""]
        for doubt in doubts_in_words(model.fitted_):
            RUN.note_warning(doubt)
        if self.assumption is not None:
            truth = model.ground_truth_guarantee(self.assumption)
            document["ground_truth_guarantee"] = truth.to_dict()
            lines += [truth.in_words(), "", "For the table with its missing values:"]
        emit(document, "\n".join([*lines, guarantee.in_words()]))
        note_unrecorded(self.charged)


@click.command(cls=Command)
@data_argument()
@output_option("Model file to write: .json.")
@schema_option
@epsilon_option
@option("--ground-truth-epsilon", "Budget before values went missing.", "Privacy", type=float)
@assume_option
@method_options
@public_rows_option
@undeclared_option
@table_option
@choice(
    "--engine", "Engine that counts the rows.", "Data", of=("missdp", "spark"), default="missdp"
)
@ledger_options
@purpose_option
@new_schema_option
@option("--dry-run", "State the guarantee. Nothing is read or charged.", "Privacy", is_flag=True)
@seed_option
def fit(data: str, output: Path, **options: Any) -> None:
    """Fit a model to private rows, and save it. The model file is the release.

    The file has released values only, the id of the release, the guarantee, and the charged line of
    the ledger. Draw rows from it with `missdp sample`, at no cost.

    --ground-truth-epsilon replaces --epsilon, and requires --assume. Spark also reads Parquet at
    URLs such as s3a://bucket/folder.

    Try:
      missdp fit patients.csv --schema patients.toml --epsilon 1 -o model.json
      missdp fit patients.csv --schema patients.toml --epsilon 1 -o model.json --strategy observed
      missdp fit patients.csv --schema patients.toml --epsilon 1 -o model.json
        --method aim --set rounds=6 --set workload=2
      missdp fit patients.csv --schema patients.toml --epsilon 1 -o model.json
        --ledger sqlite:///ledger.db --account patients --purpose 'annual report'
      missdp fit patients.csv --schema patients.toml --epsilon 1 -o planned.json --dry-run
    """
    if options.pop("dry_run"):
        _print_planned(data, output, options)
        return
    release = fit_release(data, output, options)
    wrote = f"Wrote {output}: the model of release {release.model.release_}"
    command = f"Draw rows at no cost: {_sample(output, 'ROWS.csv')}"
    release.print({"rows": release.model.n_rows_}, wrote, command)


@click.command(cls=Command)
@data_argument()
@output_option(f"{ROWS_FILE} The model is saved as OUTPUT.model.json.")
@schema_option
@epsilon_option
@method_options
@public_rows_option
@rows_option
@keep_missing_option
@table_option
@ledger_options
@seed_option
def synthesize(data: str, output: Path, rows: int | None, **options: Any) -> None:
    """Fit a model to private rows, save it, and draw synthetic rows from it.

    `missdp fit` and `missdp sample` do this in two steps, and have more options. If drawing fails,
    the model is saved, and the message has the command that draws rows.

    Try:
      missdp synthesize patients.csv --schema patients.toml --epsilon 1 -o synthetic.csv
      missdp synthesize patients.csv --schema patients.toml --epsilon 1 -o synthetic.csv --delta 0
      missdp synthesize patients.csv --schema patients.toml --epsilon 1 -o synthetic.csv
        --keep-missing --rows 500
    """
    from missdp.cli.provenance import label_of
    from missdp.cli.sample import check_rows, draw_tables, name_tip
    from missdp.table.written import check_holds, output_format

    output_format(output)
    keep, seed = options.pop("keep_missing"), options["seed"]
    place = output.with_name(f"{output.stem}.model.json")

    def check(model: Synthesizer, facts: Schema) -> None:
        check_holds(output, facts)
        check_rows(rows, len(facts), output=output, together=model.draws_together)
        if keep and not model.family.strategy(model.missing).models_missingness:
            raise ParameterError("--keep-missing requires --strategy joint")

    release = fit_release(data, place, options, (output, label_of(output)), check)
    model = release.model
    with progress_bar() as progress:
        drawn = draw_tables(model, [output], rows, progress, keep_missing=keep, seed=seed)
    RUN.note_release(f"all of release {model.release_}: {str(output)!r}, {str(place)!r}")
    columns = pluralize(len(model.schema_.output_columns), "column")
    wrote = f"Wrote {output}: {pluralize(drawn, 'synthetic row')}, {columns}"
    second = f"Wrote {place}: the model of release {model.release_}.{name_tip(output)}"
    release.print({"output": str(output), "rows": drawn}, wrote, second)


def fit_release(
    data: str,
    output: Path,
    options: dict[str, Any],
    later_outputs: tuple[Path, ...] = (),
    check: Callable[[Synthesizer, Schema], None] = lambda *_: None,
) -> SavedModel:
    """Check the options, charge the account, fit the model and save it, in this order.

    Parameters
    ----------
    data : str
        The place of the private rows.
    output : Path
        The model file.
    options : dict
        Options of the command.
    later_outputs : tuple of Path
        Files that are written later. They are checked before the charge.
    check : callable
        A function of the model and the schema, which raises errors about later steps before the
        charge.

    Returns
    -------
    SavedModel
        The saved release.

    Raises
    ------
    MissDPError
        Before the charge, or after the charge with the costs and releases of the run.
    """
    from missdp.engines import spark_rows

    with progress_bar() as progress:
        planned = _checked(data, output, options, later_outputs, progress)
        model = planned.model
        check(model, planned.facts)
        model.progress = progress
        charged = _charged(planned)
        rows, facts = planned.rows, planned.facts
        with DelayedSignals(AT_ONCE):
            is_spark = planned.engine == "spark"
            with spark_rows(rows, facts) if is_spark else nullcontext(rows) as read:
                model.fit(read, schema=facts, undeclared=planned.undeclared)
            save(model, output, charged)
    if options["delta"] is None and options.get("public_rows") is None:
        note(f"missdp: delta is {_delta_of(model):g}, {_MEANT_FOR}")
    return SavedModel(model, output, planned.method, charged, planned.stated)


@dataclass(frozen=True)
class _Planned:
    """A fit whose options are checked. Nothing is charged, and no row is read."""

    rows: Any
    facts: Schema
    model: Synthesizer
    method: str
    charge: Charge | None
    stated: Condition | None
    undeclared: Literal["refuse", "accept"]
    engine: str

    def conditions(self) -> list[Condition]:
        """Return the conditions of the guarantee of the fit."""
        from missdp.synth.fitting import fit_conditions
        from missdp.table.rows import may_refuse

        by = "Spark" * (self.engine == "spark")
        refuses = bool(by) or may_refuse(self.rows)
        facts, undeclared = self.facts, self.undeclared
        return fit_conditions(
            facts, self.model, undeclared, declared=facts, engine=by, may_refuse=refuses
        )


def _checked(
    data: str,
    output: Path,
    options: dict[str, Any],
    later_outputs: tuple[Path, ...],
    progress: Progress,
) -> _Planned:
    """Return the fit of some options. Raise every error that needs no row, before the charge."""
    from missdp.cli.charge import Charge, account_schema
    from missdp.cli.rows import rows_at
    from missdp.ground_truth.assumption_text import parse_assumption

    check_stdout()
    undeclared, engine = options.get("undeclared", "refuse"), options.get("engine", "missdp")
    epsilon, assume = _budget(options), options.get("assume")
    if output.suffix != ".json":
        raise ParameterError(f"--output must be a model file, .json, not {str(output)!r}.")
    if engine == "spark" and options["table"] is not None:
        raise ParameterError("--table is for --engine missdp")
    at_url = engine == "spark" and "://" in data
    rows: Any = data if at_url else rows_at(data, options["table"])
    check_new((*later_outputs, output), rows, options["schema"])
    charge = Charge.of_command()
    facts = account_schema(options["schema"], charge)
    stated = parse_assumption(assume, facts)
    name, model = _synthesizer(facts, epsilon, options)
    if stated is not None:
        from missdp.ground_truth import epsilon_for_ground_truth

        progress("finding epsilon", None)
        model.set_params(epsilon=epsilon_for_ground_truth(epsilon, model, facts, stated))
    if engine == "spark":
        from missdp.engines import spark

        spark.check_spark_schema(facts)
    by_delta = options["method"] is None and options["delta"] == 0
    method = f"{name}, since delta is 0" if by_delta else name
    return _Planned(rows, facts, model, method, charge, stated, undeclared, engine)


def _print_planned(data: str, output: Path, options: dict[str, Any]) -> None:
    """Print the guarantee of a fit that is only planned, and its meaning for one person."""
    with progress_bar() as progress:
        planned = _checked(data, output, options, (), progress)
        progress("stating the guarantee", None)
        guarantee = planned.model.planned_parts(planned.facts)[0]
        guarantee = replace(guarantee, conditions=tuple(planned.conditions()))
        risk = guarantee.explain()
    charge = planned.charge
    document: dict[str, Any] = {"model": str(output), "method": planned.method}
    document |= {"guarantee": guarantee.to_dict(), "risk": risk.to_dict()}
    document |= {"words": guarantee.in_words(), "risk_in_words": str(risk)}
    document["account"] = None
    paid = "No ledger would record this spending."
    if charge is not None:
        if not charge.ledger.budget(charge.account).can_afford(*guarantee.events):
            raise BudgetExceededError(
                f"the account {charge.account!r} cannot pay for this release. Use a smaller "
                "--epsilon, or see `missdp ledger show`."
            )
        document["account"] = charge.account
        paid = f"The account {charge.account!r} would be charged, before a row is read."
    first = f"Planned: {output}; method: {planned.method}. Nothing was read or charged."
    emit(document, "\n".join([first, paid, "", guarantee.in_words(), "", str(risk)]))


def _budget(options: dict[str, Any]) -> float:
    """Return the requested epsilon, with or without ground truth."""
    epsilon, truth = options["epsilon"], options.get("ground_truth_epsilon")
    assume, name = options.get("assume"), "--epsilon"
    if epsilon is not None and truth is not None:
        raise ParameterError("use --epsilon or --ground-truth-epsilon, not both.")
    if truth is None and epsilon is None:
        raise ParameterError("--epsilon is required: the privacy budget, for example 1.")
    if truth is None and assume is not None:
        raise ParameterError("--assume requires --ground-truth-epsilon.")
    if truth is not None:
        epsilon, name = truth, "--ground-truth-epsilon"
        if assume is None:
            raise ParameterError(f"{name} requires an assumption about missingness: add --assume.")
    check_epsilon(epsilon, name)
    return float(epsilon)


class _NotWrittenError(Exception):
    """Exception that ends a test of writing a file."""


def check_new(outputs: tuple[Path, ...], rows: Any, *inputs: Path) -> None:
    """Raise OutputError before the charge for files that cannot be written or would be replaced.

    Parameters
    ----------
    outputs : tuple of Path
        Files to write.
    rows : Rows or str or None
        The private rows, whose files must not be replaced.
    *inputs : Path
        Other files that are read.

    Raises
    ------
    OutputError
        If a file cannot be written, exists, or is read.
    """
    from missdp.cli.rows import check_apart, check_free

    check_apart(outputs, rows, *inputs)
    for path in outputs:
        check_free([path])
        with contextlib.suppress(_NotWrittenError), atomic_path(path):
            raise _NotWrittenError


def _synthesizer(facts: Schema, epsilon: float, options: dict[str, Any]) -> tuple[str, Synthesizer]:
    """Return the name of the method, and the synthesizer with the options."""
    from missdp.synth.registry import default_synthesizer, read_settings, synthesizer_named

    rows, delta = options.get("public_rows"), options["delta"]
    if rows is not None and rows < 1:
        raise ParameterError("--public-rows must be at least 1")
    name = options["method"] or default_synthesizer(facts, delta=delta)
    family = synthesizer_named(name)
    optional = {"missing": options["strategy"], "delta": delta, "n_rows": rows}
    settings = {key: value for key, value in optional.items() if value is not None}
    settings |= read_settings(family, options["settings"])
    return name, family(epsilon=epsilon, random_state=options["seed"], **settings)


def _delta_of(model: Synthesizer) -> float:
    """Return the delta of a synthesizer, declared or by default."""
    from missdp.synth.parameters import chosen_delta

    return chosen_delta(model.delta, model.n_rows)


def _charged(planned: _Planned) -> Charged | None:
    """Charge the largest cost of the fit. Private rows may be read only afterwards."""
    model, facts = planned.model, planned.facts
    RUN.note_cost(model.epsilon, _delta_of(model))
    if planned.charge is None:
        return None
    conditions = planned.conditions()
    charged = planned.charge.start(model.planned_parts(facts)[0].events, facts, conditions)
    RUN.note_charge()
    return charged


def save(model: Synthesizer, output: Path, charged: Charged | None) -> None:
    """Save the model in one step, and record the release in the ledger.

    If the output is not writable, the model is saved in a temporary folder.

    Parameters
    ----------
    model : Synthesizer
        The fitted model.
    output : Path
        The model file.
    charged : Charged or None
        The charged line of a ledger.

    Raises
    ------
    OutputError
        If the output is not writable. The model may be saved elsewhere.
    """
    release = secrets.token_hex(16) if charged is None else charged.line["request"]
    model.record_release(release, None if charged is None else charged.line)
    text, failed = model.fitted_.text(), None
    place: Path | None = output
    with DelayedSignals():
        try:
            write_atomically(output, text, overwrite=RUN.overwrite)
        except OutputError as error:
            place, failed = _saved_elsewhere(text, output.name), error
        rows = output.name.removesuffix(".json").removesuffix(".model") + ".csv"
        RUN.note_release(
            "the model, which could not be saved anywhere"
            if place is None
            else f"the model of release {release}, in {str(place)!r}. Draw rows from it at no "
            f"cost: {_sample(place, rows)}"
        )
        if charged is not None and place is not None:
            charged.finish(hashlib.sha256(text).hexdigest(), model.guarantee_)
    if failed is not None:
        raise failed


def _saved_elsewhere(text: bytes, name: str) -> Path | None:
    """Save a model in a temporary folder. Return its path, or None if that fails."""
    with contextlib.suppress(OSError):
        folder = Path(tempfile.mkdtemp(prefix="missdp-"))
        with contextlib.suppress(OutputError):
            write_atomically(folder / name, text)
            return folder / name
        folder.rmdir()
    return None


def _sample(model: Path, rows: str) -> str:
    """Return the command that draws rows from a model."""
    from missdp.cli.rows import shown

    return shlex.join(["missdp", "sample", shown(model), "-o", rows])
