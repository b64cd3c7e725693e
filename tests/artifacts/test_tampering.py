"""Whatever was done to an artifact, reading it gives the artifact or an `ArtifactError`, and runs no code."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calcli.artifacts import store
from calcli.errors import ArtifactError
from tests.support.artifacts import generation, npy, put, replace_payload, rewrite_manifest, zipped

PLACES = range(5)  # the payloads of `put`


@pytest.fixture
def artifact(tmp_path):
    put(tmp_path / "a", 1)
    return tmp_path / "a"


def refused(directory, match="."):
    with pytest.raises(ArtifactError, match=match) as caught:
        store.read(directory)
    assert "\n" not in str(caught.value)


def whole_manifest(directory):
    """The manifest as it was written, before examples are written over it."""
    kept = directory.with_name("whole.json")
    if not kept.exists():
        shutil.copy(directory / "manifest.json", kept)
    return kept.read_bytes()


def payloads(directory):
    return [directory / payload.name for payload in store.describe(directory).payloads]


def test_there_are_that_many_payloads(artifact):
    assert len(payloads(artifact)) == len(PLACES) + 1


@pytest.mark.parametrize("place", range(6))
def test_a_flipped_bit(artifact, place):
    path = payloads(artifact)[place]
    data = path.read_bytes()
    chance = random.Random(place)
    for _ in range(20):
        bit = chance.randrange(len(data) * 8)
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        refused(artifact, path.name)
    path.write_bytes(data)
    assert generation(artifact) == 1


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes() + b"\0"),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.rename(path.parent.parent / "moved"), path.symlink_to("../moved")),
        lambda path: (path.unlink(), path.symlink_to(path.name)),
        lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    ],
)
def test_a_payload_that_is_not_what_it_was(artifact, place, damage):
    path = payloads(artifact)[place]
    damage(path)
    refused(artifact, path.name)


def test_swapped_payloads(artifact):
    one, other, *_ = payloads(artifact)
    one.rename(artifact / "x")
    other.rename(one)
    (artifact / "x").rename(other)
    refused(artifact)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-3]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\0" * 100),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"fit": {', b'"fit": {"x": NaN, ')),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"seed": 1', b'"seed": 1e999')),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"seed": 1', b'"seed": 1, "seed": 2')),
        lambda path: path.write_bytes(path.read_bytes().replace(b"artifact/1", b"artifact/2")),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: (path.rename(path.parent.parent / "moved"), path.symlink_to("../moved")),
    ],
)
def test_a_manifest_that_is_not_what_it_was(artifact, damage):
    damage(artifact / "manifest.json")
    refused(artifact)
    with pytest.raises(ArtifactError):
        store.describe(artifact)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "..", "sub/state.json", "state.json\0", ""])
def test_a_payload_outside_of_the_directory(artifact, name):
    (artifact.parent / "outside").write_bytes(payloads(artifact)[0].read_bytes())
    rewrite_manifest(artifact, lambda manifest: manifest["payloads"][0].update(name=name))
    refused(artifact, r"payloads\[0\]\.name")


def test_a_size_beyond_all_memory(artifact):
    rewrite_manifest(artifact, lambda manifest: manifest["payloads"][0].update(bytes=10**15))
    refused(artifact, "not 1000000000000000")


@pytest.mark.parametrize("codec", ["pickle", "joblib", "", None])
def test_an_unknown_codec(artifact, codec):
    rewrite_manifest(artifact, lambda manifest: manifest["payloads"][0].update(codec=codec))
    refused(artifact, "codec")


def test_a_forger_who_changes_nothing_is_not_noticed(artifact):
    """The forgeries below reach the decoders: name, size and hash are right."""
    npz = next(path for path in payloads(artifact) if path.match("state-*.npz"))
    replace_payload(artifact, "npz", npz.read_bytes())
    assert generation(artifact) == 1


@pytest.mark.parametrize(
    "npz",
    [
        b"",
        b"PK\x05\x06",
        pickle.dumps([1, 2, 3]),
        zipped({"a.npy": npy("|O", "(1,)", pickle.dumps([1]))}),
        zipped({"a.npy": npy("<f8", "(1000000000000000,)", bytes(8))}),
        zipped({"../a.npy": npy("<f8", "()", bytes(8))}),
        zipped({"/a.npy": npy("<f8", "()", bytes(8))}),
        zipped({"a.py": b"import os"}),
    ],
)
def test_forged_arrays(artifact, npz):
    replace_payload(artifact, "npz", npz)
    refused(artifact, "damaged")


@pytest.mark.parametrize(
    "index",
    [b"", b"{}", b"[]", b"\xff", b"NaN", b"[" * 100_000, b'{"params": {}, "blobs": {"a": "b"}, "arrays": null}'],
)
def test_a_forged_index(artifact, index):
    replace_payload(artifact, "json", index)
    refused(artifact, "damaged")


def test_a_role_without_an_index(artifact):
    def change(manifest):
        manifest["payloads"] = [one for one in manifest["payloads"] if one["codec"] != "json"]
        manifest["sides"] = []

    rewrite_manifest(artifact, change)
    refused(artifact, "0 indexes")


class _Bomb:
    def __reduce__(self):
        return (os.abort, ())


def test_nothing_is_unpickled(artifact):
    array = np.array([_Bomb()], dtype=object)
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"
    npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + pickle.dumps(array)
    replace_payload(artifact, "npz", zipped({"a.npy": npy}))
    refused(artifact)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_whatever_is_written_over_the_manifest(artifact, data):
    text = bytearray(whole_manifest(artifact))
    for place, byte in data.draw(st.lists(st.tuples(st.integers(0, len(text) - 1), st.integers(0, 255)), max_size=3)):
        text[place] = byte
    (artifact / "manifest.json").write_bytes(text)
    with suppress(ArtifactError):
        store.read(artifact)


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_value_stands_in_the_manifest(artifact, data):
    manifest = json.loads(whole_manifest(artifact))
    odd = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.none()) | st.just({})
    target = data.draw(st.sampled_from([manifest, manifest["payloads"][0]]))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(odd)
    (artifact / "manifest.json").write_text(json.dumps(manifest))
    with suppress(ArtifactError):
        store.read(artifact)
