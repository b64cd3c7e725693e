"""The table of contents of an artifact: ``manifest.json``.

The keys are part of the public contract. What other packages put in (parameters, binding, metrics, …) is JSON and only
checked for its type; payloads, names and hashes are checked exactly. These are the rules of the format:

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
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from calcli.artifacts import strictjson
from calcli.errors import ArtifactError
from calcli.state import Json
from calcli.version import DISTRIBUTION

JsonObject = dict[str, Json]

CURRENT = 1
SCHEMA = f"calcli.artifact/{CURRENT}"
"""The format that is written."""

KINDS = ("calibrator", "ensemble", "multi", "policy")
TASKS = ("binary", "multiclass", "regression")
CODECS = ("json", "npz", "blob")

MANIFEST = "manifest.json"
COPY_AGAIN = "copy the artifact again, or fit it again"

_SHA256 = r"[0-9a-f]{64}"
_ROLE = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_OLD_MANIFEST = re.compile(rf"manifest-{_SHA256}\.json")
_PAYLOAD = re.compile(rf"({_ROLE})-({_SHA256})\.[A-Za-z0-9]{{1,16}}")


@dataclass(frozen=True, slots=True)
class Payload:
    """One file beside the manifest."""

    role: str
    """``state``, or the role of a side input. All files of a role make up one `State`."""

    name: str
    """``<role>-<sha256>.<suffix>``."""

    sha256: str
    bytes: int
    codec: str
    """``json`` (the parameters and the index of the role), ``npz`` (its arrays) or ``blob`` (a file as it is)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of an artifact: kind, origin, held-out metrics, payload files.

    `store.write` fills in `payloads`, `previous`, and the payload names in `sides`. The attributes are the keys of
    ``manifest.json`` in its order; ``schema`` is always the current one.
    """

    schema: ClassVar[str] = SCHEMA

    calcli: str
    created: str
    kind: str
    task: str
    method: str
    requested: str
    preset: str | None
    params: JsonObject
    seed: int
    label: JsonObject
    binding: JsonObject
    features: tuple[JsonObject, ...]
    recipe: JsonObject
    fit: JsonObject
    definitions: JsonObject
    data: JsonObject
    sides: tuple[JsonObject, ...]
    contains_rows: bool
    requires: tuple[str, ...]
    versions: JsonObject
    payloads: tuple[Payload, ...] = ()
    previous: str | None = None

    def as_dict(self) -> JsonObject:
        """The JSON object that `to_json` writes."""
        document: JsonObject = {"schema": SCHEMA}
        for key in fields(self):
            value = getattr(self, key.name)
            document[key.name] = list(value) if isinstance(value, tuple) else value
        document["payloads"] = [asdict(payload) for payload in self.payloads]
        return document

    def to_json(self) -> bytes:
        """UTF-8 text with one key a line; equal manifests give equal bytes."""
        document = self.as_dict()
        if problem := _problem(document):
            raise ValueError(f"a manifest cannot be written: {problem}")
        lines = (f"{strictjson.dumps(key)}: {strictjson.dumps(value, key)}" for key, value in document.items())
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode()

    @classmethod
    def from_json(cls, data: bytes, where: str = MANIFEST) -> Manifest:
        """Read the bytes of `to_json`, also those of an older format. `where` names the file in errors."""
        try:
            document = to_current(strictjson.loads_object(data), where)
        except ValueError as error:
            raise ArtifactError(f"{where} is damaged: {error}", hint=COPY_AGAIN) from None
        if problem := _problem(document):
            raise ArtifactError(f"{where} is damaged: {problem}", hint=COPY_AGAIN)
        values: dict[str, Any] = {key.name: document[key.name] for key in fields(cls)}
        for name in ("features", "sides", "requires"):
            values[name] = tuple(values[name])
        values["payloads"] = tuple(
            Payload(**{key.name: entry[key.name] for key in fields(Payload)}) for entry in values["payloads"]
        )
        return cls(**values)


def is_old_manifest(name: str) -> bool:
    """Whether this is the name of the manifest of an earlier generation."""
    return _OLD_MANIFEST.fullmatch(name) is not None


def old_manifest_name(sha256: str) -> str:
    """The name under which a replaced manifest is kept, from the hash of its bytes."""
    return f"manifest-{sha256}.json"


def hash_in_name(name: str) -> str:
    """The sha256 in the name of an old manifest or a payload."""
    return name.rpartition("-")[2].partition(".")[0]


def is_payload(name: str) -> bool:
    """Whether this is the name of a payload, which cannot leave its directory."""
    return _PAYLOAD.fullmatch(name) is not None and not is_old_manifest(name)


def is_role(name: str) -> bool:
    """Whether this can be the role of a payload."""
    return re.fullmatch(_ROLE, name) is not None and name != "manifest" and len(name) <= 64


def refuse_unsafe(name: str) -> None:
    """Refuse the name of an array or a blob that, taken for a path, would leave its directory.

    ``0/edges`` is fine. calcli does not use such names as paths, but people who unpack an artifact may.
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or not name.isprintable() or len(name) > 500:
        raise ValueError(f"{name[:120]!r} cannot be the name of an array or a file: it could lead outside the artifact")


