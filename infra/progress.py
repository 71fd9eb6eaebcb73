"""Tells how far a deployment is: its phases and their times first, then each one when it is done.

The times are those of a first deployment, as we expect them: none has run in a real account yet. An
update takes only as long as what it changes.
"""

from __future__ import annotations

from typing import Any

import pulumi

from infra.config.settings import StackSettings


def announce(settings: StackSettings) -> None:
    """Log what a first deployment does, in its order, and about how long it takes."""
    if not settings.has("cluster"):
        pulumi.log.info("a first deployment takes about 2 minutes: network, keys and buckets")
        return
    way_out = "a NAT machine" if settings.egress == "nat" else "private endpoints"
    built = "images are built and pushed, " if settings.images == "build" else ""
    runs = (
        "etcd members and storage nodes start (4 minutes), brokers start (5 minutes), "
        if settings.runs
        else ""
    )
    pulumi.log.info(
        f"a first deployment takes about {15 if settings.runs else 6} minutes: network, keys, "
        f"buckets, {way_out}, {built}load balancer (5 minutes, side by side), {runs}"
        "functions and alarms (1 minute)"
    )


def done(phase: str, *values: pulumi.Input[Any]) -> None:
    """Log that a phase is done once these values are known; nothing in a preview."""
    if not pulumi.runtime.is_dry_run():
        pulumi.Output.all(*values).apply(lambda _: pulumi.log.info(f"done: {phase}"))
