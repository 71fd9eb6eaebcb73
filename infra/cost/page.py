"""Writes docs/cost.md: the estimate of each stack, what was saved, and what else would save."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from infra.config.settings import StackSettings
from infra.config.stack_file import example_settings
from infra.cost import prices as p
from infra.cost.estimate import (
    PROMETHEUS,
    WORKLOADS,
    CostItem,
    CostWorkload,
    balanced,
    dollars,
    fixed,
    total,
    used,
)

_ZSTD: Final = 6.5
"""How much smaller zstd makes frames of JSON events of 230 bytes; random bytes stay as they are."""
_ZSTD_MIB_S: Final = 375
"""How fast one core compresses them."""
_INSIGHTS: Final = 8
"""The approximate number of Container Insights metrics per ECS service."""

SAVINGS: Final = {
    "dev": (
        (
            "a NAT machine instead of private endpoints in one zone",
            {"egress": "endpoints", "endpointZones": "1"},
        ),
        (
            "machines with 1 GiB of memory instead of 2 GiB",
            {"storageInstance": "t4g.small", "etcdInstance": "t4g.small"},
        ),
        (
            "brokers with 0.25 vCPU and 1 GiB instead of 0.5 vCPU and 2 GiB",
            {"brokerCpu": "512", "brokerMemory": "2048"},
        ),
        ("all brokers but one on spare capacity", {"brokerSpot": "false"}),
        ("one zone instead of three", {"zones": "3"}),
        ("data volumes of 10 GiB instead of 20 GiB", {"storageVolumeGib": "20"}),
        ("no hourly snapshots, which would outlive the stack", {"protect": "true"}),
    ),
    "prod": (
        (
            "private endpoints in two zones instead of three: one is left if a zone is lost, "
            "and the cluster does not survive the loss of two anyway",
            {"endpointZones": "3"},
        ),
        (
            "the IOPS and throughput that volumes include: an m7g.large sustains about 3,600 IOPS "
            "and 79 MB/s, so more would only help in bursts",
            {"storageVolumeIops": "6000", "storageVolumeMibps": "250"},
        ),
    ),
}
"""By stack: what was chosen, and the settings that would undo the choice."""


def savings(stack: str) -> Iterator[CostItem]:
    """What each choice saves per month, everything else being as it is."""
    now = example_settings(stack)
    for text, without in SAVINGS[stack]:
        before, after = total(example_settings(stack, without)), total(now)
        yield CostItem(text, f"{before:,.2f} - {after:,.2f}", before - after)
    through = list(balanced(now, WORKLOADS[stack]))
    yield CostItem(
        "clients that connect to brokers directly instead of through the load balancer",
        " + ".join(each.arithmetic for each in through if each.dollars),
        dollars(iter(through)),
    )
    count = now.etcd.count + now.storage.count + 1
    yield CostItem(
        "the metrics that ECS publishes for free instead of Container Insights",
        f"{count} services x about {_INSIGHTS} metrics x {p.METRIC:.2f}",
        count * _INSIGHTS * p.METRIC,
    )


def table(settings: StackSettings) -> list[str]:
    """The estimate of one stack as the lines of a Markdown table."""
    lines = ["| item | arithmetic | $ per month |", "|---|---|---:|"]
    work = WORKLOADS.get(settings.stack)
    for name, items in (
        ("fixed", list(fixed(settings))),
        ("by use", list(used(settings, work)) if work else []),
    ):
        lines += [_row(each) for each in items]
        lines.append(f"| **{name}** | | **{dollars(iter(items)):,.0f}** |")
    return [*lines, f"| **total** | | **{total(settings):,.0f}** |"]


def page() -> str:
    """The text of docs/cost.md."""
    lines = [_HEAD.format(as_of=p.AS_OF, region=p.REGION, hours=p.HOURS)]
    for stack, work in WORKLOADS.items():
        settings = example_settings(stack)
        lines += [
            f"## {stack}",
            f"Workload: {work.mib_s:g} MiB/s published on average, each message delivered "
            f"{'once' if work.fan_out == 1 else f'{work.fan_out} times'}, {work.lake_days} days "
            f"in the lake at a compression ratio of {work.ratio:g}, one object per "
            f"{work.object_mib} MiB published, {work.job_hours:g} hours of Spark jobs and "
            f"{work.log_gib:g} GiB of logs per month.",
            "",
            *table(settings),
            "",
            "What its choices save, each compared with everything else as it is:",
            "",
            "| choice | arithmetic | $ per month |",
            "|---|---|---:|",
            *(_row(each) for each in savings(stack)),
            "",
        ]
    gateways = 3 * p.HOURS * (p.NAT_GATEWAY_HOUR + p.PUBLIC_ADDRESS_HOUR)
    endpoints = next(
        each.dollars for each in fixed(example_settings("prod")) if each.name == "private endpoints"
    )
    tail = _TAIL.format(
        gateways=f"3 x {p.HOURS} h x ({p.NAT_GATEWAY_HOUR} + {p.PUBLIC_ADDRESS_HOUR})",
        gateway_dollars=gateways,
        endpoint_dollars=endpoints,
        **_compression(),
        **{f"{stack}_samples": _samples(stack) for stack in WORKLOADS},
    )
    return "\n".join(lines) + tail


def _samples(stack: str) -> float:
    """What the samples cost with Managed Prometheus, per month."""
    items = fixed(example_settings(stack, {"prometheus": "true"}))
    return next(each.dollars for each in items if each.name == PROMETHEUS)


def _compression() -> dict[str, float]:
    """What compression by producers saves in prod, per month."""
    settings, work = example_settings("prod"), WORKLOADS["prod"]
    smaller = replace(work, mib_s=work.mib_s / _ZSTD)

    def traffic(load: CostWorkload) -> float:
        found = {each.name: each.dollars for each in used(settings, load)}
        return found["traffic between zones"]

    core = work.mib_s / _ZSTD_MIB_S
    return {
        "ratio": _ZSTD,
        "plain_dollars": traffic(work),
        "compressed_dollars": traffic(smaller),
        "core_percent": core * 100,
        "copies_dollars": traffic(replace(work, fan_out=-1)) * (1 - 1 / _ZSTD),
    }


def _row(item: CostItem) -> str:
    return f"| {item.name} | {item.arithmetic} | {item.dollars:,.2f} |"


_HEAD = """# What it costs