def _problem(document: Mapping[str, Json]) -> str | None:
    """The first reason why a JSON object is no manifest, with the key; None if it is a manifest."""
    for key, (words, fits) in _KEYS.items():
        if key not in document:
            return f"it has no key {key!r}"
        if not fits(document[key]):
            return f"its key {key!r} is {_shown(document[key])}, not {words}"
    payloads, sides = _objects(document["payloads"]), _objects(document["sides"])
    return _payload_problem(payloads) or _side_problem(sides, {str(payload["name"]) for payload in payloads})


def _payload_problem(payloads: list[JsonObject]) -> str | None:
    names: set[str] = set()
    for index, payload in enumerate(payloads):
        where = f"payloads[{index}]"
        for key, (words, fits) in _PAYLOAD_KEYS.items():
            if key not in payload:
                return f"its {where} has no key {key!r}"
            if not fits(payload[key]):
                return f"its {where}.{key} is {_shown(payload[key])}, not {words}"
        name = str(payload["name"])
        parts = _PAYLOAD.fullmatch(name)
        if not parts or (parts[1], parts[2]) != (payload["role"], payload["sha256"]):
            return f"its {where}.name is {_shown(name)}, not <role>-<sha256>.<suffix>"
        if name in names:
            return f"its {where}.name is there twice: {name}"
        names.add(name)
    return None


def _side_problem(sides: list[JsonObject], payloads: set[str]) -> str | None:
    for index, side in enumerate(sides):
        role, payload = side.get("role"), side.get("payload")
        if not isinstance(role, str):
            return f"its sides[{index}].role is {_shown(role)}, not a text"
        if payload is not None and payload not in payloads:
            return f"its sides[{index}].payload is {_shown(payload)}, which is not among its payloads"
    return None


def _objects(value: Json) -> list[JsonObject]:
    """The objects in a list: all of its entries, which the type checker cannot know."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _shown(value: Json) -> str:
    if isinstance(value, str):
        return repr(value[:80])
    if isinstance(value, bool):
        return "true" if value else "false"
    names = {type(None): "null", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return names[type(value)]


_Shape = tuple[str, Callable[[Json], bool]]


def _one_of(words: tuple[str, ...]) -> _Shape:
    return f"one of {', '.join(words)}", lambda value: value in words


def _list_of(kind: type, words: str) -> _Shape:
    return words, lambda value: isinstance(value, list) and all(isinstance(one, kind) for one in value)


_TEXT: _Shape = "a text", lambda value: isinstance(value, str)
_OBJECTS = _list_of(dict, "a list of objects")

_SHAPES: Mapping[object, _Shape] = {
    "str": _TEXT,
    "str | None": ("a text or null", lambda value: value is None or isinstance(value, str)),
    "int": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "JsonObject": ("an object", lambda value: isinstance(value, dict)),
    "tuple[JsonObject, ...]": _OBJECTS,
    "tuple[Payload, ...]": _OBJECTS,
    "tuple[str, ...]": _list_of(str, "a list of texts"),
}
"""The JSON of an attribute of `Manifest`, by its type as it is written there."""

_KEYS: Mapping[str, _Shape] = {
    **{key.name: _SHAPES[key.type] for key in fields(Manifest)},
    "kind": _one_of(KINDS),
    "task": _one_of(TASKS),
    "previous": (
        "manifest-<sha256>.json or null",
        lambda value: value is None or (isinstance(value, str) and is_old_manifest(value)),
    ),
}

_PAYLOAD_KEYS: Mapping[str, _Shape] = {
    "role": ("a role", lambda value: isinstance(value, str) and is_role(value)),
    "name": _TEXT,
    "sha256": _TEXT,
    "bytes": ("a size", lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0),
    "codec": _one_of(CODECS),
}

STEPS: Mapping[int, Callable[[JsonObject], JsonObject]] = {}
"""The step at N turns a manifest of format N into one of N+1, or raises a `ValueError` if it is not valid."""


def to_current(manifest: JsonObject, where: str) -> JsonObject:
    """Bring a manifest of any released format to the current one."""
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
