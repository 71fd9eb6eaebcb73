"""Packs one archive per Lambda function.

An archive contains the function, ``functions/shared``, ``sulina``, and the packages pinned in
``requirements/functions.lock``, checked by their hashes; that of ``catalog`` those of
``requirements/catalog.lock``, without the parts of them that it does not load, because Lambda
accepts 250 MB unpacked. Builds are reproducible: the same code and lock give the same bytes, so
that a deployment updates only what has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]
FUNCTIONS: Final = tuple(sorted(path.parent.name for path in _ROOT.glob("functions/*/handler.py")))
ARCHITECTURES: Final = {"arm64": "aarch64", "x86_64": "x86_64"}
PYTHON: Final = "3.13"
"""The Lambda runtime that infra/ uses."""
_SERVICES: Final = frozenset(
    {"cloudwatch", "emr-serverless", "glue", "lambda", "s3", "secretsmanager", "sts"}
)
"""The AWS services that functions call; the data of hundreds of others is left out."""
_LEFT_OUT: Final = ("*.dist-info/RECORD", "*.proto", "*.pyi", "*.pyc", "bin/*", "*/tests/*")
_LEFT_OUT_FOLDERS: Final = (
    *("hive_metastore", "numpy/f2py", "pyarrow/include", "pyarrow/tests"),
    *("pygments", "pyiceberg/cli"),
)
_LEFT_OUT_PARTS: Final = (
    *("pyarrow/*flight*", "pyarrow/*.pxi", "pyarrow/*.pyx", "pyarrow/*.so.*.*"),
    *("pyarrow/libarrow_python.so", "zstandard/_cffi*"),
)
"""Of the packages of ``catalog``: what it does not load."""
_MOST_BYTES: Final = 250 << 20
"""Of an archive's files: Lambda's limit."""
_LOCKS: Final = {"catalog": "catalog"}
"""The functions whose packages are not those of ``functions.lock``."""
_OURS: Final = ("sulina", "functions/__init__.py", "functions/shared")
_ALSO: Final = {
    "analytics": tuple(f"emr_jobs/{name}.py" for name in ("__init__", "java", "package", "submit")),
}
"""The code that builds the request to start a job."""
_PACKAGES, _REPORT = "packages", "report.json"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def main() -> int:
    """Write the archives and print their paths; returns the exit code."""
    parser = argparse.ArgumentParser(description="Pack one archive per Lambda function.")
    parser.add_argument(
        "--folder",
        type=Path,
        default=_ROOT / "build" / "functions",
        help="where to write the archives (default: build/functions)",
    )
    parser.add_argument("--architecture", choices=ARCHITECTURES, default="arm64")
    parser.add_argument("--python", default=PYTHON, help="Python version of the Lambda runtime")
    given = parser.parse_args()
    try:
        for made in package(given.folder, given.architecture, given.python):
            digest = hashlib.sha256(made.read_bytes()).hexdigest()
            sys.stdout.write(f"{made}  {made.stat().st_size:,} bytes  sha256 {digest}\n")
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def package(folder: Path, architecture: str, python: str) -> list[Path]:
    """Write all archives to ``folder``. Raises ``RuntimeError`` with pip's output if pip fails."""
    with tempfile.TemporaryDirectory() as scratch:
        for lock in sorted(set(map(lock_of, FUNCTIONS))):
            install(Path(scratch) / lock, architecture, python, lock)
        return [archive(folder, name, Path(scratch) / lock_of(name)) for name in FUNCTIONS]


def lock_of(function: str) -> str:
    """The name of the lock with a function's packages."""
    return _LOCKS.get(function, "functions")


def install(folder: Path, architecture: str, python: str, lock: str = "functions") -> None:
    """Install the pinned packages for Lambda's platform. Raises ``RuntimeError`` as above."""
    folder.mkdir(parents=True, exist_ok=True)
    machine = ARCHITECTURES[architecture]
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--target", str(folder / _PACKAGES), "--report", str(folder / _REPORT)),
        *("--platform", f"manylinux_2_28_{machine}", "--platform", f"manylinux2014_{machine}"),
        *("--implementation", "cp", "--python-version", python, "--only-binary", ":all:"),
        *("--no-compile", "--require-hashes"),
        *("--requirement", str(_ROOT / "requirements" / f"{lock}.lock")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"installing the packages failed:\n{done.stdout}{done.stderr}")


def _packages(folder: Path) -> Iterator[tuple[str, Path]]:
    data = ("botocore", "data")
    for name, path in _files(folder):
        parts = Path(name).parts
        if parts[:2] == data and len(parts) > 3 and parts[2] not in _SERVICES:
            continue
        if name.startswith(tuple(f"{each}/" for each in _LEFT_OUT_FOLDERS)):
            continue
        if not any(Path(name).match(each) for each in _LEFT_OUT_PARTS):
            yield name, path


def contents(function: str, installed: Path) -> dict[str, Path]:
    """The files of a function by their names in its archive; packages are in ``installed``.

    Raises ``RuntimeError`` if they are too large for Lambda.
    """
    found = dict(_packages(installed / _PACKAGES))
    for source in (*_OURS, f"functions/{function}", *_ALSO.get(function, ())):
        for name, path in _files(_ROOT / source):
            found[f"{source}/{name}" if name else source] = path
    size = sum(path.stat().st_size for path in found.values())
    if size > _MOST_BYTES:
        raise RuntimeError(
            f"{function} has {size:,} bytes, and Lambda accepts {_MOST_BYTES:,}: leave out more of "
            "its packages in functions/package.py"
        )
    return found


def archive(folder: Path, function: str, installed: Path) -> Path:
    """Write the archive of one function, with the packages in ``installed``."""
    content = contents(function, installed)
    bill = installed / f"{function}.sbom.json"
    bill.write_bytes(_bill(function, installed / _REPORT))
    content["sbom.json"] = bill
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{function}.zip.part"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as written:
        for name in sorted(content):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            written.writestr(entry, content[name].read_bytes())
    return part.replace(folder / f"{function}.zip")


def _bill(function: str, report: Path) -> bytes:
    """The bill of materials (CycloneDX)."""
    from sulina.version import __version__

    script = _ROOT / "requirements" / "sbom.py"
    name = f"sulina-{function}"
    return subprocess.run(
        [
            *(sys.executable, str(script), "--name", name, "--version", __version__),
            *("--report", str(report)),
        ],
        capture_output=True,
        check=True,
    ).stdout


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    """The files below ``root`` with their relative names; if it is a file, the name is empty."""
    if not root.is_dir():
        yield "", root
        return
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_file() and not any(name.match(each) for each in _LEFT_OUT):
            yield name.as_posix(), path


if __name__ == "__main__":
    sys.exit(main())
