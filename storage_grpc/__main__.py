"""``python -m storage_grpc``: run a storage node."""

from __future__ import annotations

import argparse
import os
import sys

from storage_grpc.service.process import run
from storage_grpc.service.settings import CONFIG, PREFIX, describe, load
from sulina.errors import SulinaError


def main() -> int:
    """Run a node; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m storage_grpc",
        description="Run a storage node until SIGTERM or Ctrl-C.",
        epilog=f"Options can also be set in the file, and in the environment as {PREFIX}<NAME>.",
    )
    parser.add_argument(f"--{CONFIG}", metavar="FILE", help="TOML file with settings")
    parser.add_argument("--json", action="store_true", help="print a line of JSON when ready")
    for name, text, default in describe():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, dest=name, help=f"{text} (default: {default})")
    flags = vars(parser.parse_args())
    as_json = flags.pop("json")
    try:
        settings = load(flags, os.environ)
    except SulinaError as error:
        parser.error(str(error))
    return run(settings, as_json=as_json)


if __name__ == "__main__":
    sys.exit(main())
