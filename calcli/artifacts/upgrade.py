"""The rules of the artifact format, and the steps from older formats to this one.

**The number.** ``"schema": "calcli.artifact/N"`` in ``manifest.json`` covers the manifest and every payload. It becomes
N+1 as soon as a reader of N could misunderstand what is written: a key changes its meaning or is removed, a payload
changes its coding, a method changes what its state means. A new key that an old reader may ignore does not change it.

**Old artifacts load forever.** A step from N to N+1 is added to `STEPS` in the same change that raises `CURRENT`. It
takes the manifest of format N as plain JSON and gives that of N+1. A codec name means the same bytes for ever: a new
coding of payloads gets a new name, and the decoder of the old one stays beside it. At least one artifact that a release
of each format wrote is kept under ``tests/frozen/`` and is never written again.

**Newer artifacts are refused by name.** A reader that does not know N says N, says what it knows, and says which
calcli wrote the artifact. It never guesses.

**An old reader is never laxer than a new one.** Whatever a check refuses in format N+1 (a name that leaves the
directory, a wrong hash, an object array) is refused in all formats before it, because whoever tampers with an artifact
chooses its number too.

**What is not saved.** The rows that a calibrator was fitted on, unless ``contains_rows`` says so; the state of a
random generator (the seed is enough); the environment (versions are recorded, not installed); paths of other files
(what is needed later is kept by its content). There is no code in an artifact and no pickle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from calcli.artifacts import strictjson
from calcli.errors import ArtifactError
from calcli.state import Json
from calcli.version import DISTRIBUTION

CURRENT = 1
SCHEMA = f"calcli.artifact/{CURRENT}"

Step = Callable[[dict[str, Json]], dict[str, Json]]

STEPS: Mapping[int, Step] = {}
"""The step at N turns a manifest of format N into one of N+1, or raises a `ValueError` if it is not valid."""


def to_current(manifest: dict[str, Json], where: str) -> dict[str, Json]:
    """A manifest of any released format, brought to the current format."""
    number = _format_of(manifest, where)
    if number > CURRENT:
        raise ArtifactError(
            f"{where} is of format {number}, and this calcli reads formats up to {CURRENT}",
            hint=_which_calcli(manifest),
        )
    for step in range(number, CURRENT):
        manifest = STEPS[step](manifest)
    return manifest


def claims_to_be_ours(manifest: bytes) -> bool:
    """Whether a file is JSON that calls itself a calcli manifest, of whatever format."""
    try:
        return str(strictjson.loads_object(manifest).get("schema")).startswith("calcli.artifact/")
    except ValueError:
        return False


def _format_of(manifest: Mapping[str, Json], where: str) -> int:
    schema = manifest.get("schema")
    number = re.fullmatch(r"calcli\.artifact/([1-9][0-9]{0,8})", schema) if isinstance(schema, str) else None
    if not number:
        shown = repr(schema[:60]) if isinstance(schema, str) else "missing" if schema is None else "not a text"
        raise ArtifactError(
            f"{where} is not a manifest of calcli: its key 'schema' is {shown}, and should be {SCHEMA!r}"
        )
    return int(number[1])


def _which_calcli(manifest: Mapping[str, Json]) -> str:
    version = manifest.get("calcli")
    # The text ends up in a command that somebody pastes into a shell: show it only if it can be a version.
    if isinstance(version, str) and re.fullmatch(r"[0-9][0-9A-Za-z.+]{0,30}", version):
        return f"calcli {version} wrote it; try: pip install --upgrade '{DISTRIBUTION}>={version}'"
    return f"a newer calcli wrote it; try: pip install --upgrade {DISTRIBUTION}"
