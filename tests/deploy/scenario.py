"""What ``make deploy-test`` does with each stack, and what must be true after each step."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from infra.config.stack_file import stack_values
from localstack.emulators.aws import running_localstack
from localstack.emulators.moto import running_moto
from tests.deploy.bucket_policies import BucketPolicies
from tests.deploy.cloudwatch import CloudWatchCbor
from tests.deploy.differences import split
from tests.deploy.dlm import DlmPolicies
from tests.deploy.ec2 import Machines
from tests.deploy.ecs import BROKEN, EcsDeployments
from tests.deploy.emr import EmrApplications
from tests.deploy.engine import Engine, Outcome, Step
from tests.deploy.gateway import Completion, Gateway
from tests.deploy.scaling import ScalingTags
from tests.infra.builds import public_zone, write_built

_DATA: Final = ("ebs/volume:Volume", "s3/bucket:Bucket", "kms/key:Key")
"""What holds data: no change of a setting deletes or replaces it."""
_DISRUPTIVE: Final = (
    *("aws:ec2/instance:Instance", "aws:ec2/volumeAttachment:VolumeAttachment"),
    *("aws:ebs/volume:Volume", "aws:ecs/service:Service"),
)
"""What interrupts a member while it changes."""
_DELETING: Final = {"delete", "replace", "delete-replaced", "create-replacement"}
_SERVICES: Final = (
    *("acm", "appautoscaling", "athena", "budgets", "cloudwatch", "dlm", "dynamodb", "ec2", "ecr"),
    *("ecs", "elbv2", "emrserverless", "events", "glue", "iam", "kms", "lambda", "logs"),
    *("route53", "s3", "scheduler", "secretsmanager", "servicediscovery", "servicequotas", "sns"),
    *("sqs", "ssm", "sts"),
)
"""The endpoints of the provider for ``dev`` and ``prod``: a missing one is found by the gateway."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of settings, and the types of resources that it must change."""

    name: str
    settings: Mapping[str, str]
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StackPlan:
    """How a stack is tested."""

    emulator: str
    settings: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    members: bool = False
    """Whether there are machines with members."""


STACKS: Final = {
    "localstack": StackPlan(
        emulator="localstack",
        changes=(
            Change(
                "objects are kept and cooled",
                {"lakeColdDays": "30", "lakeKeepDeletedDays": "3"},
                ("s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration",),
            ),
        ),
    ),
    "dev": StackPlan(
        emulator="moto",
        members=True,
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
        ),
    ),
    "prod": StackPlan(emulator="moto", members=True),
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
        self, stack: str, engine: Engine, gateway: Gateway, base: Mapping[str, str]
    ) -> None:
        self._stack, self._engine, self._gateway = stack, engine, gateway
        self._plan = STACKS[stack]
        self._base = dict(base)
        engine.configure(self._base)

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
        for change in self._plan.changes:
            yield self._changed(change)
        yield self._result("up again changes nothing", self._engine.up(), only=set())
        if self._plan.members:
            yield self._replaced("storage-2")
            yield from self._broken_image()
        yield from self._protected()
        yield self._destroyed("destroy")
        yield self._result("up after destroy", self._engine.up(), only={"create"})
        yield self._destroyed("destroy at the end")

    def _changed(self, change: Change) -> Result:
        self._base.update(change.settings)
        self._engine.configure(self._base)
        outcome = self._engine.up()
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
        ours, _ = split(outcome.steps, self._plan.emulator)
        own = (member, f"{member}-machine")  # the second is the alarm on its machine
        others = [f"{step} is not of {member}" for step in ours if step.name not in own]
        if not any(step.name == member for step in outcome.of("ec2/instance:Instance")):
            others.append(f"the machine of {member} was not replaced")
        return self._result(f"replace the machine of {member}", outcome, others)

    def _broken_image(self) -> Iterator[Result]:
        """A version that does not start is rolled back; at most one member is interrupted."""
        self._engine.configure({**self._base, "imageTag": BROKEN})
        outcome = self._engine.up()
        problems = [] if outcome.code else ["a version that does not start was deployed"]
        tried = {step.name for step in outcome.of("ecs/service:Service")}
        if len(tried) > 1:
            problems.append(f"the broken version reached {', '.join(sorted(tried))}")
        yield self._result("a broken image is refused", outcome, problems, fails=True)
        self._engine.configure(self._base)
        yield self._result("back to the image before", self._engine.up())
        yield self._result("up again changes nothing", self._engine.up(), only=set())

    def _protected(self) -> Iterator[Result]:
        self._engine.configure({**self._base, "protect": "true"})
        yield self._result("protect", self._engine.up())
        before = len(self._engine.resources())
        outcome = self._engine.destroy(preview=True)
        problems = []
        if not outcome.code:
            problems.append("destroy was not refused")
        elif not re.search("protect", outcome.errors):
            problems.append(f"destroy was refused for another reason: {outcome.errors[:500]}")
        if (now := len(self._engine.resources())) != before:
            problems.append(f"{before - now} resources were deleted nevertheless")
        yield self._result("destroy is refused", outcome, problems, fails=True, destroying=True)
        self._engine.configure(self._base)
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
        ours, theirs = split(outcome.steps, self._plan.emulator)
        if only is not None:
            found += [str(step) for step in ours if step.operation not in only]
        if not destroying:
            found += data_lost(ours)
        found += at_the_same_time(ours)
        found += [f"{host} would have been called" for host in self._gateway.refused]
        self._gateway.refused.clear()
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


def run_stack(stack: str, folder: Path, pulumi: str) -> Iterator[Result]:
    """Start the stack's emulator, run all its steps on it, and stop it."""
    plan = STACKS[stack]
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as running:
        start: Callable[[Path], Any] = (
            running_localstack if plan.emulator == "localstack" else running_moto
        )
        server = running.enter_context(start(folder / plan.emulator))
        region = stack_values(stack)["aws:region"]
        completions = for_moto(server.url, region) if plan.emulator == "moto" else []
        gateway = running.enter_context(Gateway(server.url, completions))
        engine = Engine(folder, stack, pulumi, provider_settings(stack, gateway.url))
        base = dict(plan.settings)
        if plan.emulator == "moto":
            (folder / "built").mkdir()
            base |= write_built(folder / "built")
            base["emrRelease"] = "emr-7.9.0"  # moto knows no newer ones
        if stack == "prod":
            base |= {"domain": "sulina.example.com", "zoneId": public_zone(server.url)}
        yield from _Run(stack, engine, gateway, base).steps()


def for_moto(url: str, region: str) -> list[Completion]:
    """What moto at ``url`` lacks, by service."""
    return [
        EcsDeployments(),
        DlmPolicies(),
        BucketPolicies(),
        Machines(),
        ScalingTags(),
        CloudWatchCbor(url, region),
        EmrApplications(url, region),
    ]


def provider_settings(stack: str, url: str) -> dict[str, Any]:
    """The provider's settings for the emulator behind the gateway at ``url``.

    They are those of the stack for LocalStack, so that its file is tested as it is.
    """
    port = url.rpartition(":")[2]
    found: dict[str, Any] = {
        name: re.sub(r":4566\b", f":{port}", value)
        for name, value in stack_values("localstack").items()
        if name.startswith("aws:")
    }
    if stack != "localstack":
        endpoints = dict.fromkeys(_SERVICES, url)
        endpoints["s3control"] = f"http://localhost:{port}"
        found["aws:endpoints"] = [endpoints]
        del found["aws:region"]
    else:
        found["aws:endpoints"] = json.loads(found["aws:endpoints"])
    return found
