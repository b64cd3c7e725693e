"""Whether two versions of calcli give the same results, byte for byte.

    python benchmarks/same_results.py record before.json [--data DIR]     # with the version of before
    python benchmarks/same_results.py record after.json [--data DIR]      # with the version of after
    python benchmarks/same_results.py compare before.json after.json      # exits with 1 where they differ

`record` runs the commands of `_commands` on the sample data and, with --data, on three tables of real predictions, and
keeps for each its exit status, what it printed, and the hash of every payload that it wrote. What differs between any
two runs is left out: seconds, times of day, versions, the manifest's own hash. `CALCLI` chooses the program, by default
``python -m calcli`` of this interpreter; it is run in an empty directory, so that PYTHONPATH decides which version.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = shlex.split(os.environ.get("CALCLI", f"{sys.executable} -m calcli"))
TABLES, SAMPLES = Path("tables"), Path("samples")
"""Links in the directory where commands run, so that no report depends on where the data is."""
VOLATILE = {"at", "seconds", "created", "version", "versions", "platform", "python", "hardware", "written", "fitted"}
"""Keys of JSON whose values differ from run to run."""

CHEAP = ("platt", "isotonic", "histogram", "temperature", "beta")
REAL = ("adult.mlp", "qsar_biodeg.mlp", "house_class.catboost")
"""Tables of real predictions: large, small, and of five classes."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(dest="verb", required=True)
    recorder = sub.add_parser("record")
    recorder.add_argument("output", type=Path)
    recorder.add_argument("--data", type=Path, help="a directory of NAME.{cal,test}.parquet")
    recorder.add_argument("--only", default="", help="run only steps whose name contains this")
    comparer = sub.add_parser("compare")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    comparer.add_argument("--subset", action="store_true", help="allow commands that only one record has")
    options = parser.parse_args()
    if options.verb == "record":
        options.output.write_text(json.dumps(_record(options.data, options.only), indent=1, sort_keys=True))
        return 0
    return _compare(json.loads(options.before.read_text()), json.loads(options.after.read_text()), options.subset)


def _commands(data: Path | None) -> Iterator[tuple[str, list[str]]]:
    """A name and the words of each command, in an order in which later ones find what earlier ones wrote."""
    methods = json.loads(_run(["methods", "--format", "json"], Path.cwd()).stdout)["methods"]
    yield "metrics", ["metrics", "--format", "json"]
    yield "methods", ["methods", "--format", "json"]
    tables = {"clicks": (SAMPLES / "train.parquet", SAMPLES / "test.parquet", 2)}
    tables["classes"] = (SAMPLES / "classes_train.csv", SAMPLES / "classes_test.csv", 4)
    for name in () if data is None else REAL:
        classes = 5 if name.startswith("house") else 2
        tables[name] = (TABLES / f"{name}.cal.parquet", TABLES / f"{name}.test.parquet", classes)
    for table, (train, test, classes) in tables.items():
        yield from _on_table(table, str(train), str(test), classes, methods)
    yield from _elsewhere()


