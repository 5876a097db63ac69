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
from missdp.errors import DataError, NotFittedError, ParameterError, check_integer
from missdp.inference.conditionals import Conditionals, fit_conditionals
from missdp.pricing.domain import (
    RowDomain,
    Rows,
    as_rows,
    check_fillable,
    clip_rows,
    column_names,
    count,
    require,
    rows_of,
    word_of,
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
from missdp.threads import map_in_order, one_blas_thread
from missdp.types import Floats

_ROWS = 20_000  # rows of the model to which conditional distributions are fitted
_SEED = 0  # seed of these rows, so that one model always has the same distributions

STAYS_PRIVATE = (
    "The filled rows are as private as the rows were: they hold every observed cell. Only the "
    "imputer's model is a release."
)


@dataclass(kw_only=True, eq=False, repr=False)
class DPImputer(StableTransformer):
    """Preprocessing step that fills missing cells from a released model, at no privacy cost.

    Use it to complete private rows with a synthesizer that was fitted within a privacy budget. Each
    row is filled by itself. Every use of the model is post-processing. The filled rows stay
    private, because they hold every observed cell. Only the model is a release, and `guarantee_` is
    the guarantee of the model. As a step of a `PricedPipeline`, it adds nothing to the price.

    Rows drawn from the model show how each attribute depends on all others. One multinomial
    logistic regression for each attribute is fitted to them once. The missing cells of a row are
    drawn from these distributions given its observed cells, by Gibbs sampling. `fit` learns nothing
    from private rows.

    Parameters
    ----------
    model : Synthesizer
        A fitted synthesizer, or one that :func:`missdp.load` returns. Clones share it.
    filling : {"random", "likely", "mean"}, default "random"
        ``"random"`` draws each missing cell from its distribution, so that marginals and
        dependence are right. Numbers are drawn uniformly inside their bin. ``"likely"`` takes
        the likeliest level, or the middle of the likeliest bin: more cells are right, but rare
        levels get rarer still. ``"mean"`` does the same for levels, and fills in the mean of a
        number's distribution. It is nearest to the true number on average, and has too little
        spread.
    random_state : int or None, default None
        None draws afresh each time. A number, at least 0, makes fillings repeatable: a row at
        the same place then gets the same cells, for all other rows. It is for tests: a price
        then states the condition `SeededFilling`.

    Raises
    ------
    ParameterError
        If a parameter has an invalid type or value, when it is set or used.

    Notes
    -----
    Given the model, row i becomes f(row i, random numbers i): rows that are appended, removed or
    changed elsewhere change nothing, and random numbers are independent of the table. So under
    either adjacency neighbours become neighbours, with as many rows replaced or added as before. A
    differentially private release of the filled rows keeps its guarantee. The proof is in
    ``missdp.sources.filling._fill_codes``. If the model was fitted to the same rows, its own
    guarantee composes with that, as for any two releases: use one budget for both. Filled cells
    depend on other cells of their row, although nothing was observed in them. So a release from
    filled rows has no amplification by the rates at which values were observed. This concerns its
    guarantee for the table before values went missing. A filled `Table` records that it was filled.
    A filled frame does not.

    Cells that are not applicable stay so, and derived cells are computed. If no filling that obeys
    the rules of the schema was found in 25 attempts, the missing cells of that row stay.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import AllPairs, Categorical, DPImputer, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> smoker, ill = ["yes", None, "no"] * 500, ["yes", "no", "no"] * 500
    >>> people = pd.DataFrame({"smoker": smoker, "ill": ill})
    >>> model = AllPairs(epsilon=1.0, random_state=0).fit(people, schema=schema)
    >>> imputer = DPImputer(model=model, filling="likely", random_state=0)
    >>> new = pd.DataFrame({"smoker": [None, None, "no"], "ill": ["yes", "no", "yes"]})
    >>> imputer.transform(new)["smoker"].tolist()
    ['yes', 'no', 'no']
    """

    model: Any
    filling: Filling = field(default="random", metadata=word_of("random", "likely", "mean"))
    random_state: int | None = count(None, low=0)

    _needs_complete, _fills, _each_by_itself = False, True, True
    _continuous: ClassVar[bool] = False  # a draw may change with a row that moves

    # Released values

    @property
    def guarantee_(self) -> Guarantee:
        """Privacy guarantee of the released model from which missing cells are filled. Public.

        It does not cover the filled rows, which stay as private as the rows were.

        Returns
        -------
        Guarantee
            The attribute ``guarantee_`` of ``model``.

        Raises
        ------
        ParameterError
            If ``model`` is not a synthesizer.
        NotFittedError
            If the model is not fitted.
        """
        guarantee: Guarantee = self._released().guarantee_
        return guarantee

    @property
    def schema_(self) -> Schema:
        """Public facts about the columns of the tables whose missing cells can be filled.

        Returns
        -------
        Schema
            The attribute ``schema_`` of ``model``. Public.

        Raises
        ------
        ParameterError
            If ``model`` is not a synthesizer.
        NotFittedError
            If the model is not fitted.
        """
        schema: Schema = self._released().schema_
        return schema

    def in_words(self) -> str:
        """Return the guarantee of the released model in words, and a sentence on filled rows.

        Returns
        -------
        str
            Public text. It states that filled rows are as private as the rows before.

        Raises
        ------
        ParameterError
            If ``model`` is not a synthesizer.
        NotFittedError
            If the model is not fitted.
        """
        return f"{self.guarantee_.in_words()}\n\n{STAYS_PRIVATE}"

    # Filling

    def fit(self, X: Any = None, y: object = None) -> Self:
        """Check the parameters of the imputer, and prepare its released model for filling.

        Nothing is learned from private rows, and nothing is charged.

        Parameters
        ----------
        X : object, optional
            Ignored, but for the schema of a `Table`, which must be the schema of the model.
        y : object, optional
            Ignored.

        Returns
        -------
        DPImputer
            The imputer itself.

        Raises
        ------
        ParameterError
            If ``model`` is not a synthesizer.
        NotFittedError
            If the model is not fitted.
        DataError
            If a `Table` has another schema than the model.
        """
        del y
        self._released()
        if isinstance(X, Table):
            _with_bins(X, self._released())
        _conditionals_of(self._released())
        return self

    def transform(
        self, X: Any, *, multiple: int | None = None, missing_as: MissingForm = "nulls"
    ) -> Any:
        """Return private rows with their missing cells filled from the released model.

        The filled rows are as private as the rows were. Nothing is charged.

        Parameters
        ----------
        X : Table, pandas, polars or Arrow table, DuckDB relation, path, or array of float
            Private rows with the columns of the model's schema. There may be no row. An array
            has the columns that :func:`~missdp.pricing.rows_of` makes of a table, with NaN in
            each missing cell.
        multiple : int, optional
            Number of fillings, at least 2, with independent draws from one model. The error of
            the model is not in their differences. So pooled intervals do not hold where missing
            cells depend on other answers. None: one filling.
        missing_as : {"nulls", "codes"}, default "nulls"
            Output of a cell without a value, such as a cell that is not applicable: null, or the
            first declared code of its kind of missing (null without a code).

        Returns
        -------
        Table, frame or ndarray of float, or list of them
            Private rows in their order, in the kind that came in. With ``multiple``, a list of
            so many. Columns and types are those of the schema. A pandas frame keeps its index.
            The schema of a `Table` marks attributes that may have been filled
            (``imputed_before``).

        Raises
        ------
        ParameterError
            If ``multiple`` or ``missing_as`` is invalid, or ``model`` is not a synthesizer.
        NotFittedError
            If the model is not fitted.
        DataError
            If the rows do not have the columns or the schema of the model.
        SchemaError
            If an array is given and the schema has a unit of protection, weights, or facts that are
            not declared public.
        """
        check_missing_form(missing_as)
        draws = 1 if multiple is None else check_integer("multiple", multiple, min_value=2)
        fill = self._filled(X, missing_as)
        filled = [fill(draw) for draw in range(draws)]
        return filled[0] if multiple is None else filled

    def transform_blocks(self, data: Any, *, draws: int = 1) -> Iterator[list[Table]]:
        """Yield private rows that stream from a source, in blocks with their missing cells filled.

        Use it for data that does not fit in memory. The filled rows are as private as the rows
        were.

        Parameters
        ----------
        data : DuckDB relation, Rows, str or Path
            Private rows, which are read once. With a seed, rows are filled as by :meth:`transform`.
        draws : int, default 1
            Number of fillings, at least 1.

        Yields
        ------
        list of Table
            The next private rows in their order, once for each filling. There is at least one
            block, perhaps without rows.

        Raises
        ------
        DataError
            If the data does not stream. Rows that cannot be read or do not fit the schema raise the
            error while blocks are read.
        ParameterError
            If ``model`` is not a synthesizer.
        NotFittedError
            If the model is not fitted.
        SchemaError
            If the model's schema has a unit of protection or weights, when the first block is read.
        """
        fill, schema = self._completed(), self.schema_
        if not is_streamed(data):
            raise DataError("only files, DuckDB relations and streams are filled in blocks")

        def filled(block: tuple[int, dict[str, CodedColumn]]) -> list[Table]:
            table, first = Table(schema, block[1]), block[0] * _BLOCK_ROWS
            return [fill(table, draw=draw, first=first) for draw in range(draws)]

        blocks = rebatch(read_columns(data, schema), _BLOCK_ROWS, schema)
        return map_in_order(filled, enumerate(blocks), n_jobs=2)

    def _completed(self) -> Callable[..., Table]:
        """Return a function that completes tables, given a draw and the place of the first row."""
        seed = self.random_state
        entropy = secrets.randbits(128) if seed is None else seed
        conditionals = _conditionals_of(self._released())
        return partial(
            complete_table, conditionals=conditionals, entropy=entropy, filling=self.filling
        )

    def _filled(self, X: Any, missing_as: MissingForm) -> Callable[[int], Any]:
        """Return a function that fills the rows, given the number of the draw."""
        import pandas as pd

        complete, schema = self._completed(), self.schema_
        if isinstance(X, (np.ndarray, list)):
            return lambda draw: _filled_numbers(X, schema, partial(complete, draw=draw))
        table = _with_bins(X, self._released()) if isinstance(X, Table) else Table.read(X, schema)

        def fill(draw: int) -> Any:
            filled = complete(table, draw=draw)
            if isinstance(X, Table):
                return _marked(filled.coded_as(X.schema))
            frame = filled.to_native(missing_as=missing_as)
            if isinstance(X, pd.DataFrame):
                frame.index = X.index
            return frame

        return fill

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the columns of filled rows, which are the columns of the input.

        Parameters
        ----------
        input_features : array_like of str, optional
            Names that are returned as they are. None: the output columns of the model's schema.

        Returns
        -------
        ndarray of object, shape (n_columns,)
            Public names in column order.

        Raises
        ------
        NotFittedError
            If the model is not fitted and no names are given.
        ParameterError
            If ``model`` is not a synthesizer and no names are given.
        """
        names = self.schema_.output_columns.names if input_features is None else input_features
        return np.asarray(names, dtype=object)

    # Stability

    def assumed(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the conditions of the guarantee that the use of a released model adds.

        They state that the model's own guarantee is composed with this one, and whether fillings
        are seeded. Seeded random numbers belong to the places of rows. A person who knows the seed
        can see from later rows that a row was removed. So nothing is proven against anyone who
        knows the seed.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        tuple of Condition
            Public. The conditions are stated with the guarantee and are not checked against the
            table.
        """
        del domain
        seeded = () if self.random_state is None else (SeededFilling(),)
        return (ModelPaidApart(), *seeded)

    def output_domain(self, domain: RowDomain) -> RowDomain:
        """Return public facts about a table whose missing cells a released model has filled.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        RowDomain
            Public. It is complete, and its radius allows for filled cells.

        Raises
        ------
        ParameterError
            If the table has other columns than `rows_of` makes with the model's schema.
        SchemaError
            If an attribute of the model's schema is not applicable to some rows.
        NotFittedError
            If the model is not fitted.
        """
        check_fillable(self.schema_)
        columns = len(column_names(self.schema_))
        require(domain.columns == columns, f"the model's schema makes {columns} columns of a table")
        return super().output_domain(domain)

    def radius_after(self, domain: RowDomain) -> float:
        """Return a bound on a row's Euclidean norm after its missing cells are filled.

        It is the larger of the domain's radius and the square root of the number of attributes.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the tables that reach the step: their shape, the largest row
            norm, and whether cells may be missing.

        Returns
        -------
        float
            Public upper bound on the Euclidean norm of a row, in the units of the output columns.
            Above 0.

        Raises
        ------
        ParameterError
            If ``model`` is not a synthesizer.
        NotFittedError
            If the model is not fitted.
        """
        return max(domain.radius, math.sqrt(len(self.schema_)))

    # Habits

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the imputer by name, without those of its model.

        Parameters
        ----------
        deep : bool, default True
            Ignored.

        Returns
        -------
        dict of str to object
            Parameter values by name.
        """
        del deep
        return dict(super().get_params(deep=False))

    def __sklearn_clone__(self) -> DPImputer:
        return type(self)(**self.get_params())

    def __sklearn_is_fitted__(self) -> bool:
        return True  # there is nothing to learn

    def _released(self) -> Any:
        """Return the model. Raise an error if it is not a fitted synthesizer."""
        model = self.model
        if not callable(getattr(type(model), "sample_table", None)):
            raise ParameterError(
                "model must be a fitted synthesizer. missdp.load reads a saved one"
            )
        if not isinstance(getattr(model, "guarantee_", None), Guarantee):
            raise NotFittedError("the imputer's model is not fitted yet. Fit or load it first")
        return model


def _filled_numbers(X: Rows, schema: Schema, complete: Callable[[Table], Table]) -> Floats:
    """Return rows of numbers with their missing cells filled, each row by itself.

    Observed numbers stay as they are. A filled row that is longer than all rows of the schema is
    scaled down to their largest length. A missing cell that could not be filled as rules have it
    becomes 0.
    """
    numbers, columns = as_rows(X), len(column_names(schema))
    if numbers.shape[1] != columns:
        raise DataError(f"expected {columns} columns")
    empty = np.isnan(numbers)
    rows = np.flatnonzero(empty.any(axis=1))
    if not rows.size:
        return numbers
    open_ = replace(schema, attributes=tuple(replace(a, nullable=True) for a in schema))
    # All rows, so that each has the random numbers of its place.
    encoded = np.nan_to_num(rows_of(complete(_table_of(numbers, open_)))[rows], nan=0.0)
    numbers[rows] = clip_rows(np.where(empty[rows], encoded, numbers[rows]), math.sqrt(len(schema)))
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
    is_missing = np.asarray(np.isnan(numbers).any(axis=1))
    completed, values = np.where(is_missing[:, None], 0.0, numbers), None
    unit = (np.clip(completed[:, 0], -1.0, 1.0) + 1) / 2
    if isinstance(attribute, Categorical):
        codes = completed.argmax(axis=1)
    elif isinstance(attribute, Numeric):
        values = attribute.lower + unit * (attribute.upper - attribute.lower)
        values = np.clip(values, attribute.lower, attribute.upper)
        values = np.rint(values) if attribute.integer else values
        codes = attribute.encode_values(values)
        values = np.where(is_missing, attribute.lower, values)
    else:
        codes = np.rint(unit * (attribute.size - 1)).astype(np.int64)
    codes = np.where(is_missing, attribute.missing_code, codes)
    return CodedColumn(codes.astype(code_dtype(attribute)), values)


def _settled(schema: Schema, filled: Container[str]) -> Schema:
    """Return a schema in which only these attributes are marked as possibly filled."""
    marked = (replace(a, imputed_before=a.name in filled) for a in schema)
    return replace(schema, attributes=tuple(marked))


def _with_bins(table: Table, model: Any) -> Table:
    """Return rows in the bins of a model. Raise DataError for rows of another schema."""
    schema: Schema = model.schema_
    for accepted in (schema, model.fitted_.unbinned):
        if _settled(table.schema, ()) == _settled(accepted, ()):
            bins = _settled(schema, {a.name for a in table.schema if a.imputed_before})
            return table.coded_as(replace(bins, ledger=table.schema.ledger))
    raise DataError("the table was read with another schema than the imputer's model was fitted to")


def _marked(table: Table) -> Table:
    """Return filled rows whose schema marks the attributes that may have been filled."""
    filled = {a.name for a in table.schema if a.nullable or a.imputed_before}
    columns = {name: table.column(name) for name in table.schema.names}
    return Table(_settled(table.schema, filled), columns, kind=table.kind)


_BLOCK_ROWS = 16 * ROWS_AT_ONCE  # rows of a block
_CONDITIONALS: WeakKeyDictionary[Any, tuple[Guarantee, Conditionals]] = WeakKeyDictionary()


@one_blas_thread()
def _conditionals_of(model: Any) -> Conditionals:
    """Return the distribution of each attribute given all others, fitted once."""
    is_cached = isinstance(model, Hashable)
    cached = _CONDITIONALS.get(model) if is_cached else None
    if cached is not None and cached[0] is model.guarantee_:  # not fitted again since
        return cached[1]
    modelled = ModelView(model.schema_)
    sizes = [attribute.size for attribute in modelled.schema]
    drawn = model.sample_table(_ROWS, random_state=_SEED).coded_as(model.schema_)
    rows = modelled_codes(drawn)
    rows = rows[(rows < np.array(sizes, dtype=np.int64)).all(axis=1)]
    place, cells_by_name = modelled.schema.names.index, modelled.impossible_cells.items()
    impossible = {(place(p[0]), place(p[1])): cells for p, cells in cells_by_name if len(p) == 2}
    conditionals = fit_conditionals(rows, sizes, impossible=impossible)
    if is_cached:
        _CONDITIONALS[model] = (model.guarantee_, conditionals)
    return conditionals
