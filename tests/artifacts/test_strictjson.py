"""What is written comes back exactly; what cannot is refused on either side."""

from __future__ import annotations

from contextlib import suppress
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.artifacts import strictjson
from tests.support.strategies import json_values


@given(json_values)
def test_comes_back_exactly(value):
    assert repr(strictjson.loads(strictjson.dumps(value).encode())) == repr(_sorted(value))


def _sorted(value):
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(part) for part in value] if isinstance(value, list) else value


def test_order_of_keys_does_not_matter():
    assert strictjson.dumps({"b": 1, "a": [{"d": 1, "c": 2}]}) == strictjson.dumps({"a": [{"c": 2, "d": 1}], "b": 1})


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1.0, float("nan")]}, r"value\['a'\]\[1\] is nan"),
        ({"a": float("-inf")}, r"value\['a'\] is -inf"),
        ({"a": {1: 2}}, "the key 1"),
        ({"a": (1, 2)}, "tuple"),
        ({"a": np.int64(1)}, "int64"),
        ({"a": np.float32(1)}, "float32"),
        ({"a": b""}, "bytes"),
        ("\ud800", "not text"),
        ({"\udfff": 1}, "not text"),
        (reduce(lambda value, _: [value], range(5000), []), "deeper"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_refuses_to_write(value, where):
    with pytest.raises(ValueError, match=where):
        strictjson.dumps(value)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"{'a': 1}", b"NaN", b'{"a": Infinity}', b'{"a": -Infinity}'),
        *(b"1e999", b'{"a": 1, "a": 2}', b'"\\ud800"', b"[" * 100, b"[" * 100 + b"]" * 100, b"1" * 10_000),
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    ],
)
def test_refuses_to_read(data):
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are Python's own, in part
        strictjson.loads(data)


@given(st.binary(max_size=50) | st.text('{}[]":,0123e-.\\u natrufls', max_size=50).map(str.encode))
def test_never_raises_anything_else(data):
    with suppress(ValueError):
        strictjson.loads(data)


def test_an_error_is_one_line():
    with pytest.raises(ValueError, match=r"value\['a\\nb'\] is not text") as caught:
        strictjson.loads(b'{"a\\nb": "\\ud800"}')
    assert "\n" not in str(caught.value)


def test_an_object_is_an_object():
    with pytest.raises(ValueError, match="list"):
        strictjson.loads_object(b"[]")
