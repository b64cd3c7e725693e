"""The manifest: what is written is read, and what is wrong is named by its key."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.artifacts import manifest
from calcli.artifacts.manifest import Manifest, Payload, is_old_manifest, is_payload
from calcli.errors import ArtifactError
from tests.support.artifacts import draft
from tests.support.strategies import json_text, json_values

SHA = "ab" * 32
PAYLOAD = Payload("state", f"state-{SHA}.json", SHA, 12, "json")
FULL = draft(
    payloads=(PAYLOAD,), previous=f"manifest-{SHA}.json", sides=({"role": "edges", "name": "e", "payload": None},)
)
CONTRACT = [
    *("schema", "calcli", "created", "kind", "task", "method", "requested", "preset", "params"),
    *("seed", "label", "binding", "features", "recipe", "fit", "definitions", "data"),
    *("sides", "contains_rows", "requires", "versions", "payloads", "previous"),
]


def test_the_keys_are_those_of_the_contract_in_its_order_and_come_back():
    found = json.loads(FULL.to_json())
    assert list(found) == CONTRACT
    assert set(found["payloads"][0]) == {"role", "name", "sha256", "bytes", "codec"}
    assert Manifest.from_json(FULL.to_json()) == FULL


@given(st.dictionaries(json_text, json_values, max_size=4), st.integers(), json_text)
def test_comes_back_whatever_is_in_it(nested, seed, words):
    one = replace(FULL, params=nested, fit=nested, features=(nested,), seed=seed, method=words, requires=(words,))
    again = Manifest.from_json(one.to_json())
    assert again == one
    assert again.to_json() == one.to_json()


def test_is_text_with_a_key_a_line():
    lines = FULL.to_json().decode("utf-8").splitlines()
    assert len(lines) == len(CONTRACT) + 2
    assert "größe" in FULL.to_json().decode("utf-8")


def test_unknown_keys_are_ignored():
    found = {**FULL.as_dict(), "later": 1}
    found["payloads"][0]["later"] = 2
    assert Manifest.from_json(json.dumps(found).encode()) == FULL


@pytest.mark.parametrize("key", CONTRACT)
def test_a_missing_key_is_named(key):
    found = FULL.as_dict()
    del found[key]
    with pytest.raises(ArtifactError, match=f"'{key}'"):
        Manifest.from_json(json.dumps(found).encode())


_TEXTS = ("calcli", "created", "method", "requested", "preset")
_OBJECTS = ("params", "label", "binding", "recipe", "fit", "definitions", "data", "versions")


@pytest.mark.parametrize("key", CONTRACT)
@pytest.mark.parametrize("wrong", [1.5, "?", [1], {"a": 1}, -1])
def test_a_wrong_type_is_named(key, wrong):
    right = (
        (wrong == -1 and key == "seed") or (wrong == "?" and key in _TEXTS) or (wrong == {"a": 1} and key in _OBJECTS)
    )
    data = json.dumps({**FULL.as_dict(), key: wrong}).encode()
    if right:
        Manifest.from_json(data)
        return
    with pytest.raises(ArtifactError, match=f"its key '{key}' is"):
        Manifest.from_json(data)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("role", "State"),
        ("role", "manifest"),
        ("role", "other"),
        ("name", f"../state-{SHA}.json"),
        ("name", f"state-{SHA}.json\n"),
        ("name", f"state-{SHA[:-1]}.json"),
        ("name", f"state-{SHA}.a/b"),
        ("name", f"state-{SHA}"),
        ("name", "/etc/passwd"),
        ("name", "manifest.json"),
        ("name", None),
        ("sha256", "cd" * 32),
        ("sha256", SHA.upper()),
        ("bytes", -1),
        ("bytes", 1.0),
        ("bytes", True),
        ("codec", "pickle"),
    ],
)
def test_a_wrong_payload_is_named(key, wrong):
    found = FULL.as_dict()
    found["payloads"][0][key] = wrong
    with pytest.raises(ArtifactError, match=r"payloads\[0\]\.") as caught:
        Manifest.from_json(json.dumps(found).encode())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "wrong", "words"),
    [
        ("payloads", FULL.as_dict()["payloads"] * 2, "twice"),
        *(("sides", [{"role": "edges", "payload": wrong}], r"sides\[0\]") for wrong in ("elsewhere", 1)),
        *(("sides", [wrong], r"sides\[0\]") for wrong in ({}, {"role": 1})),
        *(("schema", f"calcli.artifact/{wrong}", "key 'schema'") for wrong in ("0", "-1", "1.0", "")),
        *(("schema", wrong, "key 'schema'") for wrong in ("", 1, None, "x" * 999)),
    ],
)
def test_a_wrong_value_is_named(key, wrong, words):
    with pytest.raises(ArtifactError, match=words) as caught:
        Manifest.from_json(json.dumps({**FULL.as_dict(), key: wrong}).encode())
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"NaN", b"\xff", b'{"schema": NaN}', b"{}", b"[" * 100_000, b'{"a": 1e999}']
)
def test_what_is_no_manifest_is_an_artifact_error(data):
    with pytest.raises(ArtifactError, match=r"^somewhere"):
        Manifest.from_json(data, "somewhere")


@given(st.binary(max_size=40) | json_values.map(lambda value: json.dumps(value).encode()))
def test_whatever_the_bytes_only_an_artifact_error(data):
    with pytest.raises(ArtifactError):
        Manifest.from_json(data)


@pytest.mark.parametrize("wrong", [{"fit": {"after": {"ece": float("nan")}}}, {"kind": "thing"}, {"seed": None}])
def test_what_could_not_be_read_is_not_written(wrong):
    with pytest.raises(ValueError):  # noqa: PT011 - a defect of the caller; it is no error of an artifact
        replace(FULL, **wrong).to_json()


@pytest.mark.parametrize("schema", ["calcli.artifact/2", "calcli.artifact/10", "calcli.artifact/999999999"])
def test_a_newer_format_is_refused_by_name(schema):
    newer = {"schema": schema, "calcli": "3.1.0", "payloads": "of another kind"}
    with pytest.raises(ArtifactError, match=f"format {schema.rpartition('/')[2]}, .* up to 1; calcli 3.1.0 wrote it"):
        Manifest.from_json(json.dumps(newer).encode())


@pytest.mark.parametrize("version", [None, 3, "1'; rm -rf ~; '", "", "latest"])
def test_a_newer_format_puts_nothing_into_the_readers_shell(version):
    newer = {"schema": "calcli.artifact/2", "calcli": version}
    with pytest.raises(ArtifactError, match=r"try: pip install --upgrade calcli-calibration$"):
        Manifest.from_json(json.dumps(newer).encode())


def test_older_formats_take_every_step(monkeypatch):
    assert set(manifest.STEPS) == set(range(1, manifest.CURRENT))

    def step(number):
        return lambda manifest: {**manifest, "steps": [*manifest.get("steps", []), number]}

    monkeypatch.setattr(manifest, "CURRENT", 4)
    monkeypatch.setattr(manifest, "STEPS", {number: step(number) for number in (1, 2, 3)})
    assert manifest.to_current({"schema": "calcli.artifact/2"}, "m")["steps"] == [2, 3]


def test_names():
    assert is_payload(f"partition-data-{SHA}.parquet")
    assert is_old_manifest(f"manifest-{SHA}.json")
    for name in (f"manifest-{SHA}.json", "manifest.json", f"state-{SHA}.json/..", f"../state-{SHA}.json", "state.json"):
        assert not is_payload(name)
