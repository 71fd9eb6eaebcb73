"""Storage nodes: one a machine, each with its own name, address and volume for its journal.

They write closed ledgers to the lake, read them back and delete them; nobody else writes there but
Spark's jobs, and those elsewhere. A node that comes back finds its journal; one that lost it is
made up for by the others (docs/faults.md).
"""

from __future__ import annotations

import pulumi

from infra import ports
from infra.beside import AUTHORITIES, CERTIFICATE, KEY
from infra.boot import MOUNT
from infra.config import Settings
from infra.ground import Ground
from infra.kind import kind_of_member
from infra.lake import LEDGERS, LakeBuckets
from infra.member import Member
from infra.tier import Tier

KIND = "storage"


class Storage(Tier):
    """The nodes, and the list of them that brokers are given."""

    def __init__(self, ground: Ground, lake: LakeBuckets, parent: pulumi.Resource) -> None:
        settings = ground.settings
        super().__init__("Storage", settings, ground.place, parent)
        may = lake.write("Ledgers", lake.lake, LEDGERS)
        # A copy of an old journal is no help: what it lacks was acknowledged since.
        credentials = ground.credentials(KIND, settings.storage.count)
        kind = kind_of_member(
            self,
            ground,
            KIND,
            settings.storage,
            may,
            snapshots=False,
            credentials=list(credentials.values()),
        )
        tier = f"{lake.url}?region={ground.place.region}"
        self.members: list[Member] = []
        for number in range(1, settings.storage.count + 1):
            name = f"{KIND}-{number}"
            container = {
                "name": KIND,
                "image": ground.images.reference(KIND),
                "memoryReservation": 1_024,
                "environment": [
                    {"name": variable, "value": value}
                    for variable, value in storage_environment(settings, name, tier).items()
                ],
                "healthCheck": {
                    "command": ["CMD", "python", "-m", "storage_grpc.container.health_check"],
                    "interval": 30,
                    "timeout": 10,
                    "retries": 3,
                    # The index of a large journal is read before the node serves.
                    "startPeriod": 300,
                },
            }
            after = [self.members[-1].service] if self.members else []
            self.members.append(Member(self, kind, number, container, credentials.get(name), after))
        self.nodes = ",".join(
            f"{member.name}={member.host}:{ports.STORAGE}" for member in self.members
        )
        self.register_outputs({"nodes": self.nodes})


def storage_environment(settings: Settings, name: str, tier: str) -> dict[str, str]:
    """A node's settings, as `sulina storage` reads them from the environment."""
    tls = {
        "SULINA_STORAGE_TLS_CERT": CERTIFICATE,
        "SULINA_STORAGE_TLS_KEY": KEY,
        "SULINA_STORAGE_TLS_CA": AUTHORITIES,
        "SULINA_STORAGE_TLS_CLIENTS": "certificate",
    }
    return {
        "SULINA_STORAGE_ID": name,
        "SULINA_STORAGE_HOST": "0.0.0.0",
        "SULINA_STORAGE_PORT": str(ports.STORAGE),
        "SULINA_STORAGE_DATA": f"{MOUNT}/journal",
        "SULINA_STORAGE_TIER": tier,
        **(tls if settings.inside_tls else {}),
    }
