"""What the program deploys, built for this machine in a second.

Functions and jobs run from this source tree, in its environment, so their archives hold only the
handlers: the packages for Lambda's and EMR's machines would take minutes to fetch.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from emr_jobs.package import pack_code
from functions.package import FUNCTIONS
from localstack.environments import ROOT


def build(folder: Path) -> dict[str, str]:
    """Write the archives and the jobs' files; returns the stack's settings for them."""
    functions, jobs = folder / "functions", folder / "jobs"
    functions.mkdir(parents=True, exist_ok=True)
    for name in FUNCTIONS:
        source = Path("functions") / name / "handler.py"
        with zipfile.ZipFile(functions / f"{name}.zip", "w") as archive:
            archive.write(ROOT / source, source)
    pack_code(jobs)
    return {"functionsFolder": str(functions), "jobsFolder": str(jobs)}
