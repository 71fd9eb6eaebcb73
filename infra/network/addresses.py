"""Computes subnets and member addresses from the VPC's network.

Each zone has three subnets: ``work`` for containers, functions and Spark, ``data`` for machines
with volumes, ``edge`` for a public load balancer. The address of a machine with a volume follows
from its number, so its replacement has the same address.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from infra.config.settings import ZONES

_FIRST = {"etcd": 10, "storage": 20}
"""The first address of each member group within its subnet; AWS reserves 0 to 3."""


@dataclass(frozen=True, slots=True)
class ZoneSubnets:
    """The networks of one zone's subnets."""

    work: str
    data: str
    edge: str


def subnets(network: str) -> tuple[ZoneSubnets, ...]:
    """Split a /16 into a /20 and two /24 networks per zone."""
    block = ipaddress.IPv4Network(network)
    large = list(block.subnets(new_prefix=20))
    small = list(large[ZONES].subnets(new_prefix=24))
    return tuple(
        ZoneSubnets(str(large[zone]), str(small[zone]), str(small[ZONES + zone]))
        for zone in range(ZONES)
    )


def zone_of(number: int) -> int:
    """The index of the zone of member number 1, 2, ...: round-robin."""
    return (number - 1) % ZONES


def address_of(network: str, group: str, number: int) -> str:
    """The address of member number 1, 2, ... of the group ``etcd`` or ``storage``."""
    block = ipaddress.IPv4Network(subnets(network)[zone_of(number)].data)
    return str(block[_FIRST[group] + (number - 1) // ZONES])
