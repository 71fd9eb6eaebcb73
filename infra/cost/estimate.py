"""Estimates a stack's monthly cost.

The fixed cost follows from the stack's settings, the rest from an assumed workload. The estimate
should have the right order of magnitude and the right largest items; a bill will differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from infra.artifacts import FUNCTIONS
from infra.component import ROOT_GIB
from infra.config.settings import MemberSettings, StackSettings
from infra.cost import prices as p
from infra.network.nat import INSTANCES
from infra.network.vpc_endpoints import services

_SECONDS: Final = p.HOURS * 3_600
PROMETHEUS: Final = "Managed Prometheus"
_SCRAPE_SECONDS: Final = 30
_BROKER_SERIES: Final = 2_000
"""An assumption: about 600 of a broker itself, the rest of its topics and subscriptions."""
_NODE_SERIES: Final = 200


@dataclass(frozen=True, slots=True)
class CostWorkload:
    """The assumed load of a stack, averaged over a month."""

    mib_s: float
    """Published MiB per second, before compression."""
    fan_out: int
    """How many times each message is delivered."""
    lake_days: int
    ratio: float
    """The compression ratio of objects."""
    object_mib: int
    """Published MiB per object, before compression."""
    job_hours: float
    """Hours per month in which Spark jobs use 4 vCPU and 16 GiB."""
    log_gib: float


@dataclass(frozen=True, slots=True)
class CostItem:
    """One line of the estimate."""

    name: str
    arithmetic: str
    dollars: float


WORKLOADS: Final = {
    "dev": CostWorkload(0.05, 1, 7, 4.0, 64, 5, 1),
    "prod": CostWorkload(10.0, 2, 30, 4.0, 256, 60, 30),
}


def dollars(items: Iterator[CostItem]) -> float:
    """The sum of items."""
    return sum(each.dollars for each in items)


def total(settings: StackSettings) -> float:
    """The fixed cost, and that of the workload assumed for a stack of this name, if any."""
    work = WORKLOADS.get(settings.stack)
    return dollars(fixed(settings)) + (dollars(used(settings, work)) if work else 0)


def sentence(settings: StackSettings) -> str:
    """The estimate in one sentence, for `pulumi preview`."""
    base = list(fixed(settings))
    largest = sorted(base, key=lambda each: -each.dollars)[:3]
    parts = ", ".join(f"{each.name} ${each.dollars:,.0f}" for each in largest)
    work = WORKLOADS.get(settings.stack)
    load = (
        f"${dollars(used(settings, work)):,.0f} for the load that docs/cost.md assumes"
        if work
        else "and what its load costs (docs/cost.md)"
    )
    return (
        f"estimated cost: ${total(settings):,.0f} per month, "
        f"${dollars(iter(base)):,.0f} of it fixed ({parts}), {load}"
    )


def fixed(settings: StackSettings) -> Iterator[CostItem]:
    """What costs the same whatever the load."""
    cluster = settings.has("cluster")
    if cluster:
        yield from _cluster(settings)
    machines = settings.etcd.count + settings.storage.count
    secrets = 1 + (machines + 1 if cluster and settings.internal_tls else 0)
    zone = p.PRIVATE_ZONE if cluster else 0
    yield CostItem(
        "keys, secrets, private zone",
        f"2 x {p.KMS_KEY:g} + {secrets} x {p.SECRET} + {zone}",
        2 * p.KMS_KEY + secrets * p.SECRET + zone,
    )
    if settings.has("observability"):
        certified = 1 if settings.internal_tls else 0
        alarms = 5 + 3 * machines + certified + len(FUNCTIONS)
        metrics = machines + certified + 2
        yield CostItem(
            "alarms and metrics",
            f"{alarms} x {p.ALARM:.2f} + {metrics} x {p.METRIC:.2f}",
            alarms * p.ALARM + metrics * p.METRIC,
        )
        if settings.prometheus:
            yield _prometheus(settings)


def _prometheus(settings: StackSettings) -> CostItem:
    brokers, nodes = settings.brokers.minimum, settings.storage.count
    samples = _SECONDS / _SCRAPE_SECONDS
    series = brokers * _BROKER_SERIES + nodes * _NODE_SERIES
    return CostItem(
        PROMETHEUS,
        f"({brokers} brokers x {_BROKER_SERIES:,} + {nodes} nodes x {_NODE_SERIES} series) "
        f"x {samples:,.0f} samples x {p.SAMPLE:.8f}",
        series * samples * p.SAMPLE,
    )


def _cluster(settings: StackSettings) -> Iterator[CostItem]:
    hours = p.HOURS
    yield _brokers(settings)
    for name, members in (("storage node", settings.storage), ("etcd member", settings.etcd)):
        yield from _machines(name, members)
    if settings.protect:
        copies = settings.etcd.volume_gib * settings.etcd.count
        yield CostItem(
            "hourly snapshots of etcd's volumes",
            f"{copies} GiB x {p.SNAPSHOT_GIB}, if all of it changes once",
            copies * p.SNAPSHOT_GIB,
        )
    yield CostItem("load balancer", f"{hours} h x {p.BALANCER_HOUR}", hours * p.BALANCER_HOUR)
    if settings.egress == "nat":
        instance = INSTANCES[settings.architecture]
        hour = p.MACHINES[instance]
        yield CostItem(
            f"NAT machine ({instance})",
            f"{hours} h x ({hour} + {p.PUBLIC_ADDRESS_HOUR} for its address) "
            f"+ {ROOT_GIB} GiB x {p.GP3_GIB}",
            hours * (hour + p.PUBLIC_ADDRESS_HOUR) + ROOT_GIB * p.GP3_GIB,
        )
    else:
        count, zones = len(services(settings)), min(settings.zones, settings.endpoint_zones)
        yield CostItem(
            "private endpoints",
            f"{count} services x {zones} zones x {hours} h x {p.ENDPOINT_HOUR}",
            count * zones * hours * p.ENDPOINT_HOUR,
        )


def _brokers(settings: StackSettings) -> CostItem:
    arch, brokers = settings.architecture, settings.brokers
    cpu, gib = brokers.cpu / 1_024, brokers.memory / 1_024
    price = cpu * p.FARGATE_CPU[arch] + gib * p.FARGATE_GIB[arch]
    spot = brokers.minimum - 1 if brokers.spot else 0
    count = brokers.minimum - spot + spot * p.SPOT
    counted = f"({brokers.minimum - spot} + {spot} spot x {p.SPOT})" if spot else f"{count:g}"
    return CostItem(
        f"{brokers.minimum} brokers (Fargate, {arch})",
        f"{counted} x {p.HOURS} h x ({cpu:g} vCPU x {p.FARGATE_CPU[arch]} "
        f"+ {gib:g} GiB x {p.FARGATE_GIB[arch]})",
        count * p.HOURS * price,
    )


def _machines(name: str, members: MemberSettings) -> Iterator[CostItem]:
    hour = p.MACHINES.get(members.instance)
    yield CostItem(
        f"{members.count} {name}{'s' * (members.count > 1)} ({members.instance})",
        f"{members.count} x {p.HOURS} h x {hour or 'a price that infra/cost/prices.py lacks'}",
        members.count * p.HOURS * (hour or 0),
    )
    yield CostItem(
        f"their root disks ({ROOT_GIB} GiB gp3)",
        f"{members.count} x {ROOT_GIB} GiB x {p.GP3_GIB}",
        members.count * ROOT_GIB * p.GP3_GIB,
    )
    iops, mibps = members.volume_iops - 3_000, members.volume_mibps - 125
    each = members.volume_gib * p.GP3_GIB + iops * p.GP3_IOPS + mibps * p.GP3_MIBPS
    more = f" + {iops} IOPS x {p.GP3_IOPS} + {mibps} MiB/s x {p.GP3_MIBPS}" if iops + mibps else ""
    yield CostItem(
        f"their data volumes ({members.volume_gib} GiB gp3)",
        f"{members.count} x ({members.volume_gib} GiB x {p.GP3_GIB}{more})",
        members.count * each,
    )


def balanced(settings: StackSettings, work: CostWorkload) -> Iterator[CostItem]:
    """What it costs in addition if clients go through the load balancer.

    It leads to any broker, which forwards to the owner of the topic, perhaps in another zone.
    """
    gb, ways, far = _published(work), 1 + work.fan_out, _far(settings)
    yield CostItem(
        "load balancer capacity",
        f"{gb:,.0f} GB published x {ways} transfers x {p.BALANCER_UNIT}",
        gb * ways * p.BALANCER_UNIT,
    )
    yield CostItem(
        "forwarding between zones",
        f"{gb:,.0f} GB x {ways} transfers x {far:.2f} x {p.CROSS_ZONE_GB}",
        gb * ways * far * p.CROSS_ZONE_GB,
    )


def _published(work: CostWorkload) -> float:
    """GB per month."""
    return work.mib_s * _SECONDS / 1_024


def _far(settings: StackSettings) -> float:
    """The share of connections that lead to another zone."""
    return (settings.zones - 1) / settings.zones


def used(settings: StackSettings, work: CostWorkload) -> Iterator[CostItem]:
    """What the workload costs, with clients that connect to brokers directly."""
    arch = settings.architecture
    gb, ways, far = _published(work), 1 + work.fan_out, _far(settings)
    copies = min(3, settings.storage.count)
    crossing = gb * (copies + ways) * far
    if crossing:
        yield CostItem(
            "traffic between zones",
            f"{gb:,.0f} GB x ({copies} copies + {ways} client transfers) x {far:.2f} "
            f"x {p.CROSS_ZONE_GB}",
            crossing * p.CROSS_ZONE_GB,
        )
    kept = work.mib_s * 86_400 * work.lake_days / 1_024 / work.ratio
    yield CostItem(
        f"lake, {work.lake_days} days (S3)",
        f"{kept:,.0f} GiB x {p.S3_GIB} (published / {work.ratio:g})",
        kept * p.S3_GIB,
    )
    objects = max(work.mib_s * _SECONDS / work.object_mib, p.HOURS)
    yield CostItem(
        "S3 requests",
        f"{objects:,.0f} objects x 5 writes x {p.S3_PUT:.6f} + x 20 reads x {p.S3_GET:.7f}",
        objects * (5 * p.S3_PUT + 20 * p.S3_GET),
    )
    calls = 2 * p.HOURS * 60 + p.HOURS + objects
    seconds = calls * 0.5 * 0.5
    price = p.CALL_GIB_SECOND[arch]
    yield CostItem(
        "functions",
        f"{calls:,.0f} calls x {p.CALL:.7f} + {seconds:,.0f} GiB s x {price}",
        calls * p.CALL + seconds * price,
    )
    hour = 4 * p.EMR_CPU[arch] + 16 * p.EMR_GIB[arch]
    yield CostItem(
        "Spark jobs (EMR Serverless)",
        f"{work.job_hours:g} h x (4 vCPU x {p.EMR_CPU[arch]} + 16 GiB x {p.EMR_GIB[arch]})",
        work.job_hours * hour,
    )
    yield CostItem("logs", f"{work.log_gib:g} GiB x {p.LOG_GIB:.2f}", work.log_gib * p.LOG_GIB)
    yield CostItem("images", f"5 GiB x {p.IMAGE_GIB:.2f}", 5 * p.IMAGE_GIB)
