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
class Endpoint:
    """How clients come in."""

    public: bool
    allowed: tuple[str, ...]
    """Who may connect: blocks of addresses. Empty is the VPC alone."""
    domain: str
    zone_id: str
    """Route 53's zone of the domain: records and a certificate are made in it."""
    certificate_arn: str
    require_tls: bool

    @property
    def tls(self) -> bool:
        """Whether the load balancer has a certificate to show."""
        return bool(self.certificate_arn or self.zone_id)


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
    image_tag: str
    etcd_version: str
    etcd_state: str
    endpoint: Endpoint
    brokers: Brokers
    etcd: Members
    storage: Members
    lake: Lake
    analytics: Analytics
    functions_folder: str
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
            image_tag=values.text(
                "imageTag", "", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "a tag of a container image"
            ),
            etcd_version=values.text(
                "etcdVersion", "v3.5.24", r"v\d+\.\d+\.\d+", "a version of etcd such as v3.5.24"
            ),
            etcd_state=values.choice("etcdState", "new", ("new", "existing")),
            endpoint=_endpoint(values),
            brokers=_brokers(values),
            etcd=_etcd(values),
            storage=_storage(values),
            lake=Lake(
                values.number("lakeColdDays", 30, 0, 3_650),
                values.number("lakeKeepDeletedDays", 7, 0, 365),
            ),
            analytics=_analytics(values),
            functions_folder=values.text("functionsFolder", "build/functions"),
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


def _network(values: Values) -> str:
    found = values.text("network", "10.42.0.0/16")
    try:
        network = ipaddress.IPv4Network(found)
    except ValueError:
        network = None
    if network is None or network.prefixlen != 16 or not network.is_private:
        raise values.wrong("network", "must be a private block of 65,536 addresses: 10.42.0.0/16")
    return found


def _endpoint(values: Values) -> Endpoint:
    found = Endpoint(
        public=values.flag("public", False),
        allowed=values.networks("allowed"),
        domain=values.text(
            "domain", "", r"([a-z0-9-]+\.)+[a-z]{2,}", "a name such as sulina.example.com"
        ),
        zone_id=values.text("zoneId", "", r"[A-Z0-9]{1,32}", "the id of a Route 53 zone"),
        certificate_arn=values.text(
            "certificateArn",
            "",
            r"arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/[\w-]+",
            "the ARN of a certificate of ACM",
        ),
        require_tls=values.flag("requireTls", False),
    )
    if bool(found.zone_id or found.certificate_arn) > bool(found.domain):
        raise values.wrong("domain", "must be the name that the certificate is for")
    if found.domain and not found.tls:
        raise values.wrong("zoneId", "must be given for a domain, or a certificateArn instead")
    if (found.public or found.require_tls) and not found.tls:
        raise values.wrong(
            "public" if found.public else "requireTls",
            "there is no certificate; with sulina:domain and sulina:zoneId one is made, with "
            "sulina:domain and sulina:certificateArn yours is used",
        )
    wide = any(ipaddress.IPv4Network(each).prefixlen < 8 for each in found.allowed)
    if found.public and (wide or not found.allowed):
        raise values.wrong(
            "allowed", "must name the networks that may connect, none larger than a /8"
        )
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
