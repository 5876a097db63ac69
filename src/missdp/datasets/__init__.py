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
    """A bundled public data set: a Parquet file and its schema.

    Parameters
    ----------
    path : Path
        Parquet file.
    schema_path : Path
        TOML schema.
    """

    path: Path
    schema_path: Path

    def schema(self) -> Schema:
        """Read the schema of the data set."""
        return Schema.from_toml(self.schema_path)

    def table(self) -> Table:
        """Read the rows of the data set. They are public."""
        return Table.read(self.path, self.schema())


def yrbss() -> Dataset:
    """Return the extract of the Youth Risk Behavior Survey, with its missing values.

    Returns
    -------
    Dataset
        13,583 rows and 13 columns. Public.

    Examples
    --------
    >>> yrbss().table()
    Table(age, gender, grade, ...)
    """
    folder = Path(str(resources.files(__name__)))
    return Dataset(path=folder / "yrbss.parquet", schema_path=folder / "yrbss.toml")
