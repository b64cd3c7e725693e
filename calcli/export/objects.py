"""Statements that keep a calibrator where the rows are: views, functions, macros of dbt."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from calcli.errors import UsageError
from calcli.export import sql
from calcli.export.dialects import Dialect, quoted
from calcli.export.subexpressions import inputs
from calcli.export.tree_joins import ROWS
from calcli.expressions import Term

_TYPES = {"number": "double", "category": "text", "boolean": "boolean"}
_RELATION = "calcli_relation"


def view(outputs: Mapping[str, Term], dialect: Dialect, table: str, kept: Sequence[str] | None, name: str) -> str:
    """A view of the query."""
    return f"{dialect.view} {quoted(name, dialect)} AS\n{sql.query(outputs, dialect, table, kept)}"


def functions(outputs: Mapping[str, Term], dialect: Dialect) -> str:
    """A function of the columns that are read for each output, which has its name."""
    if not dialect.function:
        raise UsageError(f"{dialect.name} has no functions of an expression", hint="it has views: --shape view")
    read = sorted(inputs(outputs.values()))
    names = [quoted(name, dialect) for name, _ in read]
    types = [str(exp.DataType.build(_TYPES[role]).sql(dialect=dialect.name)) for _, role in read]
    parameters = ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
    made = []
    for name, text in sql.expressions(outputs, dialect, short=True).items():
        if "$" in dialect.function and "$$" in text:
            raise UsageError(f"a level has $$, which ends a function in {dialect.name}", hint="--shape view")
        made.append(
            dialect.function.format(
                name=quoted(name, dialect), names=", ".join(names), parameters=parameters, expression=text
            )
        )
    return ";\n".join(made)


def dbt(outputs: Mapping[str, Term], dialect: Dialect, kept: Sequence[str] | None, name: str, comment: str) -> str:
    """A macro of dbt: of a relation it makes the query that reads it."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise UsageError(f"{name!r} is no name of a macro in dbt", hint="name it: --column NAME")
    text = comment + sql.query(outputs, dialect, _RELATION, kept)
    if re.search(r"\{%-?\s*endraw", text):
        raise UsageError("a name or level holds {% endraw %}, where dbt begins to read again", hint="rename it")
    source = f"FROM {sql.table_name(_RELATION, dialect)} AS {ROWS}"
    text = text.replace(source, f"FROM {{% endraw %}}{{{{ relation }}}}{{% raw %}} AS {ROWS}")
    return f"{{% macro {name}(relation) -%}}\n{{% raw %}}{text}{{% endraw %}}\n{{%- endmacro %}}"
