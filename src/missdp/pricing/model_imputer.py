"""Imputation by a released model: filling new rows costs no privacy, and they stay private."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Container, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import Condition, Guarantee
from missdp.errors import DataError, NotFittedError, ParameterError, whole
from missdp.inference.conditionals import Conditionals, fit_conditionals
from missdp.pricing.domain import (
    RowDomain,
    Rows,
    as_rows,
    check_fillable,
    clip_rows,
    column_names,
    count,
    one_of,
    require,
    rows_of,
)
from missdp.pricing.steps import ModelPaidApart, SeededFilling, StableTransformer
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema
from missdp.schema.modelled import ModelView
from missdp.schema.numeric import code_dtype
from missdp.session.row_kernel import ROWS_AT_ONCE
from missdp.sources.filling import Filling, complete_table, modelled_codes
from missdp.table import MissingForm, Table, check_missing_form
from missdp.table.encode import CodedColumn
from missdp.table.rows import is_streamed
from missdp.table.table import read_columns, rebatch
from missdp.threads import in_order, one_blas_thread
from missdp.types import Floats

_ROWS = 20_000  # of the model, by which laws are fitted
_SEED = 0  # of these rows: the same laws for the same model, wherever it was loaded

STAYS_PRIVATE = (
    "The filled rows are as private as the rows were: they hold every observed cell. Only the "
    "imputer's model is a release."
)


@dataclass(kw_only=True, eq=False, repr=False)
class DPImputer(StableTransformer):
    """Fill missing cells from a released model, each row by itself, at no privacy cost.

    The model was fitted within a privacy budget; all that is used of it is post-processing. Rows
    that it draws say how each attribute depends on all others (one multinomial logistic regression
    each, fitted once), and the missing cells of a row are drawn from these laws given its observed
    cells, by Gibbs sampling. `fit` learns nothing: what is filled in depends on no row but the one
    that has the missing cell.

    **The filled rows are private.** They hold every observed cell, and may be shown to nobody who
    may not see the rows themselves. Only the model is a release, and `guarantee_` is the model's.

    Parameters
    ----------
    model : Synthesizer
        Fitted, of any family, or loaded with :func:`missdp.load`. It is shared, not copied, by
        clones.
    filling : {"random", "likely", "mean"}, default "random"
        ``"random"`` draws from the law of each missing cell, so that margins and dependence come
        out right; numbers are drawn uniformly inside their bin. ``"likely"`` takes the likeliest
        level, or the middle of the likeliest bin: more cells are right, but rare levels get rarer
        still. ``"mean"`` does the same for levels, and fills in the mean of a number's law: nearest
        to the true number on average, and with too little spread.
    random_state : int or None
        None draws afresh each time. A number makes fillings repeatable: a row at the same place
        then becomes the same, whatever the other rows are. It is for tests: a price then states
        `SeededFilling`.

    Notes
    -----
    Given the model, row i becomes f(row i, random numbers i): rows that are appended, removed or
    changed elsewhere change nothing, and random numbers are independent of the table. So under
    either adjacency neighbours become neighbours, with as many rows replaced or added as before,
    and whatever releases the filled rows under differential privacy keeps its guarantee (the proof
    is that of ``missdp.sources.filling._fill_codes``). If the model was fitted to the same rows, its
    own guarantee composes with that, as for any two releases: use one budget for both. Filled cells
    are read although nothing was observed in them, and tell of their row's other cells: of what is
    fitted to filled rows, no rate at which values were observed amplifies the guarantee for the
    table before values went missing. A filled `Table` says so itself; of a filled frame nobody
    knows but you.

    What is not applicable stays so, and what follows from other cells is computed. If no filling
    that obeys the rules of the schema was found in 25 attempts, the missing cells of that row stay.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import AllPairs, Categorical, DPImputer, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 500, "ill": ["yes", "no", "no"] * 500})
    >>> model = AllPairs(epsilon=1.0, random_state=0).fit(people, schema=schema)
    >>> imputer = DPImputer(model=model, filling="likely", random_state=0)
    >>> new = pd.DataFrame({"smoker": [None, None, "no"], "ill": ["yes", "no", "yes"]})
    >>> imputer.transform(new)["smoker"].tolist()
    ['yes', 'no', 'no']
    """  # noqa: E501

    model: Any
    filling: Filling = field(default="random", metadata=one_of("random", "likely", "mean"))
    random_state: int | None = count(None, least=0)

    _needs_complete, _fills, _each_by_itself = False, True, True
    _continuous: ClassVar[bool] = False  # what is drawn may change with a row that moves

    # What was released

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of the model; the filled rows have none."""
        found: Guarantee = self._released().guarantee_
        return found

    @property
    def schema_(self) -> Schema:
        """Public facts about the columns of tables that can be filled."""
        found: Schema = self._released().schema_
        return found

    def in_words(self) -> str:
        """Return the guarantee of the model in words, and what it does not cover."""
        return f"{self.guarantee_.in_words()}\n\n{STAYS_PRIVATE}"

    # Filling

    def fit(self, X: Any = None, y: object = None) -> Self:
        """Check the parameters. Nothing is learned from ``X``: it is not looked at."""
        del y
        self._released()
        if isinstance(X, Table):
            _with_bins(X, self._released())
        _laws_of(self._released())
        return self

    def transform(
        self, X: Any, *, multiple: int | None = None, missing_as: MissingForm = "nulls"
    ) -> Any:
        """Return the rows with their missing cells filled. They are as private as they were.

        Parameters
        ----------
        X : Table, pandas, polars or Arrow table, DuckDB relation, path, or array of floats
            Rows with the columns of the model's schema; n of them, n may be 0. An array has the
            columns that :func:`~missdp.pricing.rows_of` makes of a table, NaN in each missing cell.
        multiple : int, optional
            Fill the missing cells that many times, at least 2, with independent draws from one
            model. Its own error is not in them: pooled intervals do not hold where missing cells
            depend on other answers.
        missing_as : {"nulls", "codes"}, default "nulls"
            What cells that are not applicable come back as; see `Table.to_arrow`.

        Returns
        -------
        the kind of frame that came in, or a list of them if ``multiple`` is given
            As many rows, in the same order; columns and types are those of the schema. A pandas
            frame keeps its index. The schema of a Table says of what may have been missing that it
            may have been filled (``imputed_before``).
        """
        check_missing_form(missing_as)
        draws = 1 if multiple is None else whole("multiple", multiple, least=2)
        fill = self._filled(X, missing_as)
        filled = [fill(draw) for draw in range(draws)]
        return filled[0] if multiple is None else filled

    def transform_blocks(self, data: Any, *, draws: int = 1) -> Iterator[list[Table]]:
        """Yield rows that stream with their missing cells filled, in blocks. They stay private.

        Parameters
        ----------
        data : DuckDB relation, Rows, str or Path
            Read once; with a seed, rows are filled as :meth:`transform` fills them.
        draws : int, default 1
            How often to fill the missing cells.

        Yields
        ------
        list of Table
            The next rows, filled that many times; at least one block, perhaps without rows.
        """
        fill, schema = self._completed(), self.schema_
        if not is_streamed(data):
            raise DataError("only files, DuckDB relations and streams are filled in blocks")

        def filled(block: tuple[int, dict[str, CodedColumn]]) -> list[Table]:
            table, first = Table(schema, block[1]), block[0] * _BLOCK_ROWS
            return [fill(table, draw=draw, first=first) for draw in range(draws)]

        blocks = rebatch(read_columns(data, schema), _BLOCK_ROWS, schema)
        return in_order(filled, enumerate(blocks), n_jobs=2)

    def _completed(self) -> Callable[..., Table]:
        """Return what completes tables: their number, and the place of the first row, are open."""
        seed = self.random_state
        entropy = secrets.randbits(128) if seed is None else seed
        laws = _laws_of(self._released())
        return partial(complete_table, conditionals=laws, entropy=entropy, filling=self.filling)

    def _filled(self, X: Any, missing_as: MissingForm) -> Callable[[int], Any]:
        """Return what fills the rows, by the number of the draw."""
        import pandas as pd

        complete, schema = self._completed(), self.schema_
        if isinstance(X, (np.ndarray, list)):
            return lambda draw: _filled_numbers(X, schema, partial(complete, draw=draw))
        table = _with_bins(X, self._released()) if isinstance(X, Table) else Table.read(X, schema)

        def fill(draw: int) -> Any:
            found = complete(table, draw=draw)
            if isinstance(X, Table):
                return _marked(found.coded_as(X.schema))
            frame = found.to_native(missing_as=missing_as)
            if isinstance(X, pd.DataFrame):
                frame.index = X.index
            return frame

        return fill

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the columns, which stay as they are."""
        names = self.schema_.output_columns.names if input_features is None else input_features
        return np.asarray(names, dtype=object)

    # Stability

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return that the model is paid for apart, and whether fillings are seeded.

        Seeded random numbers belong to places: whoever knows the seed sees that a row is removed
        by the rows after it. So nothing is proven against anyone who knows the seed.
        """
        del domain
        seeded = () if self.random_state is None else (SeededFilling(),)
        return (ModelPaidApart(), *seeded)

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return a complete domain, with room for filled cells in the norm of a row."""
        check_fillable(self.schema_)
        columns = len(column_names(self.schema_))
        require(domain.columns == columns, f"the model's schema makes {columns} columns of a table")
        return super().output_domain(domain)

    def radius_after(self, domain: RowDomain) -> float:
        """Return the longest row of any table of the schema, or of those that are complete."""
        return max(domain.radius, math.sqrt(len(self.schema_)))

    # Habits

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; those of the model are released facts, not to be set."""
        del deep
        return dict(super().get_params(deep=False))

    def __sklearn_clone__(self) -> DPImputer:
        return type(self)(**self.get_params())

    def __sklearn_is_fitted__(self) -> bool:
        return True  # there is nothing to learn

    def _released(self) -> Any:
        """Return the model, or refuse what is none or is not fitted."""
        model = self.model
        if not callable(getattr(type(model), "sample_table", None)):
            raise ParameterError(
                "model must be a fitted synthesizer; missdp.load reads a saved one"
            )
        if not isinstance(getattr(model, "guarantee_", None), Guarantee):
            raise NotFittedError("the imputer's model is not fitted yet; fit or load it first")
        return model


