"""Side inputs: model files, partition and embedding data, edge lists.

An artifact keeps the content of those that its method needs to predict. The others must be named again at a refit: by
then a path may hold something else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from calcli.artifacts.manifest import JsonObject
from calcli.batch import NO_SIDE_INPUTS, Edges, SideInputs
from calcli.errors import DataError, FileSystemError, UsageError
from calcli.files import as_text
from calcli.methods import catalog
from calcli.methods.spec import MethodSpec, Side
from calcli.places import Url, folder, stores
from calcli.state import State, pack_texts, unpack_texts
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.source import Data, Source, open_source


@dataclass(frozen=True, slots=True)
class SideFiles:
    """The places of the side inputs; None where there is none.

    Attributes
    ----------
    model
        A file that CatBoost, XGBoost or LightGBM wrote.
    partition_data
        Rows with labels from which a partition is learned, usually the training rows of the model.
    embedding_data
        Rows that are clustered together with those to calibrate.
    edges
        Pairs of ids of linked rows.
    """

    model: str | Path | None = None
    partition_data: Data | None = None
    embedding_data: Data | None = None
    edges: Data | None = None

    @property
    def roles(self) -> tuple[Side, ...]:
        """The roles of those that are given."""
        given: dict[Side, object] = {
            "model": self.model,
            "partition-data": self.partition_data,
            "embedding-data": self.embedding_data,
            "edges": self.edges,
        }
        return tuple(role for role, value in given.items() if value is not None)

    def check(self, specs: Iterable[MethodSpec], flags: Flags) -> None:
        """Refuse side inputs that none of these methods uses, and edges of rows without ids."""
        usable = {role for spec in specs for role in spec.sides}
        for role in self.roles:
            if role not in usable:
                users = [spec.name for spec in catalog.specs() if role in spec.sides]
                raise UsageError(
                    f"--{role} is not used here", hint=f"methods that use it: {', '.join(users) or 'none'}"
                )
        if self.edges is not None and flags.node_id is None:
            raise UsageError("--edges needs the column with the ids of the rows", hint="add --node-id COLUMN")


NO_SIDE_FILES = SideFiles()


@dataclass(frozen=True, slots=True)
class LoadedSideInputs:
    """The side inputs, and their entries of a manifest."""

    sides: SideInputs = NO_SIDE_INPUTS
    facts: tuple[JsonObject, ...] = field(default=())

    def kept(self, spec: MethodSpec) -> dict[str, State]:
        """The side inputs that the artifact of a method keeps, by role."""
        blobs = self.sides.blobs
        kept = {role: State(blobs={f"{role}.bin": blobs[role]}) for role in map(str, spec.keeps) if role in blobs}
        if self.sides.edges is not None and "edges" in spec.keeps:
            kept["edges"] = State(arrays={"pairs": self.sides.edges.pairs, **pack_texts(self.sides.edges.nodes)})
        return kept

    def facts_of(self, spec: MethodSpec) -> tuple[JsonObject, ...]:
        """The entries of those that a method uses."""
        return tuple(fact for fact in self.facts if fact["role"] in spec.sides)


NOTHING_LOADED = LoadedSideInputs()


def load_side_inputs(files: SideFiles, binding: Binding) -> LoadedSideInputs:
    """Read the side inputs; tables must have the features and labels of `binding`."""
    from calcli.tables.side_tables import load_auxiliary

    sides, facts = NO_SIDE_INPUTS, list[JsonObject]()
    if files.model is not None:
        content, fact = read_model(files.model)
        sides |= SideInputs(blobs={"model": content})
        facts.append(fact)
    tables = (("partition-data", files.partition_data, True), ("embedding-data", files.embedding_data, False))
    for role, data, label in tables:
        if data is None:
            continue
        with open_source(data) as source:
            sides |= SideInputs(batches={role: load_auxiliary(source, binding, label=label)})
            facts += _facts(role, source)
    if files.edges is not None:
        edges, entries = read_edges(files.edges)
        sides |= SideInputs(edges=edges)
        facts += entries
    return LoadedSideInputs(sides, tuple(facts))


def read_model(path: str | Path) -> tuple[bytes, JsonObject]:
    """The bytes of a model's file, and its entry of a manifest."""
    where = folder(path)
    content = _content(where)
    return content, _fact("model", where.name, hashlib.sha256(content).hexdigest())


def read_edges(data: Data) -> tuple[Edges, list[JsonObject]]:
    """An edge list, and its entries of a manifest."""
    from calcli.tables.side_tables import load_edges

    with open_source(data) as source:
        return load_edges(source), _facts("edges", source)


def sides_again(files: SideFiles, binding: Binding, kept: SideInputs, facts: Iterable[JsonObject]) -> LoadedSideInputs:
    """The side inputs of a refit: those that are named now, and those that the artifact keeps."""
    new, old = load_side_inputs(files, binding), list(facts)
    for fact in old:
        role = fact["role"]
        if role not in files.roles and role not in kept.roles:
            raise UsageError(
                f"the artifact was fitted with --{role} ({fact['name']}), which it does not contain",
                hint=f"give it again: --{role} FILE",
            )
    reused = [fact for fact in old if fact["role"] not in files.roles]
    return LoadedSideInputs(kept | new.sides, (*reused, *new.facts))


def kept_sides(states: Mapping[str, State], facts: Iterable[JsonObject]) -> SideInputs:
    """The side inputs that an artifact keeps."""
    kept = {role: states[role] for role in (str(fact["role"]) for fact in facts) if role in states}
    edge_list = kept.pop("edges", None)
    edges = None if edge_list is None else _kept_edges(edge_list)
    return SideInputs(blobs={role: next(iter(state.blobs.values())) for role, state in kept.items()}, edges=edges)


def _kept_edges(kept: State) -> Edges:
    edges = Edges(unpack_texts(kept.arrays), kept.arrays["pairs"].astype(np.int64))
    outside = (edges.pairs < -1) | (edges.pairs >= len(edges.nodes))
    if edges.pairs.ndim != 2 or edges.pairs.shape[1] != 2 or outside.any():
        raise ValueError("the edges link unknown nodes")
    return edges


def _facts(role: str, source: Source) -> list[JsonObject]:
    facts = [_fact(role, PurePosixPath(file.path).name if file.path else "-", file.sha256) for file in source.files()]
    return facts or [_fact(role, "a frame", None)]  # `kept_sides` finds only roles that the manifest lists


def _fact(role: str, name: str, sha256: str | None) -> JsonObject:
    return {"role": role, "name": as_text(name), "sha256": sha256, "payload": None}


def _content(path: Path | Url) -> bytes:
    try:
        return stores.content(path)
    except FileNotFoundError:
        raise DataError(
            f"no model {str(path)!r}", hint="--model names a file of CatBoost, XGBoost or LightGBM"
        ) from None
    except OSError as error:
        raise FileSystemError(f"cannot read {path}: {error.strerror or error}") from None
