"""Pulumi's entry point: reads the stack's configuration, deploys, exports the outputs.

Pulumi runs this folder as a program, so the repository root must be put on the path first.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from infra.config.emulated import check_emulated
from infra.config.settings import StackSettings
from infra.config.stack_file import own_values
from infra.errors import DeploymentError
from infra.preflight.checks import preflight
from infra.program import deploy


def main() -> None:
    """Deploy the selected stack."""
    everything = {**get_config_env(), **CONFIG.get()}
    try:
        check_emulated(everything)
        settings = StackSettings.parse(pulumi.get_stack(), own_values(everything))
        found = preflight(settings, everything, preview=pulumi.runtime.is_dry_run())
        for each in found:
            if not each.stops:
                pulumi.log.warn(each.text)
        if stopping := [each.text for each in found if each.stops]:
            raise DeploymentError("\n".join(stopping))
        outputs = deploy(settings)
    except DeploymentError as error:
        # Pulumi shows a RunError as its message, without a traceback.
        raise pulumi.RunError(str(error)) from None
    for name, value in outputs.items():
        pulumi.export(name, value)


main()
