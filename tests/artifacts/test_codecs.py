"""States become files and come back, bit for bit."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.artifacts import codecs
from calcli.state import State, nest, unnest
from tests.support.artifacts import BAD_NAMES, same, state
from tests.support.strategies import arrays, json_text, json_values

states = st.builds(
    State,
    params=st.dictionaries(json_text, json_values, max_size=3),
    arrays=st.dictionaries(st.sampled_from(["a", "0/edges", "1/edges"]), arrays()),
    blobs=st.dictionaries(st.sampled_from(["model.cbm", "0/m.safetensors", "README", "a.b.parquet"]), st.binary()),
)


@given(states)
def test_comes_back_bit_for_bit(one):
    found = codecs.decode(codecs.encode("state", one))
    # Keys are written sorted; what the parameters are does not depend on their order.
    assert found.params == one.params
    assert same(replace(found, params=one.params), one)
    assert codecs.encode("state", found) == codecs.encode("state", one)


def test_numbers_in_params_keep_their_bits_and_their_type():
    params = {
        "zero": -0.0,
        "tiny": 5e-324,
        "third": 1 / 3,
        "one": 1.0,
        "int": 1,
        "large": 2**70,
        "no": None,
        "yes": True,
    }
    found = codecs.decode(codecs.encode("state", State(params))).params
    assert {key: repr(value) for key, value in found.items()} == {key: repr(value) for key, value in params.items()}


def test_files_are_named_by_their_content():
    for file in codecs.encode("partition-data", state()):
        assert file.payload.name.startswith(f"partition-data-{file.payload.sha256}.")
        assert file.payload.bytes == len(file.data)


def test_a_blob_keeps_its_suffix():
    blobs = {"a/model.cbm": b"1", "net.safetensors": b"2", "rows.parquet": b"3", "odd": b"4", "odd.sü ß": b"5"}
    files = codecs.encode("state", State(blobs=blobs))
    suffix = {file.data: file.payload.name.rpartition(".")[2] for file in files[1:]}
    assert suffix == {b"1": "cbm", b"2": "safetensors", b"3": "parquet", b"4": "bin", b"5": "bin"}


def test_equal_blobs_are_one_file():
    files = codecs.encode("state", State(blobs={"a.bin": b"same", "b.bin": b"same"}))
    assert len(files) == 2
    assert codecs.decode(files).blobs == {"a.bin": b"same", "b.bin": b"same"}


def test_a_state_without_arrays_has_no_npz():
    assert [file.payload.codec for file in codecs.encode("state", State({"a": 1}))] == ["json"]


def test_a_nest_of_states_comes_back():
    parts = {"0": state(0), "1": state(1)}
    found = unnest(codecs.decode(codecs.encode("state", nest(parts))), parts)
    assert all(
        same(found[name], State(dict(sorted(parts[name].params.items())), parts[name].arrays, parts[name].blobs))
        for name in parts
    )


@pytest.mark.parametrize(
    "one",
    [
        State({"a": float("nan")}),
        State({"a": np.float32(1)}),
        State({"a": {1: 2}}),
        State(arrays={"a": np.array([None])}),
        State(arrays={"../a": np.zeros(1)}),
        *(State(blobs={name: b""}) for name in BAD_NAMES),
    ],
)
def test_refuses_what_would_not_come_back(one):
    with pytest.raises(ValueError):  # noqa: PT011 - each part has its own words
        codecs.encode("state", one)


@pytest.mark.parametrize("role", ["", "State", "a_b", "a--b", "-a", "../a", "manifest", "a" * 65, "ä"])
def test_refuses_odd_roles(role):
    with pytest.raises(ValueError, match="role"):
        codecs.encode(role, State())


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.pop("params"),
        lambda index: index.pop("blobs"),
        lambda index: index.pop("arrays"),
        lambda index: index.update(params=[]),
        lambda index: index.update(blobs=[]),
        lambda index: index.update(arrays=3),
        lambda index: index.update(arrays="state-" + "0" * 64 + ".npz"),
        lambda index: index.update(arrays="../elsewhere.npz"),
        lambda index: index.update(arrays=next(iter(index["blobs"].values()))),
        lambda index: index.update(blobs={"a.bin": "/etc/passwd"}),
        lambda index: index.update(blobs={"a.bin": None}),
        lambda index: index.update(blobs={"a.bin": ["x"]}),
        lambda index: index.update(blobs={"../a.bin": next(iter(index["blobs"].values()))}),
    ],
)
def test_refuses_an_index_that_lies(change):
    index, *others = codecs.encode("state", state())
    content = json.loads(index.data)
    change(content)
    with pytest.raises(ValueError):  # noqa: PT011 - each lie has its own words
        codecs.decode([replace(index, data=json.dumps(content).encode()), *others])


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b'{"params": NaN}'])
def test_refuses_an_index_that_is_none(data):
    index, *others = codecs.encode("state", state())
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are Python's own, in part
        codecs.decode([replace(index, data=data), *others])


def test_refuses_two_indexes_or_none():
    index, *others = codecs.encode("state", state())
    (second,) = codecs.encode("state", State())
    with pytest.raises(ValueError, match="0 indexes"):
        codecs.decode(others)
    with pytest.raises(ValueError, match="2 indexes"):
        codecs.decode([index, second, *others])
