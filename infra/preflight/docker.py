"""Whether Docker can build the images."""

from __future__ import annotations

import shutil
import subprocess
from typing import Final

from infra.config.settings import StackSettings
from infra.preflight.finding import Finding

_SECONDS: Final = 30
_REMEDY: Final = (
    "or use images that a pipeline has pushed: `pulumi config set sulina:imageTag <tag>`"
)


def check_docker(settings: StackSettings, *, preview: bool) -> list[Finding]:
    """Blocks until Docker answers, for at most half a minute. A preview needs no Docker."""
    if settings.images != "build" or not settings.has("cluster"):
        return []
    if shutil.which("docker") is None:
        problem = "is not installed, and builds the images: install it"
    elif not _answers():
        problem = "does not answer, and builds the images: start it"
    else:
        return []
    return [Finding(f"Docker {problem}, {_REMEDY}", stops=not preview)]


def _answers() -> bool:
    try:
        done = subprocess.run(
            ["docker", "info"], capture_output=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
