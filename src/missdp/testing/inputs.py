"""Habits of a synthesizer with what it is given: frames, files, and rows that are streamed."""

from __future__ import annotations

from pathlib import Path

from missdp.accounting import Budget
from missdp.errors import ParameterError, SchemaError
from missdp.sources.duckdb import DuckDBSource
from missdp.table import Table
from missdp.testing.findings import expect, refuses
from missdp.testing.subject import Subject

__all__ = ["kinds_of_input", "streaming"]


def kinds_of_input(on: Subject, folder: Path) -> None:
    """Frames, files and tables are all taken, and the kind of frame comes back."""
    frame = on.frame()
    frame.to_csv(folder / "x.csv", index=False)
    for data in (frame, folder / "x.csv", str(folder / "x.csv")):
        out = on.build().fit(data, schema=on.schema).sample(5)
        expect(type(out) is type(frame), "pandas and files must give pandas")
    other = on.table().to_arrow()
    out = on.build().fit(other, schema=on.schema).sample(5)
    expect(type(out) is type(other), "the kind of frame that was fitted must come back")
    with refuses(SchemaError, "a frame without a schema", containing="schema is needed"):
        on.build().fit(frame)


def streaming(on: Subject, folder: Path) -> None:
    """Streamed rows give what rows in memory give, or are refused before anything is charged."""
    frame = on.frame()
    frame.to_parquet(folder / "x.parquet")
    source = DuckDBSource(folder / "x.parquet", on.schema)
    budget = Budget(10 * on.epsilon, min(0.9, 10 * on.delta))
    try:
        streamed = on.build(budget=budget).fit(source).sample(50)
    except ParameterError as error:  # of strategies that need rows, and families that do
        expect("in memory" in str(error), "the refusal of streamed rows should say 'in memory'")
        expect(not budget.events, "streamed rows were charged for before they were refused")
        return
    in_memory = on.build().fit(Table.read(frame, on.schema)).sample(50)
    expect(streamed.equals(in_memory), "streamed rows give another model")
