"""Arrays come back bit for bit, and hostile files never get further than a `ValueError`."""

from __future__ import annotations

import hashlib
import io
import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.artifacts import codecs
from tests.support.artifacts import BAD_NAMES, npy, same_array, zipped
from tests.support.strategies import arrays

names = st.lists(st.text("aé0 .-_", min_size=1).filter(lambda part: part not in (".", "..")), min_size=1, max_size=3)


@given(st.dictionaries(names.map("/".join), arrays(), max_size=4))
def test_comes_back_bit_for_bit(given_arrays):
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


def test_a_scalar_is_an_array_without_dimensions():
    assert same_array(codecs.unpack_arrays(codecs.pack_arrays({"a": np.float64(1.5)}))["a"], np.array(1.5))


def test_a_view_is_written_as_what_it_shows():
    view = np.arange(24.0).reshape(2, 3, 4)[:, ::2].transpose(1, 0, 2)
    assert np.array_equal(codecs.unpack_arrays(codecs.pack_arrays({"a": view}))["a"], view)


def test_what_is_read_can_be_written_to():
    codecs.unpack_arrays(codecs.pack_arrays({"a": np.zeros(3)}))["a"][0] = 1


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


@pytest.mark.parametrize("name", [name for name in BAD_NAMES if "\0" not in name])  # a zip entry ends at NUL
def test_refuses_to_read_names_that_leave_their_place(name):
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
