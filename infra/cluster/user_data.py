"""The boot script of a machine with a volume: it mounts the volume and joins the ECS cluster.

The script finds the volume by its id, which is the device's serial number, and formats it only if
it is blank: a replacement machine finds the data of its predecessor. Nothing is downloaded.
"""

from __future__ import annotations

import pulumi

MOUNT = "/var/lib/sulina"
CERTIFICATES = "/run/sulina"
"""A folder in memory, for files that must not be written to disk."""
USER = 10001
"""The user id of Sulina's images, which owns their volumes."""

_SCRIPT = """#!/bin/bash
set -euo pipefail

serial={serial}
find_device() {{
    device=$(lsblk --nodeps --noheadings --paths --output NAME,SERIAL |
        awk -v serial="$serial" '$2 == serial {{ print $1 }}')
    [ -n "$device" ]
}}
# However long: this script runs once, and `pulumi up` can be interrupted before the volume comes.
# Until then ECS does not start, because it starts after this script.
until find_device; do
    echo "waiting for the volume $serial"
    sleep 5
done

if [ -z "$(blkid --output value --match-tag TYPE "$device")" ]; then
    mkfs.xfs "$device"
fi
mkdir --parents {mount}
# By UUID, because device names change across restarts. Mounting grows the file system of an
# enlarged volume. The ECS agent requires the mount: a member must not serve without its data.
guarded=nofail,x-systemd.growfs,x-systemd.before=ecs.service,x-systemd.required-by=ecs.service
uuid=$(blkid --output value --match-tag UUID "$device")
echo "UUID=$uuid {mount} xfs noatime,$guarded 0 2" >> /etc/fstab
systemctl daemon-reload
mount {mount}
mkdir --parents {mount}/data
chown {user}:{user} {mount}/data
chmod 700 {mount}/data

# Recreated empty at every boot.
echo "d {certificates} 0700 {user} {user} -" > /etc/tmpfiles.d/sulina.conf
systemd-tmpfiles --create /etc/tmpfiles.d/sulina.conf

cat > /etc/ecs/ecs.config <<'END'
ECS_CLUSTER={cluster}
ECS_INSTANCE_ATTRIBUTES={{"sulina.member": "{member}"}}
ECS_ENABLE_TASK_IAM_ROLE=true
ECS_ENABLE_TASK_IAM_ROLE_NETWORK_HOST=true
ECS_ENABLE_AWSLOGS_EXECUTIONROLE_OVERRIDE=true
ECS_CONTAINER_STOP_TIMEOUT=60s
ECS_AWSVPC_BLOCK_IMDS=true
END
"""


def user_data(cluster: str, member: str, volume: pulumi.Input[str]) -> pulumi.Output[str]:
    """The boot script of one member's machine."""

    def script(volume: str) -> str:
        # A device's serial number is its volume's id without the hyphen.
        serial = volume.replace("-", "")
        return _SCRIPT.format(
            serial=serial,
            mount=MOUNT,
            certificates=CERTIFICATES,
            user=USER,
            cluster=cluster,
            member=member,
        )

    return pulumi.Output.from_input(volume).apply(script)
