#!/usr/bin/env bash
# Installs the packages of a lock file into .venv: exactly those versions, checked by their hashes.
# Shows one line of progress on a terminal, and pip's output only if it fails.
#
#   requirements/install.sh requirements/dev.lock
set -euo pipefail

lock=$1
log=.venv/install.log
total=$(grep -c '^[A-Za-z0-9].*==' "$lock")

progress() {
    local count=0 line
    while IFS= read -r line; do
        case $line in
            "Collecting "*) line=${line#Collecting } count=$((count + 1)) ;;
            "Requirement already satisfied: "*) line=${line#*: } count=$((count + 1)) ;;
            "Installing collected packages"*) line="unpacking" ;;
            *) continue ;;
        esac
        if [ -t 1 ]; then
            printf '\r\033[K  %d/%d %s' "$count" "$total" "${line%% *}"
        fi
    done
    if [ -t 1 ]; then
        printf '\r\033[K'
    fi
}

echo "Installing $lock into .venv"
if ! PYTHONUNBUFFERED=1 .venv/bin/python -m pip install --disable-pip-version-check --no-input \
    --progress-bar off --require-hashes --requirement "$lock" 2>&1 | tee "$log" | progress; then
    cat "$log" >&2
    echo "Installing the packages of $lock failed; pip's output is above." >&2
    echo "Check that the package index is reachable, then run the same make command again." >&2
    exit 1
fi
echo "  done in $SECONDS s"
