"""All figures that compare a synthetic table with a private one, in memory or streamed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from missdp.errors import DataError, ParameterError, replacing
from missdp.evaluate.classifiers import check_learners, classifier_f1
from missdp.evaluate.distances import marginal_distance, missing_fidelity, missingness_by_kind
from missdp.evaluate.fidelity import fidelity, plot_columns
from missdp.evaluate.violations import rule_violations
from missdp.progress import Progress
from missdp.schema import Schema
from missdp.table import Rows, Table
from missdp.table.memory import fits_into_memory
from missdp.table.table import read_columns
from missdp.table.units import rows_of_units


@dataclass(frozen=True)
class TableComparison:
    """Figures that are computed from private rows without noise.

    Parameters
    ----------
    document : dict
        The figures, by name.
    texts : list of str
        The figures in words. The last text is the verdict.
    """

    document: dict[str, Any]
    texts: list[str]


def compare_tables(
    private: Rows,
    synthetic: Rows,
    schema: Schema,
    *,
    ways: str = "1,2",
    f1: bool = False,
    control: str | None = None,
    plot: Path | None = None,
    progress: Progress | None = None,
) -> TableComparison:
    """Compare a synthetic table with the private one.

    Parameters
    ----------
    private, synthetic : Rows
        The rows. They are held in memory if both fit into it, and streamed otherwise.
    schema : Schema
        Public facts about the private rows, their unit and their weight included.
    ways : str
        Numbers of columns of the compared marginals, separated by commas.
    f1 : bool, default False
        If True, classifiers are trained too.
    control : str, optional
        Rows that were not synthesized from, on which classifiers are tested.
    plot : Path, optional
        File for a picture of every column.
    progress : callable, optional
        Called with the name of a stage and the share that is done.

    Returns
    -------
    TableComparison
        Private figures, for the curator.

    Raises
    ------
    DataError
        If a table does not fit the schema. The message names the table.
    ParameterError
        If ``ways`` cannot be read, or classifiers would need more memory than there is.
    """
    if f1:
        check_learners()
    rows, counted, facts = _private(private, schema)
    truth, other = _held((counted, synthetic), facts)
    if f1 and not (isinstance(truth, Table) and isinstance(other, Table)):
        raise ParameterError("--f1 learns from both tables in memory: they are too large for that")
    with _about("the control rows"):
        held_out = None if control is None else Table.read(control, facts)
    document: dict[str, Any] = {"marginals": {}}
    texts = []
    for k in _parse_ways(ways, len(facts)):
        distance = marginal_distance(truth, other, k=k, schema=facts, progress=progress)
        document["marginals"][str(k)] = distance.to_dict()
        texts.append(str(distance))
    missing = missing_fidelity(truth, other, schema=facts)
    document["missing"] = missing.to_dict()
    texts.append(str(missing))
    texts += _public_facts(document, truth, other, facts, sources=(rows, synthetic))
    if f1:
        scores = classifier_f1(truth, other, random_state=0, test=held_out, progress=progress)
        document["f1"] = scores.to_dict()
        texts.append(str(scores))
    quality = fidelity(truth, other, schema=facts)
    document["fidelity"] = quality.to_dict()
    if plot is not None:
        plot_columns(truth, other, plot, schema=facts)
    texts += [str(quality), f"{quality.verdict} {missing.verdict}".rstrip()]
    return TableComparison(document, texts)


def check_rows_fit(data: Any, schema: Schema) -> None:
    """Raise an error if a row does not fit the schema."""
    for _ in read_columns(rows_of_units(data, schema), schema.without_unit):
        pass


def _private(rows: Rows, facts: Schema) -> tuple[Any, Any, Schema]:
    """Return the private rows of all units, the weighted rows, and their schema."""
    with _about("the private table"):
        chosen = counted = rows_of_units(rows, facts)
        if facts.is_weighted:
            read = Table.read(chosen, facts.without_unit)  # the same rows of each unit
            counted = Rows.of(read._as_counted().to_arrow(missing_as="codes"))
    return chosen, counted, facts.without_unit


def _held(streams: tuple[Rows, Rows], facts: Schema) -> Iterator[Any]:
    """Yield both tables, in memory if both fit into it, and else as streams."""
    each = [stream.approximate_length() for stream in streams]
    rows = None if None in each else sum(n for n in each if n is not None)
    held = fits_into_memory(rows, facts, tables=2)  # and once more where they are aligned
    for stream, which in zip(streams, ("private", "synthetic"), strict=True):
        with _about(f"the {which} table"):
            if not held:
                check_rows_fit(stream, facts)
            read = Table.read(stream, facts) if held else stream
        yield read


def _about(table: str) -> AbstractContextManager[None]:
    """Add the name of a table to error messages."""
    return replacing(DataError, by=lambda error: DataError(f"{table}: {error}"))


def _public_facts(
    document: dict[str, Any],
    truth: Table | Rows,
    other: Table | Rows,
    facts: Schema,
    *,
    sources: tuple[Rows, Rows],
) -> list[str]:
    """Add the kinds of missing and the violated rules of both tables, if the schema has any."""
    parts = []
    if any({*attribute.kinds} - {"missing"} for attribute in facts):
        kinds = missingness_by_kind(truth, other, schema=facts)
        document["kinds"] = kinds.to_dict()
        parts.append(str(kinds))
    if facts.rule_set.bound:
        true, made = (rule_violations(source, schema=facts) for source in sources)
        document["rules"] = {"truth": true.to_dict(), "synthetic": made.to_dict()}
        parts += [f"synthetic table: {made}", f"private table: {true}"]
    return parts


def _parse_ways(text: str, attributes: int) -> list[int]:
    refusal = ParameterError("--ways must be whole numbers separated by commas, e.g. 1,2")
    with replacing(ValueError, by=refusal):
        ways = [int(part) for part in text.split(",")]
    possible = [k for k in ways if k <= attributes]  # of one attribute, there are no pairs
    if not possible or any(not 1 <= k <= 3 for k in ways):
        raise ParameterError(f"--ways must be between 1 and {min(3, attributes)}")
    return possible
