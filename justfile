# Everyday commands; `just` alone lists them. PYTHON chooses the interpreter of a virtual environment.

python := env_var_or_default("PYTHON", "python")

default:
    @just --list

# run the tests but for the slow ones
test *args:
    {{python}} -m pytest {{args}}

# run all tests: what .ci/run does in two steps
test-all *args:
    {{python}} -m pytest -m '' {{args}}

# check style, types and layers
lint:
    {{python}} -m ruff check .
    {{python}} -m ruff format --check .
    {{python}} -m mypy -p calcli
    lint-imports

# write what is generated: help pages, golden help texts, the table of methods
docs:
    {{python}} docs/generate.py

# write the sample data anew
sample-data:
    {{python}} sample_data/generate.py

# every benchmark, or some by name, into docs/results.md: `just bench --data DIR --raw DIR`, or `just bench --quick`
bench *args:
    {{python}} benchmarks/run.py {{args}}

# open the pages in a headless Chromium: no errors, no requests, no overflow on a telephone or a screen
browser:
    {{python}} -m pytest tests/browser

# the tests in a virtual environment DIR with the lowest versions that pyproject.toml admits
lowest dir:
    {{python}} -m venv {{dir}}
    {{python}} tests/lowest.py > {{dir}}/lowest.txt
    {{dir}}/bin/pip install -e '.[test]' -c {{dir}}/lowest.txt
    {{dir}}/bin/python -m pytest -m '' -W default

# attack it: thousands of damaged files, artifacts and words; takes an hour
soak cases="10000":
    CALCLI_SOAK={{cases}} {{python}} -m pytest -m slow tests/soak
