"""What is built out of this repository: images, archives of functions, the files of Spark's jobs.

Paths are counted from the root of the repository, wherever the program is started. What is missing
and can't be made here is said with the command that makes it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pulumi

from infra.wrong import Wrong

FUNCTIONS = ("discovery", "analytics", "catalog", "janitor", "scaler")
ROOT = Path(__file__).resolve().parents[1]
_RECIPES = {"broker": "broker_containers", "storage": "storage_grpc", "etcd": "infra/etcd"}
_IMAGES = ("sulina", "storage_grpc", "broker_containers", "requirements", "LICENSE")
"""What images are made of, and more: the context of their builds is a part of it."""
_PACKED = (
    *("functions", "sulina", "requirements/functions.lock", "requirements/sbom.py"),
    *("emr_jobs/__init__.py", "emr_jobs/package.py", "emr_jobs/submit.py"),
)
"""What archives of functions are made of."""


def dockerfile_of(image: str) -> Path:
    """Where the recipe of an image is."""
    return ROOT / _RECIPES[image] / "Dockerfile"


def from_program(path: Path) -> str:
    """A path as Pulumi sees it from this folder: the same on every machine that deploys."""
    return os.path.relpath(path, Path(__file__).parent)


def source_tag() -> str:
    """A tag that stands for what our images are made of: the same sources, the same tag."""
    return f"source-{digest_of(_IMAGES)}"


def digest_of(places: Sequence[str], *more: str) -> str:
    """A short digest of files and folders of the repository, and of texts."""
    digest = hashlib.sha256(repr(more).encode())
    for place in places:
        path = ROOT / place
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.is_file() and "__pycache__" not in each.parts:
                content = hashlib.sha256(each.read_bytes()).hexdigest()
                mode = each.stat().st_mode & 0o777
                line = f"{each.relative_to(ROOT).as_posix()} {mode:o} {content}\n"
                digest.update(line.encode())
    return digest.hexdigest()[:16]


def packed_functions(architecture: str, folder: Path = ROOT / "build" / "functions") -> str:
    """The folder of the functions' archives, packed anew if their sources have changed.

    Blocks for up to a minute then. Raises ``Wrong`` with what went wrong.
    """
    note, digest = folder / "packed-from", digest_of(_PACKED, architecture)
    if not note.is_file() or note.read_text() != digest:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "functions.package"),
                *("--folder", str(folder), "--architecture", architecture),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Wrong(
                f"the functions can't be packed: {done.stderr.strip()}. Pack them elsewhere with "
                "`make functions`, and say where they are with "
                "`pulumi config set sulina:functionsFolder <folder>`"
            )
        note.write_text(digest)
    return str(folder)


def check_built(functions_folder: str, jobs_folder: str) -> None:
    """Raises ``Wrong`` if something was not built: to be asked before anything is made."""
    for name in FUNCTIONS:
        function_archive(functions_folder, name)
    job_files(jobs_folder)


def function_archive(folder: str, name: str) -> pulumi.Archive:
    """The archive of a function. Raises ``Wrong`` if it was not built."""
    path = ROOT / folder / f"{name}.zip"
    if not path.is_file():
        raise Wrong(f"{folder}/{name}.zip is missing: build the functions with `make functions`")
    return pulumi.FileArchive(str(path))


def job_files(folder: str) -> dict[str, pulumi.Asset]:
    """The files of the jobs, by their paths. Raises ``Wrong`` if they were not built."""
    path = ROOT / folder
    found = sorted(each for each in path.rglob("*") if each.is_file())
    if not found:
        raise Wrong(f"{folder} has no files: build Spark's jobs with `python -m emr_jobs.package`")
    return {str(each.relative_to(path)): pulumi.FileAsset(str(each)) for each in found}
