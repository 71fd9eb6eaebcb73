"""Writes the policies of the deploying person: ``python -m infra.permissions --help``."""

from __future__ import annotations

import argparse
from pathlib import Path

from infra.permissions.policies import TABLES, Scope, policy, text

FOLDER = Path(__file__).parent / "policies"


def main() -> None:
    """Write one file per policy."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.permissions",
        description="Write the IAM policies that a person or pipeline needs to deploy Sulina.",
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write them")
    for name in ("stack", "region", "account"):
        parser.add_argument(f"--{name}", default="*", help=f"allow only this {name}")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    scope = Scope(given.stack, given.region, given.account)
    for name in TABLES:
        (given.folder / f"{name}.json").write_text(text(policy(name, scope)))


if __name__ == "__main__":
    main()
