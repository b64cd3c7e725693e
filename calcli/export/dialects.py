"""The differences of databases: how texts compare and are written, what keeps a step apart, how long statements may be.

sqlglot knows how each dialect quotes names and spells types and functions; what it does not know is here. A dialect is
offered if it has an entry: "run" means that the tests run its statements on that engine or emulator, the others are
only written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import sqlglot
from sqlglot import exp

from calcli.errors import UsageError, unknown_name

PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _-+.,:;/()<>=@#!?*|~^[]")
"""The characters that need no escape in a literal of any dialect, whatever its settings."""


def _doubled(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _backslashed(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r") + "'"


def _hexadecimal(text: str, form: str = "x'{}'", encoding: str = "utf-8") -> str:
    return form.format(text.encode(encoding).hex().upper())


def _of_postgres(text: str) -> str:
    """A literal with an E before backslashes: they mean the same then, whatever `standard_conforming_strings` says."""
    return "E" + _doubled(text.replace("\\", "\\\\")) if "\\" in text else _doubled(text)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect."""

    name: str
    """As sqlglot has it."""

    engine: str = ""
    """On which the tests run its statements, with the version; empty where they are only written."""

    emulator: str = ""
    """The emulator on which the tests run its statements in place of an engine."""

    awkward: Callable[[str], str] = _doubled
    """A literal of a text with anything but `PLAIN` characters."""

    plain: Callable[[str], str] = _doubled
    """A literal of any other text."""

    text: str = "CAST({} AS TEXT)"
    """A column as text whose comparison is that of its bytes; `{}` is the column."""

    truth: str = "CAST({} AS BOOLEAN)"
    """A column as a condition."""

    fence: str = ""
    """The end of a step, so that the database does not write it out wherever its columns are used."""

    view: str = "CREATE OR REPLACE VIEW"
    """The beginning of a view, before its name."""

    function: str = ""
    """A function of an expression, by {name}, {names} of its parameters, or {parameters} with types, and {expression};
    empty where there is none.
    """

    decimal_literals: bool = False
    """Whether 1e0 is an exact number, not a double."""

    look_up: str = ""
    """A number of a {list}, by its {place} from 1 on; empty where there are no lists."""

    numbers: str = "[{values}]"
    """A list of numbers by its {values} as text and their {type}."""

    listing: str = "[{}]"
    """A list of the terms `{}`."""

    gathered: str = ""
    """The column `value` of all rows as a list, in the order of their `place`."""

    outside: str = "(SELECT numbers FROM {})"
    """Such a list, by the name `{}` of the step that makes it."""

    crossed: bool = False
    """Whether each step that reads such a list is a product of its rows and of that one."""

    slow_cases: bool = False
    """Whether a CASE of thousands of branches takes longer than to look places up, or more memory than there is."""

    joins_lists: bool = False
    """Whether IN of several constants becomes a join of all rows, even in a branch that few of them reach."""

    bit: str = "CASE WHEN {test} THEN {weight} ELSE 0 END"
    """The number that a condition adds to a place: its {weight} where it holds."""

    rows: str = ""
    """A small table within a query by its {columns}, their {types} and its {values} as a text; empty where VALUES do.
    """

    create: str = "CREATE TABLE {name} ({columns})"
    """A table by its {name}, its {columns} with types, and those that are its {key}."""

    can_join: bool = True
    """Whether small tables can be written within a query."""

    excluding: bool = False
    """Whether a query can give all columns except some."""

    deepest: int = 1_000
    """How deep an expression may be nested, as `subexpressions.depths` counts."""

    most_columns: int = 1_000
    """The most columns of a step of a query."""

    most_bytes: int = 1_000_000
    """The most bytes of a statement."""

    taken_bytes: int = 1_000_000
    """The most bytes of a statement that needs no `settings`."""

    settings: str = ""
    """A statement that raises the limits of the database for a statement of {size}."""

    def literal(self, text: str) -> str:
        return self.plain(text) if PLAIN.issuperset(text) else self.awkward(text)

    def key(self, key: str | int) -> str:
        return self.literal(key) if isinstance(key, str) else str(key)

    def is_too_long(self, statement: str) -> bool:
        """Whether the statement has more bytes than a database should be given."""
        return len(statement.encode()) > self.most_bytes

    def settings_for(self, statement: str) -> list[str]:
        """The statements that must be run before the database takes this one."""
        size = len(statement.encode())
        return [self.settings.format(size=2 * size)] if self.settings and size > self.taken_bytes else []

    @property
    def tested(self) -> str:
        """A phrase that says how far the statements of the dialect are tested."""
        if self.emulator:
            return f"run on an emulator ({self.emulator})"
        return f"run on {self.engine}" if self.engine else "generated only"


# Spark substitutes `${x}` in any statement, and what a backslash is depends on its settings.
_of_spark = partial(
    Dialect,
    awkward=partial(_hexadecimal, form="CAST(X'{}' AS STRING)"),
    text="CAST({} AS STRING)",
    look_up="GET({list}, {place} - 1)",
    numbers="CAST(SPLIT('{values}', ',') AS ARRAY<{type}>)",
    listing="ARRAY({})",
    gathered="TRANSFORM(ARRAY_SORT(COLLECT_LIST(STRUCT(place, value))), one -> one.value)",
    slow_cases=True,
    excluding=True,
)
_KEYED = "CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}))"
_FUNCTION = "CREATE OR REPLACE FUNCTION {name}({parameters}) RETURNS"

