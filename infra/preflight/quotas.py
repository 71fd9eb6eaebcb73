"""Whether the account's quotas leave room for a stack.

What the stack itself has already created does not count as used, so the check also holds for
updates. Quotas that only limit growth cause a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from infra.artifacts import FUNCTIONS
from infra.component import ROOT_GIB
from infra.config.settings import StackSettings
from infra.network.firewall import most_rules
from infra.network.nat import INSTANCES
from infra.network.vpc_endpoints import services
from infra.preflight.access import AwsAccess
from infra.preflight.finding import Finding

_CONSOLE: Final = "https://console.aws.amazon.com/servicequotas/home/services"
_STANDARD: Final = frozenset("acdhimrtz")
"""The first letters of the instance types that share one quota."""


@dataclass(frozen=True, slots=True)
class QuotaNeed:
    """What a stack needs of one quota."""

    service: str
    code: str
    name: str
    needed: float
    used: Callable[[AwsAccess, StackSettings], float] | None = None
    """Counts what others use; None if the quota is for one VPC, or use is not known."""
    growth: bool = False
    """Whether only growth needs it, not the deployment."""


def needs(settings: StackSettings, vcpus: Callable[[str], int]) -> Iterator[QuotaNeed]:
    """The quotas that a stack uses; ``vcpus`` returns the processors of an instance type."""
    yield QuotaNeed("vpc", "L-F678F1CE", "VPCs per Region", 1, _vpcs)
    yield QuotaNeed("vpc", "L-1B52E74A", "Gateway VPC endpoints per Region", 1, _gateways)
    yield QuotaNeed(
        "vpc", "L-0EA8095F", "Inbound or outbound rules per security group", most_rules(settings)
    )
    if not settings.has("cluster"):
        return
    if endpoints := len(services(settings)):
        yield QuotaNeed("vpc", "L-29B6F2EB", "Interface VPC endpoints per VPC", endpoints)
    if settings.endpoint.public or settings.egress == "nat":
        yield QuotaNeed("vpc", "L-A4707A72", "Internet gateways per Region", 1, _internet)
    yield QuotaNeed(
        "ec2",
        "L-1216C47A",
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
        sum(vcpus(each) * count for each, count in _machines(settings).items() if _standard(each)),
        _running,
    )
    groups = (settings.etcd, settings.storage)
    gib = sum(group.count * (group.volume_gib + ROOT_GIB) for group in groups)
    yield QuotaNeed("ebs", "L-7A658B76", "Storage for gp3 volumes, in TiB", gib / 1_024)
    yield QuotaNeed(
        "elasticloadbalancing", "L-69A177A2", "Network Load Balancers per Region", 1, _balancers
    )
    # A deployment starts new brokers before it stops old ones.
    yield _fargate(settings, 2 * settings.brokers.minimum, growth=False)
    yield _fargate(settings, settings.brokers.maximum, growth=True)
    if settings.has("functions"):
        concurrent = len(FUNCTIONS)
        yield QuotaNeed("lambda", "L-B99A9384", "Concurrent executions", concurrent)
        yield QuotaNeed(
            "emr-serverless",
            "L-D05C8A75",
            "Max concurrent vCPUs per account",
            settings.spark.max_cpu,
            growth=True,
        )


def check_quotas(access: AwsAccess, settings: StackSettings) -> Iterator[Finding]:
    """One finding for each quota that is short. Blocks for seconds.

    What cannot be read is a warning: the deployment may work all the same.
    """
    try:
        sizes = _vcpus(access, list(_machines(settings)))
        for need in needs(settings, sizes.__getitem__):
            yield from _check(access, settings, need)
    except (BotoCoreError, ClientError) as error:
        yield Finding(
            f"the quotas were not checked ({' '.join(str(error).split())}): allow what "
            "infra/permissions/policies allows, or turn the check off with "
            "`pulumi config set sulina:checks false`",
            stops=False,
        )


def _check(access: AwsAccess, settings: StackSettings, need: QuotaNeed) -> Iterator[Finding]:
    limit = _limit(access, need)
    if limit is None:
        return
    used = need.used(access, settings) if need.used else 0
    if need.needed + used <= limit:
        return
    where = f"{need.service}/quotas/{need.code}"
    wanted = f"{need.needed + used:g}"
    beside = f" next to {used:g} in use" if used else ""
    verb = "can grow to" if need.growth else "needs"
    yield Finding(
        f"the quota {need.name!r} is {limit:g} in {access.region}, but this stack {verb} "
        f"{need.needed:g}{beside}: request more with `aws service-quotas "
        f"request-service-quota-increase --region {access.region} --service-code {need.service} "
        f"--quota-code {need.code} --desired-value {wanted}` or at {_CONSOLE}/{where}",
        stops=not need.growth,
    )


def _limit(access: AwsAccess, need: QuotaNeed) -> float | None:
    """The account's quota or, if it never had one of its own, AWS's default."""
    client = access.client("service-quotas")
    asked = {"ServiceCode": need.service, "QuotaCode": need.code}
    for ask in (client.get_service_quota, client.get_aws_default_service_quota):
        try:
            return float(ask(**asked)["Quota"]["Value"])
        except ClientError as error:
            if error.response["Error"]["Code"] not in _ABSENT:
                raise
    return None


_ABSENT: Final = ("NoSuchResource", "NoSuchResourceException", "404")


def _fargate(settings: StackSettings, brokers: int, *, growth: bool) -> QuotaNeed:
    cpu = brokers * settings.brokers.cpu / 1_024
    if settings.brokers.spot:
        name = "Fargate Spot vCPU resource count"
        return QuotaNeed("fargate", "L-36FBB829", name, cpu, growth=growth)
    name = "Fargate On-Demand vCPU resource count"
    return QuotaNeed("fargate", "L-3032A538", name, cpu, growth=growth)


def _machines(settings: StackSettings) -> Counter[str]:
    found = Counter({settings.etcd.instance: settings.etcd.count}) + Counter(
        {settings.storage.instance: settings.storage.count}
    )
    if settings.egress == "nat":
        found[INSTANCES[settings.architecture]] += 1
    return found


def _standard(instance: str) -> bool:
    return instance[0] in _STANDARD and not instance.startswith(("inf", "hpc", "trn", "dl"))


def _vcpus(access: AwsAccess, instances: list[str]) -> dict[str, int]:
    """The processors of instance types."""
    pages = access.client("ec2").get_paginator("describe_instance_types")
    return {
        each["InstanceType"]: each["VCpuInfo"]["DefaultVCpus"]
        for page in (pages.paginate(InstanceTypes=instances) if instances else ())
        for each in page["InstanceTypes"]
    }


def _ours(resource: dict[str, Any], settings: StackSettings) -> bool:
    tags = {each["Key"]: each["Value"] for each in resource.get("Tags", ())}
    return (tags.get("Project"), tags.get("Stack")) == ("sulina", settings.stack)


def _others(
    access: AwsAccess, settings: StackSettings, operation: str, key: str, **given: Any
) -> list[dict[str, Any]]:
    """All resources that an operation of EC2 lists, without those of this stack."""
    pages = access.client("ec2").get_paginator(operation).paginate(**given)
    return [each for page in pages for each in page[key] if not _ours(each, settings)]


def _vpcs(access: AwsAccess, settings: StackSettings) -> float:
    return len(_others(access, settings, "describe_vpcs", "Vpcs"))


def _gateways(access: AwsAccess, settings: StackSettings) -> float:
    only = [{"Name": "vpc-endpoint-type", "Values": ["Gateway"]}]
    found = _others(access, settings, "describe_vpc_endpoints", "VpcEndpoints", Filters=only)
    return len(found)


def _internet(access: AwsAccess, settings: StackSettings) -> float:
    return len(_others(access, settings, "describe_internet_gateways", "InternetGateways"))


def _running(access: AwsAccess, settings: StackSettings) -> float:
    only = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    found = _others(access, settings, "describe_instances", "Reservations", Filters=only)
    machines = Counter(
        str(each["InstanceType"])
        for reservation in found
        for each in reservation["Instances"]
        if not _ours(each, settings) and _standard(each["InstanceType"])
    )
    sizes = _vcpus(access, list(machines))
    return sum(count * sizes[each] for each, count in machines.items())


def _balancers(access: AwsAccess, settings: StackSettings) -> float:
    pages = access.client("elbv2").get_paginator("describe_load_balancers").paginate()
    found = [each for page in pages for each in page["LoadBalancers"]]
    others = [each for each in found if not each["LoadBalancerName"].startswith(settings.prefix)]
    return sum(1 for each in others if each["Type"] == "network")
