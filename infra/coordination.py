"""Coordination: etcd, a member a machine, with names, addresses and volumes that stay.

Members find each other by name. A member that comes back finds its own data. Volumes are copied
every hour, so that even the loss of all members loses no more than that.
"""

from __future__ import annotations

from typing import Any

import pulumi

from infra import ports
from infra.backups import Backups
from infra.boot import MOUNT
from infra.config import Settings
from infra.ground import Ground
from infra.kind import kind_of_member
from infra.member import Member
from infra.tier import Tier

KIND = "etcd"
_QUOTA = 4 << 30


class Coordination(Tier):
    """The members of etcd, and the URL that brokers are given."""

    def __init__(self, ground: Ground, parent: pulumi.Resource) -> None:
        settings = ground.settings
        super().__init__("Coordination", settings, ground.place, parent)
        kind = kind_of_member(self, ground, KIND, settings.etcd, [], snapshots=True)
        image = ground.images.tagged(KIND, settings.etcd_version)
        self.members: list[Member] = []
        numbers = range(1, settings.etcd.count + 1)
        peers = {f"{KIND}-{number}": f"{KIND}-{number}.{ground.names.domain}" for number in numbers}
        for number in numbers:
            name = f"{KIND}-{number}"
            container = {
                "name": KIND,
                "image": image,
                "memoryReservation": 512,
                "command": etcd_command(settings, name, peers),
                "logConfiguration": ground.containers.logging(KIND, name),
            }
            # New members start together, or none would find a quorum; later changes go through
            # them one by one.
            apart = settings.etcd_state == "existing"
            after = [self.members[-1].service] if apart and self.members else []
            self.members.append(Member(self, kind, number, container, after))
        Backups(settings, ground.place, KIND, self)
        self.url = "http://" + ",".join(f"{host}:{ports.ETCD}" for host in peers.values())
        self.register_outputs({"url": self.url})


def etcd_command(settings: Settings, name: str, peers: dict[str, str]) -> list[Any]:
    """How a member is started. Data from before wins over what is said about a new cluster."""
    cluster = ",".join(f"{peer}=http://{host}:{ports.ETCD_PEERS}" for peer, host in peers.items())
    return [
        "etcd",
        f"--name={name}",
        f"--data-dir={MOUNT}/etcd",
        f"--listen-client-urls=http://0.0.0.0:{ports.ETCD}",
        f"--advertise-client-urls=http://{peers[name]}:{ports.ETCD}",
        f"--listen-peer-urls=http://0.0.0.0:{ports.ETCD_PEERS}",
        f"--initial-advertise-peer-urls=http://{peers[name]}:{ports.ETCD_PEERS}",
        f"--initial-cluster={cluster}",
        f"--initial-cluster-token={settings.prefix}",
        f"--initial-cluster-state={settings.etcd_state}",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
        f"--quota-backend-bytes={_QUOTA}",
        # Zones are milliseconds apart, and a slow disk must not cost a leader.
        "--heartbeat-interval=200",
        "--election-timeout=2000",
    ]
