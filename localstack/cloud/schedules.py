"""EventBridge Scheduler: calls the functions that the deployment's schedules name.

A minute of the schedules lasts as long as the cloud's setting says. A ``cron`` expression counts as
once per day. The time that a function is told is one day ahead, so that a job on the day before
covers what was published today.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from localstack.cloud.functions import FunctionRunner
from sulina.runtime.seam import Clock

_MINUTES: Final = {"minute": 1, "hour": 60, "day": 1_440}
_SHORTEST_SECONDS: Final = 1.0
_AHEAD: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to call which function with what."""

    name: str
    minutes: int
    function: str
    event: str
    """JSON, in which the scheduler replaces ``<aws.scheduler.*>``."""


def read_schedules(account: Any) -> list[Schedule]:
    """All enabled schedules of the account. Blocks."""
    scheduler = account.client("scheduler")
    found = []
    for page in scheduler.get_paginator("list_schedules").paginate():
        for each in page["Schedules"]:
            known = scheduler.get_schedule(Name=each["Name"], GroupName=each["GroupName"])
            if known.get("State", "ENABLED") == "ENABLED":
                target = known["Target"]
                found.append(
                    Schedule(
                        each["Name"],
                        minutes_of(known["ScheduleExpression"]),
                        target["Arn"].rpartition(":")[2],
                        target["Input"],
                    )
                )
    return found


def minutes_of(expression: str) -> int:
    """The minutes between two calls."""
    rate = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    return int(rate[1]) * _MINUTES[rate[2]] if rate else _MINUTES["day"]


async def run_schedule(
    schedule: Schedule, functions: FunctionRunner, minute_seconds: float, clock: Clock
) -> None:
    """Call the function at its times until cancelled; a call that takes longer skips times."""
    interval = max(schedule.minutes * minute_seconds, _SHORTEST_SECONDS)
    while True:
        await clock.sleep(interval)
        now = datetime.fromtimestamp(clock.wall_us() / 1e6, UTC) + _AHEAD
        event = schedule.event.replace(
            "<aws.scheduler.scheduled-time>", f"{now:%Y-%m-%dT%H:%M:%SZ}"
        )
        event = event.replace("<aws.scheduler.execution-id>", uuid.uuid4().hex)
        await functions.call_later(schedule.function, event.encode())
