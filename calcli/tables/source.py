"""Sources: files, globs, directories, URLs, standard input or frames, opened once and read as often as needed.

A `Source` owns the temporary copies of inputs that cannot be read twice, and deletes them when it is closed.

Its columns are those that are stored and those that a path names: ``response.logprobs[0]`` is an item of a list in a
field of the column ``response``, ``exp(PATH)`` is the probability whose logarithm the path or column holds, and
``percent(PATH)`` that of which it holds a hundred times; ``minus(PATH)`` is its number with the other sign.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, cast

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from calcli.errors import DataError, UsageError, unknown_name
from calcli.places import Place
from calcli.tables.arrow_types import ArrowTypes
from calcli.tables.paths import JSON, SEPARATORS, Dialect, Format, Inputs, find_inputs, one_line, reading
from calcli.tables.records import RECORD, scan_records
from calcli.tables.scan import LocalFile, scan_table, scan_typed
from calcli.tables.spool import FileFact, Spool
from calcli.tables.text import cast_text, in_their_dialect, infer_schema, scan_text


class PandasFrame(Protocol):
    """A pandas DataFrame; pandas itself is never imported here."""

    @property
    def iloc(self) -> Any: ...
    @property
    def dtypes(self) -> Any: ...


Frame: TypeAlias = pl.DataFrame | pl.LazyFrame | pa.Table | pa.RecordBatch | PandasFrame
Data: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Frame

Schema: TypeAlias = Mapping[str, pl.DataType]

ITEM = re.compile(r"\[(-?\d{1,9})\]")
CALL = re.compile(r"(exp|percent|minus)\((.+)\)", re.DOTALL)

NO_INPUTS = Inputs((), None)
NO_ARROW_TYPES = ArrowTypes()


@dataclass(eq=False, repr=False)
class Source:
    """A table that can be read as often as needed.

    Examples
    --------
    >>> import polars as pl
    >>> with open_source(pl.DataFrame({"prob": [0.2, 0.9], "label": [0, 1]})) as source:
    ...     source.columns, source.rows()
    (('prob', 'label'), 2)
    """

    raw: pl.LazyFrame
    """The columns as they are in the file, then those that are computed (`find`). In text formats every column is a
    String, so that ``007`` and ``1.50`` pass through unchanged; `text.as_written` restores decimal commas.
    """

    name: str
    """Its name in messages."""

    format: Format | None = None
    """None for frames."""

    arrow_types: ArrowTypes = NO_ARROW_TYPES
    """The parts of an Arrow schema that polars changes, for `sink.write` to restore."""

    inputs: Inputs = NO_INPUTS
    """The files as they are named; none for frames."""

    local: Sequence[Path] = ()
    """The regular, uncompressed files that are read in their places."""

    spool: Spool = field(default_factory=Spool)
    """The owner of those that are temporary copies."""

    dialect: Dialect | None = None
    """How files in a text format are written."""

    scanned: pl.LazyFrame | None = None
    """Files of JSON with the text of each record beside the columns."""

    mixed: Mapping[str, DataError] = field(default_factory=dict)
    """The columns of JSON that mix types, with the errors that reading them raises."""

    _computed: dict[str, Computed] = field(default_factory=dict, init=False)

    @property
    def text(self) -> bool:
        """Whether it is in a text format."""
        return self.format in SEPARATORS

    @property
    def stem(self) -> str | None:
        """The name of a single input file without suffixes; None for everything else."""
        return self.inputs.stem

    @property
    def paths(self) -> tuple[Place, ...]:
        """The files; none for frames and standard input."""
        return tuple(file.path for file in self.inputs.files if file.path is not None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the temporary files."""
        self.spool.clear()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The column names; costs no pass over the rows."""
        return (*self._stored, *self._computed)

    @property
    def stored(self) -> tuple[str, ...]:
        """The names of the columns without those that are computed."""
        return tuple(self._stored)

    @cached_property
    def schema(self) -> pl.Schema:
        """The column types; for text formats they are inferred, in a pass over all rows."""
        return pl.Schema({**self._schema, **{name: found.dtype for name, found in self._computed.items()}})

    @cached_property
    def _stored(self) -> pl.Schema:
        with reading(self.name):
            return self.raw.collect_schema()

    @cached_property
    def _schema(self) -> pl.Schema:
        with reading(self.name):
            return infer_schema(self.raw.select(self._stored.names())) if self.text else self._stored

    def find(self, *names: str | None, known: bool = False) -> None:
        """Add the columns that paths name; names that are columns already, or no paths, are left alone.

        A path that leads nowhere is refused, unless it is `known` from another table.
        """
        for name in names:
            if name is None or name in self.columns:
                continue
            try:
                found = computed(name, self._stored)
            except DataError:
                if known:
                    continue
                raise
            if found is not None:
                self.compute(name, found)

    def compute(self, name: str, found: Computed) -> None:
        """Add a column that is computed from others, unless there is one of that name."""
        if name in self.columns:
            return
        self.raw = self.raw.with_columns(found.values.alias(name))
        self._computed[name] = found
        for cached in ("columns", "schema"):
            self.__dict__.pop(cached, None)

    def named(self, name: str, flag: str) -> str:
        """The column that `flag` names, computed if need be; an error if there is none."""
        self.find(name)
        if name not in self.columns:
            raise DataError(f"{flag}: {unknown_name('column', name, self.columns)}")
        return name

    def holds_text(self, name: str) -> bool:
        """Whether this column may hold numbers as text: in a text format, or within a nested column."""
        return self.text or (name in self._computed and self._computed[name].dtype == pl.String)

    def typed(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """The rows with the types of `schema`; all columns or some."""
        if not self.text:
            return self.raw if columns is None else self.raw.select(columns)
        return self.raw.select(self.as_typed(self.columns if columns is None else columns))

    def as_typed(self, columns: Iterable[str]) -> list[pl.Expr]:
        """These columns, of rows as they are in the file, with the types of `schema`."""
        types = self._schema if self.text else {}
        return [cast_text(name, types[name]) if name in types else pl.col(name) for name in columns]

    @property
    def records(self) -> pl.LazyFrame | None:
        """The rows of JSON with their text (`records.RECORD`) as a further column; None for other formats."""
        found = [one.values.alias(name) for name, one in self._computed.items()]
        return None if self.scanned is None else self.scanned.with_columns(found)

    def chunks(self, *columns: str) -> Iterator[pl.DataFrame]:
        """These columns as they are in the file, in chunks of rows."""
        with reading(self.name):
            yield from self.raw.select(columns).collect_batches()

    def rows(self) -> int:
        """The number of rows."""
        return self._rows

    @cached_property
    def _rows(self) -> int:
        with reading(self.name):
            rows = self.raw if self.scanned is None else self.scanned.select(RECORD)
            return int(rows.select(pl.len()).collect(engine="streaming").item())

    def rows_in(self, sha256: Collection[str]) -> NDArray[np.bool_]:
        """Which rows come from files with these hashes."""
        inside = [file.sha256 in sha256 for file in self.files()]
        return np.repeat(inside, self.rows_of_files()) if any(inside) else np.zeros(self.rows(), dtype=np.bool_)

    def rows_of_files(self) -> tuple[int, ...]:
        """How many rows each of `files` has."""
        return self._rows_of_files

    @cached_property
    def _rows_of_files(self) -> tuple[int, ...]:
        if len(self.paths) < 2:  # standard input comes alone
            return tuple(self.rows() for _ in self.files())
        separator, counts = None if self.dialect is None else self.dialect.separator, []
        for path in self.local:
            inputs = replace(find_inputs(path, self.format), separator=separator)
            with _from_files(inputs, Spool()) as part:  # it may have no rows
                counts.append(part.rows())
        return tuple(counts)

    def files(self) -> tuple[FileFact, ...]:
        """The size and hash of each input file, as it is stored; the first call reads all of them."""
        return self.spool.facts(self.inputs.files, self.local)


def open_source(
    data: Data,
    *,
    format: str | None = None,  # noqa: A002 the word of the command line
    delimiter: str | None = None,
    last: int | None = None,
) -> Source:
    """Open a table.

    Parameters
    ----------
    data
        A path, a glob, a directory (of files of one format, searched to its bottom; ``key=value`` directories become
        columns; or a table of Delta or Iceberg), the URL of an object or of several, a `Database`, ``-`` for standard
        input, several of those, or a frame of polars, pandas or pyarrow.
    format
        The format of the files, if their suffixes do not tell.
    delimiter
        The separator of the fields in text files, if their first lines do not tell.
    last
        The number of files to read, the last ones; a frame and standard input count as one.
    """
    if isinstance(data, pl.LazyFrame):
        return _checked_names(Source(data, name="the lazy frame"))
    if not isinstance(data, str | os.PathLike | Sequence):
        return _from_memory(data)
    if isinstance(data, Sequence) and not all(isinstance(item, str | os.PathLike) for item in data):
        return _from_memory(data)
    inputs = find_inputs(data, format, last, delimiter)
    spool = Spool()
    try:
        source = _from_files(inputs, spool)
        _refuse_without_rows(source)
    except BaseException:
        spool.clear()
        raise
    return source


def _checked_names(source: Source) -> Source:
    """Refuse column names that polars takes for patterns."""
    for name in source.columns:
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise DataError(f"{source.name} has a column {name!r}, which stands for other columns", hint="rename it")
    return source


def _refuse_without_rows(source: Source) -> None:
    with reading(source.name):
        _checked_names(source)
        rows = source.raw if source.scanned is None else source.scanned.select(RECORD)
        empty = rows.head(1).collect(engine="streaming").is_empty()
    if empty:
        raise DataError(f"{source.name} has no rows")


def _from_files(inputs: Inputs, spool: Spool) -> Source:
    kind = inputs.format
    files = [LocalFile(spool.local(file), file.name, kind, file.partition) for file in inputs.files]
    local = [file.path for file in files]
    if kind in SEPARATORS:
        files = in_their_dialect(files, inputs.separator)
        return Source(scan_text(files), inputs.name, kind, NO_ARROW_TYPES, inputs, local, spool, files[0].dialect)
    if kind in JSON:
        scanned, mixed = scan_records(files)
        raw = scanned.drop(RECORD)
        return Source(raw, inputs.name, kind, NO_ARROW_TYPES, inputs, local, spool, scanned=scanned, mixed=mixed)
    frame, arrow_types = scan_typed(files)
    return Source(frame, inputs.name, kind, arrow_types, inputs, local, spool)


def _from_memory(data: object) -> Source:
    name = "the frame"
    if isinstance(data, pl.DataFrame):
        source = Source(data.lazy(), name=name)
    else:
        try:
            part = scan_table(_as_table(data), name)
            source = Source(part.frame, name, arrow_types=part.arrow_types)
        except (pl.exceptions.PolarsError, pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(f"{name} cannot be read: {one_line(error)}") from error
    _refuse_without_rows(source)
    return source


def _as_table(data: object) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "dtypes") and hasattr(data, "columns"):
        return pa.Table.from_pandas(data, preserve_index=False)
    raise UsageError(
        f"cannot read rows from a {type(data).__name__}", hint="pass paths, or a frame of polars, pandas or pyarrow"
    )


class Computed(NamedTuple):
    """A column that is computed from others, and its type."""

    values: pl.Expr
    dtype: pl.DataType


def call_in(name: str) -> tuple[str, str] | None:
    """The function of ``exp(PATH)``, ``percent(PATH)`` or ``minus(PATH)``, and its path; None of other names."""
    found = CALL.fullmatch(name)
    return None if found is None else (found[1], found[2])


def computed(name: str, schema: Schema) -> Computed | None:
    """The column that a name stands for; None if it is no path into a column of the table.

    A field or an item that a row lacks is null.
    """
    call = call_in(name)
    if call is None:
        return _at(name, schema)
    function, inner = call
    found = Computed(pl.col(inner), schema[inner]) if inner in schema else _at(inner, schema)
    if found is None:
        raise DataError(f"{name}: {unknown_name('column', inner, schema)}")
    if not (found.dtype.is_numeric() or found.dtype == pl.String):
        raise DataError(f"{name}: {inner!r} is {found.dtype}, not a number", hint=hint_inside(inner, found.dtype))
    if function == "exp":
        return Computed(found.values.cast(pl.Float64, strict=False).exp(), pl.Float64())
    if function == "minus":
        turned = -found.values.cast(pl.Float64, strict=False)
        if found.dtype == pl.String:  # what is no number stays there to be found
            return Computed(pl.coalesce(turned.cast(pl.String), found.values), pl.String())
        return Computed(turned, pl.Float64())
    numbers = found.values.str.strip_chars(" %") if found.dtype == pl.String else found.values
    return Computed(numbers.cast(pl.Float64, strict=False) / 100.0, pl.Float64())


def hint_inside(name: str, dtype: pl.DataType) -> str | None:
    """A hint how to name a part of a nested column; None for other types."""
    if isinstance(dtype, pl.Struct) and dtype.fields:
        return f"name a field of it, as in {name}.{dtype.fields[0].name}"
    return f"name an item of it, as in {name}[0]" if isinstance(dtype, pl.List | pl.Array) else None


def _at(path: str, schema: Schema) -> Computed | None:
    """The value at a path; None if no nested column begins it."""
    column = _longest(path, schema, nested=True)
    return None if column is None else _inside(path, column, Computed(pl.col(column), schema[column]))


def _inside(path: str, known: str, part: Computed) -> Computed:
    """The value at a path, of which `known` leads to `part`."""
    rest, (values, dtype) = path[len(known) :], part
    if not rest:
        return part
    if isinstance(dtype, pl.Struct) and rest.startswith("."):
        fields = {field.name: _type(field.dtype) for field in dtype.fields}
        name = _longest(rest[1:], fields)
        if name is None:
            wanted = re.split(r"[.[]", rest[1:])[0]
            raise DataError(f"{path}: {unknown_name(f'field of {known!r}:', wanted, fields)}")
        return _inside(path, f"{known}.{name}", Computed(values.struct.field(name), fields[name]))
    item = ITEM.match(rest)
    if item is not None and isinstance(dtype, pl.List | pl.Array):
        of_lists = values.list if isinstance(dtype, pl.List) else values.arr
        found = of_lists.get(int(item[1]), null_on_oob=True)
        return _inside(path, known + item[0], Computed(found, _type(dtype.inner)))
    raise DataError(f"{path}: {known!r} is {dtype}, which has no {rest!r}", hint=hint_inside(known, dtype))


def _longest(path: str, schema: Schema, *, nested: bool = False) -> str | None:
    """The longest name that the path begins with, because names can have dots themselves."""
    names = [
        name
        for name, dtype in schema.items()
        if (dtype.is_nested() or not nested) and (path == name or path.startswith((f"{name}.", f"{name}[")))
    ]
    return max(names, key=len, default=None)


def _type(dtype: Any) -> pl.DataType:
    """The type of a part, which polars may keep as a class."""
    return cast("pl.DataType", dtype() if isinstance(dtype, type) else dtype)
