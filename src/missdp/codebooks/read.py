"""One reader for every format, chosen by the name of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from missdp.codebooks.book import CodeBook, Domain, Value, Variable
from missdp.codebooks.redcap import read_redcap
from missdp.codebooks.standards import read_ddi, read_frictionless
from missdp.errors import SchemaError, replacing
from missdp.schema.attributes import number_text
from missdp.table.packages import pyreadstat_module

_FORMATS = ".json (Frictionless), .csv (REDCap), .xml (DDI-Codebook), .sav or .dta (SPSS, Stata)"


def read_codebook(path: str | Path) -> CodeBook:
    """Return what a code book says of each column of a table.

    Parameters
    ----------
    path : str or Path
        A Frictionless Table Schema or data package (``.json``), a REDCap data dictionary
        (``.csv``), a DDI-Codebook (``.xml``), or a file of SPSS (``.sav``, ``.zsav``) or Stata
        (``.dta``), of which only the description of variables is read.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> fields = [{"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "table-schema.json")
    ...     _ = path.write_text(json.dumps({"fields": fields}))
    ...     read_codebook(path).schema()["age"].upper
    120.0
    """
    path = Path(path)

    def unreadable(error: BaseException) -> SchemaError:
        return SchemaError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', error)}")

    kind = path.suffix.lower()
    if kind not in (".json", ".csv", ".xml", *PACKAGES):
        raise SchemaError(f"a code book is one of {_FORMATS}, not {path.name!r}")
    with replacing(OSError, by=unreadable):
        data = path.read_bytes() if kind not in PACKAGES else b""
    if kind in PACKAGES:
        return _read_package(path)
    if kind == ".xml":
        return read_ddi(data)
    with replacing(ValueError, by=SchemaError("the code book is not UTF-8: save it as such")):
        text = data.decode("utf-8-sig")
    return read_frictionless(text) if kind == ".json" else read_redcap(text)


PACKAGES: Final = (".sav", ".zsav", ".dta")
_MOST = 100  # codes of one range of missing values


def _read_package(path: Path) -> CodeBook:
    """Return the code book that a file of SPSS or Stata brings along."""
    pyreadstat = pyreadstat_module()
    stata = path.suffix.lower() == ".dta"
    read = pyreadstat.read_dta if stata else pyreadstat.read_sav
    # The library has errors of many kinds, some of which quote the file.
    broken = SchemaError(f"cannot read {str(path)!r}: it is no file of its format")
    with replacing(Exception, by=broken):
        _, meta = read(str(path), metadataonly=True, user_missing=True)
    variables = tuple(_variable(name, meta) for name in meta.column_names)
    return CodeBook("Stata file" if stata else "SPSS file", variables)


def _variable(name: str, meta: Any) -> Variable:
    missing, notes = _missing(name, meta)
    labels = meta.variable_value_labels.get(name, {})
    codes = {_code(code): str(label) for code, label in labels.items()}
    values = tuple(Value(code, label, code in missing) for code, label in codes.items())
    values += tuple(Value(code, "", True) for code in missing if code not in codes)
    written = meta.original_variable_types.get(name, "?")
    text = meta.readstat_variable_types.get(name) == "string"
    return Variable(
        name=name,
        source=f"variable of format {written}",
        domain=_dated(written) or _domain(values, meta.variable_measure.get(name, ""), text=text),
        values=values,
        label=meta.column_names_to_labels.get(name) or "",
        notes=tuple(notes),
    )


def _dated(written: str) -> Domain | None:
    if written.startswith(("DATETIME", "%tc")):
        return "datetime"
    return "date" if re.match(r"[AEJS]?DATE|%t?d", written) else None


def _domain(values: tuple[Value, ...], measure: str, *, text: bool) -> Domain:
    if any(not value.missing for value in values) and measure != "scale":
        return "ordered" if measure == "ordinal" else "levels"
    return "other" if text else "number"


def _missing(name: str, meta: Any) -> tuple[list[str], list[str]]:
    """Return codes that were declared missing, and ranges that could not be listed."""
    found, notes = [_code(c) for c in meta.missing_user_values.get(name, [])], []
    for given in meta.missing_ranges.get(name, []):
        codes = list(_range(given["lo"], given["hi"]))
        found += codes
        if not codes:
            notes.append("not translated: a range of missing values")
    return [f".{c}" if len(c) == 1 and c.isalpha() else c for c in found], notes


def _range(low: Any, high: Any) -> Iterator[str]:
    """Yield the codes of a range, if they can be listed."""
    if low == high:
        yield _code(low)
    elif isinstance(low, float) and low.is_integer() and high - low < _MOST:
        yield from map(str, range(int(low), int(high) + 1))


def _code(code: object) -> str:
    return number_text(float(code)) if isinstance(code, (int, float)) else str(code).strip()
