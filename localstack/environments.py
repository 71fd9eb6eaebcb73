"""Separate Python environments for programs whose packages conflict with Sulina's.

Each is a folder ``.venv-<name>`` next to ``.venv``, installed from ``requirements/<name>.lock`` on
first use and again when the lock has changed. ``python -m localstack.environments NAME...``
installs them ahead of time.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Final

from sulina.errors import Unavailable

ROOT: Final = Path(__file__).parents[1]


def environment(name: str, *, python: str = sys.executable) -> Path:
    """The ``bin`` folder of the environment, installed if necessary.

    Installation blocks, possibly for minutes; of several concurrent processes, one installs. Raises
    ``Unavailable`` with pip's output if pip fails.
    """
    lock = ROOT / "requirements" / f"{name}.lock"
    folder = ROOT / f".venv-{name}"
    stamp = folder / "installed.lock"
    folder.mkdir(exist_ok=True)
    with (folder / "making").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_bytes() != lock.read_bytes():
            _run(python, "-m", "venv", str(folder))
            _run(
                *(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"),
                *("--disable-pip-version-check", "--no-input", "--require-hashes"),
                *("--requirement", str(lock)),
            )
            stamp.write_bytes(lock.read_bytes())
    return folder / "bin"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)} failed: {done.stdout}{done.stderr}".strip())


def main(names: list[str]) -> int:
    """Install the environments. Returns the exit code."""
    for name in names:
        if not (ROOT / "requirements" / f"{name}.lock").exists():
            print(f"requirements/{name}.lock does not exist", file=sys.stderr)
            return 2
        if not (ROOT / f".venv-{name}" / "installed.lock").exists():
            print(f"Installing requirements/{name}.lock into .venv-{name}", file=sys.stderr)
        try:
            environment(name)
        except Unavailable as error:
            print(f"{error}\nIs the package index reachable from here?", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
