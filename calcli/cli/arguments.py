"""From words on the command line to what the verbs take."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING

from calcli.errors import UsageError

if TYPE_CHECKING:
    from calcli.fitting.side_inputs import SideFiles
    from calcli.tables.binding import Flags


def names(text: str | None) -> tuple[str, ...] | None:
    """``a,b`` as two names; a name with a comma stands in double quotes, as in a CSV file."""
    if text is None:
        return None
    fields = next(csv.reader([text], skipinitialspace=True), [])
    return tuple(field.strip() for field in fields if field.strip())


def kept(text: str | None) -> tuple[str, ...] | None:
    """The same, where ``none`` is no column at all."""
    return () if text == "none" else names(text)


def settings(given: Sequence[str] | None) -> dict[str, str]:
    """``KEY=VALUE`` or ``METHOD.KEY=VALUE``; the last one of a key counts."""
    found: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {text} is not KEY=VALUE", hint="see: calcli methods NAME")
        found[key.strip()] = value.strip()
    return found


def flags(
    *,
    label: str | None,
    prob: str | None,
    logit: str | None,
    weight: str | None,
    positive: str | None,
    features: str | None,
    ignore: str | None,
    classes: str | None,
    node_id: str | None = None,
) -> Flags:
    """What was said of columns."""
    from calcli.tables.binding import Flags

    return Flags(
        label=label,
        prob=prob,
        logit=logit,
        weight=weight,
        positive=positive,
        features=names(features),
        ignore=names(ignore) or (),
        classes=names(classes),
        node_id=node_id,
    )


def sides(*, model: str | None, partition_data: str | None, embedding_data: str | None, edges: str | None) -> SideFiles:
    """What a method may use beside the rows."""
    from calcli.fitting.side_inputs import SideFiles

    return SideFiles(model, partition_data, embedding_data, edges)
