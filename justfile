# Everyday commands; `just` alone lists them. PYTHON chooses the interpreter of a virtual environment.

python := env_var_or_default("PYTHON", "python")

default:
    @just --list

# run the tests but for the slow ones
test *args:
    {{python}} -m pytest {{args}}

# run the tests of what has changed since a commit: the rooms of the files, and the README
quick since="main":
    {{python}} tests/changed.py {{since}} | xargs {{python}} -m pytest -m 'not slow'

# draw new examples for the laws that Hypothesis tests; CI draws the same ones each time
fuzz examples="1000" *args:
    CALCLI_FUZZ={{examples}} {{python}} -m pytest -m hypothesis {{args}}

# the tests of the base on every Python of this machine that calcli supports; `nox -l` lists more
pythons *args:
    {{python}} -m nox {{args}}

# run all tests: what .ci/run does in two steps
test-all *args:
    {{python}} -m pytest -m '' {{args}}

# check style, types, layers and dependencies
lint:
    {{python}} -m ruff check .
    {{python}} -m ruff format --check .
    {{python}} -m mypy -p calcli
    lint-imports
    deptry calcli
    zensical build --strict --clean

# write what is generated: help pages, golden help texts, the table of methods
docs:
    {{python}} docs/generate.py

# the site, into build/site; a link that leads nowhere stops it
site:
    {{python}} -m zensical build --strict --clean

# write the sample data anew
sample-data:
    {{python}} sample_data/generate.py

# every benchmark, or some by name, into docs/results.md: `just bench --data DIR --raw DIR`, or `just bench --quick`
bench *args:
    {{python}} benchmarks/run.py {{args}}

# open the pages in a headless Chromium: no errors, no requests, no overflow on a telephone or a screen
browser:
    {{python}} -m pytest tests/browser

# build the package, check its metadata, and run the README's tour from the wheel in a new environment
release-check:
    #!/usr/bin/env bash
    set -euo pipefail
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    {{python}} -m pip install -q build twine
    {{python}} -m build --outdir "$work/dist" . >"$work/build.log" || { cat "$work/build.log"; exit 1; }
    {{python}} -m twine check --strict "$work"/dist/*
    {{python}} -m venv "$work/venv"
    "$work/venv/bin/pip" install -q "$(echo "$work"/dist/*.whl)[all]"
    awk '/^## /{inside = ($0 == "## A three-minute tour")} inside && /^```/{block = !block; next} inside && block' README.md >"$work/tour.sh"
    cp -r sample_data "$work"
    cd "$work"
    PATH="$work/venv/bin:$PATH" bash -ex tour.sh
    "$work/venv/bin/python" -c 'import calcli; print(calcli.__file__)'

# set the version, cut the changelog, check the package, commit and tag; pushing the tag publishes
release version:
    {{python}} packaging/release.py {{version}}

# attack it: thousands of damaged files, artifacts and words; takes an hour
soak cases="10000":
    CALCLI_SOAK={{cases}} {{python}} -m pytest -m slow tests/soak
