"""Every setting of a deployment: its type, its default, and how it is checked.

The values come from ``Pulumi.<stack>.yaml`` (``pulumi config set sulina:<name> <value>``). Nothing
outside this package reads the configuration. docs/deploy.md lists every setting.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from infra.config.endpoint import EndpointSettings, parse_endpoint
from infra.config.values import Values
from infra.errors import DeploymentError

ZONES = 3
"""The number of availability zones: with three, a quorum survives the loss of one."""

LONGEST_STACK = 18
"""The length of a stack's name at which the names of target groups reach AWS's limit, 32."""

LAYERS = ("lake", "catalog", "cluster", "functions", "observability")
"""What ``sulina:upTo`` chooses from: each layer needs those before it.

Spark is deployed with ``functions``.
"""

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
class BrokerServiceSettings:
    """Stateless containers on Fargate."""

    minimum: int
    maximum: int
    cpu: int
    memory: int
    load: float
    """The average broker load, between 0 and 1, that autoscaling aims for."""
    lease_seconds: int
    spot: bool
    """Whether all brokers but one run on spare capacity, which AWS can take back."""
    policies: tuple[str, ...]
    """Policies of topics that set none, such as ``retention_ms=7d``."""


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Machines with one volume each: etcd members, or storage nodes."""

    count: int
    instance: str
    volume_gib: int
    volume_iops: int
    volume_mibps: int


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """Closed ledgers in S3."""

    cold_days: int
    """The age in days at which an object moves to a colder storage class; 0 means never."""
    keep_deleted_days: int
    """How many days a deleted object can be restored; 0 turns versioning off."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Spark on EMR Serverless."""

    release: str
    max_cpu: int
    max_memory_gib: int
    schedules: Mapping[str, str]
    """EventBridge schedule expressions by job; ``none`` turns a job's schedule off."""


