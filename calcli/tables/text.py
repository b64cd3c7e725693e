"""CSV and TSV files, with every value as the text in the file, but for decimal commas; the types of text columns.

polars' own reader is a third faster, but fills short rows with nulls. This one, based on pyarrow's, refuses short and
long rows, bytes that are not UTF-8 and quotes that are never closed, and names the row. An unquoted empty field is
null, a quoted one an empty string. Empty lines are skipped, except in files of one column, where they are nulls.

A first line ``sep=;`` names the separator, as in Excel, and is no row of the table. If the first line has one field,
and several with another separator, the other separator is taken. Numbers may then have a decimal comma. It becomes a
point if the first rows of the column hold no other numbers, and `as_written` makes it a comma again.

The types (integers, numbers, booleans or text) are inferred in one pass over all rows, so that they fit every row. A
number with a leading zero (a postal code, a key) makes its column text, because 007 is not 7.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from typing import IO, Any, Literal, TypeVar

import polars as pl
import pyarrow as pa

from calcli.batch import grouped
from calcli.errors import DataError
from calcli.tables.paths import SEPARATORS, Dialect, not_utf8, one_line, reading
from calcli.tables.scan import LocalFile, refuse_constants, refuse_other_columns, scan_frames

Values = TypeVar("Values", pl.Series, pl.Expr)

BLOCK = 1 << 22
"""The number of bytes that are parsed at a time; a row must fit."""

OTHER_SEPARATORS = (";", "\t", "|", ",")

LOOKED_AT = 1000
"""The number of rows that tell whether a column of numbers has decimal commas."""

COMMA = r"^([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)$"
NUMBER = re.compile(r"[+-]?(\d+(,\d+)?|,\d+)([eE][+-]?\d+)?")

DECLARATION = re.compile(r'"?sep=([^"\w])"?', re.IGNORECASE)

THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
"""A number that may have a separator of thousands: a column of nothing else stays text."""

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "\\N", ".")
"""Texts that stand for a missing number or boolean, the last two as PostgreSQL and SAS write them; in a column of text
they are plain text."""

TRUTHS = ("true", "false")

TEXT_TYPES = (pl.String, pl.Categorical, pl.Enum)

LEADING_ZERO = r"^[+-]?0\d"

_DAY = r"\d{4}-\d\d-\d\d"
_CLOCK = r"(?:[01]\d|2[0-4]):[0-5]\d"
_SECONDS = r":[0-6]\d(?:[.,]\d+)?"
_ZONE = r" ?(?:[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?(?:\[[\w/+-]+\])?"
TIME = rf"^(?:{_DAY}(?:[Tt ]{_CLOCK}(?:{_SECONDS})?{_ZONE})?|{_CLOCK}{_SECONDS}{_ZONE})$"
"""Dates, times with or without a date and a zone, as ISO 8601 and libraries write them."""

UNCLOSED = "a quote is never closed, or the file was cut off"

NO_ROWS = "cannot infer number of columns"
"""pyarrow's message for a header without rows or a line end."""


def in_their_dialect(files: Sequence[LocalFile], separator: str | None) -> list[LocalFile]:
    """The files with their separators, given or found in the first lines, and their columns with decimal commas."""
    found = []
    for file in files:
        _refuse_other_content(file)
        declared = _declared_separator(file)
        dialect = Dialect(separator or declared or SEPARATORS[file.format], declared=declared is not None)
        plain = replace(file, dialect=dialect)
        if separator is None and declared is None and len(_first_row(plain)) == 1:
            others = [replace(file, dialect=Dialect(mark)) for mark in OTHER_SEPARATORS]
            plain = max([plain, *others], key=lambda each: len(_first_row(each)))
        found.append(plain)
    commas = frozenset().union(*(_with_commas(file) for file in found))
    return [replace(file, dialect=replace(file.dialect, commas=commas)) for file in found]


def _declared_separator(file: LocalFile) -> str | None:
    """The separator that a first line such as ``sep=;`` names."""
    with reading(file.name), _opened(file) as stream:
        line = DECLARATION.fullmatch(stream.readline(10).rstrip("\r\n"))
    return line[1] if line else None


def as_written(frame: pl.LazyFrame, dialect: Dialect) -> pl.LazyFrame:
    """The rows of `scan_text` with the decimal commas that they had."""
    return frame.with_columns(pl.col(name).str.replace(".", ",", literal=True) for name in sorted(dialect.commas))


def _with_commas(file: LocalFile) -> set[str]:
    """The columns whose first rows hold numbers with decimal commas, and no other numbers."""
    if file.dialect.separator == ",":
        return set()
    with reading(file.name), _opened(file) as stream, contextlib.suppress(csv.Error):
        names, *rows = islice(filter(None, csv.reader(stream, delimiter=file.dialect.separator)), LOOKED_AT + 1)
        columns = zip(names, zip_longest(*rows, fillvalue=""), strict=False)
        present = {name: [value for value in values if value not in MISSING] for name, values in columns}
        return {
            name
            for name, values in present.items()
            if any("," in value and not THOUSANDS.fullmatch(value) for value in values)
            and all(NUMBER.fullmatch(value) for value in values)
        }
    return set()


