"""Runs all checks of a stack."""

from __future__ import annotations

from collections.abc import Mapping

from infra.config.emulated import is_emulated
from infra.config.settings import StackSettings
from infra.preflight.access import AwsAccess
from infra.preflight.docker import check_docker
from infra.preflight.finding import Finding
from infra.preflight.quotas import check_quotas


def preflight(settings: StackSettings, given: Mapping[str, str], *, preview: bool) -> list[Finding]:
    """What stands in the way of a deployment; ``given`` is the whole configuration.

    Blocks for seconds. Nothing is checked for a stack on an emulated AWS, or if checks are off.
    """
    if not settings.checks or is_emulated(given):
        return []
    found = check_docker(settings, preview=preview)
    if any(name.startswith("aws:assumeRole") for name in given):
        text = "the account and its quotas were not checked, because aws:assumeRole is set"
        return [*found, Finding(text, stops=False)]
    access = AwsAccess(given)
    unreachable = access.findings()
    found += unreachable
    if not any(each.stops for each in unreachable):
        found += check_quotas(access, settings)
    return found
