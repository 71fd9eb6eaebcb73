"""Schedules of Spark jobs, the catalog, the janitor and the scaler.

EventBridge Scheduler calls four functions, with a role that can call nothing else. A failed call
is retried for a while, then goes to the queue of failed calls.
"""

from __future__ import annotations

import json

import pulumi_aws as aws

from infra.component import Component, Deployment
from infra.functions.functions import Functions
from infra.functions.lambda_function import LambdaFunction
from infra.security.iam import allow, role, trust

CATALOG = "rate(10 minutes)"
"""New objects call the function themselves: this is for events that were lost, and retention."""
JANITOR = "rate(1 hour)"
SCALER = "rate(1 minute)"


class Schedules(Component):
    """The schedules, in their own schedule group."""

    def __init__(self, functions: Functions, parent: Deployment) -> None:
        super().__init__("Schedules", parent)
        settings, region = self.settings, self.region
        self._group = aws.scheduler.ScheduleGroup(
            "schedules", name=settings.prefix, opts=self.within()
        )
        self._failed_calls = functions.failed_calls
        names = ("analytics", "catalog", "janitor", "scaler")
        called = [functions.by_name[name].arn for name in names]
        self._role = role(
            self,
            "schedules",
            trust(
                "scheduler.amazonaws.com",
                region.account,
                region.arn("scheduler", f"schedule-group/{settings.prefix}"),
            ),
            [
                allow("Call", ["lambda:InvokeFunction"], called),
                allow("FailedCalls", ["sqs:SendMessage"], [functions.failed_calls.arn]),
            ],
        )
        for job, when in settings.spark.schedules.items():
            if when != "none":
                self._schedule(job, when, functions.by_name["analytics"], {"job": job})
        self._schedule("catalog", CATALOG, functions.by_name["catalog"], {})
        self._schedule("janitor", JANITOR, functions.by_name["janitor"], {})
        self._schedule("scaler", SCALER, functions.by_name["scaler"], {})
        self.register_outputs({})

    def _schedule(
        self, name: str, when: str, called: LambdaFunction, event: dict[str, str]
    ) -> None:
        given = {
            **event,
            # The scheduler fills in the scheduled time and the id of the call.
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
                "input": json.dumps(given),
                "retry_policy": {
                    "maximum_event_age_in_seconds": 60 if minutely else 3_600,
                    "maximum_retry_attempts": 0 if minutely else 10,
                },
                "dead_letter_config": {"arn": self._failed_calls.arn},
            },
            opts=self.within(),
        )
