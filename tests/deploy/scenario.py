"""What ``make deploy-test`` does with each stack, and what must be true after each step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from infra.config.stack_file import stack_values
from localstack.cloud.endpoints import emulated_aws
from localstack.cloud.engine import provider_settings
from localstack.deployment.account import EmulatedAccount
from localstack.emulators.moto import running_moto
from localstack.gateway.completions import for_moto
from localstack.gateway.ecs import BROKEN, EcsDeployments
from localstack.gateway.server import Gateway
from tests.deploy.differences import split
from tests.deploy.engine import Engine, Outcome, Step
from tests.infra.builds import public_zone, write_built

_DATA: Final = ("ebs/volume:Volume", "s3/bucket:Bucket", "kms/key:Key")
"""What holds data: no change of a setting deletes or replaces it."""
_DISRUPTIVE: Final = (
    *("aws:ec2/instance:Instance", "aws:ec2/volumeAttachment:VolumeAttachment"),
    *("aws:ebs/volume:Volume", "aws:ecs/service:Service"),
)
"""What interrupts a member while it changes."""
_SERVING: Final = ("aws:lb/loadBalancer:LoadBalancer", "aws:lb/targetGroup:TargetGroup")
_DELETING: Final = {"delete", "replace", "delete-replaced", "create-replacement"}
_MORE_ENDPOINTS: Final = ("acm", "amp", "route53")
"""Services that ``dev`` and ``prod`` use, but not ``localstack``."""
_ZONE: Final = "(the public zone)"
_DOMAIN: Final = {"domain": "sulina.example.com", "zoneId": _ZONE}


@dataclass(frozen=True, slots=True)
class Change:
    """A change of settings, and the types of resources that it must change."""

    name: str
    settings: Mapping[str, str]
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StackPlan:
    """How a stack is tested."""

    settings: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()


_PUBLIC: Final = {"public": "true", "allowed": "203.0.113.0/24"}
_PRIVATE: Final = {"public": "false", "allowed": "10.42.0.0/16"}
_TLS: Final = {"internalTls": "true", **_DOMAIN}
_OTHER_BALANCER: Final = ("lb/loadBalancer:LoadBalancer", "ecs/service:Service")
STACKS: Final = {
    "localstack": StackPlan(
        changes=(
            Change(
                "objects are kept and cooled",
                {"lakeColdDays": "30", "lakeKeepDeletedDays": "3"},
                ("s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",),
            ),
        ),
    ),
    "dev": StackPlan(
        changes=(
            Change("more brokers", {"brokerMax": "6"}, ("appautoscaling/target:Target",)),
            Change(
                "larger brokers",
                {"brokerCpu": "1024", "brokerMemory": "4096"},
                ("ecs/taskDefinition:TaskDefinition", "ecs/service:Service"),
            ),
            Change("another version", {"imageTag": "1.2.4"}, ("ecs/service:Service",)),
            Change("larger volumes", {"storageVolumeGib": "30"}, ("ebs/volume:Volume",)),
            Change(
                "larger machines", {"storageInstance": "t4g.medium"}, ("ec2/instance:Instance",)
            ),
            Change("a fourth storage node", {"storageCount": "4"}, ("ebs/volume:Volume",)),
            Change(
                "objects are kept and cooled",
                {"lakeColdDays": "30", "lakeKeepDeletedDays": "3"},
                ("s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",),
            ),
            Change(
                "a schedule",
                {"scheduleStatistics": "rate(1 hour)"},
                ("scheduler/schedule:Schedule",),
            ),
            Change("longer logs", {"logDays": "14"}, ("cloudwatch/logGroup:LogGroup",)),
            Change(
                "endpoints instead of a NAT machine",
                {"egress": "endpoints", "endpointZones": "1"},
                ("ec2/vpcEndpoint:VpcEndpoint",),
            ),
            Change(
                "alarms by e-mail",
                {"alarmEmail": "alarms@example.com"},
                ("sns/topicSubscription:TopicSubscription",),
            ),
            Change(
                "metrics in Managed Prometheus",
                {"prometheus": "true"},
                ("amp/workspace:Workspace", "amp/alertManagerDefinition:AlertManagerDefinition"),
            ),
            Change("brokers on demand", {"brokerSpot": "false"}, ("ecs/service:Service",)),
            # Not one after the other: moto cannot change the protocol of a listener to TLS.
            Change("TLS everywhere, public", {**_PUBLIC, **_TLS}, _OTHER_BALANCER),
            Change("a private endpoint again", _PRIVATE, _OTHER_BALANCER),
        ),
    ),
    "prod": StackPlan(
        settings=_DOMAIN,
        changes=(
            Change("another version", {"imageTag": "1.2.4"}, ("ecs/service:Service",)),
            Change("larger machines", {"etcdInstance": "m7g.large"}, ("ec2/instance:Instance",)),
            Change("a public endpoint", _PUBLIC, _OTHER_BALANCER),
            Change("a private endpoint again", _PRIVATE, _OTHER_BALANCER),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one step."""

    stack: str
    step: str
    seconds: float
    counts: dict[str, int]
    problems: list[str]
    emulator: dict[str, int]
    """The number of steps that an emulator is to blame for, by reason."""


