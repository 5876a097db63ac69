"""A bundled public survey with missing values, for examples without a download.

The data set is an extract of the Youth Risk Behavior Survey (YRBS) of the United States Centers for
Disease Control and Prevention. It has 13,583 high-school students and 13 questions of the 2013
wave. The extract is the table ``yrbss`` of the OpenIntro collection. It is United States federal
data in the public domain (17 U.S.C. section 105). 38 % of the rows have at least one missing cell.
Race is missing for 57 % of Hispanic and 7 % of other respondents, so estimates from complete rows
are biased.

The table is public, so its exact figures may be shown. Exact figures of private tables may not.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from missdp.schema import Schema
from missdp.table import Table

__all__ = ["Dataset", "yrbss"]


@dataclass(frozen=True)
class Dataset:
    """A bundled public data set for examples: a file of rows, and the schema of its columns.

    :func:`yrbss` returns one. The rows are public, so no budget is needed to look at them.

    Parameters
    ----------
    path : Path
        The Parquet file with the public rows.
    schema_path : Path
        The TOML file with the schema of the rows.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> yrbss().schema().names[:3]
    ('age', 'gender', 'grade')
    """

    path: Path
    schema_path: Path

    def schema(self) -> Schema:
        """Read the schema of a bundled data set from its TOML file.

        Returns
        -------
        Schema
            The columns, in the order of the file. Public.

        Raises
        ------
        SchemaError
            If the file cannot be read or does not make a schema.
        """
        return Schema.from_toml(self.schema_path)

    def table(self) -> Table:
        """Read the rows of a bundled public data set into memory.

        Returns
        -------
        Table
            All rows, with missing cells, as codes and numbers. Public.

        Raises
        ------
        DataError
            If the file cannot be read or does not fit the schema.
        SchemaError
            If the file of the schema cannot be read.
        """
        return Table.read(self.path, self.schema())


def yrbss() -> Dataset:
    """Return an extract of the Youth Risk Behavior Survey, a public survey with missing values.

    The survey asked high-school students of the United States in 2013. Use it for examples.

    Returns
    -------
    Dataset
        13,583 rows and 13 columns. Its methods ``schema`` and ``table`` read it. Public.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> yrbss().table()
    Table(age, gender, grade, ...)
    """
    folder = Path(str(resources.files(__name__)))
    return Dataset(path=folder / "yrbss.parquet", schema_path=folder / "yrbss.toml")
