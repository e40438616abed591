#!/bin/sh
# Format, lint, types and tests in the current environment. Arguments go to pytest.
#     sh tests/check.sh
#     PYTHON=.venv/bin/python sh tests/check.sh -n auto
set -u
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python}
failed=""

check() {
    name=$1
    shift
    echo "== $name"
    "$@" || failed="$failed $name"
}

check "format" "$python" -m ruff format --check .
check "lint" "$python" -m ruff check .
# Else pyright takes the first Python on PATH and misses the packages of this one.
check "types" "$python" -m pyright --pythonpath "$("$python" -c 'import sys; print(sys.executable)')"
check "tests" "$python" -m pytest "$@"

if [ -n "$failed" ]; then
    echo "failed:$failed" >&2
    exit 1
fi
