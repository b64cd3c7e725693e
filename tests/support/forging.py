"""Forged artifacts, opened in another process, so that a crash or a hang ends only that process.

A calibrator or an ensemble is forged in one place: a value of its manifest, a parameter, an array, the bytes of a
model. Opening it and predicting with it must give probabilities, or a `CalcliError`. Run as a script with a directory
that holds the artifact ``whole`` and ``rows.parquet``, and the first and the last case, this prints a line for each
case before it begins and one for each that went wrong.
"""

from __future__ import annotations

import copy
import os
import random
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from calcli.artifacts import codecs, store, strictjson
from calcli.artifacts.manifest import Manifest
from calcli.artifacts.store import Artifact
from calcli.errors import CalcliError, UsageError
from calcli.state import State
from tests.support.damage import damaged
from tests.support.shell import environment

JUNK = (0, 1, -1, -5, 3.7, 10**9, 2**40, 1e308, -1e308, 1e-320, True, None, "x", "paper", [], [1, 2], {}, {"a": 1})
NUMBERS = (np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -1.0)
WHOLE = (-(2**62), -(2**31), -1, 0, 1, 7, 255, 2**16 - 1, 2**31 - 1, 2**62)

SECONDS = 20
"""So much of a processor's time may a case take: beyond it, something goes in circles."""

