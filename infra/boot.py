"""What a machine with a volume does when it starts: mount the volume, join the cluster of ECS.

The volume is found by its id, which is the serial number of its device, and formatted only if it is
blank: a machine that replaces another finds the data of its predecessor. Nothing is downloaded.
"""

from __future__ import annotations

import pulumi

MOUNT = "/var/lib/sulina"
CERTIFICATES = "/run/sulina"
"""A folder in the machine's memory, for what must not lie on a disk."""
USER = 10001
"""The user of Sulina's images; their volumes belong to it."""

_SCRIPT = """#!/bin/bash
set -euo pipefail

serial={serial}
for second in $(seq 300); do
    device=$(lsblk --nodeps --noheadings --paths --output NAME,SERIAL |
        awk -v serial="$serial" '$2 == serial {{ print $1 }}')
    [ -n "$device" ] && break
    sleep 1
done
[ -n "$device" ] || {{ echo "the volume $serial did not appear" >&2; exit 1; }}

if [ -z "$(blkid --output value --match-tag TYPE "$device")" ]; then
    mkfs.xfs "$device"
fi
mkdir --parents {mount}
# Devices change their names over a restart. A volume that was made larger is filled when it is
# mounted. Without it ECS's agent does not start: a member without its data must not serve.
guarded=nofail,x-systemd.growfs,x-systemd.before=ecs.service,x-systemd.required-by=ecs.service
uuid=$(blkid --output value --match-tag UUID "$device")
echo "UUID=$uuid {mount} xfs noatime,$guarded 0 2" >> /etc/fstab
systemctl daemon-reload
mount {mount}
mkdir --parents {mount}/data
chown {user}:{user} {mount}/data
chmod 700 {mount}/data

# Made again at every start of the machine, empty.
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
    """The script, for the machine of one member."""

    def script(volume: str) -> str:
        # Devices show the id of their volume without its hyphen.
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
