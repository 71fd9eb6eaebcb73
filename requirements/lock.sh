#!/usr/bin/env bash
# Writes the lock files from pyproject.toml, for every platform and for Python 3.11 and newer.
# Pins that still fit stay; `--upgrade` takes the newest.
#
#   run.lock    what `make up` needs
#   dev.lock    run.lock and what `make test`, `make check` and `make proto` need
#   bench.lock  run.lock and what `make bench` needs
#   danube.lock Danube's own client, unmodified, which the tests run in an environment of its own
set -euo pipefail

.venv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.7

compile() {
    local name=$1
    shift
    echo "Locking requirements/$name.lock"
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --custom-compile-command "make lock" \
        --group build --output-file "requirements/$name.lock" "$@" pyproject.toml
}

# The first decides the versions, the others follow it: all three share one .venv.
compile dev --extra all-in-one --extra dev "$@"
compile run --extra all-in-one --constraint requirements/dev.lock "$@"
compile bench --extra bench --constraint requirements/dev.lock "$@"

echo "Locking requirements/danube.lock"
.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --custom-compile-command "make lock" \
    --output-file requirements/danube.lock "$@" requirements/danube.in
