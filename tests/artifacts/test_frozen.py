"""Artifacts that were written by each format load for ever."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from calcli.artifacts import manifest, store
from tests.frozen import write_v1_minimal
from tests.support.artifacts import leftovers, put, same

FROZEN = Path(__file__).parents[1] / "frozen"
ARTIFACTS = sorted(path for path in FROZEN.iterdir() if store.exists(path))


def test_there_is_one_of_each_format():
    formats = {int(re.match(r"v([0-9]+)-", path.name)[1]) for path in ARTIFACTS}
    assert formats == set(range(1, manifest.CURRENT + 1))


@pytest.mark.parametrize("path", ARTIFACTS, ids=lambda path: path.name)
def test_loads(path):
    assert store.read(path).state.params


@pytest.mark.parametrize("path", ARTIFACTS, ids=lambda path: path.name)
def test_can_be_replaced_and_rolled_back(path, tmp_path):
    directory = tmp_path / path.name
    shutil.copytree(path, directory)
    before = store.read(directory)
    put(directory, 5)
    assert store.rollback(directory).seed == before.manifest.seed
    assert all(same(store.read(directory).states[role], state) for role, state in before.states.items())
    assert leftovers(directory) == set()


def test_v1_minimal_says_what_it_said():
    artifact = store.read(FROZEN / "v1-minimal")
    state = write_v1_minimal.STATE
    assert artifact.state.params == state.params
    assert same(artifact.state, type(state)(artifact.state.params, state.arrays, state.blobs))
    assert artifact.states["edges"].blobs == {"edges.csv": write_v1_minimal.EDGES}
    manifest = artifact.manifest
    assert (manifest.seed, manifest.method, manifest.features[0]["name"]) == (2, "platt", "größe")
    assert manifest.sides[0]["payload"] == f"edges-{manifest.sides[0]['sha256']}.csv"
    assert str(artifact.state.params["intercept"]) == "-0.0"


def test_v1_is_still_written_as_it_was(tmp_path):
    """The payloads of this format do not depend on the version of Python or numpy; new formats drop this test."""
    write_v1_minimal.write(tmp_path)
    for path in (FROZEN / "v1-minimal").iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
