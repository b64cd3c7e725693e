"""Small artifacts, ways to forge them, and checks of their directories."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.state import State


def draft(seed: int = 0, **changed: Any) -> Manifest:
    """A manifest as `fit` hands it over; the seed tells generations apart."""
    manifest = Manifest(
        calcli="0.1.0",
        created="2026-01-31T12:00:00+00:00",
        kind="calibrator",
        task="binary",
        method="platt",
        requested="auto",
        preset=None,
        params={"smooth": True},
        seed=seed,
        label={"type": "int", "classes": [0, 1], "positive": 1},
        binding={"label": "y", "score": {"kind": "logit", "columns": ["logit"]}},
        features=({"name": "größe", "role": "number", "dtype": "Float64", "cuts": [0.1, 1e-300], "levels": None},),
        recipe={"method": "auto", "params": {}, "preset": None},
        fit={"rows": 1000, "label_rate": 0.1, "before": {"nll": 0.3}, "after": {"nll": None}},
        definitions={"nll": {"direction": "lower"}},
        data={"files": [{"path": "train.parquet", "bytes": 5, "sha256": "0" * 64}]},
        sides=(),
        contains_rows=False,
        requires=(),
        versions={"python": "3.11.7"},
    )
    return replace(manifest, **changed)


def state(seed: int = 0) -> State:
    """A state of all three parts that is different for each seed."""
    rng = np.random.default_rng(seed)
    return State(
        params={"generation": seed, "slope": float(rng.normal())},
        arrays={"0/edges": rng.normal(size=(3, 4)), "1/edges": np.asfortranarray(rng.normal(size=(2, 5)))},
        blobs={"model.bin": rng.bytes(100)},
    )


def side(seed: int = 0) -> State:
    """A side input, one half of it the same in all generations."""
    return State(arrays={"pairs": np.arange(6).reshape(3, 2)}, blobs={"edges.parquet": bytes([seed])})


def put(directory: Path, seed: int) -> Manifest:
    """Write generation `seed`."""
    kept = {"role": "edges", "name": "edges.parquet", "sha256": hashlib.sha256(bytes([seed])).hexdigest()}
    return store.write(directory, draft(seed, sides=(kept,)), {"state": state(seed), "edges": side(seed)})


def generation(directory: Path) -> int:
    """Which generation a reader gets; all of it must be of that one."""
    artifact = store.read(directory)
    seed = artifact.manifest.seed
    whole = same(artifact.state, state(seed)) and same(artifact.states["edges"], side(seed))
    assert whole, f"generation {seed} is mixed with another"
    return seed


def same(one: State, other: State) -> bool:
    """Whether two states are equal to the bit."""
    return (
        repr(one.params) == repr(dict(other.params))
        and one.blobs == other.blobs
        and one.arrays.keys() == other.arrays.keys()
        and all(same_array(one.arrays[name], other.arrays[name]) for name in one.arrays)
    )


def same_array(one: Any, other: Any) -> bool:
    def looks(array: Any) -> tuple[Any, ...]:
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        return array.dtype.str, array.shape, fortran, array.tobytes()

    return looks(one) == looks(other)


def leftovers(directory: Path) -> set[str]:
    """Files that neither the current nor the previous generation names."""
    named = {".lock", "manifest.json"}
    manifest = json.loads((directory / "manifest.json").read_bytes())
    if manifest["previous"]:
        older = json.loads((directory / manifest["previous"]).read_bytes())
        named |= {manifest["previous"], *(one["name"] for one in older["payloads"])}
    named |= {one["name"] for one in manifest["payloads"]}
    return {path.name for path in directory.iterdir()} - named


def rewrite_manifest(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = directory / "manifest.json"
    manifest = json.loads(path.read_bytes())
    change(manifest)
    path.write_text(json.dumps(manifest))


def replace_payload(directory: Path, codec: str, data: bytes) -> None:
    """Put other bytes in place of a payload, with name, size and hash that fit: the work of a careful forger."""

    def change(manifest: dict[str, Any]) -> None:
        entry = next(one for one in manifest["payloads"] if (one["role"], one["codec"]) == ("state", codec))
        sha256 = hashlib.sha256(data).hexdigest()
        name = entry["name"].replace(entry["sha256"], sha256)
        before[entry["name"]] = name
        entry.update(name=name, sha256=sha256, bytes=len(data))
        (directory / name).write_bytes(data)

    before: dict[str, str] = {}
    rewrite_manifest(directory, change)
    if codec != "json":
        index = next(path for path in directory.glob("state-*.json"))
        text = index.read_text()
        for old, new in before.items():
            text = text.replace(old, new)
        replace_payload(directory, "json", text.encode())


BAD_NAMES = ["", "/a", "a/", "../a", "a/../b", "a//b", ".", "..", "./a", "a\\b", "a\0b", "a\nb", "a" * 501]


def zipped(entries, compression=zipfile.ZIP_STORED):
    """An archive of these entries."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return out.getvalue()


def npy(descr, shape, data, order="False", header=None):
    """An array file that may say anything of itself."""
    text = header or f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def contents(directory: Path | str) -> dict[str, bytes]:
    """Every file of a directory."""
    return {path.name: path.read_bytes() for path in Path(directory).iterdir()}
