"""Creates all members of a group: what they share, then each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.cluster.member import ClusterMember, MemberGroup
from infra.cluster.shared import SharedResources
from infra.component import Component
from infra.config.settings import MemberSettings
from infra.machine_image import machine_image
from infra.network.addresses import address_of
from infra.security.iam import Statement
from infra.telemetry.logs import log_group
from infra.telemetry.metrics import member_metrics


def create_members(
    component: Component,
    shared: SharedResources,
    name: str,
    sizes: MemberSettings,
    permissions: Sequence[Statement],
    container: Callable[[str], Mapping[str, Any]],
    *,
    snapshots: bool,
) -> list[ClusterMember]:
    """Create the members ``<name>-1``, ``<name>-2``, ...; change them one after the other.

    ``permissions`` are those of their containers; ``container`` returns a member's container
    definition by the member's name.
    """
    names = [f"{name}-{number}" for number in range(1, sizes.count + 1)]
    credentials = {}
    if shared.certificates is not None:
        for number, member in enumerate(names, 1):
            address = address_of(component.settings.network, name, number)
            host = f"{member}.{shared.dns.domain}"
            credentials[member] = shared.certificates.issue(member, [host], [address])
    secrets = (
        shared.certificates.may_read(list(credentials.values())) if shared.certificates else []
    )
    log = log_group(component, name, shared.keys.operations.arn)
    member_metrics(component, name, log)
    # Sidecars use the storage node's image.
    images = dict.fromkeys((name, "storage"))
    group = MemberGroup(
        name=name,
        shared=shared,
        sizes=sizes,
        snapshots=snapshots,
        machine_image=machine_image(component),
        profile=shared.containers.instance_profile(name).name,
        execution_role=shared.containers.execution_role(name, secrets, images).arn,
        task_role=shared.containers.task_role(name, permissions).arn,
        # ECS gives up after three failed starts, also when only the way to its image was missing.
        start_after=[log, shared.firewall, *shared.ways_out],
    )
    running = _running(component, name)
    numbers = list(range(1, sizes.count + 1))
    # A member whose machine is gone goes first: changing another one could cost the quorum.
    numbers.sort(key=lambda number: address_of(component.settings.network, name, number) in running)
    made: dict[int, ClusterMember] = {}
    after: list[pulumi.Resource] = []
    for number in numbers:
        member = names[number - 1]
        made[number] = ClusterMember(
            component, group, number, container(member), credentials.get(member), after
        )
        # A group without machines has no quorum to lose: its members start together.
        after = [made[number].service] if running else []
    return [made[number] for number in sorted(made)]


def _running(component: Component, name: str) -> Collection[str]:
    """The addresses of a group's running machines; none before the first deployment."""
    found = aws.ec2.get_instances(
        instance_tags={
            "Stack": component.settings.stack,
            "Name": component.named(f"{name}-*"),
        },
        instance_state_names=["pending", "running"],
        opts=pulumi.InvokeOptions(parent=component),
    )
    return set(found.private_ips)
