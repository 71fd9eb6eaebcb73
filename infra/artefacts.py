"""What was built before: archives of functions, and the files of Spark's jobs.

Paths are counted from the root of the repository, wherever the program is started. What is missing
is said with the command that makes it.
"""

from __future__ import annotations

from pathlib import Path

import pulumi

from infra.wrong import Wrong

FUNCTIONS = ("discovery", "analytics", "catalog", "janitor", "scaler")
_ROOT = Path(__file__).resolve().parents[1]


def check_built(functions_folder: str, jobs_folder: str) -> None:
    """Raises ``Wrong`` if something was not built: to be asked before anything is made."""
    for name in FUNCTIONS:
        function_archive(functions_folder, name)
    job_files(jobs_folder)


def function_archive(folder: str, name: str) -> pulumi.Archive:
    """The archive of a function. Raises ``Wrong`` if it was not built."""
    path = _ROOT / folder / f"{name}.zip"
    if not path.is_file():
        raise Wrong(f"{folder}/{name}.zip is missing: build the functions with `make functions`")
    return pulumi.FileArchive(str(path))


def job_files(folder: str) -> dict[str, pulumi.Asset]:
    """The files of the jobs, by their paths. Raises ``Wrong`` if they were not built."""
    path = _ROOT / folder
    found = sorted(each for each in path.rglob("*") if each.is_file())
    if not found:
        raise Wrong(f"{folder} has no files: build Spark's jobs with `python -m emr_jobs.package`")
    return {str(each.relative_to(path)): pulumi.FileAsset(str(each)) for each in found}
