"""Estimates a stack's monthly cost: ``python -m infra.cost.estimate > docs/cost.md``.

The fixed cost follows from the stack's settings, the rest from an assumed workload. The estimate
should have the right order of magnitude and the right largest items; a bill will differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from infra.artifacts import FUNCTIONS, ROOT
from infra.config.settings import ZONES, MemberSettings, StackSettings
from infra.cost import prices as p
from infra.network.vpc_endpoints import services

_SECONDS = p.HOURS * 3_600
_ROOT_GIB = 30


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


WORKLOADS = {
    "dev": CostWorkload(0.05, 1, 7, 4.0, 64, 5, 1),
    "prod": CostWorkload(10.0, 2, 30, 4.0, 256, 60, 30),
}


def fixed(settings: StackSettings) -> Iterator[CostItem]:
    """What costs the same whatever the load."""
    arch, hours, brokers = settings.architecture, p.HOURS, settings.brokers
    cpu, gib = brokers.cpu / 1_024, brokers.memory / 1_024
    yield CostItem(
        f"{brokers.minimum} brokers (Fargate, {arch})",
        f"{brokers.minimum} x {hours} h x ({cpu:g} vCPU x {p.FARGATE_CPU[arch]} "
        f"+ {gib:g} GiB x {p.FARGATE_GIB[arch]})",
        brokers.minimum * hours * (cpu * p.FARGATE_CPU[arch] + gib * p.FARGATE_GIB[arch]),
    )
    for name, members in (("storage nodes", settings.storage), ("etcd members", settings.etcd)):
        yield from _machines(name, members)
    copies = settings.etcd.volume_gib * settings.etcd.count
    yield CostItem(
        "hourly snapshots of etcd's volumes",
        f"{copies} GiB x {p.SNAPSHOT_GIB}, if all of it changes once",
        copies * p.SNAPSHOT_GIB,
    )
    yield CostItem("load balancer", f"{hours} h x {p.BALANCER_HOUR}", hours * p.BALANCER_HOUR)
    interfaces = len(services(settings)) * settings.endpoint_zones
    yield CostItem(
        "private endpoints",
        f"{len(services(settings))} services x {settings.endpoint_zones} zones x {hours} h "
        f"x {p.ENDPOINT_HOUR}",
        interfaces * hours * p.ENDPOINT_HOUR,
    )
    machines = settings.etcd.count + settings.storage.count
    secrets = 1 + (machines + 1 if settings.internal_tls else 0)
    yield CostItem(
        "keys, secrets, private zone",
        f"2 x {p.KMS_KEY:g} + {secrets} x {p.SECRET} + {p.PRIVATE_ZONE}",
        2 * p.KMS_KEY + secrets * p.SECRET + p.PRIVATE_ZONE,
    )
    certified = 1 if settings.internal_tls else 0
    alarms = 5 + 3 * machines + certified + len(FUNCTIONS)
    metrics = p.INSIGHTS_METRICS * (machines + 1) + machines + certified + 2
    yield CostItem(
        "alarms and metrics",
        f"{alarms} x {p.ALARM:.2f} + about {metrics} x {p.METRIC:.2f}",
        alarms * p.ALARM + metrics * p.METRIC,
    )


def _machines(name: str, members: MemberSettings) -> Iterator[CostItem]:
    hour = p.MACHINES[members.instance]
    yield CostItem(
        f"{members.count} {name} ({members.instance})",
        f"{members.count} x {p.HOURS} h x {hour}",
        members.count * p.HOURS * hour,
    )
    yield CostItem(
        "their root disks (30 GiB gp3)",
        f"{members.count} x {_ROOT_GIB} GiB x {p.GP3_GIB}",
        members.count * _ROOT_GIB * p.GP3_GIB,
    )
    iops, mibps = members.volume_iops - 3_000, members.volume_mibps - 125
    each = members.volume_gib * p.GP3_GIB + iops * p.GP3_IOPS + mibps * p.GP3_MIBPS
    yield CostItem(
        f"their data volumes ({members.volume_gib} GiB gp3)",
        f"{members.count} x ({members.volume_gib} GiB x {p.GP3_GIB} + {iops} x {p.GP3_IOPS} "
        f"+ {mibps} x {p.GP3_MIBPS})",
        members.count * each,
    )


def used(settings: StackSettings, work: CostWorkload) -> Iterator[CostItem]:
    """What the workload costs."""
    arch = settings.architecture
    gb = work.mib_s * _SECONDS / 1_024
    ways = 1 + work.fan_out
    units = gb * ways
    yield CostItem(
        "load balancer capacity",
        f"{gb:,.0f} GB published x {ways} transfers x {p.BALANCER_UNIT}",
        units * p.BALANCER_UNIT,
    )
    copies = min(3, settings.storage.count)
    far = (ZONES - 1) / ZONES
    crossing = gb * (copies * far + ways * far)
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


def stack_settings_of(stack: str) -> StackSettings:
    """The settings in a stack's file, with a domain added: prod requires one; it is free."""
    found = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())["config"]
    given = {
        name.removeprefix("sulina:"): value if isinstance(value, str) else json.dumps(value)
        for name, value in found.items()
        if name.startswith("sulina:")
    }
    return StackSettings.parse(stack, {**given, "domain": "sulina.example.com", "zoneId": "Z0"})


