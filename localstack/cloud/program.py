"""Runs the Pulumi program in a process of its own, and reports its progress.

Under Pulumi's engine if that is installed with its plugins, otherwise without it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from localstack.cloud.endpoints import Endpoints
from localstack.cloud.engine import EngineProject, created_resources, provider_settings
from localstack.deployment.account import EmulatedAccount
from localstack.environments import ROOT
from localstack.gateway.completions import for_moto
from localstack.gateway.ecs import EcsDeployments
from localstack.gateway.server import Gateway
from sulina.errors import Unavailable
from sulina.runtime.child_process import ChildProcess
from sulina.runtime.seam import Clock

STACK: Final = "localstack"
_SECONDS: Final = 1_200.0
_POLL_SECONDS: Final = 0.2


async def deploy(
    endpoints: Endpoints,
    settings: Mapping[str, str],
    folder: Path,
    clock: Clock,
    tell: Callable[[int], None],
    pulumi: str | None,
) -> dict[str, Any]:
    """Create all resources of the stack; returns the program's outputs.

    ``tell`` is called with the number of resources; ``pulumi`` is the engine's command, if it is
    to be used. Raises ``Unavailable`` with the program's sentence if it fails.
    """
    if pulumi is not None:
        return await _under_engine(pulumi, endpoints, settings, folder, clock, tell)
    request = folder / "deployment.json"
    credentials = endpoints.credentials
    request.write_text(
        json.dumps(
            {
                "stack": STACK,
                "settings": dict(settings),
                "url": endpoints.url,
                "elsewhere": dict(endpoints.elsewhere),
                "credentials": [credentials.access_key, credentials.secret_key],
            }
        )
    )
    log = folder / "deployment.log"
    command = (sys.executable, "-m", "localstack.deployment", str(request))
    child = ChildProcess(command, log, folder=ROOT)
    await _finish(child, log, clock, tell, lambda: int(_last(log).get("resources", 0)))
    found: dict[str, Any] = _last(log)["outputs"]
    return found


async def _under_engine(
    pulumi: str,
    endpoints: Endpoints,
    settings: Mapping[str, str],
    folder: Path,
    clock: Clock,
    tell: Callable[[int], None],
) -> dict[str, Any]:
    shutil.rmtree(folder / "pulumi", ignore_errors=True)  # the emulators are empty
    project = EngineProject(folder / "pulumi", STACK, pulumi)
    log = folder / "deployment.log"
    moto = endpoints.elsewhere["ecs"]
    account = EmulatedAccount(moto, endpoints.credentials.region, {}, endpoints.credentials)
    with Gateway(moto, for_moto(account, EcsDeployments())) as gateway:
        project.configure(settings, provider_settings(endpoints.url, gateway.url))
        for arguments in (("stack", "init"), ("up", "--yes", "--skip-preview", "--json")):
            child = ChildProcess(
                project.command(*arguments), log, folder=ROOT, environment=project.variables
            )
            await _finish(child, log, clock, tell, lambda: created_resources(log.read_bytes()))
    done = await asyncio.to_thread(
        subprocess.run,
        project.command("stack", "output", "--json", "--show-secrets"),
        capture_output=True,
        env=project.variables,
        timeout=_SECONDS,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def _finish(
    child: ChildProcess,
    log: Path,
    clock: Clock,
    tell: Callable[[int], None],
    count: Callable[[], int],
) -> None:
    """Run it to its end. Raises ``Unavailable`` with its sentence if it fails."""
    log.write_bytes(b"")
    end, told = clock.now() + _SECONDS, 0
    child.start()
    try:
        while child.running:
            if clock.now() > end:
                raise Unavailable(f"creating the resources took over {_SECONDS:g} s: see {log}")
            await clock.sleep(_POLL_SECONDS)
            if (now := count()) >= told + _STEP:
                told = now
                tell(now)
    finally:
        child.kill()
    if child.exit_code:
        raise Unavailable(f"creating the resources failed: {_why(log, child)}")


_STEP: Final = 25


def _why(log: Path, child: ChildProcess) -> str:
    """The program's sentence, or the first error that the engine reported."""
    for line in log.read_text(errors="replace").splitlines():
        if '"severity":"error"' in line and line.startswith("{"):
            return str(json.loads(line)["diagnosticEvent"]["message"]).strip()[:2_000]
    said = [line for line in child.said().splitlines() if not line.startswith("{")]
    return said[-1] if said else f"exit code {child.exit_code}, see {log}"


def _last(log: Path) -> dict[str, Any]:
    """The last complete line of JSON."""
    for line in reversed(log.read_text().splitlines(keepends=True)):
        if line.startswith("{") and line.endswith("\n"):
            found: dict[str, Any] = json.loads(line)
            return found
    return {}