MEMORY = 3 << 30
"""So much more than an honest artifact may one take."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list) and value:
        for place in range(len(value)):
            yield from leaves(value[place], (*path, place))
    elif path:
        yield path


def other_params(params: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    """One value is another, or missing."""
    found = copy.deepcopy(dict(params))
    paths = list(leaves(found))
    if paths:
        *above, last = chance.choice(paths)
        place = found
        for key in above:
            place = place[key]
        if isinstance(place, dict) and chance.random() < 0.2:
            del place[last]
        else:
            place[last] = chance.choice(JUNK)
    return found


def other_arrays(arrays: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    """One array is shorter, longer, of another shape or type, missing, or holds a number that is none."""
    found = {name: np.array(array) for name, array in arrays.items()}
    name = chance.choice(sorted(found))
    array = found[name]
    match chance.randrange(9):
        case 0:
            del found[name]
        case 1:
            found[name] = array[: len(array) // 2] if array.ndim else array
        case 2:
            found[name] = np.zeros((3,) * chance.randrange(4), array.dtype if chance.random() < 0.5 else np.float64)
        case 3:
            found[name] = array.astype(chance.choice((np.float64, np.int64, np.uint8, np.int32, np.float16)))
        case 4:
            found[name] = np.concatenate([array, array]) if array.ndim else array
        case _ if array.size:
            for _ in range(chance.choice((1, 1, 3))):
                array.reshape(-1)[chance.randrange(array.size)] = another(array.dtype, chance)
    return found


def another(dtype: Any, chance: random.Random) -> Any:
    """A number of this type that should not be there."""
    if dtype.kind == "b":
        return chance.random() < 0.5
    if dtype.kind == "f":
        return chance.choice(NUMBERS)
    limits = np.iinfo(dtype)
    return min(max(chance.choice((*WHOLE, chance.randrange(64))), limits.min), limits.max)


def other(state: State, chance: random.Random) -> State:
    params, arrays, blobs = dict(state.params), dict(state.arrays), dict(state.blobs)
    kinds = [*(["params"] if params else []), *(["arrays"] * 2 if arrays else []), *(["blobs"] if blobs else [])]
    match chance.choice(kinds):
        case "params":
            params = other_params(params, chance)
        case "arrays":
            arrays = other_arrays(arrays, chance)
        case "blobs":
            name = chance.choice(sorted(blobs))
            blobs[name] = damaged(blobs[name], chance)
    return State(params, arrays, blobs)


def forged(whole: Artifact, chance: random.Random) -> Artifact | None:
    """The artifact with one thing changed, as it would be read; None where calcli itself would not have written it."""
    states = dict(whole.states)
    manifest = whole.manifest
    if manifest.kind == "multi" and chance.random() < 0.7:
        return other_label(whole, chance)
    if chance.random() < 0.15:
        document = other_params(strictjson.loads_object(manifest.to_json()), chance)
        manifest = Manifest.from_json(strictjson.dumps(document).encode())
    else:
        role = chance.choice(sorted(states))
        try:
            states[role] = codecs.decode(codecs.encode(role, other(states[role], chance)))
        except (ValueError, TypeError):
            return None
    return Artifact(whole.path, manifest, states, whole.sha256)


def other_label(whole: Artifact, chance: random.Random) -> Artifact | None:
    """The artifact with one thing changed in the calibrator of one label, hashes and all."""
    blobs = dict(whole.state.blobs)
    place = f"{chance.randrange(len(blobs) // 2)}/"  # a manifest and at least one file of each
    files = {name.removeprefix(place): blobs.pop(name) for name in list(blobs) if name.startswith(place)}
    if not files:
        return None
    one = forged(store.unpack(files.pop("manifest.json"), files), chance)
    if one is None:
        return None
    manifest, packed = store.pack(one.manifest, one.states)
    content = {"manifest.json": manifest.to_json()} | {file.payload.name: file.data for file in packed}
    state = replace(whole.state, blobs=blobs | {place + name: data for name, data in content.items()})
    return Artifact(whole.path, whole.manifest, {**whole.states, "state": state}, whole.sha256)


def use(artifact: Artifact, rows: pl.DataFrame) -> None:
    """All that can be done with it."""
    from calcli.models import calibrator as calibrators
    from calcli.models import ensemble as ensembles
    from calcli.models.base import artifact_of
    from calcli.models.multi import MultiModel

    if artifact.manifest.kind == "ensemble":
        found = ensembles.opened(artifact).predict(rows)
        assert np.isfinite(found.total).all(), "uncertainty that is no number"
        return
    if artifact.manifest.kind == "multi":
        several = MultiModel.read(artifact)
        several.probe()
        several.contents(rules=False)
        for member in several.members.values():
            use(artifact_of(member), rows)
        return
    model = calibrators.opened(artifact)
    prob = model.predict(rows)
    assert np.isfinite(prob).all(), "probabilities that are no numbers"
    assert ((prob >= 0) & (prob <= 1)).all(), "probabilities beyond 0 and 1"
    model.calibrator.explain([str(label) for label in model.binding.classes])
    model.calibrator.remarks()
    if model.calibrator.spec.closed_form and len(prob) < 50:
        from calcli.verbs.export import calibrated_terms

        with suppress(UsageError):  # clusters of SHAP values have none
            calibrated_terms(model, "calibrated", "prob")


def attack(folder: Path, first: int, last: int) -> None:
    """Open this many forgeries, and say which of them did harm."""
    whole, rows = store.read(folder / "whole"), pl.read_parquet(folder / "rows.parquet")
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    use(whole, rows)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, resource.RLIM_INFINITY))
    for case in range(first, last):
        print("case", folder.name, case, flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            artifact = forged(whole, random.Random(f"{folder.name} {case}"))
            if artifact is not None:
                use(artifact, rows)
        except CalcliError as error:
            if "\n" in str(error):
                print("wrong", folder.name, case, "an error of several lines", repr(str(error)[:200]))
        except BaseException as error:
            print("wrong", folder.name, case, f"{type(error).__name__} {error}".replace("\n", " ")[:200], flush=True)
    signal.setitimer(signal.ITIMER_PROF, 0)


def harm(folders: Sequence[Path], cases: int) -> list[str]:
    """What forgeries of the artifacts in these folders do that they should not."""
    found: list[str] = []
    todo, first = [str(folder) for folder in folders], 0
    while todo:
        words = [sys.executable, "-m", "tests.support.forging", str(first), str(cases), *todo]
        env = environment(OMP_NUM_THREADS="1", POLARS_MAX_THREADS="1")
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        lines = [line.split(maxsplit=3) for line in done.stdout.splitlines()]
        found += [" ".join(words) for words in lines if words[0] == "wrong"]
        if done.returncode == 0:
            return found
        begun = [(words[1], int(words[2])) for words in lines if words[0] == "case"]
        assert done.returncode < 0, done.stderr
        assert begun, done.stderr
        name, case = begun[-1]
        found.append(f"wrong {name} {case} {signal.Signals(-done.returncode).name} {done.stderr[-200:]}")
        todo, first = todo[[Path(folder).name for folder in todo].index(name) :], case + 1
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for place, folder in enumerate(sys.argv[3:]):
        attack(Path(folder), int(sys.argv[1]) if place == 0 else 0, int(sys.argv[2]))
    os._exit(0)
