"""Prints docs/cost.md, or the estimate of one stack: ``python -m infra.cost [stack]``."""

from __future__ import annotations

import sys

from infra.config.stack_file import example_settings
from infra.cost.page import page, table
from infra.errors import DeploymentError

if __name__ == "__main__":
    try:
        found = "\n".join(table(example_settings(sys.argv[1]))) + "\n" if sys.argv[1:] else page()
    except DeploymentError as error:
        sys.exit(str(error))
    sys.stdout.write(found)