@dataclass(frozen=True, slots=True)
class StackSettings:
    """All settings of one stack."""

    stack: str
    up_to: str
    architecture: str
    network: str
    zones: int
    """How many availability zones are in use: all of ``ZONES``, or one."""
    images: str
    """``build`` (with Docker), ``pushed`` (exist as ``image_tag``) or ``none`` (no images yet)."""
    image_tag: str
    """Empty with ``build``: the tag is then derived from the sources."""
    machine_image: str
    """The image (AMI) of machines; empty takes the newest for each new machine."""
    etcd_version: str
    etcd_state: str
    endpoint: EndpointSettings
    brokers: BrokerServiceSettings
    etcd: MemberSettings
    storage: MemberSettings
    internal_tls: bool
    """Whether clients, brokers, storage nodes and etcd use TLS with each other."""
    internal_authorities: tuple[str, ...]
    """Names of the certificate authorities that they trust; the first one signs."""
    lake: LakeSettings
    spark: SparkSettings
    functions_folder: str
    """The folder of function archives; empty packs them during deployment."""
    jobs_folder: str
    delete_orphans: bool
    """Whether the janitor deletes orphans, or only reports them."""
    discovery_read_only: bool
    """Whether the discovery function rejects requests that change something."""
    log_days: int
    alarm_email: str
    prometheus: bool
    """Whether there is a workspace of Managed Prometheus with Sulina's rules."""
    egress: str
    """How the VPC reaches AWS services: private ``endpoints``, or one ``nat`` machine."""
    endpoint_zones: int
    """The number of zones with private endpoints of AWS services; fewer cost less."""
    shell: bool
    """Whether operators can open a shell in containers (`aws ecs execute-command`)."""
    checks: bool
    """Whether the account and its quotas are checked before a deployment."""
    protect: bool
    """Whether resources that hold data are protected against deletion."""
    owner: str

    @property
    def prefix(self) -> str:
        """The prefix of every resource name."""
        return f"sulina-{self.stack}"

    @property
    def runs(self) -> bool:
        """Whether containers run; without images there is nothing to run."""
        return self.images != "none"

    @property
    def tls_ends_at(self) -> str:
        """Where clients' TLS ends: at the ``balancer``, or at the ``broker``; empty without TLS.

        Behind the load balancer there is TLS as well: everything is encrypted, or nothing.
        """
        if not self.internal_tls:
            return ""
        return "balancer" if self.endpoint.certified else "broker"

    def has(self, layer: str) -> bool:
        """Whether one of ``LAYERS`` is deployed."""
        return LAYERS.index(layer) <= LAYERS.index(self.up_to)

    @classmethod
    def parse(cls, stack: str, given: Mapping[str, str]) -> Self:
        """Parse a stack's name and configuration values. Raises ``DeploymentError``."""
        if len(stack) > LONGEST_STACK or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", stack):
            raise DeploymentError(
                f"{stack!r} cannot be used as a stack name because resources are named after it: "
                f"choose up to {LONGEST_STACK} lowercase letters and digits, with single hyphens "
                "between them (`pulumi stack init <name>`)"
            )
        values = Values(given)
        found = cls(
            stack=stack,
            up_to=values.choice("upTo", LAYERS[-1], LAYERS),
            architecture=values.choice("architecture", "arm64", ("arm64", "x86_64")),
            network=_network(values),
            zones=_zones(values),
            images=_images(values),
            image_tag=_image_tag(values),
            machine_image=values.text(
                "machineImage", "", r"ami-[0-9a-f]{8,17}", "the id of a machine image (AMI)"
            ),
            etcd_version=values.text(
                "etcdVersion", "v3.5.24", r"v\d+\.\d+\.\d+", "an etcd version such as v3.5.24"
            ),
            etcd_state=values.choice("etcdState", "new", ("new", "existing")),
            endpoint=parse_endpoint(values, values.flag("internalTls", True)),
            brokers=_brokers(values),
            etcd=_etcd(values),
            storage=_storage(values),
            internal_tls=values.flag("internalTls", True),
            internal_authorities=_authorities(values),
            lake=LakeSettings(
                values.number("lakeColdDays", 30, 0, 3_650),
                values.number("lakeKeepDeletedDays", 7, 0, 365),
            ),
            spark=_spark(values),
            functions_folder=values.text("functionsFolder"),
            jobs_folder=values.text("jobsFolder", "dist/emr"),
            delete_orphans=values.flag("deleteOrphans", False),
            discovery_read_only=values.flag("discoveryReadOnly", False),
            log_days=_log_days(values),
            alarm_email=values.text("alarmEmail", "", r"[^@\s]+@[^@\s]+", "an e-mail address"),
            prometheus=values.flag("prometheus", False),
            egress=values.choice("egress", "endpoints", ("endpoints", "nat")),
            endpoint_zones=values.number("endpointZones", ZONES, 1, ZONES),
            shell=values.flag("shell", False),
            checks=values.flag("checks", True),
            protect=values.flag("protect", True),
            owner=values.text("owner", "unknown", r"[\w .@+-]{1,64}", "a name for the tag Owner"),
        )
        values.end()
        for members, name in ((found.etcd, "etcdInstance"), (found.storage, "storageInstance")):
            _check_architecture(values, found.architecture, members, name)
        return found


def _images(values: Values) -> str:
    tag = _image_tag(values)
    found = values.choice("images", "pushed" if tag else "build", ("build", "pushed", "none"))
    if found == "pushed" and not tag:
        raise values.error("imageTag", "must be the tag of images that have been pushed")
    if found == "build" and tag:
        raise values.error(
            "images", "must be pushed when imageTag is set, because built images name their own tag"
        )
    return found


def _image_tag(values: Values) -> str:
    return values.text(
        "imageTag", "", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", "a container image tag"
    )


def _authorities(values: Values) -> tuple[str, ...]:
    found = values.listing("internalAuthorities", ("1",))
    good = all(re.fullmatch(r"[a-z0-9-]{1,20}", each) for each in found)
    if not found or not good or len(set(found)) < len(found):
        raise values.error("internalAuthorities", "must be one or more distinct names such as 1,2")
    return found


def _network(values: Values) -> str:
    found = values.text("network", "10.42.0.0/16")
    try:
        network = ipaddress.IPv4Network(found)
    except ValueError:
        network = None
    if network is None or network.prefixlen != 16 or not network.is_private:
        raise values.error("network", "must be a private /16 network such as 10.42.0.0/16")
    return found