_ALL = (
    Dialect(
        "duckdb",
        "DuckDB 1.1",
        most_columns=100_000,
        function="CREATE OR REPLACE MACRO {name}({names}) AS ({expression})",
        fence="OFFSET 0",
        look_up="{list}[{place}]",
        numbers="CAST('[{values}]' AS {type}[])",
        gathered="LIST(value ORDER BY place)",
        outside="{}.numbers",
        crossed=True,
        slow_cases=True,
        joins_lists=True,
        bit="CAST({test} AS INT) * {weight}",
        excluding=True,
    ),
    Dialect(
        "postgres",
        "PostgreSQL 15",
        create=_KEYED,
        awkward=_of_postgres,
        text='CAST({} AS TEXT) COLLATE "C"',
        truth="CAST(CAST({} AS TEXT) AS BOOLEAN)",  # small integers have no cast of their own
        fence="OFFSET 0",
        look_up="({list})[{place}]",
        numbers="'{{{values}}}'::{type}[]",
        listing="ARRAY[{}]",
        gathered="ARRAY_AGG(value ORDER BY place)",
        bit="CAST({test} AS INT) * {weight}",
        function=f"{_FUNCTION} double precision LANGUAGE sql IMMUTABLE AS $$SELECT {{expression}}$$",
        decimal_literals=True,
    ),
    Dialect(
        "sqlite",
        "SQLite 3.40",
        create=_KEYED,
        text="CAST({} AS TEXT) COLLATE BINARY",
        truth="{}",
        fence="LIMIT -1",
        view="CREATE VIEW",
        can_join=False,
        deepest=60,
    ),
    Dialect(
        "mysql",
        "MariaDB 10.11",
        create=_KEYED,
        awkward=_hexadecimal,
        text="CAST(CONVERT({} USING utf8mb4) AS BINARY)",
        truth="{}",
        fence="LIMIT 18446744073709551615",
        function=f"{_FUNCTION} DOUBLE DETERMINISTIC RETURN {{expression}}",
    ),
    Dialect(
        "clickhouse",
        "ClickHouse 26",
        most_columns=100_000,
        create="CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY tuple()",
        awkward=_backslashed,
        text="CAST({} AS Nullable(String))",
        truth="CAST({} AS Nullable(Bool))",
        function="CREATE OR REPLACE FUNCTION {name} AS ({names}) -> {expression}",
        # Steps that merge, as those of a LIMIT do, are computed anew at each CASE, so in all exponentially often; those
        # of a WHERE that counts rows do not merge.
        fence="WHERE rowNumberInAllBlocks() >= 0",
        look_up="{list}[{place}]",
        gathered="arrayMap(one -> one.2, arraySort(groupArray((place, value))))",
        rows="(SELECT {columns} FROM (SELECT arrayJoin(CAST({values} AS Array(Tuple({types})))) AS calcli_row))",
        excluding=True,
        taken_bytes=262_144,
        settings="SET max_query_size = {size}, max_ast_elements = {size}, "
        "query_plan_max_optimizations_to_apply = 1000000",
    ),
    _of_spark(
        "spark",
        "Spark 4",
        most_columns=100_000,
        view="CREATE OR REPLACE TEMPORARY VIEW",
        function=f"{_FUNCTION} DOUBLE RETURN {{expression}}".replace("FUNCTION", "TEMPORARY FUNCTION"),
    ),
    Dialect("athena", text="CAST({} AS VARCHAR)"),
    Dialect(
        "bigquery",
        awkward=_backslashed,
        text="CAST({} AS STRING)",
        truth="CAST({} AS BOOL)",
        function=f"{_FUNCTION} FLOAT64 AS ({{expression}})",
        excluding=True,
    ),
    _of_spark("databricks", function=f"{_FUNCTION} DOUBLE RETURN {{expression}}"),
    Dialect("presto", text="CAST({} AS VARCHAR)"),
    Dialect("redshift", awkward=_backslashed, text="CAST({} AS VARCHAR(MAX))", decimal_literals=True, excluding=True),
    Dialect(
        "snowflake",
        emulator="fakesnow",
        awkward=_backslashed,
        text="CAST({} AS VARCHAR)",
        function=f"{_FUNCTION} DOUBLE AS $${{expression}}$$",
        decimal_literals=True,
        excluding=True,
    ),
    Dialect("trino", text="CAST({} AS VARCHAR)"),
    Dialect(
        "tsql",
        create=_KEYED,
        awkward=partial(_hexadecimal, form="0x{}", encoding="utf-16-le"),
        plain=partial(_hexadecimal, form="0x{}", encoding="utf-16-le"),
        text="CAST(CAST({} AS NVARCHAR(4000)) AS VARBINARY(8000))",
        truth="{} = 1",
        view="CREATE OR ALTER VIEW",
    ),
)
DIALECTS = {dialect.name: dialect for dialect in _ALL}


def find(name: str) -> Dialect:
    if name not in DIALECTS:
        raise UsageError(unknown_name("dialect", name, tuple(DIALECTS), limit=100))
    return DIALECTS[name]


def quoted(name: str, dialect: Dialect) -> str:
    if "${" in name and dialect.name in ("spark", "databricks"):
        raise UsageError(f"the name {name!r} holds ${{, which {dialect.name} substitutes", hint="rename the column")
    return str(exp.to_identifier(name, quoted=True).sql(dialect=dialect.name))


def type_name(kind: str, dialect: Dialect) -> str:
    return str(exp.DataType.build(kind).sql(dialect=dialect.name))


def quotes(dialect: Dialect) -> dict[str, str]:
    """The ends of quoted names by their beginnings, with standard SQL's."""
    own = sqlglot.Dialect.get_or_raise(dialect.name).tokenizer_class.IDENTIFIERS
    return {'"': '"'} | dict((one, one) if isinstance(one, str) else one for one in own)
