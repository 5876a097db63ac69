"""Options and output that several commands share.

A paid release is kept first; only then is anything else done with it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from missdp.cli import outcome
from missdp.cli.outcome import say
from missdp.errors import OutputError, ParameterError
from missdp.files import reserved
from missdp.synth.base import Synthesizer
from missdp.table import Table
from missdp.table.frames import write_arrow

__all__ = [
    "DataArgument",
    "JsonOption",
    "KeptModel",
    "SchemaOption",
    "SeedOption",
    "SyntheticArgument",
    "check_epsilon",
    "check_rows",
    "counted",
    "emit",
    "model_beside",
    "paid",
    "progress_bar",
    "write_rows",
]


DataArgument: TypeAlias = Annotated[
    Path, typer.Argument(help="CSV or Parquet file with the private rows.", show_default=False)
]
SyntheticArgument: TypeAlias = Annotated[
    Path, typer.Argument(help="CSV or Parquet file with the synthetic rows.", show_default=False)
]
SchemaOption: TypeAlias = Annotated[
    Path, typer.Option("--schema", help="TOML file with the public facts.", show_default=False)
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
SeedOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--seed", help="Make the run repeatable; for tests only.", show_default=False),
]

# A synthetic cell is held as a code, a value and a text at once, for a moment.
_BYTES_PER_CELL = 32
_EPSILONS = (1e-6, 1e5)


def check_epsilon(epsilon: float) -> None:
    """Refuse early an epsilon with which nothing sensible can be released."""
    if not _EPSILONS[0] <= epsilon <= _EPSILONS[1]:
        raise ParameterError(
            f"--epsilon must be from {_EPSILONS[0]:g} (all else is noise) to {_EPSILONS[1]:,.0f} "
            "(all else is bare data)"
        )


def check_rows(rows: int | None, columns: int = 1) -> None:
    """Refuse early a number of rows that is negative or cannot fit into this machine's memory."""
    if rows is None:
        return
    if rows < 0:
        raise ParameterError("--rows must be at least 0")
    most = _memory() // (_BYTES_PER_CELL * columns)
    if rows > most:
        raise ParameterError(f"--rows must be at most {most:,} here: more do not fit into memory")


def _memory() -> int:
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 2**30)
    return 2**34  # a guess where the system does not say


def counted(number: int, noun: str) -> str:
    """Return the number with its noun, in the plural where it belongs.

    Examples
    --------
    >>> counted(1, "row"), counted(13583, "row")
    ('1 row', '13583 rows')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def emit(document: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print a result once: as JSON for machines, with any warnings, or as text for people."""
    if as_json:
        whole = {**document, "warnings": outcome.warning_texts()}
        say(json.dumps(_finite(whole), ensure_ascii=False, indent=1, allow_nan=False))
    else:
        say(text)


def _finite(value: Any) -> Any:
    """Return the value with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[str, float | None], None]]:
    """Show a progress bar on standard error; it gets stage names and fractions only.

    The fraction None stands for a stage of unknown length.
    """
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=sys.stderr is None or not console.is_terminal,
    )
    with bar:
        task = bar.add_task("starting", total=1.0)

        def show(stage: str, done: float | None) -> None:
            total = None if done is None else 1.0
            bar.update(task, description=stage, completed=done or 0.0, total=total)

        yield show


# Set aside for a model before it is paid for; more than the models of ordinary surveys take.
_ROOM = 8 * 2**20


class KeptModel:
    """Where a paid model goes: where it was meant to, or else wherever it can."""

    def __init__(self, path: Path, output: Path) -> None:
        self._path, self._output = path, output
        self.path: Path | None = None

    def save(self, model: Synthesizer) -> None:
        """Save the model at once; a failure is told by `check`, after the rows were written."""
        with contextlib.suppress(OutputError):
            model.save(self._path)
            self.path = self._path
        if self.path is None:
            self.path = _saved_elsewhere(model, self._path.name)
        outcome.released(self._said())

    def _said(self) -> str:
        if self.path is None:
            return "the model, which could not be saved anywhere"
        again = shlex.join(["missdp", "sample", str(self.path), "-o", str(self._output)])
        return f"the model, in {str(self.path)!r}; draw rows from it at no cost: {again}"

    def check(self) -> None:
        """Refuse to call it a success if the model is not where it was meant to be."""
        if self.path != self._path:
            raise OutputError(f"cannot write {str(self._path)!r}; the rows were written")


def _saved_elsewhere(model: Synthesizer, name: str) -> Path | None:
    with contextlib.suppress(OSError):
        folder = Path(tempfile.mkdtemp(prefix="missdp-"))
        with contextlib.suppress(OutputError):
            model.save(folder / name)
            return folder / name
        folder.rmdir()
    return None


def model_beside(output: Path) -> Path:
    """Return a free name beside the output: a model that was paid for is not replaced unasked."""
    for number in count(1):
        name = f"{output.stem}.model{f'-{number}' if number > 1 else ''}.json"
        if not os.path.lexists(output.with_name(name)):
            break
    return output.with_name(name)


@contextlib.contextmanager
def paid(model: Path, *others: Path | None) -> Iterator[None]:
    """Have every file of a release open before it is paid for."""
    with reserved([model], room=_ROOM), reserved(others):
        yield


def write_rows(
    model: Synthesizer,
    output: Path,
    *,
    rows: int | None,
    keep_holes: bool,
    seed: int | None,
    progress: Callable[[str, float | None], None],
) -> Table:
    """Draw rows from a released model, write them, and return them."""
    wanted = model.n_rows_ if rows is None else rows
    check_rows(wanted, len(model.schema_))
    progress(f"drawing {counted(wanted, 'row')}", None)
    synthetic = model.sample_table(
        rows, missing_values="keep" if keep_holes else "fill", random_state=seed
    )
    if len(synthetic) == 0 and rows != 0:
        raise ParameterError(
            "--rows must be given here: the released number of rows is 0, for the table is small "
            "for this epsilon, and an empty file is only written if asked for"
        )
    progress("writing", None)
    write_arrow(synthetic.to_arrow(), output)
    return synthetic
