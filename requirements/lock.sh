#!/usr/bin/env bash
# Writes the lock files from pyproject.toml, for every platform and for Python 3.11 and newer.
# Pins that still fit stay; `--upgrade` takes the newest.
#
#   run.lock    what `make up` needs
#   lake.lock   run.lock and Spark, for `make up CLOUD=1`
#   dev.lock    run.lock and what `make test`, `make check` and `make proto` need
#   bench.lock  run.lock and what `make bench` needs
#   broker.lock, storage.lock, functions.lock   what the containers and the Lambda functions have
#   emulators.lock, localstack.lock   servers that stand in for a cloud's, in environments of their own
#   spark.lock, emr.lock   the newest Spark for a test; what the jobs take along to EMR
#   docs.lock   what `make docs` needs, in an environment of its own
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

# The first decides the versions, the others follow it: all of these share one .venv.
compile dev --extra all-in-one --extra dev "$@"
compile run --extra all-in-one --constraint requirements/dev.lock "$@"
compile lake --extra all-in-one --extra spark-local --constraint requirements/dev.lock "$@"
compile bench --extra bench --constraint requirements/dev.lock "$@"

# In environments of their own: what they need would not go together with ours.
apart() {
    local name=$1
    shift
    echo "Locking requirements/$name.lock"
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --custom-compile-command "make lock" \
        --output-file "requirements/$name.lock" "$@" "requirements/$name.in"
}

# LocalStack breaks with newer versions of what it uses: its source archive has those it was
# tested with. Prints them as constraints for the Pythons of a marker.
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
apart spark "$@"
apart emr "$@"
pins=$(mktemp)
while IFS= read -r line; do
    version=${line#*==}
    localstack_pins "${version%% *}" "${line#*; }"
done < <(grep '==' requirements/localstack.in) > "$pins"
apart localstack --no-annotate --constraint "$pins" "$@"
rm "$pins"

# Containers and functions get no more than they run: no build tools, no etcd.
packed() {
    local name=$1
    shift
    echo "Locking requirements/$name.lock"
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --custom-compile-command "make lock" \
        --constraint requirements/dev.lock --output-file "requirements/$name.lock" \
        "$@" pyproject.toml
}

# Brokers leave the lake to the storage nodes, and its libraries with it.
packed broker --extra broker --extra cli --extra etcd --extra schemas --extra storage "$@"
packed storage --extra lake --extra storage "$@"
packed functions --extra functions "$@"
