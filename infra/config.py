"""What can be chosen about a deployment: typed, with defaults, and refused in words where wrong.

The values come from ``Pulumi.<stack>.yaml`` (``pulumi config set sulina:<name> <value>``). Nothing
else in this folder reads the configuration. docs/deploy.md lists every setting.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from infra.entrance import Endpoint, parse_endpoint
from infra.values import Values
from infra.wrong import Wrong

ZONES = 3
"""Over how many zones everything is spread: with three, losing one leaves a quorum."""

TIERS = ("lake", "catalogue", "cluster", "functions", "observability")
"""Each needs those before it. ``sulina:upTo`` says where to stop; analytics come with functions."""

_RETENTIONS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731)
_FARGATE = {
    256: (512, 2_048),
    512: (1_024, 4_096),
    1_024: (2_048, 8_192),
    2_048: (4_096, 16_384),
    4_096: (8_192, 30_720),
    8_192: (16_384, 61_440),
    16_384: (32_768, 122_880),
}


@dataclass(frozen=True, slots=True)
class Brokers:
    """Containers without state."""

    least: int
    most: int
    cpu: int
    memory: int
    load: float
    """The load, by the load manager's figures, that autoscaling keeps."""
    lease_seconds: int


@dataclass(frozen=True, slots=True)
class Members:
    """Machines with a volume each: etcd, or storage nodes."""

    count: int
    instance: str
    volume_gib: int
    volume_iops: int
    volume_mibps: int


@dataclass(frozen=True, slots=True)
class Lake:
    """Closed ledgers in S3."""

    cold_days: int
    """After so many days an object goes to a colder class; 0 is never."""
    keep_deleted_days: int
    """How long deleted objects can be brought back; 0 keeps no versions."""


@dataclass(frozen=True, slots=True)
class Analytics:
    """Spark on EMR Serverless."""

    release: str
    most_cpu: int
    most_memory_gib: int
    statistics: str
    audit: str
    compaction: str
    """Schedules, as EventBridge writes them; ``none`` leaves a job out."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that this program can be told."""

    stack: str
    up_to: str
    architecture: str
    network: str
    images: str
    """``build``: here, by Docker; ``pushed``: under ``image_tag`` already; ``none``: not yet."""
    image_tag: str
    """Empty with ``build``: what the images are made of names them then."""
    etcd_version: str
    etcd_state: str
    endpoint: Endpoint
    brokers: Brokers
    etcd: Members
    storage: Members
    inside_tls: bool
    """Whether brokers, storage nodes and etcd speak TLS to each other."""
    inside_authorities: tuple[str, ...]
    """Names of the authorities that they trust; the first signs."""
    lake: Lake
    analytics: Analytics
    functions_folder: str
    """Where the archives are; empty: they are packed here."""
    jobs_folder: str
    log_days: int
    alarm_email: str
    endpoint_zones: int
    """In how many zones the private endpoints of AWS's services stand: one is cheaper."""
    shell: bool
    """Whether operators can open a shell in containers (`aws ecs execute-command`)."""
    protect: bool
    """Whether what holds data refuses to be deleted."""
    owner: str

    @property
    def prefix(self) -> str:
        """What the name of every resource begins with."""
        return f"sulina-{self.stack}"

    @property
    def runs(self) -> bool:
        """Whether containers run: not while nobody has pushed an image."""
        return self.images != "none"

    def has(self, tier: str) -> bool:
        """Whether a tier is deployed."""
        return TIERS.index(tier) <= TIERS.index(self.up_to)

    @classmethod
    def parse(cls, stack: str, given: Mapping[str, str]) -> Self:
        """From a stack's name and its values. Raises ``Wrong``."""
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", stack):
            raise Wrong(
                f"the stack is called {stack!r} and resources are named after it: choose up to 20 "
                "small letters, digits and hyphens (`pulumi stack init <name>`)"
            )
        values = Values(given)
        found = cls(
            stack=stack,
            up_to=values.choice("upTo", TIERS[-1], TIERS),
            architecture=values.choice("architecture", "arm64", ("arm64", "x86_64")),
            network=_network(values),
            images=_images(values),
            image_tag=_image_tag(values),
            etcd_version=values.text(
                "etcdVersion", "v3.5.24", r"v\d+\.\d+\.\d+", "a version of etcd such as v3.5.24"
            ),
            etcd_state=values.choice("etcdState", "new", ("new", "existing")),
            endpoint=parse_endpoint(values),
            brokers=_brokers(values),
            etcd=_etcd(values),
            storage=_storage(values),
            inside_tls=values.flag("insideTls", True),
            inside_authorities=_authorities(values),
            lake=Lake(
                values.number("lakeColdDays", 30, 0, 3_650),
                values.number("lakeKeepDeletedDays", 7, 0, 365),
            ),
            analytics=_analytics(values),
            functions_folder=values.text("functionsFolder"),
            jobs_folder=values.text("jobsFolder", "dist/emr"),
            log_days=_log_days(values),
            alarm_email=values.text("alarmEmail", "", r"[^@\s]+@[^@\s]+", "an e-mail address"),
            endpoint_zones=values.number("endpointZones", ZONES, 1, ZONES),
            shell=values.flag("shell", False),
            protect=values.flag("protect", True),
            owner=values.text("owner", "unknown", r"[\w .@+-]{1,64}", "a name for the tag Owner"),
        )
        values.end()
        for members, name in ((found.etcd, "etcdInstance"), (found.storage, "storageInstance")):
            _fits(values, found.architecture, members, name)
        return found


