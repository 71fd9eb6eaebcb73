"""What a stack costs a month, with its arithmetic: ``python -m infra.cost > docs/cost.md``.

Counts what the settings of a stack fix, and what a workload that is written beside it causes.
Nobody's bill is exactly this; its order and its largest items should be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from infra import prices as p
from infra.config import ZONES, Members, Settings
from infra.endpoints import services

_ROOT = Path(__file__).resolve().parents[1]
_SECONDS = p.HOURS * 3_600
_ROOT_GIB = 30


@dataclass(frozen=True, slots=True)
class Workload:
    """What happens on a stack, on average over a month."""

    mib_s: float
    """Published, before compression."""
    fan_out: int
    """How many times each message is delivered."""
    lake_days: int
    ratio: float
    """How many times smaller an object is than what was published."""
    object_mib: int
    """Published bytes in one object."""
    job_hours: float
    """Hours of 4 vCPU and 16 GiB that Spark's jobs take in a month."""
    log_gib: float


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the bill."""

    what: str
    how: str
    dollars: float


WORKLOADS = {
    "dev": Workload(0.05, 1, 7, 4.0, 64, 5, 1),
    "prod": Workload(10.0, 2, 30, 4.0, 256, 60, 30),
}


def fixed(settings: Settings) -> Iterator[Item]:
    """What is there costs, whether it is used or not."""
    arch, hours, brokers = settings.architecture, p.HOURS, settings.brokers
    cpu, gib = brokers.cpu / 1_024, brokers.memory / 1_024
    yield Item(
        f"{brokers.least} brokers (Fargate, {arch})",
        f"{brokers.least} x {hours} h x ({cpu:g} vCPU x {p.FARGATE_CPU[arch]} "
        f"+ {gib:g} GiB x {p.FARGATE_GIB[arch]})",
        brokers.least * hours * (cpu * p.FARGATE_CPU[arch] + gib * p.FARGATE_GIB[arch]),
    )
    for name, members in (("storage nodes", settings.storage), ("members of etcd", settings.etcd)):
        yield from _machines(name, members)
    copies = settings.etcd.volume_gib * settings.etcd.count
    yield Item(
        "hourly copies of etcd's volumes",
        f"{copies} GiB x {p.SNAPSHOT_GIB}, as if all of it changed once",
        copies * p.SNAPSHOT_GIB,
    )
    yield Item("load balancer", f"{hours} h x {p.BALANCER_HOUR}", hours * p.BALANCER_HOUR)
    interfaces = len(services(settings)) * settings.endpoint_zones
    yield Item(
        "private endpoints",
        f"{len(services(settings))} services x {settings.endpoint_zones} zones x {hours} h "
        f"x {p.ENDPOINT_HOUR}",
        interfaces * hours * p.ENDPOINT_HOUR,
    )
    machines = settings.etcd.count + settings.storage.count
    secrets = 1 + (machines + 1 if settings.inside_tls else 0)
    yield Item(
        "keys, secrets, private zone",
        f"2 x {p.KMS_KEY:g} + {secrets} x {p.SECRET} + {p.PRIVATE_ZONE}",
        2 * p.KMS_KEY + secrets * p.SECRET + p.PRIVATE_ZONE,
    )
    certified = 1 if settings.inside_tls else 0
    alarms = 5 + 3 * machines + certified + 5
    metrics = p.INSIGHTS_METRICS * (machines + 1) + machines + certified + 2
    yield Item(
        "alarms and metrics",
        f"{alarms} x {p.ALARM:.2f} + about {metrics} x {p.METRIC:.2f}",
        alarms * p.ALARM + metrics * p.METRIC,
    )


def _machines(name: str, members: Members) -> Iterator[Item]:
    hour = p.MACHINES[members.instance]
    yield Item(
        f"{members.count} {name} ({members.instance})",
        f"{members.count} x {p.HOURS} h x {hour}",
        members.count * p.HOURS * hour,
    )
    yield Item(
        "their own disks (30 GiB gp3)",
        f"{members.count} x {_ROOT_GIB} GiB x {p.GP3_GIB}",
        members.count * _ROOT_GIB * p.GP3_GIB,
    )
    iops, mibps = members.volume_iops - 3_000, members.volume_mibps - 125
    each = members.volume_gib * p.GP3_GIB + iops * p.GP3_IOPS + mibps * p.GP3_MIBPS
    yield Item(
        f"their volumes ({members.volume_gib} GiB gp3)",
        f"{members.count} x ({members.volume_gib} GiB x {p.GP3_GIB} + {iops} x {p.GP3_IOPS} "
        f"+ {mibps} x {p.GP3_MIBPS})",
        members.count * each,
    )


def used(settings: Settings, work: Workload) -> Iterator[Item]:
    """What the workload causes."""
    arch = settings.architecture
    gb = work.mib_s * _SECONDS / 1_024
    ways = 1 + work.fan_out
    units = gb * ways
    yield Item(
        "load balancer's capacity",
        f"{gb:,.0f} GB published x {ways} ways x {p.BALANCER_UNIT}",
        units * p.BALANCER_UNIT,
    )
    copies = min(3, settings.storage.count)
    far = (ZONES - 1) / ZONES
    crossing = gb * (copies * far + ways * far)
    yield Item(
        "between zones",
        f"{gb:,.0f} GB x ({copies} copies + {ways} ways to clients) x {far:.2f} "
        f"x {p.CROSS_ZONE_GB}",
        crossing * p.CROSS_ZONE_GB,
    )
    kept = work.mib_s * 86_400 * work.lake_days / 1_024 / work.ratio
    yield Item(
        f"lake, {work.lake_days} days (S3)",
        f"{kept:,.0f} GiB x {p.S3_GIB} (published / {work.ratio:g})",
        kept * p.S3_GIB,
    )
    objects = max(work.mib_s * _SECONDS / work.object_mib, p.HOURS)
    yield Item(
        "requests to S3",
        f"{objects:,.0f} objects x 5 writes x {p.S3_PUT:.6f} + x 20 reads x {p.S3_GET:.7f}",
        objects * (5 * p.S3_PUT + 20 * p.S3_GET),
    )
    calls = 2 * p.HOURS * 60 + p.HOURS + objects
    seconds = calls * 0.5 * 0.5
    price = p.CALL_GIB_SECOND[arch]
    yield Item(
        "functions",
        f"{calls:,.0f} calls x {p.CALL:.7f} + {seconds:,.0f} GiB s x {price}",
        calls * p.CALL + seconds * price,
    )
    hour = 4 * p.EMR_CPU[arch] + 16 * p.EMR_GIB[arch]
    yield Item(
        "Spark jobs (EMR Serverless)",
        f"{work.job_hours:g} h x (4 vCPU x {p.EMR_CPU[arch]} + 16 GiB x {p.EMR_GIB[arch]})",
        work.job_hours * hour,
    )
    yield Item("logs", f"{work.log_gib:g} GiB x {p.LOG_GIB:.2f}", work.log_gib * p.LOG_GIB)
    yield Item("images", f"5 GiB x {p.IMAGE_GIB:.2f}", 5 * p.IMAGE_GIB)


def stack_settings_of(stack: str) -> Settings:
    """The settings in a stack's file; a name for clients, which changes no price, where needed."""
    found = yaml.safe_load((_ROOT / f"Pulumi.{stack}.yaml").read_text())["config"]
    given = {
        name.removeprefix("sulina:"): value if isinstance(value, str) else json.dumps(value)
        for name, value in found.items()
        if name.startswith("sulina:")
    }
    return Settings.parse(stack, {**given, "domain": "sulina.example.com", "zoneId": "Z0"})