def header(file: LocalFile) -> tuple[str, ...]:
    """The column names; refuses files that have no names, or a name twice."""
    names = _first_row(file)
    if any("\0" in name for name in names):
        raise DataError(f"{file.name} has a NUL byte in a column name", hint="is it a text file?")
    known: set[str] = set()
    for name in names:
        if name in known:
            raise DataError(f"{file.name} has more than one column {name!r}", hint="rename one of them")
        known.add(name)
    refuse_constants(file, names)
    return names


def _refuse_other_content(file: LocalFile) -> None:
    """Refuse a file that is empty, or no text."""
    with reading(file.name), file.path.open("rb") as stream:
        start = stream.read(4)
    if not start.strip(b"\xef\xbb\xbf\r\n"):
        raise DataError(f"{file.name} is empty", hint="a table starts with a line of column names")
    if start in (b"PAR1", b"ARRO"):
        raise DataError(f"{file.name} is a Parquet or Arrow file, not text", hint="name the format with --input-format")
    if start == b"PK\x03\x04":
        raise DataError(f"{file.name} is a ZIP archive or a spreadsheet, not text", hint="write it as CSV")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in start:
        raise not_utf8(file.name)


def _opened(file: LocalFile) -> IO[str]:
    """The text of the table; bad bytes are passed on, because blocks reach beyond the lines that are wanted."""
    stream = file.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")
    if file.dialect.declared:
        stream.readline()
    return stream


def _first_row(file: LocalFile) -> tuple[str, ...]:
    """The fields of the first line that is not empty."""
    try:
        with reading(file.name), _opened(file) as stream:
            names = next(filter(None, csv.reader(stream, delimiter=file.dialect.separator)))
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise not_utf8(f"the first line of {file.name}") from error
    except (csv.Error, StopIteration) as error:
        raise DataError(f"{file.name} has no line of column names: {one_line(error)}") from error
    return tuple(names)


def scan_text(files: Sequence[LocalFile]) -> pl.LazyFrame:
    """All rows of `files`, in order; they are read each time the frame is collected."""
    names = header(files[0])
    for other in files[1:]:
        refuse_other_columns(other, header(other), files[0], names)
    columns = [*names, *files[0].constants]

    def read(keep: Sequence[str]) -> Iterator[pl.DataFrame]:
        for file in files:
            yield from _frames(file, keep)

    return scan_frames(read, dict.fromkeys(columns, pl.String()))