def _images(values: Values) -> str:
    tag = _image_tag(values)
    found = values.choice("images", "pushed" if tag else "build", ("build", "pushed", "none"))
    if found == "pushed" and not tag:
        raise values.wrong("imageTag", "must be the tag under which the images were pushed")
    if found == "build" and tag:
        raise values.wrong(
            "images", "must be pushed for an imageTag: images built here name their own"
        )
    return found


def _image_tag(values: Values) -> str:
    return values.text(
        "imageTag", "", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "a tag of a container image"
    )


def _authorities(values: Values) -> tuple[str, ...]:
    found = values.listing("insideAuthorities", ("1",))
    good = all(re.fullmatch(r"[a-z0-9-]{1,20}", each) for each in found)
    if not found or not good or len(set(found)) < len(found):
        raise values.wrong(
            "insideAuthorities", "must be one or more names such as 1,2, no two alike"
        )
    return found


def _network(values: Values) -> str:
    found = values.text("network", "10.42.0.0/16")
    try:
        network = ipaddress.IPv4Network(found)
    except ValueError:
        network = None
    if network is None or network.prefixlen != 16 or not network.is_private:
        raise values.wrong("network", "must be a private block of 65,536 addresses: 10.42.0.0/16")
    return found


def _brokers(values: Values) -> Brokers:
    least = values.number("brokerLeast", 3, 1, 100)
    most = values.number("brokerMost", max(least, 12), 1, 1_000)
    cpu = values.number("brokerCpu", 1_024, 256, 16_384)
    memory = values.number("brokerMemory", max(2 * cpu, 2_048), 512, 122_880)
    if most < least:
        raise values.wrong("brokerMost", f"must not be below brokerLeast, which is {least}")
    if cpu not in _FARGATE:
        raise values.wrong("brokerCpu", f"must be one of {', '.join(map(str, _FARGATE))}")
    low, high = _FARGATE[cpu]
    if not low <= memory <= high or (memory % 1_024 and memory != 512):
        raise values.wrong(
            "brokerMemory",
            f"must be whole GiB in MiB from {low:,} to {high:,} with brokerCpu {cpu:,}",
        )
    load = values.share("brokerLoad", 0.6)
    lease = values.number("leaseSeconds", 8, 2, 300)
    return Brokers(least, most, cpu, memory, load, lease)


def _etcd(values: Values) -> Members:
    count = values.number("etcdCount", 3, 1, 5)
    if count % 2 == 0:
        raise values.wrong("etcdCount", "must be odd: an even one survives no more failures")
    return Members(
        count,
        values.text("etcdInstance", "t4g.small", r"[a-z0-9-]+\.[a-z0-9]+", "an instance type"),
        values.number("etcdVolumeGib", 20, 8, 1_024),
        3_000,
        125,
    )


def _storage(values: Values) -> Members:
    return Members(
        values.number("storageCount", 3, 1, 60),
        values.text("storageInstance", "m7g.large", r"[a-z0-9-]+\.[a-z0-9]+", "an instance type"),
        values.number("storageVolumeGib", 200, 8, 16_384),
        values.number("storageVolumeIops", 3_000, 3_000, 16_000),
        values.number("storageVolumeMibps", 125, 125, 1_000),
    )


def _analytics(values: Values) -> Analytics:
    when = r"none|rate\(\d+ (minutes?|hours?|days?)\)|cron\([^()]+\)"
    wanted = "a schedule such as rate(1 hour) or cron(0 3 * * ? *), or none"
    return Analytics(
        values.text(
            "emrRelease", "emr-spark-8.0.0", r"emr-(spark-)?\d+\.\d+\.\d+", "a release of EMR"
        ),
        values.number("emrMostCpu", 32, 4, 4_000),
        values.number("emrMostMemoryGib", 128, 16, 16_000),
        values.text("scheduleStatistics", "rate(1 hour)", when, wanted),
        values.text("scheduleAudit", "cron(0 3 * * ? *)", when, wanted),
        values.text("scheduleCompaction", "cron(0 4 * * ? *)", when, wanted),
    )


def _log_days(values: Values) -> int:
    found = values.number("logDays", 30, 1, 731)
    if found not in _RETENTIONS:
        raise values.wrong("logDays", f"must be one of {', '.join(map(str, _RETENTIONS))}")
    return found


def _fits(values: Values, architecture: str, members: Members, name: str) -> None:
    family = members.instance.partition(".")[0]
    arm = re.fullmatch(r"[a-z]+\d+g[a-z-]*", family) is not None
    if arm != (architecture == "arm64"):
        raise values.wrong(name, f"must be a type of {architecture}, which is the architecture")
