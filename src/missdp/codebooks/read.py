"""One reader for every format, chosen by the name of the file."""

from __future__ import annotations

from pathlib import Path

from missdp.codebooks.book import CodeBook
from missdp.codebooks.ddi import read_ddi
from missdp.codebooks.frictionless import read_frictionless
from missdp.codebooks.packages import PACKAGES, read_package
from missdp.codebooks.redcap import read_redcap
from missdp.errors import SchemaError, replacing

_FORMATS = ".json (Frictionless), .csv (REDCap), .xml (DDI-Codebook), .sav or .dta (SPSS, Stata)"


def read_codebook(path: str | Path) -> CodeBook:
    """Return what a code book says of each column of a table.

    Parameters
    ----------
    path : str or Path
        A Frictionless Table Schema or data package (``.json``), a REDCap data dictionary
        (``.csv``), a DDI-Codebook (``.xml``), or a file of SPSS (``.sav``, ``.zsav``) or Stata
        (``.dta``), of which only the description of variables is read.

    Raises
    ------
    SchemaError
        If the file cannot be read, is not of its format, or contradicts itself.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from missdp.codebooks import read_codebook
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
        return read_package(path)
    if kind == ".xml":
        return read_ddi(data)
    with replacing(ValueError, by=SchemaError("the code book is not UTF-8: save it as such")):
        text = data.decode("utf-8-sig")
    return read_frictionless(text) if kind == ".json" else read_redcap(text)
