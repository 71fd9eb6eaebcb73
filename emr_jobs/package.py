"""Pack the Spark jobs for EMR Serverless into ``dist/emr``.

* ``environment.tar.gz``: a virtual environment with the libraries, for ``spark.archives``
* ``sulina.zip``: Sulina's code, for ``--py-files``
* ``jobs/<name>.py``: one entry point per job
* ``manifest.json``: the list of files, with checksums

The environment contains libraries for Linux on the chosen architecture, and links to the Python
that builds it, which must have EMR's version, 3.11; give ``--python-prefix`` if EMR has it
elsewhere. The other files are the same on every machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sulina.errors import Refused, SulinaError, Unavailable
from sulina.version import __version__

ENVIRONMENT: Final = "environment.tar.gz"
CODE: Final = "sulina.zip"
MANIFEST: Final = "manifest.json"
ARCHITECTURES: Final = {"arm64": "aarch64", "x86_64": "x86_64"}
"""Of EMR applications, each with the name that Linux has for it."""
JOBS: Final = ("compaction", "erase", "ledger_audit", "replay_query", "topic_statistics", "upsert")

_ROOT: Final = Path(__file__).parents[1]
_PACKAGES: Final = ("emr_jobs", "sulina")
_SUFFIXES: Final = (".py", ".typed")
_EXAMPLES: Final = """\
examples:
  python -m emr_jobs.package
  python -m emr_jobs.package --output s3-files --python python3.11 --python-prefix /usr
  python -m emr_jobs.package --code-only      # the environment has not changed"""
# A fixed time for all files in an archive, so that the same code gives the same bytes.
_TIME: Final = (1980, 1, 1, 0, 0, 0)
_HERE: Final = platform.machine()


def main(argv: Sequence[str]) -> int:
    """Pack, and print the manifest. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m emr_jobs.package",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output", type=Path, default=Path("dist/emr"), help="output folder (default: dist/emr)"
    )
    parser.add_argument(
        "--requirements",
        type=Path,
        default=_ROOT / "requirements" / "emr.lock",
        help="the environment's packages, pinned with hashes",
    )
    parser.add_argument("--python", default=sys.executable, help="Python of the environment")
    parser.add_argument(
        "--python-prefix", default="", help="prefix of that Python on EMR, if it differs"
    )
    parser.add_argument(
        "--architecture",
        choices=ARCHITECTURES,
        default=next((each for each, name in ARCHITECTURES.items() if name == _HERE), "x86_64"),
        help="of the EMR application (default: that of this machine)",
    )
    parser.add_argument("--code-only", action="store_true", help="do not rebuild the environment")
    given = parser.parse_args(argv)
    machine = ARCHITECTURES[given.architecture]
    try:
        output: Path = given.output
        pack_code(output)
        if given.code_only and (output / MANIFEST).is_file():
            machine = json.loads((output / MANIFEST).read_text())["machine"]
        if not given.code_only:
            _say(f"installing {given.requirements.name}; this takes a minute or two")
            pack_environment(output, given.requirements, given.python, machine, given.python_prefix)
        sys.stdout.write(json.dumps(write_manifest(output, machine), indent=2) + "\n")
    except (SulinaError, OSError) as error:
        _say(f"error: {error}")
        return 1
    return 0


def pack_code(output: Path) -> None:
    """Write the code and the entry points. The same code gives the same bytes."""
    jobs = output / "jobs"
    jobs.mkdir(parents=True, exist_ok=True)
    for name in JOBS:
        (jobs / f"{name}.py").write_text(_entry_point(name))
    with zipfile.ZipFile(output / CODE, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            for path in sorted((_ROOT / package).rglob("*")):
                if path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
                    info = zipfile.ZipInfo(path.relative_to(_ROOT).as_posix(), _TIME)
                    info.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(info, path.read_bytes())


def pack_environment(
    output: Path, requirements: Path, python: str, machine: str = _HERE, prefix: str = ""
) -> None:
    """Write a virtual environment of ``requirements`` as an archive. Blocks for minutes.

    ``machine`` is Linux's name of the architecture that its libraries are for.
    Raises ``Refused`` if the requirements do not exist, ``Unavailable`` with pip's output if pip
    fails.
    """
    if not requirements.exists():
        raise Refused(
            f"{requirements} does not exist: run this in the source tree, or use --requirements"
        )
    folder = output / "environment"
    _run(python, "-m", "venv", "--clear", str(folder))
    own = str(folder / "bin" / "python")
    [packages] = folder.glob("lib/python3.*/site-packages")
    _run(
        *(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--platform", f"manylinux_2_28_{machine}", "--platform", f"manylinux2014_{machine}"),
        *(
            "--implementation",
            "cp",
            "--python-version",
            packages.parent.name.removeprefix("python"),
        ),
        *("--only-binary", ":all:", "--target", str(packages)),
        *("--require-hashes", "--requirement", str(requirements)),
    )
    moved = ("--python-prefix", prefix) if prefix else ()
    target = str(output / ENVIRONMENT)
    _run(
        *(own, "-m", "venv_pack", "--prefix", str(folder), "--output", target, "--force"),
        *("--quiet", *moved),
    )


def write_manifest(output: Path, machine: str = _HERE) -> dict[str, Any]:
    """Write and return the manifest of ``output``, whose environment is for ``machine``."""
    files = sorted(each for each in (output, output / "jobs") if each.is_dir())
    names = [path for folder in files for path in sorted(folder.iterdir()) if path.is_file()]
    manifest = {
        "version": __version__,
        "python": platform.python_version(),
        "machine": machine,
        "files": {
            path.relative_to(output).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in names
            if path.name != MANIFEST
        },
    }
    (output / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def _entry_point(name: str) -> str:
    return (
        f'"""Starts emr_jobs.jobs.{name}: spark-submit needs a file."""\n\n'
        "import sys\n\n"
        f"from emr_jobs.jobs.{name} import main\n\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)} failed: {done.stdout}{done.stderr}".strip())


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
