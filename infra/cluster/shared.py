"""The resources that every part of the cluster uses, passed as one value."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.cluster.containers import Containers
from infra.cluster.images import Images
from infra.network.dns import PrivateDns
from infra.network.firewall import Firewall
from infra.network.vpc import VpcNetwork
from infra.security.certificates import Certificates
from infra.security.keys import Keys


@dataclass(frozen=True, slots=True)
class SharedResources:
    """The components that others build on."""

    keys: Keys
    network: VpcNetwork
    firewall: Firewall
    dns: PrivateDns
    images: Images
    containers: Containers
    ways_out: tuple[pulumi.Resource, ...]
    """How containers reach AWS services: private endpoints or the NAT machine."""
    certificates: Certificates | None
    """None if internal TLS is off."""
