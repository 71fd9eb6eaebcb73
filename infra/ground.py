"""What every tier of the cluster stands on, handed around as one."""

from __future__ import annotations

from dataclasses import dataclass

from infra.addresses import address_of
from infra.certificates import Certificates, Credential
from infra.config import Settings
from infra.containers import Containers
from infra.firewall import Firewall
from infra.images import Images
from infra.keys import Keys
from infra.names import Names
from infra.network import Network
from infra.tier import Place


@dataclass(frozen=True, slots=True)
class Ground:
    """The choices, the place, and the tiers that others are built upon."""

    settings: Settings
    place: Place
    keys: Keys
    network: Network
    firewall: Firewall
    names: Names
    images: Images
    containers: Containers
    certificates: Certificates | None
    """None without TLS inside."""

    def credentials(self, kind: str, count: int) -> dict[str, Credential]:
        """What the members of a kind show to others, and trust; none without TLS inside."""
        if self.certificates is None:
            return {}
        found = {}
        for number in range(1, count + 1):
            name = f"{kind}-{number}"
            address = address_of(self.settings.network, kind, number)
            found[name] = self.certificates.issue(name, [f"{name}.{self.names.domain}"], [address])
        return found
