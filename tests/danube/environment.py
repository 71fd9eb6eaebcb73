"""The environment of the stock client: ``.venv-danube``, made from its lock the first time."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_FOLDER = _ROOT / ".venv-danube"
_LOCK = _ROOT / "requirements" / "danube.lock"


def stock_python() -> Path:
    """The interpreter that has the stock client. Raises ``RuntimeError`` with what pip said."""
    python = _FOLDER / "bin" / "python"
    stamp = _FOLDER / "installed.lock"
    _FOLDER.mkdir(exist_ok=True)
    # Tests run in several processes; one of them installs.
    with (_FOLDER / "making").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_bytes() != _LOCK.read_bytes():
            _run(sys.executable, "-m", "venv", str(_FOLDER))
            _run(
                *(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--require-hashes", "--requirement", str(_LOCK)),
            )
            stamp.write_bytes(_LOCK.read_bytes())
    return python


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
