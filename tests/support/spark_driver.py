"""A process that holds one Spark session and runs commands in it, because Java takes long to start.

It reads a JSON object in each line of its standard input, and answers with one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from calcli.cli.main import main
from calcli.spark.session import KEY, read_table, spark_session, with_keys


def done(words: list[str]) -> dict[str, Any]:
    """What a command says, and its exit code."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as told:
        kept = [os.dup(1), os.dup(2)]
        for file, stream in ((said, 1), (told, 2)):
            os.dup2(file.fileno(), stream)
        try:
            code = main(words)
        finally:
            for copy, stream in zip(kept, (1, 2), strict=True):
                os.dup2(copy, stream)
                os.close(copy)
        texts = []
        for file in (said, told):
            file.seek(0)
            texts.append(file.read().decode())
    return {"code": code, "stdout": texts[0], "stderr": texts[1]}


def keys(session: Any, paths: list[str], leaving: list[str], seed: int, output: str) -> dict[str, Any]:
    """The keys of rows beside their numbers, as Parquet."""
    table = with_keys(read_table(session, paths), leaving, seed)
    table.select("row_id", KEY).write.parquet(output)
    return {}


def query(session: Any, text: str, table: str, output: str) -> dict[str, Any]:
    """What a query makes of a table named ``scores``, as Parquet."""
    session.read.parquet(table).createOrReplaceTempView("scores")
    session.sql(text).write.parquet(output)
    return {}


if __name__ == "__main__":
    with spark_session(sys.argv[1]) as found:
        for line in sys.stdin:
            asked = json.loads(line)
            place = Path(asked.pop("answer"))
            ((kind, given),) = asked.items()
            answer = done(given) if kind == "words" else {"keys": keys, "query": query}[kind](found, **given)
            place.write_text(json.dumps(answer))
            print("answered", flush=True)
