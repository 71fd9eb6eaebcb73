"""Runs the real program, without Pulumi's engine, in a separate process.

    python -m tests.infra.runner plans.json folder

A plan names a stack and additional settings; with ``aws``, each resource is created there with
boto3; with ``running``, the program finds machines with these addresses, and with ``behind``
services that were rolled back. For each plan, the folder gets a file with all resources in the
order of their creation, with the options that Pulumi's engine would get, the outputs, and what
boto3 sees afterwards, or the program's error. One process runs all plans because Pulumi's libraries
take seconds to load.
"""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime.mocks import Mocks

from infra.component import takes_tags
from localstack.deployment.maker import EmulatedMaker
from localstack.deployment.program import run_program
from localstack.deployment.stack_files import stack_values
from tests.infra.inspection import look
from tests.infra.recorder import RecordingMaker
from tests.infra.registrations import RegistrationMonitor


def run(plan: dict[str, Any]) -> dict[str, Any]:
    """Run one plan; returns its resources and outputs, or its error."""
    emulated = None
    if plan["aws"]:
        emulated = EmulatedMaker(plan["aws"], stack_values(plan["file"])["aws:region"])
    monitors: list[RegistrationMonitor] = []

    def monitor(mocks: Mocks) -> RegistrationMonitor:
        monitors.append(RegistrationMonitor(mocks))
        return monitors[0]

    try:
        made = run_program(
            plan["stack"],
            plan["settings"],
            emulated or RecordingMaker(plan["running"], plan["behind"]),
            file=plan["file"],
            monitor=monitor,
        )
    except pulumi.RunError as error:
        return {"error": str(error)}
    seen = {}
    if emulated is not None:
        emulated.finish()
        seen = look(emulated.account)
    resources = [
        {
            **asdict(each),
            "taggable": kind_takes_tags(each.kind),
            **monitors[0].registered[each.kind, each.name],
        }
        for each in made.resources
    ]
    return {
        "resources": resources,
        "outputs": made.outputs,
        "seen": seen,
        "said": made.said,
        "exposed": monitors[0].exposed,
        "asked": made.asked,
    }


def kind_takes_tags(kind: str) -> bool:
    """Whether resources of a Pulumi type can have tags."""
    import pulumi_aws as aws

    package, module, name = kind.split(":")
    if package != "aws":
        return False
    folder = module.partition("/")[0]
    return takes_tags(getattr(getattr(aws, {"lambda": "lambda_"}.get(folder, folder)), name))


def main(plans: Path, folder: Path) -> None:
    """Run all plans, one after the other."""
    # Garbage collection over the objects of Pulumi's libraries takes longer than the plans.
    gc.disable()
    for plan in json.loads(plans.read_text()):
        (folder / f"{plan['name']}.json").write_text(json.dumps(run(plan), default=str))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
