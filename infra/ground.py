"""What every tier of the cluster stands on, handed around as one."""

from __future__ import annotations

from dataclasses import dataclass

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
