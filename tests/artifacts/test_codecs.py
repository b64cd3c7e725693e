"""States and arrays become files and come back, bit for bit; hostile files end in a `ValueError`."""

from __future__ import annotations

import hashlib
import io
import json
import tracemalloc
import zipfile
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.artifacts import codecs
from calcli.state import State, nest, unnest
from tests.support.artifacts import BAD_NAMES, npy, same, same_array, state, zipped
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


def test_equal_blobs_are_one_file_and_a_state_without_arrays_has_no_npz():
    files = codecs.encode("state", State(blobs={"a.bin": b"same", "b.bin": b"same"}))
    assert [file.payload.codec for file in files] == ["json", "blob"]
    assert codecs.decode(files).blobs == {"a.bin": b"same", "b.bin": b"same"}


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


def test_refuses_an_index_that_is_none_and_none_and_two():
    index, *others = codecs.encode("state", state())
    for data in (b"", b"[]", b"null", b"{", b'{"params": NaN}'):
        with pytest.raises(ValueError):  # noqa: PT011 - the texts are Python's own, in part
            codecs.decode([replace(index, data=data), *others])
    (second,) = codecs.encode("state", State())
    with pytest.raises(ValueError, match="0 indexes"):
        codecs.decode(others)
    with pytest.raises(ValueError, match="2 indexes"):
        codecs.decode([index, second, *others])


names = st.lists(st.text("aé0 .-_", min_size=1).filter(lambda part: part not in (".", "..")), min_size=1, max_size=3)


@given(st.dictionaries(names.map("/".join), arrays(), max_size=4))
def test_arrays_come_back_bit_for_bit(given_arrays):
    data = codecs.pack_arrays(given_arrays)
    found = codecs.unpack_arrays(data)
    assert found.keys() == given_arrays.keys()
    assert all(same_array(found[name], given_arrays[name]) for name in found)
    assert codecs.pack_arrays(dict(reversed(given_arrays.items()))) == data


@given(st.dictionaries(st.sampled_from(["a", "0/edges", "b c"]), arrays()))
def test_numpy_reads_it(given_arrays):
    with np.load(io.BytesIO(codecs.pack_arrays(given_arrays)), allow_pickle=False) as found:
        assert set(found) == set(given_arrays)
        assert all(same_array(found[name], given_arrays[name]) for name in found)


def test_the_bytes_are_these_forever():
    data = codecs.pack_arrays({"b": np.arange(3, dtype="<i4"), "a/0": np.array([[-0.0, np.nan]])})
    assert hashlib.sha256(data).hexdigest() == "24de40c65a4d58621368388df9153a7614d651da62d01bc732a843932ebf19bc"


def test_scalars_and_views_are_arrays_which_can_be_written_to_when_they_are_read():
    view = np.arange(24.0).reshape(2, 3, 4)[:, ::2].transpose(1, 0, 2)
    found = codecs.unpack_arrays(codecs.pack_arrays({"scalar": np.float64(1.5), "view": view}))
    assert same_array(found["scalar"], np.array(1.5))
    assert np.array_equal(found["view"], view)
    found["view"][0] = 1


@pytest.mark.parametrize(
    "array",
    [
        np.array([None]),
        np.array(["a"]),
        np.array([b"a"]),
        np.array([1j]),
        np.array(["2026-01-01"], dtype="M8[D]"),
        np.zeros(2, dtype=[("a", "f8")]),
        np.zeros(2, dtype=np.longdouble),
    ],
)
def test_refuses_to_write_what_is_no_plain_number(array):
    with pytest.raises(ValueError, match="only plain numbers"):
        codecs.pack_arrays({"a": array})


@pytest.mark.parametrize("name", BAD_NAMES)
def test_refuses_names_that_leave_their_place(name):
    with pytest.raises(ValueError, match="lead outside the artifact"):
        codecs.pack_arrays({name: np.zeros(1)})
    if "\0" not in name:  # a zip entry ends at NUL
        with pytest.raises(ValueError, match="lead outside the artifact"):
            codecs.unpack_arrays(zipped({f"{name}.npy": npy("<f8", "()", bytes(8))}))


