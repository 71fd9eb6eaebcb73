"""Checks a stack without Pulumi: ``python -m infra.preflight dev``."""

from __future__ import annotations

import sys

from infra.config.settings import StackSettings
from infra.config.stack_file import own_values, stack_values
from infra.errors import DeploymentError
from infra.preflight.checks import preflight


def main() -> int:
    """Print one line per finding; returns 1 if one of them stops a deployment."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m infra.preflight STACK\n")
        return 2
    try:
        given = stack_values(sys.argv[1])
        found = preflight(StackSettings.parse(sys.argv[1], own_values(given)), given, preview=False)
    except DeploymentError as error:
        sys.stdout.write(f"stops: {error}\n")
        return 1
    for each in found:
        sys.stdout.write(f"{'stops' if each.stops else 'warning'}: {each.text}\n")
    stops = any(each.stops for each in found)
    if not stops:
        sys.stdout.write(f"{sys.argv[1]} can be deployed\n")
    return int(stops)


if __name__ == "__main__":
    sys.exit(main())
