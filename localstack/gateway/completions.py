"""All that moto lacks."""

from __future__ import annotations

from localstack.deployment.account import EmulatedAccount
from localstack.gateway.athena import Workgroups
from localstack.gateway.bucket_policies import BucketPolicies
from localstack.gateway.cloudwatch import CloudWatchCbor
from localstack.gateway.dlm import DlmPolicies
from localstack.gateway.ec2 import Machines
from localstack.gateway.ecs import EcsDeployments
from localstack.gateway.emr import EmrApplications
from localstack.gateway.prometheus import AlertManagers
from localstack.gateway.route53 import DnsRecords
from localstack.gateway.scaling import ScalingTags
from localstack.gateway.server import Completion


def for_moto(moto: EmulatedAccount, ecs: EcsDeployments) -> list[Completion]:
    """What the plugin needs beyond the account that is in moto."""
    return [
        ecs,
        Workgroups(),
        DlmPolicies(),
        BucketPolicies(),
        Machines(),
        DnsRecords(),
        AlertManagers(),
        ScalingTags(),
        CloudWatchCbor(moto),
        EmrApplications(moto),
    ]
