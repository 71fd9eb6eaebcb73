"""Coordination: etcd, a member a machine, with names, addresses and volumes that stay.

Members find each other by name. A member that comes back finds its own data. Volumes are copied
every hour, so that even the loss of all members loses no more than that.
"""

from __future__ import annotations

from typing import Any

import pulumi

from infra import ports
from infra.backups import Backups
from infra.beside import AUTHORITIES, CERTIFICATE, KEY
from infra.boot import MOUNT
from infra.config import Settings
from infra.ground import Ground
from infra.kind import kind_of_member
from infra.member import Member
from infra.tier import Tier

KIND = "etcd"
_QUOTA = 4 << 30
_TLS = tuple(
    f"--{side}{option}"
    for side in ("", "peer-")
    for option in (
        f"cert-file={CERTIFICATE}",
        f"key-file={KEY}",
        f"trusted-ca-file={AUTHORITIES}",
        "client-cert-auth",
    )
)
"""Clients and other members are shown the same certificate, and have to show one themselves."""


class Coordination(Tier):
    """The members of etcd, and the URL that brokers are given."""

    def __init__(self, ground: Ground, parent: pulumi.Resource) -> None:
        settings = ground.settings
        super().__init__("Coordination", settings, ground.place, parent)
        image = ground.images.reference(KIND)
        self.members: list[Member] = []
        numbers = range(1, settings.etcd.count + 1)
        credentials = ground.credentials(KIND, settings.etcd.count)
        kind = kind_of_member(
            self,
            ground,
            KIND,
            settings.etcd,
            [],
            snapshots=True,
            credentials=list(credentials.values()),
        )
        peers = {f"{KIND}-{number}": f"{KIND}-{number}.{ground.names.domain}" for number in numbers}
        for number in numbers:
            name = f"{KIND}-{number}"
            container = {
                "name": KIND,
                "image": image,
                "memoryReservation": 512,
                "command": etcd_command(settings, name, peers),
            }
            # One by one, also the first time: a member without a quorum runs, and waits for it.
            after = [self.members[-1].service] if self.members else []
            self.members.append(Member(self, kind, number, container, credentials.get(name), after))
        Backups(settings, ground.place, KIND, self)
        self.url = f"{scheme(settings)}://" + ",".join(
            f"{host}:{ports.ETCD}" for host in peers.values()
        )
        self.register_outputs({"url": self.url})


def etcd_command(settings: Settings, name: str, peers: dict[str, str]) -> list[Any]:
    """How a member is started. Data from before wins over what is said about a new cluster."""
    http = scheme(settings)
    cluster = ",".join(f"{peer}={http}://{host}:{ports.ETCD_PEERS}" for peer, host in peers.items())
    return [
        "etcd",
        f"--name={name}",
        f"--data-dir={MOUNT}/etcd",
        f"--listen-client-urls={http}://0.0.0.0:{ports.ETCD}",
        f"--advertise-client-urls={http}://{peers[name]}:{ports.ETCD}",
        f"--listen-peer-urls={http}://0.0.0.0:{ports.ETCD_PEERS}",
        f"--initial-advertise-peer-urls={http}://{peers[name]}:{ports.ETCD_PEERS}",
        f"--initial-cluster={cluster}",
        f"--initial-cluster-token={settings.prefix}",
        f"--initial-cluster-state={settings.etcd_state}",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
        f"--quota-backend-bytes={_QUOTA}",
        # Zones are milliseconds apart, and a slow disk must not cost a leader.
        "--heartbeat-interval=200",
        "--election-timeout=2000",
        *(_TLS if settings.inside_tls else ()),
    ]


def scheme(settings: Settings) -> str:
    """How etcd is spoken to."""
    return "https" if settings.inside_tls else "http"
