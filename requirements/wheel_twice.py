"""Builds the wheel twice, from copies in different folders with different times, and compares.

    python -m requirements.wheel_twice [FOLDER]     # the wheel is left in FOLDER, if given

Needs no network. Exits with 1 if the two wheels differ: then the build is not reproducible.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
_NEEDED = ("pyproject.toml", "README.md", "LICENSE")
_PACKAGES = ("sulina", "broker_containers", "storage_grpc", "emr_jobs", "functions")
_EPOCH = "1577836800"
"""2020-01-01: the time of every file in the archive, unless SOURCE_DATE_EPOCH says another."""


def build(target: Path, *, time: int) -> Path:
    """The wheel of a copy of the sources under ``target``, whose files have this time."""
    source = target / "source"
    source.mkdir(parents=True)
    for name in _NEEDED:
        shutil.copy(ROOT / name, source / name)
    for name in _PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for path in source.rglob("*"):
        os.utime(path, (time, time))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(target), str(source)]
    epoch = os.environ.get("SOURCE_DATE_EPOCH", _EPOCH)
    subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": epoch})
    [wheel] = target.glob("*.whl")
    return wheel


def differences(first: Path, second: Path) -> list[str]:
    """What differs: names of files in the archives, or "the archive itself"; empty if nothing."""
    if first.read_bytes() == second.read_bytes():
        return []
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as two:
        names = set(one.namelist()) ^ set(two.namelist())
        shared = set(one.namelist()) & set(two.namelist())
        names |= {name for name in shared if one.read(name) != two.read(name)}
    return sorted(names) or ["the archive itself"]


def main(arguments: list[str] | None = None) -> int:
    """Build and compare; returns the exit code of the process."""
    given = sys.argv[1:] if arguments is None else arguments
    with tempfile.TemporaryDirectory(prefix="sulina-wheel-") as folder:
        first = build(Path(folder) / "a", time=1_600_000_000)
        second = build(Path(folder) / "another", time=1_700_000_000)
        found = differences(first, second)
        if found:
            sys.stderr.write("\n  ".join(("the build is not reproducible:", *found)) + "\n")
            return 1
        if given:
            Path(given[0]).mkdir(parents=True, exist_ok=True)
            shutil.copy(first, given[0])
        digest = hashlib.sha256(first.read_bytes()).hexdigest()
        sys.stdout.write(f"{first.name} is the same from both builds: sha256 {digest}\n")
        return 0


if __name__ == "__main__":
    sys.exit(main())
