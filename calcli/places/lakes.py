"""Tables of Delta Lake and Apache Iceberg: the rows of their present version, by polars and the library of each.

Without them, the files of a table's directory would be read as they lie: with rows that were deleted or replaced.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import polars as pl

from calcli.errors import DataError
from calcli.extras import require
from calcli.places import Lake, LakeKind, Url, stores


def kind_of(names: Iterable[str]) -> LakeKind | None:
    """Whose table a directory is, by the names of the files below it."""
    for name in names:
        if re.match(r"_delta_log/.*\.(json|parquet)$", name):
            return "delta"
        if re.match(r"metadata/[^/]*\.metadata\.json$", name):
            return "iceberg"
    return None


def fetch(lake: Lake, target: Path) -> str:
    """Write the rows of the present version into a Parquet file; gives the name of the version."""
    product, package = {"delta": ("Delta", "deltalake"), "iceberg": ("Iceberg", "pyiceberg")}[lake.kind]
    require(package, f"a table of {product}")
    try:
        with warnings.catch_warnings(action="ignore"):  # polars would rather plan with a package of its own
            frame, version = _delta(lake) if lake.kind == "delta" else _iceberg(lake)
            frame.sink_parquet(target, compression_level=1)
    except Exception as error:  # each library has exceptions of its own, and their texts can hold options
        raise DataError(f"{lake}, a table of {product}, cannot be read: {stores.reason(error)}") from None
    return f"{lake.kind} {version}"


def _delta(lake: Lake) -> tuple[pl.LazyFrame, str]:
    from deltalake import DeltaTable

    options = stores.settings(lake.where) if isinstance(lake.where, Url) else None
    table = DeltaTable(str(lake.where), storage_options=options)
    return pl.scan_delta(table, storage_options=options), f"version {table.version()}"


def _iceberg(lake: Lake) -> tuple[pl.LazyFrame, str]:
    from pyiceberg.table import StaticTable

    names = [name for name in lake.names if name.endswith(".metadata.json")]
    newest = max(names, key=lambda name: int((re.search(r"\d+", PurePosixPath(name).name) or [0])[0]))
    table = StaticTable.from_metadata(f"{lake.where}/{newest}", properties=_properties(lake.where))
    snapshot = table.current_snapshot()
    return pl.scan_iceberg(table), f"snapshot {None if snapshot is None else snapshot.snapshot_id}"


def _properties(where: Path | Url) -> dict[str, str]:
    """The options of a store in the words of pyiceberg."""
    if isinstance(where, Path):
        return {}
    words = {"endpoint": "s3.endpoint", "region": "s3.region", "access_key_id": "s3.access-key-id"}
    words |= {"secret_access_key": "s3.secret-access-key", "session_token": "s3.session-token"}
    found = stores.settings(where)
    return {word: found[f"aws_{name}"] for name, word in words.items() if f"aws_{name}" in found}
