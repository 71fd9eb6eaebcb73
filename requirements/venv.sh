#!/usr/bin/env bash
# Creates .venv with the given interpreter, or with the first one found that is new enough.
#
#   requirements/venv.sh [python]
set -euo pipefail

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

candidates=(python3.11 python3 python3.13 python3.12 python3.14)
if [ $# -gt 0 ]; then
    candidates=("$1")
fi

python=""
for candidate in "${candidates[@]}"; do
    if new_enough "$candidate"; then
        python=$candidate
        break
    fi
done

if [ -z "$python" ]; then
    echo "Python 3.11 or newer is required; tried ${candidates[*]}." >&2
    echo "Install it (Debian 12: apt install python3 python3-venv), or name its path:" >&2
    echo "  make PYTHON=/path/to/python3.11 ..." >&2
    exit 1
fi

echo "Creating .venv with $("$python" --version)"
if ! output=$("$python" -m venv .venv 2>&1); then
    echo "$output" >&2
    echo "$python could not create a virtual environment." >&2
    echo "On Debian and Ubuntu, venv is a separate package: apt install python3-venv" >&2
    exit 1
fi