def test_reads_what_the_forger_below_would_write_honestly():
    assert codecs.unpack_arrays(zipped({"a.npy": npy("<f8", "(1,)", bytes(8))}))["a"].tolist() == [0.0]


@pytest.mark.parametrize(
    "npy",
    [
        npy("<f8", "(1000000000000000,)", bytes(8)),
        npy("<f8", "(4294967296, 4294967296)", bytes(8)),
        npy("<f8", "(2, 9223372036854775807)", bytes(8)),
        npy("<f8", "(0, 9999999999999999999)", b""),
        npy("<f8", "(-1,)", bytes(8)),
        npy("<f8", "(2,)", bytes(8)),
        npy("<f8", "(1,)", bytes(16)),
        npy("<f8", "(" + "1, " * 40 + ")", bytes(8)),
        npy("|O", "(1,)", bytes(8)),
        npy("O", "(1,)", bytes(8)),
        npy("<U2", "(1,)", bytes(8)),
        npy("<c16", "(1,)", bytes(16)),
        npy("<M8[s]", "(1,)", bytes(8)),
        npy("<f1", "(8,)", bytes(8)),
        npy("", "", bytes(8), header="{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }\n"),
        npy("", "", bytes(8), header="__import__('os').abort()\n"),
        npy("", "", bytes(8), header="(" * 9000 + "\n"),
        npy("", "", bytes(8), header="é\n"),
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x02\x00" + npy("<f8", "()", bytes(8))[8:],
        b"\x93NUMPY\x01\x00\xff\xff{}",
    ],
)
def test_refuses_headers_that_lie_before_it_allocates(npy):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError):  # noqa: PT011 - several checks may be the first
            codecs.unpack_arrays(zipped({"a.npy": npy}))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_refuses_a_zip_bomb():
    bomb = zipped({"a.npy": npy("<f8", "(4000000,)", bytes(32_000_000))}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    with pytest.raises(ValueError, match="compressed"):
        codecs.unpack_arrays(bomb)


def test_refuses_entries_that_share_their_bytes():
    honest = zipped({"a.npy": npy("<f8", "(1000,)", bytes(8000)), "b.npy": b""})
    central = honest.index(b"PK\x01\x02")
    first, rest = honest[central:].split(b"PK\x01\x02")[1:]
    crowd = b"".join(b"PK\x01\x02" + first.replace(b"a.npy", bytes([letter]) + b".npy") for letter in b"abcdefgh")
    end = bytearray(rest[rest.index(b"PK\x05\x06") :])
    end[8:12] = (8).to_bytes(2, "little") * 2
    end[12:16] = len(crowd).to_bytes(4, "little")
    with pytest.raises(ValueError, match="larger than the file"):
        codecs.unpack_arrays(honest[:central] + crowd + bytes(end))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_refuses_two_arrays_of_the_same_name():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.npy", npy("<f8", "()", bytes(8)))
        archive.writestr("a.npy", npy("<f8", "()", bytes(8)))
    with pytest.raises(ValueError, match="same name"):
        codecs.unpack_arrays(out.getvalue())


def test_refuses_an_entry_that_is_no_array():
    with pytest.raises(ValueError, match="is not an array"):
        codecs.unpack_arrays(zipped({"a.pkl": b""}))


SOUND = codecs.pack_arrays({"a": np.arange(4.0), "b/c": np.zeros((2, 2), np.int8, order="F")})


@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=4), st.integers(0, 40))
def test_whatever_the_bytes_only_a_value_error(changes, cut):
    data = bytearray(SOUND)
    for place, byte in changes:
        data[place] = byte
    _unpack_or_value_error(bytes(data[: len(data) - cut]))


@given(st.binary(max_size=300))
def test_whatever_the_file_only_a_value_error(data):
    _unpack_or_value_error(data)


def _unpack_or_value_error(data):
    with suppress(ValueError):
        codecs.unpack_arrays(data)
