"""A member, which stores data: a machine, its volume, its name, and its container.

A member keeps its data whatever is replaced. The volume is a separate resource in a fixed zone; the
address follows from the member's number; the container is bound to the machine. EC2 recovers a
broken host with the same address and volume. docs/adr lists the alternatives considered (ADR 15).

To replace a machine, the old one is terminated, which shuts it down and releases its volume; then
its replacement starts with the same address, attaches the volume, and ECS deploys the container
anew. The service is done when that container is healthy, and the next member waits for it (ADR 27).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.cluster.containers import PATIENCE, hardened
from infra.cluster.shared import SharedResources
from infra.cluster.sidecars import (
    AFTER_CERTIFICATES,
    CERTIFICATES_VOLUME,
    DATA_VOLUME,
    certificate_writer,
    member_watch,
)
from infra.cluster.user_data import CERTIFICATES, MOUNT, user_data
from infra.component import Component
from infra.config.settings import MemberSettings
from infra.network.addresses import address_of, zone_of
from infra.security.certificates import Credential


@dataclass(frozen=True, slots=True)
class MemberGroup:
    """What all etcd members, or all storage nodes, share."""

    name: str
    shared: SharedResources
    sizes: MemberSettings
    snapshots: bool
    """Whether volumes are backed up."""
    machine_image: str
    """The machine's image (AMI)."""
    profile: pulumi.Input[str]
    execution_role: pulumi.Input[str]
    task_role: pulumi.Input[str]
    start_after: Sequence[pulumi.Resource]
    """What a container cannot start without, besides its machine."""


