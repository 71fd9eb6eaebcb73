"""etcd: one member per machine, each with a permanent name, address and volume.

Members find each other by name, and a restarted member finds its own data. In a protected stack,
volumes are copied every hour, so that losing all members loses at most one hour of metadata.
"""

from __future__ import annotations

from typing import Any

from infra.cluster.backups import Backups
from infra.cluster.member_group import create_members
from infra.cluster.shared import SharedResources
from infra.cluster.sidecars import AUTHORITIES_FILE, CERTIFICATE_FILE, KEY_FILE
from infra.cluster.user_data import MOUNT
from infra.component import Component, Deployment
from infra.config.settings import StackSettings
from infra.network import ports

GROUP = "etcd"
_QUOTA = 4 << 30
_ALONE = "4m"
"""How long a starting member waits for the others before it serves without them."""
_TLS = tuple(
    f"--{side}{option}"
    for side in ("", "peer-")
    for option in (
        f"cert-file={CERTIFICATE_FILE}",
        f"key-file={KEY_FILE}",
        f"trusted-ca-file={AUTHORITIES_FILE}",
        "client-cert-auth",
    )
)
"""One certificate serves clients and peers, and both must present their own."""


class Etcd(Component):
    """The etcd members, and the URL with which brokers connect to them."""

    def __init__(self, shared: SharedResources, parent: Deployment) -> None:
        super().__init__("Etcd", parent)
        settings = self.settings
        image = shared.images.reference(GROUP)
        names = [f"{GROUP}-{number}" for number in range(1, settings.etcd.count + 1)]
        hosts = {name: f"{name}.{shared.dns.domain}" for name in names}
        self.members = create_members(
            self,
            shared,
            GROUP,
            settings.etcd,
            [],
            lambda name: {
                "name": GROUP,
                "image": image,
                "memoryReservation": 512,
                "command": etcd_command(settings, name, hosts),
                # Not an option: versions that do not know it would refuse to start.
                "environment": [
                    {"name": "ETCD_EXPERIMENTAL_WAIT_CLUSTER_READY_TIMEOUT", "value": _ALONE}
                ],
                "healthCheck": {
                    "command": ["CMD", *health_command(settings, hosts[name])],
                    "interval": 10,
                    "timeout": 8,
                    "retries": 6,
                    "startPeriod": 300,
                },
            },
            # Snapshots outlive the stack, so one that `pulumi destroy` shall erase takes none.
            snapshots=settings.protect,
        )
        if settings.protect:
            Backups(GROUP, self)
        self.url = f"{_scheme(settings)}://" + ",".join(
            f"{host}:{ports.ETCD}" for host in hosts.values()
        )
        self.register_outputs({"url": self.url})


def etcd_command(settings: StackSettings, name: str, hosts: dict[str, str]) -> list[Any]:
    """A member's command line; ``hosts`` are all members' host names by member name.

    A member that already has data ignores the options that describe a new cluster.
    """
    http = _scheme(settings)
    cluster = ",".join(f"{peer}={http}://{host}:{ports.ETCD_PEERS}" for peer, host in hosts.items())
    return [
        "etcd",
        f"--name={name}",
        f"--data-dir={MOUNT}/etcd",
        f"--listen-client-urls={http}://0.0.0.0:{ports.ETCD}",
        f"--advertise-client-urls={http}://{hosts[name]}:{ports.ETCD}",
        f"--listen-peer-urls={http}://0.0.0.0:{ports.ETCD_PEERS}",
        f"--initial-advertise-peer-urls={http}://{hosts[name]}:{ports.ETCD_PEERS}",
        f"--initial-cluster={cluster}",
        f"--initial-cluster-token={settings.prefix}",
        f"--initial-cluster-state={settings.etcd_state}",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
        f"--quota-backend-bytes={_QUOTA}",
        # Zones are milliseconds apart, and a slow disk must not cause an election.
        "--heartbeat-interval=200",
        "--election-timeout=2000",
        *(_TLS if settings.internal_tls else ()),
    ]


def health_command(settings: StackSettings, host: str) -> list[str]:
    """Succeeds once the member has joined the others, and then for as long as it answers.

    A member answers clients only after it has joined, so deployments go on to the next member when
    this one counts for the quorum again. Checking for the quorum every time would have ECS restart
    the members that are left when it is lost.
    """
    files = (f"--cacert={AUTHORITIES_FILE}", f"--cert={CERTIFICATE_FILE}", f"--key={KEY_FILE}")
    return [
        *("etcdctl", f"--endpoints={_scheme(settings)}://{host}:{ports.ETCD}"),
        *(files if settings.internal_tls else ()),
        *("endpoint", "status"),
    ]


def _scheme(settings: StackSettings) -> str:
    return "https" if settings.internal_tls else "http"
