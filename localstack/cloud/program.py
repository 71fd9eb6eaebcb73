"""Runs the Pulumi program in a process of its own, and reports its progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from localstack.cloud.endpoints import Endpoints
from localstack.environments import ROOT
from sulina.errors import Unavailable
from sulina.runtime.child_process import ChildProcess
from sulina.runtime.seam import Clock

STACK: Final = "localstack"
_ALL_LAYERS: Final = {"upTo": "observability"}
"""The stack's file stops at what LocalStack supports without moto."""
_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.2


async def deploy(
    endpoints: Endpoints,
    settings: Mapping[str, str],
    folder: Path,
    clock: Clock,
    tell: Callable[[int], None],
) -> dict[str, Any]:
    """Create all resources of the stack; returns the program's outputs.

    ``tell`` is called with the number of resources. Raises ``Unavailable`` with the program's
    sentence if it fails.
    """
    request = folder / "deployment.json"
    credentials = endpoints.credentials
    request.write_text(
        json.dumps(
            {
                "stack": STACK,
                "settings": {**_ALL_LAYERS, **settings},
                "url": endpoints.url,
                "elsewhere": dict(endpoints.elsewhere),
                "credentials": [credentials.access_key, credentials.secret_key],
            }
        )
    )
    log = folder / "deployment.log"
    log.write_bytes(b"")
    command = (sys.executable, "-m", "localstack.deployment", str(request))
    child = ChildProcess(command, log, folder=ROOT)
    end, told = clock.now() + _SECONDS, 0
    child.start()
    try:
        while child.running:
            if clock.now() > end:
                raise Unavailable(f"creating the resources took over {_SECONDS:g} s: see {log}")
            await clock.sleep(_POLL_SECONDS)
            if (count := int(_last(log).get("resources", told))) > told:
                told = count
                tell(count)
    finally:
        child.kill()
    if child.exit_code:
        said = [line for line in child.said().splitlines() if not line.startswith("{")]
        why = said[-1] if said else f"exit code {child.exit_code}"
        raise Unavailable(f"creating the resources failed: {why}")
    found: dict[str, Any] = _last(log)["outputs"]
    return found


def _last(log: Path) -> dict[str, Any]:
    """The last complete line of JSON."""
    for line in reversed(log.read_text().splitlines(keepends=True)):
        if line.startswith("{") and line.endswith("\n"):
            found: dict[str, Any] = json.loads(line)
            return found
    return {}