def page() -> str:
    """The whole page."""
    lines = [_HEAD.format(as_of=p.AS_OF, region=p.REGION, hours=p.HOURS)]
    for stack, work in WORKLOADS.items():
        settings = stack_settings_of(stack)
        lines += [
            f"## {stack}",
            f"Workload: {work.mib_s:g} MiB/s published on average, each message delivered "
            f"{work.fan_out} time{'s' if work.fan_out > 1 else ''}, {work.lake_days} days in the "
            f"lake, objects {work.ratio:g} times smaller than what was published, one object for "
            f"{work.object_mib} MiB, Spark jobs of {work.job_hours:g} hours a month, "
            f"{work.log_gib:g} GiB of logs.",
            "",
            "| what | arithmetic | $ a month |",
            "|---|---|---:|",
        ]
        total = 0.0
        for name, items in (
            ("there in any case", list(fixed(settings))),
            ("by use", list(used(settings, work))),
        ):
            lines += [f"| {each.what} | {each.how} | {each.dollars:,.2f} |" for each in items]
            part = sum(each.dollars for each in items)
            total += part
            lines.append(f"| **{name}** | | **{part:,.0f}** |")
        lines += [f"| **together** | | **{total:,.0f}** |", ""]
    return "\n".join(lines) + _TAIL


_HEAD = """# What it costs

Made by `python -m infra.cost > docs/cost.md` from the stack files and a table of prices
([infra/prices.py](../infra/prices.py)); a test compares the two.

**The prices are assumptions**: list prices of on-demand use as of {as_of}, {region}. They were
written down by hand and not fetched; check the large items against your own region. A month has
{hours} hours. Taxes, support, savings plans and free tiers are left out.
"""

_TAIL = """
## What to change first
- **Machines and volumes** are most of what is there in any case. A storage node needs its volume's
  throughput more than CPU; three small ones serve a small load.
- **Traffic between zones** is most of what is there by use: each message goes to three zones, and
  that is what survives the loss of one. Nothing here saves it.
- **Private endpoints** cost by zone: `sulina:endpointZones 1` is a third of it, and without that
  zone no container can start anywhere while it is away; what runs, runs on.
- **Autoscaling** adds brokers up to `sulina:brokerMost`; each is the first line divided by
  `brokerLeast`.
"""


if __name__ == "__main__":
    sys.stdout.write(page())
