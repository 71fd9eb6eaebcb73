"""Storage nodes: one per machine, each with its own name, address and volume for its journal.

They write closed ledgers to the lake, read them back and delete them; Spark jobs write only under
other prefixes. A restarted node finds its journal; the other nodes make up for one that is lost
(docs/faults.md).
"""

from __future__ import annotations

from typing import Any

from infra.cluster.member_group import create_members
from infra.cluster.shared import SharedResources
from infra.cluster.sidecars import AUTHORITIES_FILE, CERTIFICATE_FILE, KEY_FILE
from infra.cluster.user_data import MOUNT
from infra.component import Component, Deployment
from infra.config.settings import StackSettings
from infra.lake.buckets import LEDGERS, LakeBuckets
from infra.network import ports
from infra.network.addresses import zone_of

GROUP = "storage"


class StorageNodeGroup(Component):
    """The storage nodes, and the list of them that brokers receive."""

    def __init__(self, shared: SharedResources, lake: LakeBuckets, parent: Deployment) -> None:
        super().__init__("StorageNodes", parent)
        settings, image = self.settings, shared.images.reference(GROUP)
        lake_url = f"{lake.url}?region={self.region.name}"

        def container(name: str) -> dict[str, Any]:
            environment = storage_environment(settings, name, lake_url)
            return {
                "name": GROUP,
                "image": image,
                # Only decides whether the member fits on its machine, which it has for itself.
                "memoryReservation": 512,
                "environment": [
                    {"name": variable, "value": value} for variable, value in environment.items()
                ],
                "healthCheck": {
                    "command": ["CMD", "python", "-m", "storage_grpc.container.health_check"],
                    "interval": 30,
                    "timeout": 10,
                    "retries": 3,
                    # A node indexes its journal before it serves, which takes time if it is large.
                    "startPeriod": 300,
                },
            }

        self.members = create_members(
            self,
            shared,
            GROUP,
            settings.storage,
            [*lake.write("Ledgers", lake.lake, LEDGERS), lake.look("Ledgers", lake.lake)],
            container,
            # A copy of an old journal does not help: it lacks entries acknowledged since.
            snapshots=False,
        )
        self.nodes = ",".join(
            f"{member.name}={member.host}:{ports.STORAGE}/{self.region.zones[zone_of(number)]}"
            for number, member in enumerate(self.members, 1)
        )
        self.register_outputs({"nodes": self.nodes})


def storage_environment(settings: StackSettings, name: str, lake_url: str) -> dict[str, str]:
    """The environment variables from which `sulina storage` reads a node's settings."""
    tls = {
        "SULINA_STORAGE_TLS_CERT": CERTIFICATE_FILE,
        "SULINA_STORAGE_TLS_KEY": KEY_FILE,
        "SULINA_STORAGE_TLS_CA": AUTHORITIES_FILE,
        "SULINA_STORAGE_TLS_CLIENTS": "certificate",
    }
    return {
        "SULINA_STORAGE_ID": name,
        "SULINA_STORAGE_HOST": "0.0.0.0",
        "SULINA_STORAGE_PORT": str(ports.STORAGE),
        "SULINA_STORAGE_DATA": f"{MOUNT}/journal",
        "SULINA_STORAGE_TIER": lake_url,
        **(tls if settings.internal_tls else {}),
    }
