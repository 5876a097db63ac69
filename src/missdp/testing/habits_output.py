"""Habits of a synthesizer: what comes out, in which shape, and what comes in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from missdp.accounting import Budget
from missdp.errors import (
    DataError,
    MissDPError,
    NotFittedError,
    OutputError,
    ParameterError,
    SchemaError,
)
from missdp.schema import Categorical, Schema
from missdp.sources import DuckDBSource, strategy_named
from missdp.table import Table
from missdp.testing.habits import in_folder
from missdp.testing.record import Caught, expect, refuses
from missdp.testing.subject import Subject, frame_of

__all__ = ["OUTPUT_HABITS"]


def output_shape(on: Subject) -> None:
    """Columns, types and values of synthetic rows depend on the schema alone."""
    wanted = _shape_of(on.frame(50))
    tables = {
        "ordinary": on.table(),
        "empty": on.table(0),
        "one row": on.table(1),
        "178 rows": on.table(178),
        "all missing": on.constant(50, missing=True),
        "constant": on.constant(50),
    }
    for name, table in tables.items():
        synthetic = on.build(n_rows=100).fit(table).sample()
        expect(
            _shape_of(synthetic) == wanted, f"columns or types differ for a table that is {name}"
        )
        expect(len(synthetic) == 100, f"the declared number of rows is not drawn ({name})")
        expect(not synthetic.isna().any().any(), f"filled rows have holes ({name})")
        Table.read(synthetic, on.schema)  # every value is in the declared domain


def sample_sizes(on: Subject) -> None:
    """Any number of rows is drawn, 0 too; what is no number of rows is refused."""
    model = on.build(random_state=None).fit(on.table())
    for n in (0, 1, 7):
        expect(len(model.sample(n)) == n, f"sample({n}) must return {n} rows")
    bad: Any
    for bad in (-1, 1.5, True, "3"):
        with refuses(ParameterError, f"sample({bad!r})"):
            model.sample(bad)
    for bad in (-1, "x", 1.5, True):
        with refuses(ParameterError, f"random_state={bad!r}", containing="random_state"):
            model.sample(3, random_state=bad)


def not_fitted(on: Subject, folder: Path) -> None:
    """What needs a fit says so."""
    model = on.build()
    for call in (lambda: model.sample(1), lambda: model.save(folder / "m.json")):
        with refuses(NotFittedError, "a model that is not fitted"):
            call()


def keeping_holes(on: Subject) -> None:
    """Holes can be kept where the strategy models them, and about as many as there were."""
    model = on.build().fit(on.table(2000))
    if not strategy_named(on.strategy).models_holes:
        with refuses(ParameterError, "keeping holes", containing="joint"):
            model.sample(10, missing_values="keep")
        return
    holes = model.sample(2000, missing_values="keep").isna().mean()
    for attribute in on.schema:
        rate = float(holes[attribute.name])
        wanted = 0.2 if attribute.nullable else 0.0
        near = abs(rate - wanted) < 0.12 if attribute.nullable else rate == 0
        expect(near, f"kept holes of {attribute.name}: {rate:.2f}, of the table: {wanted}")


def numpy_numbers(on: Subject, folder: Path) -> None:
    """Numbers of NumPy are numbers."""
    model = on.build(
        epsilon=np.float32(0.7 * on.epsilon), n_rows=np.int64(50), random_state=np.int64(3)
    ).fit(on.table())
    most = float(np.float32(0.7 * on.epsilon)) * (1 + 1e-9)
    expect(model.guarantee_.epsilon <= most, "epsilon of NumPy was rounded up")
    int_of_numpy: Any = np.int64(3)
    expect(len(model.sample()) == 50, "n_rows of NumPy was not taken")
    expect(len(model.sample(int_of_numpy)) == 3, "sample must take a number of NumPy")
    model.save(folder / "m.json")
    expect(
        on.family.load(folder / "m.json").guarantee_ == model.guarantee_,
        "a model with numbers of NumPy must be read back as it was",
    )


def save_and_load(on: Subject, folder: Path) -> None:
    """A saved model draws the same rows and states the same guarantee; broken files are refused."""
    model, path = on.build().fit(on.table()), folder / "model.json"
    model.save(path)
    again = on.family.load(path)
    expect(again.guarantee_ == model.guarantee_, "the guarantee changed on the way")
    expect(again.schema_ == model.schema_, "the schema changed on the way")
    drawn = (m.sample(50, random_state=1) for m in (again, model))
    expect(next(drawn).equals(next(drawn)), "a loaded model draws other rows")
    with refuses(OutputError, "a folder that does not exist"):
        model.save(folder / "nowhere" / "model.json")
    # Of the first format, which has no checksum.
    document = json.loads(path.read_text(encoding="utf-8")) | {"format": 1}
    broken: dict[str, Any]
    for broken in (
        {},
        document | {"released": {}},
        document | {"released": None},
        document | {"parameters": {"colour": 1}},
        document | {"parameters": None},
    ):
        path.write_text(json.dumps(broken), encoding="utf-8")
        with refuses(DataError, "a broken model file", containing="not a missdp model"):
            on.family.load(path)


def repeatable(on: Subject) -> None:
    """A seed repeats a fit and a sample, and nothing else does."""
    one, two = (on.build().fit(on.table()).sample(200) for _ in range(2))
    expect(one.equals(two), "equal seeds must draw equal rows")
    secure = [on.build(random_state=None).fit(on.table()).sample(200) for _ in range(2)]
    expect(not secure[0].equals(secure[1]), "without a seed, two fits drew the same rows")


def kinds_of_input(on: Subject, folder: Path) -> None:
    """Frames, files and tables are all taken, and the kind of frame comes back."""
    frame = on.frame()
    frame.to_csv(folder / "x.csv", index=False)
    for data in (frame, folder / "x.csv", str(folder / "x.csv")):
        out = on.build().fit(data, schema=on.schema).sample(5)
        expect(type(out) is type(frame), "pandas and files must give pandas")
    other = on.table().to_arrow()
    expect(
        type(on.build().fit(other, schema=on.schema).sample(5)) is type(other),
        "the kind of frame that was fitted must come back",
    )
    with refuses(SchemaError, "a frame without a schema", containing="schema is needed"):
        on.build().fit(frame)


def streaming(on: Subject, folder: Path) -> None:
    """Streamed rows give what rows in memory give, or are refused before anything is charged."""
    frame = on.frame()
    frame.to_parquet(folder / "x.parquet")
    source = DuckDBSource(folder / "x.parquet", on.schema)
    if strategy_named(on.strategy).needs_rows:
        budget = Budget(10 * on.epsilon, min(0.9, 10 * on.delta))
        with refuses(ParameterError, "streamed rows", containing="in memory"):
            on.build(budget=budget).fit(source)
        expect(not budget.events, "streamed rows were charged for before they were refused")
        return
    streamed = on.build().fit(source).sample(50)
    in_memory = on.build().fit(Table.read(frame, on.schema)).sample(50)
    expect(streamed.equals(in_memory), "streamed rows give another model")


def odd_names(on: Subject) -> None:
    """Columns may have any name."""
    names = ("schema", "counts", "größe", "a b", "missing", "大")
    schema = Schema(tuple(Categorical(name=n, levels=("x", "ü"), nullable=True) for n in names))
    out = Subject(on.family, on.strategy, on.parameters, schema)
    expect(
        tuple(out.build().fit(out.table(120)).sample(3).columns) == names,
        "columns must keep their names",
    )


def one_column(on: Subject) -> None:
    """A table of one column is learned."""
    schema = Schema((Categorical(name="x", levels=("a", "b"), nullable=True),))
    codes = {"x": [0] * 300 + [1] * 100 + [2] * 100}
    table = Table.from_codes(schema, codes)
    model = on.build(epsilon=max(5.0, on.epsilon)).fit(frame_of(table), schema=schema)
    share = float((model.sample(1000)["x"] == "a").mean())
    expect(abs(share - 0.75) < 0.1, f"the share of 75 % was learned as {share:.0%}")


def many_columns(on: Subject) -> None:
    """Sixty columns are handled, or refused before anything is charged."""
    _handled_or_refused(
        on,
        Schema(
            tuple(Categorical(name=f"c{i}", levels=("x", "y"), nullable=True) for i in range(60))
        ),
    )


def huge_domain(on: Subject) -> None:
    """Thousands of levels are handled, or refused before anything is charged."""
    levels = tuple(f"l{i}" for i in range(3000))
    _handled_or_refused(
        on, Schema(tuple(Categorical(name=n, levels=levels, nullable=True) for n in "xyz"))
    )


def progress(on: Subject) -> None:
    """Progress shows no number but the fraction done, and the same stages for any table."""
    seen: list[set[str]] = []
    for n in (200, 600):
        stages: set[str] = set()

        def show(stage: str, done: float, stages: set[str] = stages) -> None:
            expect(0 <= done <= 1, "the fraction done must be between 0 and 1")
            expect(not any(ch.isdigit() for ch in stage), "a stage must show no number")
            stages.add(stage)

        on.build(n_rows=500, progress=show).fit(on.table(n))
        seen.append(stages)
    expect(seen[0] == seen[1], "stages depend on the rows")


def _handled_or_refused(on: Subject, schema: Schema) -> None:
    budget = Budget(2 * on.epsilon, min(0.5, 2 * on.delta))
    wide = Subject(on.family, on.strategy, on.parameters, schema)
    with Caught() as caught:
        out = wide.build(budget=budget).fit(wide.table(60)).sample(10)
        expect(out.shape == (10, len(schema)), "the shape must be the schema's")
    if isinstance(caught.error, MissDPError):
        expect(
            not budget.events, "what public facts rule out was charged for before it was refused"
        )
    elif caught.error is not None:
        expect(False, f"refuse by a typed error, not by {caught.shown}")


def _shape_of(frame: Any) -> tuple[list[str], list[str]]:
    return list(frame.columns), [str(kind) for kind in frame.dtypes]


OUTPUT_HABITS: tuple[Callable[[Subject], None], ...] = (
    output_shape,
    sample_sizes,
    in_folder(not_fitted),
    keeping_holes,
    in_folder(numpy_numbers),
    in_folder(save_and_load),
    repeatable,
    in_folder(kinds_of_input),
    in_folder(streaming),
    odd_names,
    one_column,
    many_columns,
    huge_domain,
    progress,
)