def _frames(file: LocalFile, keep: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The rows of one file in chunks; errors of pyarrow are explained."""
    names = header(file)
    # The last column is always read: at its end a quote that is never closed is noticed.
    read = [name for name in keep if name not in file.constants and name != names[-1]] + [names[-1]]
    constants = [pl.lit(value, dtype=pl.String).alias(name) for name, value in file.constants.items() if name in keep]
    points = [pl.col(name).str.replace(COMMA, "${1}.${2}") for name in keep if name in file.dialect.commas]
    wrong: list[Any] = []
    last: str | None = None
    try:
        with reading(file.name), _open(file, names, read, wrong) as reader:
            for batch in reader:
                if batch.num_rows:
                    frame = pl.DataFrame(batch)
                    last = frame.item(-1, names[-1])
                    yield frame.with_columns(*points, *constants).select(keep)
    except DataError as error:
        if not isinstance(error.__cause__, pa.ArrowInvalid):
            raise
        if NO_ROWS not in str(error.__cause__):
            raise _explained(error.__cause__, file, wrong) from error.__cause__
    if last is not None and _never_closed(file, last):
        raise DataError(f"{file.name} ends inside a quoted value", hint=UNCLOSED)


def _open(file: LocalFile, names: Sequence[str], keep: Sequence[str], wrong: list[Any]) -> Any:
    from pyarrow import csv as arrow_csv

    def refuse(row: Any) -> Literal["error"]:
        wrong.append(row)
        return "error"

    return arrow_csv.open_csv(
        str(file.path),
        read_options=arrow_csv.ReadOptions(
            use_threads=False,  # threads hide the row numbers
            block_size=BLOCK,
            skip_rows=int(file.dialect.declared),
        ),
        parse_options=arrow_csv.ParseOptions(
            delimiter=file.dialect.separator,
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,
            invalid_row_handler=refuse,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types={name: pa.large_string() for name in keep},
            include_columns=list(keep),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _explained(error: pa.ArrowInvalid, file: LocalFile, wrong: list[Any]) -> DataError:
    """The error of pyarrow in our words, with rows counted from the first below the header."""
    above = 1 + file.dialect.declared
    if wrong:
        row = wrong[0]
        where = "" if row.number is None else f" in row {row.number - above}"
        text = row.text if len(row.text) <= 60 else row.text[:60] + "…"
        return DataError(
            f"{file.name} has {row.actual_columns} fields{where}, but {row.expected_columns} column names: {text!r}",
            hint="put fields that contain a separator in quotes",
        )
    message = one_line(error)
    if "UTF8" in message:
        number = re.search(r"Row #(\d+)", message)
        return not_utf8(f"row {int(number[1]) - above} of {file.name}" if number else file.name)
    if "straddling" in message:
        return DataError(f"{file.name} has a row of more than {BLOCK >> 20} MB", hint=UNCLOSED)
    return DataError(f"{file.name} cannot be read: {message}")


def _never_closed(file: LocalFile, last: str) -> bool:
    """Whether the file ends in an opening quote followed by its last value, and then nothing.

    A closed value of one line break looks the same from its closing quote on: then the number of quotes decides.
    """
    value = b'"' + last.replace('"', '""').encode()

    def ends_in(end: bytes) -> bool:
        before = tail[: -len(end)][-1:]
        return tail.endswith(end) and before in (b"", b"\n", b"\r", file.dialect.separator.encode())

    with file.path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - len(value) - 4))
        tail = stream.read()
        if not any(ends_in(value + b'"' + line) for line in (b"", b"\n", b"\r", b"\r\n")):
            return ends_in(value)
        stream.seek(0)
        return ends_in(value) and sum(part.count(b'"') for part in iter(lambda: stream.read(BLOCK), b"")) % 2 == 1


COLUMNS_LOOKED_AT = 500
MOST_LOOKED_AT = 1 << 22
"""How many columns of a table of texts are looked at at once, and about how many values, as batches of wide tables have
few rows: each look has a price for each column, and expressions for thousands of them a price of their own in time and
memory."""


def infer_schema(raw: pl.LazyFrame) -> pl.Schema:
    """The types of text columns, by one pass over all rows."""
    # The types that are still possible for each column after the rows so far; "empty": it may hold no value at all.
    kinds = {name: {"integer", "unsigned", "number", "boolean", "empty"} for name in raw.collect_schema()}
    for batch in map(pl.concat, grouped(raw.collect_batches(), lambda one: len(one) * one.width, MOST_LOOKED_AT)):
        undecided = [name for name, kind in kinds.items() if kind & {"number", "boolean"}]
        for first in range(0, len(undecided), COLUMNS_LOOKED_AT):
            some = undecided[first : first + COLUMNS_LOOKED_AT]
            answers = batch.select(pl.struct(_look(name, kinds[name])).alias(name) for name in some)
            for name, answer in answers.row(0, named=True).items():
                kinds[name] -= {kind for kind, fits in answer.items() if not fits}
    return pl.Schema({name: _dtype(kind) for name, kind in kinds.items()})


def _dtype(kinds: set[str]) -> pl.DataType:
    """The type of a column, from the types that are possible after all rows."""
    if "empty" in kinds or not kinds & {"number", "boolean"}:
        return pl.String()
    if "number" in kinds:
        if "integer" in kinds:
            return pl.Int64()
        return pl.UInt64() if "unsigned" in kinds else pl.Float64()
    return pl.Boolean()


def _look(name: str, kinds: set[str]) -> Iterator[pl.Expr]:
    """Expressions that tell for each type that is still possible whether these rows fit it."""
    text = pl.col(name)
    number = text.cast(pl.Float64, strict=False)
    lower = text.str.to_lowercase()
    truth = lower.is_in(TRUTHS)
    if "number" in kinds:
        yield (_only_missing(text, number.is_null()) & ~text.str.contains(LEADING_ZERO).any()).alias("number")
        for kind, dtype in (("integer", pl.Int64), ("unsigned", pl.UInt64)):
            if kind in kinds:
                yield _only_missing(text, text.cast(dtype, strict=False).is_null()).alias(kind)
    if "boolean" in kinds:
        yield _only_missing(text, ~truth).alias("boolean")
    if "empty" in kinds:
        yield (~(number.is_not_nan().any() | truth.any())).alias("empty")


def all_missing(values: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Whether a column has no value."""
    if dtype == pl.String:
        return _only_missing(values, pl.lit(value=True))
    return (values.is_null() | values.is_nan() if dtype.is_float() else values.is_null()).all()


def all_times(text: pl.Expr) -> pl.Expr:
    """Whether all texts that are not missing are valid dates or times."""
    day = text.str.slice(0, 10)
    wrong = ~text.str.contains(TIME) | (day.str.contains("-") & day.str.to_date("%Y-%m-%d", strict=False).is_null())
    return _only_missing(text, wrong & (text != "NaT"))


def _only_missing(text: pl.Expr, rows: pl.Expr) -> pl.Expr:
    """Whether all values in these rows are missing."""
    return text.filter(rows & text.is_not_null()).is_in(MISSING).all()


def is_present(values: Values) -> Values:
    """Which values of a text column of numbers or booleans are not missing."""
    return values.is_not_null() & ~values.is_in(MISSING)


def cast_text(name: str, dtype: pl.DataType) -> pl.Expr:
    """A text column as the type that `infer_schema` found for it."""
    column = pl.col(name)
    if dtype.is_numeric():
        cast = column.cast(dtype, strict=False)
        return cast.fill_nan(None) if dtype.is_float() else cast
    if dtype == pl.Boolean:
        lower = column.str.to_lowercase()
        return pl.when(lower == "true").then(True).when(lower == "false").then(False).alias(name)
    return column
