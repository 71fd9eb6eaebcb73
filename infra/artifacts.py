"""What is built from this repository: images, function archives, and the files of Spark jobs.

Paths are relative to the repository root, wherever the program is started. An error about a missing
build names the command that creates it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pulumi

from infra.errors import DeploymentError

INFRA = Path(__file__).resolve().parent
ROOT = INFRA.parent
FUNCTIONS = sorted(path.parent.name for path in ROOT.glob("functions/*/handler.py"))
DIRECT_BYTES = 50_000_000
"""The largest archive that Lambda takes in a request."""
_DOCKERFILES = {
    "broker": "broker_containers",
    "storage": "storage_grpc",
    "etcd": "infra/cluster/etcd_image",
}
"""The folder of each image's Dockerfile, which is etcd's whole build context."""
_IMAGES = ("sulina", "storage_grpc", "broker_containers", "requirements", "LICENSE")
"""The sources of images: everything that their build context can contain."""
_PACKED = (
    *("functions", "sulina", "requirements/functions.lock"),
    *("requirements/catalog.lock", "requirements/sbom.py"),
    *("emr_jobs/__init__.py", "emr_jobs/package.py", "emr_jobs/submit.py"),
)
"""The sources of function archives."""


def dockerfile_of(image: str) -> Path:
    """The path of an image's Dockerfile."""
    return ROOT / _DOCKERFILES[image] / "Dockerfile"


def from_program(path: Path) -> str:
    """A path relative to this folder, so that it is the same on every machine that deploys."""
    return os.path.relpath(path, INFRA)


def source_tag(image: str, architecture: str) -> str:
    """An image tag derived from the sources: the same sources have the same tag."""
    sources = (_DOCKERFILES[image],) if image == "etcd" else _IMAGES
    return f"source-{digest_of(sources, architecture)}"


def digest_of(paths: Sequence[str], *more: str) -> str:
    """A short digest of files and folders in the repository, and of the strings ``more``."""
    digest = hashlib.sha256(repr(more).encode())
    for name in paths:
        path = ROOT / name
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.is_file() and "__pycache__" not in each.parts:
                content = hashlib.sha256(each.read_bytes()).hexdigest()
                mode = each.stat().st_mode & 0o777
                line = f"{each.relative_to(ROOT).as_posix()} {mode:o} {content}\n"
                digest.update(line.encode())
    return digest.hexdigest()[:16]


def packed_functions(architecture: str, folder: Path = ROOT / "build" / "functions") -> str:
    """The folder of function archives, repacked if their sources have changed.

    Repacking blocks for up to a minute. Raises ``DeploymentError`` if it fails.
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
            raise DeploymentError(
                f"packing the functions failed: {done.stderr.strip()}. Pack them on another "
                "machine with `make functions`, then point to them with "
                "`pulumi config set sulina:functionsFolder <folder>`"
            )
        note.write_text(digest)
    return str(folder)


def check_built(functions_folder: str, jobs_folder: str, architecture: str) -> None:
    """Raises ``DeploymentError`` if something is not built; call it before creating resources."""
    for name in FUNCTIONS:
        function_archive(functions_folder, name)
    job_files(jobs_folder)
    manifest = ROOT / jobs_folder / "manifest.json"
    if not manifest.is_file():
        return
    machine = str(json.loads(manifest.read_text())["machine"])
    packed = {"aarch64": "arm64"}.get(machine, machine)
    if packed != architecture:
        raise DeploymentError(
            f"{jobs_folder} was packed for {packed}, and Spark runs on {architecture}: pack it "
            f"with `python -m emr_jobs.package --architecture {architecture}`"
        )


def function_archive(folder: str, name: str) -> Path:
    """A function's archive. Raises ``DeploymentError`` if it is missing."""
    path = ROOT / folder / f"{name}.zip"
    if not path.is_file():
        raise DeploymentError(
            f"{folder}/{name}.zip is missing: build the functions with `make functions`"
        )
    return path


def digest_of_file(path: Path) -> str:
    """A short digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def job_files(folder: str) -> dict[str, pulumi.Asset]:
    """The Spark jobs' files by path. Raises ``DeploymentError`` if there are none."""
    path = ROOT / folder
    found = sorted(each for each in path.rglob("*") if each.is_file())
    if not found:
        raise DeploymentError(
            f"{folder} has no files: build the Spark jobs with `python -m emr_jobs.package`"
        )
    return {str(each.relative_to(path)): pulumi.FileAsset(str(each)) for each in found}