def _on_table(
    table: str, train: str, test: str, classes: int, methods: list[dict[str, Any]]
) -> Iterator[tuple[str, list[str]]]:
    """Every method, then what reads artifacts."""
    kept = []
    for method in methods:
        name = method["name"]
        if name == "auto" or (name == "recal" and table != "house_class.catboost"):
            continue
        if name == "recal" and classes == 5:
            continue  # its graph is given below, on the sample data
        artifact = f"{table}.{name}"
        # Folds where that is quick, one split where it is not.
        scheme = "cv:5" if name in CHEAP else "0.3"
        yield f"{table}/fit {name}", ["fit", train, "-m", name, "--holdout", scheme, "-o", artifact, "--format", "json"]
        kept.append(artifact)
    few = [word for artifact in kept if artifact.split(".")[-1] in {"platt", "isotonic", "mbct", "dirichlet"}
           for word in ("--with", artifact)]  # fmt: skip
    every = [word for artifact in kept for word in ("--with", artifact)]
    yield f"{table}/evaluate", ["evaluate", test, *every, "--format", "json"]
    yield f"{table}/evaluate table", ["evaluate", test, *few]
    yield f"{table}/evaluate all", ["evaluate", test, *few, "--metrics", "all", "--rejection", "--format", "json"]
    yield f"{table}/evaluate bootstrap", ["evaluate", test, *few, "--bootstrap", "40", "--format", "json"]
    yield f"{table}/evaluate gate", ["evaluate", test, *few, "--fail-if", "nll.diff > -0.1", "--html", "report.html"]
    yield f"{table}/compare", ["compare", train, "--methods", ",".join(CHEAP[:4]), "--format", "json"]
    yield f"{table}/diagram", ["diagram", test, *few, "--format", "json"]
    yield f"{table}/diagram drawn", ["diagram", test, *few]
    yield f"{table}/diagram svg", ["diagram", test, *few, "-o", f"{table}.svg"]
    for artifact in kept:
        yield f"{table}/apply {artifact}", ["apply", artifact, test, "-o", "applied.parquet"]
    for method in ("platt", "isotonic", "mbct", "heterogeneous"):
        yield f"{table}/sql {method}", ["export", f"{table}.{method}", "--to", "sql", "--dialect", "duckdb"]
        yield f"{table}/rules {method}", ["inspect", f"{table}.{method}", "--rules", "--format", "json"]
    yield f"{table}/refit", ["refit", f"{table}.platt", test, "--guard", "nll", "--format", "json"]


def _elsewhere() -> Iterator[tuple[str, list[str]]]:
    """What has its own table in the sample data."""
    rows, edges = str(SAMPLES / "graph_rows.parquet"), str(SAMPLES / "graph_edges.parquet")
    train, test = str(SAMPLES / "train.parquet"), str(SAMPLES / "test.parquet")
    members, ood = str(SAMPLES / "members.parquet"), str(SAMPLES / "ood.parquet")
    graph = ["--edges", edges]
    yield (
        "graph/fit recal",
        [
            "fit",
            rows,
            "-m",
            "recal",
            *graph,
            "--node-id",
            "node_id",
            "--set",
            "epochs=30",
            "--holdout",
            "0.3",
            "-o",
            "graph.recal",
            "--format",
            "json",
        ],
    )
    yield "graph/apply recal", ["apply", "graph.recal", rows, "-o", "applied.parquet", *graph]
    yield "mbct paper", ["fit", train, "-m", "mbct", "--preset", "paper", "--holdout", "none", "-o", "paper.mbct"]
    yield "auto small", ["fit", test, "--ignore", "user_id", "--budget", "3000", "-o", "t.auto", "--format", "json"]
    yield "by", ["evaluate", test, "--with", "clicks.platt", "--by", "device,country", "--format", "json"]
    yield "by units", ["evaluate", test, "--with", "clicks.platt", "--bootstrap", "30", "--resample-by", "user_id",
                       "--format", "json"]  # fmt: skip
    yield "drift", ["evaluate", test, "--drift", "clicks.platt", "--format", "json"]
    yield "prior shift", ["fit", train, "-m", "platt", "--prior-shift", "0.05", "-o", "shifted", "--format", "json"]
    yield "compare by units", ["compare", train, "--methods", "platt,mbct", "--resample-by", "user_id",
                               "--format", "json"]  # fmt: skip
    small = ["--members", "3", "--trees", "50", "--threads", "1"]
    yield "uncertainty fit", ["uncertainty", "fit", train, "--ensemble", "sglb", *small, "-o", "ens"]
    yield "uncertainty apply", ["uncertainty", "apply", "ens", test, "-o", "applied.parquet"]
    yield "uncertainty evaluate", ["uncertainty", "evaluate", test, "--with", "ens", "--ood", ood, "--format", "json"]
    yield "uncertainty decompose", ["uncertainty", "decompose", members, "--members", "member", "-o", "applied.parquet"]


