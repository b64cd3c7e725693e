"""Names that cannot leave the place they are meant for."""

from __future__ import annotations


def refuse_unsafe(name: str) -> None:
    """Refuse a name of an array or a blob that would mean another place if it were taken for a path.

    ``0/edges`` is fine. Nothing in this package takes such a name for a path; whoever unpacks an artifact may.
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or not name.isprintable() or len(name) > 500:
        raise ValueError(f"{name[:120]!r} cannot be the name of an array or a file: it may leave its place")
