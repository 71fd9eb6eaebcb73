"""The configuration of the stack at hand, as Pulumi has it."""

from __future__ import annotations

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env

from infra.config import Settings
from infra.values import PROJECT


def stack_settings() -> Settings:
    """All values under ``sulina:``, checked. Raises ``Wrong``."""
    prefix = f"{PROJECT}:"
    given = {
        name.removeprefix(prefix): value
        for name, value in {**get_config_env(), **CONFIG.get()}.items()
        if name.startswith(prefix)
    }
    return Settings.parse(pulumi.get_stack(), given)
