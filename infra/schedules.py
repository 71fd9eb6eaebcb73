"""What happens by the clock: Spark's jobs, the janitor, the scaler.

EventBridge's scheduler calls functions, with a role that may call these three and nothing else. A
call that can't be made is tried again for a while, then lies in the queue of failed calls.
"""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

from infra.config import Settings
from infra.function import Function
from infra.functions import Functions
from infra.policies import allow, trust
from infra.roles import role
from infra.tier import Place, Tier

JANITOR = "rate(1 hour)"
SCALER = "rate(1 minute)"


class Schedules(Tier):
    """The schedules, in a group of their own."""

    def __init__(
        self, settings: Settings, place: Place, functions: Functions, parent: pulumi.Resource
    ) -> None:
        super().__init__("Schedules", settings, place, parent)
        self._group = aws.scheduler.ScheduleGroup(
            "schedules", name=settings.prefix, opts=self.within()
        )
        self._failed = functions.failed
        called = ("analytics", "janitor", "scaler")
        self._role = role(
            self,
            "schedules",
            trust(
                "scheduler.amazonaws.com",
                place.account,
                place.arn("scheduler", f"schedule-group/{settings.prefix}"),
            ),
            [
                allow(
                    "Call", ["lambda:InvokeFunction"], [functions.all[name].arn for name in called]
                ),
                allow("Failed", ["sqs:SendMessage"], [functions.failed.arn]),
            ],
        )
        jobs = {
            "statistics": settings.analytics.statistics,
            "audit": settings.analytics.audit,
            "compaction": settings.analytics.compaction,
        }
        for job, when in jobs.items():
            if when != "none":
                self._schedule(job, when, functions.all["analytics"], {"job": job})
        self._schedule("janitor", JANITOR, functions.all["janitor"], {})
        self._schedule("scaler", SCALER, functions.all["scaler"], {})
        self.register_outputs({})

    def _schedule(self, name: str, when: str, called: Function, event: dict[str, str]) -> None:
        told = {
            **event,
            # The scheduler puts these in: when it was meant to be, and which call it is.
            "scheduled": "<aws.scheduler.scheduled-time>",
            "execution": "<aws.scheduler.execution-id>",
        }
        minutely = when == SCALER
        aws.scheduler.Schedule(
            name,
            name=name,
            group_name=self._group.name,
            schedule_expression=when,
            schedule_expression_timezone="UTC",
            flexible_time_window={"mode": "OFF"},
            target={
                "arn": called.function.arn,
                "role_arn": self._role.arn,
                "input": json.dumps(told),
                "retry_policy": {
                    "maximum_event_age_in_seconds": 60 if minutely else 3_600,
                    "maximum_retry_attempts": 0 if minutely else 10,
                },
                "dead_letter_config": {"arn": self._failed.arn},
            },
            opts=self.within(),
        )
