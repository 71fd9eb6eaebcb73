"""What emulators do not return, told apart from what the program does.

A second ``pulumi up`` must change nothing. Where it does although the program asks for the same,
because an emulator forgets or changes a value, the difference is listed here with its reason. A
difference that is not listed is the program's, and fails the test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tests.deploy.engine import Step


@dataclass(frozen=True, slots=True)
class Difference:
    """An input that an emulator does not keep."""

    kind: str
    """The type of resource without ``aws:``, such as ``ecs/service:Service``."""
    properties: frozenset[str]
    """The top-level inputs."""
    reason: str


DIFFERENCES: Final = (
    Difference(
        "s3/bucket:Bucket",
        frozenset({"tags", "tagsAll"}),
        "moto forgets tags that are part of the creation of a bucket",
    ),
    Difference(
        "ec2/instance:Instance",
        frozenset({"disableApiTermination"}),
        "moto forgets the protection from termination that a machine is created with",
    ),
    Difference(
        "emrserverless/application:Application",
        frozenset({"architecture"}),
        "moto does not return the architecture of an application",
    ),
    Difference(
        "lambda/function:Function",
        frozenset({"loggingConfig"}),
        "moto does not return how a function logs",
    ),
)


def explained(step: Step) -> str | None:
    """The reason why an emulator is to blame for a step, or None if the program is."""
    properties = {path.partition(".")[0].partition("[")[0] for path in step.properties}
    for known in DIFFERENCES:
        if step.kind == f"aws:{known.kind}" and properties and properties <= known.properties:
            return known.reason
    return None


def split(steps: Iterable[Step]) -> tuple[list[Step], dict[str, list[Step]]]:
    """The steps that the program asked for, and the emulator's by reason."""
    steps = list(steps)
    ours: list[Step] = []
    theirs: dict[str, list[Step]] = {}
    # The deletion of what is replaced does not say why.
    reasons = {step.urn: reason for step in steps if (reason := explained(step))}
    for step in steps:
        reason = explained(step)
        if step.operation == "delete-replaced":
            reason = reasons.get(step.urn)
        if reason is None:
            ours.append(step)
        else:
            theirs.setdefault(reason, []).append(step)
    return ours, theirs
