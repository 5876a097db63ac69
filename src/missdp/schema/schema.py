"""A schema: the public facts about all columns of a table, and its TOML file."""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from html import escape
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

import tomli_w
from pydantic import Field
from pydantic.dataclasses import dataclass

from missdp.errors import MissDPError, SchemaError, SchemaWarning, did_you_mean, replacing
from missdp.files import write_atomically
from missdp.schema.attributes import KINDS, MAX_INTEGER, Attribute, Column, Ignored, Key, Unread
from missdp.schema.binning import Binning
from missdp.schema.bound_rules import Derived, Routing
from missdp.schema.differences import Computed, Difference, EitherDate
from missdp.schema.layout import (
    PLAIN,
    TABLES,
    TOP_LEVEL,
    Layout,
    SchemaTable,
    SurveyWeight,
    Unit,
    field_hint,
)
from missdp.schema.numeric import AnyAttribute, Columns, Numeric
from missdp.schema.rule_set import FEW_ROWS, REHEARSED_ROWS, RuleSet
from missdp.schema.rules import Rule
from missdp.serialization import Record

FILE = "[file]"
"""The entry of `Schema.undeclared` for facts about text files."""
_FEW = 8  # levels that a notebook shows
_FORMAT = 1  # version of the format of schema files
_TOML_KEYS = (*TOP_LEVEL, *TABLES, "attribute", "rule")
# Neither blanks, nor ``role:password@``.
_LEDGER = re.compile(r"|(?!\w[^/]*://[^@]*:[^@]*@)[^\s#]*#[\w.-]+")


Names: TypeAlias = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...], Field(description="a list of names of columns")
]


