"""Reader of code books in all formats, selected by the suffix of the file."""

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
    """Read a code book: a file that describes the columns of a table, without its rows.

    Use it to start a schema from public facts: ``read_codebook(path).schema()``.

    Parameters
    ----------
    path : str or Path
        A Frictionless Table Schema or data package (``.json``), a REDCap data dictionary
        (``.csv``), a DDI-Codebook (``.xml``), or a file of SPSS (``.sav``, ``.zsav``) or Stata
        (``.dta``). In files of SPSS and Stata only the description of variables is read.

    Returns
    -------
    CodeBook
        Facts about each column. Public. No row of data is read.

    Raises
    ------
    SchemaError
        If the file cannot be read, is not in one of these formats, or contradicts itself.
    MissingDependencyError
        If the package for files of SPSS and Stata is not installed.

    Examples
    --------
    >>> from missdp.codebooks import read_codebook
    >>> import json, pathlib, tempfile
    >>> fields = [{"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "table-schema.json")
    ...     _ = path.write_text(json.dumps({"fields": fields}))
    ...     read_codebook(path).schema()["age"].upper
    120.0
    """
    path = Path(path)
    problem = f"cannot read {str(path)!r}"
    kind = path.suffix.lower()
    if kind not in (".json", ".csv", ".xml", *PACKAGES):
        raise SchemaError(f"a code book is one of {_FORMATS}, not {path.name!r}")
    with replacing(OSError, by=lambda e: SchemaError(f"{problem}: {getattr(e, 'strerror', e)}")):
        data = path.read_bytes() if kind not in PACKAGES else b""
    if kind in PACKAGES:
        return _read_package(path)
    if kind == ".xml":
        return read_ddi(data)
    with replacing(ValueError, by=SchemaError("the code book is not UTF-8. Save it as UTF-8.")):
        text = data.decode("utf-8-sig")
    return read_frictionless(text) if kind == ".json" else read_redcap(text)


PACKAGES: Final = (".sav", ".zsav", ".dta")
_MAX_RANGE = 100  # codes of one range of missing values


def _read_package(path: Path) -> CodeBook:
    """Return the code book in a file of SPSS or Stata."""
    pyreadstat = pyreadstat_module()
    stata = path.suffix.lower() == ".dta"
    read = pyreadstat.read_dta if stata else pyreadstat.read_sav
    # The library raises errors of many types, some of which quote the file.
    broken = SchemaError(f"cannot read {str(path)!r}: it is not a file of its format")
    with replacing(Exception, by=broken):
        _, meta = read(str(path), metadataonly=True, user_missing=True)
    variables = tuple(_variable(name, meta) for name in meta.column_names)
    return CodeBook("Stata file" if stata else "SPSS file", variables)


def _variable(name: str, meta: Any) -> Variable:
    """Return the facts of the metadata about a variable."""
    missing, notes = _missing(name, meta)
    labels = meta.variable_value_labels.get(name, {})
    codes = {_code(code): str(label) for code, label in labels.items()}
    values = tuple(Value(code, label, code in missing) for code, label in codes.items())
    values += tuple(Value(code, "", True) for code in missing if code not in codes)
    form = meta.original_variable_types.get(name, "?")
    text = meta.readstat_variable_types.get(name) == "string"
    return Variable(
        name=name,
        source=f"variable of format {form}",
        domain=_date_domain(form)
        or _domain(values, meta.variable_measure.get(name, ""), text=text),
        values=values,
        label=meta.column_names_to_labels.get(name) or "",
        notes=tuple(notes),
    )


def _date_domain(form: str) -> Domain | None:
    """Return the domain of a format of dates or moments, or None for other formats."""
    if form.startswith(("DATETIME", "%tc")):
        return "datetime"
    return "date" if re.match(r"[AEJS]?DATE|%t?d", form) else None


def _domain(values: tuple[Value, ...], measure: str, *, text: bool) -> Domain:
    """Return the domain of a variable with these values."""
    if any(not value.missing for value in values) and measure != "scale":
        return "ordered" if measure == "ordinal" else "levels"
    return "other" if text else "number"


def _missing(name: str, meta: Any) -> tuple[list[str], list[str]]:
    """Return the codes of missing cells, and notes on ranges that cannot be listed."""
    missing, notes = [_code(c) for c in meta.missing_user_values.get(name, [])], []
    for limits in meta.missing_ranges.get(name, []):
        codes = list(_range(limits["lo"], limits["hi"]))
        missing += codes
        if not codes:
            notes.append("not translated: a range of missing values")
    return [f".{c}" if len(c) == 1 and c.isalpha() else c for c in missing], notes


def _range(low: Any, high: Any) -> Iterator[str]:
    """Yield the codes of a range, if they can be listed."""
    if low == high:
        yield _code(low)
    elif isinstance(low, float) and low.is_integer() and high - low < _MAX_RANGE:
        yield from map(str, range(int(low), int(high) + 1))


def _code(code: object) -> str:
    """Return the text of a code."""
    return number_text(float(code)) if isinstance(code, (int, float)) else str(code).strip()