def page() -> str:
    """The text of docs/cost.md."""
    lines = [_HEAD.format(as_of=p.AS_OF, region=p.REGION, hours=p.HOURS)]
    for stack, work in WORKLOADS.items():
        settings = stack_settings_of(stack)
        lines += [
            f"## {stack}",
            f"Workload: {work.mib_s:g} MiB/s published on average, each message delivered "
            f"{'once' if work.fan_out == 1 else f'{work.fan_out} times'}, {work.lake_days} days "
            f"in the lake at a compression ratio of {work.ratio:g}, one object per "
            f"{work.object_mib} MiB published, {work.job_hours:g} hours of Spark jobs and "
            f"{work.log_gib:g} GiB of logs per month.",
            "",
            "| item | arithmetic | $ per month |",
            "|---|---|---:|",
        ]
        total = 0.0
        for name, items in (
            ("fixed", list(fixed(settings))),
            ("by use", list(used(settings, work))),
        ):
            lines += [
                f"| {each.name} | {each.arithmetic} | {each.dollars:,.2f} |" for each in items
            ]
            part = sum(each.dollars for each in items)
            total += part
            lines.append(f"| **{name}** | | **{part:,.0f}** |")
        lines += [f"| **total** | | **{total:,.0f}** |", ""]
    return "\n".join(lines) + _TAIL


_HEAD = """# What it costs

An estimate for the two stacks that come with Sulina, generated with
`python -m infra.cost.estimate > docs/cost.md` from the stack files and a price table
([infra/cost/prices.py](../infra/cost/prices.py)). A test checks that this page is current.

**The prices are assumptions**: on-demand list prices as of {as_of}, {region}. They were entered by
hand; check the largest items against your own region. A month has {hours} hours. Taxes, support,
savings plans and free tiers are not included.
"""

_TAIL = """
## How to reduce it
- **Machines and volumes** are most of the fixed cost. A storage node needs volume throughput more
  than CPU; three small ones serve a small load.
- **Traffic between zones** is most of the cost by use: every message is stored in three zones so
  that it survives the loss of one. No setting avoids it.
- **Private endpoints** cost per zone: with `sulina:endpointZones 1` they cost a third, but while
  that zone is down no container can start in any zone; running containers are not affected.
- **Autoscaling** adds brokers up to `sulina:brokerMax`; each costs the first line divided by
  `sulina:brokerMin`.
"""


if __name__ == "__main__":
    sys.stdout.write(page())
