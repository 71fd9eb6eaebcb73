"""Who has which addresses: plain arithmetic on the VPC's block.

Each zone has three subnets: ``work`` for containers, functions and Spark, ``data`` for machines
with volumes, ``edge`` for a public load balancer. Machines with volumes keep their address for
ever, whatever replaces them: it follows from their number.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from infra.config import ZONES

_FIRST = {"etcd": 10, "storage": 20}
"""The first address of each kind within its subnet; AWS keeps 0 to 3 for itself."""


@dataclass(frozen=True, slots=True)
class Subnets:
    """The blocks of one zone."""

    work: str
    data: str
    edge: str


def subnets(network: str) -> tuple[Subnets, ...]:
    """A /20, a /24 and a /24 for each zone, out of a /16."""
    block = ipaddress.IPv4Network(network)
    large = list(block.subnets(new_prefix=20))
    small = list(large[ZONES].subnets(new_prefix=24))
    return tuple(
        Subnets(str(large[zone]), str(small[zone]), str(small[ZONES + zone]))
        for zone in range(ZONES)
    )


def zone_of(number: int) -> int:
    """In which zone the member with this number (1, 2, ...) stands: in turn."""
    return (number - 1) % ZONES


def address_of(network: str, kind: str, number: int) -> str:
    """The address of ``etcd`` or ``storage`` number 1, 2, ..."""
    block = ipaddress.IPv4Network(subnets(network)[zone_of(number)].data)
    return str(block[_FIRST[kind] + (number - 1) // ZONES])
