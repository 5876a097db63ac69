"""A paid release is kept first; only then is anything else done with it."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from missdp.cli import outcome
from missdp.cli.common import check_rows, counted
from missdp.errors import OutputError, ParameterError
from missdp.files import reserved
from missdp.synth.base import Synthesizer
from missdp.table import Table
from missdp.table.files import write_arrow

__all__ = ["KeptModel", "model_beside", "paid", "write_rows"]

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
