#!/usr/bin/env bash
# Writes the lock files from pyproject.toml, for all platforms and for Python 3.11 and newer.
# Keeps pins that still fit; `--upgrade` takes the newest versions.
#
#   run.lock    what `make up` needs
#   lake.lock   run.lock, Spark and the Pulumi program, for `make up CLOUD=1`
#   dev.lock    run.lock and what `make test`, `make check` and `make proto` need
#   bench.lock  run.lock and what `make bench` needs
#   broker.lock, storage.lock   what the containers need
#   functions.lock, catalog.lock   what the Lambda functions need, and the one that commits to tables
#   emulators.lock, localstack.lock   emulators of cloud services, in separate environments
#   spark.lock, emr.lock   the newest Spark, for a test; what the jobs bring along to EMR
#   docs.lock   what `make docs` needs, in a separate environment
#   fuzz.lock   what `make fuzz` needs beside dev.lock, in a separate environment
#   danube.lock Danube's own client, which the tests run in a separate environment
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

# The first one decides the versions and the others follow: all of them share one .venv.
compile dev --extra all-in-one --extra dev "$@"
compile run --extra all-in-one --constraint requirements/dev.lock "$@"
compile lake --extra all-in-one --extra spark-local --extra infra --constraint requirements/dev.lock "$@"
compile bench --extra bench --constraint requirements/dev.lock "$@"

# In separate environments, because their dependencies conflict with ours.
apart() {
    local name=$1
    shift
    echo "Locking requirements/$name.lock"
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --custom-compile-command "make lock" \
        --output-file "requirements/$name.lock" "$@" "requirements/$name.in"
}

# LocalStack breaks with newer versions of its dependencies; its source archive lists those that
# it was tested with. Prints them as constraints, for the Python versions of a marker.
localstack_pins() {
    local version=$1 marker=$2 folder
    folder=$(mktemp -d)
    .venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps \
        --no-binary localstack-core --dest "$folder" "localstack-core==$version" >&2
    tar -xzOf "$folder"/*.tar.gz --wildcards '*/requirements-runtime.txt' |
        sed -nE "s/^([A-Za-z0-9_.-]+)(\[[^]]*\])?==([^ ;]+).*/\1==\3 ; $marker/p"
    rm -r "$folder"
}

apart danube "$@"
apart docs "$@"
apart emulators "$@"
apart fuzz "$@"
apart spark "$@"
apart emr "$@"
pins=$(mktemp)
while IFS= read -r line; do
    version=${line#*==}
    localstack_pins "${version%% *}" "${line#*; }"
done < <(grep '==' requirements/localstack.in) > "$pins"
apart localstack --no-annotate --constraint "$pins" "$@"
rm "$pins"

# Containers and functions get only what they run: no build tools, no etcd.
packed() {
    local name=$1
    shift
    echo "Locking requirements/$name.lock"
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --custom-compile-command "make lock" \
        --constraint requirements/dev.lock --output-file "requirements/$name.lock" \
        "$@" pyproject.toml
}

# Storage nodes do the tiering, so brokers do without its libraries.
packed broker --extra broker --extra cli --extra etcd --extra schemas --extra storage "$@"
packed storage --extra lake --extra storage "$@"
packed functions --extra functions "$@"
packed catalog --extra catalog "$@"
