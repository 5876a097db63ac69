"""``missdp evaluate``: how close a synthetic table is to the truth. Curator only."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from missdp.cli.common import (
    DataArgument,
    JsonOption,
    SchemaOption,
    SyntheticArgument,
    emit,
)
from missdp.errors import ParameterError, replacing
from missdp.evaluate import classifier_f1, marginal_distance, missing_fidelity, progress_bar
from missdp.schema import Schema
from missdp.table import Table

__all__ = ["evaluate"]

_WARNING = (
    "CURATOR ONLY: these figures are computed from the private table without noise. "
    "Do not publish them."
)


def evaluate(
    data: DataArgument,
    synthetic: SyntheticArgument,
    schema: SchemaOption,
    ways: Annotated[str, typer.Option(help="Marginals to compare, e.g. 1,2,3.")] = "1,2",
    bins: Annotated[
        int | None, typer.Option(help="Compare numbers on this many bins instead of the schema's.")
    ] = None,
    f1: Annotated[
        bool, typer.Option("--f1", help="Also train nine classifiers per attribute (slow).")
    ] = False,
    test: Annotated[
        str | None,
        typer.Option(help="Held-out true rows for --f1 that were not synthesized from."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the classifiers.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Compare a synthetic table with the private one. The result is private, for the curator."""
    facts = Schema.from_toml(schema)
    truth, other = Table.read(data, facts), Table.read(synthetic, facts)
    sizes = _parse_ways(ways, len(facts))
    document: dict[str, Any] = {"curator_only": True, "marginals": {}}
    parts = [_WARNING]
    for k in sizes:
        with progress_bar(f"{k}-way marginals", console=Console(stderr=True)) as progress:
            distance = marginal_distance(truth, other, k=k, bins=bins, progress=progress)
        document["marginals"][str(k)] = distance.to_dict()
        parts.append(str(distance))
    fidelity = missing_fidelity(truth, other)
    document["missing"] = fidelity.to_dict()
    parts.append(str(fidelity))
    if f1:
        with progress_bar("training classifiers", console=Console(stderr=True)) as progress:
            scores = classifier_f1(
                truth,
                other,
                random_state=seed,
                test=None if test is None else Table.read(test, facts),
                progress=progress,
            )
        document["f1"] = scores.to_dict()
        parts.append(str(scores))
    emit(document, "\n\n".join(parts), as_json=as_json)


def _parse_ways(text: str, attributes: int) -> list[int]:
    refusal = ParameterError("--ways must be whole numbers separated by commas, e.g. 1,2")
    with replacing(ValueError, by=refusal):
        ways = [int(part) for part in text.split(",")]
    if not ways or any(not 1 <= k <= min(3, attributes) for k in ways):
        raise ParameterError(f"--ways must be between 1 and {min(3, attributes)}")
    return ways
