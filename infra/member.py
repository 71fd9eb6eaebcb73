"""One member that keeps data: a machine, its volume, its name, and the container that runs on it.

Member and data stay together whatever is replaced. The volume is a resource of its own, in a fixed
zone; the address follows from the member's number; the container is bound to the machine. A broken
host is recovered by EC2 with the same address and volume. See docs/adr for what was turned down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.addresses import address_of, zone_of
from infra.beside import AFTER_CERTIFICATES, DATA, SHOWN, certificates, watch
from infra.boot import CERTIFICATES, MOUNT, user_data
from infra.certificates import Credential
from infra.containers import hardened
from infra.kind import Kind
from infra.tier import Tier


class Member(pulumi.ComponentResource):
    """The member ``<kind>-<number>``, in zone 1, 2, 3 in turn."""

    def __init__(
        self,
        tier: Tier,
        kind: Kind,
        number: int,
        container: Mapping[str, Any],
        credential: Credential | None,
        after: Sequence[pulumi.Resource],
    ) -> None:
        """``credential`` is what it shows to others, and trusts; None without TLS inside."""
        self.name = f"{kind.name}-{number}"
        super().__init__("sulina:infra:Member", self.name, None, tier.within())
        self._tier = tier
        self._kind = kind
        zone = zone_of(number)
        self.address = address_of(tier.settings.network, kind.name, number)
        self.host = f"{self.name}.{kind.ground.names.domain}"
        volume = self._volume(tier.place.zones[zone])
        self.machine = self._machine(volume, kind.ground.network.data[zone].id)
        aws.ec2.VolumeAttachment(
            self.name,
            volume_id=volume.id,
            instance_id=self.machine.id,
            device_name="/dev/sdf",
            # A running container holds the device: stop the machine first, then take it away.
            stop_instance_before_detaching=True,
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
        kind.ground.names.fixed(self, self.name, self.address)
        self.service = self._service(self._containers(container, credential), after)
        self.register_outputs({"host": self.host, "address": self.address})

    def _volume(self, zone: str) -> aws.ebs.Volume:
        settings, sizes = self._tier.settings, self._kind.sizes
        return aws.ebs.Volume(
            self.name,
            availability_zone=zone,
            type="gp3",
            size=sizes.volume_gib,
            iops=sizes.volume_iops,
            throughput=sizes.volume_mibps,
            encrypted=True,
            kms_key_id=self._kind.ground.keys.data.arn,
            final_snapshot=settings.protect,
            tags={
                "Name": self._tier.named(self.name),
                "Backup": f"{settings.prefix}-{self._kind.name}" if self._kind.snapshots else "no",
            },
            opts=pulumi.ResourceOptions(parent=self, protect=settings.protect),
        )

    def _machine(self, volume: aws.ebs.Volume, subnet: pulumi.Input[str]) -> aws.ec2.Instance:
        return aws.ec2.Instance(
            self.name,
            ami=self._kind.image_id,
            instance_type=self._kind.sizes.instance,
            subnet_id=subnet,
            private_ip=self.address,
            associate_public_ip_address=False,
            vpc_security_group_ids=[self._kind.ground.firewall.group(self._kind.name)],
            iam_instance_profile=self._kind.profile,
            user_data=user_data(self._tier.named("cluster"), self.name, volume.id),
            metadata_options={"http_tokens": "required", "http_put_response_hop_limit": 1},
            maintenance_options={"auto_recovery": "default"},
            root_block_device={
                "volume_type": "gp3",
                "volume_size": 30,
                "encrypted": True,
                "kms_key_id": self._kind.ground.keys.data.arn,
            },
            disable_api_termination=self._tier.settings.protect,
            ebs_optimized=True,
            tags={"Name": self._tier.named(self.name)},
            # A newer image of the machine must not replace all members in one go: it is taken one
            # by one, with `pulumi up --replace` (docs/deploy.md). An address is one machine's, so
            # the old one goes before the new one comes.
            opts=pulumi.ResourceOptions(
                parent=self, ignore_changes=["ami", "userData"], delete_before_replace=True
            ),
        )

    def _containers(
        self, container: Mapping[str, Any], credential: Credential | None
    ) -> list[dict[str, Any]]:
        """The member's own, and those beside it."""
        tier, ground = self._tier, self._kind.ground
        image = ground.images.reference("storage")
        own = {**container, "mountPoints": [{**DATA, "readOnly": False}]}
        certified = credential is not None
        beside = [watch(image, tier.settings.prefix, self.name, certified=certified)]
        if credential is not None:
            own["mountPoints"].append({**SHOWN, "readOnly": True})
            own["dependsOn"] = AFTER_CERTIFICATES
            beside.append(certificates(image, credential))
        logs = ground.containers.logging(self._kind.name, self.name)
        return [
            {**hardened(tier.settings.shell), "logConfiguration": logs, **each}
            for each in (own, *beside)
        ]

    def _service(
        self, containers: Sequence[Mapping[str, Any]], after: Sequence[pulumi.Resource]
    ) -> aws.ecs.Service:
        kind, tier = self._kind, self._tier
        definition = aws.ecs.TaskDefinition(
            self.name,
            family=tier.named(self.name),
            requires_compatibilities=["EC2"],
            # The machine's address is the member's: nothing changes when a container is replaced.
            network_mode="host",
            execution_role_arn=kind.execution_role,
            task_role_arn=kind.task_role,
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
            name=tier.named(self.name),
            cluster=kind.ground.containers.cluster.arn,
            task_definition=definition.arn,
            launch_type="EC2",
            desired_count=1 if tier.settings.runs else 0,
            # Never two on one volume: the old one stops before the new one starts.
            deployment_minimum_healthy_percent=0,
            deployment_maximum_percent=100,
            enable_execute_command=tier.settings.shell,
            enable_ecs_managed_tags=True,
            propagate_tags="SERVICE",
            # One member after the other, each only when the one before is steady again.
            wait_for_steady_state=tier.settings.runs,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[self.machine, *after]),
        )
