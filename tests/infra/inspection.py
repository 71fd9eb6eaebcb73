"""What boto3 sees in the account after everything is created."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from localstack.deployment.account import EmulatedAccount


def look(account: EmulatedAccount) -> dict[str, Any]:
    """The responses of AWS's APIs, by name."""
    return {
        "targetGroups": _targets(account),
        "listeners": _listeners(account),
        "services": _services(account),
        "schedules": _schedules(account),
        "functions": _functions(account),
        "roles": _roles(account),
        "database": account.client("glue").get_database(Name="sulina_prod"),
        "applications": account.client("emr-serverless").list_applications()["applications"],
        "withoutTls": _without_tls(account),
    }


def _targets(account: EmulatedAccount) -> list[dict[str, Any]]:
    elb = account.client("elbv2")
    found: list[dict[str, Any]] = elb.describe_target_groups()["TargetGroups"]
    for each in found:
        asked = elb.describe_target_group_attributes(TargetGroupArn=each["TargetGroupArn"])
        each["Attributes"] = {one["Key"]: one["Value"] for one in asked["Attributes"]}
    return found


def _listeners(account: EmulatedAccount) -> list[dict[str, Any]]:
    elb = account.client("elbv2")
    balancer = elb.describe_load_balancers()["LoadBalancers"][0]["LoadBalancerArn"]
    found: list[dict[str, Any]] = elb.describe_listeners(LoadBalancerArn=balancer)["Listeners"]
    return found


def _services(account: EmulatedAccount) -> list[dict[str, Any]]:
    ecs, found = account.client("ecs"), []
    cluster = ecs.list_clusters()["clusterArns"][0]
    for arn in ecs.list_services(cluster=cluster, maxResults=100)["serviceArns"]:
        service = ecs.describe_services(cluster=cluster, services=[arn])["services"][0]
        definition = ecs.describe_task_definition(taskDefinition=service["taskDefinition"])
        found.append({**service, "definition": definition["taskDefinition"]})
    return found


def _schedules(account: EmulatedAccount) -> dict[str, Any]:
    scheduler = account.client("scheduler")
    names = [each["Name"] for each in scheduler.list_schedules()["Schedules"]]
    return {name: scheduler.get_schedule(GroupName="sulina-prod", Name=name) for name in names}


def _functions(account: EmulatedAccount) -> dict[str, Any]:
    found = account.client("lambda").list_functions()["Functions"]
    return {each["FunctionName"]: each for each in found}


def _roles(account: EmulatedAccount) -> dict[str, Any]:
    iam = account.client("iam")
    found = {}
    for role in iam.list_roles()["Roles"]:
        name = role["RoleName"]
        policies = [
            iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
            for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]
        ]
        attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
        found[name] = {
            "arn": role["Arn"],
            "policies": [json.dumps(policy) for policy in policies],
            "attached": attached,
        }
    return found


def _without_tls(account: EmulatedAccount) -> str:
    """What an upload without TLS is answered, by the policy of the lake."""
    s3 = account.client("s3")
    lake = next(b["Name"] for b in s3.list_buckets()["Buckets"] if "-lake-" in b["Name"])
    try:
        s3.put_object(Bucket=lake, Key="ledgers/x", Body=b"x")
    except ClientError as error:
        return str(error.response["ResponseMetadata"]["HTTPStatusCode"])
    return "accepted"