@dataclass(frozen=True)
class Schema(Record):
    """The public facts about a table: its columns, rules, files, unit of protection and weights.

    Every release needs a schema. It alone determines the shape of the output, so that the shape
    shows nothing private. Declare it without looking at private rows, or draft it with
    `missdp.table.draft_schema` and check each fact. A guarantee holds only if all facts are public.
    It states this as its condition `PublicDomain`. The condition is not checked, except for marks
    of facts that were read from private cells.

    Parameters
    ----------
    attributes : tuple of attributes
        The modelled columns in their order, at least one: :class:`Categorical`, :class:`Ordinal`,
        :class:`OpenCategorical`, :class:`Numeric`, :class:`Date`, :class:`DateTime` and
        :class:`Difference`. Names must be distinct.
    rules : tuple of Rule, default ()
        Public facts about single rows: :class:`Always`, :class:`Never`, :class:`NotApplicable`,
        :class:`Determined`. An attribute that a rule makes not applicable to some rows gets this
        fact automatically.
    ledger : str, default ""
        The budget that every release from rows of this schema must charge: ``URL#NAME``, or
        ``#NAME`` in any ledger (a database of budgets). It does not count in comparisons for
        equality.
    unit : Unit, optional
        The unit of protection, if several rows may belong to one person. By default each row is a
        unit.
    weight : SurveyWeight, optional
        The weights of rows, if rows do not count equally.
    file : Layout, optional
        Format of the text files of the table. By default UTF-8 with a header line and decimal
        points.
    ignore : tuple of str, default ()
        Columns that are never read and never written.
    keys : tuple of str, default ()
        Columns that identify rows. They are never read, and are written first, with fresh whole
        numbers from 1 on.
    undeclared_columns : tuple of str, default ()
        Columns of ``ignore`` and ``keys`` that were left unread because of private cells. This
        choice has not been declared public yet. A release raises SchemaError for a schema with
        these marks, unless they are accepted.

    Raises
    ------
    SchemaError
        If there are no attributes, or a column has two roles. If rules cannot be read or are
        circular, or a rule leaves a level without any row. Square brackets raise it for an unknown
        attribute.

    Warns
    -----
    SchemaWarning
        If fewer than 5 of 1,000 rows drawn uniformly from the public domain obey the rules.

    Examples
    --------
    >>> from missdp.schema import Categorical, Numeric, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Numeric(name="age", lower=0, upper=100, integer=True, bins=10),
    ... ))
    >>> schema.names
    ('smoker', 'age')
    >>> schema.shape(("smoker", "age")), schema.extended_shape(("smoker", "age"))
    ((2, 10), (3, 10))
    """

    attributes: Annotated[
        tuple[AnyAttribute, ...],
        Field(description="a list of Categorical, Ordinal, Numeric and Date attributes"),
    ]
    rules: Annotated[
        tuple[Rule, ...], Field(description="a list of Always, Never, NotApplicable and Determined")
    ] = ()
    ledger: Annotated[str, Field(description="URL#NAME or #NAME")] = field(
        default="", compare=False
    )
    unit: Annotated[
        Unit | None, Field(description="a Unit, which names a column of identifiers")
    ] = None
    weight: Annotated[
        SurveyWeight | None, Field(description="a SurveyWeight, which names a column")
    ] = None
    file: Annotated[Layout, Field(description="a Layout, the format of text files")] = PLAIN
    ignore: Names = ()
    keys: Names = ()
    undeclared_columns: Names = ()

    def __post_init__(self) -> None:
        if not self.attributes:
            raise SchemaError("a schema needs at least one attribute")
        names = self.names
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise SchemaError(f"attribute names must be distinct. Repeated: {repeated}")
        self._check_unread()
        if not _LEDGER.fullmatch(self.ledger):
            raise SchemaError("ledger must be URL#NAME or #NAME, without a password")
        object.__setattr__(self, "attributes", _with_computed(self.attributes))
        vars(self).pop("names", None)  # of the attributes before
        self._check_unit()
        self._check_rules()

    def _check_unread(self) -> None:
        if len({*self.ignored_columns}) < len(self.ignored_columns):
            raise SchemaError("ignore and keys must name each column once")
        if both := sorted({*self.names} & {*self.ignored_columns}):
            raise SchemaError(
                f"column {both[0]!r} is an attribute, and is in ignore or keys. Remove it from "
                "ignore and keys, or from the attributes."
            )
        if not {*self.undeclared_columns} <= {*self.ignored_columns}:
            raise SchemaError("undeclared_columns must list columns of ignore and keys only")

    def _check_unit(self) -> None:
        other_columns = {*self.names, *self.ignored_columns}
        for fact, what in ((self.unit, "identifies units"), (self.weight, "weighs rows")):
            if fact is not None and fact.column in other_columns:
                raise SchemaError(
                    f"{fact.column!r} {what}, and is never modelled. Remove it from the "
                    "attributes, ignore and keys."
                )
        if self.unit and self.weight and self.unit.column == self.weight.column:
            raise SchemaError("a column that identifies units cannot weigh rows")

    def _check_rules(self) -> None:
        columns = {a.name: a for a in self.attributes}
        absent = _not_applicable(columns, self.rules) if self.rules else ()
        marked = (
            replace(a, not_applicable=()) if a.name in absent and a.not_applicable is None else a
            for a in self.attributes
        )
        object.__setattr__(self, "attributes", tuple(marked))
        # Contradictions raise errors here, not during a fit.
        if self.rule_set.bound and self.rule_set.surviving_rows() < FEW_ROWS:
            warnings.warn(
                f"hardly any of {REHEARSED_ROWS:,} rows drawn uniformly from the domains of the "
                "schema obeys its rules. Check whether rules contradict each other. A long order "
                "of attributes and an equation with narrow domains are other causes.",
                SchemaWarning,
                stacklevel=1,  # one place, so that parts of this schema do not warn again
            )

    @cached_property
    def rule_set(self) -> RuleSet:
        """All rules of a schema, in the form in which rows are checked and completed.

        A rule is a public fact about all rows.

        Returns
        -------
        RuleSet
            Public.
        """
        return RuleSet(self.columns, self.rules)

    @cached_property
    def columns(self) -> Columns:
        """Map from the name of each attribute of the schema to the attribute, in schema order.

        Columns that are never read are not included.

        Returns
        -------
        mapping of str to attribute
            Public.
        """
        return {attribute.name: attribute for attribute in self.attributes}

    @cached_property
    def without_unit(self) -> Schema:
        """The schema of a table without its unit of protection and its survey weights.

        A unit of protection is the set of rows with one identifier. The result describes rows that
        were already sampled by unit and weighted. No guarantee for a unit follows from it.

        Returns
        -------
        Schema
            A copy, or this schema if it has no unit and no weight. Public.
        """
        plain = self.unit is None and self.weight is None
        return self if plain else replace(self, unit=None, weight=None)

    @property
    def is_weighted(self) -> bool:
        """True if the schema declares that rows have unequal weights when they are counted.

        The reason is a survey weight, or a unit of protection (all rows of one person) that counts
        as one.

        Returns
        -------
        bool
            Public.
        """
        return self.weight is not None or (self.unit is not None and self.unit.counts_as == "one")

    @cached_property
    def input_columns(self) -> Schema:
        """The schema of the columns that are stored in a table, without computed attributes.

        Differences of two dates are computed when a row is read. They, and rules that name them,
        are left out.

        Returns
        -------
        Schema
            Stored attributes in the same order. This schema if nothing is computed. Public.
        """
        stored = tuple(a for a in self.attributes if not isinstance(a, Computed))
        if len(stored) == len(self):
            return self
        names, columns = {a.name for a in stored}, self.columns
        rules = tuple(rule for rule in self.rules if rule.about(columns) <= names)
        return replace(self, attributes=stored, rules=rules)

    @cached_property
    def output_columns(self) -> Schema:
        """The schema of an output file: fresh keys, then the stored columns of a table.

        Returns
        -------
        Schema
            Attributes in the order of the file. Keys are numeric attributes from 1 on. Public.
        """
        keys = (Numeric(name=n, lower=1, upper=MAX_INTEGER - 1, integer=True) for n in self.keys)
        return Schema((*keys, *self.input_columns))

    @property
    def ignored_columns(self) -> tuple[str, ...]:
        """Names of the columns that are never read: columns of keys, then ignored columns.

        Returns
        -------
        tuple of str
            Public. It may be empty.
        """
        return (*self.keys, *self.ignore)

    def read_for(self, names: Iterable[str], *, refusing: bool) -> tuple[str, ...]:
        """Return the names of stored columns whose cells must be read to know some attributes.

        These are the attributes themselves, the dates of differences, and all attributes that rules
        connect with them.

        Parameters
        ----------
        names : iterable of str
            The attributes.
        refusing : bool
            True if columns are included in which a cell may raise DataError. Then every error of
            the table is raised, whichever attributes are requested.

        Returns
        -------
        tuple of str
            Names of columns of the table, in schema order. Public.
        """
        near = self.rule_set.connected_by_rules(names)
        needed = (a for a in self if a.name in near or (refusing and a.refuses))
        several = (a.dates if isinstance(a, Computed) else (a.name,) for a in needed)
        columns = {*chain.from_iterable(several)}
        return tuple(name for name in self.input_columns.names if name in columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes of the schema, in their order.

        Returns
        -------
        tuple of str
            At least one name. Public.
        """
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def nullable(self) -> tuple[str, ...]:
        """Names of the attributes of the schema whose cells may be missing, in schema order.

        Attributes that are only not applicable to some rows are not included.

        Returns
        -------
        tuple of str
            Public. It may be empty.
        """
        return tuple(a.name for a in self.attributes if a.nullable)

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[AnyAttribute]:
        return iter(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> AnyAttribute:
        if name in self.columns:
            return self.columns[name]
        near = did_you_mean(name, self.names)
        raise SchemaError(f"the schema has no attribute {name!r}. It has {list(self.names)}{near}")

    def shape(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Return the shape of a table of counts over some attributes, without missing cells.

        Parameters
        ----------
        clique : iterable of str
            Names of the attributes that are counted together, in the order of the axes.

        Returns
        -------
        tuple of int
            For each attribute the number of its levels, or of its bins and spikes (single values
            that are counted separately). The order is the order of ``clique``. Released or public.

        Raises
        ------
        SchemaError
            If the schema has no attribute of a name.
        """
        return tuple(self[name].size for name in clique)

    def extended_shape(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Return the shape of a table of counts over attributes, with kinds of missing as levels.

        Parameters
        ----------
        clique : iterable of str
            Names of the attributes that are counted together, in the order of the axes.

        Returns
        -------
        tuple of int
            For each attribute the number of its levels, or bins and spikes (single values that are
            counted separately), and of its kinds of missing. The order is the order of ``clique``.
            Released or public.

        Raises
        ------
        SchemaError
            If the schema has no attribute of a name.
        """
        return tuple(self[name].extended_size for name in clique)

    def subset(self, names: Iterable[str]) -> Schema:
        """Return the schema of some attributes of a table, with the rules on these attributes.

        Unit, weight and ledger stay, and ignored columns and keys are dropped. Attributes that an
        omitted rule may have filled are marked as ``imputed_before``: some of their cells may have
        been missing originally. Facts about text files that have not been declared public keep
        their marks.

        Parameters
        ----------
        names : iterable of str
            The attributes, in the order of the result.

        Returns
        -------
        Schema
            Public.

        Raises
        ------
        SchemaError
            If the schema has no attribute of a name, or there are no names.
        """
        requested = tuple(names)
        derived = self.rule_set.derived.items()
        complete = (r for name, r in derived if {*r.by, name} <= {*requested})
        instead = (rule.instead for rule in complete if rule.instead is not None)
        chosen = tuple(self[name] for name in dict.fromkeys((*requested, *instead)))
        retained = {attribute.name for attribute in chosen}
        attributes = tuple(
            a.plain() if isinstance(a, Computed) and not {*a.dates} <= retained else a
            for a in chosen
        )
        rules = tuple(rule for rule in self.rules if rule.about(self.columns) <= retained)
        # Without its rule, the domain of a derived attribute may be wider than its values.
        wide = {name for name, r in derived if not retained.issuperset(r.names)}
        attributes = tuple(
            replace(a, imputed_before=True) if a.name in wide else a for a in attributes
        )
        facts: dict[str, Any] = {name: getattr(self, name) for name in ("ledger", "unit", "weight")}
        facts["file"] = Layout(undeclared=self.file.undeclared)
        schema = Schema(attributes, rules, **facts)
        lost = (self.rule_set.rule_filled & retained) - schema.rule_set.rule_filled
        marked = (replace(a, imputed_before=True) if a.name in lost else a for a in schema)
        return replace(schema, attributes=tuple(marked)) if lost else schema

    def with_attributes(self, new: Mapping[str, AnyAttribute]) -> Schema:
        """Return the schema with some of its attributes replaced by other attributes.

        Order, rules and all other facts stay.

        Parameters
        ----------
        new : mapping of str to attribute
            The new attribute of each name. Names that the schema does not have are ignored.

        Returns
        -------
        Schema
            A changed copy. Public, if the new attributes are public.

        Raises
        ------
        SchemaError
            If a rule does not fit a new attribute.
        """
        if not new:
            return self
        return replace(self, attributes=tuple(new.get(a.name, a) for a in self))

    def refuse_units(self, what: str) -> None:
        """Raise an error if a schema declares a unit of protection or survey weights.

        A unit of protection is the set of rows with one identifier. Methods that count each row as
        one call this method before they read rows.

        Parameters
        ----------
        what : str
            Name of the method, with which the message starts.

        Raises
        ------
        SchemaError
            If the schema has a unit or a weight. The message quotes no private cell.
        """
        instead = "fit AllPairs, AIM or MST, or leave"
        if self.unit is not None:
            raise SchemaError(
                f"{what} treats each row separately, and the schema declares that all rows of one "
                f"{self.unit.column!r} belong together: {instead} the unit out of the schema if "
                "single rows are to be protected"
            )
        if self.weight is not None:
            raise SchemaError(
                f"{what} counts each row as one, and the schema declares the weights "
                f"{self.weight.column!r}: {instead} the weight out of the schema"
            )

    def check_same_rows(self, other: Schema) -> None:
        """Check that another schema for the same rows keeps their unit, weight and ledger.

        The unit of protection is the set of rows with one identifier, and the ledger is the
        database of budgets. The guarantee of a release follows from unit, weight and ledger. A
        schema that only changes bins must therefore keep them.

        Parameters
        ----------
        other : Schema
            The other schema.

        Raises
        ------
        SchemaError
            If the unit, the weight or the ledger differs.
        """
        for fact in ("unit", "weight", "ledger"):
            if getattr(self, fact) != getattr(other, fact):
                raise SchemaError(
                    f"the rows were read with another {fact} than the new schema declares, and the "
                    f"guarantee depends on it. Declare the same {fact} in both schemas"
                )

    def with_bins(self, bins: Mapping[str, Binning]) -> Schema:
        """Return the schema with bins of numeric attributes that a fit released.

        Bins are intervals in which numbers are counted. Two tables that are counted by the same
        bins can be compared.

        Parameters
        ----------
        bins : mapping of str to Binning
            The bins of each attribute by name, such as ``model.bins_``. Only numeric attributes
            without declared bins get them. Other names are ignored.

        Returns
        -------
        Schema
            A changed copy. Its bins are released. A guarantee that uses them has the condition that
            the cost of the fit is stated separately. This condition is not checked.

        Raises
        ------
        SchemaError
            If bins do not fit the bounds of their attribute.
        """
        free = (a for a in self if isinstance(a, Numeric) and not a.has_declared_bins)
        return self.with_attributes(
            {a.name: replace(a, bins=bins[a.name]) for a in free if a.name in bins}
        )

    def _repr_html_(self) -> str:
        """Return a table of the attributes, without facts that have not been declared public."""
        titles = "".join(f"<th>{c}</th>" for c in ("name", "kind", "domain", "may be", "label"))
        rows = (map(escape, _shown(attribute)) for attribute in self)
        body = "".join(f"<tr><td>{'</td><td>'.join(cells)}</td></tr>" for cells in rows)
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"

    @property
    def undeclared(self) -> dict[str, tuple[str, ...]]:
        """Facts of the schema that were read from private data and are not declared public yet.

        A release raises SchemaError for a schema with these facts, unless they are accepted.

        Returns
        -------
        dict of str to tuple of str
            For each column with marks, the names of the marked facts. The entry ``"[file]"`` has
            the facts about text files, which `Layout` marks. An unread column has the fact
            ``"kind"``. Empty if every fact is declared public.
        """
        unread = dict.fromkeys(self.undeclared_columns, ("kind",))
        marked = {a.name: a.undeclared for a in self.attributes if a.undeclared} | unread
        if self.file.undeclared:  # a column may be called "[file]", too
            marked[FILE] = (*marked.get(FILE, ()), *self.file.undeclared)
        return marked

    def declare_public(self) -> Schema:
        """Return a copy of the schema in which all facts are declared public.

        Marks of facts that were read from private data are removed.

        The caller is responsible for this declaration. Nothing checks it, and guarantees build on
        it.

        Returns
        -------
        Schema
            A copy without marks. It is public by the declaration of the caller.

        Examples
        --------
        >>> from missdp.schema import Categorical, Schema
        >>> draft = Schema((Categorical(name="a", levels=("x",), undeclared=("levels",)),))
        >>> draft.undeclared, draft.declare_public().undeclared
        ({'a': ('levels',)}, {})
        """
        attributes = tuple(replace(a, undeclared=()) for a in self.attributes)
        file = replace(self.file, undeclared=())
        return replace(self, attributes=attributes, file=file, undeclared_columns=())

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        del data
        return SchemaError(why)

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Create a schema from a dictionary with the tables of a schema's TOML file.

        No private rows are read.

        Parameters
        ----------
        data : mapping of str to JSON value
            The tables: ``"attribute"`` has a list of attributes, ``"rule"`` a list of rules.
            :meth:`to_dict` returns such a dictionary.

        Returns
        -------
        Schema
            Public.

        Raises
        ------
        SchemaError
            If a table or field is unknown, absent, of the wrong type or out of range.
        """
        if not isinstance(data, Mapping):
            raise SchemaError("a schema is read from a mapping with [[attribute]] tables")
        return super().from_dict(data)

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Self:
        if data.get("format", _FORMAT) != _FORMAT:
            raise SchemaError(f"this version reads schema format {_FORMAT} only")
        _check_keys(data)
        rows, rules = data.get("attribute"), data.get("rule", [])
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            single = ". [attribute] has single brackets" * isinstance(rows, Mapping)
            raise SchemaError(f"a schema needs [[attribute]] tables, one per column{single}")
        if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
            single = ". [rule] has single brackets" * isinstance(rules, Mapping)
            raise SchemaError(f"rules are [[rule]] tables, one for each{single}")
        columns = [Column.from_dict(row) for row in rows]
        unread = [column for column in columns if isinstance(column, Unread)]
        ignored = data.get("ignore", [])
        facts: dict[str, Any] = {
            n: kind.from_table(data[n]) for n, kind in TABLES.items() if n in data
        }
        facts |= {"ledger": data["ledger"]} if "ledger" in data else {}
        return cls(
            tuple(a for a in columns if isinstance(a, Attribute)),  # type: ignore[misc]
            tuple(_read_rule(rule, number) for number, rule in enumerate(rules, start=1)),
            keys=tuple(column.name for column in unread if isinstance(column, Key)),
            ignore=(*ignored, *(c.name for c in unread if isinstance(c, Ignored))),
            undeclared_columns=tuple(column.name for column in unread if column.undeclared),
            **facts,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as a dictionary with the tables of a TOML file.

        Returns
        -------
        dict of str to JSON value
            ``kind``, then the tables and fields that differ from their defaults. :meth:`from_dict`
            reads it. Public.
        """
        marked = {*self.undeclared_columns}
        unread = [Key.marked(name, name in marked) for name in self.keys]
        last = [Ignored.marked(name, True) for name in self.ignore if name in marked]
        tables = {name: fact.to_table() for name, fact in self.tables.items()}
        stated = {
            "ledger": self.ledger,
            "ignore": [name for name in self.ignore if name not in marked],
            **tables,
            "attribute": [column.to_dict() for column in (*unread, *self.attributes, *last)],
            "rule": [rule.to_dict() for rule in self.rules],
        }
        return {"kind": self.kind} | {name: fact for name, fact in stated.items() if fact}

    @property
    def tables(self) -> dict[str, SchemaTable]:
        """Facts about all rows (unit, weights, file format), by the name of their table in TOML.

        Facts that equal their defaults are left out.

        Returns
        -------
        dict of str to SchemaTable
            Some of the keys "unit", "weight" and "file". The values are a :class:`Unit`, a
            :class:`SurveyWeight` and a :class:`Layout`. Public.
        """
        declared = {name: getattr(self, name) for name in TABLES}
        return {name: fact for name, fact in declared.items() if fact not in (None, PLAIN)}

    def without_ledger(self) -> Self:
        """Return the schema without its ledger, so that its rows need not be charged there again.

        A ledger is a database of budgets, which each release from the rows must charge. The result
        is for rows that are released, or whose release was already charged.

        Returns
        -------
        Schema
            A copy whose ``ledger`` is empty, or this schema if it has none. Public.
        """
        return replace(self, ledger="") if self.ledger else self

    @classmethod
    def from_toml(cls, source: str | Path) -> Schema:
        """Read a schema, the public facts about a table, from a TOML file.

        Parameters
        ----------
        source : str or Path
            The path of the file, in UTF-8.

        Returns
        -------
        Schema
            Public.

        Raises
        ------
        SchemaError
            If the file cannot be read, is not TOML, or its facts do not make a schema.
        """
        return cls._of_tables(load_toml(Path(source), SchemaError))

    @classmethod
    def from_toml_text(cls, text: str, *, name: str = "schema.toml") -> Schema:
        r"""Read a schema from the text of a TOML file.

        Parameters
        ----------
        text : str
            The content of the file.
        name : str, default "schema.toml"
            The name of the file in messages.

        Returns
        -------
        Schema
            Public.

        Raises
        ------
        SchemaError
            If the text is not TOML, or its facts do not make a schema.

        Examples
        --------
        >>> from missdp import Schema
        >>> text = '[[attribute]]\nname = "age"\nkind = "numeric"\nlower = 0\nupper = 99'
        >>> Schema.from_toml_text(text).names
        ('age',)
        """
        return cls._of_tables(read_toml(text.encode("utf-8"), name, SchemaError))

    @classmethod
    def _of_tables(cls, tables: dict[str, Any]) -> Schema:
        """Return the schema of the tables of a TOML file."""
        if {"name", "kind"} & {*tables}:
            raise SchemaError(
                "fields of an attribute stand outside of a table. Write [[attribute]] above them."
            )
        return cls.from_dict(tables)

    def to_toml(
        self,
        path: str | Path,
        *,
        comments: Mapping[str, Iterable[str]] | None = None,
        notes: str = "",
    ) -> None:
        """Write a schema, the public facts about a table, to a TOML file.

        The file is written completely or not at all.

        Parameters
        ----------
        path : str or Path
            The file. An existing file is replaced.
        comments : mapping of str to iterable of str, optional
            Lines above the block of an attribute, by its name.
        notes : str, default ""
            TOML text at the end of the file, such as comments.

        Raises
        ------
        OutputError
            If the file cannot be written.
        """
        text = self.toml_text(comments=comments, notes=notes)
        write_atomically(Path(path), text.encode("utf-8"))

    def toml_text(
        self, *, comments: Mapping[str, Iterable[str]] | None = None, notes: str = ""
    ) -> str:
        """Return the content of the TOML file of the schema.

        Parameters
        ----------
        comments : mapping of str to iterable of str, optional
            Lines above the block of an attribute, by its name.
        notes : str, default ""
            TOML text at the end, such as comments.

        Returns
        -------
        str
            The text, which `from_toml_text` reads. As public as the schema.
        """
        document = {"format": _FORMAT} | self.to_dict()
        del document["kind"]
        # `EitherDate` is created again on reading, unless its bins are released.
        if not any(isinstance(a, Difference) and isinstance(a.bins, Binning) for a in self):
            rows = [row for row in document["attribute"] if row["kind"] != EitherDate.kind]
            document["attribute"] = rows
        text = _MARKS.sub(_on_one_line, tomli_w.dumps(document))
        for name, lines in (comments or {}).items():
            block = f"[[attribute]]\n{tomli_w.dumps({'name': name})}"
            text = text.replace(block, comment(*lines) + block, 1)
        return _HEADER + text + notes


def _not_applicable(columns: Columns, rules: Iterable[Rule]) -> frozenset[str]:
    """Return the attributes that are not applicable to some rows."""
    bound = [b for rule in rules for b in rule.bound(columns)]
    names = {a.name for a in columns.values() if a.not_applicable is not None}
    names |= {rule.target.name for rule in bound if isinstance(rule, Routing)}
    derived = [rule for rule in bound if isinstance(rule, Derived)]
    grown = {*names}
    while grown:
        grown = {r.target.name for r in derived if names & {*r.by}} - names
        names |= grown
    return frozenset(names)


def _with_computed(attributes: Sequence[AnyAttribute]) -> tuple[AnyAttribute, ...]:
    """Return the attributes, with differences in units of their dates, and with `EitherDate`s."""
    declared = {a.name: a for a in attributes}
    bound = [a.in_date_units(declared) if isinstance(a, Difference) else a for a in attributes]
    columns = {a.name: a for a in bound}
    # A schema that was derived from another keeps its attributes: only new differences get a date.
    new = (a for a in attributes if isinstance(a, Difference) and a.resolution is None)
    eithers = (columns[a.name].either_date(columns) for a in new)  # type: ignore[union-attr]
    return (*bound, *(e for e in eithers if e is not None and e.name not in columns))


def _read_rule(data: Mapping[str, Any], number: int) -> Rule:
    """Return the rule of a table. Errors name the number of the table in the file."""
    with replacing(SchemaError, by=lambda error: SchemaError(f"[[rule]] number {number}: {error}")):
        return Rule.from_dict(data)


def _check_keys(data: Mapping[str, Any]) -> None:
    """Raise SchemaError for an unknown table or field. The error names the right table."""
    if unknown := sorted({*data} - {"kind", *_TOML_KEYS}, key=str):
        near = field_hint(str(unknown[0]), _TOML_KEYS)
        listed = f". Known: {', '.join(_TOML_KEYS)}."
        raise SchemaError(f"unknown table or field {unknown[0]!r} in a schema{near or listed}")


def _shown(attribute: AnyAttribute) -> tuple[str, ...]:
    """Return the public facts of an attribute as cells of a row."""
    read = {*attribute.undeclared}
    if isinstance(attribute, Numeric):
        domain = " to ".join(map(attribute.format_value, (attribute.lower, attribute.upper)))
    else:
        public = replace(attribute, labels=()) if "labels" in read else attribute
        more = f", and {public.size - _FEW} more" if public.size > _FEW else ""
        domain = ", ".join(public.level_labels[:_FEW]) + more
    if read & {"levels", "lower", "upper"}:
        domain = "not declared public yet"
    kinds = ", ".join(kind.replace("_", " ") for kind in attribute.kinds)
    if read & {"nullable", "missing_codes", *KINDS}:
        kinds = "not declared public yet"
    label = "" if "label" in read else attribute.label
    return attribute.name, attribute.kind, domain, kinds, label


def check_schema(schema: object) -> Schema:
    """Return a schema. Raise SchemaError for other objects, such as the path of a schema."""
    if not isinstance(schema, Schema):
        raise SchemaError(
            f"schema must be a missdp.Schema, not {type(schema).__name__}. Schema.from_toml reads "
            "a schema from a file."
        )
    return schema


# The time that Python takes to read a key grows with the square of its parts.
_DEEP = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){99}""")
_PLACE = re.compile(r" \(at .*\)$")
# The most frequent mistake for each reason of the parser, by the start of the reason. Other reasons
# are not shown, since some reasons quote the file.
_HINTS = {
    "Invalid value": '. Put text in quotes: levels = ["no", "yes"].',
    "Expected ']]'": ". Write [[attribute]] with two brackets at either end.",
    "Cannot declare ('attribute',)": ". Write [[attribute]] with two brackets at either end.",
    "Cannot declare ('rule',)": ". Write [[rule]] with two brackets at either end.",
    "Cannot declare": ": a table is declared twice.",
    "Cannot overwrite a value": ": cannot overwrite a value. A name stands once in each table.",
    "Expected '='": ": expected '=' after a name.",
    "Expected newline": ": expected the end of the line after a value.",
    "Invalid statement": ": expected a table or a name.",
    "Invalid initial character": ": expected a name.",
    "Unclosed array": ": a list is not closed. Write ] at its end.",
    "Unescaped": r": write \\ for a backslash in text.",
    "Unterminated string": ": a quote is not closed.",
    "Expected ']'": ": expected ] at the end of a table's name.",
    "Invalid date": ": not a date of the calendar.",
}
_MARKS = re.compile(r"^undeclared = \[\n[^\]]*\]", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]+")
READ_BOUNDS = (
    "# The smallest and the largest cell. Replace them by wider bounds that are publicly known."
)
_HEADER = """\
# missdp schema: public facts about the columns of a table.
# Every fact here enters released output. A name in `undeclared` marks a fact that was read from
# the private data. Check it, replace it by a publicly known fact, then delete the mark.

"""


def load_toml(path: Path, refusal: type[MissDPError]) -> dict[str, Any]:
    """Return the tables of a TOML file. Raise ``refusal`` if the file is not readable TOML."""

    def unreadable(error: BaseException) -> MissDPError:
        if isinstance(error, FileNotFoundError):
            return refusal(f"there is no file {str(path)!r}. Check the path.")
        reason = getattr(error, "strerror", None) or "it is not a readable file"
        return refusal(f"cannot read {str(path)!r}: {reason}")

    content = b""
    with replacing(OSError, by=unreadable):
        content = path.read_bytes()
    return read_toml(content, str(path), refusal)


def read_toml(content: bytes, name: str, refusal: type[MissDPError]) -> dict[str, Any]:
    """Return the tables of the content of a TOML file.

    Parameters
    ----------
    content : bytes
        The content, in UTF-8.
    name : str
        The name of the file in messages.
    refusal : type of MissDPError
        The type of errors.

    Returns
    -------
    dict
        The tables.

    Raises
    ------
    MissDPError
        An error of the type ``refusal`` if the content is not TOML in UTF-8.
    """

    def malformed(error: BaseException) -> MissDPError:
        # Only the place is quoted. The reason may quote a character of a private file.
        place = _PLACE.search(str(error))
        where = place[0].replace("(at ", "(") if place else ""
        hint = next((hint for text, hint in _HINTS.items() if text in str(error)), "")
        if isinstance(error, UnicodeDecodeError):
            where, hint = "", ": save it as UTF-8"
        return refusal(f"{name!r} is not valid TOML{where}{hint}")

    with replacing(ValueError, RecursionError, by=malformed):
        # Some editors begin a UTF-8 file with a byte order mark.
        text = content.decode("utf-8-sig")
        if _DEEP.search(text):
            raise ValueError("too deep (at a key of 100 parts or more)")
        return tomllib.loads(text)


def comment(*texts: str) -> str:
    """Return texts as lines of comments of a TOML file, without control characters."""
    lines = (line for text in texts for line in _CONTROL.split(text))
    return "".join(f"# {line}\n" for line in lines)


def _on_one_line(marks: re.Match[str]) -> str:
    """Write the marks of an attribute as one line, which is easy to delete."""
    items = (line.strip() for line in marks[0].splitlines())
    line = " ".join(items).replace("[ ", "[").replace(", ]", "]")
    return f"{line}\n{READ_BOUNDS}" if '"lower"' in line else line
