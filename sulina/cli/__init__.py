"""The command line ``sulina``. Its packages, click and rich, are the extra ``sulina[cli]``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, and exit the process with its code."""
    try:
        from sulina.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(
            f"sulina: the command line needs the package {error.name}: pip install 'sulina[cli]'",
            file=sys.stderr,
        )
        sys.exit(1)
    sys.exit(run(sys.argv[1:]))