def _filled_numbers(X: Rows, schema: Schema, complete: Callable[[Table], Table]) -> Floats:
    """Return rows of numbers with their missing cells filled, each row by itself.

    Observed numbers stay as they are; a filled row longer than any row of a table of this schema is
    scaled down to that length. A missing cell that could not be filled as rules have it becomes 0.
    """
    numbers, columns = as_rows(X), len(column_names(schema))
    if numbers.shape[1] != columns:
        raise DataError(f"expected {columns} columns")
    holes = np.isnan(numbers)
    some = np.flatnonzero(holes.any(axis=1))
    if not some.size:
        return numbers
    open_ = replace(schema, attributes=tuple(replace(a, nullable=True) for a in schema))
    # All rows, so that each has the random numbers of its place.
    encoded = np.nan_to_num(rows_of(complete(_table_of(numbers, open_)))[some], nan=0.0)
    numbers[some] = clip_rows(np.where(holes[some], encoded, numbers[some]), math.sqrt(len(schema)))
    return numbers


def _table_of(rows: Floats, schema: Schema) -> Table:
    """Return rows of numbers as a table: the inverse of `rows_of`, for any numbers.

    Each row is read by itself: numbers outside the domain become its ends, and of several columns
    of one attribute the largest is its level. A missing number makes the cell missing.
    """
    widths = [a.size if isinstance(a, Categorical) else 1 for a in schema]
    parts = np.split(rows, np.cumsum(widths)[:-1], axis=1)
    return Table(schema, {a.name: _read(a, part) for a, part in zip(schema, parts, strict=True)})