def _record(data: Path | None, only: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        here, before, manifests = Path(scratch), dict[str, str](), set[str]()
        (here / SAMPLES).symlink_to(Path(__file__).resolve().parent.parent / "sample_data")
        if data is not None:
            (here / TABLES).symlink_to(data.resolve())
        for name, words in _commands(data):
            if only not in name:
                continue
            started = time.perf_counter()
            done = _run(words, here)
            # A manifest tells the time, and so does its hash, which reports and later generations quote.
            manifests |= {hashlib.sha256(path.read_bytes()).hexdigest() for path in here.rglob("manifest*.json")}
            files = _hashes(here, manifests)
            found[name] = {
                "status": done.returncode,
                "stdout": _stable(done.stdout, manifests),
                "stderr": _stable(done.stderr, manifests),
                "written": {path: digest for path, digest in files.items() if before.get(path) != digest},
            }
            before = {path: digest for path, digest in files.items() if (here / path).exists()}
            print(f"{time.perf_counter() - started:7.1f} s  {done.returncode}  {name}", file=sys.stderr, flush=True)
    return found


def _run(words: list[str], here: Path) -> subprocess.CompletedProcess[str]:
    clean = {"COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        [*PROGRAM, *words], cwd=here, capture_output=True, text=True, env=os.environ | clean, check=False
    )


def _hashes(here: Path, manifests: set[str]) -> dict[str, str]:
    """The hash of every file beneath, by its path; then what is not an artifact is removed."""
    found = {}
    for path in sorted(here.rglob("*")):
        name = str(path.relative_to(here))
        if not path.is_file() or name.startswith((f"{SAMPLES}/", f"{TABLES}/")):
            continue
        content = path.read_bytes()
        if path.suffix in {".json", ".html"}:
            content = _stable(content.decode(), manifests).encode()
        found[_stable(name, manifests)] = hashlib.sha256(content).hexdigest()[:16]
        if path.parent == here:
            path.unlink()
    return found


def _stable(text: str, manifests: set[str]) -> str:
    """A text without what differs from run to run: times, seconds, versions, hashes of manifests."""
    try:
        text = json.dumps(_without_volatile(json.loads(text)), indent=1)
    except ValueError:
        text = re.sub(r"\d{4}-\d\d-\d\dT?[ ]?\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z)?", "TIME", text)
        text = re.sub(r"\b\d+(\.\d+)?(e-\d+)? ?(ms|s|µs|min)\b", "SECONDS", text)
        text = re.sub(r" +", " ", text)
    return re.sub(r"\b[0-9a-f]{64}\b", lambda digest: "MANIFEST" if digest[0] in manifests else digest[0], text)


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_volatile(part) for key, part in value.items() if key not in VOLATILE}
    return [_without_volatile(part) for part in value] if isinstance(value, list) else value


def _compare(before: dict[str, Any], after: dict[str, Any], subset: bool) -> int:
    same, differs = 0, 0
    names = before.keys() & after.keys() if subset else before.keys() | after.keys()
    for name in sorted(names):
        if before.get(name) == after.get(name):
            same += 1
            continue
        differs += 1
        print(f"{name}:")
        for part in ("status", "stdout", "stderr", "written"):
            one, other = before.get(name, {}).get(part), after.get(name, {}).get(part)
            if one != other:
                print(f"  {part}: {_first_difference(one, other)}")
    print(f"{same} commands the same, {differs} not")
    return 1 if differs else 0


def _first_difference(one: Any, other: Any) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        return ", ".join(key for key in sorted(one.keys() | other.keys()) if one.get(key) != other.get(key))
    for before, after in zip(str(one).splitlines(), str(other).splitlines(), strict=False):
        if before != after:
            return f"{before.strip()[:160]!r} beside {after.strip()[:160]!r}"
    return f"{len(str(one))} characters beside {len(str(other))}"


if __name__ == "__main__":
    sys.exit(main())