class _Run:
    """The steps of one stack, one after the other."""

    def __init__(
        self,
        stack: str,
        engine: Engine,
        gateways: Sequence[Gateway],
        ecs: EcsDeployments,
        base: Mapping[str, str],
        zone: str,
    ) -> None:
        self._stack, self._engine, self._gateways, self._ecs = stack, engine, gateways, ecs
        self._base = dict(base)
        self._zone = zone
        self._configure()

    def _configure(self, **more: str) -> None:
        """Set the settings that the steps so far have left, and ``more`` for this step."""
        settings = {**self._base, **more}
        if settings.get("zoneId") == _ZONE:
            settings["zoneId"] = self._zone
        self._engine.configure(settings)

    def steps(self) -> Iterator[Result]:
        """Run them. Stops where going on makes no sense."""
        first = self._result("preview", self._engine.preview(), only={"create"})
        yield first
        if first.problems:
            return
        first = self._result("up", self._engine.up(), only={"create"})
        yield first
        if first.problems:
            yield self._destroyed("destroy what was made")
            return
        yield self._result("up again changes nothing", self._engine.up(), only=set())
        for change in STACKS[self._stack].changes:
            yield self._changed(change)
        yield self._result("up again changes nothing", self._engine.up(), only=set())
        yield self._replaced("storage-2")
        yield from self._broken_image()
        yield from self._failing_brokers()
        yield self._another_network()
        yield from self._protected()
        yield self._destroyed("destroy")
        yield self._result("up after destroy", self._engine.up(), only={"create"})
        yield self._destroyed("destroy at the end")

    def _changed(self, change: Change) -> Result:
        self._configure(**change.settings)
        outcome = self._engine.up()
        if not outcome.code:
            self._base.update(change.settings)
        lacking = [
            f"{kind} did not change"
            for kind in change.changes
            if not outcome.of(kind) and not outcome.code
        ]
        return self._result(f"change: {change.name}", outcome, lacking)

    def _replaced(self, member: str) -> Result:
        """Replace one machine, as docs/deploy.md says."""
        urns = [
            each["urn"]
            for each in self._engine.resources()
            if each["urn"].endswith((f"Instance::{member}", f"VolumeAttachment::{member}"))
        ]
        outcome = self._engine.up(*(word for urn in urns for word in ("--replace", urn)))
        ours, _ = split(outcome.steps)
        own = (member, f"{member}-machine")  # the second is the alarm on its machine
        others = [f"{step} is not of {member}" for step in ours if step.name not in own]
        if not any(step.name == member for step in outcome.of("ec2/instance:Instance")):
            others.append(f"the machine of {member} was not replaced")
        return self._result(f"replace the machine of {member}", outcome, others)

    def _broken_image(self) -> Iterator[Result]:
        """A version that does not start is rolled back; one storage node is interrupted, once."""
        self._configure(imageTag=BROKEN)
        before = [self._ecs.runs(f"sulina-{self._stack}-storage-{each}") for each in (1, 2)]
        outcome = self._engine.up()
        problems = _refusal(outcome, "circuit breaker")
        tried = {step.name for step in outcome.of("ecs/service:Service")}
        if tried & {"broker", "storage-2", "storage-3"} or "storage-1" not in tried:
            problems.append(f"the broken version reached {', '.join(sorted(tried))}")
        if before != [self._ecs.runs(f"sulina-{self._stack}-storage-{each}") for each in (1, 2)]:
            problems.append("storage nodes do not run what they ran before")
        yield self._result("a broken image is refused", outcome, problems, fails=True)
        self._configure()
        outcome = self._engine.up("--refresh")
        again = [step for step in outcome.of("ecs/service:Service") if step.name == "storage-2"]
        problems = [f"{step} was not needed" for step in again]
        yield self._result("back to the image before", outcome, problems)
        yield self._result("up again changes nothing", self._engine.up(), only=set())

    def _failing_brokers(self) -> Iterator[Result]:
        """Brokers are rolled back; a second attempt does not pretend that they run."""
        self._ecs.failing.add(f"sulina-{self._stack}-broker")
        self._configure(brokerMemory="8192", brokerCpu="1024")
        outcome = self._engine.up()
        problems = _refusal(outcome, "circuit breaker")
        yield self._result("brokers that do not start are refused", outcome, problems, fails=True)
        outcome = self._engine.up()
        problems = _refusal(outcome, r"broker runs .*, not .*`pulumi up --refresh`")
        yield self._result("and the next up says so", outcome, problems, fails=True)
        self._ecs.failing.clear()
        outcome = self._engine.up("--refresh")
        missing = [] if outcome.of("ecs/service:Service") else ["brokers were not deployed again"]
        yield self._result("and then with --refresh they start", outcome, missing)
        self._configure()
        yield self._result("back to the brokers before", self._engine.up())

    def _another_network(self) -> Result:
        self._configure(network="10.43.0.0/16")
        outcome = self._engine.up()
        problems = _refusal(outcome, "which cannot be changed: set it back")
        problems += [f"{step} was done" for step in outcome.steps]
        self._configure()
        return self._result("another network is refused", outcome, problems, fails=True)

    def _protected(self) -> Iterator[Result]:
        self._configure(protect="true")
        yield self._result("protect", self._engine.up())
        before = len(self._engine.resources())
        for preview, name in ((True, "destroy is refused"), (False, "also without a preview")):
            outcome = self._engine.destroy(preview=preview)
            problems = _refusal(outcome, "protect")
            if (now := len(self._engine.resources())) != before:
                problems.append(f"{before - now} resources were deleted nevertheless")
            yield self._result(name, outcome, problems, fails=True, destroying=True)
        self._base["protect"] = "false"  # prod has it from the beginning
        self._configure()
        yield self._result("protect no longer", self._engine.up())

    def _destroyed(self, name: str) -> Result:
        outcome = self._engine.destroy()
        left = [f"{each['urn']} is left" for each in self._engine.resources()]
        return self._result(name, outcome, left, destroying=True)

    def _result(
        self,
        name: str,
        outcome: Outcome,
        problems: list[str] | None = None,
        *,
        only: set[str] | None = None,
        fails: bool = False,
        destroying: bool = False,
    ) -> Result:
        """Check what holds for every step; ``only`` are the operations that may occur."""
        found = list(problems or ())
        if outcome.code and not fails:
            found.append(outcome.errors or f"pulumi ended with {outcome.code}")
        ours, theirs = split(outcome.steps)
        if only is not None:
            found += [str(step) for step in ours if step.operation not in only]
        if not destroying:
            found += data_lost(ours) + at_the_same_time(ours) + gone_too_early(ours)
        for gateway in self._gateways:
            found += [f"{host} would have been called" for host in gateway.refused]
            gateway.refused.clear()
        return Result(
            self._stack,
            name,
            round(outcome.seconds, 1),
            outcome.counts,
            found,
            {why: len(steps) for why, steps in theirs.items()},
        )