def _read(attribute: AnyAttribute, numbers: Floats) -> CodedColumn:
    hole = np.asarray(np.isnan(numbers).any(axis=1))
    known, values = np.where(hole[:, None], 0.0, numbers), None
    unit = (np.clip(known[:, 0], -1.0, 1.0) + 1) / 2
    if isinstance(attribute, Categorical):
        codes = known.argmax(axis=1)
    elif isinstance(attribute, Numeric):
        values = attribute.lower + unit * (attribute.upper - attribute.lower)
        values = np.clip(values, attribute.lower, attribute.upper)
        values = np.rint(values) if attribute.integer else values
        codes = attribute.encode_values(values)
        values = np.where(hole, attribute.lower, values)
    else:
        codes = np.rint(unit * (attribute.size - 1)).astype(np.int64)
    codes = np.where(hole, attribute.missing_code, codes)
    return CodedColumn(codes.astype(code_dtype(attribute)), values)


def _settled(schema: Schema, filled: Container[str]) -> Schema:
    """Return a schema that says of these attributes alone that they may have been filled."""
    marked = (replace(a, imputed_before=a.name in filled) for a in schema)
    return replace(schema, attributes=tuple(marked))


def _with_bins(table: Table, model: Any) -> Table:
    """Return rows in the bins of a model, or refuse those of another table."""
    schema: Schema = model.schema_
    for known in (schema, model.fitted_.unbinned):
        if _settled(table.schema, ()) == _settled(known, ()):
            bins = _settled(schema, {a.name for a in table.schema if a.imputed_before})
            return table.coded_as(replace(bins, ledger=table.schema.ledger))
    raise DataError("the table was read with another schema than the imputer's model was fitted to")


def _marked(table: Table) -> Table:
    """Return filled rows whose schema says that holes may have been filled."""
    filled = {a.name for a in table.schema if a.nullable or a.imputed_before}
    columns = {name: table.column(name) for name in table.schema.names}
    return Table(_settled(table.schema, filled), columns, kind=table.kind)


_BLOCK_ROWS = 16 * ROWS_AT_ONCE
_LAWS: WeakKeyDictionary[Any, tuple[Guarantee, Conditionals]] = WeakKeyDictionary()


@one_blas_thread()
def _laws_of(model: Any) -> Conditionals:
    """Return the law of each attribute given all others, fitted to rows of the model, once."""
    kept = isinstance(model, Hashable)
    known = _LAWS.get(model) if kept else None
    if known is not None and known[0] is model.guarantee_:  # not fitted again since
        return known[1]
    modelled = ModelView(model.schema_)
    sizes = [attribute.size for attribute in modelled.schema]
    drawn = model.sample_table(_ROWS, random_state=_SEED).coded_as(model.schema_)
    rows = modelled_codes(drawn)
    rows = rows[(rows < np.array(sizes, dtype=np.int64)).all(axis=1)]
    place, completed_cells = modelled.schema.names.index, modelled.impossible_cells.items()
    impossible = {(place(p[0]), place(p[1])): cells for p, cells in completed_cells if len(p) == 2}
    laws = fit_conditionals(rows, sizes, impossible=impossible)
    if kept:
        _LAWS[model] = (model.guarantee_, laws)
    return laws