def _zones(values: Values) -> int:
    found = values.number("zones", ZONES, 1, ZONES)
    if found not in (1, ZONES):
        raise values.error(
            "zones", f"must be 1 or {ZONES}, because two zones survive no more failures than one"
        )
    return found


def _brokers(values: Values) -> BrokerServiceSettings:
    minimum = values.number("brokerMin", 3, 1, 100)
    maximum = values.number("brokerMax", max(minimum, 12), 1, 1_000)
    cpu = values.number("brokerCpu", 1_024, 256, 16_384)
    memory = values.number("brokerMemory", max(2 * cpu, 2_048), 512, 122_880)
    if maximum < minimum:
        raise values.error("brokerMax", f"must not be less than brokerMin, which is {minimum}")
    if cpu not in _FARGATE:
        raise values.error("brokerCpu", f"must be one of {', '.join(map(str, _FARGATE))}")
    low, high = _FARGATE[cpu]
    if not low <= memory <= high or (memory % 1_024 and memory != 512):
        raise values.error(
            "brokerMemory",
            f"must be a multiple of 1,024 MiB from {low:,} to {high:,} with brokerCpu {cpu:,}",
        )
    load = values.fraction("brokerLoad", 0.6)
    lease = values.number("leaseSeconds", 8, 2, 300)
    spot = values.flag("brokerSpot", False)
    policies = values.listing("policies")
    if not all(re.fullmatch(r"[a-z_]+=(\d+[A-Za-z]*|true|false)", each) for each in policies):
        raise values.error(
            "policies", "must list policies such as retention_ms=7d,delete_consumed=true"
        )
    return BrokerServiceSettings(minimum, maximum, cpu, memory, load, lease, spot, policies)


def _etcd(values: Values) -> MemberSettings:
    count = values.number("etcdCount", 3, 1, 5)
    if count % 2 == 0:
        raise values.error("etcdCount", "must be odd (an even count tolerates no more failures)")
    return MemberSettings(
        count,
        values.text("etcdInstance", "t4g.small", r"[a-z0-9-]+\.[a-z0-9]+", "an instance type"),
        values.number("etcdVolumeGib", 20, 8, 1_024),
        3_000,
        125,
    )


def _storage(values: Values) -> MemberSettings:
    return MemberSettings(
        values.number("storageCount", 3, 1, 60),
        values.text("storageInstance", "m7g.large", r"[a-z0-9-]+\.[a-z0-9]+", "an instance type"),
        values.number("storageVolumeGib", 200, 8, 16_384),
        values.number("storageVolumeIops", 3_000, 3_000, 16_000),
        values.number("storageVolumeMibps", 125, 125, 1_000),
    )


def _spark(values: Values) -> SparkSettings:
    when = r"none|rate\(\d+ (minutes?|hours?|days?)\)|cron\([^()]+\)"
    wanted = "a schedule such as rate(1 hour) or cron(0 3 * * ? *), or none"
    return SparkSettings(
        values.text(
            "emrRelease", "emr-spark-8.0.0", r"emr-(spark-)?\d+\.\d+\.\d+", "an EMR release"
        ),
        values.number("emrMaxCpu", 32, 4, 4_000),
        values.number("emrMaxMemoryGib", 128, 16, 16_000),
        {
            job: values.text(f"schedule{job.capitalize()}", default, when, wanted)
            for job, default in (
                ("statistics", "rate(1 hour)"),
                ("audit", "cron(0 3 * * ? *)"),
                ("compaction", "cron(0 4 * * ? *)"),
            )
        },
    )


def _log_days(values: Values) -> int:
    found = values.number("logDays", 30, 1, 731)
    if found not in _RETENTIONS:
        raise values.error("logDays", f"must be one of {', '.join(map(str, _RETENTIONS))}")
    return found


def _check_architecture(
    values: Values, architecture: str, members: MemberSettings, name: str
) -> None:
    family = members.instance.partition(".")[0]
    arm = re.fullmatch(r"[a-z]+\d+g[a-z-]*", family) is not None
    if arm != (architecture == "arm64"):
        raise values.error(name, f"must be an instance type of sulina:architecture {architecture}")