An estimate for the two stacks that come with Sulina. `python -m infra.cost > docs/cost.md` makes
this page from the stack files and a price table
([infra/cost/prices.py](../infra/cost/prices.py)); a test checks that it is current.

**For your own settings**, `pulumi preview` and `pulumi up` print the estimate before anything is
created, and `pulumi stack output monthlyCost` shows it afterwards. Without Pulumi,
`python -m infra.cost dev` prints the table of `Pulumi.dev.yaml`.

**The prices are assumptions**: on-demand list prices as of {as_of}, {region}. They were entered by
hand; check the largest items against your own region. A month has {hours} hours. Taxes, support,
savings plans and free tiers are not included.
"""

_TAIL = """
## How to reduce it
- **Machines and volumes** are most of the fixed cost. A storage node needs volume throughput more
  than CPU; three small ones serve a small load. Volumes grow while in use, so start small. A
  savings plan or reserved capacity lowers the price of machines that run all year.
- **Traffic between zones** is most of the cost by use: every message is stored in three zones so
  that it survives the loss of one. `sulina:zones 1` avoids it, and gives that up.
- **Let clients connect directly.** The estimate assumes that clients use `directUrl`
  ([inside the network](deploy.md#inside-the-network)). Through the load balancer, each transfer
  costs its capacity, and traffic to the topic's owner.
- **Let producers compress** (`compression="zstd"`, off by default). A frame stays compressed on all
  its ways: to brokers, between zones, to consumers. JSON events of 230 bytes, in frames of 150 KiB,
  become {ratio:g} times smaller; traffic between zones in prod then costs {compressed_dollars:,.0f}
  instead of {plain_dollars:,.0f}, for {core_percent:.1f} % of a core at the producers. Brokers do
  not compress for them: that would save the copies alone, {copies_dollars:,.0f}, and they would
  have to open every frame and to encode it again.
- **Reads of older messages** are free between brokers and storage nodes: a broker asks nodes of its
  own zone first, which saves 1,000 GB x 0.67 x 0.02 = 13.40 per TB of replay. To keep producers and
  consumers of a topic in its owner's zone as well, use
  [affinity rules](balance.md#placement) with the label `zone=<zone>` of brokers.
- **Private endpoints** cost per zone: with `sulina:endpointZones 1` they cost half, but while
  that zone is down no container can start in any zone; running containers are not affected.
  NAT gateways in three zones would cost {gateways} = {gateway_dollars:,.2f} instead of
  {endpoint_dollars:,.2f} and open a way to the internet. `sulina:egress nat` costs least: one small
  machine, for stacks that may stand still when it does.
- **Small sizes carry more than it seems.** On one machine, `sulina bench` at 67 MB/s through a
  broker and three storage nodes left 400 MiB of memory in use by the broker and 120 MiB by each
  node; each process needs about a second of CPU to start.
- **Burstable machines** (`t4g`) work off credits: a `t4g.micro` may use a tenth of its two
  processors all the time. What it uses beyond that costs 0.04 per vCPU and hour.
- **Autoscaling** adds brokers up to `sulina:brokerMax`; each costs the first line divided by
  `sulina:brokerMin`, or less with `sulina:brokerSpot`.
- **Managed Prometheus** (`sulina:prometheus`, off by default) costs by the sample:
  {dev_samples:,.2f} in dev and {prod_samples:,.2f} in prod, if it is written every 30 seconds and a
  broker has 2,000 series; private endpoints cost more with it, too.
- **A stack that nobody uses** costs its fixed part. `pulumi destroy` leaves nothing behind that
  costs anything if `sulina:protect` is off ([Deploy to AWS](deploy.md#delete-it)).
"""