def data_lost(steps: list[Step]) -> list[str]:
    """Steps that delete or replace what holds data."""
    kinds = {f"aws:{kind}" for kind in _DATA}
    return [
        f"data would be lost: {step}"
        for step in steps
        if step.kind in kinds and step.operation in _DELETING
    ]


def at_the_same_time(steps: list[Step]) -> list[str]:
    """Members of one group that were interrupted at the same time."""
    spans: dict[str, tuple[int, int]] = {}
    for step in steps:
        if step.kind not in _DISRUPTIVE or "Member$" not in step.urn or step.operation == "create":
            continue
        began, ended = spans.get(step.name, (step.began, step.began))
        spans[step.name] = (min(began, step.began), max(ended, step.ended or step.began))
    found = []
    for one, (began, ended) in spans.items():
        for other, (start, _) in spans.items():
            same_group = one.rpartition("-")[0] == other.rpartition("-")[0]
            if one != other and same_group and began <= start < ended:
                found.append(f"{one} and {other} were interrupted at the same time")
    return found


def gone_too_early(steps: list[Step]) -> list[str]:
    """Load balancers, and their target groups, that were deleted before others were there."""
    began = {step.urn: step.began for step in steps if step.operation == "create-replacement"}
    return [
        f"{step} came before its replacement"
        for step in steps
        if step.kind in _SERVING
        and step.operation == "delete-replaced"
        and step.began < began.get(step.urn, 0)
    ]


def _refusal(outcome: Outcome, sentence: str) -> list[str]:
    """The problem, if a command was not refused with a sentence."""
    if not outcome.code:
        return ["it was not refused"]
    if not re.search(sentence, outcome.errors):
        return [f"it was refused for another reason: {outcome.errors[:1_000]}"]
    return []


def run_stack(stack: str, folder: Path, pulumi: str) -> Iterator[Result]:
    """Start the stack's emulators, run all its steps on them, and stop them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "built").mkdir()
    base = {**write_built(folder / "built"), **STACKS[stack].settings}
    gateways = []
    with ExitStack() as running:
        if stack == "localstack":
            endpoints = running.enter_context(emulated_aws(stack, folder / "aws", 0))
            gateways.append(running.enter_context(Gateway(endpoints.url)))
            moto = endpoints.elsewhere["ecs"]
        else:
            moto = running.enter_context(running_moto(folder / "moto")).url
            base["emrRelease"] = "emr-7.9.0"  # moto knows no newer ones
        ecs = EcsDeployments()
        account = EmulatedAccount(moto, stack_values(stack)["aws:region"], {})
        gateways.append(running.enter_context(Gateway(moto, for_moto(account, ecs))))
        provider = provider_settings(gateways[0].url, gateways[-1].url)
        if stack != "localstack":
            provider["aws:endpoints"][0] |= dict.fromkeys(_MORE_ENDPOINTS, gateways[0].url)
            del provider["aws:region"]
        engine = Engine(folder, stack, pulumi, provider)
        yield from _Run(stack, engine, gateways, ecs, base, public_zone(moto)).steps()
