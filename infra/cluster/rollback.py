"""Notices that ECS has gone back to the version before.

If a deployment fails, ECS rolls it back and `pulumi up` fails, but Pulumi's state has the version
that was asked for. The next `pulumi up` would find nothing to change, and succeed.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.component import Component


def check_runs(
    component: Component, service: aws.ecs.Service, definition: aws.ecs.TaskDefinition
) -> None:
    """Fail the deployment with a sentence if, in the end, the service has another definition."""
    found = aws.ecs.get_service_output(
        cluster_arn=service.cluster,
        service_name=service.name,
        opts=pulumi.InvokeOutputOptions(parent=component, depends_on=[service]),
    )

    def check(runs: str, wanted: str) -> None:
        if runs != wanted:
            raise pulumi.RunError(
                f"{definition._name} runs {runs.rpartition('/')[2]}, not "
                f"{wanted.rpartition('/')[2]}, which did not start when it was deployed: read its "
                "log, correct the cause, and run `pulumi up --refresh`"
            )

    pulumi.Output.all(found.task_definition, definition.arn).apply(lambda both: check(*both))