class ClusterMember(pulumi.ComponentResource):
    """The member ``<group>-<number>``; members are placed in the zones round-robin."""

    def __init__(
        self,
        component: Component,
        group: MemberGroup,
        number: int,
        container: Mapping[str, Any],
        credential: Credential | None,
        after: Sequence[pulumi.Resource],
    ) -> None:
        """``credential`` is None if internal TLS is off; everything waits for ``after``."""
        self.name = f"{group.name}-{number}"
        # Children are registered after their parent, so all of them wait.
        options = component.within(depends_on=list(after))
        super().__init__("sulina:infra:Member", self.name, None, options)
        self._component = component
        self._group = group
        zone = zone_of(number)
        self.address = address_of(component.settings.network, group.name, number)
        self.host = f"{self.name}.{group.shared.dns.domain}"
        subnet = group.shared.network.data[zone]
        volume = self._volume(subnet.availability_zone)
        self.machine = self._machine(volume, subnet.id)
        attached = aws.ec2.VolumeAttachment(
            self.name,
            volume_id=volume.id,
            instance_id=self.machine.id,
            device_name="/dev/sdf",
            # Terminating the machine releases the volume. Detaching it first would leave the member
            # down if the termination fails; stopping the machine first would leave it registered
            # in ECS for good, because ECS forgets only machines that it sees terminate.
            skip_destroy=True,
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        named = group.shared.dns.fixed_name(self, self.name, self.address)
        self.service = self._service(self._containers(container, credential), [attached, named])
        self.register_outputs({"host": self.host, "address": self.address})

    def _volume(self, zone: pulumi.Input[str]) -> aws.ebs.Volume:
        settings, sizes = self._component.settings, self._group.sizes
        return aws.ebs.Volume(
            self.name,
            availability_zone=zone,
            type="gp3",
            size=sizes.volume_gib,
            iops=sizes.volume_iops,
            throughput=sizes.volume_mibps,
            encrypted=True,
            kms_key_id=self._group.shared.keys.data.arn,
            final_snapshot=settings.protect,
            tags={
                "Name": self._component.named(self.name),
                "Backup": f"{settings.prefix}-{self._group.name}"
                if self._group.snapshots
                else "no",
            },
            opts=pulumi.ResourceOptions(parent=self, protect=settings.protect),
        )

    def _machine(self, volume: aws.ebs.Volume, subnet: pulumi.Input[str]) -> aws.ec2.Instance:
        return aws.ec2.Instance(
            self.name,
            ami=self._group.machine_image,
            instance_type=self._group.sizes.instance,
            subnet_id=subnet,
            private_ip=self.address,
            associate_public_ip_address=False,
            vpc_security_group_ids=[self._group.shared.firewall.group_id(self._group.name)],
            iam_instance_profile=self._group.profile,
            user_data=user_data(self._component.named("cluster"), self.name, volume.id),
            metadata_options={"http_tokens": "required", "http_put_response_hop_limit": 1},
            maintenance_options={"auto_recovery": "default"},
            root_block_device=self._component.root_disk(
                self.name, self._group.shared.keys.data.arn
            ),
            # Protects against termination by hand; `force_destroy` lets Pulumi replace the machine.
            disable_api_termination=self._component.settings.protect,
            force_destroy=True,
            ebs_optimized=True,
            tags={"Name": self._component.named(self.name)},
            opts=pulumi.ResourceOptions(
                parent=self,
                # A replacement gets the newest image, but a newer one is no reason to replace.
                ignore_changes=[
                    "userData",
                    *([] if self._component.settings.machine_image else ["ami"]),
                ],
                # EC2 could change the type of a stopped machine, but ECS does not accept it back.
                replace_on_changes=["instanceType"],
                # The boot script names the volume.
                replacement_trigger=volume.id,
                # The replacement has the same address.
                delete_before_replace=True,
            ),
        )

    def _containers(
        self, container: Mapping[str, Any], credential: Credential | None
    ) -> list[dict[str, Any]]:
        """The member's own container, then its sidecars."""
        settings, shared = self._component.settings, self._group.shared
        image = shared.images.reference("storage")
        own = {**container, "mountPoints": [{**DATA_VOLUME, "readOnly": False}]}
        sidecars = [member_watch(image, settings.prefix, self.name, tls=credential is not None)]
        if credential is not None:
            own["mountPoints"].append({**CERTIFICATES_VOLUME, "readOnly": True})
            own["dependsOn"] = AFTER_CERTIFICATES
            sidecars.append(certificate_writer(image, credential))
        logs = shared.containers.logging(self._group.name, self.name)
        return [
            {**hardened(settings.shell), "logConfiguration": logs, **each}
            for each in (own, *sidecars)
        ]

    def _service(
        self, containers: Sequence[Mapping[str, Any]], after: Sequence[pulumi.Resource]
    ) -> aws.ecs.Service:
        group, component = self._group, self._component
        definition = aws.ecs.TaskDefinition(
            self.name,
            family=component.named(self.name),
            requires_compatibilities=["EC2"],
            # The member uses the machine's address, so replacing a container does not change it.
            network_mode="host",
            execution_role_arn=group.execution_role,
            task_role_arn=group.task_role,
            container_definitions=pulumi.Output.json_dumps(list(containers)),
            volumes=[
                {"name": "data", "host_path": f"{MOUNT}/data"},
                {"name": "certificates", "host_path": CERTIFICATES},
            ],
            placement_constraints=[
                {
                    "type": "memberOf",
                    "expression": f"attribute:sulina.member == {self.name}",
                }
            ],
            opts=pulumi.ResourceOptions(parent=self),
        )
        return aws.ecs.Service(
            self.name,
            name=component.named(self.name),
            cluster=group.shared.containers.cluster.arn,
            task_definition=definition.arn,
            launch_type="EC2",
            desired_count=1 if component.settings.runs else 0,
            # Two containers must never share a volume: stop the old one before starting the new.
            deployment_minimum_healthy_percent=0,
            deployment_maximum_percent=100,
            # It cannot move, and without a second container at a time ECS could not move it.
            availability_zone_rebalancing="DISABLED",
            # After three failed starts ECS goes back to the version before, and `pulumi up` fails.
            deployment_circuit_breaker={"enable": True, "rollback": True},
            enable_execute_command=component.settings.shell,
            enable_ecs_managed_tags=True,
            propagate_tags="SERVICE",
            # Deployments change the next member only once this one is healthy, so a new machine
            # must be a new deployment too, or there would be nothing to wait for.
            force_new_deployment=True,
            triggers={"machine": self.machine.id},
            wait_for_steady_state=component.settings.runs,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*after, *group.start_after],
                # If the last deployment did not become healthy, deploy and wait again.
                replace_on_changes=["#initerror"],
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create=PATIENCE, update=PATIENCE),
            ),
        )
